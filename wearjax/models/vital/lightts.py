"""LightTS: continuous and interval samples of each channel through small MLPs (Zhang et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from wearjax.errors import ConfigError
from wearjax.layers.dense import Dense
from wearjax.models.vital import sizes

LONGEST_CHUNK = 24
SLOPE = 0.01  # of the leaky rectifier below zero


@dataclass(frozen=True)
class LightTSConfig:
    """Sizes; the width is that of VitalBench.

    Attributes:
        n_channels: channels, a fixed number.
        context, horizon: steps of the window and of the forecast.
        d_model: features of a channel, times two, before channels are mixed.
    """

    n_channels: int
    context: int
    horizon: int
    d_model: int = 256

    def __post_init__(self):
        sizes.check(self, at_least_1=("d_model",))
        if self.d_model < 16:
            raise ConfigError(f"model.d_model: must be at least 16, got {self.d_model}")

    @property
    def chunk(self) -> int:
        """Steps of a chunk: at most the horizon and 24, and the whole window if that does not divide it."""
        chunk = min(self.horizon, self.context, LONGEST_CHUNK)
        return chunk if self.context % chunk == 0 else self.context


class IEBlock(nnx.Module):
    """Information exchange: an MLP at every node, a map across nodes, a map to the output (section 3.2.2)."""

    def __init__(self, n_in: int, hidden: int, n_out: int, nodes: int, *, rngs: nnx.Rngs):
        self.expand, self.contract = Dense(n_in, hidden, rngs=rngs), Dense(hidden, hidden // 4, rngs=rngs)
        self.across = Dense(nodes, nodes, rngs=rngs)
        self.across.kernel[...] = jnp.eye(nodes, dtype=jnp.float32)
        self.out = Dense(hidden // 4, n_out, rngs=rngs)

    def __call__(self, x: Float[Array, "*any nodes in_"]) -> Float[Array, "*any nodes out"]:
        z = self.contract(jax.nn.leaky_relu(self.expand(x), SLOPE))
        z = z + self.across(z.swapaxes(-1, -2)).swapaxes(-1, -2)
        return self.out(z)


class LightTS(nnx.Module):
    """Forecasts every channel from all of them."""

    def __init__(self, config: LightTSConfig, *, rngs: nnx.Rngs):
        self.config = config
        width, chunks = config.d_model // 4, config.context // config.chunk
        self.continuous, self.interval = (
            IEBlock(config.chunk, width, width, chunks, rngs=rngs) for _ in range(2)
        )
        self.over_continuous, self.over_interval = (Dense(chunks, 1, rngs=rngs) for _ in range(2))
        self.mix = IEBlock(2 * width, 2 * width, config.horizon, config.n_channels, rngs=rngs)
        self.highway = Dense(config.context, config.horizon, rngs=rngs)

    def __call__(self, x: Float[Array, "B L K"], *, keys: jax.Array | None = None) -> Float[Array, "B T K"]:
        """Forecasts. `keys` are taken for the sake of the other models; nothing is dropped."""
        del keys
        sizes.check_input(self.config, x, any_channels=False)
        series = x.swapaxes(1, 2)  # (B, K, L)
        chunk, shape = self.config.chunk, series.shape[:2]
        continuous = series.reshape(*shape, -1, chunk)  # node j holds steps j c + i
        interval = series.reshape(*shape, chunk, -1).swapaxes(2, 3)  # node j holds steps i q + j
        first = self.over_continuous(self.continuous(continuous).swapaxes(2, 3))[..., 0]
        second = self.over_interval(self.interval(interval).swapaxes(2, 3))[..., 0]
        y = self.mix(jnp.concatenate([first, second], axis=-1)) + self.highway(series)
        return y.swapaxes(1, 2)


def training_flops(config: LightTSConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward."""
    width, chunks, channels = config.d_model // 4, config.context // config.chunk, config.n_channels

    def block(n_in: int, hidden: int, n_out: int, nodes: int) -> int:
        return nodes * (
            n_in * hidden + hidden * (hidden // 4) + nodes * (hidden // 4) + (hidden // 4) * n_out
        )

    per_channel = 2 * (block(config.chunk, width, width, chunks) + chunks * width)
    mixed = block(2 * width, 2 * width, config.horizon, channels)
    return 3 * 2 * (channels * (per_channel + config.context * config.horizon) + mixed)
