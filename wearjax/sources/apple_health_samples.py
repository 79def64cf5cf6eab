"""Batches of Apple Health records → checked samples on the minute grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float64

from wearjax import channels
from wearjax.errors import SourceError
from wearjax.sources import apple_health_channels as known
from wearjax.sources import apple_health_time as times
from wearjax.sources.apple_health_device import DeviceTable
from wearjax.sources.local_clock import Clock, Pieces
from wearjax.sources.minute_grid import MinuteGrid
from wearjax.sources.repeats import Repeats
from wearjax.sources.tally import Tally

Attributes = dict[str, str]
# Columns of a batch. "source" tells sources apart and is a number, never a name.
_START, _START_OFFSET, _END, _END_OFFSET, _VALUE, _SOURCE = range(6)
Rows = Float64[np.ndarray, "sample 6"]

_EARLIEST = 1_167_609_600  # 2007-01-01 UTC: no iPhone before
_LATEST = 4_102_444_800  # 2100-01-01 UTC
_LONGEST = 86_400
_SOURCES_MAX = 4096
_THIRD_PARTY = ("third-party device", "app without a device")
_Fault = tuple[str, Callable[[Rows], Bool[np.ndarray, "sample"]]]


class SamplePlacer:
    """Checks, converts and places batches of records; counts every record as used or skipped.

    Args:
        grid: receives the samples.
        clock: the rule of local time.
        name: of the file, for messages.
    """

    def __init__(
        self, grid: MinuteGrid, *, clock: Clock, tally: Tally, name: str, include_third_party: bool = False
    ):
        self._grid = grid
        self._clock = clock
        self._tally = tally
        self._name = name
        self._include_third_party = include_third_party
        self._export_time = math.inf
        self._sources: dict[str, int] = {}
        self.devices = DeviceTable()
        self.repeats = Repeats()

    def set_export_time(self, text: str) -> None:
        """What ends after this instant is a fault of a clock or a typed-in date."""
        seconds, _ = times.read_one(text)
        if seconds == times.UNREADABLE:
            self._tally.note("the export has no readable date: records in the future could not be recognised")
        else:
            self._export_time = seconds

    def place(self, kind: str, records: Sequence[Attributes]) -> None:
        """Places records of one type: a quantity, sleep or `"Workout"`."""
        if not records:
            return
        if kind in known.QUANTITIES:
            self._place_quantity(known.QUANTITIES[kind], records)
        elif kind == known.SLEEP_TYPE:
            found = [known.SLEEP_VALUES.get(r.get("value", "")) for r in records]
            self._tally.skip("SleepAnalysis", "unknown sleep value", found.count(None))
            self._place_flags("SleepAnalysis", records, found)
        else:
            self._place_flags(
                "Workout", records, [known.WORKOUT_TYPES[r["workoutActivityType"]] for r in records]
            )

    # -- quantities

    def _place_quantity(self, quantity: known.Quantity, records: Sequence[Attributes]) -> None:
        texts = [r.get("device", "") for r in records]
        names = [r.get("sourceName", "") for r in records]
        table = self.devices
        devices = [table[t[t.find(">") + 1 :], name] for t, name in zip(texts, names, strict=True)]
        for writer in sorted({device.kind for device in devices}):
            chosen = [r for r, device in zip(records, devices, strict=True) if device.kind == writer]
            numbers = [device.number for device in devices if device.kind == writer]
            channel = self._channel(quantity, writer)
            if channel is None:
                reason = f"{writer}: no such channel" if writer in ("iphone", "watch") else writer
                self._tally.skip(quantity.measure, reason, len(chosen))
            else:
                self._place_samples(quantity, channel, chosen, numbers)

    def _channel(self, quantity: known.Quantity, kind: str) -> int | None:
        if self._include_third_party and kind in _THIRD_PARTY:
            kind = "watch"  # rings and bands are worn, as the watch is
        return quantity.channel.get(kind)

    def _place_samples(
        self, quantity: known.Quantity, channel: int, records: Sequence[Attributes], devices: list[int]
    ) -> None:
        rows = self._rows(records, self._values(quantity, records), devices)
        rows = self._sound(quantity.measure, rows, channel, faults=_QUANTITY_FAULTS)
        at = self._pieces(rows)
        if quantity.is_rate:
            self._grid.add_rates(channel, at.start[: len(rows)], rows[:, _VALUE])  # once, where it begins
        else:
            amount, device = rows[at.sample, _VALUE] * at.fraction, rows[at.sample, _SOURCE]
            for one in np.unique(device):
                of = device == one
                self._grid.add_counts(channel, at.start[of], at.end[of], amount[of], device=int(one))
        self._use(channel, len(rows))

    def _values(
        self, quantity: known.Quantity, records: Sequence[Attributes]
    ) -> Float64[np.ndarray, "record"]:
        """Values in the channel's unit; NaN where there is no number. SourceError for an unknown unit."""
        units = [r.get("unit") for r in records]
        for unit in set(units) - set(quantity.factors):
            found = "without a unit" if unit is None else f"in unknown unit {unit[:20]!r}"
            listed = ", ".join(u for u in quantity.factors if u)
            raise SourceError(f"{self._name}: {quantity.measure} {found}; known: {listed}")
        numbers = [_number(r.get("value", "")) for r in records]
        return np.array(numbers) * np.array([quantity.factors[unit] for unit in units])

    # -- sleep and workouts

    def _place_flags(
        self, measure: str, records: Sequence[Attributes], channel: Sequence[int | None]
    ) -> None:
        kept = [(r, c) for r, c in zip(records, channel, strict=True) if c is not None]
        if not kept:
            return
        sources = [self._source(r.get("sourceName", "")) for r, _ in kept]
        rows = self._rows([r for r, _ in kept], [float(c) for _, c in kept], sources)
        rows = self._sound(measure, rows, len(channels.CHANNELS), faults=_FLAG_FAULTS)
        at = self._pieces(rows)
        of_piece = rows[at.sample, _VALUE]
        for c in np.unique(of_piece):
            where, count = of_piece == c, int(np.sum(rows[:, _VALUE] == c))
            if c == known.AWAKE:
                self._grid.add_flags(known.ASLEEP, at.start[where], at.end[where], on=False)
                self._tally.skip(measure, "awake: ends no other record's sleep", count)
            else:
                self._grid.add_flags(int(c), at.start[where], at.end[where])
                self._use(int(c), count)

    def _source(self, name: str) -> int:
        if name not in self._sources and len(self._sources) >= _SOURCES_MAX:
            return _SOURCES_MAX
        return self._sources.setdefault(name, len(self._sources))

    # -- all

    def _rows(
        self, records: Sequence[Attributes], values: Sequence[float] | np.ndarray, sources: Sequence[int]
    ) -> Rows:
        rows = np.empty((len(records), 6))
        rows[:, _START], rows[:, _START_OFFSET] = times.read([r.get("startDate", "") for r in records])
        rows[:, _END], rows[:, _END_OFFSET] = times.read([r.get("endDate", "") for r in records])
        rows[:, _VALUE], rows[:, _SOURCE] = values, sources
        return rows

    def _pieces(self, rows: Rows) -> Pieces:
        return self._clock.pieces(*rows[:, [_START, _END, _START_OFFSET, _END_OFFSET]].T.astype(np.int64))

    def _sound(
        self, measure: str, rows: Rows, channel: int, *, faults: Sequence[_Fault]
    ) -> Float64[np.ndarray, "sound 6"]:
        """The rows that can be placed; the others are counted under the first fault that applies."""
        latest = min(self._export_time, _LATEST)
        faults = (
            *faults,
            ("after the export", lambda r: r[:, _END] > latest),
            ("exact repeat", lambda r: self._repeated(r, channel)),
        )
        for reason, fault in faults:
            bad = fault(rows)
            if bad.any():
                self._tally.skip(measure, reason, int(bad.sum()))
                rows = rows[~bad]
        return rows

    def _repeated(self, rows: Rows, channel: int) -> Bool[np.ndarray, "sample"]:
        group = np.full(len(rows), float(channel))
        return self.repeats.seen(group, *rows[:, [_START, _END, _VALUE, _SOURCE]].T)

    def _use(self, channel: int, count: int) -> None:
        if count:
            self._tally.used[channels.NAMES[channel]] += count


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


_TIME_FAULTS: tuple[_Fault, ...] = (
    ("no readable date", lambda r: (r[:, [_START, _END]] == times.UNREADABLE).any(axis=1)),
    ("ends before it starts", lambda r: r[:, _END] < r[:, _START]),
    ("longer than 24 hours", lambda r: r[:, _END] - r[:, _START] > _LONGEST),
    ("before 2007", lambda r: r[:, _START] < _EARLIEST),
)
_QUANTITY_FAULTS: tuple[_Fault, ...] = (
    ("value is not a number", lambda r: ~np.isfinite(r[:, _VALUE])),
    ("negative value", lambda r: r[:, _VALUE] < 0),
    *_TIME_FAULTS,
)
_FLAG_FAULTS: tuple[_Fault, ...] = (*_TIME_FAULTS, ("no length", lambda r: r[:, _END] == r[:, _START]))
