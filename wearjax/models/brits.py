"""BRITS: bidirectional recurrent imputation of gappy series (Cao et al. 2018).

A recurrent network runs over the series in each direction. At every step it estimates all channels from its state,
corrects the estimate by a regression over the other channels, feeds what it knows or believes back, and lets its
state fade with the time since each channel was last observed. Numerics and layout follow the PyPOTS implementation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.models import sizes

N_DIRECTIONS = 2
BACKWARD = 2  # a product is differentiated by two of the same size


@dataclass(frozen=True)
class BRITSConfig:
    """Sizes and objective; the defaults are the published daily imputer.

    Attributes:
        minutes: steps of a series; they are run one after another.
        hidden_size: units of the recurrent state, in each direction.
        consistency_weight: of the mean distance between the imputations of the two directions.
        unroll: steps in one iteration of the compiled loop.
        dtype: compute type; float32 only, since errors of a step are fed to the next.
    """

    minutes: int = channels.MINUTES_PER_DAY
    hidden_size: int = 128
    consistency_weight: float = 0.1
    unroll: int = 1
    dtype: str = "float32"

    def __post_init__(self):
        sizes.at_least_1(self, "minutes", "hidden_size", "unroll")
        sizes.not_negative(self, "consistency_weight")
        if self.dtype != "float32":
            raise ConfigError(f"model.dtype: BRITS computes in float32, got {self.dtype!r}")


class Estimates(NamedTuple):
    """Three estimates of every cell by each direction (forward, backward), in order of time.

    Attributes:
        history: from the recurrent state alone.
        features: from the other channels at the same step.
        combined: the mixture of both that is the reconstruction.
    """

    history: Float[Array, "2 B T C"]
    features: Float[Array, "2 B T C"]
    combined: Float[Array, "2 B T C"]


def time_gaps(observed: Float[Array, "*any T C"]) -> Float[Array, "*any T C"]:
    """Steps since each channel was last observed before a step; 0 at the first step (δ of Che et al. 2018).

    δ_0 = 0 and δ_t = 1 + (1 − m_{t−1}) δ_{t−1}, evaluated without a loop: t minus the last observed step before t.
    """
    axis = observed.ndim - 2
    steps = jnp.arange(observed.shape[axis], dtype=jnp.int32)[:, None]
    last = jax.lax.cummax(jnp.where(observed > 0, steps, 0), axis=axis)
    before = jnp.concatenate([jnp.zeros_like(last[..., :1, :]), last[..., :-1, :]], axis=axis)
    return (steps - before).astype(jnp.float32)


class RITS(nnx.Module):
    """Parameters of the two directions, stacked on their leading axis, and the run over a series.

    The gates of the LSTM are in the order input, forget, cell, output. Its two biases are kept apart as in PyTorch:
    their sum alone matters, but under Adam the pair moves twice as fast as one would.
    """

    def __init__(self, n_channels: int, hidden_size: int, *, rngs: nnx.Rngs):
        c, h = n_channels, hidden_size

        def param(*shape: int, fan: int) -> nnx.Param:
            bound = 1.0 / math.sqrt(fan)
            return nnx.Param(
                jax.random.uniform(rngs.params(), (N_DIRECTIONS, *shape), jnp.float32, -bound, bound)
            )

        self.decay_h_kernel, self.decay_h_bias = param(c, h, fan=h), param(h, fan=h)
        self.decay_x_kernel, self.decay_x_bias = param(c, fan=c), param(c, fan=c)  # diagonal
        self.history_kernel, self.history_bias = param(h, c, fan=h), param(c, fan=h)
        self.features_kernel, self.features_bias = param(c, c, fan=c), param(c, fan=c)  # diagonal not used
        self.mixing_kernel, self.mixing_bias = param(2 * c, c, fan=2 * c), param(c, fan=2 * c)
        self.input_kernel, self.input_bias = param(2 * c, 4 * h, fan=h), param(4 * h, fan=h)
        self.state_kernel, self.state_bias = param(h, 4 * h, fan=h), param(4 * h, fan=h)
        self.n_channels, self.hidden_size = c, h

    def __call__(
        self, x: Float[Array, "2 B T C"], observed: Float[Array, "2 B T C"], *, unroll: int = 1
    ) -> Estimates:
        """Estimates in the order in which each direction runs.

        Args:
            x: the series as each direction reads it, 0 where not observed.
        """
        c, batch = self.n_channels, x.shape[1]
        gaps = time_gaps(observed)
        # Everything that does not need the state is one product over all steps, outside of the loop.
        fading = jnp.exp(-jax.nn.relu(_over_steps(gaps, self.decay_h_kernel, self.decay_h_bias)))
        gamma = jnp.exp(
            -jax.nn.relu(gaps * self.decay_x_kernel[...][:, None, None] + _rows(self.decay_x_bias))
        )
        mixing = jax.nn.sigmoid(
            _over_steps(jnp.concatenate([gamma, observed], axis=-1), self.mixing_kernel, self.mixing_bias)
        )
        gates_of_mask = _over_steps(observed, self.input_kernel[...][:, c:], self.input_bias) + _rows(
            self.state_bias
        )
        others = self.features_kernel[...] * (1.0 - np.eye(c, dtype=np.float32))
        # Values and state enter the gates by one product.
        gate_kernel = jnp.concatenate([self.input_kernel[...][:, :c], self.state_kernel[...]], axis=1)
        history_kernel = self.history_kernel[...]
        history_bias, features_bias = self.history_bias[...][:, None], self.features_bias[...][:, None]

        def step(carry, now):
            state, cell = carry
            values, mask, fade, mix, gates = now
            state = state * fade
            history = state @ history_kernel + history_bias
            known = jnp.where(mask > 0, values, history)
            features = known @ others + features_bias
            combined = mix * features + (1.0 - mix) * history
            fed = jnp.where(mask > 0, values, combined)
            gates = gates + jnp.concatenate([fed, state], axis=-1) @ gate_kernel
            enter, forget, candidate, leave = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
            state = jax.nn.sigmoid(leave) * jnp.tanh(cell)
            return (state, cell), (history, features, combined)

        start = jnp.zeros((N_DIRECTIONS, batch, self.hidden_size), jnp.float32)
        inputs = tuple(jnp.moveaxis(a, 2, 0) for a in (x, observed, fading, mixing, gates_of_mask))
        _, estimates = jax.lax.scan(step, (start, start), inputs, unroll=unroll)
        return Estimates(*(jnp.moveaxis(e, 0, 2) for e in estimates))


def _rows(bias: nnx.Param) -> Float[Array, "2 1 1 O"]:
    return bias[...][:, None, None]


def _over_steps(x: Float[Array, "2 B T I"], kernel, bias: nnx.Param) -> Float[Array, "2 B T O"]:
    return jnp.einsum("dbti,dio->dbto", x, kernel[...]) + _rows(bias)


class BRITS(nnx.Module):
    """Reconstructs every cell of a series from the observed ones, by two directions."""

    def __init__(self, config: BRITSConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.rits = RITS(channels.N_CHANNELS, config.hidden_size, rngs=rngs)

    def estimate(self, x: Float[Array, "B T C"], observed: Float[Array, "B T C"]) -> Estimates:
        """The estimates of both directions.

        Args:
            x: z-scores, 0 where not observed.
            observed: 1 where the value is known, else 0.
        """
        both = (jnp.stack([a, a[:, ::-1]]) for a in (x.astype(jnp.float32), observed.astype(jnp.float32)))
        found = self.rits(*both, unroll=self.config.unroll)
        return Estimates(*(jnp.stack([e[0], e[1, :, ::-1]]) for e in found))

    def reconstruct(self, x: Float[Array, "B T C"], observed: Float[Array, "B T C"]) -> Float[Array, "B T C"]:
        """Estimates of all cells: the mean of the directions."""
        return self.estimate(x, observed).combined.mean(axis=0)


def training_flops(config: BRITSConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward."""
    c, h = channels.N_CHANNELS, config.hidden_size
    outside = c * h + 2 * c * c + c * 4 * h
    inside = h * c + c * c + (c + h) * 4 * h
    return N_DIRECTIONS * (1 + BACKWARD) * 2 * config.minutes * (outside + inside)
