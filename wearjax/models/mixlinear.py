"""MixLinear: a forecast of a hundred parameters, half of it in time and half in frequency (Ma et al. 2026).

The form that PyPOTS gives it for gappy series: values and flags of observation are mixed into as many series first.
Each is centred on its mean, smoothed and cut into segments of one period; two small maps along the segments, one
factorised over their grid and one of low rank over their lowest frequencies, make the segments ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.models import dlinear, sizes


@dataclass(frozen=True)
class MixLinearConfig:
    """Sizes; the defaults are the published forecaster.

    Attributes:
        steps: hours of the history.
        horizon: hours of the forecast.
        period: hours of a segment, even.
        frequencies: lowest frequencies along the segments that are kept, the mean included.
        rank: of the map from those to the segments ahead.
        time_share: weight α of the part in time; that in frequency has 1 − α.
        dtype: compute type; float32 only, there is nothing to save.
    """

    steps: int = 336
    horizon: int = 24
    period: int = 6
    frequencies: int = 2
    rank: int = 2
    time_share: float = 0.5
    dtype: str = "float32"

    def __post_init__(self):
        sizes.at_least_1(self, "steps", "horizon", "period", "frequencies", "rank")
        if self.period % 2:
            raise ConfigError(f"model.period: must be even, got {self.period}")
        if self.frequencies > self.segments:
            raise ConfigError(
                f"model.frequencies: at most the {self.segments} segments, got {self.frequencies}"
            )
        if not 0.0 <= self.time_share <= 1.0:
            raise ConfigError(f"model.time_share: must be in [0, 1], got {self.time_share}")
        if self.dtype != "float32":
            raise ConfigError(f"model.dtype: MixLinear computes in float32, got {self.dtype!r}")

    @property
    def segments(self) -> int:
        """Segments of the history; the last may be filled up with zeros."""
        return -(-self.steps // self.period)

    @property
    def segments_ahead(self) -> int:
        return -(-self.horizon // self.period)

    @property
    def grid(self) -> tuple[int, int]:
        """Side of the square grids that hold the segments, of the history and of the forecast."""
        return math.isqrt(self.segments - 1) + 1, math.isqrt(self.segments_ahead - 1) + 1


class MixLinear(nnx.Module):
    """Forecasts all channels from the observed part of their history.

    Complex maps are kept as their real and imaginary parts, on the leading axis.
    """

    def __init__(self, config: MixLinearConfig, *, rngs: nnx.Rngs):
        self.config = config
        n, (side, side_ahead) = channels.N_CHANNELS, config.grid
        self.embed = dlinear.Affine(2 * n, n, rngs=rngs)
        self.columns = nnx.Param(dlinear.uniform(rngs, (side, side_ahead), side))
        self.rows = nnx.Param(dlinear.uniform(rngs, (side, side_ahead), side))
        self.smoothing = nnx.Param(dlinear.uniform(rngs, (config.period + 1,), config.period + 1))
        self.narrow = _complex(rngs, config.frequencies, config.rank)
        self.widen = _complex(rngs, config.rank, config.segments_ahead)
        self.project = dlinear.Affine(n, n, rngs=rngs)

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
        config, (batch, steps, n) = self.config, x.shape
        both = jnp.concatenate([x, observed], axis=-1)
        series = both @ self.embed.kernel[...] + self.embed.bias[...]
        mean = series.mean(axis=1, keepdims=True)
        centred = series - mean
        half = config.period // 2
        around = jnp.pad(centred, ((0, 0), (half, half), (0, 0)))
        smoothing = self.smoothing[...]
        for lag in range(config.period + 1):
            centred = centred + smoothing[lag] * around[:, lag : lag + steps]
        filled = jnp.pad(centred, ((0, 0), (0, config.segments * config.period - steps), (0, 0)))
        cut = filled.reshape(batch, config.segments, config.period, n)
        ahead = jnp.einsum("bspc,sa->bapc", cut, self._over_segments())
        forecast = ahead.reshape(batch, -1, n)[:, : config.horizon] + mean
        return forecast @ self.project.kernel[...] + self.project.bias[...]

    def _over_segments(self) -> Float[Array, "S A"]:
        """Both paths as one real map from segments to segments: they are linear, so it is exact."""
        config = self.config
        s, a, (side, side_ahead) = config.segments, config.segments_ahead, config.grid
        in_time = jnp.einsum("rp,cq->rcpq", self.rows[...], self.columns[...])
        in_time = in_time.reshape(side * side, side_ahead * side_ahead)[:s, :a]
        # e^(-2πi k s / S) of the kept frequencies, and the inverse transform over the segments ahead.
        angle = 2 * np.pi * np.outer(np.arange(s), np.arange(config.frequencies)) / s
        back = 2 * np.pi * np.outer(np.arange(a), np.arange(a)) / a
        spectrum = _times(_constant(np.exp(-1j * angle)), _times(self.narrow[...], self.widen[...]))
        in_frequency = _times(spectrum, _constant(np.exp(1j * back) / a))[0]
        return config.time_share * in_time + (1.0 - config.time_share) * in_frequency


def _complex(rngs: nnx.Rngs, n_in: int, n_out: int) -> nnx.Param:
    """A complex map; it starts real, as PyPOTS makes it from a real one."""
    real = dlinear.uniform(rngs, (n_in, n_out), n_in)
    return nnx.Param(jnp.stack([real, jnp.zeros_like(real)]))


def _constant(values: np.ndarray) -> Float[Array, "2 I O"]:
    return jnp.asarray(np.stack([values.real, values.imag]), jnp.float32)


def _times(a: Float[Array, "2 I J"], b: Float[Array, "2 J K"]) -> Float[Array, "2 I K"]:
    """Product of complex matrices given by their parts."""
    return jnp.stack([a[0] @ b[0] - a[1] @ b[1], a[0] @ b[1] + a[1] @ b[0]])


def training_flops(config: MixLinearConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward.

    Counted as evaluated here, with the maps along the segments joined first, once a batch.
    """
    n = channels.N_CHANNELS
    embedding = config.steps * 2 * n * n
    smoothing = config.steps * n * (config.period + 1)
    ahead = config.steps * n * config.segments_ahead
    return 2 * 3 * (embedding + smoothing + ahead + config.horizon * n * n)
