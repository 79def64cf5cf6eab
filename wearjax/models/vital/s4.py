"""S4: structured state spaces over the patches of one channel, the same for all channels (Gu et al. 2022).

The state matrix is the HiPPO-LegS matrix as a diagonal minus a rank-one term, discretised by the bilinear rule.
Sequences have a dozen patches, so the convolution kernel comes from running the recurrence that often.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Complex, Float

from wearjax.errors import ConfigError
from wearjax.layers import dropout, linear
from wearjax.layers.dense import Dense, Norm
from wearjax.layers.dropout import WordStream
from wearjax.models.vital import patches, sizes

SHORTEST_STEP, LONGEST_STEP = 1e-3, 1e-1


@dataclass(frozen=True)
class S4Config:
    """Sizes; the defaults are those of VitalBench at 5-second steps.

    Attributes:
        n_channels: channels of the centre; the model takes any number.
        context, horizon: steps of the window and of the forecast.
        patch, stride: steps of a patch, and from one to the next.
        depth: residual blocks.
        d_state: real size of the state of a feature, even: half as many conjugate pairs.
        low_rank: keep the rank-one term (S4); without it the state matrix is diagonal (S4D, Gu et al. 2022b).
        dropout: of tokens, inside and behind each block, and of the forecast.
        normalise: by mean and deviation of each window.
    """

    n_channels: int
    context: int
    horizon: int
    patch: int = 60
    stride: int = 30
    d_model: int = 512
    depth: int = 2
    d_state: int = 64
    low_rank: bool = True
    dropout: float = 0.2
    normalise: bool = True

    def __post_init__(self):
        sizes.check(self, at_least_1=("patch", "stride", "d_model", "depth"), rates=("dropout",))
        if self.d_state < 2 or self.d_state % 2:
            raise ConfigError(f"model.d_state: must be even and positive, got {self.d_state}")
        patches.check(self)


class Hippo(NamedTuple):
    """HiPPO-LegS in the basis that makes it diagonal minus p p*, one of each pair of conjugates."""

    eigenvalues: Complex[np.ndarray, "pair"]
    p: Complex[np.ndarray, "pair"]
    b: Complex[np.ndarray, "pair"]


@functools.lru_cache
def hippo(d_state: int) -> Hippo:
    """A + p p' is normal: -1/2 plus the skew part with entries of size sqrt((n + 1/2) (k + 1/2)).

    Gu et al. 2022, theorem 1 and appendix C.1; b_n = sqrt(2 n + 1) and p_n = sqrt(n + 1/2).
    """
    n = np.arange(d_state)
    p = np.sqrt(n + 0.5)
    skew = np.outer(p, p) * np.sign(n[None] - n[:, None])
    imaginary, basis = np.linalg.eigh(-1j * skew)  # ascending, in pairs of opposite sign
    chosen = basis[:, d_state // 2 :].conj().T
    eigenvalues = -0.5 + 1j * imaginary[d_state // 2 :]
    return Hippo(eigenvalues, chosen @ p, chosen @ np.sqrt(2 * n + 1.0))


def _pair(array: Complex[np.ndarray, "..."]) -> nnx.Param:
    """A complex number as a last axis of real and imaginary part."""
    return nnx.Param(jnp.asarray(np.stack([array.real, array.imag], axis=-1), jnp.float32))


class StateSpaces(nnx.Module):
    """One state space for every feature, and its direct path."""

    def __init__(self, dim: int, d_state: int, *, low_rank: bool, rngs: nnx.Rngs):
        start = hippo(d_state)
        copies = lambda v: np.tile(v, (dim, 1))  # noqa: E731
        self.log_decay = nnx.Param(jnp.asarray(copies(np.log(-start.eigenvalues.real)), jnp.float32))
        self.frequency = nnx.Param(jnp.asarray(copies(start.eigenvalues.imag), jnp.float32))
        self.p = _pair(copies(start.p)) if low_rank else None
        self.b = _pair(copies(start.b))
        # complex normal: both parts of variance one half
        draw = jax.random.normal(rngs.params(), (dim, d_state // 2, 2), jnp.float32)
        self.c = nnx.Param(draw * math.sqrt(0.5))
        low, high = math.log(SHORTEST_STEP), math.log(LONGEST_STEP)
        self.log_step = nnx.Param(jax.random.uniform(rngs.params(), (dim,), minval=low, maxval=high))
        self.skip = nnx.Param(jax.random.normal(rngs.params(), (dim,), jnp.float32))

    def kernel(self, length: int, dtype=jnp.float32) -> Float[Array, "length D"]:
        """K_l = 2 Re(C A^l B) with the discretised A and B (Gu et al. 2022, equations 3 to 5)."""
        to_complex = lambda v: jax.lax.complex(*jnp.moveaxis(v[...].astype(dtype), -1, 0))  # noqa: E731
        b, c = to_complex(self.b), to_complex(self.c)
        decay, frequency = -jnp.exp(self.log_decay[...].astype(dtype)), self.frequency[...].astype(dtype)
        eigenvalues = jax.lax.complex(decay, frequency)
        half = 0.5 * jnp.exp(self.log_step[...].astype(dtype))[:, None]
        inverse = 1.0 / (1.0 - half * eigenvalues)
        p = None if self.p is None else to_complex(self.p)
        # A pair of conjugates acts on z as 2 Re of one of them.
        read = lambda weight, z: 2.0 * (weight * z).real.sum(axis=-1, keepdims=True)  # noqa: E731

        def solve(z):
            """(I - step / 2 A)^-1 z, the rank-one term by the formula of Sherman and Morrison."""
            z = inverse * z
            if p is None:
                return z
            share = half / (1.0 + half * read(p.conj(), inverse * p))
            return z - inverse * p * (share * read(p.conj(), z))

        def forward(z):
            """(I + step / 2 A) z."""
            moved = eigenvalues * z
            return z + half * (moved if p is None else moved - p * read(p.conj(), z))

        state, taps = solve(2.0 * half * b), []
        for _ in range(length):
            taps.append(read(c, state)[:, 0])
            state = solve(forward(state))
        return jnp.stack(taps)

    def __call__(self, x: Float[Array, "B G P D"]) -> Float[Array, "B G P D"]:
        """Each feature's series of patches through its state space."""
        length, dtype = x.shape[2], x.dtype
        taps = self.kernel(length, jnp.promote_types(dtype, jnp.float32)).astype(dtype)
        skip = self.skip[...].astype(dtype)
        steps = [x[:, :, t] for t in range(length)]
        outputs = [
            sum((steps[s] * taps[t - s] for s in range(t)), start=steps[t] * (taps[0] + skip))
            for t in range(length)
        ]
        return jnp.stack(outputs, axis=2)


