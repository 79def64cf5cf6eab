"""Zeros that mean "not measured", and the filters that decide which days are kept."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.channels import HEART_RATE, SLEEP, WORKOUTS
from wearjax.days import clean

DEVICE_COUNTS = (0, 1, 3, 4, 6)
FLIGHTS = 2


def zeros(minutes: int = 1440) -> np.ndarray:
    return np.zeros((19, minutes), np.float32)


@hypothesis.given(seed=st.integers(0, 2**32 - 1), minutes=st.sampled_from([24, 400, 1440]))
def test_only_zeros_change_and_twice_is_once(seed, minutes):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 3, (19, minutes)).astype(np.float32)
    values[rng.random(19) < 0.3] = 0
    values[rng.random(values.shape) < 0.2] = np.nan
    before = values.copy()
    out = clean.zero_to_nan(values)
    np.testing.assert_array_equal(values, before)
    changed = np.isnan(out) & ~np.isnan(values)
    assert not values[changed].any()
    np.testing.assert_array_equal(out[~changed], values[~changed])
    np.testing.assert_array_equal(clean.zero_to_nan(out), out)


@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_the_zeros_of_a_day_come_back_except_those_of_heart_rate(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, (19, 400)).astype(np.float32)
    values[rng.random(19) < 0.4] = 0
    values[SLEEP[0], rng.integers(1, 400) :] = 0
    out = clean.nan_to_zero(clean.zero_to_nan(values))
    others = np.arange(19) != HEART_RATE
    np.testing.assert_array_equal(out[others], values[others])
    np.testing.assert_array_equal(out[HEART_RATE], clean.zero_to_nan(values)[HEART_RATE])


def test_other_gaps_stay_missing():
    day = zeros()
    day[0, :10] = 3
    day[list(SLEEP), :200] = 1
    rows = [0, FLIGHTS, *SLEEP, *WORKOUTS]
    day[rows, 700:] = np.nan
    cleaned = clean.zero_to_nan(day)
    np.testing.assert_array_equal(clean.nan_to_zero(cleaned)[rows], day[rows])
    few = cleaned.copy()
    few[SLEEP[0], 10:200] = 0  # zeros that were kept: the rule was not applied, a gap is a gap
    np.testing.assert_array_equal(clean.nan_to_zero(few)[SLEEP[0]], few[SLEEP[0]])


def test_every_zero_of_heart_rate_is_missing():
    values = zeros()
    values[HEART_RATE, 100:200] = 1.1
    missing = np.isnan(clean.zero_to_nan(values)[HEART_RATE])
    assert missing.sum() == 1340
    assert not missing[100:200].any()


@pytest.mark.parametrize("channel", DEVICE_COUNTS)
def test_a_device_channel_without_a_value_is_missing(channel):
    values = zeros()
    values[channel, 50:] = np.nan
    assert np.isnan(clean.zero_to_nan(values)[channel]).all()
    values[channel, 3] = 0.5
    assert np.isnan(clean.zero_to_nan(values)[channel]).sum() == 1390


@pytest.mark.parametrize("channel", [FLIGHTS, *WORKOUTS])
def test_rare_channels_keep_their_zeros(channel):
    assert not clean.zero_to_nan(zeros())[channel].any()


@pytest.mark.parametrize(("minutes", "missing"), [(179, 1261), (180, 0)])
def test_each_sleep_channel_needs_three_hours(minutes, missing):
    asleep, in_bed = SLEEP
    values = zeros()
    values[asleep, :minutes] = 1
    values[in_bed, :400] = 1
    out = clean.zero_to_nan(values)
    assert np.isnan(out[asleep]).sum() == missing
    assert np.all(out[asleep, :minutes] == 1)
    assert not np.isnan(out[in_bed]).any()


def test_variance_is_of_the_measured_values():
    values = np.full((19, 10), np.nan, np.float32)
    values[0, :4] = [1, 2, 3, 4]
    values[1, 0] = 5
    values[2] = 3
    variance = clean.channel_variance(values)
    assert variance[0] == 1.25
    assert np.isnan(variance[1])
    assert variance[2] == 0
    assert variance.dtype == np.float32


def test_variance_of_values_beyond_measure_is_finite():
    values = np.full((19, 2), 3e38, np.float32) * np.float32([1, -1])
    assert np.isfinite(clean.channel_variance(values)).all()


def test_wear_bound_is_kept():
    assert clean.enough_wear(np.array([0, 720, 720.5])).tolist() == [True, True, False]
    assert clean.enough_wear(np.array([360, 361]), 0.75).tolist() == [True, False]


def test_variance_bounds():
    enough = np.full(19, 5.0)
    rows = np.stack([enough] * 5)
    rows[0, 0] = 1.0
    rows[1, 0] = 0.99
    rows[2, 0] = np.nan
    rows[3, HEART_RATE] = 9e-5
    rows[4, FLIGHTS] = 0
    assert clean.enough_variance(rows).tolist() == [True, False, True, False, True]
    assert clean.enough_variance(rows, {2: 1.0}).tolist() == [True, True, True, True, False]
    assert clean.enough_variance(enough[:1], {0: 6.0, 5: 9.0}) == np.False_


def test_retained_needs_both():
    variance = np.stack([np.full(19, 5.0), np.full(19, 0.0)])
    nonwear = np.array([0.0, 0.0])
    assert clean.retained(nonwear, variance).tolist() == [True, False]
    assert clean.retained(nonwear + 800, variance).tolist() == [False, False]
