"""FourierGNN: all channels and steps as nodes of one graph, mixed in the Fourier domain (Yi et al. 2023).

The reference transforms K L nodes of 64 features forth and back. Here only the series is transformed: the features
are multiples of it. The way back runs into a linear map over the L steps of each channel, so both are one product,
taken for frequencies that are equal modulo K together, and a Fourier sum over K terms. Where only some of the K
channels are there, their number is data and the transforms are products with matrices made of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Complex, Float, Int

from wearjax.layers.dense import Dense
from wearjax.models.vital import sizes

WIDTH = 64  # features of a node
REDUCED = 8  # numbers that stay of a window's L steps
LAYERS = 3
SHRINKAGE = 0.01
SCALE = 0.02  # of the start of the frequency filters
SLOPE = 0.01  # of the leaky rectifier below zero


@dataclass(frozen=True)
class FourierGNNConfig:
    """Sizes; the width is that of VitalBench.

    Attributes:
        n_channels: channels of the centre; the model takes any number.
        context, horizon: steps of the window and of the forecast.
        d_model: features before the last linear map.
    """

    n_channels: int
    context: int
    horizon: int
    d_model: int = 512

    def __post_init__(self):
        sizes.check(self, at_least_1=("d_model",))


class FourierGNN(nnx.Module):
    """Forecasts every channel from all of them, in any number.

    `weights` and `biases` hold real and imaginary parts of the filters; of the published square matrices only the
    diagonals act.
    """

    def __init__(self, config: FourierGNNConfig, *, rngs: nnx.Rngs):
        self.config = config
        normal = lambda *shape: jax.random.normal(rngs.params(), shape, jnp.float32)  # noqa: E731
        self.embedding = nnx.Param(normal(1, WIDTH))
        self.weights = nnx.List(nnx.Param(SCALE * normal(2, WIDTH, WIDTH)) for _ in range(LAYERS))
        self.biases = nnx.List(nnx.Param(SCALE * normal(2, WIDTH)) for _ in range(LAYERS))
        self.reduction = nnx.Param(normal(config.context, REDUCED))
        self.hidden = Dense(WIDTH * REDUCED, WIDTH, rngs=rngs)
        self.wide, self.head = (
            Dense(WIDTH, config.d_model, rngs=rngs),
            Dense(config.d_model, config.horizon, rngs=rngs),
        )

    def __call__(
        self,
        x: Float[Array, "B L K"],
        *,
        kept: Int[Array, ""] | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B T K"]:
        """Forecasts.

        Args:
            kept: the first so many channels are there, the others hold zeros; None is all.
            keys: taken for the sake of the other models; nothing is dropped.
        """
        del keys
        sizes.check_input(self.config, x, any_channels=True)
        series = x.swapaxes(1, 2)  # (B, K, L)
        filtered_ = self._filtered(series) if kept is None else self._filtered_of(series, kept)
        reduced = filtered_ + self._unfiltered(series)
        hidden = jax.nn.leaky_relu(self.hidden(reduced.reshape(*series.shape[:2], -1)), SLOPE)
        return self.head(jax.nn.leaky_relu(self.wide(hidden), SLOPE)).swapaxes(1, 2)

    def _unfiltered(self, series: Float[Array, "B K L"]) -> Float[Array, "B K W R"]:
        """The share of the spectrum that passes the layers as it is."""
        reduced = series @ self.reduction[...].astype(series.dtype)
        return self.embedding[...][0].astype(series.dtype)[:, None] * reduced[:, :, None]

    def _filtered(self, series: Float[Array, "B K L"]) -> Float[Array, "B K W R"]:
        batch, channels, context = series.shape
        wide = jnp.promote_types(series.dtype, jnp.float32)
        real, imaginary = by_residue(
            jnp.fft.rfft(series.reshape(batch, -1).astype(wide), norm="ortho"), channels
        )
        kernel = inverse_kernel(self.reduction[...].astype(wide), channels, context)
        embedding, filters = self.embedding[...][0].astype(wide), self._filters(wide)

        @jax.checkpoint  # 64 times the size of what it starts from, and cheap to repeat
        def one_residue(args):
            real, imaginary, kernel = args  # (B, J) twice, (2 J, 2 R)
            z = jnp.concatenate(filtered(real[:, None], imaginary[:, None], embedding, filters), axis=-1)
            return z @ kernel  # (B, W, 2 R)

        parts = jax.lax.map(one_residue, (real, imaginary, kernel))
        sums = turned_sum(parts[..., :REDUCED], parts[..., REDUCED:])
        return sums.astype(series.dtype)

    def _filtered_of(self, series: Float[Array, "B K L"], kept: Int[Array, ""]) -> Float[Array, "B K W R"]:
        """The same for the first `kept` channels, by products with the matrices of the transforms."""
        batch, channels, context = series.shape
        wide = jnp.promote_types(series.dtype, jnp.float32)
        forth, back = transforms(self.reduction[...].astype(wide), channels, context, kept)
        spectrum = jnp.matmul(series.reshape(batch, -1).astype(wide), forth, precision="highest")
        real, imaginary = jnp.split(spectrum, 2, axis=1)
        filters = tuple(tuple(layer) for layer in self._filters(wide))

        @jax.checkpoint
        def one_feature(args):
            weight, layers = args[0], args[1]
            z = jnp.concatenate(filtered(real, imaginary, weight[None], layers), axis=-1)
            return z @ back  # (B, K R)

        features = jax.tree.map(lambda v: v[:, None], filters)
        parts = jax.lax.map(one_feature, (self.embedding[...][0].astype(wide), features))
        return parts.reshape(WIDTH, batch, channels, REDUCED).transpose(1, 2, 0, 3).astype(series.dtype)

    def _filters(self, dtype) -> list[tuple[Array, ...]]:
        """Real and imaginary part of the diagonals, then of the biases, for every layer."""
        return [
            tuple(jnp.concatenate([jnp.diagonal(w[...], axis1=1, axis2=2), b[...]]).astype(dtype))
            for w, b in zip(self.weights, self.biases, strict=True)
        ]


def transforms(
    reduction: Float[Array, "L R"], channels: int, context: int, kept: Int[Array, ""]
) -> tuple[Float[Array, "KL F2"], Float[Array, "F2 KR"]]:
    """Matrices of the transform of the first `kept` channels, and of the way back through `reduction`.

    Columns of the first and rows of the second are real, then imaginary parts of a spectrum; frequencies that so few
    channels do not have count as 0.
    """
    n = kept * context
    frequency, step = jnp.arange(channels * context // 2 + 1), jnp.arange(channels * context)
    # Whole turns are taken off as integers, which float32 could not resolve.
    turn = lambda a, of: 2 * np.pi * (a % of).astype(reduction.dtype) / of  # noqa: E731
    inside = jnp.where(2 * frequency <= n, 1.0, 0.0)
    weight = inside * jnp.where((frequency == 0) | (2 * frequency == n), 1.0, 2.0)
    size = jnp.sqrt(n.astype(reduction.dtype))
    angle = turn(step[:, None] * frequency, n)
    there = (step < n)[:, None] * inside / size
    forth = jnp.concatenate([jnp.cos(angle) * there, -jnp.sin(angle) * there], axis=1)
    real, imaginary = (wave.T[:, :context] @ reduction for wave in (jnp.cos(angle), jnp.sin(angle)))  # (F, R)
    shift = turn(frequency[:, None] * jnp.arange(channels), kept)
    cos, sin = (wave[..., None] * (weight / size)[:, None, None] for wave in (jnp.cos(shift), jnp.sin(shift)))
    back = jnp.concatenate(
        [
            cos * real[:, None] - sin * imaginary[:, None],
            -(sin * real[:, None] + cos * imaginary[:, None]),
        ]
    )
    return forth, back.reshape(2 * len(frequency), -1)


def by_residue(
    spectrum: Complex[Array, "B F"], channels: int
) -> tuple[Float[Array, "K B J"], Float[Array, "K B J"]]:
    """Real and imaginary parts; frequency j K + r at [r, :, j], zeros behind the last."""
    padded = jnp.pad(spectrum, ((0, 0), (0, -spectrum.shape[1] % channels)))
    grouped = padded.reshape(len(spectrum), -1, channels).transpose(2, 0, 1)
    return grouped.real, grouped.imag


def inverse_kernel(reduction: Float[Array, "L R"], channels: int, context: int) -> Float[Array, "K J2 R2"]:
    """What the inverse transform and `reduction` make of the frequencies of a residue, apart from its turn.

    Rows are real, then imaginary parts of the spectrum, columns real and imaginary parts of the result.
    """
    n = channels * context
    count = n // 2 + 1
    # every frequency but 0 and n / 2 stands for its conjugate too
    weight = np.full(count, 2.0)
    weight[0] = 1.0
    if n % 2 == 0:
        weight[-1] = 1.0
    conjugate = jnp.fft.rfft(reduction, n=n, axis=0) * (weight / np.sqrt(n)).astype(reduction.dtype)[:, None]
    padded = jnp.pad(conjugate, ((0, -count % channels), (0, 0)))
    grouped = padded.reshape(-1, channels, reduction.shape[1]).swapaxes(0, 1)  # (K, J, R)
    real, imaginary = grouped.real, -grouped.imag
    rows = (jnp.concatenate([real, imaginary], axis=-1), jnp.concatenate([-imaginary, real], axis=-1))
    return jnp.concatenate(rows, axis=1)


def turned_sum(real: Float[Array, "K B W R"], imaginary: Float[Array, "K B W R"]) -> Float[Array, "B K W R"]:
    """Real part of the sum over residues r of exp(2 pi i r k / K) times the part of r, for every channel k."""
    channels = len(real)
    angles = 2 * np.pi * np.outer(np.arange(channels), np.arange(channels)) / channels
    cos, sin = (np.asarray(f(angles), real.dtype) for f in (np.cos, np.sin))
    exact = jax.lax.Precision.HIGHEST
    return jnp.einsum("kr,rbwe->bkwe", cos, real, precision=exact) - jnp.einsum(
        "kr,rbwe->bkwe", sin, imaginary, precision=exact
    )


def filtered(real, imaginary, embedding: Float[Array, "W"], filters) -> tuple[Array, Array]:
    """Sum of the shrunk outputs of the three layers, for all features of each frequency."""
    shrink = lambda v: jax.nn.relu(v - SHRINKAGE)  # noqa: E731  of what is not negative
    column = lambda v: v[:, None]  # noqa: E731
    a, b = real * column(embedding), imaginary * column(embedding)
    total_a = total_b = jnp.zeros_like(a)
    for w_real, w_imaginary, bias_real, bias_imaginary in filters:
        a, b = (
            jax.nn.relu(a * column(w_real) - b * column(w_imaginary) + column(bias_real)),
            jax.nn.relu(b * column(w_real) + a * column(w_imaginary) + column(bias_imaginary)),
        )
        total_a, total_b = total_a + shrink(a), total_b + shrink(b)
    return total_a, total_b


def training_flops(config: FourierGNNConfig) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward; no transforms."""
    nodes = config.n_channels * config.context // 2 + 1
    spectrum = WIDTH * nodes * 4 * REDUCED
    head = config.n_channels * (
        WIDTH * REDUCED * WIDTH + WIDTH * config.d_model + config.d_model * config.horizon
    )
    return 3 * 2 * (spectrum + head)
