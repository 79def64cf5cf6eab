"""The rhythm of activity over the hours: parts of the day, stability, fragmentation, most and least active spans.

Non-parametric measures as in Van Someren et al. (1999): interdaily stability, intradaily variability, L5 and M10.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from wearjax.channels import HOURS_PER_DAY
from wearjax.predict.features import over_days
from wearjax.predict.features.day_block import DayBlock
from wearjax.predict.features.over_days import OverDays

SIGNALS = ("watch_steps", "watch_energy", "iphone_steps")
PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (0, 6)}
LEAST_HOURS, MOST_HOURS = 5, 10

Table = dict[str, Float64[np.ndarray, "day"]]
Hours = Float64[np.ndarray, "day hour=24"]


def daily(block: DayBlock) -> tuple[Table, dict[str, Hours]]:
    """Daily columns, and the hourly sums of each signal (NaN where a minute is missing)."""
    table: Table = {}
    hours = {signal: block.hours(signal) for signal in SIGNALS}
    for signal, sums in hours.items():
        for part, (first, stop) in PARTS.items():
            table[f"{signal}_{part}"] = over_days.not_measured_last(sums[:, first:stop].sum(axis=1))
        known = ~np.isnan(sums).any(axis=1)
        table[f"acrophase_{signal}"] = np.where(
            known, np.argmax(np.where(known[:, None], sums, 0), axis=1), np.nan
        )
        table[f"iv_{signal}"] = intradaily_variability(sums)
    return table, hours


def intradaily_variability(hours: Hours) -> Float64[np.ndarray, "day"]:
    """24 sum (difference of successive hours)^2 / (23 sum (deviation)^2); NaN where the day is constant or missing."""
    n = hours.shape[1]
    around = np.sum((hours - hours.mean(axis=1, keepdims=True)) ** 2, axis=1)
    steps = np.sum(np.diff(hours, axis=1) ** 2, axis=1)
    return n / (n - 1) * np.divide(steps, around, out=np.full(len(hours), np.nan), where=around > 0)


def interdaily_stability(hours: Hours) -> float:
    """Days x variance of the mean profile over the whole variance; NaN with a missing hour, or without variance."""
    mean = hours.mean()
    whole = float(np.sum((hours - mean) ** 2))
    return over_days.ratio(len(hours) * float(np.sum((hours.mean(axis=0) - mean) ** 2)), whole)


def least_and_most(profile: Float64[np.ndarray, "hour=24"]) -> tuple[float, float, float, float]:
    """(L5, hour it starts, M10, hour it starts) of the mean day, around the clock; the earliest of equals."""
    if np.isnan(profile).any():
        return (over_days.NAN,) * 4
    least, most = _rolling_mean(profile, LEAST_HOURS), _rolling_mean(profile, MOST_HOURS)
    low, high = int(np.argmin(least)), int(np.argmax(most))
    return float(least[low]), float(low), float(most[high]), float(high)


def _rolling_mean(profile: Float64[np.ndarray, "hour=24"], span: int) -> Float64[np.ndarray, "hour=24"]:
    place = (np.arange(HOURS_PER_DAY)[:, None] + np.arange(span)) % HOURS_PER_DAY
    return profile[place].mean(axis=1)


def features(
    days: OverDays, weekend: OverDays, weekday: OverDays, hours: dict[str, Hours]
) -> dict[str, float]:
    """Features by name, in no particular order."""
    found: dict[str, float] = {}
    for signal in SIGNALS:
        part = {name: days.median(f"{signal}_{name}") for name in PARTS}
        found |= {f"{signal}_{name}_p50": value for name, value in part.items()}
        morning, evening = part["morning"], part["evening"]
        found[f"chronotype_morning_ratio_{signal}"] = over_days.ratio(morning, morning + evening)
        found[f"activity_day_night_ratio_{signal}"] = over_days.ratio(
            morning + part["afternoon"] + evening, part["night"]
        )
        peak = f"acrophase_{signal}"
        found[f"{peak}_p50"] = days.median(peak)
        found[f"{peak}_spread"] = days.iqr(peak) / 2
        found[f"social_jetlag_{signal}"] = abs(weekend.median(peak) - weekday.median(peak))
        found[f"is_{signal}"] = interdaily_stability(hours[signal])
        found[f"iv_{signal}_p50"] = days.median(f"iv_{signal}")
        low, low_hour, high, high_hour = least_and_most(hours[signal].mean(axis=0))
        found[f"l5_{signal}"], found[f"l5_onset_{signal}"] = low, low_hour
        found[f"m10_{signal}"], found[f"m10_onset_{signal}"] = high, high_hour
        found[f"ra_{signal}"] = over_days.ratio(high - low, high + low)
    return found
