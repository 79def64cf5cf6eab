"""Masked imputation of series: the training objectives of DLinear and BRITS, and the score that selects among them.

Errors are absolute and in normalised units. Training follows PyPOTS, with which the published OpenMHC imputers were
trained: SAITS' joint loss for DLinear (Du et al. 2023), the paper's own for BRITS. Validation hides
patches of ten minutes as the published validation files do, and scores them alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from wearjax.layers import dropout
from wearjax.models import brits, dlinear
from wearjax.objectives import masked_reconstruction

if TYPE_CHECKING:
    from wearjax.days.normalization import NormalizationStats

EPSILON = 1e-12  # beside a count of cells, as in PyPOTS
VALIDATION_PATCH = 10  # minutes
VALIDATION_RATIO = 0.2  # share of the observed cells that validation hides


def series_of(
    values: Float[Array, "B C M"], stats: NormalizationStats, minutes: int
) -> tuple[Float[Array, "S T C"], Bool[Array, "S T C"]]:
    """Time-first z-scores, zero where missing, and where they are observed.

    Examples longer than `minutes` are cut into so many series of that length, one after another.
    """
    scaled, missing = masked_reconstruction.normalize(values, stats)
    return to_series(scaled, minutes), to_series(~missing, minutes)


def to_series(values: Float[Array, "B C k*T"], minutes: int) -> Float[Array, "B*k T C"]:
    """Examples cut along time, with time before channels."""
    batch, n_channels, time = values.shape
    pieces = values.reshape(batch, n_channels, time // minutes, minutes)
    return pieces.transpose(0, 2, 3, 1).reshape(-1, minutes, n_channels)


def from_series(series: Float[Array, "B*k T C"], count: int) -> Float[Array, "B C k*T"]:
    """The inverse of `to_series`, for `count` series an example."""
    pieces, minutes, n_channels = series.shape
    apart = series.reshape(pieces // count, count, minutes, n_channels)
    return apart.transpose(0, 3, 1, 2).reshape(pieces // count, n_channels, count * minutes)


def hide_cells(keys: jax.Array, observed: Bool[Array, "S T C"], ratio: float) -> Bool[Array, "S T C"]:
    """Observed cells, each with probability `ratio`; the draw of a series depends on its own key only."""
    words = dropout.draw_words(keys, observed[0].size).reshape(observed.shape)
    return observed & (words < dropout.threshold(ratio))


def hide_patches(
    keys: jax.Array,
    observed: Bool[Array, "S T C"],
    *,
    patch: int = VALIDATION_PATCH,
    ratio: float = VALIDATION_RATIO,
) -> Bool[Array, "S T C"]:
    """Patches of single channels in random order, until `ratio` of the observed cells are hidden.

    The rule of the benchmark's random noise (`wearjax.segments.masks.random_noise`) with random numbers of JAX:
    minutes beyond the last whole patch stay, and the last patch may overshoot.
    """
    count, minutes, n_channels = observed.shape
    patch = min(patch, minutes)
    n_patches = minutes // patch
    whole = observed[:, : n_patches * patch].reshape(count, n_patches, patch, n_channels)
    sizes = whole.sum(axis=2).reshape(count, -1)
    wanted = jnp.floor(ratio * observed.sum(axis=(1, 2)).astype(jnp.float32)).astype(sizes.dtype)
    order = jnp.argsort(dropout.draw_words(keys, sizes.shape[1]), axis=1)
    drawn = jnp.take_along_axis(sizes, order, axis=1)
    taken = jnp.cumsum(drawn, axis=1) - drawn < wanted[:, None]
    chosen = jnp.put_along_axis(jnp.zeros_like(taken), order, taken, axis=1, inplace=False)
    hidden = (whole & chosen.reshape(count, n_patches, 1, n_channels)).reshape(count, -1, n_channels)
    return jnp.pad(hidden, ((0, 0), (0, minutes - n_patches * patch), (0, 0)))


@dataclass(frozen=True, eq=False)
class _Imputation:
    """What the objectives share: series of a batch, masks by the place of an example, sums over the global batch.

    Attributes:
        stats: training statistics of the continuous channels.
        axis_name: mapped axis of data-parallel devices under `pmap` or `shard_map`; loss and masks are then those
            of the global batch. None under plain `jit`.
    """

    stats: NormalizationStats
    axis_name: str | None = None

    def _keys(self, key: jax.Array, count: int) -> jax.Array:
        first = 0 if self.axis_name is None else jax.lax.axis_index(self.axis_name) * count
        return jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(count))

    def _sum(self, *parts: Array) -> tuple[Array, ...]:
        return parts if self.axis_name is None else jax.lax.psum(parts, self.axis_name)

    def _mae(self, error: Array, where: Bool[Array, "..."], axes: tuple[int, ...]) -> Array:
        """Mean over the cells of the mask along `axes`, and over the devices; 0 where there are none."""
        total, count = self._sum(jnp.where(where, error, 0.0).sum(axes), where.sum(axes).astype(jnp.float32))
        return total / (count + EPSILON)

    def _score(self, model: Any, scaled: Array, observed: Array, key: jax.Array):
        """Mean absolute error at hidden patches, which is what training is stopped by."""
        hidden = hide_patches(self._keys(key, scaled.shape[0]), observed)
        visible = observed & ~hidden
        found = model.reconstruct(jnp.where(visible, scaled, 0.0), visible.astype(jnp.float32))
        loss = self._mae(jnp.abs(found - scaled), hidden, (0, 1, 2))
        return loss, {"mae_hidden": loss, **self._shares(observed, hidden)}

    def _shares(self, observed: Array, hidden: Array) -> dict[str, Array]:
        seen, covered, cells = self._sum(
            observed.sum().astype(jnp.float32), hidden.sum().astype(jnp.float32), jnp.float32(observed.size)
        )
        return {"masked_fraction": covered / jnp.maximum(seen, 1.0), "missing_fraction": 1.0 - seen / cells}

    def _series(self, model: Any, batch: Mapping[str, jax.Array]) -> tuple[Array, Array]:
        return series_of(batch["values"], self.stats, model.config.minutes)


@dataclass(frozen=True, eq=False)
class MaskedImputation(_Imputation):
    """Loss of a DLinear imputer: part of the observed cells is hidden, and visible and hidden ones are scored.

    Both parts are means over their own cells, weighted by `observed_weight` and `masked_weight` of the model.
    """

    def __call__(
        self, model: dlinear.DLinear, batch: Mapping[str, jax.Array], *, key: jax.Array, train: bool
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Loss and metrics.

        Args:
            batch: `values` float32 (B, 19, k · minutes) in the units of the channel table, NaN = not measured; other
                entries are ignored.
            key: source of the masks. The draw of an example depends on the key and on its place in the batch only.
            train: hide single cells and score both kinds; else hide patches and score those.

        Returns: the loss, and `mae_observed` (training only), `mae_hidden`, `masked_fraction` (of the observed
            cells), `missing_fraction` (of all).
        """
        config, (scaled, observed) = model.config, self._series(model, batch)
        if not train:
            return self._score(model, scaled, observed, key)
        hidden = hide_cells(self._keys(key, scaled.shape[0]), observed, config.mask_ratio)
        visible = observed & ~hidden
        found = model.reconstruct(jnp.where(visible, scaled, 0.0), visible.astype(jnp.float32))
        error = jnp.abs(found - scaled)
        at_visible, at_hidden = (self._mae(error, mask, (0, 1, 2)) for mask in (visible, hidden))
        loss = config.observed_weight * at_visible + config.masked_weight * at_hidden
        metrics = {"mae_observed": at_visible, "mae_hidden": at_hidden, **self._shares(observed, hidden)}
        return loss, jax.lax.stop_gradient(metrics)


