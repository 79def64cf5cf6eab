"""Heart rate: its level by day and night, its course at workouts, and what it costs to step."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from wearjax.channels import MINUTES_PER_DAY
from wearjax.predict.features import day_block, over_days
from wearjax.predict.features.day_block import DAYTIME, DayBlock
from wearjax.predict.features.over_days import OverDays

HARD_BPM = 120
WINDOW_MINUTES, WINDOW_LEAD = 5, 2
RECOVERY_MINUTES, ACTIVATION_MINUTES = (1, 5, 10), (5, 10)

Table = dict[str, Float64[np.ndarray, "day"]]


def daily(block: DayBlock) -> Table:
    """Daily columns in beats a minute; absent on days without a reading."""
    whole = over_days.ordered(block.heart_rate)
    largest = whole.largest()
    table = {
        "watch_hr_p5": whole.quantile(0.05),
        "watch_hr_median": whole.median(),
        "watch_hr_p95": whole.quantile(0.95),
        "hr_max": largest,
        "hr_hard": np.where(np.isnan(largest), np.nan, largest >= HARD_BPM),
        "hr_daytime": over_days.ordered(block.heart_rate[:, DAYTIME]).median(),
        "hr_nighttime": over_days.ordered(day_block.night(block.heart_rate)).median(),
    }
    steps = block.channel("watch_steps")[:, DAYTIME]
    active = np.sum(steps > 0, axis=1)
    total = steps.sum(axis=1, dtype=np.float64)
    pace = np.divide(total, active, out=np.full(len(total), np.nan), where=active > 0)
    table["hros"] = table["hr_daytime"] / (pace + 1)
    return table | _at_workouts(block.heart_rate, block.working_out)


def _at_workouts(
    heart_rate: Float32[np.ndarray, "day minute"], working_out: Bool[np.ndarray, "day minute"]
) -> Table:
    """Heart rate at the first and last workout minute of a day, and its change in the minutes after either."""
    table = {name: np.full(len(heart_rate), np.nan) for name in _COURSE}
    at = np.flatnonzero(working_out.any(axis=1))
    if not len(at):
        return table
    flags = working_out[at]
    start = np.argmax(flags, axis=1)
    end = MINUTES_PER_DAY - 1 - np.argmax(flags[:, ::-1], axis=1)
    after_end = _around(heart_rate[at], end[:, None] + np.array((0, *RECOVERY_MINUTES)))
    after_start = _around(heart_rate[at], start[:, None] + np.array((0, *ACTIVATION_MINUTES)))
    drop = after_end[:, :1] - after_end[:, 1:]
    rise = after_start[:, 1:] - after_start[:, :1]
    five = RECOVERY_MINUTES.index(5), ACTIVATION_MINUTES.index(5)
    columns = (
        after_end[:, 0], *drop.T, drop[:, five[0]] / after_end[:, 0],
        after_start[:, 0], *rise.T, rise[:, five[1]] / after_start[:, 0],
    )  # fmt: skip
    for name, column in zip(_COURSE, columns, strict=True):
        table[name][at] = column
    return table


_COURSE = (
    "hr_at_workout_end", *(f"hr_recovery_{k}min" for k in RECOVERY_MINUTES), "hr_recovery_ratio",
    "hr_at_workout_start", *(f"hr_activation_{k}min" for k in ACTIVATION_MINUTES), "hr_activation_ratio",
)  # fmt: skip


def _around(
    heart_rate: Float32[np.ndarray, "day minute"], centre: Int64[np.ndarray, "day place"]
) -> Float64[np.ndarray, "day place"]:
    """Median reading of the five minutes that start two before each centre; NaN without any."""
    minute = np.maximum(centre - WINDOW_LEAD, 0)[..., None] + np.arange(WINDOW_MINUTES)
    day = np.arange(len(heart_rate))[:, None, None]
    readings = heart_rate[day, np.minimum(minute, MINUTES_PER_DAY - 1)]
    return over_days.ordered(np.where(minute < MINUTES_PER_DAY, readings, np.float32(np.nan))).median()


def features(days: OverDays) -> dict[str, float]:
    """Features by name, in no particular order."""
    found = {f"{name}_p50": days.median(name) for name in (*_MEDIANS, *_COURSE)}
    found["watch_hr_iqr"] = days.iqr("watch_hr_median")
    found["hr_p95_p50"] = found["watch_hr_p95_p50"]
    night = found["hr_nighttime_p50"]
    found["hr_daytime_nighttime_ratio"] = over_days.ratio(found["hr_daytime_p50"], night)
    found["hr_peak_rest_ratio"] = over_days.ratio(found["hr_p95_p50"], night)
    found["hr_max_p95"] = days.quantile("hr_max", 0.95)
    found["pct_days_hr_80pct_achieved"] = days.mean("hr_hard")
    found["hr_recovery_5min_iqr"] = days.iqr("hr_recovery_5min")
    found["hros_iqr"] = days.iqr("hros")
    found["rhr_p5_rmssd"] = rmssd(days.column("watch_hr_p5"))
    found["rhr_median_rmssd"] = rmssd(days.column("watch_hr_median"))
    return found


_MEDIANS = (
    "watch_hr_p5",
    "watch_hr_median",
    "watch_hr_p95",
    "hr_daytime",
    "hr_nighttime",
    "hr_max",
    "hros",
)


def rmssd(values: Float64[np.ndarray, "day"]) -> float:
    """Root mean square of the differences of successive days; a day without a value breaks two of them."""
    steps = np.diff(values)
    steps = steps[~np.isnan(steps)]
    return math.sqrt(float(np.mean(steps**2))) if len(steps) else over_days.NAN
