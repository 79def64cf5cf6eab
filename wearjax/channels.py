"""The table of the 19 channels: the only place that knows their order, units and rules.

Order, names and categories are those of OpenMHC. Heart rate is stored in beats per second and energy in
small calories per minute, as in the published data; figures for people convert with `Channel.display_scale`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

MINUTES_PER_DAY = 1440
HOURS_PER_DAY = 24
LARGEST = 1e12  # no device measures more; sums and squares of what is smaller stay within float32


@dataclass(frozen=True)
class Channel:
    """One row of the table.

    Attributes:
        name: short name used in tables and files.
        source_name: the name in OpenMHC stores.
        unit: unit of the stored minute value.
        kind: continuous values or a 0/1 flag.
        device: recording device, or None where any source counts.
        category: `activity`, `physiology`, `sleep` or `workouts`.
        hourly: how 60 minutes become one hour.
        min_variance: a day whose within-day variance is below this is dropped; None is never checked.
        display_unit, display_scale: unit for people, and the factor from the stored unit to it.
        plausible: closed range of stored values; outside it a recorded value is an error of the device.
    """

    name: str
    source_name: str
    unit: str
    kind: Literal["continuous", "binary"]
    device: Literal["iphone", "watch"] | None
    category: Literal["activity", "physiology", "sleep", "workouts"]
    hourly: Literal["sum", "mean", "max"]
    min_variance: float | None = None
    display_unit: str = ""
    display_scale: float = 1.0
    plausible: tuple[float, float] = (0.0, 1.0)

    @property
    def is_continuous(self) -> bool:
        return self.kind == "continuous"


def _quantity(device, name, identifier, unit, category, *, variance, most, hourly="sum", shown="", scale=1.0):
    return Channel(
        name=f"{device}_{name}",
        source_name=f"hk_{device}:HKQuantityTypeIdentifier{identifier}",
        unit=unit,
        kind="continuous",
        device=device,
        category=category,
        hourly=hourly,
        min_variance=variance,
        display_unit=shown or unit,
        display_scale=scale,
        plausible=(0.0, most),
    )


def _flag(name, source_name, category):
    return Channel(name, source_name, "0/1", "binary", None, category, "max", display_unit="0/1")


def _workout(name, identifier):
    return _flag(f"workout_{name}", f"workout:HKWorkoutActivityType{identifier}", "workouts")


CHANNELS: tuple[Channel, ...] = (
    _quantity("iphone", "steps", "StepCount", "steps/min", "activity", variance=1.0, most=400),
    _quantity("iphone", "distance", "DistanceWalkingRunning", "m/min", "activity", variance=1.0, most=800),
    _quantity("iphone", "flights", "FlightsClimbed", "count/min", "activity", variance=None, most=60),
    _quantity("watch", "steps", "StepCount", "steps/min", "activity", variance=1.0, most=400),
    _quantity("watch", "distance", "DistanceWalkingRunning", "m/min", "activity", variance=1.0, most=800),
    _quantity(
        "watch", "hr", "HeartRate", "beats/s", "physiology",
        variance=1e-4, most=5.0, hourly="mean", shown="bpm", scale=60.0,
    ),
    _quantity(
        "watch", "energy", "ActiveEnergyBurned", "cal/min", "physiology",
        variance=1.0, most=60_000, shown="kcal/min", scale=1e-3,
    ),
    _flag("sleep_asleep", "sleep:asleep", "sleep"),
    _flag("sleep_inbed", "sleep:inbed", "sleep"),
    _workout("walking", "Walking"),
    _workout("cycling", "Cycling"),
    _workout("running", "Running"),
    _workout("other", "Other"),
    _workout("mixed_cardio", "MixedMetabolicCardioTraining"),
    _workout("strength", "TraditionalStrengthTraining"),
    _workout("elliptical", "Elliptical"),
    _workout("hiit", "HighIntensityIntervalTraining"),
    _workout("functional", "FunctionalStrengthTraining"),
    _workout("yoga", "Yoga"),
)  # fmt: skip

N_CHANNELS = len(CHANNELS)
NAMES: tuple[str, ...] = tuple(channel.name for channel in CHANNELS)
INDEX: dict[str, int] = {name: i for i, name in enumerate(NAMES)}
HEART_RATE = INDEX["watch_hr"]
ENERGY = INDEX["watch_energy"]


def _where(**wanted) -> tuple[int, ...]:
    return tuple(
        i for i, channel in enumerate(CHANNELS) if all(getattr(channel, k) == v for k, v in wanted.items())
    )


CONTINUOUS = _where(kind="continuous")
BINARY = _where(kind="binary")
SLEEP = _where(category="sleep")
WORKOUTS = _where(category="workouts")
DEVICE_GROUPS: dict[str, tuple[int, ...]] = {
    "iphone": _where(device="iphone"),
    "watch": _where(device="watch"),
}
CATEGORIES: dict[str, tuple[int, ...]] = {
    name: _where(category=name) for name in ("activity", "physiology", "sleep", "workouts")
}


def digest() -> str:
    """SHA-256 of the table's stored facts; a store made with another table is refused."""
    rows = "\n".join(f"{c.name}|{c.source_name}|{c.unit}|{c.kind}|{c.hourly}" for c in CHANNELS)
    return hashlib.sha256(rows.encode()).hexdigest()
