"""Language models scored from the command line: calls, counts beside the results, resumption without asking twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_days import made_cohort
from stub_endpoint import StubEndpoint, prompt_of

from wearjax import cli
from wearjax.days.splits import Splits, to_json
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, StoreError
from wearjax.language import week_image
from wearjax.language.endpoint import Endpoint
from wearjax.language.probe_run import ProbeRun

TRAIN, TEST = 6, 12


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("asked") / "store"
    made = list(made_cohort(TRAIN + TEST, 1))
    users = sorted({day.participant for day in made})
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made)
        writer.attach("splits.json", to_json(Splits(tuple(users[:TRAIN]), (), tuple(users[TRAIN:]))))
    labels = {
        "user_id": users,
        "date": ["2021-03-01"] * len(users),
        "age": np.arange(len(users)) + 30,
        "Diabetes": np.arange(len(users)) % 2,
    }
    pq.write_table(pa.table(labels), path / "task_labels.parquet")
    return path


def evaluate(data, out, stub, *more, tasks=("age", "Diabetes"), methods=("llm_statistics",)):
    cli.main(
        [
            *(
                "evaluate",
                "prediction",
                str(data),
                "--out",
                str(out),
                "--methods",
                *methods,
                "--tasks",
                *tasks,
            ),
            *(
                "--llm-url",
                stub.url,
                "--llm-model",
                "toy",
                "--llm-concurrency",
                "1",
                "--bootstrap",
                "0",
                *more,
            ),
        ]
    )


def counts(out) -> dict:
    return json.loads((out / "llm.json").read_text())["probes"]


def answer(body):
    return "Answer: 32" if "How old" in prompt_of(body) else "Answer: Yes"


def test_methods_are_asked_scored_and_counted(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STUB_KEY", "k-123")
    monkeypatch.setattr(week_image, "render", lambda week: week.values.tobytes())  # has tests of its own
    out, cache = tmp_path / "run", tmp_path / "cache"
    with StubEndpoint(answer) as stub:
        more = ("--cache", str(cache), "--llm-key-env", "STUB_KEY", "--llm-max-tokens", "50")
        evaluate(data, out, stub, *more, methods=("llm_statistics", "llm_vision"))
    shown = capsys.readouterr().out
    assert f"llm_statistics: {2 * TEST} parsed; {2 * TEST} answers of the model, 0 known, 0 failed" in shown
    assert f"{20 * TEST} tokens in, {6 * TEST} out" in shown
    assert len(stub.bodies) == 4 * TEST
    assert {body["max_tokens"] for body in stub.bodies} == {50}
    assert stub.headers[0]["Authorization"] == "Bearer k-123"
    for name in ("llm_statistics", "llm_vision"):
        found = counts(out)[name]
        assert found["outcomes"] == {task: {"test": {"parsed": TEST}} for task in ("age", "Diabetes")}
        assert (found["usage"]["answers"], found["failures"]) == (2 * TEST, [])
        assert found["settings"]["model"] == "toy"
        assert pq.read_table(out / name / "age" / "test.parquet")["y_pred"].to_pylist() == [32.0] * TEST
    assert (cache / "answers.jsonl").exists()
    assert not (out / "answers.jsonl").exists()
    assert "k-123" not in (out / "llm.json").read_text() + (cache / "answers.jsonl").read_text()


def test_an_ended_run_goes_on_without_asking_twice(data, tmp_path, capsys):
    answered = []

    def dies(body):
        if len(answered) == TEST + 2:
            return (400, {}, b"gone")
        answered.append(prompt_of(body))
        return answer(body)

    def lives(body):
        answered.append(prompt_of(body))
        return answer(body)

    out = tmp_path / "run"
    with StubEndpoint(dies) as stub, pytest.raises(SystemExit):
        evaluate(data, out, stub)
    assert "10 calls in a row failed" in capsys.readouterr().err
    assert not (out / "results.json").exists()
    found = counts(out)["llm_statistics"]
    assert found["outcomes"] == {"age": {"test": {"parsed": TEST}}}
    assert len(found["failures"]) == 10
    with StubEndpoint(lives) as stub:
        evaluate(data, out, stub)
    assert (out / "results.json").exists()
    assert set(Counter(answered).values()) == {1}
    assert len(answered) == 2 * TEST
    found = counts(out)["llm_statistics"]
    assert found["outcomes"] == {task: {"test": {"parsed": TEST}} for task in ("age", "Diabetes")}
    assert {name: found["usage"][name] for name in ("answers", "cached", "failed")} == {
        "answers": 2 * TEST,
        "cached": 2,
        "failed": 10,
    }
    with StubEndpoint(lives) as stub:  # all answers are known: only the counts start anew
        evaluate(data, out, stub, "--force", tasks=("age",))
    assert stub.bodies == []
    found = counts(out)["llm_statistics"]
    assert found["outcomes"] == {"age": {"test": {"parsed": TEST}}}
    assert (found["usage"]["answers"], found["usage"]["cached"], found["failures"]) == (0, TEST, [])


def test_refuses_before_anything_is_asked(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    endpoint = Endpoint("http://127.0.0.1:9/v1", "toy")
    with pytest.raises(ConfigError, match="'xgboost' asks no language model; llm_statistics"):
        ProbeRun(["xgboost"], endpoint, out=tmp_path)
    with pytest.raises(ConfigError, match="NO_SUCH_KEY is not set"):
        ProbeRun(["llm_agentic"], Endpoint(endpoint.base_url, "toy", "NO_SUCH_KEY"), out=tmp_path)
    with ProbeRun(["llm_agentic"], endpoint, out=tmp_path / "run") as run:
        assert run.probes["llm_agentic"].mode == "agentic"
    assert not (tmp_path / "run").exists()  # nothing was asked
    for text in ("{", '{"format": 1, "probes": {"llm_vision": {}}}', '{"format": 9, "probes": {}}'):
        (tmp_path / "llm.json").write_text(text)
        with pytest.raises(StoreError, match=r"llm\.json"):
            ProbeRun(["llm_vision"], endpoint, out=tmp_path)
        ProbeRun(["llm_vision"], endpoint, out=tmp_path, fresh=True)
