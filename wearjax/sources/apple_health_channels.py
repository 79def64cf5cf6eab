"""What of an Apple Health export becomes which channel: identifiers, units and category values."""

from __future__ import annotations

from dataclasses import dataclass

from wearjax.channels import CHANNELS, INDEX, WORKOUTS

STEM = "HKQuantityTypeIdentifier"
SLEEP_TYPE = "HKCategoryTypeIdentifierSleepAnalysis"
CALORIES_PER_KILOJOULE = 1000 / 4.184
_ANY_LENGTH = {"m": 1.0, "km": 1000.0, "cm": 0.01, "mi": 1609.344, "yd": 0.9144, "ft": 0.3048, "in": 0.0254}
# "Cal" with a capital is the kilocalorie of food labels; "cal" a thousandth of it, and the channel's unit.
_ANY_ENERGY = {
    "Cal": 1000.0,
    "kcal": 1000.0,
    "cal": 1.0,
    "kJ": CALORIES_PER_KILOJOULE,
    "J": CALORIES_PER_KILOJOULE / 1000,
}
_ANY_COUNT = {"count": 1.0, None: 1.0}
_ANY_RATE = {"count/min": 1 / 60, "count/s": 1.0}


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
    factors: dict[str | None, float]
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
_SLEEP_STEM = "HKCategoryValueSleepAnalysis"
SLEEP_VALUES: dict[str, int] = {
    **{_SLEEP_STEM + "InBed": IN_BED, "0": IN_BED, _SLEEP_STEM + "Awake": AWAKE, "2": AWAKE},
    **{
        _SLEEP_STEM + stage: ASLEEP
        for stage in ("Asleep", "AsleepUnspecified", "AsleepCore", "AsleepDeep", "AsleepREM")
    },
    **{number: ASLEEP for number in "1345"},
}
WORKOUT_TYPES: dict[str, int] = {CHANNELS[i].source_name.partition(":")[2]: i for i in WORKOUTS}


def measure(kind: str) -> str:
    """A type's name for the tally; what is no identifier is withheld, for it may be anybody's words."""
    if not (kind.isascii() and kind.isalnum() and len(kind) <= 80):
        return "other"
    return kind.removeprefix(STEM).removeprefix("HKCategoryTypeIdentifier")
