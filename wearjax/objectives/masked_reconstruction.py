"""Masked reconstruction with adaptive and inherited masking (AIM): the pretraining objectives of LSM-2.

Masks, strategies, token removal and the hybrid loss follow the LSM-2 paper (Xu et al. 2025) where the published
OpenMHC code agrees with it, and the code where not: Bernoulli draws instead of exact halves, and a scored patch
counts once however many of its minutes are measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from wearjax import channels
from wearjax.layers import dropout, patch, token_drop
from wearjax.models import lsm2, lsm2_sparse

if TYPE_CHECKING:
    from wearjax.days.normalization import NormalizationStats

SLICE_RATE = 0.5  # share of time indices or channels hidden by the slice strategies
_IS_BINARY = np.isin(np.arange(channels.N_CHANNELS), channels.BINARY)
_IS_HEART_RATE = np.arange(channels.N_CHANNELS) == channels.HEART_RATE


def normalize(values: Float[Array, "B C M"], stats: NormalizationStats) -> tuple[Array, Bool[Array, "B C M"]]:
    """z-scores of continuous channels, binary ones unchanged; zero where missing. Second: where missing.

    Missing values are replaced before any arithmetic, so a NaN reaches neither value nor gradient.
    """
    missing = jnp.isnan(values)
    values = jnp.where(missing, 0.0, values).astype(jnp.float32)
    shift = np.where(_IS_BINARY, 0.0, np.asarray(stats.means, np.float64))
    scale = np.where(_IS_BINARY, 1.0, np.asarray(stats.stds, np.float64) + stats.epsilon)
    scaled = (values - shift.astype(np.float32)[:, None]) / scale.astype(np.float32)[:, None]
    return jnp.where(missing, 0.0, scaled), missing


def denormalize(values: Float[Array, "B C M"], stats: NormalizationStats) -> Float[Array, "B C M"]:
    """Inverse of `normalize` for values without gaps; binary channels unchanged."""
    shift = np.where(_IS_BINARY, 0.0, np.asarray(stats.means, np.float64)).astype(np.float32)
    scale = np.where(_IS_BINARY, 1.0, np.asarray(stats.stds, np.float64) + stats.epsilon).astype(np.float32)
    return values * scale[:, None] + shift[:, None]


def draw_masks(
    keys: jax.Array, n_channels: int, n_times: int, ratio: float
) -> tuple[Bool[Array, "B T"], Float[Array, "B T"]]:
    """Artificial mask of every example, and the uniform numbers that order its tokens for removal.

    One of three strategies an example, equally likely. random: every token with probability `ratio`; temporal:
    every time index with probability 1/2, on all channels; sensor: every channel with probability 1/2, at all
    times. All numbers come from one draw an example.
    """
    n_tokens = n_channels * n_times
    words = dropout.draw_words(keys, 2 * n_tokens + n_times + n_channels + 1)
    cells, order, times, rows, choice = jnp.split(
        words, np.cumsum([n_tokens, n_tokens, n_times, n_channels]).tolist(), axis=1
    )
    shape = (-1, n_channels, n_times)
    random = (cells < dropout.threshold(ratio)).reshape(shape)
    temporal = (times < dropout.threshold(SLICE_RATE))[:, None, :]
    sensor = (rows < dropout.threshold(SLICE_RATE))[:, :, None]
    strategy = (choice % 3)[..., None]
    mask = jnp.where(strategy == 0, random, jnp.where(strategy == 1, temporal, sensor))
    return mask.reshape(-1, n_tokens), (order >> 8).astype(jnp.float32) * np.float32(2.0**-24)


def patch_losses(
    predicted: Float[Array, "B T patch"], target: Float[Array, "B T patch"]
) -> Float[Array, "B C time"]:
    """Loss of each patch: squared error for continuous channels, cross-entropy with logits for binary ones.

    Heart rate scores only minutes whose target is not zero, that is the measured ones (a z-score is exactly
    zero only where it stands for a missing minute).
    """
    by_channel = (target.shape[0], channels.N_CHANNELS, -1, target.shape[-1])
    predicted, target = predicted.astype(jnp.float32).reshape(by_channel), target.reshape(by_channel)
    squared = jnp.square(predicted - target)
    counted = jnp.where(_IS_HEART_RATE[:, None, None], target != 0.0, True)
    squared = jnp.where(counted, squared, 0.0).sum(axis=-1) / jnp.maximum(counted.sum(axis=-1), 1)
    label = jnp.clip(target, 0.0, 1.0)
    entropy = jnp.maximum(predicted, 0.0) - predicted * label + jnp.log1p(jnp.exp(-jnp.abs(predicted)))
    return jnp.where(_IS_BINARY[:, None], entropy.mean(axis=-1), squared)


def _ratio(numerator, denominator):
    return numerator / jnp.maximum(denominator, 1.0)


@dataclass(frozen=True, eq=False)
class _Reconstruction:
    """What the objectives share: keys by the place of an example, and the reduction over the global batch.

    Attributes:
        stats: training statistics of the continuous channels.
        axis_name: mapped axis of data-parallel devices under `pmap` or `shard_map`; the loss, its normaliser and
            the random masks are then those of the global batch. None under plain `jit`.
    """

    stats: NormalizationStats
    axis_name: str | None = None

    def _example_keys(self, key: jax.Array, batch_size: int):
        first = 0 if self.axis_name is None else jax.lax.axis_index(self.axis_name) * batch_size
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(batch_size))
        return jnp.unstack(jax.vmap(jax.random.split)(keys), axis=1)

    def _reduce(self, losses, scored, inherited, binary_weight):
        """Weighted sum over the scored patches of the whole batch by their number; over all if none is scored."""
        weights = scored.astype(jnp.float32)
        is_binary = _IS_BINARY[:, None]
        weighted = losses * jnp.where(is_binary, binary_weight, 1.0)
        sums = {
            "all": (weighted * weights).sum(),
            "scored": weights.sum(),
            "plain": weighted.sum(),
            "tokens": jnp.float32(losses.size),
            "binary": (losses * weights * is_binary).sum(),
            "continuous": (losses * weights * ~is_binary).sum(),
            "scored_binary": (weights * is_binary).sum(),
            "missing": inherited.sum().astype(jnp.float32),
        }
        if self.axis_name is not None:
            sums = jax.lax.psum(sums, self.axis_name)
        loss = jnp.where(
            sums["scored"] > 0, _ratio(sums["all"], sums["scored"]), sums["plain"] / sums["tokens"]
        )
        metrics = {
            "loss_continuous": _ratio(sums["continuous"], sums["scored"] - sums["scored_binary"]),
            "loss_binary": _ratio(sums["binary"], sums["scored_binary"]),
            "masked_fraction": sums["scored"] / sums["tokens"],
            "missing_fraction": sums["missing"] / sums["tokens"],
        }
        return loss, jax.lax.stop_gradient(metrics)


@dataclass(frozen=True, eq=False)
class MaskedReconstruction(_Reconstruction):
    """Loss of an LSM-2 model on a batch of examples of the model's own length: days, or whole weeks."""

    def __call__(
        self, model: lsm2.LSM2, batch: Mapping[str, jax.Array], *, key: jax.Array, train: bool
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Loss and metrics.

        Args:
            batch: `values` float32 (B, 19, minutes) in the units of the channel table, NaN = not measured; other
                entries are ignored.
            key: source of the masks and, if `train`, of dropout. The draw of an example depends on the key
                and on its place in the batch only.

        Returns: the loss, and `loss_continuous`, `loss_binary` (means over the scored patches of either kind),
            `masked_fraction` (scored patches / tokens), `missing_fraction` (tokens hidden by the data).
        """
        config = model.config
        values, missing = normalize(batch["values"], self.stats)
        patches = patch.patchify(values, config.patch)
        inherited = lsm2.inherited_mask(missing, config.patch)
        mask_keys, dropout_keys = self._example_keys(key, values.shape[0])
        artificial, order = draw_masks(
            mask_keys, channels.N_CHANNELS, config.patches_per_channel, config.mask_ratio
        )
        masked = inherited | artificial
        selection = token_drop.keep_lowest(100.0 * masked + order, config.n_kept)
        predicted = model(patches, masked, selection=selection, keys=dropout_keys if train else None)
        losses = patch_losses(predicted, patches)
        scored = (artificial & ~inherited).reshape(losses.shape)
        return self._reduce(losses, scored, inherited, config.binary_weight)


@dataclass(frozen=True, eq=False)
class SparseReconstruction(_Reconstruction):
    """Loss of an LSM-2-Sparse model on a batch of windows of several days.

    Masks, their strategies and the removal of tokens are drawn for each day; the loss is that of the daily
    objective over all patches of the window. A padded day is missing, whatever its slot holds.
    """

    def __call__(
        self, model: lsm2_sparse.LSM2Sparse, batch: Mapping[str, jax.Array], *, key: jax.Array, train: bool
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Loss and metrics, as those of `MaskedReconstruction`.

        Args:
            batch: `values` float32 (B, 19, days · minutes), NaN = not measured, and `day_offsets` (B, days),
                calendar days since the first real day, -1 in padded slots; other entries are ignored.
        """
        config, offsets = model.config, batch["day_offsets"]
        batch_size, n_days = offsets.shape
        padded = jnp.repeat(offsets < 0, config.minutes, axis=1)[:, None]
        values, missing = normalize(jnp.where(padded, jnp.nan, batch["values"]), self.stats)
        days, gaps = (
            lsm2_sparse.split_days(x, n_days).reshape(-1, x.shape[1], config.minutes)
            for x in (values, missing)
        )
        patches, inherited = patch.patchify(days, config.patch), lsm2.inherited_mask(gaps, config.patch)
        mask_keys, dropout_keys = self._example_keys(key, batch_size)
        artificial, order = draw_masks(
            lsm2_sparse.row_keys(mask_keys, n_days),
            channels.N_CHANNELS,
            config.patches_per_channel,
            config.mask_ratio,
        )
        masked = inherited | artificial
        selection = token_drop.keep_lowest(100.0 * masked + order, config.n_kept)
        by_day = lambda x: x.reshape(batch_size, n_days, *x.shape[1:])  # noqa: E731
        predicted = model(
            by_day(patches), by_day(masked), day_offsets=offsets, selection=selection,
            keys=dropout_keys if train else None,
        )  # fmt: skip
        losses = patch_losses(predicted, patch.patchify(values, config.patch))
        scored = lsm2_sparse.join_days(by_day(artificial & ~inherited)).reshape(losses.shape)
        return self._reduce(losses, scored, inherited, config.binary_weight)
