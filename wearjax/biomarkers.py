"""The table of the 17 blood markers: the only place that knows their units and reference limits.

WearableQA publishes that a panel of 17 markers is shown, not which. This selection, and the choice of one published or
customary pair of limits for each, are this project's. No clinician has reviewed them: they make questions, and are no
basis for a medical judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wearjax.errors import ConfigError

Flag = Literal["normal", "borderline", "high", "undefined"]
Direction = Literal["up", "down"]
NEAR = 0.03  # share of a limit within which measurement error could turn a flag


@dataclass(frozen=True)
class Limits:
    """Where a marker leaves its reference range in one direction.

    Attributes:
        female, male: the limit itself, and the one beyond which the marker is far out; equal where references know no
            zone between. A value on a limit has reached it.
    """

    direction: Direction
    female: tuple[float, float]
    male: tuple[float, float]

    def of(self, sex: str | None) -> tuple[float, float] | None:
        """The pair for a sex; None where it depends on a sex that is not known."""
        if self.female == self.male:
            return self.female
        return {"female": self.female, "male": self.male}.get((sex or "").strip().lower())


@dataclass(frozen=True)
class Marker:
    """One row of the table.

    Attributes:
        key: name in tables and files.
        label: name that prompts use.
        domain: what a flag speaks for.
        reference: where the limits come from.
        reviewed: whether a clinician has confirmed them.
    """

    key: str
    label: str
    unit: str
    domain: str
    limits: tuple[Limits, ...]
    reference: str
    reviewed: bool = False


def _up(limit: float, far: float) -> tuple[Limits, ...]:
    return (Limits("up", (limit, far), (limit, far)),)


def _down(limit: float, far: float) -> tuple[Limits, ...]:
    return (Limits("down", (limit, far), (limit, far)),)


_ADA = "American Diabetes Association, Standards of Care: classification"
_ATP = "NCEP Adult Treatment Panel III: classification of blood lipids"
_CUSTOM = "customary laboratory reference range"

MARKERS: tuple[Marker, ...] = (
    Marker("glucose", "Fasting glucose", "mg/dL", "glycaemic", _up(100, 126), _ADA),
    Marker("hba1c", "HbA1c", "%", "glycaemic", _up(5.7, 6.5), _ADA),
    Marker("total_cholesterol", "Total cholesterol", "mg/dL", "lipid", _up(200, 240), _ATP),
    Marker("ldl", "LDL cholesterol", "mg/dL", "lipid", _up(130, 160), _ATP),
    Marker("hdl", "HDL cholesterol", "mg/dL", "lipid", (Limits("down", (50, 40), (40, 40)),),
           "NCEP Adult Treatment Panel III: low HDL, and its criterion for women"),
    Marker("triglycerides", "Triglycerides", "mg/dL", "lipid", _up(150, 200), _ATP),
    Marker("hs_crp", "hs-CRP", "mg/L", "inflammatory", _up(1.0, 3.0), "AHA/CDC statement on hs-CRP: bands"),
    Marker("alt", "ALT", "U/L", "hepatic", _up(40, 60), f"{_CUSTOM}; far out from 1.5 times the limit"),
    Marker("ast", "AST", "U/L", "hepatic", _up(40, 60), f"{_CUSTOM}; far out from 1.5 times the limit"),
    Marker("creatinine", "Creatinine", "mg/dL", "renal", (Limits("up", (1.1, 1.4), (1.3, 1.5)),), _CUSTOM),
    Marker("urea", "Urea", "mg/dL", "renal", _up(50, 65), _CUSTOM),
    Marker("uric_acid", "Uric acid", "mg/dL", "urate", (Limits("up", (6.0, 7.0), (7.0, 8.0)),), _CUSTOM),
    Marker("haemoglobin", "Haemoglobin", "g/dL", "iron_anaemia", (Limits("down", (12, 12), (13, 13)),),
           "WHO: haemoglobin concentrations of adults"),
    Marker("ferritin", "Ferritin", "ng/mL", "iron_anaemia", _down(30, 15),
           "WHO: ferritin concentrations of adults; limit of 30 customary"),
    Marker("vitamin_d", "Vitamin D (25-OH)", "ng/mL", "vitamin", _down(30, 20),
           "Endocrine Society 2011: vitamin D status"),
    Marker("tsh", "TSH", "mIU/L", "thyroid", _up(4.5, 10) + _down(0.4, 0.1), _CUSTOM),
    Marker("albumin", "Albumin", "g/dL", "protein", _down(3.5, 3.0), _CUSTOM),
)  # fmt: skip
BY_KEY: Mapping[str, Marker] = {marker.key: marker for marker in MARKERS}
DOMAINS: tuple[str, ...] = tuple(dict.fromkeys(marker.domain for marker in MARKERS))


def of_domain(domain: str) -> tuple[Marker, ...]:
    """Markers that speak for a domain, in the order of the table."""
    return tuple(marker for marker in MARKERS if marker.domain == domain)


def flag(key: str, value: float, sex: str | None = None) -> Flag:
    """Whether a value has reached its limits; `high` also for one that is far too low.

    Undefined within 3 % of a limit, for a value that is not a number, and where the limits need an unknown sex.

    Raises:
        ConfigError: no marker of this name.
    """
    if key not in BY_KEY:
        raise ConfigError(f"blood marker {key!r}: known are {', '.join(BY_KEY)}")
    reached = 0
    for limits in BY_KEY[key].limits:
        pair = limits.of(sex)
        if pair is None or value != value or any(abs(value - edge) <= NEAR * abs(edge) for edge in pair):
            return "undefined"
        beyond = sum(value >= edge if limits.direction == "up" else value <= edge for edge in pair)
        reached = max(reached, beyond)
    return ("normal", "borderline", "high")[reached]


def unreviewed() -> tuple[str, ...]:
    """Markers whose limits no clinician has confirmed."""
    return tuple(marker.key for marker in MARKERS if not marker.reviewed)
