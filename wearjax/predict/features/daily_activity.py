"""Steps, distance, energy and workouts: daily values, and what they are over days."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from wearjax.channels import INDEX, NAMES, WORKOUTS
from wearjax.predict.features import over_days
from wearjax.predict.features.day_block import DAYTIME, DayBlock
from wearjax.predict.features.over_days import OverDays

DEVICES = ("watch", "iphone")
SUMMED = (
    "iphone_steps",
    "iphone_distance",
    "iphone_flights",
    "watch_steps",
    "watch_distance",
    "watch_energy",
)
LEVELS = ("sedentary", "light", "moderate", "vigorous")
MODERATE_STEPS, VIGOROUS_STEPS = 40, 80  # steps per minute
GAIT_STEPS_MIN, GAIT_RATIO_MAX = 500, 1.5
WORKOUT_TYPES = tuple(NAMES[c].removeprefix("workout_") for c in WORKOUTS)
CARDIO = ("walking", "running", "cycling", "elliptical", "hiit", "mixed_cardio")
STRENGTH = ("strength", "functional")

Table = dict[str, Float64[np.ndarray, "day"]]


def daily(block: DayBlock) -> Table:
    """Daily columns; sums of a channel that was not measured rank last, counts of its minutes are absent."""
    table = {name: over_days.not_measured_last(block.sums(name)) for name in SUMMED}
    for device in DEVICES:
        table |= _minutes(block, device)
        steps, distance = table[f"{device}_steps"], table[f"{device}_distance"]
        known = np.isfinite(steps) & np.isfinite(distance) & (steps >= GAIT_STEPS_MIN)
        gait = np.divide(distance, steps, out=np.full(len(steps), np.nan), where=known)
        table[f"{device}_gait_efficiency"] = np.where(gait <= GAIT_RATIO_MAX, gait, np.nan)
    both = np.stack([table["watch_steps"], table["iphone_steps"]])
    low, high = both.min(axis=0), both.max(axis=0)
    table["step_sync_ratio"] = np.divide(
        low, high, out=np.full(len(low), np.nan), where=np.isfinite(high) & (high > 0)
    )
    return table | _workouts(block)


def _minutes(block: DayBlock, device: str) -> Table:
    """Minutes by intensity; only the whole day's sedentary minutes can be corrected for non-wear."""
    steps, worn = block.channel(f"{device}_steps"), block.has(f"{device}_steps")
    zero = steps == 0
    counts = {
        "active": np.sum(steps > 0, axis=1),
        "sedentary": np.maximum(zero.sum(axis=1) - block.nonwear_minutes, 0),
        "light": np.sum((steps > 0) & (steps < MODERATE_STEPS), axis=1),
        "moderate": np.sum((steps >= MODERATE_STEPS) & (steps < VIGOROUS_STEPS), axis=1),
        "vigorous": np.sum(steps >= VIGOROUS_STEPS, axis=1),
        "wake_sedentary": zero[:, DAYTIME].sum(axis=1),
    }
    return {f"{device}_{kind}_minutes": np.where(worn, count, np.nan) for kind, count in counts.items()}


def _workouts(block: DayBlock) -> Table:
    minutes = {
        f"minutes_{kind}": block.recorded[:, INDEX[f"workout_{kind}"]].sum(axis=1, dtype=np.float64)
        for kind in WORKOUT_TYPES
    }
    every = np.stack(list(minutes.values()))
    kinds = (every > 0).sum(axis=0)
    done = kinds > 0
    table = {
        "workout_minutes": every.sum(axis=0),
        "workout_day": done.astype(np.float64),
        "workout_kinds": np.where(done, kinds, np.nan),
    }
    return table | minutes


def features(days: OverDays) -> dict[str, float]:
    """Features by name, in no particular order."""
    found: dict[str, float] = {}
    for name in SUMMED:
        found |= days.four(name)
    for device in DEVICES:
        for kind in ("active", *LEVELS, "wake_sedentary"):
            found |= days.two(f"{device}_{kind}_minutes")
        found[f"{device}_gait_efficiency_p50"] = days.median(f"{device}_gait_efficiency")
    found["step_sync_ratio_p50"] = days.median("step_sync_ratio")
    found |= days.two("workout_minutes")
    found["workout_density"] = days.mean("workout_day")
    found["workout_specialization_p50"] = days.median("workout_kinds")
    total = {kind: float(days.column(f"minutes_{kind}").sum()) for kind in WORKOUT_TYPES}
    cardio, strength = (sum(total[kind] for kind in kinds) for kinds in (CARDIO, STRENGTH))
    found["cardio_strength_ratio"] = over_days.ratio(cardio, cardio + strength)
    for kind in WORKOUT_TYPES:
        found[f"workout_freq_{kind}"] = float(np.mean(days.column(f"minutes_{kind}") > 0))
    return found
