"""The daily table of LifeSnaps (Yfantidou et al., Scientific Data 2022): Fitbit wearers, one row a person and day."""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.errors import SourceError
from wearjax.sources import csv_table, daily_csv
from wearjax.sources.daily_record import DailyRecord, Demographics, sex_of
from wearjax.sources.tally import Tally

_MS_PER_HOUR = 3_600_000.0
_WHOLE_DAY = 1440  # minutes
# Column of each metric that is taken as it is, and by what it is divided.
_MAPPED: dict[str, tuple[str, float]] = {
    "steps": ("steps", 1.0),
    "rhr": ("resting_hr", 1.0),
    "hrv": ("rmssd", 1.0),
    "vo2_max": ("filtereddemographicvo2max", 1.0),
    "sleep_duration": ("sleep_duration", _MS_PER_HOUR),
    "sleep_efficiency": ("sleep_efficiency", 1.0),
}
_ACTIVITY, _SEDENTARY = "activitytype", "sedentary_minutes"
_PROFILE = ("age", "gender", "bmi")
# Why a column, or a metric that one might look for in it, is not used.
_UNUSED: dict[str, str] = {
    "sleep_deep_ratio": "relative to the person's own average, not a percentage of the night",
    "sleep_rem_ratio": "relative to the person's own average, not a percentage of the night",
    "sleep_light_ratio": "relative to the person's own average, and no metric",
    "sleep_wake_ratio": "relative to the person's own average, and no metric",
    "calories": "active and basal energy in one number; no column separates them",
    "stress_score": "a stress management score, higher is better, made of sleep, exertion and responsiveness; not a"
    " stress level, and reversing it would tie stress to sleep by definition",
    "responsiveness_points_percentage": "a part of the stress management score",
    "exertion_points_percentage": "a part of the stress management score",
    "sleep_points_percentage": "a part of the stress management score",
    "bpm": "mean over the whole day, neither resting nor exercise heart rate",
    "nremhr": "heart rate in deep sleep, another quantity than the resting heart rate that is there",
    "minutesasleep": "sleep duration is the time from falling asleep to waking, as the column of that name has it",
    "minutesawake": "no metric",
    "minutestofallasleep": "no metric; bedtimes themselves are not in the table, so their spread is unknown",
    "minutesafterwakeup": "no metric",
    "lightly_active_minutes": "no metric; sessions' lengths are not in the table",
    "moderately_active_minutes": "no metric; sessions' lengths are not in the table",
    "very_active_minutes": "no metric; sessions' lengths are not in the table",
    "minutes_below_default_zone_1": "minutes in a heart rate zone, not of a session",
    "minutes_in_default_zone_1": "minutes in a heart rate zone, not of a session",
    "minutes_in_default_zone_2": "minutes in a heart rate zone, not of a session",
    "minutes_in_default_zone_3": "minutes in a heart rate zone, not of a session",
    "distance": "no metric",
    "nightly_temperature": "no metric",
    "daily_temperature_variation": "no metric",
    "spo2": "no metric",
    "full_sleep_breathing_rate": "no metric",
    "scl_avg": "skin conductance, no metric",
    "mindfulness_session": "no metric",
    "badgetype": "no metric",
    "step_goal": "no metric",
    "min_goal": "no metric",
    "max_goal": "no metric",
    "step_goal_label": "no metric",
}


