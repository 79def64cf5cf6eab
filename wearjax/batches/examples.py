"""What one example of a batch is: a day, or several days of a participant joined along time."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from wearjax.batches.source import Batch
from wearjax.days.store import Days
from wearjax.segments import seven_days


class DayExamples:
    """Single days: `values` (B, 19, 1440), NaN = not measured, and `index`, the place in the store."""

    def __init__(self, days: Days, indices: Int64[np.ndarray, "day"]):
        self._days = days
        self._indices = np.asarray(indices, np.int64)

    def __len__(self) -> int:
        return len(self._indices)

    def read(self, items: Int64[np.ndarray, "B"], positions: Int64[np.ndarray, "B"]) -> Batch:
        del positions  # nothing about a day is random
        index = self._indices[items]
        return {"values": self._days.batch(index), "index": index}

    def __repr__(self) -> str:
        return f"DayExamples({self._days.path}, days={len(self)})"


class SevenDayExamples:
    """Windows of a participant's days, without overlap, cut as for evaluation (`segments.seven_days`).

    `values` (B, 19, n_days · 1440), NaN where not measured and in padded days; `day_offsets` int32 (B, n_days),
    calendar days since the first real day, -1 in padded slots; `index`, the number of the window.
    """

    def __init__(self, days: Days, indices: Int64[np.ndarray, "day"], *, n_days: int = seven_days.N_DAYS):
        self._days = days
        self._indices = np.asarray(indices, np.int64)
        participants = [str(days.participants[i]) for i in self._indices]
        dates = [str(days.dates[i]) for i in self._indices]
        self._windows, self._offsets = seven_days.windows(participants, dates, n_days=n_days)

    def __len__(self) -> int:
        return len(self._windows)

    def read(self, items: Int64[np.ndarray, "B"], positions: Int64[np.ndarray, "B"]) -> Batch:
        del positions
        windows = self._windows[items]
        real = windows != seven_days.PADDING
        found = self._days.batch(self._indices[windows[real]])
        values = np.full((*windows.shape, *found.shape[1:]), np.nan, np.float32)
        values[real] = found
        joined = np.moveaxis(values, 1, 2).reshape(len(items), values.shape[2], -1)
        return {
            "values": joined,
            "day_offsets": self._offsets[items].astype(np.int32),
            "index": np.asarray(items, np.int64),
        }

    def __repr__(self) -> str:
        return f"SevenDayExamples({self._days.path}, windows={len(self)})"
