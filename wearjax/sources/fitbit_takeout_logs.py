"""Sleep and exercise logs of a Fitbit account archive → flags on the local wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wearjax.channels import INDEX, MINUTES_PER_DAY, NAMES
from wearjax.sources import fitbit_takeout_files as files
from wearjax.sources import minute_grid
from wearjax.sources.local_clock import ZoneClock
from wearjax.sources.minute_grid import MinuteGrid
from wearjax.sources.tally import Tally

_ASLEEP, _INBED = INDEX["sleep_asleep"], INDEX["sleep_inbed"]
_SLEEPING = {"light", "deep", "rem", "asleep"}
_LEVELS = _SLEEPING | {"wake", "awake", "restless", "unknown"}
_CELL = 30  # seconds: levels of stages last multiples of it
_LONGEST = 86_400
# Names of the tracker's own activities that are one of the ten workout channels; others are counted.
ACTIVITIES = {
    "walk": "walking", "walking": "walking",
    "run": "running", "running": "running", "treadmill run": "running",
    "bike": "cycling", "outdoor bike": "cycling", "biking": "cycling", "bicycling": "cycling",
    "mountain biking": "cycling", "spinning": "cycling", "stationary bike": "cycling",
    "elliptical": "elliptical", "elliptical trainer": "elliptical", "yoga": "yoga",
    "hiit": "hiit", "interval workout": "hiit", "weights": "strength", "weightlifting": "strength",
    "strength training": "strength",
}  # fmt: skip
_OTHER_ACTIVITIES = {
    "swim", "hike", "treadmill", "aerobic workout", "circuit training", "workout", "sport", "pilates", "rowing",
    "tennis", "golf", "martial arts", "kickboxing", "bootcamp", "stairclimber", "dancing", "skiing", "soccer",
}  # fmt: skip


class LogReader:
    """Places logs; counts every one as used or skipped.

    Attributes:
        asleep: minutes asleep by local day, to hold other clocks against.
        logged: minutes of any sleep log by local day.
    """

    def __init__(
        self,
        grid: MinuteGrid,
        clock: ZoneClock,
        tally: Tally,
        *,
        restless_is_sleep: bool,
        include_manual: bool,
    ):
        self._grid, self._clock, self._tally = grid, clock, tally
        self._sleeping = _SLEEPING | ({"restless"} if restless_is_sleep else set())
        self._include_manual = include_manual
        self._seen: set[tuple[str, str]] = set()
        self.asleep: dict[int, np.ndarray] = {}
        self.logged: dict[int, np.ndarray] = {}

    def read(self, measure: str, entries: Sequence[dict[str, Any]]) -> None:
        """Entries of a `sleep` or `exercise` file."""
        for entry in entries:
            self._tally.read[measure] += 1
            reason = self._refused(measure, entry)
            if reason is None:
                reason = self._sleep(entry) if measure == "sleep" else self._exercise(entry)
            if reason is not None:
                self._tally.skip(measure, reason)

    def _refused(self, measure: str, entry: dict[str, Any]) -> str | None:
        number = (measure, str(entry.get("logId")))
        if entry.get("logId") is not None and number in self._seen:
            return "exact repeat"
        self._seen.add(number)
        if entry.get("logType") == "manual" and not self._include_manual:
            return "entered by hand"
        return None

    def _sleep(self, log: dict[str, Any]) -> str | None:
        (start, end), _ = files.instants([log.get("startTime"), log.get("endTime")])
        if files.UNREADABLE in (start, end):
            return "no readable time"
        start, end = (int(t) for t in self._clock.instants(np.array([start, end])))
        if end <= start:
            return "ends before it starts"
        if end - start > _LONGEST:
            return "longer than 24 hours"
        self._set(_INBED, [start], [end])
        self._mark(self.logged, [start], [end])
        self._tally.used[NAMES[_INBED]] += 1
        cells = self._cells(log.get("levels"), start, -(-(end - start) // _CELL))
        if cells is None:
            self._tally.skip("sleep", "no levels: in bed only")
            return None
        edges = np.flatnonzero(np.diff(np.concatenate(([0], cells, [0]))))
        begin, stop = start + _CELL * edges[::2], np.minimum(start + _CELL * edges[1::2], end)
        self._grid.add_flags(_ASLEEP, *self._local([start], [end]), on=False)
        if len(begin):
            self._set(_ASLEEP, begin, stop)
            self._mark(self.asleep, begin, stop)
            self._tally.used[NAMES[_ASLEEP]] += 1
        return None

    def _cells(self, levels: Any, start: int, length: int) -> np.ndarray | None:
        """Of each half minute of a log, whether it was asleep; None where the log has no levels."""
        data = levels.get("data") if isinstance(levels, dict) else None
        if not isinstance(data, list) or not data:
            return None
        cells = np.zeros(length, np.int8)
        short = levels.get("shortData")
        for awake, segments in ((False, data), (True, short if isinstance(short, list) else [])):
            segments = [s for s in segments if isinstance(s, dict)]
            at, _ = files.instants([s.get("dateTime") for s in segments])
            readable = at != files.UNREADABLE
            at[readable] = self._clock.instants(at[readable])
            seconds = files.numbers([s.get("seconds") for s in segments])
            for segment, when, lasts in zip(segments, at, seconds, strict=True):
                level = str(segment.get("level")).lower()
                if when == files.UNREADABLE or not 0 <= lasts <= _LONGEST or level not in _LEVELS:
                    self._tally.skip("sleep level", "unknown level or no readable time")
                    continue
                first = int(when - start) // _CELL
                after = int(when - start + lasts) // _CELL
                if not awake:
                    cells[max(first, 0) : max(after, 0)] = level in self._sleeping
                elif level not in self._sleeping:
                    cells[max(first, 0) : max(after, 0)] = 0
        return cells

    def _exercise(self, log: dict[str, Any]) -> str | None:
        at = files.wall_seconds([log.get("startTime")])
        lasts = files.numbers([log.get("duration")])[0] / 1000
        if at[0] == files.UNREADABLE or not np.isfinite(lasts):
            return "no readable time"
        if lasts <= 0 or lasts > _LONGEST:
            return "no length" if lasts <= 0 else "longer than 24 hours"
        name = str(log.get("activityName", "")).strip().lower()
        if name not in ACTIVITIES:
            return f"{name}: no such channel" if name in _OTHER_ACTIVITIES else "no such channel"
        start = int(self._clock.instants(at)[0])
        channel = INDEX[f"workout_{ACTIVITIES[name]}"]
        self._set(channel, [start], [start + int(lasts)])
        self._tally.used[NAMES[channel]] += 1
        return None

    def _local(self, start: Any, end: Any) -> tuple[np.ndarray, np.ndarray]:
        pieces = self._clock.pieces(np.asarray(start, np.int64), np.asarray(end, np.int64))
        return pieces.start, pieces.end

    def _set(self, channel: int, start: Any, end: Any) -> None:
        self._grid.add_flags(channel, *self._local(start, end))

    def _mark(self, days: dict[int, np.ndarray], start: Any, end: Any) -> None:
        minutes = np.unique(minute_grid.covered(*self._local(start, end)))
        for day in np.unique(minutes // MINUTES_PER_DAY):
            row = days.setdefault(int(day), np.zeros(MINUTES_PER_DAY, bool))
            row[minutes[minutes // MINUTES_PER_DAY == day] % MINUTES_PER_DAY] = True
