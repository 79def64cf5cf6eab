"""The questions of a folder put to scripted models: scores, resumption, comparison, baselines, the command line."""

from __future__ import annotations

import dataclasses
import json

import made_questions
import pyarrow.parquet as pq
import pytest
from stub_endpoint import StubEndpoint, prompt_of

from wearjax.benchmarks.wearableqa import asking, baselines, comparison, evaluate, results
from wearjax.benchmarks.wearableqa.candidate import Hidden
from wearjax.cli import qa_evaluate
from wearjax.errors import ConfigError, StoreError
from wearjax.language.answers import EndpointError
from wearjax.language.endpoint import Endpoint
from wearjax.language.questions_run import Agent
from wearjax.language.sandbox import Limits
from wearjax.report import qa_page


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_questions.write(tmp_path_factory.mktemp("asked") / "questions")


def knows(data, right):
    """A model that has the first `right` questions right and says J, or A, to the others."""
    answers = {}
    for i, item in enumerate(data.items):
        wrong = "J" if item.answer != "J" else "A"
        answers[item.stem, options(item)] = item.answer if i < right else wrong

    def answer(body):
        text = prompt_of(body)
        (letter,) = (a for (stem, shown), a in answers.items() if stem in text and shown in text)
        return f"Because.\nAnswer: {letter}"

    return answer


def options(item):
    return "\n".join(f"{letter}. {text}" for letter, text in zip("ABCDEFGHIJ", item.choices, strict=True))


def run(data, script, out, **options):
    with StubEndpoint(script) as stub:
        model = Endpoint(stub.url, "toy", retries=0, concurrency=2)
        return stub, evaluate.evaluate(data, model, output_dir=out, bootstrap=50, **options)


def test_accuracy_is_as_scripted_and_all_is_kept(data, tmp_path):
    stub, found = run(data, knows(data, 7), tmp_path / "run")
    assert (found.overall.n, found.overall.right, found.finished) == (12, 7, True)
    assert len(stub.bodies) == 12
    assert {body["temperature"] for body in stub.bodies} == {0.0}
    assert all("u0" not in text and "u3" not in text for text in stub.prompts)
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    assert stored["config"]["dataset"]["digest"] == data.digest
    assert stored["config"]["model"] == "toy"
    assert stored["responses"][0]["text"] == f"Because.\nAnswer: {data.items[0].answer}"
    assert stored["responses"][0]["prompt"] == asking.prompt(data.items[0], data.person("u0")).digest
    table = pq.read_table(tmp_path / "run" / "scores.parquet").to_pylist()
    assert table[0] == {"method": "toy", **dataclasses.asdict(found.overall)}
    assert {row["method"] for row in table} == {"toy", "random", "majority"}
    again = results.read(tmp_path / "run")
    assert (again.accuracies, again.positions, again.responses) == (
        found.accuracies,
        found.positions,
        found.responses,
    )
    assert "58.3 % of 12 questions" in found.summary()
    assert repr(found) == "QAResults(toy · row · cot: 58.3 % of 12)"
    assert found.to_dataframe()["right"].iloc[0] == 7
    before = (tmp_path / "run" / "results.json").read_bytes()
    stub, again = run(data, knows(data, 0), tmp_path / "run")
    assert (stub.bodies, again.summary()) == ([], found.summary()), "finished results are read"
    assert (tmp_path / "run" / "results.json").read_bytes() == before
    stub, again = run(data, knows(data, 0), tmp_path / "run", with_baselines=("random",))
    assert (stub.bodies, list(again.baselines), again.overall.right) == ([], ["random"], 7)
    for changed, told in (({"form": "csv"}, "another format"), ({"max_items": 3}, "another max_items")):
        with pytest.raises(ConfigError, match=rf"{told} \(.*force"):
            run(data, knows(data, 7), tmp_path / "run", **changed)
    stub, found = run(data, knows(data, 0), tmp_path / "run", force=True)
    assert (stub.bodies, found.overall.right) == ([], 7)  # the answers are still those that were given


def test_questions_without_a_reply_are_asked_again(data, tmp_path):
    answer = knows(data, 12)
    lost = options(data.items[5])

    def breaks(body):
        return (400, {}, b"too long") if lost in prompt_of(body) else answer(body)

    _, found = run(data, breaks, tmp_path / "run")
    assert (found.overall.right, found.overall.failed, found.finished) == (11, 1, False)
    assert "1 question got no reply and counts as wrong" in found.summary()
    assert "The first got none for: " in found.summary()
    assert "400" in found.first_failure
    stub, found = run(data, answer, tmp_path / "run")
    assert (len(stub.bodies), found.overall.right, found.finished) == (1, 12, True)


