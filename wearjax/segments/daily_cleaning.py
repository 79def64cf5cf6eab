"""From what a device wrote to what was measured: zeros that mean missing, and implausible values."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from wearjax.daily_metrics import METRICS
from wearjax.sources.daily_record import DailyRecord

ZERO, OUTSIDE = "zero or less that stands for not measured", "outside the plausible range"


def clean(record: DailyRecord) -> tuple[DailyRecord, Counter[tuple[str, str]]]:
    """The record with implausible values as missing, and without days on which nothing was measured.

    A zero of exercise hours, intensity or heart rate, and a stress level of zero or less, mean "not measured"
    (WearableQA's renderer); the ranges are this project's. Doing it twice changes nothing more.

    Returns:
        The record and how many values were taken out, by (metric, reason); days by ("day", reason).
    """
    values = np.array(record.values, np.float64)
    counts: Counter[tuple[str, str]] = Counter()
    for i, metric in enumerate(METRICS):
        column = values[:, i]
        zero = (column <= 0) & metric.zero_is_missing
        low, high = metric.plausible
        outside = ~np.isnan(column) & ~((column >= low) & (column <= high)) & ~zero
        for reason, taken in ((ZERO, zero), (OUTSIDE, outside)):
            if taken.any():
                counts[metric.key, reason] = int(taken.sum())
                column[taken] = np.nan
    filled = np.isfinite(values).any(axis=1)
    if not filled.all():
        counts["day", "nothing measured"] = int((~filled).sum())
    return dataclasses.replace(record, dates=record.dates[filled], values=values[filled]), counts
