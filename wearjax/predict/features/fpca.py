"""Functional principal components (Ramsay and Silverman 2005, chapter 8) of curves of many participants."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64

_RANK_TOLERANCE = 1e-10


def simpson_weights(n: int) -> Float64[np.ndarray, "n"]:
    """Simpson's rule on n points one apart; with an even n a parabola closes the last interval."""
    if n < 3:
        return np.full(n, max(n - 1, 1) / n)
    odd = n if n % 2 else n - 1
    weights = np.zeros(n)
    weights[0:odd:2], weights[1:odd:2] = 2 / 3, 4 / 3
    weights[[0, odd - 1]] = 1 / 3
    if odd < n:
        weights[-3:] += np.array([-1, 8, 5]) / 12
    return weights


def grid_scores(
    curves: Float[np.ndarray, "curve point"], n_components: int
) -> Float64[np.ndarray, "curve k"]:
    """Scores of curves on points one apart; the components have unit norm under Simpson's rule.

    A missing point takes the mean of the other curves there, or 0 without any.
    """
    known = np.isfinite(curves)
    values = np.where(known, curves, 0).astype(np.float64)
    mean = values.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, values, mean)
    centred -= centred.mean(axis=0)
    root = np.sqrt(simpson_weights(curves.shape[1]))
    return _scores(centred * root, n_components, lambda vectors: vectors / root[:, None])


def basis_scores(
    coefficients: Float[np.ndarray, "curve basis"],
    products: Float64[np.ndarray, "basis basis"],
    n_components: int,
) -> Float64[np.ndarray, "curve k"]:
    """Scores of curves given by coefficients in a basis whose integrals of products are given."""
    lower = np.linalg.cholesky(products)
    centred = coefficients - np.mean(coefficients, axis=0, dtype=np.float64)
    return _scores(centred @ lower, n_components, lambda vectors: np.linalg.solve(lower.T, vectors))


def _scores(centred: np.ndarray, n_components: int, loadings_of) -> np.ndarray:
    """Projections on the leading right singular vectors; NaN beyond the rank.

    Each component's sign makes its largest loading (as `loadings_of` gives it) positive.
    """
    out = np.full((len(centred), n_components), np.nan)
    vectors = _leading(centred, n_components)
    loadings = loadings_of(vectors)
    largest = np.argmax(np.abs(loadings), axis=0)
    sign = np.sign(np.take_along_axis(loadings, largest[None], axis=0)[0])
    out[:, : vectors.shape[1]] = centred @ (vectors * sign)
    return out


def _leading(centred: np.ndarray, n_components: int) -> np.ndarray:
    """Right singular vectors by falling singular value, from the smaller of the two products of the matrix."""
    n, p = centred.shape
    if p <= n:
        values, vectors = np.linalg.eigh(centred.T @ centred)
    else:
        values, left = np.linalg.eigh(centred @ centred.T)
        size = np.sqrt(np.maximum(values, 0))
        vectors = np.divide(centred.T @ left, size, out=np.zeros((p, n)), where=size > 0)
    order = np.argsort(values)[::-1][:n_components]
    kept = order[values[order] > _RANK_TOLERANCE * max(values.max(initial=0.0), 1e-300)]
    return vectors[:, kept]
