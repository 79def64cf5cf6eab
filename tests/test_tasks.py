from collections import Counter

import pytest

from wearjax import tasks
from wearjax.errors import ConfigError


def test_the_benchmark_has_its_tasks_by_domain_and_kind():
    listed = tasks.TASKS.values()
    assert Counter(t.domain for t in listed) == {
        "Demographics": 2,
        "Medical conditions": 12,
        "Body metrics and biomarkers": 8,
        "Mental well-being": 5,
        "Sleep and lifestyle": 5,
    }
    assert Counter(t.kind for t in listed) == {"binary": 13, "ordinal": 10, "regression": 9}
    assert len({t.display for t in listed}) == len(tasks.TASKS) == 32


def test_ordinal_tasks_and_no_others_have_levels():
    for task in (*tasks.TASKS.values(), *tasks.EXTRA_TASKS.values()):
        assert (task.levels is not None) == (task.kind == "ordinal")
    assert len(tasks.TASKS["blood_pressure_categories"].levels) == 5
    assert tasks.TASKS["satisfiedwith_life"].levels[0] == "Very high"


def test_validity_and_forward_windows():
    windows = {c: (t.validity_days, t.forward_weeks) for c, t in tasks.TASKS.items()}
    assert windows["age"] == (1095, 156)
    assert windows["BiologicalSex"] == (None, 156)
    assert windows["PH"] == (365, 52)
    assert windows["framingham_risk"] == (91, 52)
    assert windows["work"] == (91, 52)
    assert windows["feel_worthwhile3"] == (14, 52)


def test_labels_beside_the_benchmark_have_a_domain_but_no_place_in_it():
    assert not set(tasks.EXTRA_TASKS) & set(tasks.TASKS)
    assert tasks.task("Watch_VO2Max").domain == "Wearable physiology"
    assert tasks.task("happiness").domain == "Mental well-being"


def test_choosing_tasks():
    assert [t.code for t in tasks.chosen("PH")] == ["PH"]
    assert [t.code for t in tasks.chosen(["age", "PH", "age"])] == ["age", "PH"]
    with pytest.raises(ConfigError, match=r"'Age' is unknown; did you mean 'age'\?; expected one of age"):
        tasks.chosen(["Age"])


def test_file_names_are_safe_and_distinct():
    names = {tasks.file_name(code) for code in tasks.TASKS}
    assert len(names) == 32
    assert "Heart_Failure_or_CHF" in names
    assert not any("/" in name or " " in name for name in names)


@pytest.mark.parametrize("code", ["BMI_categories", "BMI_values", "age", "BiologicalSex", "framingham_risk"])
def test_tasks_that_covariates_give_away_get_none(code):
    assert tasks.kept_covariates(code) == ()


def test_other_tasks_keep_all_covariates():
    assert tasks.kept_covariates("Diabetes") == ("age", "BiologicalSex", "BMI_values")
