"""Which windows are evaluated, and what of the time points is left out and counted."""

from __future__ import annotations

import numpy as np
import pytest
from made_records import hours, write_root

from wearjax.benchmarks.openmhc.forecasting_cases import Cases
from wearjax.segments import forecast_points, trajectories

TEST = ("zeros", "weeks", "plain", "one", "lost", "absent")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_root(tmp_path_factory.mktemp("data") / "root")


def cases(root, **options):
    points = forecast_points.read(forecast_points.shipped(root, 24))
    given = {"horizon": 24, **options}
    return Cases(trajectories.open_trajectories(root), points, TEST, **given)


def test_windows_come_in_the_order_of_the_points(root):
    found = cases(root)
    assert found.participants == ("plain", "weeks", "zeros")
    assert (found.n_windows, found.n_windows_of("plain")) == (9, 5)
    windows = found.windows("plain")
    assert windows.days.tolist() == [10, 3, 27, 8, 15]
    assert windows.origins.tolist() == [240, 72, 648, 192, 360]
    values = hours(28, 0).T
    np.testing.assert_array_equal(windows.targets()[1], values[:, 72:96])
    np.testing.assert_array_equal(windows.histories[1], values[:, :72])
    assert not windows.history(0).flags.writeable
    assert windows.first().days.tolist() == [10]


def test_what_is_left_out_is_counted(root):
    assert cases(root).skipped == {
        "participants of the split without a day": 1,
        "time points of participants without a day": 1,
        "time points without a history": 1,
        "time points whose target ends after the record": 2,
        "participants without a time point": 2,  # `one` and `lost`
    }
    longer = cases(root, horizon=48)
    assert longer.skipped["time points whose target ends after the record"] == 3
    assert longer.windows("plain").targets().shape == (4, 19, 48)


def test_fewer_windows_are_spread_over_the_participants(root):
    every = {p: cases(root).n_windows_of(p) for p in ("plain", "weeks", "zeros")}
    assert list(every.values()) == [5, 2, 2]
    wanted = {1: (1,), 3: (1, 1, 1), 4: (2, 1, 1), 6: (2, 2, 2), 8: (4, 2, 2), 9: (5, 2, 2), 20: (5, 2, 2)}
    for n, sizes in wanted.items():
        found = cases(root, max_samples=n)
        assert tuple(found.n_windows_of(p) for p in found.participants) == sizes
        assert found.skipped.get("time points beyond max_samples", 0) == max(9 - n, 0)
        assert found.skipped.get("participants beyond max_samples", 0) == 3 - len(sizes)
    assert cases(root, max_samples=4).windows("plain").days.tolist() == [3, 8]
    assert cases(root, max_samples=3).windows("plain").days.tolist() == [27]


def test_windows_may_start_after_midnight(root):
    found = cases(root, start_hour=6)
    assert found.windows("plain").origins.tolist() == [246, 78, 198, 366]
    assert found.skipped["time points whose target ends after the record"] == 3
    assert "time points without a history" not in found.skipped  # six hours precede day 0


def test_the_digest_names_data_and_points(root):
    keys = {cases(root, **o).digest() for o in ({}, {"max_samples": 8}, {"horizon": 48})}
    assert len(keys) == 3
    assert cases(root).digest() == cases(root).digest()
