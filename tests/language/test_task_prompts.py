import pytest

from wearjax import tasks
from wearjax.errors import ConfigError
from wearjax.language import probe_prompts, task_prompts
from wearjax.language.task_prompts import DESCRIPTIONS


def test_every_task_is_described_as_the_benchmark_has_it():
    for code, task in tasks.TASKS.items():
        described = DESCRIPTIONS[code]
        if task.kind == "ordinal":
            assert described.labels == task.levels
        else:
            assert len(described.labels) == {"binary": 2, "regression": 0}[task.kind]
    assert set(DESCRIPTIONS) - set(tasks.TASKS) == {"happiness", "happiness_categories"}
    assert DESCRIPTIONS["BiologicalSex"].labels == ("Female", "Male")


def test_unknown_task():
    with pytest.raises(ConfigError, match="'Watch_VO2Max' has no description"):
        task_prompts.description("Watch_VO2Max")


def test_questions_state_answers_and_last_line():
    lines = probe_prompts.question(DESCRIPTIONS["BMI_categories"]).splitlines()
    assert lines[2:7] == [
        "0: Underweight",
        "1: Normal weight",
        "2: Overweight",
        "3: Obesity",
        "4: Morbid obesity",
    ]
    assert lines[-1] == "Answer: <index>"
    lines = probe_prompts.question(DESCRIPTIONS["age"], label_range=(18.0, 91.0)).splitlines()
    assert lines[1:3] == ["Give one number in years.", "In the study the values lie between 18 and 91."]
    assert lines[-1] == "Answer: <number>"
    lines = probe_prompts.question(DESCRIPTIONS["Diabetes"], as_probability=True).splitlines()
    assert lines[1] == 'Give the probability, from 0 to 1, that the answer is "Yes".'
    assert lines[-1] == "Answer: <probability>"
