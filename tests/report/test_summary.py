import math

from wearjax.report import summary, tables
from wearjax.report.run_folder import RunFolder, Score


def run(skills, *, name="run", results=None, metrics=(), baseline_rank=True):
    scores = [Score(m, "skill", "overall", 6, v, v, v - 0.1, v + 0.1, 100) for m, v in skills.items()]
    scores += [Score("locf", "rank", "overall", 6, 2.0, 2.0, 2.0, 2.0, 100)] if baseline_rank else []
    return RunFolder(name, {}, results or {}, list(metrics), 0, scores or None, None, None, frozenset())


def said(*runs):
    return " ".join(summary.sentences(runs, tables.entries(runs)))


def test_best_method_and_cohort():
    text = said(
        run({"lsm2": 0.5, "mean": -0.5}, results={"n_samples": 1, "n_participants": 2, "split": "test"})
    )
    assert text == (
        "On 1 day of 2 participants (test split), lsm2 makes 50.0 % less error than locf "
        "(95 % interval 40.0 to 60.0 %), the best of 3 methods."
    )


def test_a_learned_method_that_loses_is_still_named():
    text = said(run({"lsm2": -0.3, "linear": 0.4}))
    assert text.startswith("linear makes 40.0 % less error")
    assert (
        "the best learned method, lsm2, makes 30.0 % more error than locf (95 % interval 20.0 to 40.0 %)"
        in text
    )


def test_an_interval_around_zero_is_no_difference():
    assert "so no clear difference" in said(run({"lsm2": 0.05}))
    assert "none of them is a learned model" in said(run({"linear": 0.5}))


def test_no_overall_skill_is_said():
    assert "No method has an overall skill" in said(run({"lsm2": math.nan}))
    assert "neither scores nor training metrics" in said(run({}, baseline_rank=False))


def test_training_with_and_without_validation():
    train = [{"step": s, "loss": 1 / s, "seconds": 60.0 * s} for s in (1, 2)]
    validation = [{"step": s, "split": "validation", "loss": v} for s, v in ((1, 3.0), (2, 1.0), (3, 2.0))]
    assert "trained to step 2 in 2 min; the training loss went from 1 to 0.5" in said(
        run({}, metrics=train, baseline_rank=False)
    )
    assert "the validation loss went from 3 to 2 (lowest 1 at step 2)" in said(
        run({}, metrics=train + validation, baseline_rank=False)
    )


def test_a_validation_loss_measured_once_went_nowhere():
    metrics = [{"step": 1, "loss": 1.0}, {"step": 1, "split": "validation", "loss": 1.16}]
    text = said(run({}, metrics=metrics, baseline_rank=False))
    assert "the validation loss was 1.16, measured once" in text
    assert "went from" not in text


def test_only_real_differences_are_warned_about():
    same = {"split": "test", "seed": 1, "scenarios": {"a": {}}}
    assert (
        summary.disagreements([run({"a": 0.1}, results=same), run({"a": 0.2}, name="b", results=same)]) == []
    )
    other = same | {"seed": 2, "scenarios": {"b": {}}}
    found = summary.disagreements([run({"a": 0.1}, results=same), run({"a": 0.2}, name="b", results=other)])
    assert found == ["seed: run 1, b 2", "scenarios: run: a; b: b"]
