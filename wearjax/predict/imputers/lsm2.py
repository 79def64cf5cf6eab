"""Imputation by a trained LSM-2: every token is encoded, hidden ones are predicted."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Float32, Shaped

from wearjax import channels
from wearjax.convert.bundle import Bundle
from wearjax.errors import MethodError
from wearjax.objectives import masked_reconstruction

_LOWEST, _HIGHEST = (
    np.asarray([c.plausible[i] for c in channels.CHANNELS], np.float32)[:, None] for i in (0, 1)
)


class LSM2Imputer:
    """Satisfies the imputer contract; windows of several days are imputed day by day.

    Args:
        bundle: a trained model of kind `lsm2`.
        batch_size: days a call of the model; the last call is padded, so that it compiles once.
        clip: keep continuous values inside the plausible range of their channel (no negative steps). The
            published evaluation does not, so this is off by default.
    """

    name = "lsm2"

    def __init__(self, bundle: Bundle, *, batch_size: int = 16, clip: bool = False):
        if bundle.kind != "lsm2":
            raise MethodError(f"LSM2Imputer: expected a bundle of kind 'lsm2', got {bundle.kind!r}")
        self.bundle = bundle
        self.batch_size = batch_size
        self.clip = clip
        graph, self._state = nnx.split(bundle.model)
        self._reconstruct = jax.jit(partial(_reconstruct, graph, bundle.stats))

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled: stored units of continuous channels, probabilities of flags.

        Values under the target mask are erased first, whatever the caller left there.

        Raises:
            MethodError: the time axis is not a whole number of the model's days.
        """
        minutes = self.bundle.config.minutes
        count, n_channels, time = data.shape
        if n_channels != channels.N_CHANNELS or time % minutes:
            raise MethodError(f"LSM2Imputer: expected (batch, 19, k·{minutes}) values, got {data.shape}")
        target = np.asarray(target_mask, bool)
        hidden = np.where(np.asarray(observed_mask, bool) & ~target, data, np.nan).astype(np.float32)
        days = _cut(hidden, minutes)
        wanted = np.flatnonzero(_cut(target, minutes).any(axis=(1, 2)))
        filled = np.array(days)
        for start in range(0, len(wanted), self.batch_size):
            rows = wanted[start : start + self.batch_size]
            padded = np.full((self.batch_size, *days.shape[1:]), np.nan, np.float32)
            padded[: len(rows)] = days[rows]
            filled[rows] = np.asarray(self._reconstruct(self._state, padded))[: len(rows)]
        back = filled.reshape(count, time // minutes, n_channels, minutes).swapaxes(1, 2).reshape(data.shape)
        if self.clip:
            back = np.clip(back, _LOWEST, _HIGHEST)
        return np.where(target, back, data).astype(np.float32)


def _cut(array: np.ndarray, minutes: int) -> np.ndarray:
    """(batch, channel, days · minutes) as (batch · days, channel, minutes)."""
    count, n_channels, time = array.shape
    by_day = array.reshape(count, n_channels, time // minutes, minutes).swapaxes(1, 2)
    return by_day.reshape(-1, n_channels, minutes)


def _reconstruct(graph, stats, state, values: Float[Array, "B C M"]) -> Float[Array, "B C M"]:
    scaled, missing = masked_reconstruction.normalize(values, stats)
    predicted = nnx.merge(graph, state).reconstruct(scaled, missing)
    return masked_reconstruction.denormalize(predicted.astype(jnp.float32), stats)
