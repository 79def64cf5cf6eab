"""Two signals: the lag at which they agree best, the strongest of many pairs, and the kind of their relation.

Bands and rules are this project's; that relations are ranked by Spearman's ρ over lags of up to three days is
WearableQA's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa.primitives import Array, Number, argmax_margin, op

LAGS = (-3, -2, -1, 0, 1, 2, 3)  # days by which the second signal is read later than the first
WEAK, MODERATE, STRONG = 0.25, 0.5, 0.65  # |ρ| from which a steady relation is called so
NONE_BELOW = 0.15  # |ρ| of the window and of both halves that is asked about as close to none
NOT_NONE = 0.2  # halfway to weak: |ρ| from which it is no longer none when the record is perturbed
TURNING = 0.4  # |ρ| of both halves, of opposite sign
HALF_STRONG, HALF_NONE = 0.6, 0.2  # |ρ| of one half from, of the other one below
KINDS = (
    "strong_positive",
    "moderate_positive",
    "weak_positive",
    "strong_negative",
    "moderate_negative",
    "weak_negative",
    "none",
    "positive_then_negative",
    "negative_then_positive",
    "one_half",
)


@op("peak_lag")
def peak_lag(rho: Array, *, lags: Sequence[int]) -> Float64[np.ndarray, "variant 4"]:
    """Lag of the largest |ρ|, its sign, its size, and how far it lies above the second; NaN lags do not compete."""
    found = argmax_margin(np.abs(rho))
    best = np.where(np.isnan(found[:, :1]), 0, found[:, :1]).astype(np.int64)
    at_best = np.take_along_axis(rho, best, axis=1)
    lag = np.asarray(lags, np.float64)[best]
    out = np.concatenate([lag, np.sign(at_best), found[:, 1:]], axis=1)
    return np.where(np.isnan(found[:, :1]), np.nan, out)


@op("strongest")
def strongest(*pairs: Array, codes: Sequence[int]) -> Float64[np.ndarray, "variant 4"]:
    """The pair with the largest |ρ| at any of its lags.

    Args:
        pairs: ρ of each pair by lag.
        codes: by which the answer names each pair.

    Returns:
        Code, sign of that ρ, its size, and how far it lies above the best of any other pair.
    """
    rho = np.stack(np.broadcast_arrays(*pairs), axis=1)  # variant, pair, lag
    size = np.where(np.isnan(rho), -1.0, np.abs(rho))
    at_best = np.take_along_axis(rho, size.argmax(axis=2)[..., None], axis=2)[..., 0]
    found = argmax_margin(np.abs(at_best))
    best = np.where(np.isnan(found[:, :1]), 0, found[:, :1]).astype(np.int64)
    code = np.asarray(codes, np.float64)[best]
    out = np.concatenate([code, np.sign(np.take_along_axis(at_best, best, axis=1)), found[:, 1:]], axis=1)
    return np.where(np.isnan(found[:, :1]), np.nan, out)


@op("all_alike")
def all_alike(*rows: Array) -> Number:
    """1 where several answers are the same row of numbers, else 0; an undefined one is like no other."""
    same = [(row == rows[0]).all(axis=1) for row in rows]
    return np.all(np.broadcast_arrays(*same), axis=0).astype(np.float64)[:, None]


@op("relation_kind")
def relation_kind(whole: Number, first: Number, second: Number) -> Number:
    """Index into `KINDS` of the relation with these ρ in the window and in its halves; NaN where none fits.

    A relation that only one half shows is never called steady. None reaches halfway to weak: one of the fourteen days
    of a half moves ρ by 0.1, so that no window would stay below 0.15 without each of them. Which windows are close
    enough to none to be asked about is for a margin.
    """
    a, b = np.abs(first), np.abs(second)
    size = np.abs(whole)
    sign = np.sign(whole)
    with np.errstate(invalid="ignore"):
        one_half = (np.maximum(a, b) >= HALF_STRONG) & (np.minimum(a, b) < HALF_NONE)
        turning = (np.minimum(a, b) >= TURNING) & (np.sign(first) == -np.sign(second))
        none = np.maximum(np.maximum(a, b), size) < NOT_NONE
        steady = (np.sign(first) == sign) & (np.sign(second) == sign) & (size >= WEAK) & ~one_half & ~none
    band = np.where(size >= STRONG, 0.0, np.where(size >= MODERATE, 1.0, 2.0))
    out = np.where(steady, band + np.where(sign > 0, 0.0, 3.0), np.nan)
    out = np.where(none, 6.0, out)
    out = np.where(turning, np.where(first > 0, 7.0, 8.0), out)
    out = np.where(one_half, 9.0, out)
    return np.where(np.isnan(whole) | np.isnan(first) | np.isnan(second), np.nan, out)
