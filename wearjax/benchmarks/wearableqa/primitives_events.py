"""Events: days beyond a line, runs of them, the largest one, and how long until the usual level is back."""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.benchmarks.wearableqa.primitives import Array, op

Direction = Literal["up", "down"]
NOT_RECOVERED = -1.0


@op("beyond")
def beyond(z: Array, *, threshold: float, direction: Direction) -> Array:
    """1 on days above `threshold` (`up`) or below its negative (`down`), else 0; NaN where not measured."""
    with np.errstate(invalid="ignore"):
        crossed = (z if direction == "up" else -z) > threshold
    return np.where(np.isnan(z), np.nan, crossed)


@op("excursion_count")
def excursion_count(z: Array, *, threshold: float, direction: Direction) -> Float64[np.ndarray, "variant 2"]:
    """Days beyond a line in the first and in the second half."""
    crossed = beyond(z, threshold=threshold, direction=direction) == 1
    cut = z.shape[1] // 2
    return np.stack([crossed[:, :cut].sum(axis=1), crossed[:, cut:].sum(axis=1)], axis=1).astype(np.float64)


@op("runs")
def runs(flags: Array, *, min_len: int = 2, gap: int = 0) -> Float64[np.ndarray, "variant 2"]:
    """Number of runs of flagged days and flagged days of the longest; up to `gap` other days do not end a run."""
    found = np.zeros((len(flags), 2))
    for run in _runs(flags == 1, np.zeros(flags.shape), gap=gap):
        counted = run.closed & (run.days >= min_len)
        found[:, 0] += counted
        found[:, 1] = np.where(counted, np.maximum(found[:, 1], run.days), found[:, 1])
    return found


@op("event_largest")
def event_largest(
    z: Array, *, threshold: float = 1.5, direction: Direction, min_len: int = 2, gap: int = 1
) -> Float64[np.ndarray, "variant 4"]:
    """The run of days beyond a line with the largest summed |z|.

    A day that lies within the line or was not measured does not end a run unless `gap` such days are exceeded.

    Returns:
        Index of its first and of its last day beyond the line, the sum, and by which share of the second largest it
        exceeds that one (inf where it is the only one). All NaN where there is none.
    """
    crossed = beyond(z, threshold=threshold, direction=direction) == 1
    v = len(z)
    first, last = np.full(v, np.nan), np.full(v, np.nan)
    best, second = np.zeros(v), np.zeros(v)
    for run in _runs(crossed, np.where(crossed, np.abs(z), 0.0), gap=gap):
        counted = run.closed & (run.days >= min_len)
        larger = counted & (run.weight > best)
        second = np.where(larger, best, np.where(counted, np.maximum(second, run.weight), second))
        first, last = np.where(larger, run.first, first), np.where(larger, run.last, last)
        best = np.where(larger, run.weight, best)
    with np.errstate(divide="ignore", invalid="ignore"):
        lead = np.where(second > 0, best / second - 1, np.inf)
    out = np.stack([first, last, best, lead], axis=1)
    return np.where(np.isnan(first)[:, None], np.nan, out)


@op("days_to_return")
def days_to_return(
    z: Array, event: Float64[np.ndarray, "variant event"], *, within: float = 0.5, consecutive: int = 2
) -> Float64[np.ndarray, "variant 2"]:
    """Days from an event's end to the first of `consecutive` measured days within the usual level.

    Days that were not measured are passed over: a day that lacks neither ends a recovery nor breaks it off.

    Args:
        event: as `event_largest` gives it; its second column is the last day.

    Returns:
        The days, −1 where the series ends before; and the days not measured from the event's end to the last of those
        days (or to the series' end). NaN where there is no event.
    """
    n = z.shape[1]
    end = event[:, 1:2]
    there = ~np.isnan(end[:, 0])
    last = np.where(there[:, None], end, 0.0)
    day = np.argsort(np.isnan(z), axis=1, kind="stable")  # measured days in order, then the others
    with np.errstate(invalid="ignore"):
        usual = np.abs(np.take_along_axis(z, day, axis=1)) <= within
    calm = usual & (day > last)
    for k in range(1, consecutive):
        calm[:, :-k] &= usual[:, k:]
        calm[:, n - k :] = False
    back = calm.any(axis=1)
    place = calm.argmax(axis=1)
    returned, confirmed = (
        np.where(back, np.take_along_axis(day, at[:, None], axis=1)[:, 0], n)
        for at in (place, np.minimum(place + consecutive - 1, n - 1))
    )
    stretch = (np.arange(n) > last) & (np.arange(n) <= confirmed[:, None])
    gone = (stretch & np.isnan(z)).sum(axis=1)
    days = np.where(back, returned - last[:, 0], NOT_RECOVERED)
    return np.where(there[:, None], np.stack([days, gone], axis=1), np.nan)


class _Run:
    """The run that is open in each variant, and where it has just been closed."""

    def __init__(self, v: int):
        self.closed: Bool[np.ndarray, " variant"] = np.zeros(v, bool)
        self.first, self.last = np.zeros(v), np.zeros(v)
        self.days, self.weight = np.zeros(v), np.zeros(v)


def _runs(flags: Bool[np.ndarray, "variant day"], weights: Array, *, gap: int):
    """Walks the days of all variants at once; yields the same object each time some runs have ended."""
    v, n = flags.shape
    run = _Run(v)
    for day in range(n + gap + 1):
        today = flags[:, day] if day < n else np.zeros(v, bool)
        run.closed = (run.days > 0) & ~today & (day - run.last > gap)
        if run.closed.any():
            yield run
            run.days = np.where(run.closed, 0.0, run.days)
            run.weight = np.where(run.closed, 0.0, run.weight)
        if not today.any():  # and none after the last day
            continue
        run.first = np.where(today & (run.days == 0), float(day), run.first)
        run.last = np.where(today, float(day), run.last)
        run.days = run.days + today
        run.weight = run.weight + np.where(today, weights[:, day], 0.0)
