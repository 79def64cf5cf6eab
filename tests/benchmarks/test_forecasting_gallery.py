"""The example windows: chosen by seed, kept with every method's forecast, and taken up again."""

from __future__ import annotations

import datetime as dt

import made_forecasts
import numpy as np

from wearjax.benchmarks.openmhc.forecasting_gallery import HISTORY_HOURS, Gallery

FIRST = dt.date(2020, 3, 1)
WINDOWS = {f"p{i}": 3 for i in range(6)} | {"none": 0}


def filled(methods, *, seed=1, people=range(6), count=4) -> Gallery:
    gallery = Gallery(WINDOWS, horizon=24, seed=seed, count=count)
    for i in people:
        for m, method in enumerate(methods):
            values = made_forecasts.record(i)
            found = made_forecasts.forecasts(f"p{i}", values, 1.0 + m, quantiles=method == "a", seed=m)
            gallery.keep(method, found, values, FIRST)
    return gallery


def test_windows_show_history_truth_and_forecasts():
    arrays = filled(("a", "b")).arrays(("a", "b"))
    assert len(arrays["participant"]) == 4
    person, start = arrays["participant"][0], arrays["start"][0]
    values = made_forecasts.record(int(person[1:]))
    day = (dt.date.fromisoformat(start[:10]) - FIRST).days
    assert start[10:] == " 00:00"
    origin = 24 * day
    assert origin in (48, 96, 120)
    history = arrays["history"][0]
    n = min(origin, HISTORY_HOURS)
    np.testing.assert_array_equal(history[:, -n:], values[:, origin - n : origin])
    assert np.isnan(history[:, :-n]).all()
    np.testing.assert_array_equal(arrays["target"][0], values[:, origin : origin + 24])
    found = made_forecasts.forecasts(person, values, 1.0, quantiles=True)
    row = (48, 96, 120).index(origin)
    np.testing.assert_array_equal(arrays["forecast/a"][0], found.point[row])
    np.testing.assert_array_equal(arrays["low/a"][0], found.quantiles[row, :, :, 0])
    np.testing.assert_array_equal(arrays["high/a"][0], found.quantiles[row, :, :, 2])
    assert np.isnan(arrays["low/b"]).all()


def test_the_choice_depends_on_the_seed_and_not_on_the_order():
    def same(a, b):
        return all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a)

    first = filled(("a",)).arrays(("a",))
    assert same(first, filled(("a",), people=reversed(range(6))).arrays(("a",)))
    assert not same(first, filled(("a",), seed=2).arrays(("a",)))


def test_a_record_goes_on():
    wanted = filled(("a", "b")).arrays(("a", "b"))
    early, late = filled(("a", "b"), people=range(3)), filled(("a", "b"), people=range(3, 6))
    for method in ("a", "b"):
        late.restore(method, early.record(method))
    found = late.arrays(("a", "b"))
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_windows_that_a_method_lacks_are_left_out():
    gallery = filled(("a",))
    assert gallery.arrays(("a", "b")) == {}
    assert gallery.arrays(()) == {}
    assert Gallery({}, horizon=24, seed=0).arrays(("a",)) == {}