def test_answers_are_kept_by_what_was_asked(data, tmp_path):
    run(data, knows(data, 12), tmp_path / "run")
    stub, _ = run(data, knows(data, 12), tmp_path / "run", form="csv", force=True)
    assert len(stub.bodies) == 12
    stub, _ = run(data, knows(data, 12), tmp_path / "run", force=True)
    assert stub.bodies == []


def test_some_types_and_some_items(data, tmp_path):
    stub, found = run(data, knows(data, 12), tmp_path / "a", types=("concordance",))
    assert {a.category for a in found.answers} == {"concordance"}
    assert len(stub.bodies) == sum(i.category == "concordance" for i in data.items)
    _, found = run(data, knows(data, 12), tmp_path / "b", max_items=3)
    assert found.overall.n == 3
    with pytest.raises(ConfigError, match="question type 'guess': known are signal_summary"):
        run(data, "Answer: A", tmp_path / "c", types=("guess",))
    with pytest.raises(ConfigError, match="no question is left to ask of trend_shape"):
        run(data, "Answer: A", tmp_path / "c", types=("trend_shape",))


def test_runs_are_compared(data, tmp_path, monkeypatch):
    monkeypatch.setattr(qa_page, "_bars", lambda run, name: "")
    monkeypatch.setattr(qa_page, "_letters", lambda run, name: "")
    stub, cot = run(data, knows(data, 9), tmp_path / "cot")
    other, direct = run(data, knows(data, 5), tmp_path / "direct", mode="direct")
    assert {t.rpartition("\n\n")[0] for t in stub.prompts} == {t.rpartition("\n\n")[0] for t in other.prompts}
    _, csv = run(data, knows(data, 6), tmp_path / "csv", form="csv")
    _, bare = run(data, knows(data, 1), tmp_path / "bare", removed="series")
    found = comparison.compare([cot, direct, csv, bare], draws=50)
    assert {form: a.right for form, a in found.formats["toy · cot"].items()} == {"row": 9, "csv": 6}
    (reasoning,), (removal,) = found.reasoning, found.removals
    assert (reasoning.first, reasoning.second) == ("toy · row · direct", "toy · row · cot")
    assert reasoning.rows[0].difference == pytest.approx(4 / 12)
    assert removal.rows[0].difference == pytest.approx(-8 / 12)
    assert {row.value for row in removal.rows if row.axis == "scope"} == {"window", "history"}
    lines = [" ".join(line.split()) for line in found.summary().splitlines()]
    assert lines[0] == "run questions right 95 % interval"
    assert "Less data against all: share of right answers to the same questions" in lines
    assert "questions of number all data less data difference 95 % interval p (McNemar)" in lines
    assert "questions of number letter alone with reasoning difference 95 % interval p (McNemar)" in lines
    changed = {**bare.config, "dataset": {**bare.config["dataset"], "digest": "other"}}
    with pytest.raises(ConfigError, match="2 different data sets"):
        comparison.compare([cot, dataclasses.replace(bare, config=changed)])
    qa_evaluate.compare((tmp_path / "cot", tmp_path / "bare"), out=tmp_path / "both")
    assert (
        json.loads((tmp_path / "both" / "comparison.json").read_text())["removals"][0]["first"]
        == "toy · row · cot"
    )
    page = (tmp_path / "both" / "report.html").read_text()
    assert "Less data against all" in page
    assert '<th scope="col" class="n">All data</th><th scope="col" class="n">Less data</th>' in page


def test_an_agent_computes_the_answer(data, tmp_path):
    """The stub asks for a program that computes the mean of the window, and chooses the option nearest to it."""
    label = {"steps": "Steps", "rhr": "RHR", "sleep_duration": "Sleep(h)"}
    by_stem = {item.stem: label[item.metrics[0]] for item in data.items}

    def computes(body):
        first = body["messages"][0]["content"]
        column = next(name for stem, name in by_stem.items() if stem in first)
        if len(body["messages"]) == 1:
            return (
                "```python\nimport csv\n"
                "rows = list(csv.DictReader(open('record.csv')))\n"
                f"days = [float(r['{column}']) for r in rows if r['date'] > '2024-06-02' and r['{column}']]\n"
                "print(sum(days) / len(days))\n```"
            )
        value = float(prompt_of(body).removeprefix("Output:\n"))
        options = [line for line in first.split("## Options\n")[1].splitlines()[:10]]
        nearest = min(options, key=lambda line: abs(float(line[3:]) - value))
        return f"Answer: {nearest[0]}"

    agent = Agent(limits=Limits(cpu_s=5, wall_s=20), strict=False)
    stub, found = run(data, computes, tmp_path / "run", mode="agentic_fixed", agent=agent, max_items=2)
    assert (found.overall.right, found.counts["programs"]) == (2, 2)
    assert len(stub.bodies) == 4
    assert found.config["agent"]["runs"] == 12


