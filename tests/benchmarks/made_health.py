"""Planted people for tests of the health-reasoning types, and what all their questions must be."""

from __future__ import annotations

import json

import numpy as np
from made_daily import END, person

from wearjax import biomarkers
from wearjax.benchmarks.wearableqa import gates, reads, relations, safety
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.panel import Panel
from wearjax.sources.daily_record import BloodValue, Demographics

NOBODY = Panel([])
MIDDLE = {
    "steps": (8000, 1500), "rhr": (60, 5), "hrv": (50, 8), "vo2_max": (42, 4), "sleep_duration": (7, 0.6),
    "bed_time_std": (45, 10), "avg_stress_level": (40, 6), "deep_percentage": (18, 3), "exercise_hours": (1, 0.2),
    "exercise_count": (1, 0.2), "active_burn": (500, 90),
}  # fmt: skip
POINTS = {"min": 0, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "max": 100}
COHORT = CohortReference(
    {
        key: {name: centre + spread * (at - 50) / 25 for name, at in POINTS.items()}
        for key, (centre, spread) in MIDDLE.items()
    }
)
NORMAL = {
    "glucose": 85, "hba1c": 5.1, "total_cholesterol": 170, "ldl": 90, "hdl": 60, "triglycerides": 90, "hs_crp": 0.5,
    "alt": 20, "ast": 20, "creatinine": 0.8, "urea": 30, "uric_acid": 4.5, "haemoglobin": 14.5, "ferritin": 90,
    "vitamin_d": 40, "tsh": 2, "albumin": 4.3,
}  # fmt: skip
LOWER_IS_BETTER = ("rhr", "bed_time_std", "avg_stress_level")


def noise(seed: int, n: int = 28) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def at(favour: dict[str, float], *, seed: int = 0, n: int = 28) -> dict[str, np.ndarray]:
    """Series whose means stand at these percentiles of the cohort, in the favourable direction."""
    out = {}
    for i, (key, percent) in enumerate(favour.items()):
        centre, spread = MIDDLE[key]
        place = 100 - percent if key in LOWER_IS_BETTER else percent
        days = noise(seed + i, n)
        out[key] = centre + spread * ((place - 50) / 25 + 0.1 * (days - days.mean()))
    return out


def someone(series, *, blood=None, sex="female", age=35.0, bmi=22.0, end=END):
    panel = {key: BloodValue(value, biomarkers.BY_KEY[key].unit) for key, value in (blood or {}).items()}
    return person(
        "u", series, end=end, cohort=COHORT, blood=panel, demographics=Demographics(age=age, sex=sex, bmi=bmi)
    )


def asked(module, who):
    """The candidates, each checked for what all questions must be."""
    found = list(module.TYPE.propose(who, END))
    for candidate in found:
        assert reads.verify(candidate.graph, candidate.gold.key, who, END)
        stored = Graph.from_json(json.loads(json.dumps(candidate.graph.to_json())))
        assert stored.digest() == candidate.graph.digest()
        every = (candidate.gold, *candidate.distractors)
        assert module.TYPE.phrase(candidate.gold.key) == candidate.gold.text
        assert gates.unique(module.TYPE, candidate, candidate.gold.key)
        assert len({option.key for option in every}) == len(every) >= 10
        shown = [len(option.text) for option in every[:10]]
        assert max(shown) <= 1.6 * min(shown)
        assert not safety.problems("health", candidate.stem, [option.text for option in every])
        assert candidate.relation is None or not relations.get(candidate.relation).verified
    return found


def the_one(module, who):
    (candidate,) = asked(module, who)
    return candidate


def outcome(module, who, candidate=None) -> str:
    """The gate at which the question leaves, empty where it passes all."""
    candidate = the_one(module, who) if candidate is None else candidate
    judged = gates.judge(module.TYPE, [candidate], who, NOBODY)
    return next(iter(judged.rejected), "")
