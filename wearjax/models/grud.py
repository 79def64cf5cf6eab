"""GRU-D: a recurrent network that lets what it last saw fade while a channel is silent.

Che, Purushotham, Cho, Sontag & Liu 2018 (GRU-D), in the form of OpenMHC's supervised baseline: hours of one day in
stored units, not scaled; participants are the mean over their days; one linear head a task.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import linear
from wearjax.models import sizes

KINDS = ("binary", "multiclass", "ordinal", "regression")
GATES = 3  # reset, update, candidate; the order of the columns


@dataclass(frozen=True)
class Head:
    """A task of the network.

    Attributes:
        name: of the task.
        kind: `binary`, `multiclass`, `ordinal` or `regression`.
        n_classes: levels of an ordinal label or classes; binary and regression heads ignore it.
    """

    name: str
    kind: str
    n_classes: int = 2

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ConfigError(f"head {self.name}: kind {self.kind!r}; expected one of {', '.join(KINDS)}")
        if self.n_classes < 2:
            raise ConfigError(f"head {self.name}: at least two classes are needed, got {self.n_classes}")

    @property
    def n_outputs(self) -> int:
        """Logits: of each class, or of being above each level but the last; or the one standardised value."""
        return {"binary": 2, "multiclass": self.n_classes, "ordinal": self.n_classes - 1, "regression": 1}[
            self.kind
        ]


@dataclass(frozen=True)
class GRUDConfig:
    """Sizes; the defaults are those of OpenMHC's baseline.

    Attributes:
        heads: the tasks, in the order of the outputs.
    """

    hidden: int = 64
    hours: int = channels.HOURS_PER_DAY
    channels: int = channels.N_CHANNELS
    heads: tuple[Head, ...] = ()

    def __post_init__(self):
        sizes.at_least_1(self, "hidden", "hours", "channels")


def last_values(
    values: Float[Array, "T N C"],
) -> tuple[Float[Array, "T N C"], Bool[Array, "T N C"], Float[Array, "T N C"]]:
    """What is known at every hour of days with gaps (NaN).

    Returns:
        The last observation, or before the first one that first one, or 0 where the day has none; where there is an
        observation; and the time since the last one in hours, the hour itself not counted: 0 at the first hour, and
        counted from there while nothing was seen.
    """
    observed = ~jnp.isnan(values)
    values = jnp.where(observed, values, 0.0).astype(jnp.float32)
    first = jnp.take_along_axis(values, observed.argmax(axis=0)[None], axis=0)[0]  # 0 where there is none

    def hour(before, now):
        (last, elapsed), (value, seen) = before, now
        last = jnp.where(seen, value, last)
        return (last, jnp.where(seen, 1.0, elapsed + 1.0)), (last, elapsed)

    # As a loop: written out, 24 hours take most of the time of compiling the model.
    _, (known, silent) = jax.lax.scan(hour, (first, jnp.zeros_like(first)), (values, observed))
    return known, observed, silent


def uniform(width: int):
    """Initialiser U(-1/sqrt(width), 1/sqrt(width)), PyTorch's for linear maps and recurrent cells."""
    bound = 1 / math.sqrt(width)

    def init(rngs: nnx.Rngs, *shape: int) -> nnx.Param:
        return nnx.Param(jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound))

    return init


