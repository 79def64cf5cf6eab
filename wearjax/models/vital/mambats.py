"""MambaTS: one selective state space over the patches of all channels, channel after channel (Cai et al. 2024).

The order of the channels matters. Training gives every sample one of its own and notes what each transition from
channel to channel cost; evaluation processes them in the order that `wearjax.models.vital.variable_order` makes of
these costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Int32

from wearjax.errors import ConfigError
from wearjax.layers import dense, dropout, selective_scan, ssd, window_norm
from wearjax.layers.dense import Dense, Norm
from wearjax.layers.dropout import WordStream
from wearjax.models.vital import sizes


@dataclass(frozen=True)
class MambaTSConfig:
    """Sizes; the defaults are those of VitalBench at 5-second steps.

    Attributes:
        n_channels: channels of the centre; the model takes any number.
        context, horizon: steps of the window and of the forecast.
        patch, stride: steps of a patch, and from one to the next; steps that fill no patch are not read.
        depth: residual blocks.
        d_state: numbers of state a feature. expand: inner features over d_model.
        dropout: of step sizes and of input and output maps of the state space.
        normalise: by mean and deviation of each window.
        permute: train with variable permutation.
        scan: form of the selective scan.
    """

    n_channels: int
    context: int
    horizon: int
    patch: int = 60
    stride: int = 60
    d_model: int = 128
    depth: int = 4
    d_state: int = 16
    expand: int = 2
    dropout: float = 0.2
    normalise: bool = False
    permute: bool = True
    scan: str = "auto"

    def __post_init__(self):
        wanted = ("patch", "stride", "d_model", "depth", "d_state", "expand")
        sizes.check(self, at_least_1=wanted, rates=("dropout",))
        if self.patch > self.context:
            raise ConfigError(f"model.patch: {self.patch} steps are more than the context of {self.context}")
        if self.scan not in selective_scan.IMPLEMENTATIONS:
            known = ", ".join(selective_scan.IMPLEMENTATIONS)
            raise ConfigError(f"model.scan: expected one of {known}, got {self.scan!r}")

    @property
    def n_patches(self) -> int:
        return (self.context - self.patch) // self.stride + 1


class Mixer(nnx.Module):
    """The Mamba mixer without convolution and without activation of what enters (Gu & Dao 2023, figure 3)."""

    def __init__(self, config: MambaTSConfig, *, rngs: nnx.Rngs):
        dim, state = config.d_model, config.d_state
        inner, rank = config.expand * dim, math.ceil(dim / 16)
        self.enter = Dense(dim, 2 * inner, bias=False, rngs=rngs)
        self.select = Dense(inner, rank + 2 * state, bias=False, rngs=rngs)
        self.step = Dense(rank, inner, rngs=rngs)
        self.step.kernel[...] = dense.uniform(rngs, (rank, inner), rank)
        self.step.bias[...] = ssd.draw_dt_bias(rngs.params(), inner).astype(jnp.float32)
        self.log_rates = nnx.Param(jnp.log(jnp.tile(jnp.arange(1, state + 1, dtype=jnp.float32), (inner, 1))))
        self.skip = nnx.Param(jnp.ones((inner,), jnp.float32))
        self.leave = Dense(inner, dim, bias=False, rngs=rngs)
        self.leave.kernel[...] = self.leave.kernel[...] / math.sqrt(config.depth)
        self.rank, self.state, self.dropout_rate, self.scan = rank, state, config.dropout, config.scan

    def __call__(self, x: Float[Array, "B T D"], *, stream: WordStream | None) -> Float[Array, "B T D"]:
        u, gate = jnp.split(self.enter(x), 2, axis=-1)
        selected = dropout.dropout(self.select(u), rate=self.dropout_rate, stream=stream)
        delta, b, c = jax.lax.split(selected, (self.rank, self.state, self.state), axis=2)
        rates = -jnp.exp(
            self.log_rates[...].astype(jnp.float32)
        )  # in float32 whatever x is, as the reference
        y = selective_scan.selective_scan(
            u, jax.nn.softplus(self.step(delta)), rates, b, c, implementation=self.scan
        )
        return self.leave((y + self.skip[...].astype(x.dtype) * u) * jax.nn.silu(gate))


class MambaBlock(nnx.Module):
    """Norm and mixer; the residual is added before the next norm."""

    def __init__(self, config: MambaTSConfig, *, rngs: nnx.Rngs):
        self.norm = Norm(config.d_model)
        self.mixer = Mixer(config, rngs=rngs)


class MambaTS(nnx.Module):
    """Forecasts every channel from all of them, in any number."""

    def __init__(self, config: MambaTSConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.embed = Dense(config.patch, config.d_model, bias=False, rngs=rngs)
        self.blocks = nnx.List(MambaBlock(config, rngs=rngs) for _ in range(config.depth))
        self.norm = Norm(config.d_model)
        self.head = Dense(config.n_patches * config.d_model, config.horizon, rngs=rngs)

    def __call__(
        self,
        x: Float[Array, "B L K"],
        *,
        order: Int32[Array, "K"] | Int32[Array, "B K"] | None = None,
        kept: Int[Array, ""] | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B T K"]:
        """Forecasts, in the channels' own order.

        Args:
            kept: the first so many channels in the order of processing are there; nothing need be done about the
                others, which come after them.
            order: channels in the order of processing, one for all examples or one each; None is their own order.
            keys: one key an example for its dropouts; None is evaluation.
        """
        del kept
        config = self.config
        sizes.check_input(config, x, any_channels=True)
        if config.normalise:
            x, scale = window_norm.normalise(x)
        batch, _, channels = x.shape
        series = _taken(x.swapaxes(1, 2), order)  # (B, K, L)
        y = self.head(self._tokens(series, keys).reshape(batch, channels, -1))
        y = _taken(y, None if order is None else jnp.argsort(order, axis=-1)).swapaxes(1, 2)
        return window_norm.restore(y, scale) if config.normalise else y

    def _tokens(self, series: Float[Array, "B K L"], keys: jax.Array | None) -> Float[Array, "B KP D"]:
        config = self.config
        steps = np.arange(config.n_patches)[:, None] * config.stride + np.arange(config.patch)
        hidden = self.embed(series[:, :, steps].reshape(len(series), -1, config.patch))
        stream = self._stream(keys, hidden.shape[1])
        residual = jnp.zeros_like(hidden)
        for block in self.blocks:
            residual = residual + hidden
            hidden = block.mixer(block.norm(residual), stream=stream)
        return self.norm(hidden + residual)

    def _stream(self, keys: jax.Array | None, tokens: int) -> WordStream | None:
        if keys is None or self.config.dropout == 0.0:
            return None
        mixer = self.blocks[0].mixer
        n_words = tokens + mixer.rank + 2 * mixer.state
        return WordStream(dropout.draw_words(keys, self.config.depth * n_words))


def _taken(x: Float[Array, "B K F"], order: Int32[Array, "..."] | None) -> Float[Array, "B K F"]:
    """Rows of the second axis in an order, common or one an example."""
    if order is None:
        return x
    if order.shape not in ((x.shape[1],), x.shape[:2]):
        raise ConfigError(
            f"order: expected {x.shape[1]} channels, for all or each of {len(x)} examples, got {order.shape}"
        )
    return x[:, order] if order.ndim == 1 else jnp.take_along_axis(x, order[..., None], axis=1)


def training_flops(config: MambaTSConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward.

    The scan counts as seven a number of state: decay, input, sum and output.
    """
    tokens, dim = config.n_channels * config.n_patches, config.d_model
    inner, selected = config.expand * dim, math.ceil(dim / 16) + 2 * config.d_state
    maps = dim * 2 * inner + inner * selected + math.ceil(dim / 16) * inner + inner * dim
    layers = config.depth * (2 * maps + 7 * inner * config.d_state)
    return 3 * tokens * (layers + 2 * dim * (config.patch + config.horizon))