def test_baselines(data):
    assert baselines.letters("solver", data.items, data.person) == [item.answer for item in data.items]
    assert baselines.letters("random", data.items) == baselines.letters("random", data.items)
    assert baselines.letters("random", data.items, seed=1) != baselines.letters("random", data.items)
    assert set(baselines.letters("majority", data.items)) <= set("ABCDEFGHIJ")
    with pytest.raises(ConfigError, match="baseline 'luck'"):
        baselines.letters("luck", data.items)
    with pytest.raises(ConfigError, match="at least two users"):
        baselines.majority(data.items[:3])


def test_options_only_finds_what_options_give_away():
    pytest.importorskip("sklearn")
    made = made_questions.items(10)
    leaky = [
        dataclasses.replace(
            i, choices=tuple(f"about {c}" if j != i.gold else f"exactly {c}" for j, c in enumerate(i.choices))
        )
        for i in made
    ]
    letters = baselines.letters("options_only", leaky)
    assert letters == [item.answer for item in leaky]


def test_hidden_parts_are_not_shown(data):
    person = data.person("u0")
    hidden = made_questions.item(
        "u0", "rhr", 2, hidden=Hidden(metrics=("steps",), window_metrics=("rhr",), cohort=True, blood=True)
    )
    text = asking.prompt(hidden, person).text
    assert "Steps" not in text
    assert "## Blood" not in text
    assert "## Cohort" not in text
    rows = [line for line in text.splitlines() if line[:4] == "2024"]
    assert any("RHR" in line for line in rows if line < "2024-06-03")
    assert not any("RHR" in line for line in rows if line >= "2024-06-03")
    window = asking.prompt(made_questions.item("u0", "rhr", 2, hidden=Hidden(history=True)), person).text
    assert min(line for line in window.splitlines() if line[:4] == "2024") >= "2024-06-03"
    assert (
        "## Sensor"
        not in asking.prompt(made_questions.item("u0", "rhr", 2, hidden=Hidden(series=True)), person).text
    )


def test_render_writes_all_prompts(data, tmp_path, capsys):
    qa_evaluate.render(data.path, out=tmp_path / "prompts", format="markdown", mode="direct")
    rows = [json.loads(line) for line in (tmp_path / "prompts" / "prompts.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [item.id for item in data.items]
    assert (
        rows[3]["prompt"]
        == asking.prompt(data.items[3], data.person("u1"), form="markdown", mode="direct").text
    )
    assert (rows[3]["answer"], rows[3]["representation"], rows[3]["images"]) == (
        data.items[3].answer,
        "markdown",
        [],
    )
    first = (tmp_path / "prompts" / "prompts.jsonl").read_bytes()
    with pytest.raises(StoreError, match="exists; pass --force"):
        qa_evaluate.render(data.path, out=tmp_path / "prompts")
    qa_evaluate.render(data.path, out=tmp_path / "prompts", format="markdown", mode="direct", force=True)
    assert (tmp_path / "prompts" / "prompts.jsonl").read_bytes() == first
    assert "12 prompts" in capsys.readouterr().out


def test_command_line(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(qa_page, "_bars", lambda run, name: "")
    monkeypatch.setattr(qa_page, "_letters", lambda run, name: "")
    with StubEndpoint(knows(data, 6)) as stub:
        qa_evaluate.evaluate(data.path, out=tmp_path / "run", llm_url=stub.url, llm_model="toy", bootstrap=20)
    shown = capsys.readouterr().out
    assert "50.0 % of 12 questions" in shown
    assert (tmp_path / "run" / "report.html").exists()
    with (
        StubEndpoint(lambda body: (404, {}, b"no such model")) as stub,
        pytest.raises(EndpointError, match=r"no question got a reply, the first for: .*404"),
    ):
        qa_evaluate.evaluate(data.path, out=tmp_path / "lost", llm_url=stub.url, llm_model="toy", max_items=3)
    with pytest.raises(ConfigError, match="needs --llm-url"):
        qa_evaluate.evaluate(data.path, out=tmp_path / "no", llm_model="toy")
