"""What predictors are given: shapes, order, missing days, the calendar of a series, and how often days are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_days import made_cohort

from wearjax.days import hourly
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.predict import inputs
from wearjax.predict.protocols import DataSpec, EvalContext


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> DayStore:
    path = tmp_path_factory.mktemp("inputs") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made_cohort(participants=3, days=4))  # of each the second day is not retained
    return DayStore(path)


class Counting(DayStore):
    reads = 0

    def values(self, index):
        self.reads += 1
        return super().values(index)


def context(store, dates=("2021-03-01", "2021-03-02", "2021-03-04", "2030-01-01")) -> EvalContext:
    users = (*sorted(set(store.participants))[:2], "nobody")
    return EvalContext("age", "train", users, (tuple(dates),) * 3)


def test_hourly_days_of_eligible_dates(store):
    asked = context(store)
    source = inputs.ParticipantDays(store)
    arrays = source.arrays(asked, DataSpec("hourly", "day"))
    assert [a.shape for a in arrays] == [(2, 24, 38), (2, 24, 38), (0, 24, 38)]
    # Rows 0 and 3 of the first participant; row 1 is not retained, row 2 not asked for.
    expected = hourly.model_form(hourly.aggregate(store.batch([0, 3])))
    np.testing.assert_array_equal(arrays[0], expected)
    missing = np.isnan(arrays[1][..., :19])
    np.testing.assert_array_equal(missing, arrays[1][..., 19:] == 1)
    assert missing.any()
    assert not missing.all()
    assert source.n_absent(asked) == 2 + 2 + 4
    assert source.users == tuple(sorted(set(store.participants)))


def test_minute_days_and_series(store):
    source = inputs.ParticipantDays(store)
    minutes = source.arrays(context(store), DataSpec("minute", "day"))
    assert [a.shape for a in minutes] == [(2, 1440, 38), (2, 1440, 38), (0, 1440, 38)]
    np.testing.assert_array_equal(minutes[0][1, :, :19], store.values(3).T)
    series = source.arrays(context(store), DataSpec("hourly", "series", 80))
    assert [a.shape for a in series] == [(80, 38)] * 3
    days = hourly.model_form(hourly.aggregate(store.batch([0, 3])))
    np.testing.assert_array_equal(series[0][-24:], days[1])
    assert np.isnan(series[0][8:-24, :19]).all()  # the two days between are gaps, whether recorded or not
    np.testing.assert_array_equal(series[0][:8], days[0][-8:])
    assert np.isnan(series[2][:, :19]).all()
    assert (series[2][:, 19:] == 1).all()


def test_dates_are_those_of_the_days_that_are_there(store):
    arrays = inputs.ParticipantDays(store).arrays(context(store), DataSpec())
    assert arrays.dates == (("2021-03-01", "2021-03-04"),) * 2 + ((),)
    assert [len(dates) for dates in arrays.dates] == [len(array) for array in arrays]


def test_positions_as_in_a_sequence(store):
    arrays = inputs.ParticipantDays(store).arrays(context(store), DataSpec())
    np.testing.assert_array_equal(arrays[-2], arrays[1])
    with pytest.raises(IndexError):
        arrays[3]


def test_a_method_that_writes_into_its_data_harms_only_itself(store):
    arrays = inputs.ParticipantDays(store).arrays(context(store), DataSpec())
    before = arrays[0].copy()
    arrays[0][:] = 7
    np.testing.assert_array_equal(arrays[0], before)


def test_nothing_is_read_before_it_is_taken_and_hours_only_once(store):
    days = Counting(store.path)
    source = inputs.ParticipantDays(days)
    arrays = source.arrays(context(store), DataSpec())
    assert (days.reads, len(arrays)) == (0, 3)
    arrays[0]
    assert days.reads == 2
    for _ in range(3):
        list(arrays)
    assert days.reads == 4


def test_the_cache_is_bounded_and_full_caches_still_answer(store):
    days = Counting(store.path)
    one_day = 19 * 24 * 4
    arrays = inputs.ParticipantDays(days, cache_bytes=one_day).arrays(context(store), DataSpec())
    first = [list(arrays) for _ in range(2)]
    assert days.reads == 4 + 3  # one day of four is kept
    for a, b in zip(*first, strict=True):
        np.testing.assert_array_equal(a, b)


def test_find_keeps_the_order_asked(store):
    source = inputs.ParticipantDays(store)
    user = sorted(set(store.participants))[1]
    assert source.find(user, ("2021-03-04", "2021-03-01", "2020-01-01")).tolist() == [7, 4]
    assert source.find("nobody", ("2021-03-01",)).tolist() == []
    assert source.find(user, ()).tolist() == []


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True),
    st.integers(1, 24 * 14),
    st.integers(0, 24),
    st.randoms(use_true_random=False),
)
def test_series_agrees_with_a_plain_loop(offsets, length, cut, random):
    rng = np.random.default_rng(random.randrange(2**32))
    hours = rng.random((len(offsets), 24, 2)).astype(np.float32)
    hours[rng.random(hours.shape) < 0.3] = np.nan
    hours[np.argmax(offsets), cut:] = np.nan
    dates = [f"2020-02-{1 + k:02d}" for k in offsets]
    line = []
    for day in range(min(offsets), max(offsets) + 1):
        rows = hours[offsets.index(day)] if day in offsets else np.full((24, 2), np.nan)
        line.extend(rows)
    while line and np.isnan(line[-1]).all():
        line.pop()
    padded = [np.full(2, np.nan)] * length + line
    expected = np.asarray(padded[-length:], np.float32)
    out = inputs.series_window(hours, dates, length=length)
    np.testing.assert_array_equal(out[:, :2], expected)
    np.testing.assert_array_equal(out[:, 2:], np.isnan(expected))
