"""The 177 daily descriptors against plain loops, and what must hold of them."""

from __future__ import annotations

import made_feature_days
import numpy as np
import plain_daily_features
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.channels import INDEX
from wearjax.predict.features import circadian, daily, daily_heart, day_block, over_days

VALUES, NONWEAR, WEEKEND = made_feature_days.varied_days()


def features_of(values, nonwear=None, weekend=None) -> dict[str, float]:
    n = len(values)
    nonwear = np.zeros(n, np.float32) if nonwear is None else nonwear
    weekend = np.arange(n) % 7 >= 5 if weekend is None else weekend
    table = daily.of_block(day_block.of_values(values, nonwear, weekend))
    return dict(zip(daily.NAMES, daily.features(table).tolist(), strict=True))


def test_there_are_177_distinct_names():
    assert len(daily.NAMES) == len(set(daily.NAMES)) == 177
    assert not [name for name in daily.NAMES if name.startswith(("n_", "total_"))]


@pytest.mark.parametrize(
    "chosen", [slice(None), slice(0, 2), slice(0, 1), slice(2, 5)], ids=["all", "two", "one", "odd"]
)
def test_equal_to_plain_loops(chosen):
    values, nonwear, weekend = VALUES[chosen], NONWEAR[chosen], WEEKEND[chosen]
    found = features_of(values, nonwear, weekend)
    expected = plain_daily_features.features(values, nonwear, weekend)
    assert set(found) == set(expected)
    for name, value in found.items():
        wanted = np.nan if expected[name] is None else expected[name]
        assert value == pytest.approx(wanted, rel=2e-5, abs=1e-6, nan_ok=True), name


def test_the_made_days_reach_nearly_every_feature():
    found = features_of(np.delete(VALUES, [2, 5], axis=0))
    assert not [name for name, value in found.items() if not np.isfinite(value)]


def test_one_unworn_day_spoils_the_mean_profile_but_not_the_medians():
    found = features_of(VALUES[[0, 1, 2, 3]])
    assert np.isnan([found["is_watch_steps"], found["l5_watch_steps"], found["ra_watch_energy"]]).all()
    assert np.isfinite(
        [found["is_iphone_steps"], found["watch_steps_p50"], found["iv_watch_steps_p50"]]
    ).all()


def test_an_unworn_day_ranks_last_in_sums_and_nowhere_in_counts():
    found = features_of(VALUES[[0, 1, 2]])
    sums = VALUES[:2, INDEX["watch_steps"]].sum(axis=1)
    assert found["watch_steps_p50"] == pytest.approx(sums.max())
    assert np.isnan(found["watch_steps_p95"])
    active = (VALUES[:2, INDEX["watch_steps"]] > 0).sum(axis=1)
    assert found["watch_active_minutes_p50"] == pytest.approx(active.mean())


def test_nothing_recorded_gives_missing_features_and_no_warning():
    found = features_of(np.full((3, 19, 1440), np.nan, np.float32))
    for name in ("watch_steps_p50", "watch_hr_median_p50", "is_iphone_steps", "bedtime_p50", "rhr_p5_rmssd"):
        assert np.isnan(found[name]), name
    assert found["sleep_minutes_p50"] == 0  # a day without any sleep keeps its zeros
    assert found["workout_density"] == 0


def test_order_of_days_matters_to_successive_differences_only():
    order = np.array([3, 0, 2, 1, 4, 5, 11, 9, 6, 7, 8, 10])
    before, after = (
        features_of(VALUES, NONWEAR, WEEKEND),
        features_of(VALUES[order], NONWEAR[order], WEEKEND[order]),
    )
    changed = [
        name for name in before if not np.isclose(before[name], after[name], rtol=1e-9, equal_nan=True)
    ]
    assert changed == ["rhr_p5_rmssd", "rhr_median_rmssd"]


def test_blocks_of_days_join_to_the_same_table():
    whole = daily.features(daily.of_block(day_block.of_values(VALUES, NONWEAR, WEEKEND)))
    parts = [
        daily.of_block(day_block.of_values(VALUES[cut], NONWEAR[cut], WEEKEND[cut]))
        for cut in (slice(0, 5), slice(5, 6), slice(6, 12))
    ]
    np.testing.assert_array_equal(daily.features(daily.joined(parts)), whole)


