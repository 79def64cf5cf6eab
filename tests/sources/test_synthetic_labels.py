"""Planted labels: reproducible, of the benchmark's kinds, related to the traits as documented, or to nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax import tasks
from wearjax.channels import WORKOUTS
from wearjax.days import clean
from wearjax.errors import ConfigError
from wearjax.scores import classification
from wearjax.sources import synthetic, synthetic_labels
from wearjax.sources.synthetic_labels import RULES, Label

COHORT = synthetic.Cohort(700, 5, seed=11)
STRONG = ("Heart Failure or CHF", "Diabetes", "cardiovascular_disease")
CONTROLS = ("Congenital Heart", "Cerebrovascular Disease", "TotalCholesterol", "satisfiedwith_life")


@pytest.fixture(scope="module")
def made():
    return synthetic_labels.labels(COHORT)


@pytest.fixture(scope="module")
def shuffled():
    return synthetic_labels.labels(COHORT, shuffle=True)


@pytest.fixture(scope="module")
def traits():
    people = (synthetic.participant_traits(COHORT, i) for i in range(COHORT.n_participants))
    return {synthetic.participant_id(i): person for i, person in enumerate(people)}


def values(labels, code):
    owners = [participant for participant, own in labels.items() if code in own]
    return owners, np.array([labels[participant][code].value for participant in owners])


def test_every_task_has_a_rule_that_gives_its_levels():
    assert list(RULES) == list(tasks.TASKS)
    for code, rule in RULES.items():
        task = tasks.TASKS[code]
        found = range(len(rule.bands[1]) + 1) if rule.bands else sorted(level for level, _ in rule.levels)
        if task.kind == "ordinal":
            assert list(found) == list(range(len(task.levels))), code
        else:
            assert list(found) == ([0, 1] if task.kind == "binary" and rule.fact is None else []), code


def test_values_are_of_their_kind(made):
    for code, task in tasks.TASKS.items():
        _, found = values(made, code)
        if task.kind == "regression":
            assert np.isfinite(found).all()
            assert (found > 0).all() or code == "vigorous_act"  # -1 would read as no label
            assert len(np.unique(found)) > 20
        else:
            assert set(found) <= set(range(2 if task.levels is None else len(task.levels))), code
            assert np.array_equal(found, found.astype(int))


def test_prevalences_are_realistic(made):
    for code, rule in RULES.items():
        _, found = values(made, code)
        kind = tasks.TASKS[code].kind
        if kind == "binary":
            assert 0.08 <= found.mean() <= 0.8, code
        if rule.levels and kind == "ordinal":
            shares = {level: np.mean(found == level) for level, _ in rule.levels}
            for level, share in rule.levels:
                assert shares[level] == pytest.approx(share, abs=0.05), (code, level)
    _, pressure = values(made, "blood_pressure_categories")
    assert set(pressure) == {0, 1, 2, 3}  # a crisis is never observed in the published cohort either


def test_bands_follow_from_the_number_that_was_answered_with_them(made):
    for code, of, cuts in (
        ("BMI_categories", "BMI_values", (18.5, 25, 30, 40)),
        ("blood_pressure_categories", "SystolicBloodPressure", (120, 130, 140, 180)),
    ):
        both = [own for own in made.values() if code in own and of in own]
        assert len(both) > 400
        for own in both:
            assert own[code].value == sum(own[of].value >= cut for cut in cuts)


def test_own_traits_are_told_as_they_are(made, traits):
    for participant, own in made.items():
        person = traits[participant]
        if "age" in own:
            assert own["age"].value == person.age
        if "BiologicalSex" in own:
            assert own["BiologicalSex"].value == (person.sex == "male")
        if "work" in own:
            assert own["work"].value == person.employed


@settings(max_examples=5)
@given(st.integers(0, 2**40), st.integers(0, 6))
def test_a_label_follows_from_seed_and_index_whatever_the_cohort(seed, index):
    small = synthetic_labels.participant_labels(synthetic.Cohort(index + 1, 2, seed=seed), index)
    large = synthetic_labels.participant_labels(synthetic.Cohort(9000, 20, seed=seed), index)
    other = synthetic_labels.participant_labels(synthetic.Cohort(9000, 20, seed=seed + 1), index)
    assert small == large != other


def test_no_such_participant():
    with pytest.raises(ConfigError, match="index 3"):
        synthetic_labels.participant_labels(synthetic.Cohort(3), 3)


def test_surveys_are_answered_together_and_not_by_all(made):
    for code in RULES:
        owners, _ = values(made, code)
        assert 0.6 * len(made) < len(owners) < len(made), code
    for own in made.values():
        for survey in {rule.survey for rule in RULES.values()}:
            moments = {label.moment for code, label in own.items() if RULES[code].survey == survey}
            assert len(moments) <= 1
            assert all(0 <= moment < 1 for moment in moments)


def effect(labels, traits, code, trait):
    """Difference of a trait between the two classes (or halves), in its spreads."""
    owners, found = values(labels, code)
    of = np.array([getattr(traits[participant], trait) for participant in owners])
    high = found > (0.5 if tasks.TASKS[code].kind == "binary" else np.median(found))
    return (of[high].mean() - of[~high].mean()) / of.std()


def test_planted_relations_and_controls(made, shuffled, traits):
    for code in STRONG:
        assert effect(made, traits, code, "activity") < -0.7, code
        assert abs(effect(shuffled, traits, code, "activity")) < 0.4, code
    assert effect(made, traits, "Hypertension", "resting_hr") > 1.0
    assert effect(made, traits, "Hdl", "activity") > 0.9
    assert effect(made, traits, "GoSleepTime_categories", "chronotype_hours") > 0.5
    assert effect(made, traits, "feel_worthwhile3", "mood") < -0.7
    assert 0.2 < effect(made, traits, "Ldl", "bmi") < 0.8  # weak, but there
    for code in CONTROLS:
        assert not RULES[code].weights
        for trait in ("activity", "resting_hr", "age", "bmi", "mood", "sessions_per_week"):
            assert abs(effect(made, traits, code, trait)) < 0.4, (code, trait)


def test_shuffling_exchanges_values_between_those_who_answered(made, shuffled):
    for code in RULES:
        owners, found = values(made, code)
        same_owners, exchanged = values(shuffled, code)
        assert owners == same_owners
        assert Counter(found) == Counter(exchanged)
        assert all(made[p][code].moment == shuffled[p][code].moment for p in owners)
    assert sum(made[p] != shuffled[p] for p in made) > 0.95 * len(made)
    assert synthetic_labels.labels(synthetic.Cohort(5, seed=1), shuffle=True) == synthetic_labels.labels(
        synthetic.Cohort(5, seed=1), shuffle=True
    )
    assert all(isinstance(label, Label) for own in shuffled.values() for label in own.values())


def test_recordings_show_a_strong_label_and_not_a_shuffled_one():
    cohort = synthetic.Cohort(90, 3, seed=5)
    score = {}
    for index in range(cohort.n_participants):
        days = [clean.zero_to_nan(day.values) for day in synthetic.simulate_participant(cohort, index).days]
        minutes = np.stack(days)
        steps = np.nansum(np.fmax(minutes[:, 0], minutes[:, 3])) / len(days)
        workout = minutes[:, list(WORKOUTS)].sum() / len(days)
        score[synthetic.participant_id(index)] = -np.log(steps + 500) - 0.02 * workout

    def auroc(labels):
        owners, found = values(labels, "cardiovascular_disease")
        return classification.roc_auc(found.astype(bool), np.array([score[p] for p in owners]))

    assert auroc(synthetic_labels.labels(cohort)) > 0.75
    assert 0.35 < auroc(synthetic_labels.labels(cohort, shuffle=True)) < 0.65
