"""Metrics of forecast cells against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.benchmarks.openmhc import forecasting_metrics as metrics
from wearjax.scores import classification

NAN = float("nan")


def test_a_value_equal_to_the_quantile_is_covered():
    # (q - 1) * 0 and q * 0 are both zero: what tells them apart is a value just beside the quantile.
    target = np.array([1.0, 1.0, 2.0])
    quantiles = np.array([[1.0], [2.0], [1.0]])
    np.testing.assert_allclose(metrics.quantile_loss(target, quantiles, (0.1,)), [0.0, 0.9, 0.1])


def test_quantile_loss_averages_the_finite_terms():
    target = np.array([3.0, 3.0, 3.0, NAN])
    quantiles = np.array([[2.0, 4.0], [NAN, 4.0], [NAN, NAN], [1.0, 2.0]])
    found = metrics.quantile_loss(target, quantiles, (0.2, 0.9))
    np.testing.assert_allclose(found, [(0.2 * 1 + 0.1 * 1) / 2, 0.1, NAN, NAN])


def test_pooled_metrics_take_flags_only_and_need_their_classes():
    target = np.array([[1.0, 0.0, NAN, 0.5, 1.0]], np.float32)
    score = np.array([[0.5, 0.4, 9.0, 9.0, 0.2]], np.float32)
    found = metrics.pooled(target, score)
    assert found["auroc"] == pytest.approx(0.5)
    assert found["f1"] == pytest.approx(2 * 1 / (1 + 2))  # one half is flagged
    negative = metrics.pooled(np.zeros((1, 3), np.float32), np.ones((1, 3), np.float32))
    assert all(np.isnan(value) for value in negative.values())
    positive = metrics.pooled(np.ones((1, 3), np.float32), np.full((1, 3), 0.2, np.float32))
    assert np.isnan(positive["auroc"])
    assert (positive["auprc"], positive["f1"]) == (1.0, 0.0)


flags = st.sampled_from([0.0, 1.0, NAN])
scores = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])


@settings(max_examples=40)
@given(st.lists(st.tuples(flags, scores), min_size=18, max_size=18))
def test_windows_together_are_windows_one_by_one(pairs):
    target, score = np.array(pairs, np.float32).reshape(3, 6, 2).transpose(2, 0, 1)
    found = metrics.of_windows(target, score)
    rows = [w for w in range(3) if (target[w] == 1).any()]
    wanted = [metrics.pooled(target[w : w + 1], score[w : w + 1]) for w in rows]
    for name, values in found.items():
        np.testing.assert_allclose(values, [one[name] for one in wanted], err_msg=name)


def test_windows_agree_with_the_library_of_scores():
    rng = np.random.default_rng(0)
    target = (rng.random((5, 24)) < 0.3).astype(np.float32)
    score = rng.normal(size=(5, 24)).round(1).astype(np.float32)
    found = metrics.of_windows(target, score)
    for w in range(5):
        labels = target[w] == 1
        assert found["auroc"][w] == pytest.approx(classification.roc_auc(labels, score[w]))
        assert found["auprc"][w] == pytest.approx(classification.average_precision(labels, score[w]))
