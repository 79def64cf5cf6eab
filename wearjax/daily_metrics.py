"""The table of the 16 daily metrics that WearableQA asks about: the only place that knows their units and rules.

Keys, labels and the rule that a zero can mean "not measured" follow the public renderer of the benchmark; plausible
ranges, polarity and the pairs that hold by definition are this project's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Domain = Literal["cardio_fitness", "activity", "sleep", "stress"]


@dataclass(frozen=True)
class DailyMetric:
    """One row of the table.

    Attributes:
        key: name in tables and files.
        label: short name that prompts use.
        phrase: name within a sentence.
        unit: of the values; empty for a count or index.
        better: direction that is read as favourable; None where neither is.
        plausible: closed range; outside it a recorded value counts as missing.
        zero_is_missing: a zero stands for "not measured".
        dense: recorded on most days by most devices, so that windows must hold more of it.
        step: unit of rounding in questions; None rounds to three significant digits.
    """

    key: str
    label: str
    phrase: str
    unit: str
    domain: Domain
    better: Literal["up", "down"] | None
    plausible: tuple[float, float]
    zero_is_missing: bool = False
    dense: bool = False
    step: float | None = None


METRICS: tuple[DailyMetric, ...] = (
    DailyMetric("steps", "Steps", "daily steps", "steps", "activity", "up", (0, 100_000), dense=True, step=100),
    DailyMetric("rhr", "RHR", "resting heart rate", "bpm", "cardio_fitness", "down", (30, 130), dense=True, step=1),
    DailyMetric("hrv", "HRV", "heart rate variability", "ms", "cardio_fitness", "up", (5, 250)),
    DailyMetric("vo2_max", "VO2max", "estimated VO2max", "mL/kg/min", "cardio_fitness", "up", (10, 90)),
    DailyMetric(
        "sleep_duration", "Sleep(h)", "sleep duration", "h", "sleep", "up", (0, 16), dense=True, step=0.1
    ),
    DailyMetric("sleep_efficiency", "Sleep Eff", "sleep efficiency", "%", "sleep", "up", (0, 100)),
    DailyMetric("deep_percentage", "Deep%", "deep sleep percentage", "%", "sleep", "up", (0, 100)),
    DailyMetric("rem_percentage", "REM%", "REM sleep percentage", "%", "sleep", "up", (0, 100)),
    DailyMetric(
        "bed_time_std", "Bedtime Std(min)", "bedtime irregularity", "min", "sleep", "down", (0, 720)
    ),
    DailyMetric(
        "active_burn", "Active Cal", "active energy", "kcal", "activity", "up", (0, 10_000), dense=True
    ),
    DailyMetric("calories_bmr", "BMR Cal", "basal energy", "kcal", "activity", None, (500, 5_000), dense=True),
    DailyMetric(
        "avg_stress_level", "Stress", "stress level", "", "stress", "down", (1, 100), zero_is_missing=True
    ),
    DailyMetric("exercise_count", "Ex Count", "exercise sessions", "", "activity", "up", (0, 50)),
    DailyMetric(
        "exercise_hours", "Ex Hours", "exercise time", "h", "activity", "up", (0, 24), zero_is_missing=True
    ),
    DailyMetric(
        "exercise_mets", "Ex METs", "exercise intensity", "METs", "activity", "up", (0, 30), zero_is_missing=True
    ),
    DailyMetric(
        "exercise_avg_hr", "Ex Avg HR", "heart rate during exercise", "bpm", "cardio_fitness", None, (40, 220),
        zero_is_missing=True,
    ),
)  # fmt: skip
N_METRICS = len(METRICS)
INDEX: dict[str, int] = {metric.key: i for i, metric in enumerate(METRICS)}
BY_KEY: dict[str, DailyMetric] = {metric.key: metric for metric in METRICS}
# Names under which other tables carry the same metric.
ALIASES: dict[str, str] = {"resting_hr": "rhr", "active_kcal": "active_burn"}
# Metrics of which the cohort's percentiles are shown.
CORE: tuple[str, ...] = ("rhr", "hrv", "steps", "sleep_duration", "vo2_max")
# Pairs that move together because one is computed from the other.
DEFINITIONAL: frozenset[frozenset[str]] = frozenset(
    frozenset(pair)
    for pair in (
        ("steps", "active_burn"),
        ("exercise_hours", "exercise_count"),
        ("exercise_hours", "active_burn"),
        ("exercise_mets", "active_burn"),
        ("exercise_count", "active_burn"),
        ("calories_bmr", "active_burn"),
    )
)


def digest() -> str:
    """SHA-256 of what stored records depend on; a store made with another table is refused."""
    rows = "\n".join(f"{m.key}|{m.unit}|{m.plausible}|{m.zero_is_missing}" for m in METRICS)
    return hashlib.sha256(rows.encode()).hexdigest()


def is_definitional(a: str, b: str) -> bool:
    """Whether two metrics are tied by how they are computed."""
    return frozenset((a, b)) in DEFINITIONAL


def partners(key: str) -> tuple[str, ...]:
    """Metrics that would give a hidden one away, in the order of the table."""
    return tuple(metric.key for metric in METRICS if is_definitional(key, metric.key))