class GRUD(nnx.Module):
    """Decays of input and state, a GRU cell, and the heads of all tasks in one map.

    Kernels are (in, out). The cell is PyTorch's: r and z from both maps, the candidate tanh(i + r * h), and the new
    state (1 - z) * candidate + z * state. Its input is [value, decayed state, observed flags].
    """

    def __init__(self, config: GRUDConfig, *, rngs: nnx.Rngs):
        hidden, n_channels = config.hidden, config.channels
        self.config = config
        of_state, of_channels = uniform(hidden), uniform(n_channels)
        self.decay_h_kernel = of_state(rngs, n_channels, hidden)
        self.decay_h_bias = of_state(rngs, hidden)
        self.decay_x_scale = of_channels(rngs, n_channels)
        self.decay_x_bias = of_channels(rngs, n_channels)
        self.input_kernel = of_state(rngs, 2 * n_channels + hidden, GATES * hidden)
        self.input_bias = of_state(rngs, GATES * hidden)
        self.hidden_kernel = of_state(rngs, hidden, GATES * hidden)
        self.hidden_bias = of_state(rngs, GATES * hidden)
        n_outputs = sum(head.n_outputs for head in config.heads)
        self.head_kernel = of_state(rngs, hidden, n_outputs)
        self.head_bias = of_state(rngs, n_outputs)

    def embed(self, values: Float[Array, "N T C"], means: Float[Array, "C"]) -> Float[Array, "N D"]:
        """The state after the last hour of each day; NaN = missing.

        A silent channel fades from its last value towards its mean, and the state towards zero, at learnt rates.

        Args:
            values: hours in stored units.
            means: of the observed values of each channel.
        """
        hidden = self.config.hidden
        last, observed, elapsed = last_values(values.swapaxes(0, 1))  # hours first, as the loop takes them
        seen = observed.astype(jnp.float32)
        fade_x = jnp.exp(-jax.nn.relu(self.decay_x_scale[...] * elapsed + self.decay_x_bias[...]))
        fade_h = jnp.exp(-jax.nn.relu(linear.affine(
            elapsed, self.decay_h_kernel[...], self.decay_h_bias[...], jnp.float32
        )))  # fmt: skip
        x = jnp.where(observed, last, fade_x * last + (1.0 - fade_x) * means)

        # All that does not depend on the state is one product over all hours; what does, one product an hour.
        of_x, of_h, of_seen = jnp.split(
            self.input_kernel[...], [self.config.channels, self.config.channels + hidden]
        )
        outside = linear.affine(
            jnp.concatenate([x, seen], axis=-1),
            jnp.concatenate([of_x, of_seen]),
            self.input_bias[...],
            jnp.float32,
        )
        own, own_bias = self.hidden_kernel[...], self.hidden_bias[...]
        gates = jnp.concatenate(
            [of_h[:, : 2 * hidden] + own[:, : 2 * hidden], of_h[:, 2 * hidden :], own[:, 2 * hidden :]],
            axis=1,
        )
        outside = outside + jnp.pad(own_bias[: 2 * hidden], (0, hidden))

        # The backward pass computes a step again from the state before it, which is faster than reading it back.
        @functools.partial(jax.checkpoint, prevent_cse=False)
        def step(h, hour):
            fade, of_r, of_z, of_candidate = hour
            h = fade * h
            inside = h @ gates
            r = jax.nn.sigmoid(of_r + inside[:, :hidden])
            z = jax.nn.sigmoid(of_z + inside[:, hidden : 2 * hidden])
            own_part = r * (inside[:, 3 * hidden :] + own_bias[2 * hidden :])
            candidate = jnp.tanh(of_candidate + inside[:, 2 * hidden : 3 * hidden] + own_part)
            return (1.0 - z) * candidate + z * h, None

        # Three arrays: columns of one cost the loop its vector instructions.
        hours = (fade_h, *jnp.split(outside, GATES, axis=-1))
        return jax.lax.scan(step, jnp.zeros((len(values), hidden), jnp.float32), hours)[0]

    def pool(
        self,
        values: Float[Array, "chunk N T C"],
        owners: Int[Array, "chunk N"],
        means: Float[Array, "C"],
        *,
        n_participants: int,
        remat: bool = False,
    ) -> Float[Array, "B D"]:
        """Mean state over the days of each participant; zeros without any.

        Args:
            values: days in chunks that are taken one after another.
            owners: place of the participant that a day belongs to; `n_participants` for padding.
            remat: compute the states of a chunk again in the backward pass instead of keeping them.
        """

        def one(chunk):
            days, owner = chunk
            return jax.ops.segment_sum(self.embed(days, means), owner, n_participants + 1)

        total = jax.lax.map(jax.checkpoint(one) if remat else one, (values, owners)).sum(axis=0)[:-1]
        count = jax.ops.segment_sum(jnp.ones(owners.size), owners.ravel(), n_participants + 1)[:-1]
        return total / jnp.maximum(count, 1.0)[:, None]

    def outputs(self, pooled: Float[Array, "B D"]) -> tuple[Float[Array, "B O"], ...]:
        """What each head says, in the order of the config."""
        joint = linear.affine(pooled, self.head_kernel[...], self.head_bias[...], jnp.float32)
        ends = [
            sum(head.n_outputs for head in self.config.heads[: i + 1]) for i in range(len(self.config.heads))
        ]
        return tuple(jnp.split(joint, ends[:-1], axis=1)) if ends else ()
