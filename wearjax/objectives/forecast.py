"""Forecasting: absolute errors of the hours ahead, in units of each channel's spread (OpenMHC, forecasting models)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from wearjax import channels
from wearjax.objectives.masked_imputation import EPSILON

if TYPE_CHECKING:
    from wearjax.days.normalization import NormalizationStats

_CONTINUOUS = np.isin(np.arange(channels.N_CHANNELS), channels.CONTINUOUS)


def standardize(
    values: Float[Array, "B T C"], stats: NormalizationStats
) -> tuple[Float[Array, "B T C"], Bool[Array, "B T C"]]:
    """z-scores of all channels, zero where missing, and where they are observed.

    Missing values are replaced before any arithmetic, so a NaN reaches neither value nor gradient.
    """
    observed = ~jnp.isnan(values)
    shift, scale = _columns(stats)
    scaled = (jnp.where(observed, values, 0.0).astype(jnp.float32) - shift) / scale
    return jnp.where(observed, scaled, 0.0), observed


def restore(scaled: Float[Array, "B T C"], stats: NormalizationStats) -> Float[Array, "B T C"]:
    """The inverse of `standardize` for values without gaps."""
    shift, scale = _columns(stats)
    return scaled * scale + shift


def _columns(stats: NormalizationStats) -> tuple[np.ndarray, np.ndarray]:
    return stats.means.astype(np.float32), (stats.stds + stats.epsilon).astype(np.float32)


@dataclass(frozen=True, eq=False)
class MaskedForecast:
    """Mean absolute error at the observed hours ahead.

    Attributes:
        stats: mean and spread of the hours of the train trajectories, all channels.
        axis_name: mapped axis of data-parallel devices under `pmap` or `shard_map`; loss and dropout are then those
            of the global batch. None under plain `jit`.
    """

    stats: NormalizationStats
    axis_name: str | None = None

    def __call__(
        self, model: Any, batch: Mapping[str, jax.Array], *, key: jax.Array, train: bool
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Loss and metrics.

        Args:
            batch: `values` float32 (B, steps + horizon, 19), hours in the units of the channel table, NaN = missing;
                other entries are ignored.
            key: source of dropout. The draw of an example depends on the key and on its place in the batch only.
            train: drop units, where the model has such a layer.

        Returns: the loss, and `mae_continuous`, `mae_binary` (its parts by kind of channel), `missing_history` and
            `missing_target` (shares of the cells).
        """
        steps = model.config.steps
        scaled, observed = standardize(batch["values"], self.stats)
        history, known = scaled[:, :steps], observed[:, :steps]
        wanted, scored = scaled[:, steps:], observed[:, steps:]
        keys = self._keys(key, len(scaled)) if train else None
        found = model.forecast(history, known.astype(jnp.float32), keys=keys)
        error = jnp.where(scored, jnp.abs(found - wanted), 0.0)
        by_channel, count, seen = self._sum(
            error.sum(axis=(0, 1)),
            scored.sum(axis=(0, 1)).astype(jnp.float32),
            known.sum().astype(jnp.float32),
        )
        n_devices = 1 if self.axis_name is None else jax.lax.axis_size(self.axis_name)
        loss = by_channel.sum() / (count.sum() + EPSILON)
        parts = {
            name: jnp.where(which, by_channel, 0.0).sum() / (jnp.where(which, count, 0.0).sum() + EPSILON)
            for name, which in (("mae_continuous", _CONTINUOUS), ("mae_binary", ~_CONTINUOUS))
        }
        shares = {
            "missing_history": 1.0 - seen / (n_devices * known.size),
            "missing_target": 1.0 - count.sum() / (n_devices * scored.size),
        }
        return loss, jax.lax.stop_gradient(parts | shares)

    def _keys(self, key: jax.Array, count: int) -> jax.Array:
        first = 0 if self.axis_name is None else jax.lax.axis_index(self.axis_name) * count
        return jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(count))

    def _sum(self, *parts: Array) -> tuple[Array, ...]:
        return parts if self.axis_name is None else jax.lax.psum(parts, self.axis_name)
