"""Places irregular samples on the minute grids of one participant's days, and decides what silence means.

Times are seconds of the local wall clock since 1970-01-01 00:00, so that a day is always 1,440 rows. Where a
clock was set back, two instants share a minute: counts add, rates average, flags unite.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Float32, Int64, Shaped

from wearjax.channels import CATEGORIES, DEVICE_GROUPS, HEART_RATE, MINUTES_PER_DAY, SLEEP
from wearjax.day import SHAPE
from wearjax.errors import ConfigError

Absent = Literal["zero-when-recording", "missing"]
ABSENT_NOTE = (
    "a minute without a record counts as 0 on a day on which that device recorded something, so measured minutes and "
    "days with data hold such zeros (absent=missing keeps them missing)"
)
SECONDS_PER_MINUTE = 60
_MEASURED, _OR_ZERO = "measured", "measured or taken as 0"
_EPOCH = dt.date(1970, 1, 1).toordinal()
_CELLS_AT_ONCE = 1 << 19  # bounds the memory of one step: a sample of a day covers 1,440 cells
_UNKNOWN, _OFF, _ON = 0, 1, 2


def known_as(notes: object) -> str:
    """What a recorded value is, by the notes of its import: zeros put where a device was silent are not measured."""
    return _OR_ZERO if isinstance(notes, list) and ABSENT_NOTE in notes else _MEASURED


def check_absent(absent: str) -> None:
    """Raises ConfigError for anything but the two known rules."""
    if absent not in get_args(Absent):
        raise ConfigError(f"absent={absent!r}: expected one of {', '.join(get_args(Absent))}")


def spread(
    start: Shaped[np.ndarray, "sample"],
    end: Shaped[np.ndarray, "sample"],
    amount: Float[np.ndarray, "sample"],
) -> tuple[Int64[np.ndarray, "cell"], Float[np.ndarray, "cell"]]:
    """Divides each amount over the minutes of [start, end) in proportion to the overlap.

    A sample without length falls into its minute whole. The shares of a sample add up to its amount.

    Returns:
        Minutes since 1970-01-01 00:00 and the share of each; a minute may occur several times.
    """
    first = np.floor_divide(start, SECONDS_PER_MINUTE).astype(np.int64)
    after = np.maximum(-np.floor_divide(-end, SECONDS_PER_MINUTE).astype(np.int64), first + 1)
    sample, minute = _ranges(first, after)
    length = np.maximum(end - start, 0).astype(np.float64)[sample]
    left = np.maximum(start[sample], minute * SECONDS_PER_MINUTE)
    right = np.minimum(end[sample], (minute + 1) * SECONDS_PER_MINUTE)
    share = np.where(length > 0, (right - left) / np.where(length > 0, length, 1.0), 1.0)
    return minute, amount[sample] * share


def covered(
    start: Shaped[np.ndarray, "sample"], end: Shaped[np.ndarray, "sample"]
) -> Int64[np.ndarray, "cell"]:
    """Minutes whose middle lies in [start, end); the minute of the start where there is none.

    By the middle, a night cut into many segments covers as many minutes as in one piece.
    """
    half = SECONDS_PER_MINUTE / 2
    first = np.ceil((start - half) / SECONDS_PER_MINUTE).astype(np.int64)
    after = np.ceil((end - half) / SECONDS_PER_MINUTE).astype(np.int64)
    short = after <= first
    first = np.where(short, np.floor_divide(start, SECONDS_PER_MINUTE), first).astype(np.int64)
    return _ranges(first, np.where(short, first + 1, after))[1]


def _ranges(
    first: Int64[np.ndarray, "sample"], after: Int64[np.ndarray, "sample"]
) -> tuple[Int64[np.ndarray, "cell"], Int64[np.ndarray, "cell"]]:
    """Concatenates `range(first, after)` of every sample: (sample number, value)."""
    length = after - first
    sample = np.repeat(np.arange(len(first)), length)
    before = np.cumsum(length) - length
    return sample, np.arange(len(sample)) - before[sample] + first[sample]


class MinuteGrid:
    """Minute values of one participant, filled sample by sample in any order.

    Memory grows with the days that hold samples (6 kB a channel, device and day), not with the samples.
    Where two devices of one kind recorded the same minute (an old and a new watch), the larger count holds:
    adding would double what both saw. Heart rates of a minute are averaged whoever measured them.
    """

    def __init__(self):
        # channel, device, day -> float32, NaN = no sample
        self._counts: dict[int, dict[int, dict[int, np.ndarray]]] = {}
        self._rates: dict[int, dict[int, np.ndarray]] = {}  # channel, day -> float32 (sum, number)
        self._flags: dict[int, dict[int, np.ndarray]] = {}  # channel, day -> uint8

    def add_counts(
        self,
        channel: int,
        start: Shaped[np.ndarray, "sample"],
        end: Shaped[np.ndarray, "sample"],
        amount: Float[np.ndarray, "sample"],
        *,
        device: int = 0,
    ) -> None:
        """Spreads amounts evenly over their intervals; `device` tells devices of one kind apart."""
        rows = self._counts.setdefault(channel, {}).setdefault(device, {})
        for part in _portions(start, end):
            cells, shares = spread(start[part], end[part], amount[part])
            cells, place = np.unique(cells, return_inverse=True)
            sums = np.bincount(place, shares)
            for day, minutes, of_day in _by_day(cells):
                row = rows.get(day)
                if row is None:
                    row = rows[day] = np.full(MINUTES_PER_DAY, np.nan, np.float32)
                old = row[minutes]
                row[minutes] = np.where(np.isnan(old), 0, old) + sums[of_day]

    def add_rates(
        self, channel: int, at: Shaped[np.ndarray, "sample"], rate: Float[np.ndarray, "sample"]
    ) -> None:
        """Adds readings of a rate; a minute's value is the mean of its readings."""
        rows = self._rates.setdefault(channel, {})
        cells, place = np.unique(
            np.floor_divide(at, SECONDS_PER_MINUTE).astype(np.int64), return_inverse=True
        )
        sums, numbers = np.bincount(place, rate), np.bincount(place)
        for day, minutes, of_day in _by_day(cells):
            row = rows.get(day)
            if row is None:
                row = rows[day] = np.zeros((2, MINUTES_PER_DAY), np.float32)
            row[0, minutes] += sums[of_day]
            row[1, minutes] += numbers[of_day]

    def add_flags(
        self,
        channel: int,
        start: Shaped[np.ndarray, "sample"],
        end: Shaped[np.ndarray, "sample"],
        *,
        on: bool = True,
    ) -> None:
        """Sets the flag in the covered minutes; `on=False` marks them off unless another sample sets it."""
        rows = self._flags.setdefault(channel, {})
        for part in _portions(start, end):
            for day, minutes, _ in _by_day(np.unique(covered(start[part], end[part]))):
                row = rows.get(day)
                if row is None:
                    row = rows[day] = np.zeros(MINUTES_PER_DAY, np.uint8)
                row[minutes] = np.maximum(row[minutes], _ON if on else _OFF)

    def dates(self) -> list[dt.date]:
        """Days with at least one sample, in order."""
        days = {d for devices in self._counts.values() for rows in devices.values() for d in rows}
        days |= {d for rows in (*self._rates.values(), *self._flags.values()) for d in rows}
        return [dt.date.fromordinal(day + _EPOCH) for day in sorted(days)]

    def take(self, date: dt.date) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        """The day's minute values, NaN where no sample says anything; the grid forgets the day."""
        day = date.toordinal() - _EPOCH
        values = np.full(SHAPE, np.nan, np.float32)
        for channel, devices in self._counts.items():
            for rows in devices.values():
                row = rows.pop(day, None)
                if row is not None:
                    np.fmax(values[channel], row, out=values[channel])
        for channel, rows in self._rates.items():
            row = rows.pop(day, None)
            if row is not None:
                np.divide(row[0], row[1], out=values[channel], where=row[1] > 0)
        for channel, rows in self._flags.items():
            row = rows.pop(day, None)
            if row is not None:
                values[channel, row != _UNKNOWN] = row[row != _UNKNOWN] == _ON
        return values


