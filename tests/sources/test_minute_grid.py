"""Samples on minute grids: totals, unions, means and what silence means."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.channels import CATEGORIES, DEVICE_GROUPS, INDEX, SLEEP
from wearjax.errors import ConfigError
from wearjax.sources import minute_grid
from wearjax.sources.minute_grid import MinuteGrid

NOON = 19_844 * 86_400 + 12 * 3600  # 2024-05-01
DATE = dt.date(2024, 5, 1)
STEPS, HR, ASLEEP = INDEX["watch_steps"], INDEX["watch_hr"], INDEX["sleep_asleep"]

samples = st.lists(
    st.tuples(st.integers(0, 3 * 86_400), st.integers(0, 90_000), st.floats(0, 1e5)), min_size=1, max_size=30
)


def columns(rows):
    start, length, amount = (np.array(column) for column in zip(*rows, strict=True))
    return NOON + start, NOON + start + length, amount.astype(np.float64)


def add(grid, *rows, channel=STEPS, device=0):
    """Rows of (minutes after noon, minutes after noon, amount)."""
    start, end, amount = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    grid.add_counts(channel, NOON + 60 * start, NOON + 60 * end, amount, device=device)


@given(samples)
def test_spreading_keeps_every_total(rows):
    start, end, amount = columns(rows)
    for s, e, a in zip(start, end, amount, strict=True):
        _, shares = minute_grid.spread(np.array([s]), np.array([e]), np.array([a]))
        assert (shares >= 0).all()
        np.testing.assert_allclose(shares.sum(), a, rtol=1e-12, atol=1e-290)


@given(samples)
@settings(max_examples=40)
def test_day_totals_add_up_over_the_grid(rows):
    start, end, amount = columns(rows)
    grid = MinuteGrid()
    grid.add_counts(STEPS, start, end, amount)
    total = sum(np.nansum(grid.take(date)[STEPS], dtype=np.float64) for date in grid.dates())
    np.testing.assert_allclose(total, amount.sum(), rtol=1e-5, atol=1e-6)


@given(samples, st.integers(1, 29))
@settings(max_examples=40)
def test_batches_do_not_matter(rows, cut):
    start, end, amount = columns(rows)
    whole, parts = MinuteGrid(), MinuteGrid()
    whole.add_counts(STEPS, start, end, amount)
    for part in (slice(cut), slice(cut, None)):
        parts.add_counts(STEPS, start[part], end[part], amount[part])
    assert whole.dates() == parts.dates()
    for date in whole.dates():
        np.testing.assert_allclose(whole.take(date), parts.take(date), rtol=1e-5)


def test_spread_is_by_overlap():
    minute, share = minute_grid.spread(np.array([90]), np.array([210]), np.array([8.0]))
    assert minute.tolist() == [1, 2, 3]
    assert share.tolist() == [2, 4, 2]


def test_a_sample_without_length_goes_to_its_minute():
    minute, share = minute_grid.spread(np.array([119, 120]), np.array([119, 120]), np.array([3.0, 4.0]))
    assert (minute.tolist(), share.tolist()) == ([1, 2], [3, 4])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.integers(0, 59))
def test_a_night_in_pieces_covers_what_it_covers_whole(lengths, second):
    edges = second + np.concatenate(([0], np.cumsum(lengths)))
    whole = set(minute_grid.covered(edges[:1], edges[-1:]).tolist())
    pieces = set(minute_grid.covered(edges[:-1], edges[1:]).tolist())
    # A piece of seconds may mark the minute it starts in: at most the first and the last minute differ.
    assert whole <= pieces
    assert len(pieces - whole) <= 2
    assert abs(len(whole) - (edges[-1] - edges[0]) / 60) <= 1


def test_two_devices_of_a_kind_do_not_add_up():
    grid = MinuteGrid()
    add(grid, (0, 10, 100), device=0)
    add(grid, (0, 5, 60), (20, 21, 7), device=1)
    values = grid.take(DATE)[STEPS, 720:]
    assert values[:5].tolist() == [12] * 5  # the larger of 10 and 12
    assert values[5:10].tolist() == [10] * 5
    assert values[20] == 7
    assert np.isnan(values[10:20]).all()


def test_samples_of_one_device_add_up_within_a_minute():
    grid = MinuteGrid()
    add(grid, (0, 0.5, 3), (0.5, 1, 4))
    assert grid.take(DATE)[STEPS, 720] == 7


def test_rates_average_within_a_minute_and_fill_nothing():
    grid = MinuteGrid()
    grid.add_rates(HR, NOON + np.array([0, 30, 59, 120]), np.array([1.0, 2.0, 3.0, 1.5]))
    row = grid.take(DATE)[HR]
    assert (row[720], row[722]) == (2.0, 1.5)
    assert np.isnan(row).sum() == 1438


def test_flags_unite_and_known_off_yields_to_on():
    grid = MinuteGrid()
    at = NOON + 60 * np.array([0.0, 5.0])
    grid.add_flags(ASLEEP, at, at + 600)
    grid.add_flags(ASLEEP, NOON + np.array([300.0]), NOON + np.array([1200.0]), on=False)
    row = grid.take(DATE)[ASLEEP]
    assert row[720:735].tolist() == [1] * 15
    assert row[735:740].tolist() == [0] * 5
    assert np.isnan(row[740:]).all()


def test_taking_a_day_forgets_it():
    grid = MinuteGrid()
    add(grid, (0, 1, 1))
    grid.take(DATE)
    assert grid.dates() == []
    assert np.isnan(grid.take(DATE)).all()


def test_a_sample_over_midnight_is_shared_between_the_days():
    grid = MinuteGrid()
    add(grid, (12 * 60 - 10, 12 * 60 + 30, 40))
    assert [np.nansum(grid.take(date)[STEPS]) for date in grid.dates()] == [10, 30]


def test_many_long_samples_take_several_steps(monkeypatch):
    monkeypatch.setattr(minute_grid, "_CELLS_AT_ONCE", 100)
    grid = MinuteGrid()
    add(grid, *[(i, i + 70, 70) for i in range(50)])
    np.testing.assert_allclose(np.nansum(grid.take(DATE)), 50 * 70, rtol=1e-6)


class TestSilence:
    def values(self, **measured):
        out = np.full((19, 1440), np.nan, np.float32)
        for name, value in measured.items():
            out[INDEX[name], 600] = value
        return out

    def zeros(self, **measured):
        filled = minute_grid.zero_when_recording(self.values(**measured))
        return {c for c in range(19) if not np.isnan(filled[c]).any()}

    def test_a_recording_watch_writes_zeros_but_no_heart_rate(self):
        watch = set(DEVICE_GROUPS["watch"]) - {HR}
        assert self.zeros(watch_hr=1.2) == watch | set(CATEGORIES["workouts"])

    def test_a_phone_alone_leaves_the_watch_missing(self):
        assert self.zeros(iphone_steps=5) == set(DEVICE_GROUPS["iphone"]) | set(CATEGORIES["workouts"])

    def test_sleep_alone_fills_sleep_alone(self):
        assert self.zeros(sleep_inbed=1) == set(SLEEP)

    def test_a_workout_alone_fills_workouts(self):
        assert self.zeros(workout_yoga=1) == set(CATEGORIES["workouts"])

    def test_measured_values_stay(self):
        assert minute_grid.zero_when_recording(self.values(watch_steps=9))[STEPS, 600] == 9

    def test_hours_without_phone_or_watch_are_non_wear(self):
        assert minute_grid.nonwear_by_hour(self.values(watch_hr=1.2)) == 23 * 60
        assert minute_grid.nonwear_by_hour(self.values(sleep_asleep=1)) == 1440

    def test_a_watch_that_measures_every_ten_minutes_is_worn(self):
        values = self.values()
        values[HR, ::10] = 1.1
        assert minute_grid.nonwear_by_hour(values) == 0

    def test_unknown_rule(self):
        with pytest.raises(ConfigError, match="zero-when-recording"):
            minute_grid.check_absent("zeros")
