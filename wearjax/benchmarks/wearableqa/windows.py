"""Which days a question is about: window, halves, the window before, baselines and history, in days from its end date.

Lengths and the days that must be there are this project's (WearableQA publishes the window of 28 days and the history
of 500).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float64, Int64

from wearjax.daily_metrics import BY_KEY, INDEX, METRICS, N_METRICS
from wearjax.sources.daily_record import DailyRecord

EPOCH = datetime.date(1970, 1, 1)
WINDOW = 28
HALF = 14
HISTORY = 500
BASELINE = 84
BASELINES = (56, 84, 112)
BASELINE_SHARE = 0.6  # of its days that must be valid
END_STEP = 14  # days between the end dates tried
MAX_ENDS = 12  # of a person
DENSE_DAYS, SPARSE_DAYS, HALF_DAYS, PAIRED_DAYS = 20, 16, 8, 16

Range = tuple[int, int]  # closed, in days from the end date
WINDOW_RANGE: Range = (1 - WINDOW, 0)
FIRST_HALF: Range = (1 - WINDOW, -HALF)
SECOND_HALF: Range = (1 - HALF, 0)
PREVIOUS: Range = (1 - 2 * WINDOW, -WINDOW)
HISTORY_RANGE: Range = (1 - WINDOW - HISTORY, -WINDOW)
FUTURE: Range = (1, WINDOW)


def baseline_range(days: int = BASELINE) -> Range:
    """The days before the window."""
    return (1 - WINDOW - days, -WINDOW)


def days_of(record: DailyRecord, key: str, end: int, span: Range) -> Float64[np.ndarray, " day"]:
    """A metric on every day of a range; NaN where not measured."""
    return record.between(end + span[0], end + span[1])[:, INDEX[key]]


def valid_window(values: Float64[np.ndarray, "window"], key: str) -> bool:
    """Whether enough of the window is measured, as a whole and in each half."""
    there = np.isfinite(values)
    wanted = DENSE_DAYS if BY_KEY[key].dense else SPARSE_DAYS
    return bool(there.sum() >= wanted and min(there[:HALF].sum(), there[HALF:].sum()) >= HALF_DAYS)


def valid_pair(a: Float64[np.ndarray, "window"], b: Float64[np.ndarray, "window"]) -> bool:
    """Whether two metrics share enough days, as a whole and in each half."""
    both: Bool[np.ndarray, "window"] = np.isfinite(a) & np.isfinite(b)
    return bool(both.sum() >= PAIRED_DAYS and min(both[:HALF].sum(), both[HALF:].sum()) >= HALF_DAYS)


def valid_baseline(values: Float64[np.ndarray, " day"]) -> bool:
    """Whether enough of a baseline is measured."""
    return bool(np.isfinite(values).mean() >= BASELINE_SHARE)


def valid_at(record: DailyRecord, ends: Int64[np.ndarray, "end"]) -> Bool[np.ndarray, "end metric=16"]:
    """Whether each metric has a valid window at each end date (days since 1970-01-01)."""
    if not len(ends):
        return np.zeros((0, N_METRICS), bool)
    first = int(ends.min()) - WINDOW + 1
    there = np.isfinite(record.between(first, int(ends.max())))
    before = np.concatenate([np.zeros((1, N_METRICS), np.int64), there.cumsum(axis=0)])
    last = ends - first + 1
    halves = [before[last - k] - before[last - k - HALF] for k in (HALF, 0)]
    wanted = [DENSE_DAYS if metric.dense else SPARSE_DAYS for metric in METRICS]
    return (halves[0] + halves[1] >= wanted) & (np.minimum(*halves) >= HALF_DAYS)


def valid_metrics(record: DailyRecord, end: int) -> tuple[str, ...]:
    """Metrics with a valid window, in the order of the table."""
    return tuple(np.array(list(INDEX))[valid_at(record, np.array([end]))[0]].tolist())


def end_dates(record: DailyRecord) -> Iterator[int]:
    """End dates worth a question: every 14 days back from the last day, where any metric has a valid window.

    At most twelve; of more, the latest.
    """
    if not len(record.dates):
        return
    ends = np.arange(int(record.dates[-1]), int(record.dates[0]) + WINDOW - 2, -END_STEP)
    yield from ends[valid_at(record, ends).any(axis=1)][:MAX_ENDS].tolist()
