"""Fitbit days from a Fitabase research export: minute steps, heart rate and sleep logs.

What becomes of the files:
- `minuteSteps…` fills `watch_steps`; `heartrate_seconds` fills `watch_hr` with the mean of each minute;
  `minuteSleep` fills `sleep_inbed` over the whole log and `sleep_asleep` where its value is 1 (asleep).
- `minuteCalories…` holds resting energy too. It fills `watch_energy` only when asked, less the participant's
  lowest minute, which is an estimate.
- `minuteIntensities…` has no channel; it helps to tell wear.
- What the export cannot hold (phone, distance per minute, workouts) stays missing.

Wear: the export writes zero for "not worn". A minute counts as not worn when nothing is recorded in it, or
when it lies in at least 90 minutes on end without a step, an activity intensity, a heart rate or a sleep log.
Nights without heart rate and sleep log therefore count as not worn.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from wearjax.channels import ENERGY, HEART_RATE, INDEX, MINUTES_PER_DAY
from wearjax.day import SHAPE, Day
from wearjax.errors import SourceError
from wearjax.sources import csv_table, fitabase, minute_grid, nonwear
from wearjax.sources.tally import Tally

_STEPS, _ASLEEP, _INBED = INDEX["watch_steps"], INDEX["sleep_asleep"], INDEX["sleep_inbed"]
_CALORIES_PER_KILOCALORIE = 1000.0
_EPOCH = dt.date(1970, 1, 1)


def read_days(
    path: str | os.PathLike,
    *,
    tally: Tally,
    absent: str = "zero-when-recording",
    active_energy: bool = False,
    restless_is_sleep: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Day]:
    """Days of every participant of an export, by participant and date.

    Args:
        path: the export's folder (searched below, too) or one minute file; `.csv` or `.csv.gz`.
        tally: filled with what was read, used and left out.
        absent: `"zero-when-recording"` or `"missing"` for minutes without a record.
        active_energy: estimate `watch_energy` from `minuteCalories`.
        restless_is_sleep: count sleep value 2 (restless) as asleep; Fitbit's own totals do not.
        progress: called with (bytes read, bytes in all).

    Raises:
        SourceError: no minute file, damaged ids, unreadable times or numbers. ConfigError: unknown `absent`.
    """
    minute_grid.check_absent(absent)
    fill = absent == "zero-when-recording"
    export = fitabase.read(fitabase.find(Path(path), tally), tally, progress=progress)
    tally.note("days and minutes are those of the times as written, which name no zone")
    _say_what_is_used(export, tally, active_energy)
    for participant in sorted(export.codes):
        grids, first_day = _grids(export, export.codes[participant])
        if not grids:
            continue
        worn_not = _nonwear(grids)
        energy = _active_energy(grids["calories"]) if active_energy and "calories" in grids else None
        days = len(worn_not) // MINUTES_PER_DAY
        for d in range(days):
            span = slice(d * MINUTES_PER_DAY, (d + 1) * MINUTES_PER_DAY)
            today = {measure: grid[span] for measure, grid in grids.items()}
            if all(np.isnan(minutes).all() for minutes in today.values()):
                continue
            values = _day_values(today, energy=None if energy is None else energy[span],
                                 asleep=(1, 2) if restless_is_sleep else (1,))  # fmt: skip
            date = _EPOCH + dt.timedelta(days=first_day + d)
            tally.record(date, values)
            _count_used(values, today, tally)
            if fill:
                _fill(values, today, energy=energy is not None)
            yield Day(values, participant, date, float(worn_not[span].sum()), "fitbit")


def check_daily_totals(path: str | os.PathLike, days) -> dict[str, int]:
    """Compares the steps of imported days with the `TotalSteps` of the export's `dailyActivity` file.

    Args:
        path: the folder that was imported.
        days: the imported days (`participants`, `dates` and `values(i)` as in a day store).

    Returns:
        Counts of daily rows. Of the days whose 1,440 minutes are all in the export: `equal`;
        `export disagrees with itself`, where the import equals the sum of the export's minutes and the daily
        file says otherwise (the tracker's own daily counter); `different`, where the import equals neither.
        Then `incomplete` (minutes are lacking, so no equality is due) and `not imported` (no such day among
        `days`). And of imported days, `not in the daily file`.

    Raises:
        SourceError: no `dailyActivity` file or no minute steps below `path`.
    """
    path = Path(path)
    tables = (
        [f for f in sorted(path.rglob("*")) if "dailyactivity" in f.name.lower()] if path.is_dir() else []
    )
    if not tables:
        raise SourceError(f"{path}: no dailyActivity file to compare with")
    chosen = [pair for pair in fitabase.find(path, Tally()) if pair[0].measure == "steps"]
    if not chosen:
        raise SourceError(f"{path}: no minuteSteps file to compare with dailyActivity")
    daily: dict[tuple[str, str], int] = {}
    for file in tables:
        _read_daily_steps(file, daily)
    complete = _complete_day_sums(fitabase.read(chosen, Tally()))
    where = {(str(p), str(d)): i for i, (p, d) in enumerate(zip(days.participants, days.dates, strict=True))}
    itself = "export disagrees with itself"
    counts = Counter({"equal": 0, itself: 0, "different": 0, "incomplete": 0, "not imported": 0})
    for key, total in daily.items():
        if key not in where:
            counts["not imported"] += 1
        elif key not in complete:
            counts["incomplete"] += 1
        else:
            imported = float(np.nansum(days.values(where[key])[_STEPS], dtype=np.float64))
            same = "equal" if imported == total else itself if imported == complete[key] else "different"
            counts[same] += 1
    counts["not in the daily file"] = len(where.keys() - daily.keys())
    return dict(counts)


def _say_what_is_used(export: fitabase.Export, tally: Tally, active_energy: bool) -> None:
    if "intensity" in export.series:
        tally.skip("minuteIntensities", "no channel (used to tell wear)", len(export.series["intensity"].who))
    if "calories" in export.series:
        if active_energy:
            tally.note("watch_energy is an estimate: minute calories less the participant's lowest minute")
        else:
            n = len(export.series["calories"].who)
            tally.skip("minuteCalories", "resting energy included (active_energy estimates the rest)", n)
    if "heart rate" not in export.series:
        tally.note("no heart rate in the export: wear is told from movement alone, nights count as not worn")
    if "sleep" not in export.series:
        tally.note("no minuteSleep in the export: the sleep channels are missing")


def _grids(export: fitabase.Export, code: int) -> tuple[dict[str, Float32[np.ndarray, "minute"]], int]:
    """One NaN-padded array per measure over the participant's whole days, and the first day since 1970."""
    found = {m: s for m, series in export.series.items() if len((s := series.of(code))[0])}
    if not found:
        return {}, 0
    first = min(minutes[0] for minutes, _ in found.values()) // MINUTES_PER_DAY
    last = max(minutes[-1] for minutes, _ in found.values()) // MINUTES_PER_DAY
    grids = {}
    for measure, (minutes, values) in found.items():
        grids[measure] = np.full((last - first + 1) * MINUTES_PER_DAY, np.nan, np.float32)
        grids[measure][minutes - first * MINUTES_PER_DAY] = values
    return grids, int(first)


def _nonwear(grids: dict[str, np.ndarray]) -> np.ndarray:
    length = len(next(iter(grids.values())))
    recorded, alive = np.zeros(length, bool), np.zeros(length, bool)
    for measure, grid in grids.items():
        present = ~np.isnan(grid)
        recorded |= present
        if measure in ("heart rate", "sleep"):
            alive |= present
        elif measure in ("steps", "intensity"):
            alive |= present & (grid > 0)
    return ~recorded | nonwear.unmoved_runs(~alive)


def _active_energy(kilocalories: Float32[np.ndarray, "minute"]) -> Float32[np.ndarray, "minute"]:
    positive = kilocalories[kilocalories > 0]
    return above_rest(kilocalories, float(positive.min()) if len(positive) else 0.0)


def above_rest(kilocalories: Float32[np.ndarray, "minute"], rest: float) -> Float32[np.ndarray, "minute"]:
    """An estimate of active energy, in calories: what each minute burns above the participant's lowest minute."""
    return np.maximum(kilocalories - np.float32(rest), 0) * np.float32(_CALORIES_PER_KILOCALORIE)


def _day_values(today: dict[str, np.ndarray], *, energy, asleep: tuple[int, ...]) -> np.ndarray:
    values = np.full(SHAPE, np.nan, np.float32)
    if "steps" in today:
        values[_STEPS] = today["steps"]
    if energy is not None:
        values[ENERGY] = energy
    if "heart rate" in today:
        values[HEART_RATE] = today["heart rate"] / np.float32(60)
    sleep = today.get("sleep")
    if sleep is not None:
        logged = ~np.isnan(sleep)
        values[_INBED, logged] = 1
        values[_ASLEEP, logged] = np.isin(sleep[logged], asleep)
    return values


def _fill(values: np.ndarray, today: dict[str, np.ndarray], *, energy: bool) -> None:
    """Zeros where the tracker, or its sleep log, recorded on the day and wrote nothing."""
    if any(not np.isnan(today[m]).all() for m in ("steps", "heart rate", "calories") if m in today):
        counted = [_STEPS] * ("steps" in today) + [ENERGY] * energy
        values[counted] = np.nan_to_num(values[counted], nan=0.0)
    if not np.isnan(values[_INBED]).all():
        values[[_ASLEEP, _INBED]] = np.nan_to_num(values[[_ASLEEP, _INBED]], nan=0.0)


def _count_used(values: np.ndarray, today: dict[str, np.ndarray], tally: Tally) -> None:
    for measure, channel in (("steps", "watch_steps"), ("heart rate", "watch_hr"), ("sleep", "sleep_inbed")):
        if measure in today:
            tally.used[channel] += int(np.sum(~np.isnan(today[measure])))
    if "sleep" in today:
        tally.used["sleep_asleep"] += int(np.nansum(values[_ASLEEP]))
    if "calories" in today and not np.isnan(values[ENERGY]).all():
        tally.used["watch_energy"] += int(np.sum(~np.isnan(today["calories"])))


def _read_daily_steps(file: Path, into: dict[tuple[str, str], int]) -> None:
    for batch in csv_table.batches(file, text=("id", "activitydate"), numbers=("totalsteps",)):
        seconds, _ = csv_table.local_seconds(batch.column("activitydate"), where=f"{file}: activitydate")
        totals = csv_table.floats(batch.column("totalsteps"))
        for who, second, steps in zip(batch.column("id").to_pylist(), seconds, totals, strict=True):
            date = (_EPOCH + dt.timedelta(days=int(second // 86_400))).isoformat()
            key = (who.strip().removesuffix(".0"), date)
            into[key] = max(into.get(key, 0), int(np.nan_to_num(steps)))  # two exports may share a day


def _complete_day_sums(export: fitabase.Export) -> dict[tuple[str, str], float]:
    series, names = export.series["steps"], {code: name for name, code in export.codes.items()}
    keys = np.stack([series.who, series.minute // MINUTES_PER_DAY])
    keys, first, counts = np.unique(keys, axis=1, return_index=True, return_counts=True)
    sums = np.add.reduceat(series.value.astype(np.float64), first) if len(first) else first
    return {
        (names[int(who)], (_EPOCH + dt.timedelta(days=int(day))).isoformat()): float(total)
        for (who, day), total, n in zip(keys.T, sums, counts, strict=True)
        if n == MINUTES_PER_DAY
    }
