import dataclasses

import numpy as np
import pytest

from wearjax.benchmarks.openmhc import prediction_errors, prediction_scores, prediction_timing
from wearjax.benchmarks.openmhc.prediction_errors import CohortErrors
from wearjax.errors import ConfigError
from wearjax.scores import bootstrap, intervals, rank, skill
from wearjax.tasks import Task

CODES = ("age", "BiologicalSex", "Diabetes", "PH", "BMI_values", "satisfiedwith_life")
N_BOOT = 15


@pytest.fixture(scope="module")
def predictions():
    made = prediction_timing.random_predictions(n_participants=40, n_methods=3, tasks=CODES, seed=3)
    return prediction_errors.common(made)[0]


@pytest.fixture(scope="module")
def errors(predictions):
    return prediction_errors.compute(predictions, n_boot=N_BOOT, seed=42)


@pytest.fixture(scope="module")
def scores(errors):
    return {(s.method, s.metric, s.scope): s for s in prediction_scores.score_errors(errors)}


def errors_of(table, *, methods=("linear", "other"), tasks=None, cells=(("all", "all"),)) -> CohortErrors:
    """Errors without a bootstrap; `table` is (method, task, cell), or without cells."""
    point = np.array(table, float)
    point = point if point.ndim == 3 else point[..., None]
    tasks = tasks or [Task(f"t{i}", f"t{i}", "binary", f"domain {i}") for i in range(point.shape[1])]
    n_rows = np.full(len(tasks), 5)
    return CohortErrors(methods, tuple(tasks), cells, n_rows, point, None, (), ("p0", "p1"))


def points(errors: CohortErrors, metric: str) -> dict:
    found = prediction_scores.score_errors(errors)
    return {(s.method, s.scope): s.point for s in found if s.metric == metric}


def test_overall_skill_is_the_arithmetic_mean_of_domains_geometric_within():
    tasks = [Task("a", "a", "binary", "Demographics"), Task("b", "b", "binary", "Demographics"),
             Task("c", "c", "binary", "Medical conditions")]  # fmt: skip
    found = points(errors_of([[0.4, 0.4, 0.5], [0.1, 0.4, 0.75]], tasks=tasks), "skill")
    assert found["other", "Demographics"] == pytest.approx(0.5)
    assert found["other", "Medical conditions"] == pytest.approx(-0.5)
    assert found["other", "overall"] == pytest.approx(0.0, abs=1e-7)
    assert found["other", "task:Demographics:a"] == pytest.approx(0.75)
    assert found["linear", "overall"] == 0.0


def test_ratios_are_clipped_and_need_a_positive_baseline():
    found = points(errors_of([[1e-4, 0.5, 0.0], [1.5, 1e-9, 0.3]]), "skill")
    assert found["other", "domain 0"] == pytest.approx(-99)
    assert found["other", "domain 1"] == pytest.approx(0.99)
    assert ("other", "domain 2") not in found  # the baseline makes no error there
    assert found["other", "overall"] == pytest.approx((-99 + 0.99) / 2)
    assert found["linear", "domain 2"] == 0.0


def test_ranks_share_ties_and_are_averaged_over_domains():
    tasks = [Task(c, c, "binary", d) for c, d in (("a", "A"), ("b", "A"), ("c", "B"))]
    table = [[0.2, 0.3, 0.1], [0.2, 0.1, 0.2], [0.4, np.nan, 0.3]]
    found = points(errors_of(table, methods=("linear", "x", "y"), tasks=tasks), "rank")
    assert [found[m, "A"] for m in ("linear", "x", "y")] == [1.75, 1.25, 3]
    assert [found[m, "overall"] for m in ("linear", "x", "y")] == [1.375, 1.625, 3]


CELLS = (("all", "all"), ("sex", "female"), ("sex", "male"))


def test_fair_skill_compares_disparities():
    table = [[[0.5, 0.3, 0.7], [0.5, 0.1, 0.3]], [[0.5, 0.5, 0.6], [0.5, 0.4, 0.8]]]
    found = points(errors_of(table, cells=CELLS), "fair_skill")
    assert found["other", "sex"] == pytest.approx((0.75 + -1.0) / 2)  # ratios 0.1/0.4 and 0.4/0.2
    assert found["other", "overall"] == found["other", "sex"]
    assert found["linear", "overall"] == 0.0


def test_an_attribute_of_one_subgroup_is_left_out():
    found = points(errors_of([[[0.5, 0.3]], [[0.5, 0.2]]], cells=CELLS[:2]), "fair_skill")
    assert not found


def test_fair_skill_averages_the_attributes_a_method_has():
    cells = (*CELLS, ("age_group", "18-29"), ("age_group", "60+"))
    table = [[[0.5, 0.3, 0.7, 0.4, 0.2]], [[0.5, 0.5, 0.6, np.nan, 0.1]]]
    found = points(errors_of(table, cells=cells), "fair_skill")
    assert ("other", "age_group") not in found
    assert found["other", "overall"] == pytest.approx(0.75)


