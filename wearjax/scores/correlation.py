"""Correlation of predictions with numbers or ordered levels; NaN where either side has one distinct value."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Shaped

# Below this many rows the processor's dot product sums one by one; from there on in vectors of its own width.
_ROWS_OF_A_VECTOR = 32


def pearson(truth: Float[np.ndarray, " row"], scores: Float[np.ndarray, " row"]) -> float:
    """Pearson's r, in the order of arithmetic of `scipy.stats.pearsonr`."""
    if _constant(truth) or _constant(scores):
        return float("nan")
    r = min(max(_dot(_unit(truth), _unit(scores)), -1.0), 1.0)
    return float(round(r)) if len(truth) == 2 else r


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    """Dot product whose last bit does not depend on the processor, for few rows.

    An error `1 - r` of a few rows may be nothing but that bit. Multiplication and addition round once
    together, as processors with a fused multiply-add do, the reference's among them.
    """
    if len(a) >= _ROWS_OF_A_VECTOR:
        return float(np.dot(a, b))
    product = a * b
    total = 0.0
    for terms in zip(product.tolist(), _rounding_of(product, a, b).tolist(), strict=True):
        total = math.fsum((*terms, total))
    return total


def _rounding_of(product: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What rounding took from the products: exact for factors of ordinary size (Dekker, 1971)."""
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _upper_half(values: np.ndarray) -> np.ndarray:
    scaled = values * (2.0**27 + 1.0)
    return scaled - (scaled - values)


def spearman(truth: Float[np.ndarray, " row"], scores: Float[np.ndarray, " row"]) -> float:
    """Spearman's rho, ties at their mean rank; the arithmetic is that of `scipy.stats.spearmanr`."""
    if _constant(truth) or _constant(scores):
        return float("nan")
    ranks = np.column_stack((mean_ranks(truth), mean_ranks(scores)))
    return float(np.corrcoef(ranks, rowvar=False)[1, 0])


def mean_ranks(values: Shaped[np.ndarray, " row"]) -> Float[np.ndarray, " row"]:
    """Ascending ranks from 1, ties sharing the mean of theirs."""
    _, position, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - 0.5 * (count - 1))[position]


def _constant(values: np.ndarray) -> bool:
    return len(values) == 0 or bool(np.all(values == values[0]))


def _unit(values: np.ndarray) -> np.ndarray:
    centred = values - values.mean(keepdims=True)
    largest = np.max(np.abs(centred), keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):  # values that differ only in their last bit
        return centred / (largest * np.linalg.norm(centred / largest, axis=-1, keepdims=True))
