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
    r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d) ([+-])(\d\d):?(\d\d)"
    r"|(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d) ?([+-])(\d\d)(\d\d)",
    re.ASCII,
)


def read(texts: Sequence[str]) -> tuple[Int64[np.ndarray, "record"], Int64[np.ndarray, "record"]]:
    """Seconds UTC since 1970 and written offsets in seconds east; `UNREADABLE` seconds for another form."""
    if set(map(len, texts)) == {_LENGTH}:
        joined = "".join(texts).encode("ascii", "replace")
        seconds, offset = _by_position(np.frombuffer(joined, np.uint8).reshape(-1, _LENGTH))
        doubtful = np.flatnonzero(seconds == UNREADABLE)
    else:
        seconds, offset = np.zeros((2, len(texts)), np.int64)
        doubtful = np.arange(len(texts))
    for i in doubtful:
        seconds[i], offset[i] = read_one(texts[int(i)])
    return seconds, offset


def read_one(text: str) -> tuple[int, int]:
    """As `read`, of one text in any known form."""
    found = _FORMS.fullmatch(text)
    if found is None:
        return UNREADABLE, 0
    parts = [part for part in found.groups() if part is not None]
    offset = (int(parts[7]) * 60 + int(parts[8])) * (-60 if parts[6] == "-" else 60)
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
    digits = (letters[:, _DIGITS] - ord("0")).T.astype(np.int64)  # below "0" wraps around to above 9
    good = (digits <= 9).all(axis=0)
    for place, mark in _MARKS.items():
        good &= letters[:, place] == ord(mark)
    sign = letters[:, 20]
    good &= (sign == ord("+")) | (sign == ord("-"))
    year = ((digits[0] * 10 + digits[1]) * 10 + digits[2]) * 10 + digits[3]
    month, day, hour, minute, second, hours_east, minutes_east = (
        digits[i] * 10 + digits[i + 1] for i in range(4, 18, 2)
    )
    offset = (hours_east * 60 + minutes_east) * np.where(sign == ord("-"), -60, 60)
    good &= (month >= 1) & (month <= 12) & (day >= 1) & ((day <= 28) | _is_late_day(year, month, day))
    good &= (hour <= 23) & (minute <= 59) & (second <= 59) & (np.abs(offset) <= OFFSET_MAX)
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    return np.where(good, seconds, UNREADABLE), np.where(good, offset, 0)


def _is_late_day(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """True for a 29th, 30th or 31st that the month has."""
    month = np.clip(month, 1, 12)
    length = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[month - 1]
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return (day > 28) & (day <= length + ((month == 2) & leap))


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of the Gregorian calendar, counted in years that begin in March."""
    year = year - (month <= 2)
    era, of_era = year // 400, year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
