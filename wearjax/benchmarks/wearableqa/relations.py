"""What literature-grounded questions rest on: relations between signals, and tables of reference.

WearableQA keeps a relation only with two independent studies of one direction. The relations below are candidates: no
citation has been verified, so none counts as verified, and items that rest on them say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from wearjax import daily_metrics
from wearjax.errors import ConfigError

LEAST_SUPPORT = 2  # independent studies


@dataclass(frozen=True)
class Relation:
    """Two things that are said to move together, or a table that a type decides by.

    Attributes:
        a, b: daily metrics, blood markers or entries of the profile; of a table, what it reads and what it gives.
        direction: of `b` when `a` rises; 0 for a table.
        support: identifiers (DOI, PMID) of independent studies of this direction.
        verifier, date: who read them in full, and when.
    """

    id: str
    a: str
    b: str
    direction: Literal[-1, 0, 1]
    support: tuple[str, ...] = ()
    verifier: str | None = None
    date: str | None = None

    @property
    def verified(self) -> bool:
        return len(set(self.support)) >= LEAST_SUPPORT and bool(self.verifier) and bool(self.date)


FLAG_TABLE = "flag_table"
SIGNATURE_TABLE = "signature_table"
_RELATIONS = (
    Relation("steps_rhr", "steps", "rhr", -1),
    Relation("active_burn_rhr", "active_burn", "rhr", -1),
    Relation("exercise_hours_rhr", "exercise_hours", "rhr", -1),
    Relation("vo2_max_rhr", "vo2_max", "rhr", -1),
    Relation("vo2_max_hdl", "vo2_max", "hdl", 1),
    Relation("vo2_max_triglycerides", "vo2_max", "triglycerides", -1),
    Relation("steps_bmi", "steps", "bmi", -1),
    Relation("sleep_duration_hs_crp", "sleep_duration", "hs_crp", -1),
    Relation("bed_time_std_bmi", "bed_time_std", "bmi", 1),
    Relation("bed_time_std_hba1c", "bed_time_std", "hba1c", 1),
    Relation("rhr_hs_crp", "rhr", "hs_crp", 1),
    Relation("hrv_age", "hrv", "age", -1),
    Relation("stress_hrv", "avg_stress_level", "hrv", -1),
    Relation("deep_percentage_age", "deep_percentage", "age", -1),
    Relation(FLAG_TABLE, "blood markers", "risk domains", 0),
    Relation(SIGNATURE_TABLE, "daily metrics", "explanations of a stretch", 0),
)
RELATIONS: Mapping[str, Relation] = {relation.id: relation for relation in _RELATIONS}


def get(identifier: str) -> Relation:
    """Raises ConfigError where no relation has this id."""
    if identifier not in RELATIONS:
        raise ConfigError(f"relation {identifier!r}: known are {', '.join(RELATIONS)}")
    return RELATIONS[identifier]


def of_daily_metrics() -> tuple[Relation, ...]:
    """Relations of which both sides are measured every day."""
    return tuple(r for r in _RELATIONS if r.a in daily_metrics.INDEX and r.b in daily_metrics.INDEX)
