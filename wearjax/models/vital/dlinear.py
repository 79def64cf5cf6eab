"""DLinear: one linear map over time of the moving average of a window, another of the rest (Zeng et al. 2023).

Both maps are shared by the channels. Moving average and maps are linear, so they are multiplied first: a window meets
a single matrix of context x horizon.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from wearjax.errors import ConfigError
from wearjax.layers import dense, linear, window_norm
from wearjax.models.vital import sizes


@dataclass(frozen=True)
class DLinearConfig:
    """Sizes.

    Attributes:
        n_channels: channels of the centre; the model takes any number.
        context, horizon: steps of the window and of the forecast.
        window: steps of the moving average, odd.
        normalise: by mean and deviation of each window.
    """

    n_channels: int
    context: int
    horizon: int
    window: int = 25
    normalise: bool = False

    def __post_init__(self):
        sizes.check(self, at_least_1=("window",))
        if self.window % 2 == 0:
            raise ConfigError(f"model.window: must be odd, got {self.window}")


def averaging(context: int, window: int) -> np.ndarray:
    """The moving average, the first and last value repeated beyond the ends, as a matrix: trend = averaging @ x."""
    half, matrix = window // 2, np.zeros((context, context))
    for offset in range(-half, half + 1):
        np.add.at(matrix, (np.arange(context), np.clip(np.arange(context) + offset, 0, context - 1)), 1.0)
    return matrix / window


class DLinear(nnx.Module):
    """Forecasts each channel from its own past."""

    def __init__(self, config: DLinearConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.seasonal, self.trend = (dense.Dense(config.context, config.horizon, rngs=rngs) for _ in range(2))
        for part in (self.seasonal, self.trend):
            part.kernel[...] = jnp.full(part.kernel.shape, 1.0 / config.context, jnp.float32)

    def __call__(self, x: Float[Array, "B L K"], *, keys: jax.Array | None = None) -> Float[Array, "B T K"]:
        """Forecasts. `keys` are taken for the sake of the other models; nothing is dropped."""
        del keys
        config = self.config
        sizes.check_input(config, x, any_channels=True)
        if config.normalise:
            x, scale = window_norm.normalise(x)
        # Series along the last axis, so that the product and its gradient are plain ones over all of them.
        y = linear.affine(x.swapaxes(1, 2), *self._folded(x.dtype), x.dtype).swapaxes(1, 2)
        return window_norm.restore(y, scale) if config.normalise else y

    def _folded(self, dtype) -> tuple[Float[Array, "L T"], Float[Array, "T"]]:
        """One map for x: S' x + (T' - S') A x, A the moving average."""
        wide = jnp.promote_types(dtype, jnp.float32)
        seasonal, trend = self.seasonal.kernel[...].astype(wide), self.trend.kernel[...].astype(wide)
        average = np.asarray(averaging(self.config.context, self.config.window), wide)
        kernel = seasonal + jnp.matmul(average.T, trend - seasonal, precision=jax.lax.Precision.HIGHEST)
        bias = self.seasonal.bias[...] + self.trend.bias[...]
        return kernel.astype(dtype), bias.astype(dtype)


def training_flops(config: DLinearConfig) -> int:
    """FLOP of one example's training step: the product with the window, which needs no gradient of its own."""
    return 2 * 2 * config.n_channels * config.context * config.horizon
