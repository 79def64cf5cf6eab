"""DLinear as a forecaster: the hours after a gappy series from linear maps of its trend and of its rest.

Zeng et al. 2023 in the form that PyPOTS gives it: the maps over time are as long as the history, and the forecast is
the end of what they return. Only that end is kept here, since nothing else of them is ever read or trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
from flax import nnx
from jaxtyping import Array, Float

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import decompose
from wearjax.models import dlinear, sizes


@dataclass(frozen=True)
class DLinearForecastConfig:
    """Sizes; the defaults are the published forecaster.

    Attributes:
        steps: hours of the history.
        horizon: hours of the forecast, at most `steps`.
        window: hours of the moving average, odd.
        d_model: hidden units of each of the two branches.
        dtype: compute type, `float32` or `bfloat16`; parameters and loss stay float32.
    """

    steps: int = 336
    horizon: int = 24
    window: int = 301
    d_model: int = 64
    dtype: str = "float32"

    def __post_init__(self):
        sizes.at_least_1(self, "steps", "horizon", "window", "d_model")
        if self.horizon > self.steps:
            raise ConfigError(f"model.horizon: at most model.steps ({self.steps}), got {self.horizon}")
        if self.window % 2 == 0:
            raise ConfigError(f"model.window: must be odd, got {self.window}")
        sizes.dtype(self)


class DLinearForecast(nnx.Module):
    """Forecasts all channels from the observed part of their history."""

    def __init__(self, config: DLinearForecastConfig, *, rngs: nnx.Rngs):
        self.config = config

        def branch() -> dlinear.Branch:
            return dlinear.Branch(
                config.steps,
                channels.N_CHANNELS,
                config.d_model,
                out_steps=config.horizon,
                dtype=sizes.DTYPES[config.dtype],
                rngs=rngs,
            )

        self.seasonal = branch()
        self.trend = branch()

    def forecast(
        self, x: Float[Array, "B T C"], observed: Float[Array, "B T C"], *, keys: jax.Array | None = None
    ) -> Float[Array, "B H C"]:
        """The next `horizon` hours, float32.

        Args:
            x: z-scores of the history, 0 where not observed.
            observed: 1 where the value is known, else 0.
            keys: not used; nothing of the model is random.
        """
        del keys
        seasonal, trend = decompose.decompose(x, self.config.window)
        return self.seasonal(seasonal, observed) + self.trend(trend, observed)


def training_flops(config: DLinearForecastConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward.

    Counted as evaluated here, with embedding and projection multiplied first; their product is once a batch.
    """
    n = channels.N_CHANNELS
    return 2 * 3 * 2 * config.steps * n * (2 * n + config.horizon)
