"""DLinear: linear maps over time of the trend and of the rest of a series (Zeng et al. 2023).

The form that PyPOTS gives it for gappy series: every step's values and flags of observation are embedded, each hidden
unit goes through one map from all steps to all steps, and the result is projected back to the channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import decompose
from wearjax.models import sizes


@dataclass(frozen=True)
class DLinearConfig:
    """Sizes and objective; the defaults are the published daily imputer.

    Attributes:
        minutes: steps of a series.
        window: steps of the moving average, odd.
        d_model: hidden units of each of the two branches.
        observed_weight, masked_weight: of the errors at visible and at artificially hidden cells (ORT and MIT).
        mask_ratio: probability that an observed cell is hidden in training.
        dtype: compute type, `float32` or `bfloat16`; parameters and loss stay float32.
    """

    minutes: int = channels.MINUTES_PER_DAY
    window: int = 51
    d_model: int = 256
    observed_weight: float = 1.0
    masked_weight: float = 1.0
    mask_ratio: float = 0.2
    dtype: str = "float32"

    def __post_init__(self):
        sizes.at_least_1(self, "minutes", "window", "d_model")
        if self.window % 2 == 0:
            raise ConfigError(f"model.window: must be odd, got {self.window}")
        sizes.not_negative(self, "observed_weight", "masked_weight")
        sizes.rates(self, "mask_ratio")
        sizes.dtype(self)


def uniform(rngs: nnx.Rngs, shape: tuple[int, ...], fan_in: int) -> Array:
    """Uniform within 1 / sqrt(fan_in), as PyTorch starts its linear maps."""
    bound = 1.0 / math.sqrt(fan_in)
    return jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound)


class Affine(nnx.Module):
    """Kernel (in, out) and bias, started as PyTorch starts a linear map."""

    def __init__(self, n_in: int, n_out: int, *, rngs: nnx.Rngs):
        self.kernel = nnx.Param(uniform(rngs, (n_in, n_out), n_in))
        self.bias = nnx.Param(uniform(rngs, (n_out,), n_in))


class Branch(nnx.Module):
    """Embedding, map over time and projection of one part of a series.

    All three are linear, so their order of evaluation is free: embedding and projection are multiplied first, and the
    map over time, which is nearly all the work, acts on the channels instead of the hidden units.

    Args:
        out_steps: steps that the map over time makes of `steps`; as many by default.
    """

    def __init__(
        self,
        steps: int,
        n_channels: int,
        d_model: int,
        *,
        out_steps: int | None = None,
        dtype=jnp.float32,
        rngs: nnx.Rngs,
    ):
        out_steps = steps if out_steps is None else out_steps
        self.embed = Affine(2 * n_channels, d_model, rngs=rngs)
        self.time = Affine(steps, out_steps, rngs=rngs)
        self.time.kernel[...] = jnp.full((steps, out_steps), 1.0 / steps, jnp.float32)
        self.project = Affine(d_model, n_channels, rngs=rngs)
        self.dtype = dtype

    def __call__(self, x: Float[Array, "B T C"], observed: Float[Array, "B T C"]) -> Float[Array, "B S C"]:
        """The branch's share of the reconstruction, or of a forecast.

        Args:
            observed: 1 where the value is known, 0 elsewhere, where `x` must be 0.
        """
        out = self.project.kernel[...]
        # (2C, D) @ (D, C): the width of the hidden layer appears in no product over time.
        folded = self.embed.kernel[...] @ out
        both = jnp.concatenate([x, observed], axis=-1).astype(self.dtype)
        steps = both @ folded.astype(self.dtype) + (self.embed.bias[...] @ out).astype(self.dtype)
        mapped = jnp.einsum("btc,ts->bsc", steps, self.time.kernel[...].astype(self.dtype))
        return (
            mapped.astype(jnp.float32)
            + self.time.bias[...][:, None] * out.sum(axis=0)
            + self.project.bias[...]
        )


class DLinear(nnx.Module):
    """Reconstructs every cell of a series from the observed ones."""

    def __init__(self, config: DLinearConfig, *, rngs: nnx.Rngs):
        self.config = config
        branch = partial(
            Branch,
            config.minutes,
            channels.N_CHANNELS,
            config.d_model,
            dtype=sizes.DTYPES[config.dtype],
            rngs=rngs,
        )
        self.seasonal = branch()
        self.trend = branch()

    def reconstruct(self, x: Float[Array, "B T C"], observed: Float[Array, "B T C"]) -> Float[Array, "B T C"]:
        """Estimates of all cells, float32.

        Args:
            x: z-scores, 0 where not observed.
            observed: 1 where the value is known, else 0.
        """
        seasonal, trend = decompose.decompose(x, self.config.window)
        return self.seasonal(seasonal, observed) + self.trend(trend, observed)


def training_flops(config: DLinearConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward.

    Counted as evaluated here, with embedding and projection multiplied first; their product is once a batch.
    """
    per_step = 2 * (2 * channels.N_CHANNELS) * channels.N_CHANNELS
    over_time = 2 * config.minutes * config.minutes * channels.N_CHANNELS
    return 2 * 3 * (config.minutes * per_step + over_time)
