import numpy as np
import pytest

from wearjax.benchmarks.openmhc import imputation_errors
from wearjax.channels import N_CHANNELS
from wearjax.scores import classification

MINUTES = 40


@pytest.fixture
def days():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, (4, N_CHANNELS, MINUTES)).astype(np.float32)
    predicted = rng.random(truth.shape).astype(np.float32)
    return truth, predicted, rng.random(truth.shape) < 0.7


def paired(truth, predicted, target):
    return imputation_errors.HiddenCells(truth, target).pairs(predicted)


def collected(
    truth, predicted, target, *, participant=(0, 0, 1, 1), sex=(0, 1, 0, 0), scenario="random_noise"
):
    collector = imputation_errors.ErrorCollector(
        ("m",), (scenario,), ("p", "q"), attributes={"sex": ("female", "male")}
    )
    pairs = paired(truth, predicted, target)
    collector.add("m", scenario, pairs, participant=np.array(participant), subgroups={"sex": np.array(sex)})
    return collector


def error(table, channel, person=0, group=None):
    task = [t.channel for t in table.tasks].index(channel)
    errors = table.errors if group is None else table.subgroups["sex"].errors[group]
    return errors[0, task, person]


def area(truth, predicted, target, days, channel):
    cells = target[days, channel]
    rounded = predicted[days, channel][cells].astype(np.float16).astype(np.float32)
    return classification.roc_auc(truth[days, channel][cells] > 0.5, rounded)


def test_cells_of_all_days_are_pooled_and_subgroups_are_parts_of_them(days):
    table = collected(*days).table()
    truth, predicted, target = days
    assert error(table, "ch_9") == pytest.approx(1 - area(*days, slice(0, 2), 9))
    assert error(table, "ch_9", group=0) == pytest.approx(1 - area(*days, slice(0, 1), 9))
    assert error(table, "ch_9", group=1) == pytest.approx(1 - area(*days, slice(1, 2), 9))
    assert error(table, "ch_9", person=1, group=0) == error(table, "ch_9", person=1)
    assert np.isnan(error(table, "ch_9", person=1, group=1))
    difference = np.abs(predicted.astype(np.float16).astype(float) - truth)[:2, 3][target[:2, 3]]
    assert error(table, "ch_3") == pytest.approx(difference.mean())
    first = np.abs(predicted.astype(np.float16).astype(float) - truth)[:1, 3][target[:1, 3]]
    assert error(table, "ch_3", group=0) == pytest.approx(first.mean())


def test_a_collapsed_error_averages_the_channels_with_both_classes(days):
    truth = days[0]
    truth[:2, 7] = 0
    table = collected(*days).table()
    assert np.isnan(error(table, "ch_7"))
    assert error(table, "cat_collapsed:sleep") == error(table, "ch_8")
    workouts = [error(table, f"ch_{c}") for c in range(9, 19)]
    assert error(table, "cat_collapsed:workouts") == pytest.approx(np.mean(workouts))
    truth[:2, 8] = 1
    assert np.isnan(error(collected(*days).table(), "cat_collapsed:sleep"))


def test_semantic_scenarios_score_no_flags_but_show_them(days):
    collector = collected(*days, scenario="sleep_gap")
    assert {t.channel_type for t in collector.tasks} == {"continuous"}
    shown = collector.display_metrics("m", "sleep_gap", np.ones(N_CHANNELS))
    assert np.isfinite(shown["per_channel"]["ch_9"]["roc_auc"])


def test_cells_without_truth_or_prediction_are_not_scored(days):
    truth, predicted, target = days
    before = error(collected(*days).table(), "ch_3")
    truth[0, 3, :5], predicted[0, 3, 5:9] = np.nan, np.nan
    after = collected(*days)
    kept = target[:2, 3].copy()
    kept[0, :9] = False
    assert after.display_metrics("m", "random_noise", np.ones(N_CHANNELS))["per_channel"]["ch_3"][
        "n_masked"
    ] == (kept.sum() + target[2:, 3].sum())
    assert error(after.table(), "ch_3") != before


def test_a_prediction_beyond_float16_loses_the_task_and_is_counted(days):
    _, predicted, target = days
    target[0, 3, 0], predicted[0, 3, 0] = True, 1e6
    collector = collected(*days)
    assert np.isnan(error(collector.table(), "ch_3"))
    assert np.isfinite(error(collector.table(), "ch_3", person=1))
    assert collector.overflows == 1


def test_display_errors_are_divided_by_the_spread(days):
    collector = collected(*days)
    shown = collector.display_metrics("m", "random_noise", np.full(N_CHANNELS, 2.0))
    steps = shown["per_channel"]["ch_0"]
    assert steps["normalized_mae"] == steps["mae"] / 2
    assert steps["normalized_mse"] == steps["mse"] / 4
    assert shown["continuous"]["n_channels"] == 7
    assert shown["binary"]["n_channels"] == 12
    assert shown["continuous"]["mean_mae"] == pytest.approx(
        np.mean([shown["per_channel"][f"ch_{c}"]["mae"] for c in range(7)])
    )


def test_joined_parts_equal_the_whole(days):
    whole = paired(*days)
    parts = imputation_errors.join([paired(*(a[i : i + 1] for a in days)) for i in range(4)])
    for name in ("count", "absolute", "squared", "cells"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    for name in ("truth", "score"):
        for one, other in zip(getattr(whole, name), getattr(parts, name), strict=True):
            np.testing.assert_array_equal(one, other)
