"""What a language model is told about each prediction task: the question, and the index of each answer.

The indices are the benchmark's codes; where a scale does not grow with time or severity the text says nothing
about order. Cut points behind the levels are not public and are not stated.
"""

from __future__ import annotations

from dataclasses import dataclass

from wearjax import tasks
from wearjax.errors import ConfigError
from wearjax.tasks import Task


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


def _condition(condition: str) -> str:
    return f"Has this participant been diagnosed with {condition}?"


def _rating(what: str) -> str:
    return f"How would this participant rate {what}?"


_QUESTIONS = {
    "age": "How old is this participant?",
    "BiologicalSex": "What is this participant's biological sex?",
    "Diabetes": _condition("diabetes"),
    "Hypertension": _condition("hypertension (high blood pressure)"),
    "cardiovascular_disease": _condition("any cardiovascular disease"),
    "Heart Failure or CHF": _condition("heart failure"),
    "Atrial fibrillation (Afib)": _condition("atrial fibrillation"),
    "PH": _condition("pulmonary hypertension"),
    "CAD": _condition("coronary artery disease"),
    "Congenital Heart": _condition("congenital heart disease"),
    "Peripheral/Systemic Vascular Disease": _condition("peripheral or systemic vascular disease"),
    "Cerebrovascular Disease": _condition("cerebrovascular disease (stroke or transient ischaemic attack)"),
    "sleep_diagnosis1": _condition("a sleep disorder"),
    "work": "Is this participant currently employed?",
    "Hdl": "What is this participant's HDL cholesterol, on the scale of the study?",
    "Ldl": "What is this participant's LDL cholesterol, on the scale of the study?",
    "TotalCholesterol": "What is this participant's total cholesterol, on the scale of the study?",
    "SystolicBloodPressure": "What is this participant's systolic blood pressure?",
    "WeightKilograms": "What is this participant's body weight?",
    "BMI_values": "What is this participant's body mass index?",
    "framingham_risk": "What is this participant's ten-year cardiovascular risk by the Framingham score?",
    "vigorous_act": "How much vigorous activity does this participant do in a week?",
    "BMI_categories": "In which body mass index category is this participant?",
    "blood_pressure_categories": "In which blood pressure category is this participant?",
    "WakeUpTime_categories": "What kind of riser is this participant?",
    "GoSleepTime_categories": "When does this participant go to sleep?",
    "sleep_time_categories": "How long does this participant sleep?",
    "feel_worthwhile1": _rating("the feeling that the things done in life are worthwhile"),
    "feel_worthwhile2": _rating("how happy they feel"),
    "feel_worthwhile3": _rating("how worried they feel"),
    "feel_worthwhile4": _rating("how depressed they feel"),
    "satisfiedwith_life": _rating("their satisfaction with life"),
    "happiness": "How happy is this participant, on the scale of the study?",
    "happiness_categories": _rating("their happiness"),
}
_UNITS = {
    "age": "years", "SystolicBloodPressure": "mmHg", "WeightKilograms": "kg", "BMI_values": "kg/m²",
    "framingham_risk": "fraction", "vigorous_act": "min/week",
}  # fmt: skip
_CLASSES = {"BiologicalSex": ("Female", "Male")}
_NO_YES = ("No", "Yes")


def _described(task: Task) -> TaskDescription:
    """A task's words, with the answers that its kind and levels allow."""
    classes = _CLASSES.get(task.code, _NO_YES) if task.kind == "binary" else ()
    return TaskDescription(
        task.code, _QUESTIONS[task.code], task.levels or classes, _UNITS.get(task.code, "")
    )


# By code: the 32 tasks of the benchmark and the two of happiness.
DESCRIPTIONS: dict[str, TaskDescription] = {code: _described(tasks.task(code)) for code in _QUESTIONS}


def description(code: str) -> TaskDescription:
    """The description of a task. Raises ConfigError when there is none."""
    if code not in DESCRIPTIONS:
        raise ConfigError(f"task {code!r} has no description for language models; give one in `descriptions`")
    return DESCRIPTIONS[code]
