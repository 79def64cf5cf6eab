"""Scores of many resamples at once, from how often each row was drawn.

Every score is a function of weights on the same rows. Rows are sorted once, and one pass adds the weights of
all draws side by side: no draw is ever assembled. Sums of weights are sums of small whole numbers and thus
exact; only the last step rounds.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int


def average_precision(
    labels: Bool[np.ndarray, " row"],
    scores: Float[np.ndarray, " row"],
    counts: Float[np.ndarray, "row draw"],
) -> Float[np.ndarray, " draw"]:
    """Average precision of each draw (`classification.average_precision`); NaN with a single class.

    Only thresholds that hold a positive matter: at the others recall stands still.
    """
    order = np.argsort(-scores, kind="stable")
    tie = _starts_of_ties(scores[order]).cumsum() - 1
    at = np.flatnonzero(labels[order])
    thresholds, group = np.unique(tie[at], return_inverse=True)
    last = np.searchsorted(tie, thresholds, side="right")  # one behind the threshold's last row
    hits = _group_sums(counts[order[at]], group, len(thresholds))
    # Every row counts for the first such threshold at or below its score; rows below all of them for none.
    rows = order[: last[-1]] if len(last) else order[:0]
    drawn = _group_sums(counts[rows], np.searchsorted(thresholds, tie[: len(rows)]), len(thresholds))
    _run(drawn)
    found = hits.copy()
    _run(found)
    positives = hits.sum(axis=0)
    precision = np.divide(found, drawn, out=np.zeros_like(found), where=drawn > 0)
    defined = (positives > 0) & (positives < counts.sum(axis=0))
    total = np.einsum("td,td->d", hits, precision)
    return np.divide(total, positives, out=np.full(counts.shape[1], np.nan), where=defined)


def _run(rows: np.ndarray) -> None:
    """Running sums along the first axis, in place; adding whole rows is much faster than NumPy's `cumsum`."""
    for i in range(1, len(rows)):
        rows[i] += rows[i - 1]


def _starts_of_ties(ordered: np.ndarray) -> np.ndarray:
    return np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]


def pearson(
    truth: Float[np.ndarray, " row"],
    scores: Float[np.ndarray, "row method"],
    counts: Float[np.ndarray, "row draw"],
) -> Float[np.ndarray, "method draw"]:
    """Pearson's r of each draw; NaN where a draw's variance is lost in the rounding of its moments.

    That is so below a millionth of the variance of all rows, which includes draws of one distinct value:
    `correlation.pearson` decides what these have.
    """
    x, y = _standard(truth[:, None]), _standard(scores)
    n = counts.sum(axis=0)
    moments = np.concatenate([x, x * x, y, y * y, x * y], axis=1).T @ counts
    m = scores.shape[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        moments = moments / n
        mx, mxx = moments[:2]
        my, myy, mxy = moments[2 : 2 + m], moments[2 + m : 2 + 2 * m], moments[2 + 2 * m :]
        vx, vy = mxx - mx * mx, myy - my * my
        r = (mxy - mx * my) / np.sqrt(vx * vy)
    return np.where((vx > 1e-6) & (vy > 1e-6), np.clip(r, -1.0, 1.0), np.nan)


def _standard(columns: np.ndarray) -> np.ndarray:
    centred = columns - columns.mean(axis=0)
    spread = centred.std(axis=0)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)


def spearman(
    truth: Float[np.ndarray, " row"],
    scores: Float[np.ndarray, " row"],
    counts: Float[np.ndarray, "row draw"],
) -> Float[np.ndarray, " draw"]:
    """Spearman's rho of each draw, ties at their mean rank; NaN with one distinct value on either side.

    Works on the distinct pairs of values, of which ordered levels have few.
    """
    _, x = np.unique(truth, return_inverse=True)
    levels, y = np.unique(scores, return_inverse=True)
    pairs, pair = np.unique(x * len(levels) + y, return_inverse=True)
    weight = _group_sums(counts, pair, len(pairs))
    rx = _weighted_ranks(weight, pairs // len(levels))
    ry = _weighted_ranks(weight, pairs % len(levels))
    n = counts.sum(axis=0)
    # The mean rank is (n + 1) / 2 in every draw: ranks around it have sums without rounding.
    rx -= 0.5 * (n + 1.0)
    ry -= 0.5 * (n + 1.0)
    weighted = weight * rx
    xx, xy = (weighted * rx).sum(axis=0), (weighted * ry).sum(axis=0)
    yy = (weight * ry * ry).sum(axis=0)
    product = xx * yy
    r = np.divide(xy, np.sqrt(product), out=np.full(len(n), np.nan), where=product > 0)
    return np.clip(r, -1.0, 1.0)


def _group_sums(
    rows: Float[np.ndarray, "row draw"], group: Int[np.ndarray, " row"], n_groups: int
) -> Float[np.ndarray, "group draw"]:
    """Sum of the rows of each group; a new array."""
    if n_groups == len(group):  # one row each, unless a group is empty
        order = np.argsort(group, kind="stable")
        if np.array_equal(group[order], np.arange(n_groups)):
            return rows[order]
    if not np.all(group[1:] >= group[:-1]):
        order = np.argsort(group, kind="stable")
        rows, group = rows[order], group[order]
    edges = np.searchsorted(group, np.arange(n_groups + 1))
    sums = np.empty((n_groups, rows.shape[1]))
    for i in range(n_groups):
        rows[edges[i] : edges[i + 1]].sum(axis=0, out=sums[i])
    return sums


def _weighted_ranks(
    weight: Float[np.ndarray, "pair draw"], level: Int[np.ndarray, " pair"]
) -> Float[np.ndarray, "pair draw"]:
    """Mean rank of each pair's level: those below it, and half of its own."""
    own = _group_sums(weight, level, int(level.max(initial=-1)) + 1)
    half = 0.5 * own
    _run(own)
    return (own - half + 0.5)[level]


def accuracy(
    truth: Float[np.ndarray, " row"],
    scores: Float[np.ndarray, " row"],
    counts: Float[np.ndarray, "row draw"],
) -> Float[np.ndarray, " draw"]:
    """Share of the drawn rows whose answer is right; NaN for an empty draw."""
    n = counts.sum(axis=0)
    return np.divide(
        (truth == scores).astype(np.float64) @ counts, n, out=np.full(len(n), np.nan), where=n > 0
    )
