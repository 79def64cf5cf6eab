"""A run of the prediction track: outcomes and domains in place of scenarios and days."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from wearjax import tasks as outcomes
from wearjax.benchmarks.openmhc import prediction_results
from wearjax.benchmarks.openmhc.prediction_errors import TaskPredictions
from wearjax.report import page

USERS = tuple(f"u{i:02d}" for i in range(30))


def task_predictions(code: str, methods: dict[str, float]) -> TaskPredictions:
    rng = np.random.default_rng(len(code))
    binary = outcomes.TASKS[code].kind == "binary"
    truth = np.arange(30) % 2.0 if binary else rng.normal(size=30)
    answers = {m: truth + noise * rng.normal(size=30) for m, noise in methods.items()}
    return TaskPredictions(
        outcomes.TASKS[code],
        USERS,
        truth,
        {m: (a > 0.5).astype(float) if binary else a for m, a in answers.items()},
        answers,
        {"sex": tuple("male" if i % 3 else "female" for i in range(30))},
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folders = []
    for name, methods in (("one", {"linear": 2.0, "wbm": 0.9}), ("two", {"linear": 2.0, "gru_d": 1.2})):
        found = [task_predictions(code, methods) for code in ("age", "Diabetes", "Hypertension")]
        results = prediction_results.score_predictions(
            found, method_names=list(methods), config={}, versions={}, n_boot=20
        )
        folders.append(tmp_path_factory.mktemp("runs") / name)
        results.save(folders[-1])
    return folders


def test_a_run_shows_domains_and_outcomes(runs, tmp_path):
    text = page.write_report(runs[0], tmp_path).read_text()
    assert "<title>Prediction of health outcomes: one</title>" in text
    assert "On 30 participants (test split), wbm makes" in text
    for words in (
        "Skill overall and by domain of outcomes",
        "Medical conditions",
        "Demographics",
        "3 tasks",
        "Diabetes",
    ):
        assert words in text, words
    assert "scenarios</small>" not in text
    ids = re.findall(r'<section id="(\w+)">', text)
    assert ids == ["skill", "counts", "settings"]
    assert 'href="#days"' not in text


def test_two_runs_stand_in_one_leaderboard(runs, tmp_path):
    text = page.write_report(runs, tmp_path).read_text()
    (section,) = re.findall(r'<section id="leaderboard">.*?</section>', text, re.DOTALL)
    assert "All 3 methods of the prediction track" in section
    assert set(re.findall(r'<th scope="row" data-value="([^"]+)"', section)) == {"linear", "wbm", "gru_d"}
    assert "Medical conditions" in section


def test_what_a_careful_reader_must_know_stands_beside_the_table(tmp_path):
    """Few participants, a method without one of the tasks, whose method it is, and what stood in for answers."""
    found = [task_predictions(code, {"linear": 2.0, "mine": 0.1}) for code in ("age", "Diabetes")]
    settled = np.full(len(found[0].users), 0.5)
    found[0] = replace(found[0], y_pred={**found[0].y_pred, "mine": settled})
    kept = [f.rows(np.arange(len(f.users)) < 8) for f in found]
    prediction_results.score_predictions(
        kept, method_names=["mine"], config={"own_methods": ["mine"]}, versions={}, n_boot=20
    ).save(tmp_path)
    shown = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.write_report(tmp_path).read_text()))
    assert "mineyours" in shown
    assert "only 8 participants were scored: intervals, skills and ranks mean little below about 10" in shown
    assert "mine: no score, or one of fewer participants, in age; it has no skill, rank or best mark" in shown
    assert "No method has an overall skill" in shown
    found = [replace(f, y_pred={**f.y_pred, "mine": settled}) for f in found[:1]]
    prediction_results.score_predictions(
        found, method_names=["mine"], config={}, versions={}, n_boot=20
    ).save(tmp_path / "none")
    text = page.write_report(tmp_path / "none").read_text()
    assert "mine: no score, or one of fewer participants, in age" in text
    assert 'data-value="mine"' in text
    assert "replaced by those of the linear baseline" in shown
    assert "statistics of the training split" not in shown
