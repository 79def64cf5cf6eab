"""What the prediction benchmark measures: one score a task, over all participants, once and resampled.

OpenMHC evaluation, prediction track: average precision of the scores of a binary outcome, Spearman's rho of
the levels of an ordinal one, Pearson's r of a measured one (and accuracy of classes without an order, which
no task of the benchmark has). The error of a task is one minus that, so it can exceed one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from wearjax.scores import bootstrap, classification, correlation, resampled
from wearjax.tasks import Kind

METRIC_OF: dict[str, str] = {
    "binary": "auprc",
    "ordinal": "spearman_r",
    "regression": "pearson_r",
    "multiclass": "accuracy",
}
_SCORE_MIN = 1e-10  # the table of a single run clips binary scores to this and one minus this
_VARIANCE_MIN = 1e-12
# So near a perfect score an error is nothing but rounding, yet any positive one makes a ratio: there the
# plain formula decides.
_NEARLY_PERFECT = 1e-9


def output_columns(
    raw: Float[np.ndarray, " n"], kind: Kind, *, rounded: bool = True
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """`(y_pred, y_proba)` of a method's raw answers; what is not finite stays so in both.

    Binary: whether the score of class 1 reaches one half, and the score. Levels and classes: the nearest
    whole number (halves to even), and the answer. Regression: the answer twice.

    Args:
        rounded: round ordinal answers to levels before they are ranked, as the benchmark does; without,
            they are ranked as they are, as later versions of it do.
    """
    raw = np.asarray(raw, np.float64)
    if kind == "binary":
        return np.where(np.isfinite(raw), (raw >= 0.5).astype(np.float64), np.nan), raw
    if kind == "multiclass" or (kind == "ordinal" and rounded):
        return np.rint(raw), raw
    return raw, raw


def scored_column(
    kind: Kind, y_pred: Float[np.ndarray, " n"], y_proba: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The column that the metric reads: the score of a binary outcome, the answer of any other."""
    return y_proba if kind == "binary" else y_pred


def metric(kind: Kind, truth: Float[np.ndarray, " n"], scores: Float[np.ndarray, " n"]) -> float:
    """The task's metric; NaN where it is undefined.

    Undefined with a single class (binary), or with one distinct value on either side (ordinal, regression).
    """
    if kind == "binary":
        labels = truth > 0.5
        return float("nan") if labels.all() else classification.average_precision(labels, scores)
    if kind == "ordinal":
        return correlation.spearman(truth, scores)
    if kind == "regression":
        return correlation.pearson(truth, scores)
    return float(np.mean(truth == scores)) if len(truth) else float("nan")


def resampled_metrics(
    kind: Kind,
    truth: Float[np.ndarray, " n"],
    scores: Float[np.ndarray, "method n"],
    counts: Float[np.ndarray, "n draw"],
    rows_of: Callable[[int], Int[np.ndarray, " drawn"]],
    *,
    plain: bool = False,
) -> Float[np.ndarray, "method draw"]:
    """`metric` of every method on every draw.

    Args:
        counts: how often each row is in each draw.
        rows_of: the rows of one draw in their order, for those few draws where the last bit decides.
        plain: compute every draw by itself.
    """
    out = _from_counts(kind, truth, scores, counts)
    doubtful = np.full(out.shape, plain) | (out > 1.0 - _NEARLY_PERFECT)
    if kind == "regression":
        doubtful |= np.isnan(out)
    for draw in np.flatnonzero(doubtful.any(axis=0)):
        rows = rows_of(int(draw))
        for m in np.flatnonzero(doubtful[:, draw]):
            out[m, draw] = metric(kind, truth[rows], scores[m, rows])
    return out


def _from_counts(kind: Kind, truth: np.ndarray, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    if kind == "regression":
        return resampled.pearson(truth, scores.T, counts)
    if kind == "binary":
        return np.stack([resampled.average_precision(truth > 0.5, s, counts) for s in scores])
    per_method = resampled.spearman if kind == "ordinal" else resampled.accuracy
    return np.stack([per_method(truth, s, counts) for s in scores])


@dataclass(frozen=True)
class Primary:
    """One number of the table of a run: `auprc`, `spearman_r`, `pearson_r` or `accuracy`.

    Attributes:
        se: standard error, NaN without draws.
    """

    name: str
    value: float
    se: float


def primary_metrics(
    kind: Kind,
    truth: Float[np.ndarray, " n"],
    scores: Float[np.ndarray, "method n"],
    *,
    n_boot: int = 1000,
    seed: int = 42,
) -> list[Primary]:
    """Metric of each method by itself, with the standard error of its bootstrap.

    The table of a run differs in three details from the scores that are compared: binary scores are clipped
    to (0, 1), a score that is not finite leaves the method without a value, and a variance below 1e-12
    counts as none.

    Args:
        scores: the column that the metric reads (`scored_column`).
        n_boot: draws; 0 for no standard error.
        seed: of the draws, which are those of NumPy's legacy generator.
    """
    scores = np.clip(scores, _SCORE_MIN, 1.0 - _SCORE_MIN) if kind == "binary" else np.asarray(scores)
    usable = np.isfinite(scores).all(axis=1) & (len(truth) > 0)
    values, errors = np.full((2, len(scores)), np.nan)
    for m in np.flatnonzero(usable):
        if kind != "regression" or min(truth.var(), scores[m].var()) >= _VARIANCE_MIN:
            values[m] = metric(kind, truth, scores[m])
    if n_boot and usable.any():
        drawn = _drawn(kind, truth, scores[usable], n_boot, seed)
        errors[usable] = [_spread(values) for values in drawn]
    return [Primary(METRIC_OF[kind], *pair) for pair in zip(values.tolist(), errors.tolist(), strict=True)]


def _drawn(kind: Kind, truth: np.ndarray, scores: np.ndarray, n_boot: int, seed: int) -> np.ndarray:
    n = len(truth)
    draws = np.random.RandomState(seed).choice(n, (n_boot, n))
    counts = np.ascontiguousarray(bootstrap.multiplicities(draws).T)
    drawn = resampled_metrics(kind, truth, scores, counts, lambda b: draws[b])
    if kind == "regression":
        drawn[:, _variances(truth[None], counts)[0] < _VARIANCE_MIN] = np.nan
        drawn[_variances(scores, counts) < _VARIANCE_MIN] = np.nan
    return drawn


def _spread(drawn: np.ndarray) -> float:
    finite = drawn[np.isfinite(drawn)]
    return float(finite.std(ddof=1)) if len(finite) > 1 else float("nan")


def _variances(
    values: Float[np.ndarray, "method n"], counts: Float[np.ndarray, "n draw"]
) -> Float[np.ndarray, "method draw"]:
    """Variance of each draw around its own mean, from deviations to the mean of all."""
    deviation = values - values.mean(axis=1, keepdims=True)
    first, second = np.stack([deviation, deviation * deviation]) @ counts / counts.sum(axis=0)
    return second - first * first
