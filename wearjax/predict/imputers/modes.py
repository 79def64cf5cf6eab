"""Most frequent values, exactly and in bounded memory.

Values count as equal when they round to the same tenth (half to even, in float32), as in the OpenMHC
baselines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.errors import ConfigError, MethodError

# Distinct (channel, minute, value) entries held at once; each takes 24 bytes, twice that while tables merge.
MAX_ENTRIES = 20_000_000
_ROW_BITS, _VALUE_BITS = 16, 32
_MINUTES_MAX = 1 << (63 - _ROW_BITS - _VALUE_BITS)
_MERGE_MIN = 1 << 18

Batches = Callable[[], Iterable[Float32[np.ndarray, "batch channel time"]]]


def rounded(values: Float32[np.ndarray, "*shape"]) -> Float32[np.ndarray, "*shape"]:
    """Values to one decimal; a negative zero becomes zero."""
    return np.round(values, 1).astype(np.float32, copy=False) + np.float32(0)


def smallest_modes(values: Float32[np.ndarray, "row item"]) -> Float32[np.ndarray, " row"]:
    """Most frequent value of each row, the smallest of several; NaN where a row holds nothing else."""
    if values.shape[1] == 0:
        return np.full(len(values), np.nan, np.float32)
    ordered = np.sort(values, axis=1)
    starts = np.ones(ordered.shape, bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    at = np.flatnonzero(starts)
    length = np.diff(at, append=ordered.size)
    length[np.isnan(ordered.ravel()[at])] = 0
    row = at // ordered.shape[1]
    longest = np.maximum.reduceat(length, np.flatnonzero(np.diff(row, prepend=-1)))
    winners = np.flatnonzero(length == longest[row])
    _, first = np.unique(row[winners], return_index=True)
    return ordered.ravel()[at[winners[first]]]


def fit(
    batches: Batches, *, minutes_per_day: int, max_entries: int = MAX_ENTRIES
) -> tuple[Float32[np.ndarray, " channel"], Float32[np.ndarray, "channel minute"]]:
    """Modes of each channel, and of each channel and minute of day, over a stream of days.

    Of several equally frequent values the one first seen wins, days in stream order and minutes in order
    within a day. Without a value a channel has mode 0 and a minute its channel's mode.

    Args:
        batches: gives the stream anew at each call; time may span several days.
        minutes_per_day: time step t belongs to minute `t % minutes_per_day`.
        max_entries: bound on the counts held. When the distinct values exceed it, later minutes of the day
            are given up and counted in a further pass over the stream; the result is the same.
    """
    start = 0
    blocks: list[np.ndarray] = []
    by_channel: list[_Table] = []
    while start < minutes_per_day:
        counts = _MinuteCounts(start, minutes_per_day, minutes_per_day, max_entries)
        for batch in batches():
            counts.update(batch)
        tables = [counts.table(channel) for channel in range(counts.n_channels)]
        if not tables:
            raise MethodError("modes: there is no day to count")
        blocks.append(np.stack([table.modes_by_minute(start, counts.stop) for table in tables]))
        found = [table.over_minutes(minutes_per_day) for table in tables]
        earlier = by_channel or [_Table.empty()] * len(found)
        by_channel = [_Table.merged([*pair]) for pair in zip(earlier, found, strict=True)]
        start = counts.stop
    temporal = np.concatenate(blocks, axis=1)
    channel_modes = np.array([table.modes_by_minute(0, 1)[0] for table in by_channel], np.float32)
    channel_modes = np.where(np.isnan(channel_modes), np.float32(0), channel_modes)
    return channel_modes, np.where(np.isnan(temporal), channel_modes[:, None], temporal)


@dataclass(frozen=True, eq=False)
class _Table:
    """How often each (minute, value) occurred and where it was first seen, in ascending order of key."""

    key: Int64[np.ndarray, " entry"]  # minute << 32 | bits of the float32 value
    count: Int64[np.ndarray, " entry"]
    first: Int64[np.ndarray, " entry"]

    @classmethod
    def empty(cls) -> _Table:
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    @classmethod
    def merged(cls, tables: list[_Table]) -> _Table:
        parts = [np.concatenate([getattr(t, name) for t in tables]) for name in ("key", "count", "first")]
        return cls._grouped(*parts)

    @classmethod
    def _grouped(cls, key: np.ndarray, count: np.ndarray, first: np.ndarray) -> _Table:
        if not len(key):
            return cls.empty()
        order = np.argsort(key, kind="stable")  # merges runs that are already in order
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
        return cls(
            key[starts], np.add.reduceat(count[order], starts), np.minimum.reduceat(first[order], starts)
        )

    def before(self, minute: int) -> _Table:
        end = int(np.searchsorted(self.key, minute << _VALUE_BITS))
        # Copies, so that the entries given up are freed.
        return _Table(self.key[:end].copy(), self.count[:end].copy(), self.first[:end].copy())

    def over_minutes(self, minutes_per_day: int) -> _Table:
        """The same counts whatever the minute; `first` becomes a position in the stream of minutes."""
        minute, value = self.key >> _VALUE_BITS, self.key & ((1 << _VALUE_BITS) - 1)
        return self._grouped(value, self.count, self.first * minutes_per_day + minute)

    def modes_by_minute(self, start: int, stop: int) -> Float32[np.ndarray, " minute"]:
        """The most frequent value of each minute, the first seen of several; NaN where there is none."""
        modes = np.full(stop - start, np.nan, np.float32)
        if not len(self.key):
            return modes
        minute = self.key >> _VALUE_BITS
        groups = np.flatnonzero(np.diff(minute, prepend=-1))
        sizes = np.diff(groups, append=len(minute))
        most = np.repeat(np.maximum.reduceat(self.count, groups), sizes)
        rank = np.where(self.count == most, self.first, np.iinfo(np.int64).max)
        earliest = np.repeat(np.minimum.reduceat(rank, groups), sizes)
        winner = np.flatnonzero(rank == earliest)
        bits = (self.key[winner] & ((1 << _VALUE_BITS) - 1)).astype(np.uint32)
        modes[minute[winner] - start] = bits.view(np.float32)
        return modes


class _MinuteCounts:
    """Counts of one pass, for the minutes from `start`; `stop` moves down where tables grow too large.

    Zeros, most of all minutes, are counted densely; other values by sorting each batch.
    """

    def __init__(self, start: int, stop: int, minutes_per_day: int, max_entries: int):
        if minutes_per_day > _MINUTES_MAX:
            raise ConfigError(f"modes: a day may have {_MINUTES_MAX} minutes at most, got {minutes_per_day}")
        self.start, self.stop = start, stop
        self.n_channels = 0
        self._minutes_per_day = minutes_per_day
        self._max_entries = max_entries
        self._rows = 0

    def update(self, batch: Float32[np.ndarray, "batch channel time"]) -> None:
        n, n_channels, time = batch.shape
        if time % self._minutes_per_day:
            raise ConfigError(f"modes: {time} time steps are not whole days of {self._minutes_per_day}")
        if not self.n_channels:
            self._allocate(n_channels)
        by_day = batch.reshape(n, n_channels, -1, self._minutes_per_day).swapaxes(1, 2)
        days = by_day.reshape(-1, n_channels, self._minutes_per_day)
        for begin in range(0, len(days), 1 << _ROW_BITS):
            self._update_days(days[begin : begin + (1 << _ROW_BITS)])

    def _allocate(self, n_channels: int) -> None:
        self.n_channels = n_channels
        self._zeros = np.zeros((n_channels, self._minutes_per_day), np.int64)
        self._first_zero = np.full((n_channels, self._minutes_per_day), -1, np.int64)
        self._tables = [_Table.empty() for _ in range(n_channels)]
        self._pending: list[list[_Table]] = [[] for _ in range(n_channels)]

    def _update_days(self, days: np.ndarray) -> None:
        for channel in range(self.n_channels):
            values = rounded(days[:, channel, self.start : self.stop])
            self._count_zeros(channel, values == 0)
            row, minute = np.nonzero((values != 0) & np.isfinite(values))
            bits = values[row, minute].view(np.uint32).astype(np.int64)
            packed = ((minute + self.start) << (_ROW_BITS + _VALUE_BITS)) | (bits << _ROW_BITS) | row
            if len(packed):
                self._add(channel, np.sort(packed))
        self._rows += len(days)
        self._bound()

    def _count_zeros(self, channel: int, zero: np.ndarray) -> None:
        minutes = slice(self.start, self.stop)
        count, first = self._zeros[channel, minutes], self._first_zero[channel, minutes]
        new = (first < 0) & zero.any(axis=0)
        first[new] = np.argmax(zero[:, new], axis=0) + self._rows
        count += zero.sum(axis=0)

    def _add(self, channel: int, packed: np.ndarray) -> None:
        key = packed >> _ROW_BITS
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        first = (packed[starts] & ((1 << _ROW_BITS) - 1)) + self._rows
        pending = self._pending[channel]
        pending.append(_Table(key[starts], np.diff(starts, append=len(key)), first))
        if sum(len(t.key) for t in pending) > max(_MERGE_MIN, len(self._tables[channel].key)):
            self._merge(channel)

    def _merge(self, channel: int) -> None:
        self._tables[channel] = _Table.merged([self._tables[channel], *self._pending[channel]])
        self._pending[channel] = []

    def _bound(self) -> None:
        if self._entries() <= self._max_entries:
            return
        for channel in range(self.n_channels):
            self._merge(channel)
        while self._entries() > self._max_entries and self.stop - self.start > 1:
            self.stop = self.start + (self.stop - self.start) // 2
            self._tables = [table.before(self.stop) for table in self._tables]

    def _entries(self) -> int:
        return sum(len(t.key) for t in self._tables) + sum(len(t.key) for p in self._pending for t in p)

    def table(self, channel: int) -> _Table:
        """All counts of a channel, zeros included."""
        minute = np.flatnonzero(self._zeros[channel, : self.stop]).astype(np.int64)
        zeros = _Table(minute << _VALUE_BITS, self._zeros[channel, minute], self._first_zero[channel, minute])
        return _Table.merged([zeros, self._tables[channel], *self._pending[channel]])
