import dataclasses

import numpy as np
import pytest

from wearjax.benchmarks.openmhc import bootstrap_timing, imputation_scores, imputation_tasks
from wearjax.scores import bootstrap, intervals
from wearjax.scores.errors import ErrorTable, SubgroupErrors

N_BOOT = 30


@pytest.fixture(scope="module")
def table():
    return bootstrap_timing.random_table(n_participants=12, n_methods=3, seed=3)


def chosen(table: ErrorTable, people) -> ErrorTable:
    """The table of other participants, repetitions allowed."""
    groups = {name: SubgroupErrors(g.values, g.errors[..., people]) for name, g in table.subgroups.items()}
    return dataclasses.replace(
        table, participants=tuple(map(str, people)), errors=table.errors[..., people], subgroups=groups
    )


def points(table: ErrorTable) -> dict:
    return {(s.method, s.metric, s.scope): s.point for s in imputation_scores.score(table, n_boot=0)}


def test_draws_equal_scoring_a_table_of_the_drawn_participants(table):
    matrix = bootstrap.resample_matrix(bootstrap.derived_seed(42, "test"), 12, N_BOOT)
    drawn = [points(chosen(table, row)) for row in matrix]
    jackknife = [points(chosen(table, np.delete(np.arange(12), i))) for i in range(12)]
    for score in imputation_scores.score(table, n_boot=N_BOOT):
        key = (score.method, score.metric, score.scope)
        values = np.array([d.get(key, np.nan) for d in drawn])
        finite = values[np.isfinite(values)]
        assert score.n_boot == len(finite)
        assert score.mean == pytest.approx(finite.mean(), rel=1e-5, abs=1e-6)
        if score.metric == "fair_skill":
            left_out = np.array([j.get(key, np.nan) for j in jackknife])
            interval = intervals.bca(values, score.point, left_out)
        else:
            interval = intervals.percentile(values)
        assert (score.ci_lo, score.ci_hi) == pytest.approx(interval, rel=1e-4, abs=1e-5)


def test_an_attribute_that_a_draw_loses_takes_that_draw_from_overall(table):
    rare = table.subgroups["sex"].errors.copy()
    rare[1:, ..., 1:] = np.nan  # all but one participant are female
    rare[0, ..., 0] = np.nan
    rare[1, ..., 0] = table.errors[..., 0]
    groups = {**table.subgroups, "sex": SubgroupErrors(table.subgroups["sex"].values, rare)}
    scores = imputation_scores.score(dataclasses.replace(table, subgroups=groups), n_boot=N_BOOT)
    matrix = bootstrap.resample_matrix(bootstrap.derived_seed(42, "test"), 12, N_BOOT)
    with_him = np.any(matrix == 0, axis=1).sum()
    n_boot = {s.scope: s.n_boot for s in scores if s.metric == "fair_skill" and s.method == "method_1"}
    assert 0 < with_him < N_BOOT
    assert n_boot == {"age_group": N_BOOT, "sex": with_him, "overall": with_him}


def test_a_method_without_an_attribute_has_no_overall_fair_skill(table):
    inside = table.subgroups["sex"].errors.copy()
    inside[:, 2] = np.nan
    groups = {**table.subgroups, "sex": SubgroupErrors(table.subgroups["sex"].values, inside)}
    scores = imputation_scores.score(dataclasses.replace(table, subgroups=groups), n_boot=0)
    scopes = {s.scope for s in scores if s.metric == "fair_skill" and s.method == "method_2"}
    assert scopes == {"age_group"}


def test_an_attribute_with_one_subgroup_is_left_out(table):
    one = {
        "sex": SubgroupErrors(
            ("female", "male"), np.stack([table.errors, np.full(table.errors.shape, np.nan)])
        )
    }
    scores = imputation_scores.score(dataclasses.replace(table, subgroups=one), n_boot=0)
    assert not [s for s in scores if s.metric == "fair_skill"]


def test_a_single_method_has_no_rank(table):
    alone = ErrorTable(("locf",), table.tasks, table.participants, table.errors[:1])
    assert {s.metric for s in imputation_scores.score(alone, n_boot=5)} == {"skill"}


def test_counts_of_a_full_table(table):
    n_tasks = {s.scope: s.n_tasks for s in imputation_scores.score(table, n_boot=0) if s.metric == "skill"}
    assert [n_tasks[f"cat:{b}"] for b in imputation_tasks.BUCKETS] == [15, 6, 3, 3]
    assert [n_tasks[s] for s in ("random_noise", "sleep_gap", "workout_gap", "semantic", "overall")] == [
        4,
        2,
        1,
        3,
        6,
    ]


def test_there_are_74_tasks():
    kinds = [task.channel_type for task in imputation_tasks.tasks()]
    assert (kinds.count("continuous"), kinds.count("binary"), kinds.count("binary_collapsed")) == (32, 36, 6)


def test_binary_channels_enter_no_scope(table):
    errors = table.errors.copy()
    single = [i for i, task in enumerate(table.tasks) if task.channel_type == "binary"]
    errors[:, single] = np.random.default_rng(1).random(errors[:, single].shape)
    changed = points(dataclasses.replace(table, errors=errors))
    before = points(table)
    differing = {key[2] for key in before if changed.get(key) != before[key]}
    assert differing
    assert all(scope.startswith("task:") for scope in differing)


def test_the_benchmark_of_the_bootstrap_runs():
    assert bootstrap_timing.bootstrap_seconds(n_participants=20, n_methods=2, n_boot=10) > 0
