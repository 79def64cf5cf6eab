"""Overlapping patches of each channel, their embedding, the head that reads a forecast from them, and the way between.

What PatchTST (Nie et al. 2023, section 3.1) and the S4 forecaster of VitalBench share.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Float32

from wearjax.errors import ConfigError
from wearjax.layers import dense, dropout, position, window_norm
from wearjax.models.vital import sizes


def check(config: Any) -> None:
    """ConfigError if a window holds no patch, or steps would be skipped between patches."""
    if config.patch > config.context:
        raise ConfigError(f"model.patch: {config.patch} steps are more than the context of {config.context}")
    if config.stride > config.patch:
        raise ConfigError(f"model.stride: {config.stride} is more than the patch of {config.patch} steps")


def count(context: int, patch: int, stride: int) -> int:
    """Patches of a window that is continued by `stride` steps."""
    return (context - patch) // stride + 2


def cut(x: Float[Array, "B L K"], patch: int, stride: int) -> Float[Array, "B KP patch"]:
    """Patches channel by channel, in order of time; beyond the end the last value is repeated `stride` times."""
    batch, context, channels = x.shape
    starts = np.arange(count(context, patch, stride)) * stride
    steps = np.minimum(starts[:, None] + np.arange(patch), context - 1)  # (P, patch)
    return x.swapaxes(1, 2)[:, :, steps].reshape(batch, channels * len(starts), patch)


def positions(n: int, dim: int) -> Float32[np.ndarray, "n dim"]:
    """Sinusoidal position code, sines at even and cosines at odd features (Vaswani et al. 2017, section 3.5).

    Every step is rounded to float32, as the tables of the reference are: at large positions that shows in the fourth
    digit.
    """
    exponents = np.arange(0, dim, 2, dtype=np.float32) * np.float32(-math.log(position.PERIOD) / dim)
    frequencies = np.exp(exponents.astype(np.float64)).astype(np.float32)
    angles = (np.arange(n, dtype=np.float32)[:, None] * frequencies).astype(np.float64)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)
    return table.reshape(n, -1)[:, :dim]


class PatchEmbedding(nnx.Module):
    """Linear map of a patch, without bias, plus the code of its place."""

    def __init__(self, patch: int, stride: int, dim: int, *, rngs: nnx.Rngs):
        self.project = dense.Dense(patch, dim, bias=False, rngs=rngs)
        self.patch, self.stride = patch, stride

    def __call__(self, x: Float[Array, "B L K"]) -> Float[Array, "B KP D"]:
        tokens = self.project(cut(x, self.patch, self.stride))
        n = count(x.shape[1], self.patch, self.stride)
        code = np.tile(positions(n, tokens.shape[2]), (x.shape[2], 1))
        return tokens + code.astype(tokens.dtype)


class PatchHead(nnx.Module):
    """All features of a channel's patches -> its forecast; the kernel's rows are patch by patch."""

    def __init__(self, n_patches: int, dim: int, horizon: int, *, rngs: nnx.Rngs):
        self.linear = dense.Dense(n_patches * dim, horizon, rngs=rngs)

    def __call__(self, tokens: Float[Array, "B KP D"], channels: int) -> Float[Array, "B K T"]:
        return self.linear(jnp.reshape(tokens, (tokens.shape[0], channels, -1)))


class PatchForecaster(nnx.Module):
    """Forecasts each channel from its own past; subclasses say what becomes of the tokens in `encoded`.

    Their configurations have context, horizon, patch, stride, d_model, dropout and normalise.
    """

    config: Any
    embed: PatchEmbedding
    head: PatchHead

    def __call__(self, x: Float[Array, "B L K"], *, keys: jax.Array | None = None) -> Float[Array, "B T K"]:
        """Forecasts.

        Args:
            keys: one key an example for its dropouts; None is evaluation.
        """
        config = self.config
        sizes.check_input(config, x, any_channels=True)
        if config.normalise:
            x, scale = window_norm.normalise(x)
        tokens = self.embed(x)
        stream = self._stream(keys, x.shape[2], tokens.shape[1])
        drop = lambda y: dropout.dropout(y, rate=config.dropout, stream=stream)  # noqa: E731
        tokens = self.encoded(drop(tokens), groups=x.shape[2], stream=stream)
        y = drop(self.head(tokens, x.shape[2])).swapaxes(1, 2)
        return window_norm.restore(y, scale) if config.normalise else y

    def encoded(
        self, tokens: Float[Array, "B KP D"], *, groups: int, stream: dropout.WordStream | None
    ) -> Float[Array, "B KP D"]:
        """Features of the patches of `groups` channels, one channel after another."""
        raise NotImplementedError

    def n_words(self, tokens: int) -> int:
        """Random words that the dropouts of `encoded` take for an example of so many tokens."""
        raise NotImplementedError

    def _stream(self, keys: jax.Array | None, channels: int, tokens: int) -> dropout.WordStream | None:
        if keys is None or self.config.dropout == 0.0:
            return None
        ends = tokens + self.config.d_model + channels + self.config.horizon
        return dropout.WordStream(dropout.draw_words(keys, ends + self.n_words(tokens)))
