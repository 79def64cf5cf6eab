"""What stands in where a method gives no number, and how often it had to.

Every method is scored on every hidden cell: a non-finite prediction is replaced by a training statistic of
its channel and counted (OpenMHC evaluation, imputation fallback).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from wearjax.channels import BINARY, N_CHANNELS
from wearjax.days.store import Days
from wearjax.errors import MethodError
from wearjax.predict.imputers import statistical

STD_MIN = 1e-6


@dataclass(frozen=True, eq=False)
class FallbackStatistics:
    """Training statistics that the evaluation itself uses, whatever the method.

    Attributes:
        stds: population standard deviation of each channel, by which display errors are divided; 1 with fewer
            than two values, never below 1e-6.
        fill: mean of each continuous channel, majority class of each binary one; 0 where there is no value.
    """

    stds: Float32[np.ndarray, "channel=19"]
    fill: Float32[np.ndarray, "channel=19"]


def fit(batches: Iterable[Float32[np.ndarray, "batch channel=19 time"]]) -> FallbackStatistics:
    """Statistics of all finite cells of the training days, in one pass with float64 sums.

    Raises:
        MethodError: a batch that does not have 19 channels.
    """
    count, total, squares = (np.zeros(N_CHANNELS) for _ in range(3))
    for batch in batches:
        if batch.ndim != 3 or batch.shape[1] != N_CHANNELS:
            raise MethodError(f"training batch: expected (days, {N_CHANNELS}, time), got {batch.shape}")
        finite = np.isfinite(batch)
        values = np.where(finite, batch, 0).astype(np.float64)
        count += finite.sum(axis=(0, 2))
        total += values.sum(axis=(0, 2))
        squares += np.einsum("bct,bct->c", values, values)
    mean = total / np.maximum(count, 1)
    variance = np.maximum(squares / np.maximum(count, 1) - mean**2, 0)
    stds = np.where(count > 1, np.maximum(np.sqrt(variance), STD_MIN), 1.0)
    fill = mean.copy()
    fill[list(BINARY)] = mean[list(BINARY)] > 0.5
    return FallbackStatistics(stds.astype(np.float32), fill.astype(np.float32))


def fit_days(days: Days, indices: Sequence[int] | np.ndarray) -> FallbackStatistics:
    """`fit` on days of a store."""
    return fit(statistical.day_batches(days, indices))


@dataclass(frozen=True, eq=False)
class Substitution:
    """Predictions without holes, and how many cells of each channel were asked for and replaced."""

    values: Float32[np.ndarray, "batch channel time"]
    substituted: Int64[np.ndarray, " channel"]
    asked: Int64[np.ndarray, " channel"]


def substitute(
    imputed: Float32[np.ndarray, "batch channel time"],
    target_mask: Shaped[np.ndarray, "batch channel time"],
    fill: Float32[np.ndarray, " channel"],
) -> Substitution:
    """Replaces non-finite predictions at target cells by the channel's fill; other cells stay as they are."""
    target = target_mask.astype(bool, copy=False)
    asked = target.sum(axis=(0, 2), dtype=np.int64)
    broken = target & ~np.isfinite(imputed)
    substituted = broken.sum(axis=(0, 2), dtype=np.int64)
    values = np.where(broken, fill[:, None], imputed) if substituted.any() else imputed
    return Substitution(values, substituted, asked)


def overall_rate(substituted: Int64[np.ndarray, "*cell"], asked: Int64[np.ndarray, "*cell"]) -> float:
    """Share of all cells asked for that were replaced; 0 where none was asked for."""
    return float(np.sum(substituted) / max(int(np.sum(asked)), 1))


def channel_rates(
    substituted: Int64[np.ndarray, " channel"], asked: Int64[np.ndarray, " channel"]
) -> dict[str, float]:
    """The same per channel, as `ch_<index>`, for the channels that were asked for."""
    return {f"ch_{c}": float(substituted[c] / asked[c]) for c in np.flatnonzero(asked).tolist()}
