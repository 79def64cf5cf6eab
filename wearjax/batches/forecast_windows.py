"""Hours before and after a midnight as examples: what a forecaster reads, and what it should have said."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.batches.source import Batch
from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.segments import forecast_points
from wearjax.segments.trajectories import Trajectories


class ForecastWindows:
    """Every point of the given trajectories at which a day is worth forecasting, without the cap of the evaluation.

    `values` float32 (B, steps + horizon, 19), hours in the units of the channel table, NaN = missing: the last `steps`
    hours before the point, padded on the left where the history is shorter, then the `horizon` hours after it.
    `index`, the number of the window. The hours of all participants are kept in memory.

    Attributes:
        participants: those that have a window.
        owner: of each window, the place of its participant among those.
        points: day of each window in its participant's trajectory.
    """

    def __init__(self, trajectories: Trajectories, *, steps: int, horizon: int):
        self.steps, self.horizon = steps, horizon
        hours, starts, days, participants, first = [], [], [], [], 0
        for trajectory in trajectories:
            points = forecast_points.start_days(trajectory.retained, horizon)
            hours.append(np.ascontiguousarray(trajectory.values.T, np.float32))
            starts.append(first)
            first += len(hours[-1])
            participants.append(trajectory.participant)
            days.append(np.asarray(points, np.int64))
        self._hours = np.concatenate(hours) if hours else np.empty((0, N_CHANNELS), np.float32)
        self._starts = np.asarray([*starts, first], np.int64)
        trajectory_of = np.repeat(np.arange(len(days)), [len(d) for d in days])
        self.points = np.concatenate(days) if days else np.empty(0, np.int64)
        self._first = self._starts[trajectory_of]
        self._origin = self._first + HOURS_PER_DAY * self.points
        with_windows, self.owner = np.unique(trajectory_of, return_inverse=True)
        self.participants = tuple(participants[i] for i in with_windows)

    def __len__(self) -> int:
        return len(self.points)

    def trajectories(self) -> Iterator[Float32[np.ndarray, "19 hour"]]:
        """The hours of each trajectory, those without a window included."""
        for start, stop in zip(self._starts[:-1], self._starts[1:], strict=True):
            yield self._hours[start:stop].T

    def read(self, items: Int64[np.ndarray, "B"], positions: Int64[np.ndarray, "B"]) -> Batch:
        """The given windows."""
        del positions  # nothing about a window is random
        rows = self._origin[items, None] + np.arange(-self.steps, self.horizon)
        values = self._hours[np.maximum(rows, 0)]
        values[rows < self._first[items, None]] = np.nan
        return {"values": values, "index": np.asarray(items, np.int64)}

    def __repr__(self) -> str:
        return f"ForecastWindows(windows={len(self)}, participants={len(self.participants)})"
