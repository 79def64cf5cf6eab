"""A smooth course through daily numbers that single odd days do not move."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

HALF_WIDTH_DAYS = 14
NEIGHBOURS_LEAST = 5


def weighted_median(values: Float64[np.ndarray, "n"], weights: Float64[np.ndarray, "n"]) -> float:
    """The smallest value at which the weight of it and all below reaches half."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def smooth(
    date: Int64[np.ndarray, "day"], value: Float64[np.ndarray, "day"], at: Int64[np.ndarray, "point"]
) -> Float64[np.ndarray, "point"]:
    """Running median with tricube weights (Cleveland 1979) over 14 days to either side.

    NaN where fewer than five days in reach have a value, or none on one of the two sides (the day itself is on both).
    """
    known = np.isfinite(value)
    date, value = np.asarray(date)[known], np.asarray(value, np.float64)[known]
    out = np.full(len(at), np.nan)
    for i, day in enumerate(at):
        distance = (date - day) / (HALF_WIDTH_DAYS + 1)
        near = np.abs(distance) < 1
        if near.sum() >= NEIGHBOURS_LEAST and distance[near].min() <= 0 <= distance[near].max():
            out[i] = weighted_median(value[near], (1 - np.abs(distance[near]) ** 3) ** 3)
    return out
