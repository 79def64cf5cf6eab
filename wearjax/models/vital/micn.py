"""MICN: convolutions at two scales, local and over the whole series, of the seasonal part (Wang et al. 2023).

Convolutions whose stride is their width, and their transposes, are cut into blocks and become plain products.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from wearjax.errors import ConfigError
from wearjax.layers import dense, dropout, window_norm
from wearjax.layers.dense import Dense, Norm
from wearjax.layers.dropout import WordStream
from wearjax.models.vital import patches, sizes

LAYER_DROPOUT = 0.05
MARKS = 4  # features of time that the published embedding has a map for; it stays without use
TAPS = 3  # of the embedding's circular convolution


@dataclass(frozen=True)
class MICNConfig:
    """Sizes; the defaults are those of VitalBench.

    Attributes:
        n_channels: channels, a fixed number.
        context, horizon: steps of the window and of the forecast.
        depth: layers.
        scales: steps of the local convolutions, even; the moving averages are one step wider.
        dropout: of the embedding; inside the layers it is 0.05.
        normalise: by mean and deviation of each window.
    """

    n_channels: int
    context: int
    horizon: int
    d_model: int = 128
    depth: int = 2
    scales: tuple[int, ...] = (12, 16)
    dropout: float = 0.2
    normalise: bool = True

    def __post_init__(self):
        sizes.check(self, at_least_1=("d_model", "depth"), rates=("dropout",))
        if not self.scales or any(scale < 2 or scale % 2 for scale in self.scales):
            raise ConfigError(f"model.scales: expected even numbers of steps, got {self.scales}")

    @property
    def length(self) -> int:
        """Steps that the layers run over: the window and the forecast."""
        return self.context + self.horizon


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def moving_average(x: Float[Array, "B S D"], window: int) -> Float[Array, "B S D"]:
    """Mean over an odd number of steps around each, the first and last value repeated beyond the ends.

    A sum of shifted slices, one pass over memory, whose gradient is written as one too.
    """
    half = window // 2
    return _window_sum(jnp.pad(x, ((0, 0), (half, half), (0, 0)), mode="edge"), window) / window


def _window_sum(x, window: int):
    length = x.shape[1] - window + 1
    return functools.reduce(jnp.add, [x[:, i : i + length] for i in range(window)])


def _moving_average_backward(window, _, cotangent):
    half = window // 2
    wide = _window_sum(jnp.pad(cotangent, ((0, 0), (2 * half, 2 * half), (0, 0))), window) / window
    # what reached the repeated values belongs to the first and the last
    first = wide[:, : half + 1].sum(axis=1, keepdims=True)
    last = wide[:, -half - 1 :].sum(axis=1, keepdims=True)
    return (jnp.concatenate([first, wide[:, half + 1 : -half - 1], last], axis=1),)


moving_average.defvjp(lambda x, window: (moving_average(x, window), None), _moving_average_backward)


def causal_convolution(x: Float[Array, "B n I"], taps: Float[Array, "n I O"]) -> Float[Array, "B n O"]:
    """y_t = sum over s <= t of x_s taps_(t - s), each step from all before it and itself.

    Multiplied in the Fourier domain, at 2 n - 1 points so that nothing wraps around. The transforms are products
    with small matrices. Libraries for CPUs take convolutions as long as the series, and more so their gradients,
    many times slower; as one large product it costs eight times the operations.
    """
    n = x.shape[1]
    points = 2 * n - 1
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / points  # (frequency, step)
    forth = np.stack([np.cos(angles), -np.sin(angles)]).astype(x.dtype)
    twice = np.where(np.arange(n) == 0, 1.0, 2.0)[:, None] / points  # for the conjugate frequencies
    back = (np.stack([np.cos(angles), -np.sin(angles)]) * twice).astype(x.dtype)
    real, imaginary = jnp.einsum("cfs,bsi->cfbi", forth, x)
    w_real, w_imaginary = jnp.einsum("cfs,sio->cfio", forth, taps.astype(x.dtype))
    spectrum = jnp.concatenate([real, imaginary], axis=-1)  # (f, B, 2 I)
    upper = jnp.concatenate([w_real, w_imaginary], axis=-1)
    lower = jnp.concatenate([-w_imaginary, w_real], axis=-1)
    product = spectrum @ jnp.concatenate([upper, lower], axis=1)  # (f, B, 2 O)
    parts = product.reshape(n, len(x), 2, -1)
    return jnp.einsum("cft,fbco->bto", back, parts)


class LocalGlobal(nnx.Module):
    """One scale of a layer: down to blocks of `scale` steps, a causal convolution over all blocks, up again."""

    def __init__(self, dim: int, scale: int, length: int, *, rngs: nnx.Rngs):
        self.blocks = length // scale + 1
        self.down = Dense(scale * dim, dim, rngs=rngs)
        self.whole = nnx.Param(dense.uniform(rngs, (self.blocks, dim, dim), dim * self.blocks))
        self.whole_bias = nnx.Param(dense.uniform(rngs, (dim,), dim * self.blocks))
        # PyTorch counts the outputs as what goes into a transposed convolution.
        self.up = nnx.Param(dense.uniform(rngs, (dim, scale, dim), scale * dim))
        self.up_bias = nnx.Param(dense.uniform(rngs, (dim,), scale * dim))
        self.scale = scale

    def __call__(
        self, x: Float[Array, "B S D"], norm: Norm, stream: WordStream | None
    ) -> Float[Array, "B S D"]:
        batch, length, dim = x.shape
        drop = lambda y: dropout.dropout(jnp.tanh(y), rate=LAYER_DROPOUT, stream=stream)  # noqa: E731
        half = self.scale // 2
        padded = jnp.pad(x, ((0, 0), (half, half), (0, 0)))[:, : self.blocks * self.scale]
        local = drop(self.down(padded.reshape(batch, self.blocks, self.scale * dim)))
        whole = drop(causal_convolution(local, self.whole[...][::-1]) + self.whole_bias[...].astype(x.dtype))
        merged = norm(whole + local)
        up = jnp.einsum("bsd,dko->bsko", merged, self.up[...].astype(x.dtype))
        up = drop((up + self.up_bias[...].astype(x.dtype)).reshape(batch, -1, dim))
        return norm(up[:, :length] + x)

    def n_words(self, dim: int) -> int:
        """Random words an example that the dropouts take."""
        return 2 * (self.blocks + dim) + self.blocks * self.scale + dim


class MICLayer(nnx.Module):
    """All scales of the detrended input, merged, and two linear maps."""

    def __init__(self, dim: int, scales: tuple[int, ...], length: int, *, rngs: nnx.Rngs):
        self.branches = nnx.List(LocalGlobal(dim, scale, length, rngs=rngs) for scale in scales)
        self.merge = Dense(len(scales) * dim, dim, rngs=rngs)
        self.expand, self.contract = Dense(dim, 4 * dim, rngs=rngs), Dense(4 * dim, dim, rngs=rngs)
        self.norm, self.norm1, self.norm2 = Norm(dim), Norm(dim), Norm(dim)

    def __call__(self, x: Float[Array, "B S D"], stream: WordStream | None) -> Float[Array, "B S D"]:
        scaled = []
        for branch in self.branches:
            seasonal = x - moving_average(x, branch.scale + 1)
            scaled.append(branch(seasonal, self.norm, stream))  # one norm serves all of them
        merged = self.merge(jnp.concatenate(scaled, axis=-1))
        return self.norm2(merged + self.contract(self.expand(self.norm1(merged))))

    def n_words(self, dim: int) -> int:
        return sum(branch.n_words(dim) for branch in self.branches)


class MICN(nnx.Module):
    """Forecasts every channel from all of them: a linear map of the trend, convolutions of the rest."""

    def __init__(self, config: MICNConfig, *, rngs: nnx.Rngs):
        self.config = config
        channels, dim = config.n_channels, config.d_model
        self.trend = Dense(config.context, config.horizon, rngs=rngs)
        self.trend.kernel[...] = jnp.full(self.trend.kernel.shape, 1.0 / config.horizon, jnp.float32)
        self.embed = nnx.Param(_kaiming_normal(rngs, (TAPS, channels, dim)))
        self.time_features = nnx.Param(dense.uniform(rngs, (MARKS, dim), MARKS))  # never read
        self.layers = nnx.List(
            MICLayer(dim, config.scales, config.length, rngs=rngs) for _ in range(config.depth)
        )
        self.project = Dense(dim, channels, rngs=rngs)

    def __call__(self, x: Float[Array, "B L K"], *, keys: jax.Array | None = None) -> Float[Array, "B T K"]:
        """Forecasts.

        Args:
            keys: one key an example for its dropouts; None is evaluation.
        """
        config = self.config
        sizes.check_input(config, x, any_channels=False)
        if config.normalise:
            x, scale = window_norm.normalise(x)
        averages = [moving_average(x, k + 1) for k in config.scales]
        trend = functools.reduce(jnp.add, averages) / len(averages)
        future = self.trend(trend.swapaxes(1, 2)).swapaxes(1, 2)
        stream = self._stream(keys)
        seasonal = jnp.pad(x - trend, ((0, 0), (0, config.horizon), (0, 0)))
        hidden = self._embedded(seasonal)
        hidden = dropout.dropout(hidden, rate=config.dropout, stream=stream)
        for layer in self.layers:
            hidden = layer(hidden, stream)
        y = future + self.project(hidden[:, -config.horizon :])
        return window_norm.restore(y, scale) if config.normalise else y

    def _embedded(self, x: Float[Array, "B S K"]) -> Float[Array, "B S D"]:
        """Circular convolution and the code of places."""
        neighbours = jnp.concatenate([jnp.roll(x, 1, axis=1), x, jnp.roll(x, -1, axis=1)], axis=-1)
        kernel = self.embed[...].astype(x.dtype)
        embedded = neighbours @ kernel.reshape(-1, kernel.shape[-1])
        return embedded + patches.positions(x.shape[1], kernel.shape[-1]).astype(x.dtype)

    def _stream(self, keys: jax.Array | None) -> WordStream | None:
        if keys is None:
            return None
        dim = self.config.d_model
        n_words = sum(layer.n_words(dim) for layer in self.layers) + self.config.length + dim
        return WordStream(dropout.draw_words(keys, n_words))


def _kaiming_normal(rngs: nnx.Rngs, shape: tuple[int, int, int]) -> Float[Array, "W I O"]:
    """N(0, 2 / (1.0001 fan in)), for a leaky rectifier of slope 0.01 (He et al. 2015)."""
    std = math.sqrt(2.0 / (1.0 + 0.01**2) / (shape[0] * shape[1]))
    return std * jax.random.normal(rngs.params(), shape, jnp.float32)


def training_flops(config: MICNConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward."""
    dim, length = config.d_model, config.length
    per_layer = length * dim * dim * (len(config.scales) + 8)
    for scale in config.scales:
        blocks = length // scale + 1
        per_layer += blocks * dim * dim * (2 * scale + (blocks + 1) // 2)
    ends = config.n_channels * (length * dim * TAPS + config.horizon * (dim + config.context))
    return 3 * 2 * (config.depth * per_layer + ends)