class Block(nnx.Module):
    """x + drop(mix(drop(gelu(state spaces(norm(x)))))), mix a gated linear map."""

    def __init__(self, dim: int, d_state: int, *, low_rank: bool, dropout_rate: float, rngs: nnx.Rngs):
        self.norm = Norm(dim)
        self.spaces = StateSpaces(dim, d_state, low_rank=low_rank, rngs=rngs)
        self.mix = Dense(dim, 2 * dim, rngs=rngs)
        self.dropout_rate = dropout_rate

    def __call__(
        self, x: Float[Array, "B GP D"], *, groups: int, stream: WordStream | None
    ) -> Float[Array, "B GP D"]:
        drop = lambda y: dropout.dropout(y, rate=self.dropout_rate, stream=stream)  # noqa: E731
        grouped = self.norm(x).reshape(len(x), groups, -1, x.shape[-1])
        hidden = drop(linear.gelu(self.spaces(grouped)).reshape(x.shape))
        value, gate = jnp.split(self.mix(hidden), 2, axis=-1)
        return x + drop(value * jax.nn.sigmoid(gate))


class S4(patches.PatchForecaster):
    """Forecasts each channel from its own past."""

    def __init__(self, config: S4Config, *, rngs: nnx.Rngs):
        self.config = config
        self.embed = patches.PatchEmbedding(config.patch, config.stride, config.d_model, rngs=rngs)
        self.blocks = nnx.List(
            Block(
                config.d_model,
                config.d_state,
                low_rank=config.low_rank,
                dropout_rate=config.dropout,
                rngs=rngs,
            )
            for _ in range(config.depth)
        )
        n_patches = patches.count(config.context, config.patch, config.stride)
        self.head = patches.PatchHead(n_patches, config.d_model, config.horizon, rngs=rngs)

    def encoded(self, tokens, *, groups, stream):
        for block in self.blocks:
            tokens = block(tokens, groups=groups, stream=stream)
        return tokens

    def n_words(self, tokens: int) -> int:
        return 2 * self.config.depth * (tokens + self.config.d_model)


def training_flops(config: S4Config) -> int:
    """FLOP of one example's training step: products forward, and twice as many backward; no kernels."""
    length, dim = patches.count(config.context, config.patch, config.stride), config.d_model
    per_token = config.depth * dim * (2 * dim + (length + 1) // 2) + dim * (config.patch + config.horizon)
    return 3 * 2 * config.n_channels * length * per_token
