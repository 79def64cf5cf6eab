"""Labels of a synthetic cohort: 32 outcomes with planted relations to the participants' traits.

A label follows from `(seed, index)` alone, as the days do. Behind most of them stands a liability: a weighted sum of
traits, standardised, of which the traits explain the given share of variance and chance the rest; it is cut at the
given prevalences or stretched onto a scale (the liability-threshold model of genetics).

The last column says how much plain means and spreads of the channels show of a label, gaps filled by the mean: in
both of two cohorts of 300 participants and 28 days (seeds 7 and 1001, fivefold cross-validation, not those by which
the weights were chosen) strong is an AUROC above 0.8 or a correlation above 0.5, fair above 0.7 or 0.4, weak below.
"Clock" marks relations that only a method sees which looks at hours of the day.

    task                                  traits behind it (sign)                       share  means show
    age                                   the participant's own                         1      weak
    BiologicalSex                         the participant's own (stride)                1      fair
    work                                  employed: alarm and commute on weekdays       1      weak; clock
    WeightKilograms, BMI_values           the participant's own                         1      strong
    BMI_categories                        BMI_values, cut at 18.5, 25, 30, 40           1      fair
    SystolicBloodPressure                 resting heart rate +, age +, BMI +            0.70   fair
    blood_pressure_categories             systolic pressure, cut at 120, 130, 140, 180  0.70   fair
    Hdl                                   activity +, workouts a week +, BMI -          0.80   strong
    Ldl                                   BMI +, activity -                             0.25   weak
    TotalCholesterol                      nothing: control                              0      none
    framingham_risk                       age +, male +, BMI +, resting heart rate +    0.85   weak
    vigorous_act                          workouts a week +, activity +                 0.80   fair
    Heart Failure or CHF                  activity -, workouts a week -                 0.97   strong
    Diabetes                              activity -, workouts a week -, BMI +          0.95   strong
    cardiovascular_disease                activity -, workouts -, resting heart rate +  0.95   strong
    Hypertension                          resting heart rate +, BMI +, age +            0.85   strong
    PH                                    activity -, workouts a week -                 0.70   fair
    CAD                                   age +, activity -                             0.35   weak
    Peripheral/Systemic Vascular Disease  age +, activity -                             0.30   weak
    Atrial fibrillation (Afib)            age +, resting heart rate +                   0.25   weak
    sleep_diagnosis1                      sleep quality -, BMI +                        0.60   weak
    Congenital Heart                      nothing: control                              0      none
    Cerebrovascular Disease               nothing: control                              0      none
    WakeUpTime_categories                 evening type +, sleep need +, employed -      0.85   weak; clock
    GoSleepTime_categories                evening type +                                0.85   weak; clock
    sleep_time_categories                 sleep need +, employed -                      0.80   weak
    feel_worthwhile1, feel_worthwhile2    mood -, activity -, workouts a week -         0.80   fair
    feel_worthwhile3, feel_worthwhile4    mood - (irregular bedtimes)                   0.60   weak
    satisfiedwith_life                    nothing: control                              0      none

Means in which one day without a channel makes the channel unknown, as in the Linear baseline, show less: there heart
failure, cardiovascular disease and diabetes come to an AUROC of about 0.8 (0.78 to 0.83) and all others below.

Questions of one survey are answered together, at one moment of the recorded time, and not by everybody. With
`shuffle=True` every label is given to another participant who has one: the control cohort, in which nothing can be
predicted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64

from wearjax.sources import synthetic
from wearjax.sources.synthetic import Cohort
from wearjax.sources.synthetic_physiology import Traits

# Chance that a participant answers a survey; single questions are skipped besides.
_ANSWERED = {
    "enrolment": 0.98, "heart": 0.92, "labs": 0.75, "body": 0.9, "sleep": 0.85, "well-being": 0.8, "lifestyle": 0.85,
}  # fmt: skip
_SKIPPED = 0.03
_SURVEYS = tuple(_ANSWERED)
_REFERENCE = Cohort(2000, seed=20_200_601)  # the population whose quantiles and spreads the rules use

_TRAITS: dict[str, Callable[[Traits], float]] = {
    "activity": lambda t: t.activity,
    "fitness": lambda t: t.fitness,
    "mood": lambda t: t.mood,
    "sleep_quality": lambda t: t.sleep_quality,
    "evening_type": lambda t: t.chronotype_hours,
    "sleep_need": lambda t: t.sleep_need_hours,
    "employed": lambda t: float(t.employed),
    "resting_hr": lambda t: t.resting_hr,
    "bmi": lambda t: t.bmi,
    "age": lambda t: float(t.age),
    "male": lambda t: float(t.sex == "male"),
    "workouts": lambda t: math.log(t.sessions_per_week),
}


@dataclass(frozen=True)
class Label:
    """An answer of a participant.

    Attributes:
        value: class, level code or number.
        moment: when it was given, as a share of the time from the first to the last recorded day.
    """

    value: float
    moment: float


@dataclass(frozen=True)
class Rule:
    """How one label is made; its kind and how long it holds stand in the table of tasks.

    Attributes:
        survey: what it is asked with.
        weights: of the standardised traits behind the liability; empty for a control.
        share: of the liability's variance that the traits explain.
        levels: code and share of the population of each level, from low to high liability.
        median, spread, low, high, log: of a number; `spread` is that of its logarithm if `log`.
        fact: the number itself, where it is a trait; `spread` is then the error of measurement.
        bands: another task and the values at which it is cut.
    """

    survey: str
    weights: Mapping[str, float] = field(default_factory=dict)
    share: float = 0.0
    levels: tuple[tuple[int, float], ...] = ()
    median: float = 0.0
    spread: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    log: bool = False
    fact: Callable[[Traits], float] | None = None
    bands: tuple[str, tuple[float, ...]] | None = None


def _condition(prevalence: float, share: float = 0.0, **weights: float) -> Rule:
    levels = ((0, 1 - prevalence), (1, prevalence))
    return Rule("heart", weights, share, levels=levels)


def _levels(survey: str, levels, share: float = 0.0, **weights: float) -> Rule:
    return Rule(survey, weights, share, levels=tuple(levels))


def _number(survey: str, median, spread, low, high, share: float = 0.0, *, log=False, **weights) -> Rule:
    scale = {"median": median, "spread": spread, "low": low, "high": high, "log": log}
    return Rule(survey, weights, share, **scale)


def _fact(survey: str, fact, *, error: float = 0.0) -> Rule:
    return Rule(survey, fact=fact, spread=error)


def _bands(survey: str, of: str, *cuts: float) -> Rule:
    return Rule(survey, bands=(of, cuts))


_BEST_FIRST = ((0, 0.25), (1, 0.35), (2, 0.25), (3, 0.15))  # code 0 is the best answer

# In the order of the tasks: chance is drawn by place.
RULES: dict[str, Rule] = {
    "age": _fact("enrolment", _TRAITS["age"]),
    "BiologicalSex": _fact("enrolment", _TRAITS["male"]),
    "Diabetes": _condition(0.15, 0.95, activity=-0.7, workouts=-0.8, bmi=0.4),
    "Hypertension": _condition(0.32, 0.85, resting_hr=1.0, bmi=0.4, age=0.4),
    "cardiovascular_disease": _condition(0.22, 0.95, activity=-0.6, workouts=-1.0, resting_hr=0.3),
    "Heart Failure or CHF": _condition(0.12, 0.97, activity=-0.5, workouts=-1.1),
    "Atrial fibrillation (Afib)": _condition(0.12, 0.25, age=0.7, resting_hr=0.4),
    "PH": _condition(0.12, 0.70, activity=-1.0, workouts=-0.3),
    "CAD": _condition(0.14, 0.35, age=0.8, activity=-0.5),
    "Congenital Heart": _condition(0.12),
    "Peripheral/Systemic Vascular Disease": _condition(0.12, 0.30, age=0.6, activity=-0.5),
    "Cerebrovascular Disease": _condition(0.14),
    "sleep_diagnosis1": _condition(0.20, 0.60, sleep_quality=-1.0, bmi=0.4),
    "work": _fact("lifestyle", _TRAITS["employed"]),
    "Hdl": _number("labs", 2.8, 0.6, 0.5, 5.0, 0.80, activity=0.8, workouts=0.7, bmi=-0.3),
    "Ldl": _number("labs", 5.6, 1.6, 0.5, 14.9, 0.25, bmi=0.6, activity=-0.6),
    "TotalCholesterol": _number("labs", 9.5, 2.2, 2.0, 20.0),
    "SystolicBloodPressure": _number("labs", 124, 14, 85, 200, 0.70, resting_hr=0.9, age=0.5, bmi=0.5),
    "WeightKilograms": _fact("body", lambda t: t.weight_kg, error=1.0),
    "BMI_values": _fact("body", _TRAITS["bmi"], error=0.4),
    "framingham_risk": _number(
        "labs", 0.07, 0.8, 0.005, 0.8, 0.85, log=True, age=1.0, male=0.4, bmi=0.3, resting_hr=0.3
    ),
    "vigorous_act": _number("lifestyle", 90, 0.9, 0, 2000, 0.80, log=True, workouts=1.0, activity=0.6),
    "BMI_categories": _bands("body", "BMI_values", 18.5, 25, 30, 40),
    "blood_pressure_categories": _bands("labs", "SystolicBloodPressure", 120, 130, 140, 180),
    "WakeUpTime_categories": _levels(
        "sleep", ((1, 0.2), (0, 0.45), (2, 0.23), (3, 0.12)), 0.85,
        evening_type=1.0, sleep_need=0.4, employed=-0.4,
    ),
    "GoSleepTime_categories": _levels(
        "sleep", ((1, 0.15), (0, 0.4), (2, 0.25), (3, 0.12), (4, 0.08)), 0.85, evening_type=1.0
    ),
    "sleep_time_categories": _levels(
        "sleep", ((3, 0.12), (1, 0.25), (0, 0.48), (2, 0.15)), 0.80, sleep_need=1.0, employed=-0.4
    ),
    "feel_worthwhile1": _levels("well-being", _BEST_FIRST, 0.80, mood=-0.5, activity=-0.6, workouts=-0.6),
    "feel_worthwhile2": _levels("well-being", _BEST_FIRST, 0.80, mood=-0.7, activity=-0.5, workouts=-0.5),
    "feel_worthwhile3": _levels("well-being", _BEST_FIRST, 0.60, mood=-1.0),
    "feel_worthwhile4": _levels("well-being", _BEST_FIRST, 0.60, mood=-1.0),
    "satisfiedwith_life": _levels("well-being", _BEST_FIRST),
}  # fmt: skip


def labels(cohort: Cohort, *, shuffle: bool = False) -> dict[str, dict[str, Label]]:
    """The labels of every participant, by participant and task.

    Args:
        shuffle: exchange the values of each task at random among those who have one (the control cohort).
    """
    made = {synthetic.participant_id(i): participant_labels(cohort, i) for i in range(cohort.n_participants)}
    return _exchanged(made, cohort.seed) if shuffle else made


def participant_labels(cohort: Cohort, index: int) -> dict[str, Label]:
    """The labels of one participant by task; those that were not answered are left out.

    Raises ConfigError when the cohort has no such index.
    """
    values = _values(synthetic.participant_traits(cohort, index), _noise(cohort, index))
    rng = np.random.default_rng(np.random.SeedSequence(cohort.seed, spawn_key=(2, index, 1)))
    answered = rng.random(len(_SURVEYS)) < np.array([_ANSWERED[name] for name in _SURVEYS])
    moment = rng.random(len(_SURVEYS))
    skipped = rng.random(len(RULES)) < _SKIPPED
    found = {}
    for (code, rule), skips in zip(RULES.items(), skipped, strict=True):
        survey = _SURVEYS.index(rule.survey)
        if answered[survey] and not skips:
            found[code] = Label(values[code], float(moment[survey]))
    return found


def _noise(cohort: Cohort, index: int) -> Float64[np.ndarray, "rule"]:
    sequence = np.random.SeedSequence(cohort.seed, spawn_key=(2, index, 0))
    return np.random.default_rng(sequence).standard_normal(len(RULES))


def _values(traits: Traits, noise: Float64[np.ndarray, "rule"]) -> dict[str, float]:
    values: dict[str, float] = {}
    for (code, rule), chance in zip(RULES.items(), noise.tolist(), strict=True):
        if rule.bands is not None:
            of, cuts = rule.bands
            values[code] = float(np.searchsorted(cuts, values[of], side="right"))
        elif rule.fact is not None:
            values[code] = float(rule.fact(traits) + rule.spread * chance)
        elif rule.levels:
            level = np.searchsorted(_cuts(code), _liability(rule, traits, chance), side="right")
            values[code] = float(rule.levels[level][0])
        else:
            away = rule.spread * _liability(rule, traits, chance)
            value = rule.median * math.exp(away) if rule.log else rule.median + away
            values[code] = float(np.clip(value, rule.low, rule.high))
    return values


def _liability(rule: Rule, traits: Traits, chance: float) -> float:
    if not rule.weights:
        return chance
    mean, spread = _scales()
    planted = float(_loadings(rule) @ ((_trait_values(traits) - mean) / spread))
    return math.sqrt(rule.share) * planted + math.sqrt(1 - rule.share) * chance


def _trait_values(traits: Traits) -> Float64[np.ndarray, "trait"]:
    return np.array([of(traits) for of in _TRAITS.values()])


@functools.cache
def _reference() -> Float64[np.ndarray, "person trait"]:
    people = (synthetic.participant_traits(_REFERENCE, i) for i in range(_REFERENCE.n_participants))
    return np.stack([_trait_values(person) for person in people])


@functools.cache
def _scales() -> tuple[Float64[np.ndarray, "trait"], Float64[np.ndarray, "trait"]]:
    """Mean and spread of each trait in the reference population."""
    return _reference().mean(axis=0), _reference().std(axis=0)


def _standardised_reference() -> Float64[np.ndarray, "person trait"]:
    mean, spread = _scales()
    return (_reference() - mean) / spread


def _loadings(rule: Rule) -> Float64[np.ndarray, "trait"]:
    """Weights of all traits, such that their sum has spread 1 in the reference population."""
    return _loadings_of(tuple(rule.weights.items()))


@functools.cache
def _loadings_of(weights: tuple[tuple[str, float], ...]) -> Float64[np.ndarray, "trait"]:
    row = np.array([dict(weights).get(name, 0.0) for name in _TRAITS])
    return row / (_standardised_reference() @ row).std()


@functools.cache
def _cuts(code: str) -> Float64[np.ndarray, "cut"]:
    """Liabilities at which the levels of a task part, so that the reference population has the wanted shares."""
    rule = RULES[code]
    rng = np.random.default_rng([_REFERENCE.seed, list(RULES).index(code)])
    found = rng.standard_normal(_REFERENCE.n_participants)
    if rule.weights:
        planted = _standardised_reference() @ _loadings(rule)
        found = math.sqrt(rule.share) * planted + math.sqrt(1 - rule.share) * found
    return np.quantile(found, np.cumsum([share for _, share in rule.levels])[:-1])


def _exchanged(made: dict[str, dict[str, Label]], seed: int) -> dict[str, dict[str, Label]]:
    exchanged: dict[str, dict[str, Label]] = {participant: {} for participant in made}
    for number, code in enumerate(RULES):
        owners = [participant for participant, own in made.items() if code in own]
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, number)))
        for owner, other in zip(owners, rng.permutation(len(owners)), strict=True):
            value = made[owners[other]][code].value
            exchanged[owner][code] = Label(value, made[owner][code].moment)
    return exchanged
