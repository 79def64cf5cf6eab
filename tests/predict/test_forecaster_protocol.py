"""What a forecaster may answer, and what is refused with the method's name."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.errors import ConfigError, MethodError
from wearjax.predict import forecaster
from wearjax.predict.forecaster import Forecaster

HISTORY = np.zeros((19, 48), np.float32)
POINT = np.ones((19, 24), np.float32)
QUANTILES = np.ones((19, 24, 3), np.float32)


class Answers:
    """Returns what it was made with."""

    name = "answers"

    def __init__(self, answer, levels=None):
        self.answer = answer
        if levels is not None:
            self.quantile_levels = levels

    def predict(self, history, horizon):
        return self.answer


class Batches(Answers):
    def predict_batch(self, histories, horizon):
        return self.answer


def test_the_contract_is_met_by_two_arguments():
    assert isinstance(Answers(POINT), Forecaster)
    found = forecaster.call_predict(Answers(POINT.astype(np.float64).tolist()), HISTORY, 24)
    assert found.point.dtype == np.float32
    assert found.quantiles is None


def test_quantiles_have_declared_or_even_levels():
    found = forecaster.call_predict(Answers((POINT, QUANTILES), (0.1, 0.5, 0.9)), HISTORY, 24)
    assert (found.levels, found.quantiles.shape) == ((0.1, 0.5, 0.9), (19, 24, 3))
    assert forecaster.call_predict(Answers((POINT, QUANTILES)), HISTORY, 24).levels == (0.25, 0.5, 0.75)
    assert forecaster.call_predict(Answers((POINT, None), (0.5,)), HISTORY, 24).levels == ()


def test_none_and_numbers_beyond_float32_are_no_forecast():
    assert np.isnan(forecaster.call_predict(Answers(None), HISTORY, 24).point).all()
    assert np.isinf(forecaster.call_predict(Answers(np.full((19, 24), 1e60)), HISTORY, 24).point).all()


@pytest.mark.parametrize(
    ("answer", "levels", "told"),
    [
        (POINT[:, :3], None, r"answers.predict, day 3: returned shape \(19, 3\), expected \(19, 24\)"),
        (POINT.astype(complex), None, "returned complex128, expected float32"),
        ("text", None, "returned <U4"),
        ((POINT, QUANTILES[:, :2]), None, r"quantiles of shape \(19, 2, 3\)"),
        ((POINT, QUANTILES[..., :0]), None, "quantiles of shape"),
        ((POINT, QUANTILES), (0.5,), "returned 3 quantiles, quantile_levels has 1"),
        ((POINT, QUANTILES), (0.1, 0.5, 90), "between 0 and 1"),
        ([POINT, POINT[:, :2]], None, "returned no array"),
    ],
)
def test_other_answers_are_refused(answer, levels, told):
    with pytest.raises(MethodError, match=told):
        forecaster.call_predict(Answers(answer, levels), HISTORY, 24, where="day 3")


def test_a_failing_method_is_named_and_a_message_for_people_passes():
    class Fails:
        def __init__(self, error):
            self.error = error

        def predict(self, history, horizon):
            raise self.error

    with pytest.raises(MethodError, match=r"mine.predict: ZeroDivisionError: no.* \(\S+\.py:\d+\)$"):
        forecaster.call_predict(Fails(ZeroDivisionError("no")), HISTORY, 24, name="mine")
    with pytest.raises(ConfigError, match=r"^install it$"):
        forecaster.call_predict(Fails(ConfigError("install it")), HISTORY, 24)
    with pytest.raises(MethodError, match=r"object: has no predict"):
        forecaster.call_predict(object(), HISTORY, 24)


def test_declared_keywords_are_passed_whether_they_have_a_default_or_not():
    seen = {}

    class Declares(Answers):
        def predict(self, history, horizon, *, variable_names, past_covariates, index_days=None):
            seen.update(names=variable_names, past=past_covariates, days=index_days)
            return POINT

        def predict_batch(self, histories, horizon, **keywords):
            seen.update(keywords)
            return [POINT] * len(histories)

    forecaster.call_predict(Declares(None), HISTORY, 24, index_days=4)
    assert seen["names"][5] == "hk_watch:HKQuantityTypeIdentifierHeartRate"
    assert (len(seen["names"]), seen["past"], seen["days"]) == (19, None, 4)
    forecaster.call_predict_batch(Declares(None), [HISTORY], 24, index_days=(4,))
    assert seen["index_days"] == [4]
    assert seen["future_covariates"] is None


@pytest.mark.parametrize(
    "answer",
    [
        np.stack([POINT, POINT]),
        [POINT, (POINT, None)],
        (POINT, POINT),
        (np.stack([POINT, POINT]), None),
        [None, POINT],
    ],
)
def test_a_batch_may_be_an_array_or_a_list(answer):
    found = forecaster.call_predict_batch(Batches(answer), [HISTORY, HISTORY], 24)
    points, quantiles = forecaster.stack(found)
    assert (points.shape, quantiles) == ((2, 19, 24), None)


def test_a_batch_with_quantiles():
    pair = (np.stack([POINT, POINT]), np.stack([QUANTILES, QUANTILES]))
    for answer in (
        pair,
        [(POINT, QUANTILES)] * 2,
        ((POINT, QUANTILES), (POINT, QUANTILES)),
        [(POINT, QUANTILES), None],
    ):
        found = forecaster.call_predict_batch(Batches(answer), [HISTORY, HISTORY], 24)
        _, quantiles = forecaster.stack(found)
        assert quantiles.shape == (2, 19, 24, 3)
        assert forecaster.levels_of(found) == (0.25, 0.5, 0.75)
        assert np.isnan(quantiles[1]).all() == (answer[1] is None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (np.stack([POINT]), "returned 1 forecasts for 2 windows"),
        (None, "returned NoneType"),
        (3.0, "returned float"),
        ((np.stack([POINT, POINT]), QUANTILES), "expected quantiles"),
        ([POINT, POINT[:3]], "returned shape"),
    ],
)
def test_other_batches_are_refused(answer, told):
    with pytest.raises(MethodError, match=told):
        forecaster.call_predict_batch(Batches(answer), [HISTORY, HISTORY], 24)


def test_quantiles_may_not_change_in_number():
    found = forecaster.call_predict_batch(
        Batches([(POINT, QUANTILES), (POINT, QUANTILES[..., :1])]), [HISTORY, HISTORY], 24
    )
    with pytest.raises(MethodError, match="forecasts of 3 and of 1 quantiles"):
        forecaster.stack(found)


def test_the_horizon_of_a_method_must_be_the_one_asked_for():
    method = Answers(POINT)
    forecaster.check_horizon(method, 24)
    method.n_pred_steps = 48
    with pytest.raises(MethodError, match=r"answers: forecasts 48 hours \(n_pred_steps\), 24 are asked for"):
        forecaster.check_horizon(method, 24)
