"""Intervals from bootstrap draws: percentile, and bias-corrected and accelerated (BCa; Efron, 1987)."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

LEVEL = 0.95
_NORMAL = NormalDist()


def percents(level: float = LEVEL) -> tuple[float, float]:
    """The two percentiles that bound the central `level`."""
    tail = 50.0 * (1.0 - level)
    return tail, 100.0 - tail


def percentile(draws: Float[np.ndarray, " draw"], *, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval of the finite draws; NaN without any."""
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return math.nan, math.nan
    low, high = np.percentile(finite, percents(level))
    return float(low), float(high)


def acceleration(jackknife: Float[np.ndarray, " participant"]) -> float:
    """A sixth of the skewness of the leave-one-out values, sign turned; 0 where they do not vary."""
    finite = jackknife[np.isfinite(jackknife)]
    if len(finite) < 2:
        return 0.0
    deviation = finite.mean() - finite
    spread = float(np.sum(deviation**2))
    if spread == 0.0:
        return 0.0
    return float(np.sum(deviation**3) / (6.0 * spread**1.5))


def bca(
    draws: Float[np.ndarray, " draw"],
    point: float,
    jackknife: Float[np.ndarray, " participant"],
    *,
    level: float = LEVEL,
) -> tuple[float, float]:
    """BCa interval of one statistic.

    Falls back to the percentile interval where the correction is undefined; when all draws are equal the
    interval is the point itself.

    Args:
        point: the statistic of the full sample.
        jackknife: the statistic with each participant left out.
    """
    finite = draws[np.isfinite(draws)]
    if not len(finite) or not math.isfinite(point):
        return percentile(draws, level=level)
    if np.all(finite == finite[0]):
        return point, point
    n = len(finite)
    below = min(max(np.count_nonzero(finite < point) / n, 0.5 / n), 1.0 - 0.5 / n)
    bias = _NORMAL.inv_cdf(below)
    skew = acceleration(jackknife)
    tail = 0.5 * (1.0 - level)
    lower, upper = (_corrected_level(bias, skew, q) for q in (tail, 1.0 - tail))
    if lower is None or upper is None:
        return percentile(draws, level=level)
    low, high = np.percentile(finite, [100.0 * lower, 100.0 * upper])
    return float(low), float(high)


def _corrected_level(bias: float, skew: float, q: float) -> float | None:
    shifted = bias + _NORMAL.inv_cdf(q)
    denominator = 1.0 - skew * shifted
    if not math.isfinite(denominator) or denominator == 0.0:
        return None
    z = bias + shifted / denominator
    return min(max(0.5 * math.erfc(-z / math.sqrt(2.0)), 0.0), 1.0)
