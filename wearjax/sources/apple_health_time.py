"""Reads the dates of an Apple Health export by position, a batch at a time."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64, UInt8

UNREADABLE = np.iinfo(np.int64).min
OFFSET_MAX = 18 * 3600
_EPOCH = dt.datetime(1970, 1, 1)
_LENGTH = len("2020-01-01 00:00:00 +0000")
_DIGITS = [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 21, 22, 23, 24]
_MARKS = {4: "-", 7: "-", 10: " ", 13: ":", 16: ":", 19: " "}
# The form of today, and that of iOS 8 without any mark.
_FORMS = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) ([+-])(\d\d):?(\d\d)"
    rb"|(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d) ?([+-])(\d\d)(\d\d)",
)


def read(
    texts: Sequence[bytes] | UInt8[np.ndarray, "record 25"],
) -> tuple[Int64[np.ndarray, "record"], Int64[np.ndarray, "record"]]:
    """Seconds UTC since 1970 and written offsets in seconds east; `UNREADABLE` seconds for another form.

    Args:
        texts: dates, or the letters of dates of today's form in length.
    """
    if isinstance(texts, np.ndarray):
        letters = texts
    elif set(map(len, texts)) == {_LENGTH}:
        letters = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, _LENGTH)
    else:
        read_singly = np.array([read_one(text) for text in texts], np.int64).reshape(-1, 2)
        return read_singly[:, 0], read_singly[:, 1]
    seconds, offset = _by_position(letters)
    for i in np.flatnonzero(seconds == UNREADABLE).tolist():
        seconds[i], offset[i] = read_one(letters[i].tobytes())
    return seconds, offset


def read_one(text: bytes) -> tuple[int, int]:
    """As `read`, of one text in any known form."""
    found = _FORMS.fullmatch(text)
    if found is None:
        return UNREADABLE, 0
    parts = [part for part in found.groups() if part is not None]
    offset = (int(parts[7]) * 60 + int(parts[8])) * (-60 if parts[6] == b"-" else 60)
    try:
        wall = dt.datetime(*(int(part) for part in parts[:6]))  # type: ignore[arg-type]
    except ValueError:
        return UNREADABLE, 0
    if abs(offset) > OFFSET_MAX:
        return UNREADABLE, 0
    return int((wall - _EPOCH).total_seconds()) - offset, offset


def _by_position(
    letters: UInt8[np.ndarray, "record 25"],
) -> tuple[Int64[np.ndarray, "record"], Int64[np.ndarray, "record"]]:
    columns = np.ascontiguousarray(letters.T)
    digits = columns[_DIGITS] - ord("0")  # below "0" wraps around to above 9
    good = digits.max(axis=0, initial=0) <= 9
    for place, mark in _MARKS.items():
        good &= columns[place] == ord(mark)
    sign = columns[20]
    good &= (sign == ord("+")) | (sign == ord("-"))
    pairs = digits[0::2] * np.uint8(10) + digits[1::2]
    century, of_century, month, day, hour, minute, second, hours_east, minutes_east = pairs.astype(np.int32)
    year = century * 100 + of_century
    offset = (hours_east * 60 + minutes_east) * np.where(sign == ord("-"), -60, 60)
    good &= (month >= 1) & (month <= 12) & (day >= 1)
    good &= (hour <= 23) & (minute <= 59) & (second <= 59) & (np.abs(offset) <= OFFSET_MAX)
    late = np.flatnonzero(day > 28)
    good[late] &= _is_late_day(year[late], month[late], day[late])
    clock = hour * 3600 + minute * 60 + second - offset
    seconds = _days(year, month, day).astype(np.int64) * 86_400 + clock
    return np.where(good, seconds, UNREADABLE), np.where(good, offset, 0).astype(np.int64)


def _is_late_day(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """True for a day that the month has."""
    month = np.clip(month, 1, 12)
    length = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month - 1]
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return day <= length + ((month == 2) & leap)


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of the Gregorian calendar, counted in years that begin in March."""
    year = year - (month <= 2)
    era, of_era = year // 400, year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
