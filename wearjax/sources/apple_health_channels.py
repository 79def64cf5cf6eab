"""What of an Apple Health export becomes which channel: identifiers, units and category values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wearjax.channels import CHANNELS, INDEX, WORKOUTS

STEM = "HKQuantityTypeIdentifier"
SLEEP_TYPE = "HKCategoryTypeIdentifierSleepAnalysis"
CALORIES_PER_KILOJOULE = 1000 / 4.184
_ANY_LENGTH = {
    b"m": 1.0,
    b"km": 1000.0,
    b"cm": 0.01,
    b"mi": 1609.344,
    b"yd": 0.9144,
    b"ft": 0.3048,
    b"in": 0.0254,
}
# "Cal" with a capital is the kilocalorie of food labels; "cal" a thousandth of it, and the channel's unit.
_ANY_ENERGY = {
    b"Cal": 1000.0,
    b"kcal": 1000.0,
    b"cal": 1.0,
    b"kJ": CALORIES_PER_KILOJOULE,
    b"J": CALORIES_PER_KILOJOULE / 1000,
}
_ANY_COUNT = {b"count": 1.0, None: 1.0}
_ANY_RATE = {b"count/min": 1 / 60, b"count/s": 1.0}


@dataclass(frozen=True)
class Quantity:
    """A quantity type.

    Attributes:
        measure: its name in tallies.
        channel: channel by the kind of device that wrote it.
        factors: from a record's unit to the channel's.
        is_rate: readings are averaged within a minute instead of spread and added.
    """

    measure: str
    channel: dict[str, int]
    factors: dict[bytes | None, float]
    is_rate: bool = False


def _quantity(
    measure: str, name: str, devices: tuple[str, ...], factors: dict, *, is_rate: bool = False
) -> Quantity:
    return Quantity(measure, {device: INDEX[f"{device}_{name}"] for device in devices}, factors, is_rate)


QUANTITIES: dict[str, Quantity] = {
    STEM + quantity.measure: quantity
    for quantity in (
        _quantity("StepCount", "steps", ("iphone", "watch"), _ANY_COUNT),
        _quantity("DistanceWalkingRunning", "distance", ("iphone", "watch"), _ANY_LENGTH),
        _quantity("FlightsClimbed", "flights", ("iphone",), _ANY_COUNT),
        _quantity("HeartRate", "hr", ("watch",), _ANY_RATE, is_rate=True),
        _quantity("ActiveEnergyBurned", "energy", ("watch",), _ANY_ENERGY),
    )
}

ASLEEP, IN_BED, AWAKE = INDEX["sleep_asleep"], INDEX["sleep_inbed"], -1
_SLEEP_STEM = b"HKCategoryValueSleepAnalysis"
SLEEP_VALUES: dict[bytes, int] = {
    **{_SLEEP_STEM + b"InBed": IN_BED, b"0": IN_BED, _SLEEP_STEM + b"Awake": AWAKE, b"2": AWAKE},
    **{
        _SLEEP_STEM + stage: ASLEEP
        for stage in (b"Asleep", b"AsleepUnspecified", b"AsleepCore", b"AsleepDeep", b"AsleepREM")
    },
    **{number: ASLEEP for number in (b"1", b"3", b"4", b"5")},
}
WORKOUT = "Workout"
WORKOUT_TYPES: dict[bytes, int] = {CHANNELS[i].source_name.partition(":")[2].encode(): i for i in WORKOUTS}
KINDS: dict[bytes, str] = {kind.encode(): kind for kind in (*QUANTITIES, SLEEP_TYPE)}
WANTED = frozenset(KINDS.values())
# The other elements of an export, by name.
_ELEMENTS = frozenset(
    ("Correlation", "Workout", "ActivitySummary", "ClinicalRecord", "Audiogram", "VisionPrescription")
)
_IDENTIFIER = re.compile(
    r"HK(?:(?:Quantity|Category|Correlation|Data)Type(?:Identifier)?|WorkoutActivityType)[A-Za-z0-9]{0,60}",
    re.ASCII,
)


def measure(kind: str) -> str:
    """A type's name for the tally; what Apple's software did not name is withheld: it may be anybody's words."""
    if kind in _ELEMENTS:
        return kind
    if not _IDENTIFIER.fullmatch(kind):
        return "other"
    return (
        kind.removeprefix(STEM).removeprefix("HKCategoryTypeIdentifier").removeprefix("HKWorkoutActivityType")
    )
