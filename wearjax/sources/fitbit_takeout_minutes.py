"""Minutes of a Fitbit account archive: kept once per instant, put on the local clock, and checked against sleep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from wearjax.channels import MINUTES_PER_DAY
from wearjax.sources.local_clock import ZoneClock
from wearjax.sources.repeats import Repeats

_DAYS_COMPARED = 400
_SHIFTS = range(-14, 15)  # hours
_STEPS_LEAST, _NIGHTS_LEAST = 1000, 3
_DOUBTFUL, _BETTER = (
    0.03,
    3.0,
)  # share of steps in sleep worth a warning, and how many times less another clock has


class Minutes:
    """Sums and numbers of readings by minute, of any clock; each instant counts once.

    Memory grows with days (12 kB each) and by 8 bytes a reading.
    """

    def __init__(self):
        self.days: dict[int, Float32[np.ndarray, "2 minute=1440"]] = {}
        self._repeats = Repeats()

    def __bool__(self) -> bool:
        return bool(self.days)

    def add(self, at: Int64[np.ndarray, "row"], value: Float64[np.ndarray, "row"]) -> int:
        """Adds readings at seconds since 1970; returns how many were there already."""
        again = self._repeats.seen(at)
        self._place(at[~again] // 60, value[~again], np.ones(int((~again).sum())))
        return int(again.sum())

    def _place(self, minute: np.ndarray, total: np.ndarray, number: np.ndarray) -> None:
        minute, place = np.unique(minute, return_inverse=True)
        sums, counts = np.bincount(place, total), np.bincount(place, number)
        for day in np.unique(minute // MINUTES_PER_DAY):
            chosen = minute // MINUTES_PER_DAY == day
            row = self.days.setdefault(int(day), np.zeros((2, MINUTES_PER_DAY), np.float32))
            of_day = minute[chosen] % MINUTES_PER_DAY
            row[0, of_day] += sums[chosen]
            row[1, of_day] += counts[chosen]

    def on(self, clock: ZoneClock) -> Minutes:
        """The same minutes, which are of UTC, by the wall clock of a zone; this one is emptied on the way."""
        local = Minutes()
        for day in sorted(self.days):
            row = self.days.pop(day)
            minute = np.flatnonzero(row[1])
            at = (day * MINUTES_PER_DAY + minute) * 60
            start = clock.pieces(at, at + 60).start
            local._place(start // 60, row[0, minute].astype(np.float64), row[1, minute].astype(np.float64))
        return local

    def recorded(self, day: int) -> int:
        """Minutes of the day with a reading."""
        return int(np.count_nonzero(self.days[day][1])) if day in self.days else 0

    def take(self, day: int, *, mean: bool) -> Float32[np.ndarray, "minute=1440"] | None:
        """The day's sums, or means; NaN where nothing was read. The day is forgotten."""
        row = self.days.pop(day, None)
        if row is None:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(row[1] > 0, row[0] / row[1] if mean else row[0], np.float32(np.nan))


@dataclass(frozen=True)
class ClockFit:
    """Which share of the steps falls into sleep, by what the times of the intraday JSON are taken for.

    Attributes:
        utc, local: the shares.
        shift_hours, shifted: the constant shift from written to local time with the smallest share, and that share.
    """

    utc: float
    local: float
    shift_hours: int
    shifted: float

    def evidence(self) -> str:
        return f"taken as utc, {self.utc:.1%} of the steps fall into sleep; taken as local, {self.local:.1%}"

    def advice(self) -> str:
        """Which of the two fits the person's sleep, and the evidence."""
        (less, better), (more, _) = sorted(((self.utc, "utc"), (self.local, "local")))
        if less >= _DOUBTFUL:
            fits = "neither fits the sleep that was recorded (is the zone right?)"
        elif more > _BETTER * less:
            fits = f"intraday={better} fits the sleep that was recorded"
        else:
            fits = "both fit the sleep that was recorded"
        return f"{fits}: {self.evidence()}"

    def doubt(self, chosen: str) -> str | None:
        """A warning where another clock fits much better than the chosen one."""
        share = self.utc if chosen == "utc" else self.local
        other = self.local if chosen == "utc" else self.utc
        if share < _DOUBTFUL:
            return None
        if share > _BETTER * other:
            name = "local" if chosen == "utc" else "utc"
            return f"WARNING: the times of the intraday JSON fit {name} much better than {chosen}: {self.evidence()}"
        if share > _BETTER * self.shifted:
            return (
                f"WARNING: neither utc nor local fits the intraday JSON: {self.evidence()}, but {self.shifted:.1%} "
                f"if local time is {self.shift_hours:+d} h from what is written; is the zone right?"
            )
        return None


def fit_clock(
    written: Minutes, asleep: dict[int, Bool[np.ndarray, "minute=1440"]], clock: ZoneClock
) -> ClockFit | None:
    """Holds steps, by minutes as written, against minutes asleep by the wall clock; None without enough of both."""
    nights = sorted(asleep)[-_DAYS_COMPARED:]
    if len(nights) < _NIGHTS_LEAST:
        return None
    first, last = max(nights[0], nights[-1] - _DAYS_COMPARED), nights[-1] + 1
    minutes = (last - first) * MINUTES_PER_DAY
    slept, steps = np.zeros(minutes, bool), np.zeros(minutes, np.float64)
    for day in range(first, last):
        span = slice((day - first) * MINUTES_PER_DAY, (day - first + 1) * MINUTES_PER_DAY)
        if day in asleep:
            slept[span] = asleep[day]
        if day in written.days:
            steps[span] = written.days[day][0]
    at = np.flatnonzero(steps)
    near = _near(slept, at)
    at, amount = at[near], steps[at[near]]
    if amount.sum() < _STEPS_LEAST:
        return None
    by_shift = {h: _share(slept, at + 60 * h, amount) for h in _SHIFTS}
    start = (first * MINUTES_PER_DAY + at) * 60
    local = clock.pieces(start, start + 60).start // 60 - first * MINUTES_PER_DAY
    least = [h for h in _SHIFTS if by_shift[h] == min(by_shift.values())]
    best = least[len(least) // 2]  # between wake and bedtime several shifts may fit alike
    return ClockFit(_share(slept, local, amount), by_shift[0], best, by_shift[best])


def _near(slept: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Minutes of days on which, or beside which, sleep was recorded."""
    by_day = np.asarray(slept.reshape(-1, MINUTES_PER_DAY).any(axis=1))
    wide = by_day.copy()
    wide[1:] |= by_day[:-1]
    wide[:-1] |= by_day[1:]
    return wide[at // MINUTES_PER_DAY]


def _share(slept: np.ndarray, at: np.ndarray, amount: np.ndarray) -> float:
    inside = (at >= 0) & (at < len(slept))
    return float(amount[inside][slept[at[inside]]].sum() / amount.sum())
