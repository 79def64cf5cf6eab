"""Local wall clocks: from instants to the rows of a local day, over clock changes.

Two rules, one for a whole import: each record's own offset from UTC (`RecordClock`), or one named zone for
all (`ZoneClock`). A sample that runs over a clock change is cut at the change, so that its two parts stand
where the wall clock showed them; the hour that a spring day lacks holds nothing.
"""

from __future__ import annotations

import bisect
import datetime as dt
import functools
import zoneinfo
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.errors import ConfigError

_DAY = 86_400
_LARGEST_JUMP = 7_200
_EPOCH = dt.date(1970, 1, 1).toordinal()
# Zones whose rules cover the clock changes in use: an offset pair says that the clock changed, not at which
# instant, and the first of these that shows the same pair on that date tells.
_DST_ZONES = (
    "Europe/Berlin", "Europe/London", "Europe/Athens", "Atlantic/Azores",
    "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Anchorage",
    "America/Adak", "America/Halifax", "America/St_Johns", "America/Havana", "America/Mexico_City",
    "America/Santiago", "America/Asuncion", "America/Sao_Paulo",
    "Australia/Sydney", "Australia/Adelaide", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham",
    "Asia/Jerusalem", "Africa/Cairo", "Asia/Beirut", "Asia/Amman", "Asia/Tehran",
)  # fmt: skip


class Pieces(NamedTuple):
    """Samples on the wall clock, one piece each in their order; then the second pieces of those cut in two.

    Attributes:
        sample: row of the sample that a piece belongs to.
        start, end: seconds of the local wall clock since 1970-01-01 00:00.
        fraction: the piece's part of the sample's duration.
    """

    sample: Int64[np.ndarray, "piece"]
    start: Int64[np.ndarray, "piece"]
    end: Int64[np.ndarray, "piece"]
    fraction: Float64[np.ndarray, "piece"]


class ZoneClock:
    """The wall clock of one IANA zone for every record, whatever offset is written beside it.

    Attributes:
        said: which clock this is, for a person.
    """

    def __init__(self, zone: str):
        info = _zone(zone)
        if info is None:
            meant = _meant(zone)
            hint = f"did you mean {meant!r}?" if meant else "e.g. 'Europe/Berlin', or 'record'"
            raise ConfigError(f"zone={zone!r}: not the name of a known time zone, {hint}")
        self._changes, self._offsets = _changes(info)
        self.said = f"days and minutes are those of the wall clock of {zone}"

    def pieces(
        self,
        start: Int64[np.ndarray, "sample"],
        end: Int64[np.ndarray, "sample"],
        start_offset: Int64[np.ndarray, "sample"] | None = None,
        end_offset: Int64[np.ndarray, "sample"] | None = None,
    ) -> Pieces:
        """Places samples given in seconds UTC; the offsets written beside their times are not used."""
        first = np.searchsorted(self._changes, start, side="right")
        last = np.searchsorted(self._changes, np.maximum(end - 1, start), side="right")
        whole = _whole(start, end, self._offsets[first])
        cut = [
            (i, int(self._changes[first[i]]), int(self._offsets[first[i]]), int(self._offsets[last[i]]))
            for i in np.flatnonzero(first != last)
        ]
        return _with_cuts(whole, start, end, cut)

    def instants(self, local: Int64[np.ndarray, "time"]) -> Int64[np.ndarray, "time"]:
        """Seconds UTC of times of the wall clock: of two the first, and a skipped time by the clock of before."""
        regime = np.searchsorted(self._changes + self._offsets[:-1], local, side="right")
        begun = np.concatenate(([np.iinfo(np.int64).min], self._changes))[regime]
        skipped = local - self._offsets[regime] < begun
        return local - self._offsets[regime - skipped]

    def skipped(self, date: dt.date) -> range:
        """Minutes of the day that the wall clock jumped over; empty on most days."""
        midnight = (date.toordinal() - _EPOCH) * _DAY
        near = np.flatnonzero(np.abs(self._changes - midnight) < 2 * _DAY)
        for i in near:
            minutes = _jumped(
                int(self._changes[i]), int(self._offsets[i]), int(self._offsets[i + 1]), midnight
            )
            if minutes:
                return minutes
        return range(0)


