"""Scores of 0/1 targets: area under the ROC curve, average precision, balanced accuracy."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float


def roc_auc(labels: Bool[np.ndarray, " cell"], scores: Float[np.ndarray, " cell"]) -> float:
    """Probability that a positive scores above a negative, ties counting one half; NaN with a single class.

    Equals the area under the ROC curve (Mann-Whitney form). Only the rarer class is looked up in the sorted
    other one, since flags are mostly off.
    """
    positive, negative = scores[labels], scores[~labels]
    if not len(positive) or not len(negative):
        return float("nan")
    if len(positive) > len(negative):
        return 1.0 - _share_above(negative, np.sort(positive))
    return _share_above(positive, np.sort(negative))


def _share_above(scores: np.ndarray, ordered: np.ndarray) -> float:
    """Mean share of `ordered` that lies below each score, ties counting one half."""
    below = np.searchsorted(ordered, scores, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(ordered, scores, side="right").sum(dtype=np.int64)
    return float(below + not_above) / (2.0 * len(scores) * len(ordered))


def average_precision(labels: Bool[np.ndarray, " cell"], scores: Float[np.ndarray, " cell"]) -> float:
    """Sum over distinct thresholds of the recall gained times the precision there; NaN without a positive.

    Summed from the lowest threshold, as `sklearn.metrics.average_precision_score` does: the last bit agrees.
    """
    total = np.count_nonzero(labels)
    if not total:
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(labels[order])
    last_of_tie = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    precision = hits[last_of_tie] / (last_of_tie + 1)
    recall = hits[last_of_tie] / total
    return float(np.sum(np.diff(recall, prepend=0.0)[::-1] * precision[::-1]))


def balanced_accuracy(
    labels: Bool[np.ndarray, " cell"], scores: Float[np.ndarray, " cell"], *, threshold: float = 0.5
) -> float:
    """Mean of the true positive and true negative rates of `scores > threshold`; NaN with a single class."""
    positives = np.count_nonzero(labels)
    negatives = len(labels) - positives
    if not positives or not negatives:
        return float("nan")
    flagged = scores > threshold
    hits = np.count_nonzero(flagged & labels)
    false_alarms = np.count_nonzero(flagged) - hits
    return 0.5 * (hits / positives + 1.0 - false_alarms / negatives)