def test_a_later_day_moves_the_clock_times_and_nothing_of_the_amounts():
    quiet = VALUES[[0, 1]].copy()
    quiet[:, INDEX["sleep_asleep"]] = 0
    quiet[:, INDEX["sleep_asleep"], 60:400] = 1
    quiet[:, INDEX["watch_steps"], 720:780] = 150  # the peak must not go over midnight
    later = np.roll(quiet, 60, axis=2)
    before, after = features_of(quiet), features_of(later)
    assert after["wake_p50"] == before["wake_p50"] + 60
    assert after["sleep_midpoint_p50"] == before["sleep_midpoint_p50"] + 60
    assert after["sleep_minutes_p50"] == before["sleep_minutes_p50"] == 340
    assert after["acrophase_watch_steps_p50"] == before["acrophase_watch_steps_p50"] + 1
    assert after["m10_watch_steps"] == pytest.approx(before["m10_watch_steps"])
    assert after["watch_hr_median_p50"] == before["watch_hr_median_p50"]


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 18), st.sampled_from([0.0, 1e-9, 3.0, np.nan])),
        max_size=40,
    )
)
def test_whatever_is_missing_features_are_finite_or_missing_and_shares_stay_shares(changes):
    values = VALUES[:4].copy()
    for day, channel, value in changes:
        values[day, channel] = value
    found = features_of(values)
    assert not [name for name, value in found.items() if np.isinf(value)]
    shares = ["workout_density", "pct_days_hr_80pct_achieved", "cardio_strength_ratio", "step_sync_ratio_p50"]
    shares += [f"chronotype_morning_ratio_{q}" for q in circadian.SIGNALS] + [
        f"is_{q}" for q in circadian.SIGNALS
    ]
    shares += ["sleep_efficiency_p50", *(name for name in found if name.startswith(("workout_freq", "ra_")))]
    assert not [name for name in shares if found[name] < 0 or found[name] > 1 + 1e-9]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.sampled_from([0.05, 0.25, 0.75, 0.95]))
def test_order_statistics_of_numbers(values, q):
    found = over_days.ordered(np.array([[*values, np.nan]]))
    assert found.quantile(q)[0] == plain_daily_features.quantile(values, q)
    assert found.median()[0] == pytest.approx(np.median(values), abs=1e-9)
    assert found.largest()[0] == max(values)


def test_ranks_halfway_between_two_days_round_up():
    assert over_days.ordered(np.array([[10.0, 20.0, 30.0]])).quantile(0.25)[0] == 20
    assert over_days.ordered(np.arange(11.0)[None]).quantile(0.05)[0] == 1


def test_rows_without_numbers_have_no_order_statistics():
    found = over_days.ordered(np.full((2, 3), np.nan))
    assert np.isnan([found.median(), found.quantile(0.05), found.largest()]).all()


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(0, 2**31))
def test_rhythm_measures_stay_in_their_ranges(n_days, seed):
    hours = np.random.default_rng(seed).gamma(1.0, 100.0, (n_days, 24))
    assert 0 <= circadian.interdaily_stability(hours) <= 1 + 1e-12
    assert (circadian.intradaily_variability(hours) >= 0).all()
    low, low_hour, high, high_hour = circadian.least_and_most(hours.mean(axis=0))
    assert low <= hours.mean() + 1e-9
    assert high >= hours.mean() - 1e-9
    assert {low_hour, high_hour} <= set(range(24))


def test_identical_days_are_fully_stable_and_constant_days_have_no_rhythm():
    hours = np.tile(np.arange(24.0), (4, 1))
    assert circadian.interdaily_stability(hours) == pytest.approx(1)
    assert np.isnan(circadian.interdaily_stability(np.ones((4, 24))))
    assert np.isnan(circadian.intradaily_variability(np.ones((2, 24)))).all()


def test_spans_go_around_midnight():
    profile = np.ones(24)
    profile[[22, 23, 0, 1, 2]] = 0
    low, low_hour, high, high_hour = circadian.least_and_most(profile)
    assert (low, low_hour, high) == (0, 22, 1)
    assert high_hour == 3


def test_a_day_without_heart_rate_breaks_two_differences():
    assert daily_heart.rmssd(np.array([60.0, 63.0, np.nan, 80.0, 76.0])) == pytest.approx(
        np.sqrt((9 + 16) / 2)
    )
    assert np.isnan(daily_heart.rmssd(np.array([60.0])))
