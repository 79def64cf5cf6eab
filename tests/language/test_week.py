import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_week import days, hide

from wearjax import channels
from wearjax.errors import MethodError
from wearjax.language import week


def test_units_are_for_people():
    array = days()
    shown = week.fullest_week(array).values
    assert shown.shape == (168, 19)
    np.testing.assert_allclose(shown[:, 5], array[:, :, 5].ravel() * 60)
    np.testing.assert_allclose(shown[:, 6], array[:, :, 6].ravel() / 1000)
    np.testing.assert_array_equal(shown[:, 0], array[:, :, 0].ravel())
    units = {c.name: week.hourly_unit(c) for c in channels.CHANNELS}
    assert units["watch_hr"] == "bpm"
    assert units["watch_energy"] == "kcal/h"
    assert units["iphone_distance"] == "m/h"
    assert units["sleep_asleep"] == "0/1"


def test_flag_of_missing_counts_even_with_a_value():
    array = days()
    array[2, 3, 19 + 5] = 1
    assert np.isnan(week.fullest_week(array).values[2 * 24 + 3, 5])


def test_fullest_and_of_equal_ones_the_latest():
    dates = ["2020-02-27", "2020-02-28", "2020-03-10", "2020-03-11", "2020-03-12", "2020-05-01", "2020-05-02"]
    shown = week.fullest_week(days(), dates)
    assert shown.start == dt.date(2020, 3, 10)
    hours = ~np.isnan(shown.values).all(axis=1).reshape(7, 24)
    np.testing.assert_array_equal(hours.all(axis=1), [1, 1, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(shown.values[24:48, 0], days()[3, :, 0])
    assert week.fullest_week(days()[:5], dates[:2] + dates[5:] + ["2020-05-03"]).start == dt.date(2020, 5, 1)
    assert week.fullest_week(days(10)).values[0, 0] == days(10)[3, 0, 0]
    thinned = hide(days(10), 9, slice(0, 1))
    assert week.fullest_week(thinned).values[0, 0] == thinned[2, 0, 0]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True), st.integers(0, 5))
def test_no_window_has_more_hours(offsets, seed):
    offsets.sort()
    rng = np.random.default_rng(seed)
    array = days(len(offsets))
    for day in range(len(offsets)):
        hide(array, day, slice(0, int(rng.integers(0, 25))))
    dates = [str(np.datetime64("2021-01-01") + offset) for offset in offsets]
    shown = week.fullest_week(array, dates)
    hours = (array[:, :, 19:] == 0).any(axis=2).sum(axis=1)
    totals = {o: sum(h for p, h in zip(offsets, hours, strict=True) if o <= p < o + 7) for o in offsets}
    if not hours.any():
        assert shown is None
        return
    assert shown.start == dt.date(2021, 1, 1) + dt.timedelta(
        days=max(o for o in totals if totals[o] == max(totals.values()))
    )
    assert (~np.isnan(shown.values).all(axis=1)).sum() == max(totals.values())


def test_nothing_measured_is_none():
    assert week.fullest_week(hide(days(2))) is None
    assert week.fullest_week(days(0)) is None


def test_refuses_other_shapes_and_dates():
    with pytest.raises(MethodError, match=r"\(day, 24, 38\)"):
        week.fullest_week(days()[:, :, :19])
    with pytest.raises(MethodError, match="7 of them but 1 dates"):
        week.fullest_week(days(), ["2020-01-01"])
    with pytest.raises(MethodError, match="ISO dates"):
        week.fullest_week(days(1), ["1.1.2020"])


def test_coverage():
    shown = week.fullest_week(hide(days(), slice(0, 1)))
    np.testing.assert_allclose(week.coverage(shown), 6 / 7)
