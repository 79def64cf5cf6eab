"""Daily metrics computed from minute days, as far as their 19 channels allow.

Seven metrics of the sixteen need what minutes do not hold (heart rate variability, VO2max, sleep stages, basal energy,
stress, METs) and stay missing. What the others are computed by is this project's; no vendor publishes its rules.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64

from wearjax import channels
from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.days.store import Days
from wearjax.sources.daily_record import DailyRecord, Demographics, of_rows, sex_of

_EPOCH = dt.date(1970, 1, 1)
_EVENING = 18 * 60  # a night belongs to the day on which it ends, and begins at this minute of the day before
_RESTING_SHARE = 10  # percentile of a day's heart rates at rest
_RESTING_MINUTES = 60  # measured minutes at rest that the estimate needs
_NIGHTS, _NIGHTS_LEAST = 7, 4  # nights whose bedtimes are compared, and how many of them must be known
_PAUSE = 10  # minutes: a shorter pause does not end a workout


def of_days(
    days: Days,
    *,
    demographics: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[DailyRecord]:
    """Yields the daily record of each participant of a day store.

    - steps: of the watch, else of the phone.
    - rhr: an estimate; 10th percentile of the heart rate in measured minutes without steps, sleep or workout.
    - sleep_duration: hours asleep from 18:00 of the day before to 18:00; needs both days in the store, and some sleep.
    - sleep_efficiency: minutes asleep in 100 minutes in bed, where both were recorded.
    - bed_time_std: standard deviation of when the last seven nights began (asleep, else in bed), four of them known.
    - active_burn: energy of the watch.
    - exercise_count, exercise_hours, exercise_avg_hr: of recorded workouts of any kind; a participant who never
      recorded one has none, the others have a count of 0 on days without one.

    Args:
        demographics: `{participant: {"birth_year", "sex"}}`; age is that of the participant's first day.
        progress: called with (days done, days in total).
    """
    order = np.lexsort((days.dates, days.participants))
    people = days.participants[order]
    bounds = [0, *np.flatnonzero(people[1:] != people[:-1]) + 1, len(people)] if len(people) else [0]
    done = 0
    for first, stop in itertools.pairwise(bounds):
        rows = np.full((stop - first, N_METRICS), np.nan)
        dates = np.empty(stop - first, np.int64)
        onset = np.full(stop - first, np.nan)
        before: tuple[int, np.ndarray] | None = None
        ever_exercised = False
        for i, place in enumerate(order[first:stop]):
            day = days[int(place)]
            dates[i] = (day.date - _EPOCH).days
            evening = before[1] if before is not None and before[0] == dates[i] - 1 else None
            onset[i] = _sleep(rows[i], day.values, evening)
            _activity(rows[i], day.values)
            ever_exercised |= rows[i, INDEX["exercise_count"]] > 0
            before = (int(dates[i]), day.values[list(channels.SLEEP), _EVENING:])
            done += 1
            if progress:
                progress(done, len(people))
        if not ever_exercised:
            rows[:, INDEX["exercise_count"]] = np.nan
        rows[:, INDEX["bed_time_std"]] = _irregularity(dates, onset)
        user = str(people[first])
        yield of_rows(
            user, dates, rows, demographics=_profile((demographics or {}).get(user, {}), int(dates[0]))
        )


def _activity(
    row: Float64[np.ndarray, "metric=16"], values: Float32[np.ndarray, "channel=19 minute=1440"]
) -> None:
    """Fills steps, energy, workouts and resting heart rate."""
    for device in ("watch", "iphone"):
        if np.isnan(row[INDEX["steps"]]):
            row[INDEX["steps"]] = _sum(values[channels.INDEX[f"{device}_steps"]])
    energy = _sum(values[channels.ENERGY])
    row[INDEX["active_burn"]] = energy * channels.CHANNELS[channels.ENERGY].display_scale
    exercising: Bool[np.ndarray, "minute=1440"] = np.any(values[list(channels.WORKOUTS)] > 0, axis=0)
    minutes = int(exercising.sum())
    row[INDEX["exercise_count"]] = _sessions(exercising)
    heart = values[channels.HEART_RATE].astype(np.float64) * 60
    if minutes:
        row[INDEX["exercise_hours"]] = minutes / 60
        row[INDEX["exercise_avg_hr"]] = _mean(heart[exercising])
    steps = np.nan_to_num(values[[channels.INDEX["watch_steps"], channels.INDEX["iphone_steps"]]]).max(axis=0)
    asleep = (values[list(channels.SLEEP)] > 0).any(axis=0)
    resting = heart[np.isfinite(heart) & (steps == 0) & ~exercising & ~asleep]
    if len(resting) >= _RESTING_MINUTES:
        row[INDEX["rhr"]] = np.percentile(resting, _RESTING_SHARE)


def _sleep(
    row: Float64[np.ndarray, "metric=16"],
    values: Float32[np.ndarray, "channel=19 minute=1440"],
    evening: Float32[np.ndarray, "sleep=2 minute=360"] | None,
) -> float:
    """Fills duration and efficiency of the night that ends on the day; minutes from 18:00 to its beginning, or NaN."""
    if evening is None:
        return np.nan
    night = np.concatenate([evening, values[list(channels.SLEEP), :_EVENING]], axis=1)
    by_name = dict(zip((channels.NAMES[i] for i in channels.SLEEP), night, strict=True))
    asleep, in_bed = by_name["sleep_asleep"] > 0, by_name["sleep_inbed"] > 0
    if asleep.any():
        row[INDEX["sleep_duration"]] = asleep.sum() / 60
        if in_bed.any():
            row[INDEX["sleep_efficiency"]] = 100 * asleep.sum() / (asleep | in_bed).sum()
    begun = asleep if asleep.any() else in_bed
    return float(begun.argmax()) if begun.any() else np.nan


def _irregularity(dates: np.ndarray, onset: Float64[np.ndarray, " day"]) -> Float64[np.ndarray, " day"]:
    """Spread of the beginnings of the nights of the seven days up to each day."""
    out = np.full(len(dates), np.nan)
    for i, date in enumerate(dates):
        recent = onset[max(0, i + 1 - _NIGHTS) : i + 1][
            dates[max(0, i + 1 - _NIGHTS) : i + 1] > date - _NIGHTS
        ]
        known = recent[np.isfinite(recent)]
        if len(known) >= _NIGHTS_LEAST:
            out[i] = known.std(ddof=1)
    return out


def _sessions(exercising: Bool[np.ndarray, "minute=1440"]) -> int:
    """Workouts of a day; minutes less than ten apart are one."""
    at = np.flatnonzero(exercising)
    return int(np.sum(np.diff(at) > _PAUSE)) + 1 if len(at) else 0


def _sum(minutes: Float32[np.ndarray, "minute=1440"]) -> float:
    return float(np.nansum(minutes, dtype=np.float64)) if np.isfinite(minutes).any() else np.nan


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _profile(known: Mapping[str, Any], first: int) -> Demographics:
    born = known.get("birth_year")
    year = (_EPOCH + dt.timedelta(days=first)).year
    sex = known.get("sex")
    return Demographics(
        age=None if born is None else float(year - int(born)), sex=None if sex is None else sex_of(str(sex))
    )
