"""Who the invented people of the daily cohort are: age, sex, build, usual level of each metric, and blood panel.

Three hidden traits stand behind all of it: fitness, recovery and metabolic risk. They tie the levels of the metrics to
each other and to the blood, so that the cohort has fit and unfit, rested and strained, healthy and flagged people.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.sources.daily_record import BloodValue, Demographics

_ETHNICITIES = ("Asian", "Black", "Hispanic", "White", "other")

# How much a metric changes from day to day, as a share of its level or in its unit.
_RELATIVE_SPREAD = {
    "steps": 0.20, "hrv": 0.12, "bed_time_std": 0.16, "active_burn": 0.20, "calories_bmr": 0.012,
    "exercise_hours": 0.22, "exercise_mets": 0.10, "exercise_avg_hr": 0.045,
}  # fmt: skip
_SPREAD = {
    "rhr": 1.8, "vo2_max": 0.8, "sleep_duration": 0.5, "sleep_efficiency": 1.8, "deep_percentage": 2.0,
    "rem_percentage": 2.3, "avg_stress_level": 5.0, "exercise_count": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Traits:
    """Hidden traits (standard units) and what is visible of a person."""

    fitness: float
    activity: float
    recovery: float
    metabolic: float
    age: float
    sex: str
    bmi: float
    ethnicity: str

    @property
    def demographics(self) -> Demographics:
        return Demographics(self.age, self.sex, self.bmi, self.ethnicity)


def draw_traits(rng: np.random.Generator) -> Traits:
    """A person: the fit are rather young, light and at low metabolic risk."""
    fitness, recovery, own, build, active = rng.standard_normal(5)
    metabolic = -0.6 * fitness + 0.8 * own
    activity = fitness if rng.random() < 0.65 else active  # the others move as they like
    age = float(np.clip(round(46 - 4 * fitness + rng.normal(0, 13)), 19, 82))
    bmi = round(float(np.clip(26 + 2.8 * metabolic + 1.5 * build, 17.5, 45)), 1)
    sex = "female" if rng.random() < 0.5 else "male"
    ethnicity = str(rng.choice(_ETHNICITIES, p=(0.15, 0.12, 0.13, 0.5, 0.1)))
    return Traits(
        float(fitness), float(activity), float(recovery), float(metabolic), age, sex, bmi, ethnicity
    )


def levels(rng: np.random.Generator, traits: Traits) -> Float64[np.ndarray, "metric=16"]:
    """What each metric usually is."""
    f, r, older, male = traits.fitness, traits.recovery, (traits.age - 46) / 10, traits.sex == "male"
    own = dict(zip(INDEX, rng.normal(0, 1, N_METRICS), strict=True))
    steps = max(8_000 + 2_500 * traits.activity + 700 * own["steps"], 2_400)
    weight = traits.bmi * (1.76 if male else 1.63) ** 2
    usual = {
        "steps": steps,
        "rhr": max(64 - 5.5 * f + 1.5 * own["rhr"], 44),
        "hrv": 42 * np.exp(0.34 * f - 0.08 * older + 0.12 * own["hrv"]),
        "vo2_max": max(37 + 5.5 * f - 1.6 * older + 4 * male + own["vo2_max"], 20),
        "sleep_duration": np.clip(7.0 + 0.7 * r + 0.2 * own["sleep_duration"], 5.0, 8.9),
        "sleep_efficiency": np.clip(87 + 2.2 * r + own["sleep_efficiency"], 80, 91),
        "deep_percentage": np.clip(18 + 1.5 * r - older + own["deep_percentage"], 12, 25),
        "rem_percentage": np.clip(21 + 1.2 * r + own["rem_percentage"], 15, 27),
        "bed_time_std": np.clip(48 * np.exp(-0.45 * r + 0.1 * own["bed_time_std"]), 15, 120),
        "active_burn": 0.042 * steps * weight / 75 + 120 + 25 * own["active_burn"],
        "calories_bmr": 10 * weight + (970 if male else 780) - 50 * older,
        "avg_stress_level": np.clip(38 - 7.5 * r + 5 * own["avg_stress_level"], 24, 66),
        "exercise_count": 1.0,
        "exercise_hours": np.clip(0.7 * np.exp(0.35 * f + 0.15 * own["exercise_hours"]), 0.3, 2.2),
        "exercise_mets": np.clip(5.4 + 0.8 * f + 0.3 * own["exercise_mets"], 3.5, 9),
        "exercise_avg_hr": np.clip(128 - 4 * older + 3 * own["exercise_avg_hr"], 100, 160),
    }
    return np.array([usual[key] for key in INDEX], np.float64)


def spreads(usual: Float64[np.ndarray, "metric=16"]) -> Float64[np.ndarray, "metric=16"]:
    """One standard unit of each metric's daily movement, in its unit."""
    return np.array(
        [_SPREAD[key] if key in _SPREAD else _RELATIVE_SPREAD[key] * usual[i] for key, i in INDEX.items()]
    )


def lacking(traits: Traits) -> tuple[str, ...]:
    """Metrics whose usual level is rather bad in a person."""
    behind = {
        "rhr": traits.fitness,
        "hrv": traits.fitness,
        "sleep_duration": traits.recovery,
        "steps": traits.activity,
    }
    return tuple(key for key, trait in behind.items() if trait < -0.6)


def exercise_share(rng: np.random.Generator, traits: Traits) -> float:
    """Share of days with a session: three in ten of the unfit, nearly all of the fit."""
    return float(np.clip(0.72 + 0.2 * traits.fitness + rng.normal(0, 0.08), 0.3, 0.97))


