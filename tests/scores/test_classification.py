import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from wearjax.scores import classification

LABELS = st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=40)


@given(LABELS)
def test_areas_agree_with_sklearn_including_ties(pairs):
    labels = np.array([label for label, _ in pairs])
    scores = np.array([score for _, score in pairs], np.float32) / 2
    if labels.all() or not labels.any():
        assert np.isnan(classification.roc_auc(labels, scores))
        assert np.isnan(classification.balanced_accuracy(labels, scores))
        return
    assert classification.roc_auc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores))
    assert classification.average_precision(labels, scores) == pytest.approx(
        metrics.average_precision_score(labels, scores)
    )
    assert classification.balanced_accuracy(labels, scores) == pytest.approx(
        metrics.balanced_accuracy_score(labels, scores > 0.5)
    )


def test_constant_scores_say_nothing():
    labels = np.array([True, False, False])
    assert classification.roc_auc(labels, np.zeros(3)) == 0.5


def test_the_threshold_itself_is_not_positive():
    labels = np.array([True, False])
    assert classification.balanced_accuracy(labels, np.array([0.5, 0.5])) == 0.5
    assert classification.balanced_accuracy(labels, np.array([0.51, 0.5])) == 1.0


def test_average_precision_needs_a_positive():
    assert np.isnan(classification.average_precision(np.zeros(3, bool), np.arange(3.0)))
