"""Trees on the behaviour features: what they learn, answer and refuse."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from made_feature_days import ListedDays, busy_day

from wearjax.channels import INDEX
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import protocols
from wearjax.predict.features import table
from wearjax.predict.predictors.xgboost import TREES, XGBoost
from wearjax.predict.protocols import EvalContext

USERS = tuple(f"u{i:02d}" for i in range(24))
TRAIN, TEST = USERS[:16], USERS[16:]
LEVEL = np.arange(24) % 3  # of activity, planted


class Untouched:
    """Data that must not be read."""

    def __len__(self):
        raise AssertionError("read")

    __getitem__ = __iter__ = __len__


@pytest.fixture(scope="module")
def days() -> ListedDays:
    made = {}
    for i, user in enumerate(USERS):
        values = np.stack([busy_day(50 * i + d) for d in range(2)])
        values[:, [INDEX["watch_steps"], INDEX["iphone_steps"]]] *= 1 + LEVEL[i]
        made[user] = values
    return ListedDays(made)


@pytest.fixture(scope="module")
def method(days) -> XGBoost:
    pytest.importorskip("xgboost")
    return XGBoost(days, n_trees=40, n_jobs=1)


def context(users, split="train", task="age"):
    return EvalContext(task, split, tuple(users), tuple(("2021-03-01",) for _ in users))


def answers(method, labels, kind, test=TEST):
    method.set_context(context(TRAIN))
    method.fit(Untouched(), np.asarray(labels, np.float64), kind)
    method.set_context(context(test, "test"))
    return method.predict(Untouched())


def test_settings_are_the_published_ones(days):
    assert TREES == {
        "n_estimators": 1000, "max_depth": 2, "learning_rate": 0.05, "subsample": 0.8, "colsample_bytree": 0.3,
        "reg_alpha": 0.1, "reg_lambda": 1.0, "min_child_weight": 1, "gamma": 0,
    }  # fmt: skip
    made = XGBoost(days)
    assert made.settings["n_estimators"] == 1000
    assert made.settings["seed"] == 42
    assert isinstance(made, protocols.Predictor)
    assert protocols.data_spec_of(made) == protocols.DataSpec("hourly", "day")
    assert protocols.method_name(made) == "xgboost"


def test_regression_follows_a_planted_cause_and_repeats_itself(method):
    target = 10.0 * LEVEL[:16] + 50
    first = answers(method, target, "regression")
    assert np.corrcoef(first, LEVEL[16:])[0, 1] > 0.9
    np.testing.assert_array_equal(answers(method, target, "regression"), first)


def test_a_binary_task_scores_class_one(method):
    found = answers(method, LEVEL[:16] == 2, "binary")
    assert ((found > 0) & (found < 1)).all()
    assert found[LEVEL[16:] == 2].min() > found[LEVEL[16:] != 2].max()


def test_binary_and_regression_are_the_library_with_the_published_settings(method):
    import xgboost

    values = method.features().values
    settings = {**TREES, "n_estimators": 40}
    labels = (LEVEL[:16] > 0).astype(int)
    trees = xgboost.XGBClassifier(objective="binary:logistic", random_state=42, n_jobs=1, **settings)
    expected = trees.fit(values[:16], labels).predict_proba(values[16:])[:, 1]
    np.testing.assert_array_equal(answers(method, labels, "binary"), expected.astype(np.float64))
    trees = xgboost.XGBRegressor(objective="reg:squarederror", random_state=42, n_jobs=1, **settings)
    expected = trees.fit(values[:16], labels).predict(values[16:])
    np.testing.assert_array_equal(answers(method, labels, "regression"), expected.astype(np.float64))


def test_an_ordinal_task_is_a_difference_of_binary_ones_without_a_seed(method):
    import xgboost

    values = method.features().values
    labels = np.array([0, 2, 5])[LEVEL[:16]]  # the answer counts the levels seen
    exceeds = []
    for level in (0, 2):
        trees = xgboost.XGBClassifier(objective="binary:logistic", n_jobs=1, **{**TREES, "n_estimators": 40})
        exceeds.append(trees.fit(values[:16], labels > level).predict_proba(values[16:])[:, 1])
    chances = np.stack([1 - exceeds[0], exceeds[0] - exceeds[1], exceeds[1]])
    found = answers(method, labels, "ordinal")
    np.testing.assert_array_equal(found, chances.argmax(axis=0))
    assert set(found) <= {0.0, 1.0, 2.0}
    assert (found == LEVEL[16:]).mean() > 0.6


def test_a_multiclass_task_answers_with_labels(method):
    found = answers(method, np.array([3, 7, 9])[LEVEL[:16]], "multiclass")
    assert set(found) <= {3.0, 7.0, 9.0}
    assert (found == np.array([3, 7, 9])[LEVEL[16:]]).mean() > 0.6


def test_features_are_extracted_once_for_all_tasks_and_ignore_eligible_dates(days, method):
    answers(method, LEVEL[:16], "regression")
    before = days.reads
    first = answers(method, LEVEL[:16], "regression")
    assert days.reads == before
    method.set_context(EvalContext("age", "test", TEST, tuple(() for _ in TEST)))
    np.testing.assert_array_equal(method.predict(Untouched()), first)


def test_users_without_days_get_no_prediction_and_are_counted(method):
    users = (*TRAIN, "stranger")
    method.set_context(context(users, task="BMI_values"))
    method.fit(Untouched(), np.append(LEVEL[:16], 99.0), "regression")
    method.set_context(context(("other", *TEST), "test", task="BMI_values"))
    found = method.predict(Untouched())
    assert np.isnan(found[0])
    assert np.isfinite(found[1:]).all()
    assert found[1:].max() < 5  # the stranger's label was not learnt
    assert method.left_out["BMI_values", "train"] == method.left_out["BMI_values", "test"] == 1


@pytest.mark.parametrize("kind", ["binary", "ordinal", "multiclass"])
def test_one_class_is_refused(method, kind):
    with pytest.raises(MethodError, match="1 different"):
        answers(method, np.ones(16), kind)


def test_wrong_calls_are_named(days):
    pytest.importorskip("xgboost")
    made = XGBoost(days, n_trees=2)
    with pytest.raises(MethodError, match="set_context"):
        made.fit(None, np.zeros(3), "binary")
    with pytest.raises(MethodError, match="before fit"):
        made.predict(None)
    made.set_context(context(TRAIN))
    with pytest.raises(MethodError, match="labels for 16"):
        made.fit(None, np.zeros(3), "binary")
    with pytest.raises(MethodError, match="3 different"):
        made.fit(None, LEVEL[:16].astype(float), "binary")
    with pytest.raises(ConfigError, match="task type"):
        made.fit(None, np.zeros(16), "survival")
    with pytest.raises(ConfigError, match="n_trees"):
        XGBoost(days, n_trees=0)
    made.set_context(context(("nobody",)))
    with pytest.raises(MethodError, match="no participant"):
        made.fit(None, np.zeros(1), "regression")


def test_without_the_library_the_extra_is_named(days, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    made = XGBoost(days)
    made.set_context(context(TRAIN))
    with pytest.raises(ConfigError, match=r"wearjax\[probes\]"):
        made.fit(None, np.zeros(16), "regression")


def test_the_table_sees_participants_of_every_split(method):
    assert method.features().participants == USERS
    assert method.features().values.shape == (24, len(table.NAMES))
