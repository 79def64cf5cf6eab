"""The predictor's side of the protocols: what may be asked for, and how a method is called."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from wearjax.errors import ConfigError, MethodError
from wearjax.predict.protocols import (
    DataSpec,
    EvalContext,
    Predictor,
    call_fit,
    call_predict,
    call_set_context,
    check_supported,
    data_spec_of,
)

DATA = [np.zeros((2, 24, 38), np.float32)] * 3
CONTEXT = EvalContext("age", "train", ("a",), (("2020-01-01",),))


def test_three_kinds_of_inputs():
    assert DataSpec() == DataSpec("hourly", "day")
    assert DataSpec("hourly", "series", 48).length == 48
    assert DataSpec("minute", "day").granularity == "minute"


@pytest.mark.parametrize(
    "spec",
    [
        ("minute", "series", 10), ("hourly", "week"), ("second", "day"), ("hourly", "series"), ("hourly", "series", 0),
        ("hourly", "series", 2.5), ("hourly", "series", True), ("hourly", "day", 24), ("minute", "day", 3),
    ],
)  # fmt: skip
def test_anything_else_is_refused_at_once(spec):
    with pytest.raises(ConfigError, match="DataSpec"):
        DataSpec(*spec)


def method(**members):
    return type("Odd", (), {"predict": lambda self, data: np.zeros(len(data)), **members})()


def test_inputs_of_a_method():
    @dataclass
    class Foreign:
        granularity: str = "hourly"
        layout: str = "series"
        n_hours: int = 7

    assert data_spec_of(method()) == DataSpec("hourly", "day")
    assert data_spec_of(method(input_granularity="minute")) == DataSpec("minute", "day")
    assert data_spec_of(method(data_spec=("minute", "day"))) == DataSpec("minute", "day")
    assert data_spec_of(method(data_spec=Foreign())) == DataSpec("hourly", "series", 7)
    assert data_spec_of(method(data_spec=DataSpec("hourly", "series", 5))).length == 5
    with pytest.raises(ConfigError, match=r"Odd\.data_spec: expected a DataSpec, got 'hourly'"):
        data_spec_of(method(data_spec="hourly"))


@pytest.mark.parametrize(
    ("members", "attribute"),
    [
        ({"set_loader": lambda self, loader: None}, "set_loader"),
        ({"set_temporal_window": lambda self, window: None}, "set_temporal_window"),
        ({"segment_resolution": "weekly"}, "segment_resolution: 'weekly'"),
        ({"segment_resolution": "minute"}, "segment_resolution: 'minute'"),
    ],
)
def test_what_a_method_would_wait_for_in_vain_is_named(members, attribute):
    odd = method(**members)
    with pytest.raises(MethodError, match=rf"^mine\.{attribute}"):
        check_supported(odd, data_spec_of(odd), name="mine")


@pytest.mark.parametrize(
    "members",
    [
        {}, {"streaming": True, "needs_segments": False}, {"streaming": False, "needs_segments": True},
        {"segment_resolution": None}, {"segment_resolution": "daily"}, {"set_loader": None},
        {"segment_resolution": "minute", "data_spec": ("minute", "day")},
    ],
)  # fmt: skip
def test_what_changes_nothing_here_is_taken(members):
    check_supported(method(**members), data_spec_of(method(**members)))


def test_optional_calls_may_be_absent():
    bare = method()
    assert isinstance(bare, Predictor)
    call_set_context(bare, CONTEXT)
    call_fit(bare, DATA, np.zeros(3), "binary", task="age")
    assert call_predict(bare, DATA, task="age").tolist() == [0.0, 0.0, 0.0]


def test_calls_reach_the_method_and_its_labels_are_its_own():
    seen = {}

    def fit(self, data, labels, task_type):
        seen.update(labels=labels.copy(), task_type=task_type, n=len(data))
        labels[:] = -1

    labels = np.array([0.0, 1.0, 1.0])
    learner = method(fit=fit, set_context=lambda self, context: seen.update(context=context))
    call_set_context(learner, CONTEXT)
    call_fit(learner, DATA, labels, "ordinal", task="age")
    assert seen["context"] is CONTEXT
    assert (seen["task_type"], seen["n"], seen["labels"].tolist()) == ("ordinal", 3, [0, 1, 1])
    assert labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, r"returned nothing, expected one number a participant"),
        (np.zeros(2), r"returned shape \(2,\), expected \(3,\)"),
        (np.zeros((3, 2)), r"returned shape \(3, 2\)"),
        (np.zeros(3, complex), "returned complex128"),
        (np.array(["a"] * 3), "returned <U1"),
    ],
)
def test_answers_are_checked(answer, told):
    with pytest.raises(MethodError, match=rf"^mine\.predict, task 'age': {told}"):
        call_predict(method(predict=lambda self, data: answer), DATA, task="age", name="mine")


def test_lists_and_whole_numbers_are_answers():
    out = call_predict(method(predict=lambda self, data: [1, 2, 3]), DATA, task="age")
    assert (out.dtype, out.tolist()) == (np.float64, [1, 2, 3])


def test_a_failing_method_is_named_with_its_task():
    def fail(self, *args):
        raise ValueError("no such thing\nand more")

    odd = method(predict=fail, fit=fail, set_context=fail)
    with pytest.raises(
        MethodError, match=r"^Odd\.set_context, task 'age': ValueError: no such thing \(\S+\.py:\d+\)$"
    ):
        call_set_context(odd, CONTEXT)
    with pytest.raises(MethodError, match=r"^Odd\.fit, task 'age': ValueError"):
        call_fit(odd, DATA, np.zeros(3), "binary", task="age")
    with pytest.raises(MethodError, match=r"^Odd\.predict, task 'age': ValueError"):
        call_predict(odd, DATA, task="age")
    with pytest.raises(MethodError, match="Plain: has no predict"):
        call_predict(type("Plain", (), {})(), DATA, task="age")
