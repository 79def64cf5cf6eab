"""From what a device wrote to what was measured: zero-to-missing and the two day filters of OpenMHC."""

from __future__ import annotations

import warnings

import numpy as np
from jaxtyping import Bool, Float, Float32

from wearjax.channels import CHANNELS, HEART_RATE, MINUTES_PER_DAY, SLEEP

SLEEP_MINUTES_MIN = 180
WEAR_FRACTION_MIN = 0.5
# A phone or watch that wrote only zeros all day was not carried; flights and workouts are rare enough to stay.
_ALL_ZERO_MEANS_ABSENT = tuple(
    i for i, c in enumerate(CHANNELS) if c.min_variance is not None and i != HEART_RATE
)

_FLOAT_SLACK = 1e-3  # relative; spreading a sample over minutes rounds in float32
_LOW = np.asarray([c.plausible[0] for c in CHANNELS])[:, None]
_HIGH = np.asarray([c.plausible[1] * (1 + _FLOAT_SLACK) for c in CHANNELS])[:, None]
_FLAG = np.asarray([not c.is_continuous for c in CHANNELS])[:, None]


def zero_to_nan(values: Float32[np.ndarray, "channel=19 time"]) -> Float32[np.ndarray, "channel=19 time"]:
    """Turns the zeros that mean "not measured" into NaN (OpenMHC cleaning rule; applies once to any length).

    In order: every zero of heart rate; the whole of a step, distance or energy channel that holds nothing but
    zeros; the zeros of a sleep channel whose sum stays below 180. Applying it twice changes nothing more.
    """
    out = np.array(values, dtype=np.float32, copy=True)
    heart = out[HEART_RATE]
    heart[heart == 0] = np.nan
    for c in _ALL_ZERO_MEANS_ABSENT:
        if not np.any((out[c] != 0) & ~np.isnan(out[c])):
            out[c] = np.nan
    for c in SLEEP:
        if np.nansum(out[c], dtype=np.float64) < SLEEP_MINUTES_MIN:
            out[c][out[c] == 0] = np.nan
    return out


def nan_to_zero(day: Float32[np.ndarray, "channel=19 time"]) -> Float32[np.ndarray, "channel=19 time"]:
    """Gives back the zeros that `zero_to_nan` took from a day, for rules that run over more than a day.

    A step, distance or energy channel without any value was all zeros, and so were the gaps of a sleep channel whose
    sum stays below 180. Other gaps were there before the rule and stay; so do those of heart rate, of which zero is
    no reading. Of such a channel the rule keeps no trace of what else was missing: it comes back as zeros throughout.
    """
    out = np.array(day, dtype=np.float32, copy=True)
    for c in _ALL_ZERO_MEANS_ABSENT:
        if np.isnan(out[c]).all():
            out[c] = 0
    for c in SLEEP:
        if np.nansum(out[c], dtype=np.float64) < SLEEP_MINUTES_MIN and not (out[c] == 0).any():
            out[c][np.isnan(out[c])] = 0
    return out


def implausible(
    values: Float32[np.ndarray, "*day channel=19 time"],
) -> Bool[np.ndarray, "*day channel=19 time"]:
    """Measured values outside the plausible range of their channel, and flags that are neither 0 nor 1."""
    return ~np.isnan(values) & ((values < _LOW) | (values > _HIGH) | (_FLAG & (values != 0) & (values != 1)))


def channel_variance(values: Float32[np.ndarray, "channel=19 time"]) -> Float32[np.ndarray, "channel=19"]:
    """Population variance of the measured values per channel; NaN with fewer than two of them."""
    count = np.sum(~np.isnan(values), axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an unmeasured channel has no variance
        variance = np.nanvar(values, axis=1, dtype=np.float64)
    variance = np.minimum(variance, np.finfo(np.float32).max)  # of values that nothing measures
    return np.where(count >= 2, variance, np.nan).astype(np.float32)


def enough_wear(
    nonwear_minutes: Float[np.ndarray, "*day"], wear_fraction_min: float = WEAR_FRACTION_MIN
) -> Bool[np.ndarray, "*day"]:
    """True where the device was worn for at least `wear_fraction_min` of the day (bound included)."""
    return np.asarray(nonwear_minutes) <= (1 - wear_fraction_min) * MINUTES_PER_DAY


def enough_variance(
    variance: Float[np.ndarray, "*day channel"], thresholds: dict[int, float] | None = None
) -> Bool[np.ndarray, "*day"]:
    """False where any checked channel varies less than its threshold; NaN variance never drops a day."""
    if thresholds is None:
        thresholds = {i: c.min_variance for i, c in enumerate(CHANNELS) if c.min_variance is not None}
    variance = np.asarray(variance)
    flat = [variance[..., i] < limit for i, limit in thresholds.items() if i < variance.shape[-1]]
    return ~np.any(flat, axis=0)


def retained(
    nonwear_minutes: Float[np.ndarray, "*day"], variance: Float[np.ndarray, "*day channel"]
) -> Bool[np.ndarray, "*day"]:
    """Days that pass both filters: the only ones that models and benchmarks see by default."""
    return enough_wear(nonwear_minutes) & enough_variance(variance)
