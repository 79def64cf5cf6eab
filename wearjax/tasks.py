"""The table of the prediction tasks: 32 outcomes of five domains, and how each label is to be read.

OpenMHC evaluation, prediction track. A task goes by its code, which is also its column in the label tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from wearjax.errors import ConfigError, did_you_mean

BASELINE = "linear"  # the method that the others are compared with
Kind = Literal["binary", "ordinal", "regression", "multiclass"]
KINDS: tuple[str, ...] = get_args(Kind)
DEMOGRAPHICS = "Demographics"
CONDITIONS = "Medical conditions"
BODY = "Body metrics and biomarkers"
MENTAL = "Mental well-being"
LIFESTYLE = "Sleep and lifestyle"
WEARABLE = "Wearable physiology"  # no task of the benchmark is of this domain
DOMAINS = (DEMOGRAPHICS, CONDITIONS, BODY, MENTAL, LIFESTYLE, WEARABLE)
COVARIATES = ("age", "BiologicalSex", "BMI_values")
# Tasks that the covariates would give away.
_WITHOUT_COVARIATES = frozenset({*COVARIATES, "BMI_categories", "framingham_risk", "WeightKilograms"})
_FORWARD_WEEKS = 52
_FORWARD_WEEKS_OF_DEMOGRAPHICS = 156


@dataclass(frozen=True)
class Task:
    """One outcome.

    Attributes:
        code: name of the label, as in the label tables.
        display: name for readers.
        kind: decides head, metric and how answers are read.
        domain: group in which the skill is averaged first.
        levels: names of the ordinal codes 0, 1, ...; None for other kinds.
        validity_days: a label holds that many days before and after its date; None without limit.
        forward_weeks: how far after a label days still count, in the ablation with a forward window.
    """

    code: str
    display: str
    kind: Kind
    domain: str
    levels: tuple[str, ...] | None = None
    validity_days: int | None = None
    forward_weeks: int = _FORWARD_WEEKS


def _condition(code: str, display: str) -> Task:
    return Task(code, display, "binary", CONDITIONS, validity_days=365)


def _measure(code: str, display: str, *, domain: str = BODY, days: int = 91) -> Task:
    return Task(code, display, "regression", domain, validity_days=days)


def _levels(code: str, display: str, levels: tuple[str, ...], *, domain: str, days: int = 91) -> Task:
    return Task(code, display, "ordinal", domain, levels, validity_days=days)


_WELL_BEING = ("Very high", "High", "Medium", "Low")
_LISTED = (
    Task("age", "Age", "regression", DEMOGRAPHICS, None, 1095, _FORWARD_WEEKS_OF_DEMOGRAPHICS),
    Task("BiologicalSex", "Biological Sex", "binary", DEMOGRAPHICS, None, None, _FORWARD_WEEKS_OF_DEMOGRAPHICS),
    _condition("Diabetes", "Diabetes"),
    _condition("Hypertension", "Hypertension"),
    _condition("cardiovascular_disease", "Cardiovascular Disease"),
    _condition("Heart Failure or CHF", "Heart Failure / CHF"),
    _condition("Atrial fibrillation (Afib)", "Atrial Fibrillation"),
    _condition("PH", "Pulmonary Hypertension"),
    _condition("CAD", "Coronary Artery Disease"),
    _condition("Congenital Heart", "Congenital Heart Disease"),
    _condition("Peripheral/Systemic Vascular Disease", "Vascular Disease"),
    _condition("Cerebrovascular Disease", "Cerebrovascular Disease"),
    _condition("sleep_diagnosis1", "Sleep Disorder Diagnosis"),
    Task("work", "Currently Employed", "binary", LIFESTYLE, validity_days=91),
    _measure("Hdl", "HDL Cholesterol"),
    _measure("Ldl", "LDL Cholesterol"),
    _measure("TotalCholesterol", "Total Cholesterol"),
    _measure("SystolicBloodPressure", "Systolic BP"),
    _measure("WeightKilograms", "Body Weight"),
    _measure("BMI_values", "BMI Value"),
    _measure("framingham_risk", "Framingham CVD Risk", domain=CONDITIONS),
    _measure("vigorous_act", "Vigorous Activity Minutes", domain=LIFESTYLE),
    _levels("BMI_categories", "BMI Categories",
            ("Underweight", "Normal weight", "Overweight", "Obesity", "Morbid obesity"), domain=BODY),
    _levels("blood_pressure_categories", "BP Categories",
            ("Normal", "Elevated", "Hypertension stage 1", "Hypertension stage 2", "Hypertensive crisis"),
            domain=BODY),
    # The codes of the sleep tasks do not grow with the time of day; the scale is as given.
    _levels("WakeUpTime_categories", "Wake-up Time",
            ("Normal riser", "Early riser", "Late riser", "Very late riser"), domain=LIFESTYLE),
    _levels("GoSleepTime_categories", "Bedtime",
            ("Normal", "Early", "Late", "Very late", "Shift worker"), domain=LIFESTYLE),
    _levels("sleep_time_categories", "Sleep Duration",
            ("Normal", "Short", "Too long", "Insufficient"), domain=LIFESTYLE),
    _levels("feel_worthwhile1", "Things Are Worthwhile", _WELL_BEING, domain=MENTAL, days=14),
    _levels("feel_worthwhile2", "Feel Happy", _WELL_BEING, domain=MENTAL, days=14),
    _levels("feel_worthwhile3", "Feel Worried", _WELL_BEING, domain=MENTAL, days=14),
    _levels("feel_worthwhile4", "Feel Depressed", _WELL_BEING, domain=MENTAL, days=14),
    _levels("satisfiedwith_life", "Life Satisfaction", _WELL_BEING, domain=MENTAL, days=14),
)  # fmt: skip
_EXTRA = (
    _measure("happiness", "Happiness", domain=MENTAL, days=7),
    _levels("happiness_categories", "Happiness Categories", _WELL_BEING, domain=MENTAL, days=14),
    _measure("Watch_RestingHeartRate", "Resting Heart Rate", domain=WEARABLE, days=7),
    _measure("Watch_VO2Max", "VO2max", domain=WEARABLE, days=7),
    _measure("Watch_HeartRateVariabilitySDNN", "Heart Rate Variability (SDNN)", domain=WEARABLE, days=7),
    _measure("Watch_WalkingHeartRateAverage", "Walking Heart Rate", domain=WEARABLE, days=7),
    _measure("Watch_StandTime", "Stand Time", domain=WEARABLE, days=7),
    _measure("Watch_BasalEnergyBurned", "Basal Energy Burned", domain=WEARABLE, days=7),
    _measure("Watch_RespiratoryRate", "Respiratory Rate", domain=WEARABLE, days=7),
)

# The benchmark, in listing order.
TASKS: dict[str, Task] = {task.code: task for task in _LISTED}
# Labels of the data set that have a domain but are not part of the benchmark.
EXTRA_TASKS: dict[str, Task] = {task.code: task for task in _EXTRA}


def task(code: str) -> Task:
    """The task of a code, in or beside the benchmark. Raises ConfigError when there is none."""
    found = TASKS.get(code) or EXTRA_TASKS.get(code)
    if found is None:
        raise ConfigError(
            f"task {code!r} is unknown{did_you_mean(code, TASKS)}; expected one of {', '.join(TASKS)}"
        )
    return found


def chosen(codes: str | Iterable[str]) -> tuple[Task, ...]:
    """The tasks of one code or several, each once, in the order given. Raises ConfigError for an unknown one."""
    wanted = (codes,) if isinstance(codes, str) else codes
    return tuple(task(code) for code in dict.fromkeys(wanted))


def file_name(code: str) -> str:
    """Name of a task's folder: `/` and spaces become `_`."""
    return code.replace("/", "_").replace(" ", "_")


def kept_covariates(code: str) -> tuple[str, ...]:
    """Covariates that the linear baseline may use for a task: all of them, or none where they give it away."""
    return () if code in _WITHOUT_COVARIATES else COVARIATES
