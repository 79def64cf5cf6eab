"""ARIMA(2,1,0) without constant by maximum likelihood, for several short series at once.

The likelihood is that of the state-space form with an almost diffuse start (Durbin and Koopman 2012, sections 5.1
and 5.6), as statsmodels sets it up: the level before the first value has variance 1e6, the differences start in their
stationary distribution, and the first value is conditioned on. Given the first value only the next two
innovations depend on the start; the others are those of an autoregression and enter through sums of products, so
that one evaluation costs the same for any length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

LEVEL_VARIANCE = 1e6
LENGTH_MIN = 4
_ITERATIONS = 60
_STEP = 1e-4  # of the difference quotients
_LONGEST_STEP = 1.5
_TOLERANCE = 1e-7
# Keeps degenerate series (an exact autoregression has no maximum) inside numbers that can be computed with.
_BOUNDS = np.array([6.0, 6.0, 40.0])

Parameters = Float64[np.ndarray, "*batch 3"]


def fit(series: Sequence[Float64[np.ndarray, "_"]]) -> Float64[np.ndarray, "series 3"]:
    """(ar.L1, ar.L2, sigma2) of each series; a constant one has (0, 0, 0).

    Args:
        series: finite values of at least `LENGTH_MIN` days each; the lengths may differ.
    """
    out = np.zeros((len(series), 3))
    differences = [np.diff(values) for values in series]
    moving = np.array([bool(d.any()) for d in differences], bool)
    if not moving.any():
        return out
    scale = np.array([np.sqrt(np.mean(d**2)) for d in differences])[moving]
    chosen = np.flatnonzero(moving).tolist()
    data = _Sums([series[i] / s for i, s in zip(chosen, scale, strict=True)], LEVEL_VARIANCE / scale**2)
    coefficients, variance = _coefficients(_maximum(data))
    out[chosen, :2] = coefficients
    out[chosen, 2] = variance * scale**2
    return out


def log_likelihood(values: Float64[np.ndarray, "day"], ar: tuple[float, float], sigma2: float) -> float:
    """The log-likelihood that `fit` maximizes, of one series at given parameters inside the stationary region."""
    second = np.arctanh(ar[1])
    first = np.arctanh(ar[0] / (1 - ar[1]))
    data = _Sums([np.asarray(values, np.float64)], np.array([LEVEL_VARIANCE]))
    return float(data.log_likelihood(np.array([[[first, second, np.log(sigma2)]]]))[0, 0])


class _Sums:
    """What the likelihood needs of each series of differences d_2 .. d_n.

    Args:
        series: values, scaled.
        level_variance: of the level before the first value, in the same scale.
    """

    def __init__(self, series: Sequence[np.ndarray], level_variance: Float64[np.ndarray, "series"]):
        self.level_variance = level_variance[:, None]
        self.first = np.array([values[0] for values in series])[:, None]
        self.d2 = np.array([values[1] - values[0] for values in series])[:, None]
        self.d3 = np.array([values[2] - values[1] for values in series])[:, None]
        self.n = np.array([len(values) for values in series], np.float64)[:, None]
        self.products = np.stack([_lagged_products(np.diff(values)) for values in series])[:, None]

    def start(self) -> Float64[np.ndarray, "series 3"]:
        """Least squares as free parameters, kept well inside the stationary region."""
        s00, s01, s02, s11, s12, s22 = np.moveaxis(self.products[:, 0], -1, 0)
        determinant = s11 * s22 - s12**2
        regular = determinant > 1e-10 * np.maximum(s11 * s22, 1e-300)
        safe = np.where(regular, determinant, 1)
        ar1 = np.where(regular, (s01 * s22 - s02 * s12) / safe, 0)
        ar2 = np.where(regular, (s02 * s11 - s01 * s12) / safe, 0)
        second = np.clip(ar2, -0.9, 0.9)
        first = np.clip(ar1 / (1 - second), -0.9, 0.9)
        ar1, ar2 = first * (1 - second), second
        residual = s00 - 2 * (ar1 * s01 + ar2 * s02) + ar1**2 * s11 + 2 * ar1 * ar2 * s12 + ar2**2 * s22
        variance = np.maximum(residual / self.n[:, 0], 1e-6)
        return np.stack([np.arctanh(first), np.arctanh(second), np.log(variance)], axis=1)

    def log_likelihood(
        self, free: Float64[np.ndarray, "series point 3"]
    ) -> Float64[np.ndarray, "series point"]:
        """Log-likelihood of each series at several points of the free parameters."""
        coefficients, variance = _coefficients(free)
        a, b = coefficients[..., 0], coefficients[..., 1]
        # Stationary covariance of (d_1, d_0), and what the first value tells of it.
        gamma0 = variance * (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))
        gamma1 = gamma0 * a / (1 - b)
        whole = gamma0 + self.level_variance
        mean1, mean0 = gamma0 / whole * self.first, gamma1 / whole * self.first
        p11 = gamma0 * self.level_variance / whole
        p10 = gamma1 * self.level_variance / whole
        p00 = gamma0 - gamma1**2 / whole
        # d_2 given the first value.
        v2 = self.d2 - a * mean1 - b * mean0
        f2 = a**2 * p11 + 2 * a * b * p10 + b**2 * p00 + variance
        # d_3 given both.
        covariance = a * p11 + b * p10
        mean1 = mean1 + covariance / f2 * v2
        p11 = np.maximum(p11 - covariance**2 / f2, 0)
        v3 = self.d3 - a * self.d2 - b * mean1
        f3 = b**2 * p11 + variance
        s00, s01, s02, s11, s12, s22 = np.moveaxis(self.products, -1, 0)
        rest = s00 - 2 * (a * s01 + b * s02) + a**2 * s11 + 2 * a * b * s12 + b**2 * s22
        return -0.5 * (
            (self.n - 1) * np.log(2 * np.pi)
            + np.log(f2) + v2**2 / f2 + np.log(f3) + v3**2 / f3
            + (self.n - 3) * np.log(variance) + np.maximum(rest, 0) / variance
        )  # fmt: skip


def _coefficients(free: Parameters):
    """Coefficients and variance; partial autocorrelations are hyperbolic tangents, which keeps it stationary."""
    first, second = np.tanh(free[..., 0]), np.tanh(free[..., 1])
    return np.stack([first * (1 - second), second], axis=-1), np.exp(free[..., 2])


def _lagged_products(d: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "6"]:
    """Sums over d_4 .. of products of d_t, d_(t-1) and d_(t-2): 00, 01, 02, 11, 12, 22."""
    now, before, earlier = d[2:], d[1:-1], d[:-2]
    return np.array(
        [now @ now, now @ before, now @ earlier, before @ before, before @ earlier, earlier @ earlier]
    )


_PAIRS = ((0, 1), (0, 2), (1, 2))
_STENCIL = _STEP * np.array(
    [
        [0, 0, 0],
        *(sign * np.eye(3)[i] for i in range(3) for sign in (1, -1)),
        *(s * np.eye(3)[i] + r * np.eye(3)[j] for i, j in _PAIRS for s in (1, -1) for r in (1, -1)),
    ]
)


def _maximum(data: _Sums) -> Float64[np.ndarray, "series 3"]:
    """Damped Newton steps from difference quotients; a step that does not climb is halved towards the gradient."""
    at = np.clip(data.start(), -_BOUNDS, _BOUNDS)
    damping = np.full(len(at), 1e-3)
    for _ in range(_ITERATIONS):
        values, gradient, curvature = _quotients(data, at)
        step = np.linalg.solve(_positive(curvature, damping), gradient[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step = step * np.minimum(1, _LONGEST_STEP / np.maximum(longest, 1e-300))
        there = np.clip(at + step, -_BOUNDS, _BOUNDS)
        climbs = data.log_likelihood(there[:, None])[:, 0] >= values
        moved = np.abs(there - at).max(axis=1)
        at = np.where(climbs[:, None], there, at)
        damping = np.where(climbs, np.maximum(damping / 10, 1e-9), np.minimum(damping * 10, 1e6))
        if np.all(moved < _TOLERANCE):
            break
    return at


def _quotients(data: _Sums, at: Float64[np.ndarray, "series 3"]):
    """Value, gradient and negative second derivatives of the log-likelihood."""
    values = data.log_likelihood(at[:, None] + _STENCIL)
    here, plus, minus = values[:, 0], values[:, 1:7:2], values[:, 2:7:2]
    gradient = (plus - minus) / (2 * _STEP)
    curvature = np.empty((len(at), 3, 3))
    for i in range(3):
        curvature[:, i, i] = -(plus[:, i] - 2 * here + minus[:, i]) / _STEP**2
    for place, (i, j) in enumerate(_PAIRS):
        pp, pm, mp, mm = np.moveaxis(values[:, 7 + 4 * place : 11 + 4 * place], 1, 0)
        curvature[:, i, j] = curvature[:, j, i] = -(pp - pm - mp + mm) / (4 * _STEP**2)
    return here, gradient, curvature


def _positive(curvature: Float64[np.ndarray, "series 3 3"], damping: Float64[np.ndarray, "series"]):
    """A positive definite matrix near the curvature: eigenvalues by size, raised by the damping."""
    values, vectors = np.linalg.eigh(curvature)
    size = np.abs(values)
    floor = 1e-8 * size.max(axis=1, keepdims=True) + 1e-12
    raised = np.maximum(size, floor) + damping[:, None] * size.max(axis=1, keepdims=True)
    return (vectors * raised[:, None]) @ vectors.swapaxes(1, 2)
