"""What a language model is told about each prediction task: the question, and the index of each answer.

The indices are the benchmark's codes; where a scale does not grow with time or severity the text says nothing
about order. Cut points behind the levels are not public and are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass

from wearjax.errors import ConfigError


@dataclass(frozen=True)
class TaskDescription:
    """A task in words.

    Attributes:
        code: name of the label.
        question: one sentence.
        labels: answers by index; empty where a number is asked for.
        unit: of the number.
        range_stated: the prompt states the range of the labels seen in `fit`: for numbers whose unit is not known.
    """

    code: str
    question: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    range_stated: bool = True

    @property
    def is_fraction(self) -> bool:
        return self.unit == "fraction"


def _condition(code: str, condition: str) -> TaskDescription:
    return TaskDescription(code, f"Has this participant been diagnosed with {condition}?", ("No", "Yes"))


def _rating(code: str, what: str) -> TaskDescription:
    return TaskDescription(
        code, f"How would this participant rate {what}?", ("Very high", "High", "Medium", "Low")
    )


_ALL = (
    TaskDescription("age", "How old is this participant?", unit="years"),
    TaskDescription("BiologicalSex", "What is this participant's biological sex?", ("Female", "Male")),
    _condition("Diabetes", "diabetes"),
    _condition("Hypertension", "hypertension (high blood pressure)"),
    _condition("cardiovascular_disease", "any cardiovascular disease"),
    _condition("Heart Failure or CHF", "heart failure"),
    _condition("Atrial fibrillation (Afib)", "atrial fibrillation"),
    _condition("PH", "pulmonary hypertension"),
    _condition("CAD", "coronary artery disease"),
    _condition("Congenital Heart", "congenital heart disease"),
    _condition("Peripheral/Systemic Vascular Disease", "peripheral or systemic vascular disease"),
    _condition("Cerebrovascular Disease", "cerebrovascular disease (stroke or transient ischaemic attack)"),
    _condition("sleep_diagnosis1", "a sleep disorder"),
    TaskDescription("work", "Is this participant currently employed?", ("No", "Yes")),
    TaskDescription("Hdl", "What is this participant's HDL cholesterol, on the scale of the study?"),
    TaskDescription("Ldl", "What is this participant's LDL cholesterol, on the scale of the study?"),
    TaskDescription("TotalCholesterol", "What is this participant's total cholesterol, on the scale of the study?"),
    TaskDescription("SystolicBloodPressure", "What is this participant's systolic blood pressure?", unit="mmHg"),
    TaskDescription("WeightKilograms", "What is this participant's body weight?", unit="kg"),
    TaskDescription("BMI_values", "What is this participant's body mass index?", unit="kg/m²"),
    TaskDescription(
        "framingham_risk",
        "What is this participant's ten-year cardiovascular risk by the Framingham score?",
        unit="fraction",
    ),
    TaskDescription(
        "vigorous_act", "How much vigorous activity does this participant do in a week?", unit="min/week"
    ),
    TaskDescription(
        "BMI_categories",
        "In which body mass index category is this participant?",
        ("Underweight", "Normal weight", "Overweight", "Obesity", "Morbid obesity"),
    ),
    TaskDescription(
        "blood_pressure_categories",
        "In which blood pressure category is this participant?",
        ("Normal", "Elevated", "Hypertension stage 1", "Hypertension stage 2", "Hypertensive crisis"),
    ),
    TaskDescription(
        "WakeUpTime_categories",
        "What kind of riser is this participant?",
        ("Normal riser", "Early riser", "Late riser", "Very late riser"),
    ),
    TaskDescription(
        "GoSleepTime_categories",
        "When does this participant go to sleep?",
        ("Normal", "Early", "Late", "Very late", "Shift worker"),
    ),
    TaskDescription(
        "sleep_time_categories",
        "How long does this participant sleep?",
        ("Normal", "Short", "Too long", "Insufficient"),
    ),
    _rating("feel_worthwhile1", "the feeling that the things done in life are worthwhile"),
    _rating("feel_worthwhile2", "how happy they feel"),
    _rating("feel_worthwhile3", "how worried they feel"),
    _rating("feel_worthwhile4", "how depressed they feel"),
    _rating("satisfiedwith_life", "their satisfaction with life"),
    TaskDescription("happiness", "How happy is this participant, on the scale of the study?"),
    _rating("happiness_categories", "their happiness"),
)  # fmt: skip

# By code: the 32 tasks of the benchmark and the two of happiness.
DESCRIPTIONS: dict[str, TaskDescription] = {described.code: described for described in _ALL}


def description(code: str) -> TaskDescription:
    """The description of a task. Raises ConfigError when there is none."""
    if code not in DESCRIPTIONS:
        raise ConfigError(f"task {code!r} has no description for language models; give one in `descriptions`")
    return DESCRIPTIONS[code]
