"""Hours before a date: calendar gaps, what counts as measured, padding and cuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.segments import hourly_series

NAN = np.nan


def made_hours(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hours = rng.integers(1, 60, (n, 19, 24)).astype(np.float32)
    hours[:, 7:] = rng.random((n, 12, 24)) < 0.4
    hours[:, 5] /= 50
    hours[rng.random(hours.shape) < 0.3] = NAN
    return hours


def test_one_day_by_hand():
    hours = np.full((1, 19, 24), NAN, np.float32)
    hours[0, 0, 8:20] = 500  # steps, not measured at night
    hours[0, 3, 10:12] = 0  # a watch that wrote nothing but zeros
    hours[0, 5, 9] = 1.2
    hours[0, 7, :6] = 1
    hours[0, 7, 6:] = 0
    values, observed = hourly_series.series(hours, ["2020-01-01"], length=24)
    assert observed[0].all()  # gaps of a channel with steps are zeros
    assert values[0].tolist() == [0] * 8 + [500] * 12 + [0] * 4
    assert not observed[[1, 3, 4, 6]].any()
    assert np.flatnonzero(observed[5]).tolist() == [9]
    assert values[5, 9] == np.float32(1.2)
    # No day of hours reaches the 180 of the sleep rule: hours asleep stay, all others are missing.
    assert np.flatnonzero(observed[7]).tolist() == list(range(6))
    assert not observed[8].any()
    assert observed[2].all()  # flights and workouts that were not measured are zeros
    assert observed[9:].all()
    assert (values[9:] == 0).all()
    assert (values[~observed] == 0).all()


def test_gaps_of_the_calendar_are_missing_hours_and_days_need_no_order():
    hours = made_hours(3)
    values, observed = hourly_series.series(hours, ["2020-03-01", "2020-02-27", "2020-03-02"], length=6 * 24)
    days = (
        observed.any(axis=0).reshape(6, 24).all(axis=1)
    )  # 2020 is a leap year: 27, 28, 29 February, 1, 2 March
    assert days.tolist() == [False, True, False, False, True, True]
    first, _ = hourly_series.series(hours[1:2], ["2020-02-27"], length=24)
    np.testing.assert_array_equal(values[:, 24:48], first)


@given(st.integers(1, 200), st.integers(1, 5))
def test_the_last_hours_are_kept_and_the_rest_is_padding(length, n):
    hours = made_hours(n, seed=n)
    dates = [f"2020-01-0{i + 1}" for i in range(n)]
    whole, seen = hourly_series.series(hours, dates, length=24 * n)
    values, observed = hourly_series.series(hours, dates, length=length)
    assert values.shape == observed.shape == (19, length)
    kept = min(length, 24 * n)
    np.testing.assert_array_equal(values[:, length - kept :], whole[:, 24 * n - kept :])
    np.testing.assert_array_equal(observed[:, length - kept :], seen[:, 24 * n - kept :])
    assert not observed[:, : length - kept].any()


@given(st.integers(1, 120))
def test_days_from_the_first_day_on_are_enough(length):
    dates = np.arange("2020-01-01", "2020-01-07", dtype="datetime64[D]")
    hours = made_hours(len(dates))
    days = dates.astype(int)
    needed = days >= hourly_series.first_day(int(days[-1]), length=length)
    whole = hourly_series.series(hours, dates.astype(str), length=length)
    part = hourly_series.series(hours[needed], dates[needed].astype(str), length=length)
    np.testing.assert_array_equal(part, whole)
    assert needed.sum() == min(len(dates), -(-length // 24))


def test_nobody_and_refusals():
    values, observed = hourly_series.series(np.empty((0, 19, 24), np.float32), [], length=5)
    assert not observed.any()
    assert not values.any()
    hours = made_hours(2)
    with pytest.raises(ConfigError, match=r"expected \(1, 19, 24\)"):
        hourly_series.series(hours, ["2020-01-01"], length=5)
    with pytest.raises(ConfigError, match="two days at one date"):
        hourly_series.series(hours, ["2020-01-01"] * 2, length=5)
    with pytest.raises(ConfigError, match="ISO dates"):
        hourly_series.series(hours, ["2020-01-01", "soon"], length=5)
    with pytest.raises(ConfigError, match="at least 1"):
        hourly_series.series(hours, ["2020-01-01", "2020-01-02"], length=0)
