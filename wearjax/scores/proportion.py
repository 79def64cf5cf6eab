"""Shares of right answers: Wilson's interval, McNemar's exact test on pairs, and the chi-squared test of counts."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int

Z_95 = 1.959964  # of the normal distribution, as WearableQA's intervals use it


def wilson(hits: int, n: int, *, z: float = Z_95) -> tuple[float, float]:
    """Score interval of a share (Wilson, 1927); NaN where n is 0.

    Raises:
        ValueError: hits outside 0 to n.
    """
    if not 0 <= hits <= n:
        raise ValueError(f"hits must lie between 0 and n={n}, got {hits}")
    if n == 0:
        return math.nan, math.nan
    p = hits / n
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if hits == 0 else (middle - half) / scale
    high = 1.0 if hits == n else (middle + half) / scale
    return low, high


def mcnemar(first_only: int, second_only: int) -> float:
    """Two-sided exact p-value (McNemar, 1947) of pairs in which one side alone was right; 1 where there is none."""
    n, least = first_only + second_only, min(first_only, second_only)
    tail = ways = 1  # of choosing k of n, from k = 0 on
    for k in range(least):
        ways = ways * (n - k) // (k + 1)
        tail += ways
    return min(1.0, 2 * tail / 2**n)


def chi_squared(
    observed: Int[np.ndarray, " cell"], expected: Float[np.ndarray, " cell"]
) -> tuple[float, float]:
    """Pearson's statistic and its p-value against given shares; NaN without counts.

    Args:
        expected: shares, or counts of any total. A cell where none is expected does not count, unless something was
            observed there: then the statistic is infinite.
    """
    total = observed.sum()
    if total == 0 or expected.sum() == 0:
        return math.nan, math.nan
    wanted = expected / expected.sum() * total
    if np.any((wanted == 0) & (observed > 0)):
        return math.inf, 0.0
    cells = wanted > 0
    statistic = float(np.sum((observed[cells] - wanted[cells]) ** 2 / wanted[cells]))
    from scipy import special

    return statistic, float(special.chdtrc(max(int(cells.sum()) - 1, 1), statistic))


def entropy_bits(counts: Int[np.ndarray, " cell"]) -> float:
    """Shannon entropy of counts, in bits; NaN without any."""
    total = counts.sum()
    if total == 0:
        return math.nan
    share = counts[counts > 0] / total
    return float(-np.sum(share * np.log2(share))) + 0.0