def zero_when_recording(
    values: Float32[np.ndarray, "channel=19 minute=1440"],
) -> Float32[np.ndarray, "channel=19 minute=1440"]:
    """Zeros where a device or sleep source that recorded on the day wrote nothing (the published days' form).

    A phone or watch with any sample gets zeros in its count channels, never in heart rate; the two sleep
    channels likewise; workouts when any device recorded. A source that is silent all day stays missing.
    """
    out = values.copy()
    filled: list[int] = []
    recorded = [group for group in DEVICE_GROUPS.values() if _any_measured(values, group)]
    for group in recorded:
        filled += [c for c in group if c != HEART_RATE]
    if _any_measured(values, SLEEP):
        filled += SLEEP
    if recorded or _any_measured(values, CATEGORIES["workouts"]):
        filled += CATEGORIES["workouts"]
    out[filled] = np.nan_to_num(out[filled], nan=0.0)
    return out


def nonwear_by_hour(values: Float32[np.ndarray, "channel=19 minute=1440"]) -> float:
    """Minutes of the clock hours in which neither phone nor watch recorded anything.

    Give the day before zeros are filled in. An hour is the unit because a worn watch at rest measures the
    heart every five to ten minutes with gaps of up to an hour, and a carried phone writes only when it moves.
    Sleep records alone do not count as wear: many come from a schedule.
    """
    devices = [c for group in DEVICE_GROUPS.values() for c in group]
    measured = ~np.isnan(values[devices]).all(axis=0)
    return float(60 * np.sum(~measured.reshape(24, 60).any(axis=1)))


def _any_measured(values: np.ndarray, group: tuple[int, ...]) -> bool:
    return not bool(np.isnan(values[list(group)]).all())


def _portions(start: np.ndarray, end: np.ndarray) -> Iterator[slice]:
    """Slices of the samples that each cover about `_CELLS_AT_ONCE` minutes."""
    cells = np.cumsum((end - start) // SECONDS_PER_MINUTE + 2)
    cuts = np.searchsorted(cells, np.arange(_CELLS_AT_ONCE, cells[-1] if len(cells) else 0, _CELLS_AT_ONCE))
    edges = np.unique(np.concatenate(([0], cuts + 1, [len(start)])).clip(max=len(start)))
    for low, high in itertools.pairwise(edges):
        yield slice(int(low), int(high))


def _by_day(cells: Int64[np.ndarray, "cell"]) -> Iterator[tuple[int, np.ndarray, slice]]:
    """Groups sorted minutes by day: (day since 1970, minutes of the day, slice of `cells`)."""
    days = cells // MINUTES_PER_DAY
    edges = np.concatenate(([0], np.flatnonzero(np.diff(days)) + 1, [len(cells)])).astype(int)
    for low, high in itertools.pairwise(edges):
        if high > low:
            yield int(days[low]), cells[low:high] - days[low] * MINUTES_PER_DAY, slice(low, high)
