"""Cohorts, their digest, the stand-in for predictions that lack, and subgroups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax import tasks
from wearjax.benchmarks.openmhc import prediction_cohort
from wearjax.days import task_labels
from wearjax.days.splits import Splits

USERS = tuple("abcdefgh")
MEMBERS = Splits(tuple("abcd"), ("e",), tuple("fgh"))
NAN = float("nan")
LABELS = {
    "user_id": USERS,
    "date": ["2020-01-01"] * 8,
    "age": pa.array([17, 29, 30, 59, 60, 75, -1, 45]),
    "BiologicalSex": pa.array([0, 1, 0, 1, 0, 1, -1, 0]),
    "Hdl": [1.0, 2.0, NAN, NAN, 1.0, 3.0, 4.0, NAN],
    "Diabetes": pa.array([1, 1, 1, -1, 0, 1, 0, 0]),
    "PH": pa.array([1, -1, -1, -1, 0, 1, 0, 0]),
    "CAD": pa.array([1, 0, 1, 0, 1, -1, -1, -1]),
}


@pytest.fixture
def labels(tmp_path):
    pq.write_table(pa.table(LABELS), tmp_path / "task_labels.parquet")
    return task_labels.read_lookup(tmp_path)


def cohort(labels, code, split="test"):
    return prediction_cohort.task_cohort(labels, tasks.task(code), MEMBERS, split)


def test_cohorts_of_train_and_of_the_split(labels):
    found = cohort(labels, "Hdl")
    assert (found.train.users, found.test.users) == (("a", "b"), ("f", "g"))
    assert found.train_context.split == "train"
    assert found.test_context.user_ids == ("f", "g")
    assert found.test_context.dates == (("2020-01-01",),) * 2
    assert cohort(labels, "Hdl", "validation").test.users == ("e",)
    assert (found.test_context.task, found.test_context.split) == ("Hdl", "test")
    assert {c.label_window for c in (found.train_context, found.test_context)} == {"full_history"}


def test_methods_are_told_that_days_after_the_window_are_closed(tmp_path):
    file = tmp_path / task_labels.ROOT_FILES["day", "forward"]
    pq.write_table(pa.table(LABELS), file)
    forward = task_labels.TaskLabels(file, window="forward")
    found = cohort(forward, "Hdl")
    assert {c.label_window for c in (found.train_context, found.test_context)} == {"forward"}


def test_tasks_that_cannot_be_evaluated_say_why(labels):
    assert cohort(labels, "Ldl") == "no labels"
    assert cohort(labels, "PH") == "fewer than 2 participants with a label in train"
    assert cohort(labels, "Diabetes") == "all labels in train are equal"
    assert cohort(labels, "CAD") == "no participant with a label in test"
    assert not isinstance(cohort(labels, "CAD", "validation"), str)


def test_digest_changes_with_labels_and_dates(labels, tmp_path):
    def digest(**changed):
        pq.write_table(pa.table({**LABELS, **changed}), tmp_path / "task_labels.parquet")
        return cohort(task_labels.read_lookup(tmp_path), "Hdl").digest

    same = cohort(labels, "Hdl").digest
    assert digest() == same
    assert digest(age=[1] * 8) == same  # another task
    assert digest(Hdl=[1.0, 2.5, *LABELS["Hdl"][2:]]) != same
    assert digest(date=["2020-01-02", *LABELS["date"][1:]]) != same


def test_subgroups_from_label_values(labels):
    found = prediction_cohort.subgroups(labels, (*USERS, "nobody"))
    assert found["age_group"] == (
        "18-29", "18-29", "30-39", "50-59", "60+", "60+", "unknown", "40-49", "unknown",
    )  # fmt: skip
    assert found["sex"] == (
        "female", "male", "female", "male", "female", "male", "unknown", "female", "unknown",
    )  # fmt: skip


def test_subgroups_without_demographics(tmp_path):
    pq.write_table(pa.table({"user_id": ["a"], "date": ["2020-01-01"]}), tmp_path / "task_labels.parquet")
    found = prediction_cohort.subgroups(task_labels.read_lookup(tmp_path), ("a",))
    assert found == {"age_group": ("unknown",), "sex": ("unknown",)}


LINEAR = np.array([0.3, 5.0, 0.1, 0.2])


@pytest.mark.parametrize("kind", ["binary", "ordinal", "regression", "multiclass"])
def test_complete_predictions_stay(kind):
    raw = np.array([0.2, 7.0, 0.2, -1.0])
    done = prediction_cohort.substitute(raw, LINEAR, kind)
    assert done.values.tolist() == raw.tolist()
    assert done.n_substituted == 0


@pytest.mark.parametrize("kind", ["binary", "ordinal", "regression", "multiclass"])
def test_predictions_that_all_lack_are_the_baseline(kind):
    done = prediction_cohort.substitute(np.array([NAN, np.inf, -np.inf, NAN]), LINEAR, kind)
    assert done.values.tolist() == LINEAR.tolist()
    assert done.n_substituted == 4


def test_a_measured_outcome_takes_the_number_itself():
    done = prediction_cohort.substitute(np.array([9.0, NAN, 8.0, np.inf]), LINEAR, "regression")
    assert (done.values.tolist(), done.n_substituted) == ([9.0, 5.0, 8.0, 0.2], 2)


@given(
    st.lists(
        st.tuples(st.sampled_from([NAN, 0.0, 0.5, 0.5, 2.0]), st.sampled_from([0.1, 0.2, 0.3])), min_size=2
    ),
    st.sampled_from(["binary", "ordinal"]),
)
def test_merged_ranks_keep_the_order_within_each_group(pairs, kind):
    raw, linear = np.array(pairs).T
    done = prediction_cohort.substitute(raw, linear, kind).values
    lacking = np.isnan(raw)
    if lacking.all() or not lacking.any():
        return
    assert ((done > 0) & (done <= 1)).all()
    for values, group in ((linear, lacking), (raw, ~lacking)):
        for i in np.flatnonzero(group):
            # Mean rank: how many are below, and half of those that tie, itself included.
            below, ties = (values[group] < values[i]).sum(), (values[group] == values[i]).sum()
            assert done[i] == pytest.approx((below + (ties + 1) / 2) / group.sum())
