"""Minute days as hours: the 24 x 38 form of the hourly models and probes.

Rules as in OpenMHC's hourly day set: in each block of 60 minutes, flags take the maximum, heart rate the mean
and the other channels the sum of what was measured; an hour without a measured minute is missing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.channels import CHANNELS, N_CHANNELS

MINUTES_PER_HOUR = 60
_SUMS = [i for i, c in enumerate(CHANNELS) if c.hourly == "sum"]
_MEANS = [i for i, c in enumerate(CHANNELS) if c.hourly == "mean"]
_MAXIMA = [i for i, c in enumerate(CHANNELS) if c.hourly == "max"]


def aggregate(values: Float32[np.ndarray, "*batch 19 minute"]) -> Float32[np.ndarray, "*batch 19 hour"]:
    """Hours of one or several minute arrays; NaN = not measured, before and after.

    Sums and means are taken in float64. The length must be whole hours: ValueError otherwise.
    """
    if values.shape[-2] != N_CHANNELS or values.shape[-1] % MINUTES_PER_HOUR:
        raise ValueError(f"expected (..., {N_CHANNELS}, whole hours of minutes), got {values.shape}")
    blocks = values.reshape(*values.shape[:-1], -1, MINUTES_PER_HOUR)
    known = ~np.isnan(blocks)
    count = known.view(np.uint8).sum(axis=-1, dtype=np.uint8)  # at most 60
    out = np.empty(count.shape, np.float32)
    added = [*_SUMS, *_MEANS]
    filled = np.where(known[..., added, :, :], blocks[..., added, :, :], 0)
    total = filled.astype(np.float64).sum(axis=-1)
    out[..., _SUMS, :] = total[..., : len(_SUMS), :]
    out[..., _MEANS, :] = total[..., len(_SUMS) :, :] / np.maximum(count[..., _MEANS, :], 1)
    out[..., _MAXIMA, :] = np.fmax.reduce(blocks[..., _MAXIMA, :, :], axis=-1)
    out[count == 0] = np.nan
    return out


def model_form(hours: Float32[np.ndarray, "*batch 19 hour"]) -> Float32[np.ndarray, "*batch hour 38"]:
    """Time-major values (NaN at missing) followed by the missing mask (1 = missing)."""
    return np.concatenate([hours, np.isnan(hours)], axis=-2, dtype=np.float32).swapaxes(-1, -2)


def stored_form(
    hours: Float32[np.ndarray, "*batch 19 hour"],
) -> tuple[Float32[np.ndarray, "*batch 19 hour"], Float32[np.ndarray, "*batch 19 hour"]]:
    """(values, mask) as OpenMHC stores them: zero where missing, and 1 where missing."""
    missing = np.isnan(hours)
    return np.where(missing, np.float32(0), hours), missing.astype(np.float32)


def valid_hours(hours: Float32[np.ndarray, "*batch 19 hour"]) -> Int64[np.ndarray, "*batch"]:
    """Number of hours with any measured channel."""
    return np.asarray(np.sum(~np.isnan(hours).all(axis=-2), axis=-1), np.int64)
