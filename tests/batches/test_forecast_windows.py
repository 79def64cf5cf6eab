from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pytest

from wearjax.batches.forecast_windows import ForecastWindows
from wearjax.segments.trajectories import Trajectory

STEPS, HORIZON = 72, 24


def record(participant: str, n_days: int, left_out: tuple[int, ...] = ()) -> Trajectory:
    """Hours that tell their participant, channel and place."""
    values = np.arange(24 * n_days, dtype=np.float32) + 1000 * np.arange(19, dtype=np.float32)[:, None]
    values = values + 1e5 * (ord(participant) - ord("a"))
    values[5, ::7] = np.nan
    retained = np.ones(n_days, bool)
    retained[list(left_out)] = False
    return Trajectory(participant, dt.date(2024, 1, 1), values, retained)


@pytest.fixture(scope="module")
def windows():
    """b is too short for any window; of c one target day is not retained."""
    return ForecastWindows(
        [record("a", 6), record("b", 2), record("c", 8, (5,))], steps=STEPS, horizon=HORIZON
    )


def test_points_are_those_worth_forecasting_without_a_cap(windows):
    found = {
        participant: windows.points[windows.owner == place].tolist()
        for place, participant in enumerate(windows.participants)
    }
    # Three retained days of the seven before, and a retained target day.
    assert found == {"a": [3, 4, 5], "c": [3, 4, 6, 7]}
    many = ForecastWindows([record("a", 200)], steps=STEPS, horizon=HORIZON)
    assert len(many) == 197


def test_a_window_is_the_history_and_what_follows(windows):
    batch = windows.read(np.array([5, 0]), np.array([0, 1]))
    c, a = record("c", 8, (5,)).values, record("a", 6).values
    np.testing.assert_array_equal(batch["values"][0], c[:, 24 * 6 - STEPS : 24 * 6 + HORIZON].T)
    np.testing.assert_array_equal(batch["values"][1], a[:, : 24 * 3 + HORIZON].T)
    np.testing.assert_array_equal(batch["index"], [5, 0])
    assert batch["values"].dtype == np.float32
    assert batch["values"].shape == (2, STEPS + HORIZON, 19)


def test_short_histories_are_padded_on_the_left_and_never_reach_into_the_neighbour():
    windows = ForecastWindows([record("a", 6), record("c", 8)], steps=120, horizon=HORIZON)
    values = windows.read(np.arange(len(windows)), np.arange(len(windows)))["values"]
    for row, (day, owner) in enumerate(zip(windows.points, windows.owner, strict=True)):
        own = [record("a", 6), record("c", 8)][owner].values
        wanted = np.full((19, 120 + HORIZON), np.nan, np.float32)
        known = own[:, max(0, 24 * day - 120) : 24 * day + HORIZON]
        wanted[:, wanted.shape[1] - known.shape[1] :] = known
        np.testing.assert_array_equal(values[row], wanted.T)


def test_whole_records_for_the_statistics(windows):
    found = list(windows.trajectories())
    assert [part.shape for part in found] == [(19, 144), (19, 48), (19, 192)]
    np.testing.assert_array_equal(found[1], record("b", 2).values)


def test_longer_horizons_need_all_their_days():
    windows = ForecastWindows([record("c", 8, (5,))], steps=STEPS, horizon=48)
    assert windows.points.tolist() == [3, 6]


def test_nobody():
    windows = ForecastWindows([], steps=STEPS, horizon=HORIZON)
    assert len(windows) == 0
    assert windows.participants == ()


def test_reading_processes_get_a_copy(windows):
    copy = pickle.loads(pickle.dumps(windows))
    some = np.array([1, 2])
    np.testing.assert_array_equal(copy.read(some, some)["values"], windows.read(some, some)["values"])