class RecordClock:
    """The wall clock of each record's own offset, as written at its start and its end.

    Where the two differ, the change is put at the instant a zone with that pair of offsets has it; when no
    zone does (a journey), the offset of the start holds to the end.
    """

    said = "days and minutes are those of the wall clock that each record names (its offset from UTC)"

    def __init__(self):
        self._seen: dict[int, set[int]] = {}  # local day -> offsets written on it
        self._days: list[int] = []

    def pieces(
        self,
        start: Int64[np.ndarray, "sample"],
        end: Int64[np.ndarray, "sample"],
        start_offset: Int64[np.ndarray, "sample"],
        end_offset: Int64[np.ndarray, "sample"],
    ) -> Pieces:
        """Places samples given in seconds UTC, with the offsets (seconds east) written beside their times."""
        self._note(start, start_offset)
        self._note(end, end_offset)
        cut = []
        for i in np.flatnonzero(start_offset != end_offset):
            before, after = int(start_offset[i]), int(end_offset[i])
            change = _change_between(int(start[i]), int(end[i]), before, after)
            if change is not None:
                cut.append((i, change, before, after))
        return _with_cuts(_whole(start, end, start_offset), start, end, cut)

    def _note(self, at: np.ndarray, offset: np.ndarray) -> None:
        for key in np.unique(((at + offset) // _DAY << 20) + (offset + _DAY)):
            self._seen.setdefault(int(key) >> 20, set()).add((int(key) & 0xFFFFF) - _DAY)

    def skipped(self, date: dt.date) -> range:
        """Minutes of the day that the wall clock jumped over, as far as the offsets of records tell."""
        day = date.toordinal() - _EPOCH
        if len(self._days) != len(self._seen):
            self._days = sorted(self._seen)
        here = self._seen.get(day, set())
        place = bisect.bisect_left(self._days, day)
        before = here | (self._seen[self._days[place - 1]] if place else set())
        for old in sorted(before):
            for new in sorted(o for o in here if 0 < o - old <= _LARGEST_JUMP):
                change = _change_between(day * _DAY - old, (day + 1) * _DAY - new, old, new)
                minutes = range(0) if change is None else _jumped(change, old, new, day * _DAY)
                if minutes:
                    return minutes
        return range(0)


Clock = RecordClock | ZoneClock


def choose(zone: str) -> Clock:
    """The clock rule for `"record"` or an IANA zone name. Raises ConfigError for any other word."""
    return RecordClock() if zone == "record" else ZoneClock(zone)


def _whole(start: np.ndarray, end: np.ndarray, offset: np.ndarray) -> Pieces:
    return Pieces(np.arange(len(start)), start + offset, end + offset, np.ones(len(start)))


def _with_cuts(whole: Pieces, start: np.ndarray, end: np.ndarray, cut: list[tuple]) -> Pieces:
    """Cuts the samples in `cut`: (row, instant of the change, offsets before and after)."""
    if not cut:
        return whole
    rows, change, before, after = (np.array(column, np.int64) for column in zip(*cut, strict=True))
    length = (end - start)[rows]
    whole.end[rows] = change + before
    whole.fraction[rows] = (change - start[rows]) / length
    second = Pieces(rows, change + after, end[rows] + after, (end[rows] - change) / length)
    return Pieces(*(np.concatenate(pair) for pair in zip(whole, second, strict=True)))


def _jumped(change: int, before: int, after: int, midnight: int) -> range:
    """Minutes of the day starting at local `midnight` that a change between two offsets leaves out."""
    first = (change + before - midnight) // 60
    last = (change + after - midnight) // 60
    return range(max(first, 0), min(last, _DAY // 60)) if last > first else range(0)


@functools.lru_cache(maxsize=4096)
def _change_between(start: int, end: int, before: int, after: int) -> int | None:
    """The instant in (start, end) at which a zone known for clock changes goes from `before` to `after`."""
    for name in _DST_ZONES:
        zone = _zone(name)
        if zone and _offset(zone, start) == before and _offset(zone, end) == after:
            change = _bisect(zone, start, end)
            if start < change < end:
                return change
    return None


def _bisect(zone: zoneinfo.ZoneInfo, low: int, high: int) -> int:
    """First second in (low, high] at which the zone's offset is no longer that of `low`."""
    before = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


@functools.lru_cache(maxsize=8)
def _changes(
    zone: zoneinfo.ZoneInfo, first_year: int = 1990, last_year: int = 2101
) -> tuple[Int64[np.ndarray, "change"], Int64[np.ndarray, "offset"]]:
    """Instants of the zone's clock changes, and the offsets before, between and after them."""
    low = (dt.date(first_year, 1, 1).toordinal() - _EPOCH) * _DAY
    high = (dt.date(last_year, 1, 1).toordinal() - _EPOCH) * _DAY
    offsets, changes = [_offset(zone, low)], []
    for day in range(low, high, _DAY):
        after = _offset(zone, day + _DAY)
        if after != offsets[-1]:
            changes.append(_bisect(zone, day, day + _DAY))
            offsets.append(after)
    return np.array(changes, np.int64), np.array(offsets, np.int64)


def _zone(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _meant(name: str) -> str | None:
    """The zone whose name, or whose city, is this one in another case; the first by name."""
    wanted = name.strip().replace(" ", "_").casefold()
    known = sorted(zoneinfo.available_timezones())
    whole = [zone for zone in known if zone.casefold() == wanted]
    city = [zone for zone in known if "/" in zone and zone.rpartition("/")[2].casefold() == wanted]
    return next(iter(whole + city), None)


def _offset(zone: zoneinfo.ZoneInfo, instant: int) -> int:
    return int(dt.datetime.fromtimestamp(instant, zone).utcoffset().total_seconds())  # type: ignore[union-attr]