def read_records(
    path: str | os.PathLike, *, tally: Tally, progress: Callable[[int, int], None] | None = None
) -> Iterator[DailyRecord]:
    """Yields the records in the order of the user ids, and notes why a column is not used.

    A day with 1440 sedentary minutes marks a device that was not worn: its steps and sessions are left out. Exercise
    sessions are the kinds of activity logged, each once: a lower bound. A worn day without one has none.

    Args:
        path: the table, plain or gzipped, or the folder with `daily.csv` or `daily.csv.gz`.
        tally: counts rows, values and what was left out.
        progress: called with (people done, people).

    Raises:
        SourceError: no such file, a column is missing, or a cell is not readable.
    """
    file = Path(path)
    if file.is_dir():
        found = [f for f in (file / "daily.csv", file / "daily.csv.gz") if f.is_file()]
        if not found:
            raise SourceError(f"{file}: no daily.csv or daily.csv.gz in it")
        file = found[0]
    names = csv_table.header(file)
    _note_columns(names, tally)
    text = ("id", "date", _ACTIVITY, *_PROFILE)
    numbers = (*(column for column, _ in _MAPPED.values()), _SEDENTARY)
    users: list[np.ndarray] = [np.empty(0, np.int64)]
    dates, values = [np.empty(0, np.int64)], [np.empty((0, N_METRICS))]
    profiles: dict[str, dict[str, str]] = {}
    for batch in csv_table.batches(file, text=text, numbers=numbers):
        users.append(batch.column("id").to_numpy(zero_copy_only=False))
        dates.append(daily_csv.days_of(batch.column("date"), where=str(file)))
        values.append(_metrics(batch, file, tally))
        _profiles(batch, profiles, tally)
    table = np.concatenate(values)
    tally.read["days"] += len(table)
    for key, i in INDEX.items():
        if count := int(np.isfinite(table[:, i]).sum()):
            tally.used[key] += count
    ids = np.concatenate(users).astype(str)
    people = {user: _demographics(known) for user, known in profiles.items()}
    yield from daily_csv.grouped(
        ids, np.concatenate(dates), table, people, {}, tally=tally, progress=progress
    )


def _note_columns(names: list[str], tally: Tally) -> None:
    used = {"id", "date", _ACTIVITY, _SEDENTARY, *_PROFILE, *(column for column, _ in _MAPPED.values())}
    for name in names:
        if name not in used:
            tally.note(f"column {name!r} is not used: {_UNUSED.get(name, 'unknown')}")
    tally.note("exercise_count counts the kinds of activity logged on a day, each once: a lower bound")
    tally.note("age is a band (below 30, 30 and older), body mass index a rounded value or a band")


def _metrics(batch: pa.RecordBatch, file: Path, tally: Tally) -> np.ndarray:
    block = np.full((len(batch), N_METRICS), np.nan)
    for key, (column, divisor) in _MAPPED.items():
        block[:, INDEX[key]] = csv_table.floats(batch.column(column)) / divisor
        tally.read[column] += int(np.isfinite(block[:, INDEX[key]]).sum())
    sedentary = csv_table.floats(batch.column(_SEDENTARY))
    steps = block[:, INDEX["steps"]]
    unworn = sedentary >= _WHOLE_DAY
    sessions = np.array([_kinds(cell, file) for cell in batch.column(_ACTIVITY).to_pylist()], np.float64)
    tally.read[_ACTIVITY] += int((sessions > 0).sum())
    worn = np.isfinite(steps) & ~unworn
    tally.skip("steps", "device not worn (sedentary all day)", int((np.isfinite(steps) & unworn).sum()))
    tally.skip("exercise_count", "device not worn or without steps", int(((sessions > 0) & ~worn).sum()))
    block[unworn, INDEX["steps"]] = np.nan
    block[worn, INDEX["exercise_count"]] = sessions[worn]
    return block


def _kinds(cell: str, file: Path) -> int:
    """Entries of a written list."""
    if not cell:
        return 0
    try:
        found = ast.literal_eval(cell)
    except (ValueError, SyntaxError):
        found = None
    if not isinstance(found, list):
        raise SourceError(f"{file}: {_ACTIVITY} {cell[:40]!r} is not a list")
    return len(found)


def _profiles(batch: pa.RecordBatch, profiles: dict[str, dict[str, str]], tally: Tally) -> None:
    """A person's first words; rows are often blank, and different words are counted."""
    columns = [batch.column(c).to_pylist() for c in ("id", *_PROFILE)]
    for user, *words in zip(*columns, strict=True):
        known = profiles.setdefault(user, {})
        for name, word in zip(_PROFILE, words, strict=True):
            if word and known.setdefault(name, word) != word:
                tally.skip(name, "differs from the person's first one")


def _demographics(known: dict[str, str]) -> Demographics:
    bmi = known.get("bmi")
    number = None if bmi is None else _number(bmi)
    return Demographics(
        sex=sex_of(known.get("gender")),
        bmi=number,
        age_band=known.get("age"),
        bmi_band=None if number is not None else bmi,
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
