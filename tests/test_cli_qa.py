"""`wearjax qa build` and `wearjax qa audit` as a person meets them."""

from __future__ import annotations

import json

import pytest
import tyro

from wearjax.benchmarks.wearableqa import dataset, results
from wearjax.cli import qa, qa_evaluate
from wearjax.errors import ConfigError, StoreError, WearjaxError


def run(verb, *args: object) -> None:
    tyro.cli(verb, args=[str(a) for a in args])


def test_invented_people_are_asked_about_and_the_questions_audited(tmp_path, capsys):
    out = tmp_path / "q"
    types = ("excursion_count", "risk_assessment")
    run(qa.build, "--synthetic", 3, "--days", 150, "--seed", 5, "--types", *types, "--jobs", 1, "--out", out)
    made = dataset.Dataset(out)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"3 of 3 people asked about, {len(made.items)} questions" in shown
    assert "excursion_count" in shown
    assert "looked proposed undefined G1" in shown
    assert "Not reviewed by a clinician: limits of glucose" in shown
    assert "answers that can be made again" in shown
    assert json.loads((out / dataset.AUDIT).read_text())["failed"] == 0
    with pytest.raises(ConfigError, match="already holds questions"):
        run(qa.build, "--synthetic", 3, "--days", 150, "--seed", 5, "--types", *types, "--out", out)

    rows = [json.loads(text) for text in (out / dataset.ITEMS).read_text().splitlines()]
    rows[0]["answer"] = "A" if rows[0]["answer"] != "A" else "B"
    (out / dataset.ITEMS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(WearjaxError, match="audits failed, the first: "):
        run(qa.audit, out)
    queue = [json.loads(text) for text in (out / dataset.QUEUE).read_text().splitlines()]
    assert any("the record gives another answer" in row["reasons"] for row in queue)


def test_baselines_need_no_endpoint(tmp_path, capsys):
    data, out = tmp_path / "q", tmp_path / "run"
    run(
        qa.build, "--synthetic", 3, "--days", 150, "--seed", 5, "--types", "excursion_count", "--jobs", 1, "--out",
        data,
    )  # fmt: skip
    command = (qa_evaluate.evaluate, data, "--out", out, "--baselines", "solver", "random", "--bootstrap", 20)
    capsys.readouterr()
    run(*command)
    shown = " ".join(capsys.readouterr().out.split())
    assert "WearableQA, solver · none · baseline: 100.0 % of" in shown
    assert "baseline: random" in shown
    found = results.read(out)
    assert found.config["model"] == "solver"
    assert list(found.baselines) == ["random"]
    assert all(answer.correct for answer in found.answers)
    assert "solver" in (out / "report.html").read_text()
    assert not list(out.glob("*.jsonl"))
    before = (out / "results.json").read_bytes()
    run(*command)
    assert " ".join(capsys.readouterr().out.split()) == shown, "the same command shows the scores again"
    assert (out / "results.json").read_bytes() == before
    with pytest.raises(ConfigError, match=r"holds a run with another max_items \(None, now 3\).*--force"):
        run(*command, "--max-items", 3)
    run(*command, "--max-items", 1, "--force")
    assert "100.0 % of 1 question [" in " ".join(capsys.readouterr().out.split())
    assert "100.0 % of 1 question answered rightly" in (out / "report.html").read_text()
    run(qa_evaluate.evaluate, data, "--out", tmp_path / "cheap", "--bootstrap", 20, "--baselines")
    assert results.read(tmp_path / "cheap").config["model"] == "random"
    for args in ((), ("--llm-url", "http://localhost:1/v1", "--baselines", "random")):
        with pytest.raises(ConfigError, match=r"--llm-model, or --baselines alone"):
            run(qa_evaluate.evaluate, data, "--out", tmp_path / "none", *args)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((), ConfigError, "either a path or --synthetic"),
        ((".", "--synthetic", 3), ConfigError, "either a path or --synthetic"),
        (("--synthetic", 3, "--units", "rhr=hz"), ConfigError, "--units: only with a path"),
        (("--synthetic", 3, "--types", "mood"), ConfigError, "'mood': known are signal_summary"),
        (("--synthetic", 3, "--days", 20), ConfigError, "at least 28 days"),
        (("table.csv", "--units", "rhr"), ConfigError, "expected METRIC=UNIT"),
    ],
)
def test_impossible_builds_are_refused(tmp_path, args, error, message):
    with pytest.raises(error, match=message):
        run(qa.build, *args, "--out", tmp_path / "q")
    assert not (tmp_path / "q").exists()


def test_impossible_audits_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="belong together"):
        run(qa.audit, tmp_path, "--reviewer-url", "http://localhost:1/v1")
    with pytest.raises(StoreError, match="no finished questions there"):
        run(qa.audit, tmp_path)
