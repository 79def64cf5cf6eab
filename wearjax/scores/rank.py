"""Average ranks of methods."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def average_ranks(
    values: Float[np.ndarray, "method ..."], *, descending: bool = False
) -> Float[np.ndarray, "method ..."]:
    """Ranks along the first axis: 1 is best, ties share their mean rank, what is not finite has none (NaN).

    Args:
        descending: the largest value is the best (a score) instead of the smallest (an error).
    """
    present = np.isfinite(values)
    sign = -1.0 if descending else 1.0
    keyed = np.where(present, sign * values, np.nan)
    rank = np.full(values.shape, 0.5)
    for other in keyed:  # comparisons with NaN are false
        rank += (other < keyed) + 0.5 * (other == keyed)
    rank[~present] = np.nan
    return rank