@dataclass(frozen=True)
class _Assay:
    """Ranges that a marker takes in people without, with some, and with clear deviation; a pair of triples by sex.

    All keep clear of the usual reference limits, so that a flag is rarely in doubt.
    """

    unit: str
    domain: str
    female: tuple[tuple[float, float], ...]
    male: tuple[tuple[float, float], ...]
    digits: int = 0
    falls: bool = False  # deviation means low


def _assay(unit, domain, usual, some, clear, *, male=None, digits=0, falls=False):
    female = (usual, some, clear)
    return _Assay(unit, domain, female, female if male is None else male, digits, falls)


_ASSAYS: dict[str, _Assay] = {
    "glucose": _assay("mg/dL", "glycaemic", (78, 95), (105, 120), (132, 175)),
    "hba1c": _assay("%", "glycaemic", (4.8, 5.5), (5.9, 6.2), (6.8, 8.2), digits=1),
    "total_cholesterol": _assay("mg/dL", "lipid", (150, 191), (208, 231), (250, 295)),
    "ldl": _assay("mg/dL", "lipid", (70, 95), (136, 153), (167, 205)),
    "hdl": _assay(
        "mg/dL", "lipid", (53, 58), (42, 48), (32, 38), male=((53, 58), (42, 48), (28, 38)), falls=True
    ),
    "triglycerides": _assay("mg/dL", "lipid", (60, 140), (157, 192), (212, 380)),
    "hs_crp": _assay("mg/L", "inflammatory", (0.2, 0.9), (1.2, 1.8), (3.3, 8.0), digits=1),
    "alt": _assay("U/L", "hepatic", (10, 27), (43, 50), (62, 115)),
    "ast": _assay("U/L", "hepatic", (12, 27), (43, 50), (62, 105)),
    "creatinine": _assay(
        "mg/dL", "renal", (0.55, 0.9), (1.2, 1.26), (1.45, 1.9),
        male=((0.7, 1.08), (1.4, 1.45), (1.6, 2.2)), digits=2,
    ),
    "urea": _assay("mg/dL", "renal", (18, 36), (54, 60), (70, 100)),
    "uric_acid": _assay(
        "mg/dL", "urate", (3.2, 5.4), (6.3, 6.7), (7.4, 9.0), male=((3.8, 5.6), (7.3, 7.7), (8.4, 10.0)), digits=1
    ),
    "haemoglobin": _assay(
        "g/dL", "iron_anaemia", (12.6, 14.6), (11.2, 11.6), (9.0, 10.6),
        male=((14.0, 16.2), (12.0, 12.5), (9.5, 11.5)), digits=1, falls=True,
    ),
    "ferritin": _assay(
        "ng/mL", "iron_anaemia", (45, 130), (17, 28), (5, 13), male=((60, 230), (17, 28), (5, 13)), falls=True
    ),
    "vitamin_d": _assay("ng/mL", "vitamin", (33, 58), (21.5, 28), (8, 18), falls=True),
    "tsh": _assay("mIU/L", "thyroid", (0.8, 3.4), (5.0, 9.0), (11, 18), digits=1),
    "albumin": _assay("g/dL", "protein", (3.9, 4.8), (3.1, 3.35), (2.6, 2.9), digits=1, falls=True),
}  # fmt: skip
# Share of people with a deviation in a domain, and how much metabolic risk adds to it (logit).
_DEVIATION = {
    "glycaemic": (0.20, 1.1), "lipid": (0.24, 0.9), "inflammatory": (0.18, 0.8), "hepatic": (0.16, 0.5),
    "renal": (0.14, 0.2), "urate": (0.10, 0.5), "iron_anaemia": (0.15, 0.0), "vitamin": (0.15, 0.1),
    "thyroid": (0.15, 0.0), "protein": (0.03, 0.0),
}  # fmt: skip
_PANEL_SHARE, _MARKER_MISSING, _FOLLOWS = 0.85, 0.03, 0.8


def blood(rng: np.random.Generator, traits: Traits, end: int) -> dict[str, BloodValue]:
    """A panel drawn in the year before the record's end, or nothing: some people have none.

    Most panels are older than five months, so that they are known at all end dates that questions are asked about.

    A domain deviates with a chance that grows with metabolic risk; most of its markers then deviate together, and
    within its range a marker follows the risk.

    Args:
        end: last day of the record, days since 1970-01-01.
    """
    deviates = {}
    for domain, (share, slope) in _DEVIATION.items():
        odds = np.log(share / (1 - share)) + slope * traits.metabolic
        found = rng.random() < 1 / (1 + np.exp(-odds))
        deviates[domain] = (1 + int(rng.random() < 0.8)) if found else 0
    has_panel = rng.random() < _PANEL_SHARE
    date = dt.date(1970, 1, 1) + dt.timedelta(days=end - int(rng.integers(80, 360)))
    panel = {}
    for key, assay in _ASSAYS.items():
        follows, noise, missing = rng.random() < _FOLLOWS, rng.normal(), rng.random() < _MARKER_MISSING
        grade = deviates[assay.domain] if follows else 0
        low, high = (assay.male if traits.sex == "male" else assay.female)[grade]
        place = 1 / (1 + np.exp(-0.8 * traits.metabolic - noise))
        value = low + (high - low) * (1 - place if assay.falls else place)
        if has_panel and not missing:
            panel[key] = BloodValue(round(float(value), assay.digits), assay.unit, date)
    return panel
