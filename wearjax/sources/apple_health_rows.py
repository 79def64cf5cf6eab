"""Turns the texts of Apple Health records into rows of numbers, many records at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from wearjax.sources import apple_health_channels as known
from wearjax.sources import apple_health_scan as scan
from wearjax.sources import apple_health_time as times

# Columns of a row. The writer and the unit are numbers of tables; the value of sleep and workouts is a channel.
START, START_OFFSET, END, END_OFFSET, VALUE, WRITER, UNIT = range(7)
Rows = Float64[np.ndarray, "sample column=7"]
Dates = Sequence[bytes] | UInt8[np.ndarray, "record 25"]
NO_ROWS: Rows = np.zeros((0, 7))
_UNITS_MAX = 256


class Units:
    """Numbers the units of an archive; beyond 256, further ones share a number that is no unit."""

    def __init__(self):
        self.texts: list[bytes | None] = []
        self._number: dict[bytes | None, int] = {}
        self._of_written: dict[bytes | None, int] = {}

    def number(self, unit: bytes | None) -> int:
        if unit not in self._number and len(self._number) < _UNITS_MAX:
            self._number[unit] = len(self.texts)
            self.texts.append(unit if len(self.texts) < _UNITS_MAX - 1 else b"one of very many")
        return self._number.get(unit, _UNITS_MAX - 1)

    def numbers(self, written: Sequence[bytes | None]) -> Int64[np.ndarray, "record"]:
        """Of units as they are written, with XML's own entities."""
        table = self._of_written
        for unit in set(written) - table.keys():
            table[unit] = self.number(None if unit is None else scan.unescaped(unit).encode())
        found = np.array(list(map(table.__getitem__, written)), np.int64)
        if len(table) > _UNITS_MAX:
            table.clear()
        return found


def read(
    kind: str,
    *,
    start: Dates,
    end: Dates,
    value: Sequence[bytes],
    writer: Int64[np.ndarray, "record"],
    unit: Int64[np.ndarray, "record"],
) -> Rows:
    """Rows of records of one type; unreadable values are NaN, unreadable dates `UNREADABLE`."""
    rows = np.empty((len(value), 7))
    rows[:, START], rows[:, START_OFFSET] = times.read(start)
    rows[:, END], rows[:, END_OFFSET] = times.read(end)
    if kind in known.QUANTITIES:
        rows[:, VALUE] = numbers(value)
    else:
        values = known.SLEEP_VALUES if kind == known.SLEEP_TYPE else known.WORKOUT_TYPES
        rows[:, VALUE] = [values.get(text, math.nan) for text in value]
    rows[:, WRITER], rows[:, UNIT] = writer, unit
    return rows


def numbers(texts: Sequence[bytes]) -> Float64[np.ndarray, "text"]:
    """Decimal numbers, also with an exponent; NaN for anything else."""
    try:
        found = list(map(float, texts))
    except ValueError:
        found = [_number(text) for text in texts]
    out = np.array(found)
    return np.where(np.isfinite(out), out, math.nan) if b"_" not in b"".join(texts) else _strict(texts, out)


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _strict(texts: Sequence[bytes], found: np.ndarray) -> Float64[np.ndarray, "text"]:
    """Python reads 1_000 as a thousand; no phone writes it."""
    return np.where([b"_" in text for text in texts], math.nan, found)
