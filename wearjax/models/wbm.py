"""WBM, the wearable behaviour model: a week of hours through bidirectional Mamba-2 blocks to one vector.

The form of the published OpenMHC weekly encoder: every hour is a token of 19 values and 19 missing flags; blocks
are post-norm; the mean over the hours is the representation, and a linear head before it is compared serves
pretraining only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, UInt32

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import blocks, dropout, linear, ssd
from wearjax.models import sizes

if TYPE_CHECKING:
    from wearjax.days.normalization import NormalizationStats

_IS_BINARY = np.isin(np.arange(channels.N_CHANNELS), channels.BINARY)
HOURS_PER_WEEK = 7 * channels.HOURS_PER_DAY
BACKWARD = 2  # a product is differentiated by two of the same size


@dataclass(frozen=True)
class WBMConfig:
    """Sizes and execution choices; the defaults are the published model (6,405,120 parameters).

    Attributes:
        hours: steps of an example.
        channels: values an hour; a token holds as many missing flags besides.
        tokenizer_hidden: width between the two maps of the tokenizer.
        d_state, d_conv, expand, headdim: of the Mamba-2 mixers, see `wearjax.layers.ssd.Mamba2`.
        dropout: rate of the three dropouts of a block (mixer output, FFN hidden and output).
        projection_dim: size of the vectors that are compared in pretraining.
        token_drop: probability that an hour is left out of the mean of a view in pretraining.
        temperature: of the similarities in the contrastive loss.
        koleo_weight: weight of the term that spreads the vectors.
        dtype: compute type, `float32` or `bfloat16`; parameters, decays, norms and loss stay float32.
        ssd: form of the state-space scan, see `wearjax.layers.ssd.ssd`.
        scan_layers: run the blocks as a scan, which compiles one of them only.
    """

    hours: int = HOURS_PER_WEEK
    channels: int = channels.N_CHANNELS
    dim: int = 256
    tokenizer_hidden: int = 64
    depth: int = 4
    d_state: int = 128
    d_conv: int = 4
    expand: int = 2
    headdim: int = 64
    ffn_ratio: int = 4
    dropout: float = 0.223
    projection_dim: int = 128
    token_drop: float = 0.223
    temperature: float = 0.2
    koleo_weight: float = 0.689
    dtype: str = "float32"
    ssd: str = "auto"
    scan_layers: bool = False

    def __post_init__(self):
        sizes.at_least_1(
            self, "hours", "dim", "tokenizer_hidden", "depth", "d_state", "d_conv", "expand", "headdim",
            "ffn_ratio", "projection_dim",
        )  # fmt: skip
        if self.channels != channels.N_CHANNELS:
            raise ConfigError(f"model.channels: days have {channels.N_CHANNELS}, got {self.channels}")
        if self.inner % self.headdim:
            raise ConfigError(f"model.headdim: {self.headdim} does not divide expand · dim = {self.inner}")
        sizes.rates(self, "dropout", "token_drop")
        if not self.temperature > 0.0:
            raise ConfigError(f"model.temperature: must be positive, got {self.temperature}")
        sizes.not_negative(self, "koleo_weight")
        sizes.dtype(self)
        if self.ssd not in ssd.IMPLEMENTATIONS:
            raise ConfigError(
                f"model.ssd: expected one of {', '.join(ssd.IMPLEMENTATIONS)}, got {self.ssd!r}"
            )

    @property
    def in_dim(self) -> int:
        """Features of a token: values and missing flags."""
        return 2 * self.channels

    @property
    def inner(self) -> int:
        """Features inside a mixer."""
        return self.expand * self.dim


def tokens_of(values: Float[Array, "B T C"], stats: NormalizationStats) -> Float[Array, "B T 2*C"]:
    """Tokens of raw hours: z-scores (0/1 channels unchanged), zero where missing, then the missing flags.

    Missing values are replaced before any arithmetic, so a NaN reaches neither value nor gradient. The published
    model was trained without an epsilon beside the spread: `stats` of hours carry epsilon 0.
    """
    missing = jnp.isnan(values)
    values = jnp.where(missing, 0.0, values).astype(jnp.float32)
    shift = np.where(_IS_BINARY, 0.0, np.asarray(stats.means, np.float64)).astype(np.float32)
    scale = np.where(_IS_BINARY, 1.0, np.asarray(stats.stds, np.float64) + stats.epsilon).astype(np.float32)
    scaled = jnp.where(missing, 0.0, (values - shift) / scale)
    return jnp.concatenate([scaled, missing.astype(jnp.float32)], axis=-1)


def pool(z: Float[Array, "B T D"], keep: Bool[Array, "B T"] | None = None) -> Float[Array, "B D"]:
    """Mean over the kept steps (all without a mask); zeros where none is kept."""
    if keep is None:
        return z.mean(axis=1)
    weights = keep.astype(z.dtype)
    return jnp.einsum("bt,btd->bd", weights, z) / jnp.maximum(weights.sum(axis=1), 1.0)[:, None]


def unit(x: Float[Array, "B D"]) -> Float[Array, "B D"]:
    """x / |x|; zeros, with no gradient, for a vector of zeros."""
    square = jnp.square(x).sum(axis=-1, keepdims=True)
    nonzero = square > 1e-24
    return jnp.where(nonzero, x * jax.lax.rsqrt(jnp.where(nonzero, square, 1.0)), 0.0)


class Tokenizer(nnx.Module):
    """Linear - exact GELU - linear; no position embedding, since the mixers know the order."""

    def __init__(self, n_in: int, hidden: int, dim: int, *, dtype=jnp.float32, rngs: nnx.Rngs):
        self.fc1 = linear.Linear(n_in, hidden, dtype=dtype, rngs=rngs)
        self.fc2 = linear.Linear(hidden, dim, dtype=dtype, rngs=rngs)

    def __call__(self, x: Float[Array, "B T I"]) -> Float[Array, "B T D"]:
        return self.fc2(linear.gelu(self.fc1(x)))


class Block(nnx.Module):
    """norm(x + drop(mixer of both directions)), then norm(x + drop(FFN(x))); the residual stream is float32."""

    def __init__(self, config: WBMConfig, *, rngs: nnx.Rngs):
        dtype = sizes.DTYPES[config.dtype]
        mixer = dict(
            d_state=config.d_state, d_conv=config.d_conv, expand=config.expand, headdim=config.headdim,
            implementation=config.ssd, dtype=dtype,
        )  # fmt: skip
        dim = config.dim
        self.fwd = ssd.Mamba2(dim, rngs=rngs, **mixer)
        self.bwd = ssd.Mamba2(dim, rngs=rngs, **mixer)
        self.proj = linear.Linear(2 * dim, dim, dtype=dtype, rngs=rngs)
        self.norm1 = linear.LayerNorm(dim, rngs=rngs)
        self.ffn = blocks.Mlp(
            dim, config.ffn_ratio * dim, dropout_rate=config.dropout, dtype=dtype, rngs=rngs
        )
        self.norm2 = linear.LayerNorm(dim, rngs=rngs)
        self.dropout_rate = config.dropout

    def __call__(
        self, x: Float[Array, "B T D"], *, views: int = 1, stream: dropout.WordStream | None = None
    ) -> Float[Array, "views*B T D"]:
        """Features of every step; with several `views`, of as many copies of x, which dropout makes different."""
        mixed = ssd.both_directions(self.fwd, self.bwd, self.proj, x)
        if views > 1:  # nothing random has happened yet
            x, mixed = (jnp.concatenate([v] * views) for v in (x, mixed))
        x = self.norm1(x + dropout.dropout(mixed, rate=self.dropout_rate, stream=stream))
        return self.norm2(x + self.ffn(x, stream=stream))


class WBM(nnx.Module):
    """Tokenizer, blocks with their parameters stacked on a leading axis, mean, projection head."""

    def __init__(self, config: WBMConfig, *, rngs: nnx.Rngs):
        dtype = sizes.DTYPES[config.dtype]

        @nnx.split_rngs(splits=config.depth)
        @nnx.vmap
        def create(rngs: nnx.Rngs) -> Block:
            return Block(config, rngs=rngs)

        self.config = config
        self.tokenizer = Tokenizer(config.in_dim, config.tokenizer_hidden, config.dim, dtype=dtype, rngs=rngs)
        self.backbone = create(rngs)
        self.proj_head = linear.Linear(config.dim, config.projection_dim, dtype=dtype, rngs=rngs)

    def contextual(
        self, tokens: Float[Array, "B T 2*C"], *, keys: jax.Array | None = None
    ) -> Float[Array, "views*B T D"]:
        """The vector of every hour; float32.

        Args:
            tokens: as `tokens_of` makes them.
            keys: dropout keys, one an example and view, all examples of the first view first; None is evaluation.
                What the views have in common, up to the first dropout, is computed once.
        """
        graph, stacked = nnx.split(self.backbone)

        def run(x, layer, words, views=1):
            stream = None if words is None else dropout.WordStream(words)
            return nnx.merge(graph, layer)(x, views=views, stream=stream)

        x = self.tokenizer(tokens).astype(jnp.float32)
        words = self._words(keys, x.shape)
        views = 1 if keys is None else len(keys) // len(tokens)
        if self.config.scan_layers:
            first = jax.tree.map(lambda leaf: leaf[0], (stacked, words))
            x = run(x, first[0], first[1], views)
            rest = jax.tree.map(lambda leaf: leaf[1:], (stacked, words))
            return jax.lax.scan(lambda x, xs: (run(x, *xs), None), x, rest)[0]
        for index, layer in enumerate(blocks.unstack(stacked, self.config.depth)):
            x = run(x, layer, None if words is None else words[index], views if index == 0 else 1)
        return x

    def _words(self, keys, shape) -> UInt32[Array, "depth B n"] | None:
        if keys is None or self.config.dropout == 0.0:
            return None
        batch, (_, length, dim) = len(keys), shape
        n = 3 * length + dim * (
            2 + self.config.ffn_ratio
        )  # rows and columns of the three dropouts of a block
        words = dropout.draw_words(keys, self.config.depth * n)
        return words.reshape(batch, self.config.depth, n).swapaxes(0, 1)

    def encode(
        self,
        tokens: Float[Array, "B T 2*C"],
        keep: Bool[Array, "B T"] | None = None,
        *,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B D"]:
        """Mean of `contextual` over the kept hours; without `keep` over all, missing ones included."""
        return pool(self.contextual(tokens, keys=keys), keep)

    def project(self, r: Float[Array, "B D"]) -> Float[Array, "B E"]:
        """The vectors that the contrastive loss compares, of length 1; float32."""
        return unit(self.proj_head(r).astype(jnp.float32))

    def embed(self, values: Float[Array, "B T C"], stats: NormalizationStats) -> Float[Array, "B D"]:
        """Representation of raw weeks for downstream use, before the projection; NaN = missing."""
        return self.encode(tokens_of(values, stats))


def forward_flops(config: WBMConfig, *, views: int = 1) -> int:
    """FLOP of encoding and projecting a week, of the matrix products alone.

    The scan counts in its quadratic form with all T x T pairs, as that form runs them, whatever the form chosen.

    Args:
        views: how often it is encoded; tokens and first mixers are made once.
    """
    steps, dim, inner, state = config.hours, config.dim, config.inner, config.d_state
    heads = inner // config.headdim
    mixer = dim * (2 * inner + 2 * state + heads) + inner * dim + config.d_conv * (inner + 2 * state)
    mixer += steps * (state + inner)  # C B' once, then the product with x of each head
    ffn = 2 * config.ffn_ratio * dim * dim
    tokenizer = config.in_dim * config.tokenizer_hidden + config.tokenizer_hidden * dim
    once = tokenizer + 2 * mixer
    again = config.depth * ffn + (config.depth - 1) * 2 * mixer
    return 2 * steps * (once + views * again) + 2 * views * dim * config.projection_dim


def training_flops(config: WBMConfig) -> int:
    """FLOP of one week's share of a training step: forward and backward pass of two views, which are encoded apart
    only if there is dropout."""
    return (1 + BACKWARD) * forward_flops(config, views=2 if config.dropout > 0 else 1)
