"""Normalization of minute values: statistics of the training days, kept as JSON, and two ways to apply them.

Continuous channels are centred and scaled; 0/1 channels pass unchanged, so their entries are mean 0, std 1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64

from wearjax import json_text
from wearjax.channels import CONTINUOUS, HEART_RATE, N_CHANNELS
from wearjax.days.openmhc import OpenMHCDays
from wearjax.days.store import Days
from wearjax.errors import ConfigError, StoreError

EPSILON = 1e-8
# A channel that hardly varies is only centred: dividing by such a spread would amplify noise.
STD_MIN = 1e-6
_DAYS_AT_ONCE = 64
_SHIPPED = {"minute": "normalization_stats.json", "hour": "normalization_stats_hourly.json"}


@dataclass(frozen=True, eq=False)
class NormalizationStats:
    """Mean and spread of each channel, in its stored unit; a value is scaled by `std + epsilon`."""

    means: Float64[np.ndarray, "channel=19"]
    stds: Float64[np.ndarray, "channel=19"]
    epsilon: float = EPSILON

    def __post_init__(self):
        for name in ("means", "stds"):
            array = np.asarray(getattr(self, name), np.float64)
            if array.shape != (N_CHANNELS,) or not np.isfinite(array).all():
                raise ConfigError(f"normalization {name}: expected {N_CHANNELS} finite numbers")
            object.__setattr__(self, name, array)
        if np.any(self.stds <= 0):
            raise ConfigError("normalization stds: every one must be above 0")

    def to_json(self) -> str:
        """The form that OpenMHC stores keep, readable by its tools."""
        return json.dumps(
            {
                "means": self.means.tolist(),
                "stds": self.stds.tolist(),
                "channels": list(CONTINUOUS),
                "epsilon": self.epsilon,
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> NormalizationStats:
        """Reads what `to_json` wrote; channels outside `channels` become mean 0, std 1. Raises StoreError."""
        try:
            content = json_text.loads(text)
            means = np.array(content["means"], np.float64)
            stds = np.array(content["stds"], np.float64)
            epsilon = float(content.get("epsilon", EPSILON))
            given = np.zeros(N_CHANNELS, bool)
            given[list(content.get("channels", CONTINUOUS))] = True
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise StoreError(f"normalization: not readable as statistics ({error!r})") from None
        if means.shape != (N_CHANNELS,) or stds.shape != (N_CHANNELS,):
            raise StoreError(
                f"normalization: expected {N_CHANNELS} means and stds, found {means.shape} and {stds.shape}"
            )
        return cls(np.where(given, means, 0.0), np.where(given, stds, 1.0), epsilon)

    @classmethod
    def load(cls, path: str | os.PathLike) -> NormalizationStats:
        """Reads a statistics file. Raises StoreError naming the file."""
        try:
            return cls.from_json(Path(path).read_text())
        except (OSError, UnicodeDecodeError, StoreError, ConfigError) as error:
            raise StoreError(f"{path}: {error}") from None

    @classmethod
    def identity(cls) -> NormalizationStats:
        """Statistics that leave values as they are, up to epsilon."""
        return cls(np.zeros(N_CHANNELS), np.ones(N_CHANNELS))


def shipped(days: Days, unit: Literal["minute", "hour"]) -> Path | None:
    """The statistics file that came with an OpenMHC data root, in `processed/` or at its top; None without one.

    The published models were trained with it, and not every detail of its making is published, so that statistics
    fitted to the same days may differ. A store imported from the root does not carry it.
    """
    if not isinstance(days, OpenMHCDays):
        return None
    places = (days.path / "processed" / _SHIPPED[unit], days.path / _SHIPPED[unit])
    return next((file for file in places if file.exists()), None)


def fit(days: Days, indices: Sequence[int] | np.ndarray, *, epsilon: float = EPSILON) -> NormalizationStats:
    """Statistics of the measured minutes of some days, the zeros of heart rate left out.

    Sums run in float64; the population variance is E[x²] − E[x]², not below 0. A channel without values, or
    with a spread of 1e-6 or less, keeps std 1 (OpenMHC data layer, normalization files).
    """
    chosen = [int(index) for index in indices]
    rows = list(CONTINUOUS)
    count, total, squares = (np.zeros(len(rows)) for _ in range(3))
    for start in range(0, len(chosen), _DAYS_AT_ONCE):
        batch = days.batch(chosen[start : start + _DAYS_AT_ONCE])[:, rows]
        valid = np.isfinite(batch)
        valid[:, rows.index(HEART_RATE)] &= batch[:, rows.index(HEART_RATE)] != 0
        measured = np.where(valid, batch, 0).astype(np.float64)
        count += valid.sum(axis=(0, 2))
        total += measured.sum(axis=(0, 2))
        squares += np.einsum("bct,bct->c", measured, measured)
    means, stds = np.zeros(N_CHANNELS), np.ones(N_CHANNELS)
    counted = np.maximum(count, 1)
    means[rows] = total / counted
    spread = np.sqrt(np.maximum(squares / counted - means[rows] ** 2, 0))
    stds[rows] = np.where(spread > STD_MIN, spread, 1.0)
    return NormalizationStats(means, stds, epsilon)


def normalize(
    values: Float32[np.ndarray, "*day channel=19 time"], stats: NormalizationStats
) -> Float32[np.ndarray, "*day channel=19 time"]:
    """`(x - mean) / (std + epsilon)` per channel; NaN stays NaN."""
    means, scales = _columns(stats)
    return ((values - means) / scales).astype(np.float32)


def denormalize(
    values: Float32[np.ndarray, "*day channel=19 time"], stats: NormalizationStats
) -> Float32[np.ndarray, "*day channel=19 time"]:
    """The inverse of `normalize`."""
    means, scales = _columns(stats)
    return (values * scales + means).astype(np.float32)


def _columns(stats: NormalizationStats) -> tuple[np.ndarray, np.ndarray]:
    return stats.means[:, None], stats.stds[:, None] + stats.epsilon


def hybrid_statistics(
    values: Float32[np.ndarray, "*day channel time"],
    *,
    mean_prior: Sequence[float],
    std_prior: Sequence[float],
    prior_count: float,
) -> tuple[Float32[np.ndarray, "*day channel"], Float32[np.ndarray, "*day channel"]]:
    """Mean and spread of each day and channel, blended with priors worth `prior_count` values.

    With n measured values of mean m and sample variance s² (divisor n − 1), priors μ, σ and weight k:
    mean = (kμ + nm) / (k + n) and variance = (kσ² + ns²) / (k + n), the distance of m from μ left out. A
    single value has s² = 0, an unmeasured channel has its prior. k → ∞ normalizes by the priors alone. In
    float32 throughout, as the reference computes it: a normalized value near zero keeps few enough digits to
    show it.
    """
    prior_means, prior_stds = np.asarray(mean_prior, np.float32), np.asarray(std_prior, np.float32)
    n_channels = values.shape[-2]
    if prior_means.shape != (n_channels,) or prior_stds.shape != (n_channels,):
        raise ConfigError(
            f"hybrid normalization: {n_channels} channels need as many priors, "
            f"got {prior_means.shape} means and {prior_stds.shape} stds"
        )
    prior = np.float32(prior_count)
    valid = np.isfinite(values)
    n = valid.sum(axis=-1).astype(np.float32)
    own_mean = _sum_by_lanes(np.where(valid, values, np.float32(0))) / np.maximum(n, 1)
    residual = np.where(valid, values - own_mean[..., None], np.float32(0))
    own_variance = _sum_by_lanes(np.square(residual)) / np.maximum(n - 1, 1)
    # Without a prior (weight 0) an unmeasured channel would divide by zero; its values are all NaN anyway.
    weight = np.where(prior + n > 0, prior + n, np.float32(1))
    mean = (prior * prior_means + n * own_mean) / weight
    variance = (prior * np.square(prior_stds) + n * own_variance) / weight
    return mean, np.sqrt(variance)


def _sum_by_lanes(values: np.ndarray, lanes: int = 8) -> np.ndarray:
    """Float32 sum over the last axis in the order of an 8-lane vector unit: the rest, then lane by lane."""
    whole = values.shape[-1] // lanes * lanes
    blocks = values[..., :whole].reshape(*values.shape[:-1], -1, lanes)
    parts = np.concatenate([values[..., whole:], blocks.sum(axis=-2, dtype=np.float32)], axis=-1)
    return np.add.accumulate(parts, axis=-1, dtype=np.float32)[..., -1]


def hybrid_normalize(
    values: Float32[np.ndarray, "*day channel time"],
    *,
    mean_prior: Sequence[float],
    std_prior: Sequence[float],
    prior_count: float,
    epsilon: float = EPSILON,
) -> Float32[np.ndarray, "*day channel time"]:
    """Normalizes each day by its statistics blended with priors, see `hybrid_statistics`; NaN stays."""
    mean, std = hybrid_statistics(values, mean_prior=mean_prior, std_prior=std_prior, prior_count=prior_count)
    return (values - mean[..., None]) / (std[..., None] + np.float32(epsilon))