def test_subgroup_skill_is_against_the_baselines_error_of_everybody():
    table = [[[0.4, 0.2, 0.8]], [[0.3, 0.1, 0.6]]]
    found = points(errors_of(table, cells=CELLS), "subgroup_skill")
    assert found["linear", "sex:female"] == pytest.approx(0.5)
    assert found["other", "sex:female"] == pytest.approx(0.75)
    assert found["other", "sex:male"] == pytest.approx(-0.5)


def test_draws_are_scored_like_the_full_cohort(errors, scores):
    """Every draw as a table of points of its own, then summarised."""
    drawn = [
        dataclasses.replace(errors, point=errors.drawn[b].astype(float), drawn=None, left_out=())
        for b in range(N_BOOT)
    ]
    of_draw = [
        {(s.method, s.metric, s.scope): s.point for s in prediction_scores.score_errors(d)} for d in drawn
    ]
    for key, score in scores.items():
        values = np.array([found.get(key, np.nan) for found in of_draw])
        finite = values[np.isfinite(values)]
        assert (score.n_boot, score.n_defined) == (N_BOOT, len(finite))
        assert score.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-12)
        assert score.se == pytest.approx(finite.std(ddof=1), rel=1e-9, abs=1e-12)
        interval = intervals.percentile(values)
        assert (score.percentile_lo, score.percentile_hi) == pytest.approx(interval, rel=1e-9, abs=1e-12)
        if score.metric != "fair_skill":
            assert (score.ci_lo, score.ci_hi) == (score.percentile_lo, score.percentile_hi)


def test_the_interval_of_fair_skill_leaves_out_each_participant_everywhere(predictions, errors, scores):
    fair = prediction_scores.fair_skills(errors)
    for i, user in enumerate(errors.users[:8]):
        others = [p.rows(np.array([u != user for u in p.users])) for p in predictions]
        without = prediction_errors.compute(others, n_boot=0, seed=0)
        found = {(s.method, s.scope): s.point for s in prediction_scores.score_errors(without)
                 if s.metric == "fair_skill"}  # fmt: skip
        for s, scope in enumerate(fair.scopes):
            for m, method in enumerate(errors.methods):
                # Points are of errors rounded to float32, the jackknife is not.
                assert fair.jackknife[s, m, i] == pytest.approx(found[method, scope], rel=1e-4, abs=1e-4)
    for s, scope in enumerate(fair.scopes):
        for m, method in enumerate(errors.methods):
            expected = intervals.bca(fair.drawn[s, m], fair.point[s, m], fair.jackknife[s, m])
            score = scores[method, "fair_skill", scope]
            assert (score.ci_lo, score.ci_hi) == expected
            assert score.reported == score.point


def test_the_baseline_has_no_skill_in_any_draw(scores):
    own = [s for s in scores.values() if s.method == "linear" and s.metric in ("skill", "fair_skill")]
    assert len(own) == 1 + 4 + 6 + 3  # overall, domains, tasks; fair skill of two attributes and overall
    assert all((s.point, s.mean, s.ci_lo, s.ci_hi) == (0, 0, 0, 0) for s in own)


def test_counts(errors, scores):
    overall = scores["method_1", "skill", "overall"]
    assert overall.n_tasks == len(CODES)
    assert overall.n_participants == errors.n_rows.max()
    task = scores["method_1", "skill", "task:Medical conditions:PH"]
    place = [t.code for t in errors.tasks].index("PH")
    assert (task.n_tasks, task.n_participants) == (1, errors.n_rows[place])
    assert scores["method_1", "rank", "Demographics"].n_tasks == 2
    assert scores["method_1", "fair_skill", "overall"].n_tasks == 2


def test_one_draw_has_no_standard_error(predictions):
    found = prediction_scores.score(predictions, n_boot=1, seed=1)
    assert all(np.isnan(s.se) for s in found)
    assert not any(np.isnan(s.mean) for s in found if s.n_defined)


def test_same_seed_same_scores_another_seed_others(predictions, scores):
    again = prediction_scores.score(predictions, n_boot=N_BOOT, seed=42)
    assert [repr(s) for s in again] == [repr(s) for s in scores.values()]
    other = prediction_scores.score(predictions, n_boot=N_BOOT, seed=43)
    assert [s.point for s in other] == [s.point for s in again]
    assert [s.mean for s in other] != [s.mean for s in again]


def test_ranks_of_draws_use_errors_as_stored(errors, scores):
    stored = errors.drawn[..., 0].astype(float)
    ranks = rank.average_ranks(np.moveaxis(stored, 1, 0))  # (method, draw, task)
    of_domain = prediction_scores.domains_of(errors.tasks).of_task
    overall = skill.group_mean(ranks, of_domain).mean(axis=-1)
    found = bootstrap.summarise(overall.T)
    assert [scores[m, "rank", "overall"].mean for m in errors.methods] == pytest.approx(list(found.mean))


def test_the_baseline_must_be_there(predictions):
    with pytest.raises(ConfigError, match="'nobody' is not among the predictions"):
        prediction_scores.score(predictions, baseline="nobody", n_boot=0)