@dataclass(frozen=True, eq=False)
class RecurrentImputation(_Imputation):
    """Loss of BRITS: errors of its three estimates at the observed cells, and the distance of its directions.

    The error of an estimate is the mean over the observed cells of a step, then over the steps (Cao et al. 2018, as
    PyPOTS evaluates it); nothing is hidden in training.
    """

    def __call__(
        self, model: brits.BRITS, batch: Mapping[str, jax.Array], *, key: jax.Array, train: bool
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Loss and metrics; arguments as those of `MaskedImputation`.

        Returns: the loss, and in training `loss_estimates` and `loss_consistency`, in validation `mae_hidden`; both
            with `masked_fraction` and `missing_fraction`.
        """
        scaled, observed = self._series(model, batch)
        if not train:
            return self._score(model, scaled, observed, key)
        estimates = model.estimate(scaled, observed.astype(jnp.float32))
        errors = jnp.abs(jnp.stack(estimates) - scaled)  # (estimate, direction, B, T, C)
        by_step = self._mae(errors, jnp.broadcast_to(observed, errors.shape), (2, 4))
        reconstruction = by_step.mean(axis=(0, 2)).sum()
        forward, backward = jnp.where(observed, scaled, estimates.combined)
        apart, cells = self._sum(jnp.abs(forward - backward).sum(), jnp.float32(scaled.size))
        consistency = model.config.consistency_weight * apart / cells
        metrics = {
            "loss_estimates": reconstruction,
            "loss_consistency": consistency,
            **self._shares(observed, jnp.zeros_like(observed)),
        }
        return reconstruction + consistency, jax.lax.stop_gradient(metrics)
