"""Batches of Apple Health records → checked samples on minute grids."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float64

from wearjax import channels
from wearjax.errors import SourceError
from wearjax.sources import apple_health_channels as known
from wearjax.sources import apple_health_time as times
from wearjax.sources.apple_health_device import Writer, WriterTable
from wearjax.sources.apple_health_rows import (
    END,
    END_OFFSET,
    START,
    START_OFFSET,
    UNIT,
    VALUE,
    WRITER,
    Rows,
    Units,
)
from wearjax.sources.local_clock import Clock, Pieces
from wearjax.sources.minute_grid import MinuteGrid
from wearjax.sources.repeats import Repeats
from wearjax.sources.tally import Tally

_EARLIEST = 1_167_609_600  # 2007-01-01 UTC: no iPhone before
_LATEST = 4_102_444_800  # 2100-01-01 UTC
_LONGEST = 86_400
THIRD_PARTY = ("third-party device", "app without a device")
_SLEEP = "SleepAnalysis"
_Fault = tuple[str, Callable[[Rows], Bool[np.ndarray, "sample"]]]


class SamplePlacer:
    """Checks, converts and places batches of rows; counts every record as used or skipped.

    Args:
        grid: receives the samples of phones and watches, sleep and workouts.
        others: grids of other makers' records by kind of writer; those of other kinds are left out.
        clock: the rule of local time.
        name: of the file, for messages.
    """

    def __init__(
        self,
        grid: MinuteGrid,
        *,
        others: dict[str, MinuteGrid],
        clock: Clock,
        tally: Tally,
        name: str,
    ):
        self._grid = grid
        self._others = others
        self._clock = clock
        self._tally = tally
        self._name = name
        self._export_time = math.inf
        self.writers = WriterTable()
        self.units = Units()
        self.repeats = Repeats()

    def set_export_time(self, text: str) -> None:
        """What ends after this instant is a fault of a clock or a typed-in date."""
        seconds, _ = times.read_one(text.encode())
        if seconds == times.UNREADABLE:
            self._tally.note("the export has no readable date: records in the future could not be recognised")
        else:
            self._export_time = seconds

    def place(self, kind: str, rows: Rows) -> None:
        """Places rows of one type: a quantity, sleep or workouts."""
        if kind in known.QUANTITIES:
            self._place_quantity(known.QUANTITIES[kind], rows)
        else:
            self._place_flags(_SLEEP if kind == known.SLEEP_TYPE else known.WORKOUT, rows)

    # -- quantities

    def _place_quantity(self, quantity: known.Quantity, rows: Rows) -> None:
        number = rows[:, WRITER].astype(np.int64)
        present = np.unique(number).tolist()
        writers = [self.writers.writers[i] for i in present]
        for kind in sorted({writer.kind for writer in writers}):
            chosen = np.isin(number, [i for i, w in zip(present, writers, strict=True) if w.kind == kind])
            of_kind = rows if chosen.all() else rows[chosen]
            grid = self._others.get(kind, self._grid)
            channel = quantity.channel.get("watch" if kind in self._others else kind)  # rings are worn, too
            if channel is None:
                reason = f"{kind}: no such channel" if kind in ("iphone", "watch") else kind
                self._tally.skip(quantity.measure, reason, len(of_kind))
            else:
                self._place_samples(quantity, channel, of_kind, grid)

    def _place_samples(self, quantity: known.Quantity, channel: int, rows: Rows, grid: MinuteGrid) -> None:
        rows = rows.copy()
        rows[:, VALUE] *= self._factors(quantity, rows)
        rows[:, WRITER] = self._of_writers(rows, lambda writer: writer.device)
        rows = self._sound(rows, channel, faults=_QUANTITY_FAULTS)
        at = self._pieces(rows)
        if quantity.is_rate:
            grid.add_rates(channel, at.start[: len(rows)], rows[:, VALUE])  # once, where it begins
        else:
            amount, device = rows[at.sample, VALUE] * at.fraction, rows[at.sample, WRITER]
            for one in np.unique(device):
                of = device == one
                grid.add_counts(channel, at.start[of], at.end[of], amount[of], device=int(one))
        self._use(channel, len(rows))

    def _factors(self, quantity: known.Quantity, rows: Rows) -> Float64[np.ndarray, "sample"]:
        """From each row's unit to the channel's. SourceError for an unknown unit."""
        numbers = rows[:, UNIT].astype(np.int64)
        factors = np.zeros(len(self.units.texts))
        for i in np.unique(numbers).tolist():
            unit = self.units.texts[i]
            if unit not in quantity.factors:
                found = "without a unit" if unit is None else f"in unknown unit {unit.decode()[:20]!r}"
                listed = ", ".join(u.decode() for u in quantity.factors if u)
                raise SourceError(f"{self._name}: {quantity.measure} {found}; known: {listed}")
            factors[i] = quantity.factors[unit]
        return factors[numbers]

    # -- sleep and workouts

    def _place_flags(self, measure: str, rows: Rows) -> None:
        unknown = np.isnan(rows[:, VALUE])
        self._tally.skip(measure, "unknown sleep value", int(unknown.sum()))
        rows = rows[~unknown]
        rows[:, WRITER] = self._of_writers(rows, lambda writer: writer.source)
        for value in np.unique(rows[:, VALUE]).tolist():
            of_value = rows[rows[:, VALUE] == value]
            if value == known.AWAKE:
                of_value = self._sound(of_value, None, faults=_FLAG_FAULTS)
                at = self._pieces(of_value)
                self._grid.add_flags(known.ASLEEP, at.start, at.end, on=False)
                self._tally.skip(measure, "awake: ends no other record's sleep", len(of_value))
            else:
                channel = int(value)
                of_value = self._sound(of_value, channel, faults=_FLAG_FAULTS)
                at = self._pieces(of_value)
                self._grid.add_flags(channel, at.start, at.end)
                self._use(channel, len(of_value))

    # -- all

    def _of_writers(self, rows: Rows, attribute: Callable[[Writer], int]) -> Float64[np.ndarray, "sample"]:
        table = np.array([attribute(writer) for writer in self.writers.writers], np.float64)
        return table[rows[:, WRITER].astype(np.int64)]

    def _pieces(self, rows: Rows) -> Pieces:
        return self._clock.pieces(*rows[:, [START, END, START_OFFSET, END_OFFSET]].T.astype(np.int64))

    def _sound(self, rows: Rows, channel: int | None, *, faults: Sequence[_Fault]) -> Rows:
        """The rows that can be placed; the others are counted under the first fault that applies."""
        latest = min(self._export_time, _LATEST)
        name = _SLEEP if channel is None else channels.NAMES[channel]
        faults = (
            *faults,
            ("after the export", lambda r: r[:, END] > latest),
            ("exact repeat", lambda r: self._repeated(r, -1 if channel is None else channel)),
        )
        for reason, fault in faults:
            bad = fault(rows)
            if bad.any():
                self._tally.skip(name, reason, int(bad.sum()))
                rows = rows[~bad]
        return rows

    def _repeated(self, rows: Rows, group: int) -> Bool[np.ndarray, "sample"]:
        groups = np.full(len(rows), float(group))
        return self.repeats.seen(groups, *rows[:, [START, END, VALUE, WRITER]].T)

    def _use(self, channel: int, count: int) -> None:
        if count:
            self._tally.used[channels.NAMES[channel]] += count


_TIME_FAULTS: tuple[_Fault, ...] = (
    ("no readable date", lambda r: (r[:, [START, END]] == times.UNREADABLE).any(axis=1)),
    ("ends before it starts", lambda r: r[:, END] < r[:, START]),
    ("longer than 24 hours", lambda r: r[:, END] - r[:, START] > _LONGEST),
    ("before 2007", lambda r: r[:, START] < _EARLIEST),
)
_QUANTITY_FAULTS: tuple[_Fault, ...] = (
    ("value is not a number", lambda r: ~(np.abs(r[:, VALUE]) <= channels.LARGEST)),
    ("negative value", lambda r: r[:, VALUE] < 0),
    *_TIME_FAULTS,
)
_FLAG_FAULTS: tuple[_Fault, ...] = (*_TIME_FAULTS, ("no length", lambda r: r[:, END] == r[:, START]))
