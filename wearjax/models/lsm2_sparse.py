"""LSM-2-Sparse: a frozen daily encoder for each of seven days, and a decoder that looks within and across days.

The published OpenMHC form. Decoder layers alternate: even ones attend within a day, odd ones across the days,
among the tokens of one two-hour window of all of them, with rotary angles that tell the true distance of days.
A window has fewer tokens than a day, so no layer needs more memory than a daily one on as many days.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Shaped, UInt32

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import blocks, dropout, linear, patch, position, rope, token_drop
from wearjax.models import lsm2, lsm2_start, sizes

FROZEN = ("patch_embed", "encoder")
FROM_DAILY = (*FROZEN, "encoder_to_decoder", "mask_token", "decoder_pred")
LAST_OFFSET = 364  # days; larger offsets count as this one, the -1 of padded days as 0


@dataclass(frozen=True)
class LSM2SparseConfig(lsm2.LSM2Config):
    """The daily model's sizes, of each day (24,559,498 parameters, of which 3,260,938 are trained).

    Attributes:
        minutes: samples a channel and day.
        n_days: days of a window.
        window_minutes: stretch of the day within which tokens of different days see each other.
        decoder_depth: even; half of the layers attend within days, half across.
    """

    n_days: int = 7
    window_minutes: int = 120

    def __post_init__(self):
        super().__post_init__()
        sizes.at_least_1(self, "n_days")
        if self.window_minutes < 1 or self.minutes % self.window_minutes or self.window_minutes % self.patch:
            raise ConfigError(
                f"model.window_minutes: {self.window_minutes} must divide model.minutes {self.minutes} "
                f"and be a multiple of model.patch {self.patch}"
            )
        if self.decoder_depth % 2:
            raise ConfigError(f"model.decoder_depth: must be even, got {self.decoder_depth}")
        if self.decoder_dim // self.decoder_heads % 2:
            raise ConfigError(
                f"model.decoder_dim: {self.decoder_dim} needs an even number of features a head"
            )

    @property
    def n_windows(self) -> int:
        """Windows of a day."""
        return self.minutes // self.window_minutes


def _root(path: tuple) -> str:
    """First name of a parameter's path, given as names or as JAX key entries."""
    return str(getattr(path[0], "key", getattr(path[0], "name", path[0])))


def frozen(path: tuple) -> bool:
    """Whether a parameter, by its path in the model, is never trained: those of the daily encoder."""
    return _root(path) in FROZEN


def to_windows(x: Shaped[Array, "B day CP *rest"], n_windows: int) -> Shaped[Array, "B*window day*C*p *rest"]:
    """Tokens of a window of all days as one sequence: day, then channel, then place within the window."""
    batch, days, tokens, *rest = x.shape
    size = tokens // channels.N_CHANNELS // n_windows
    x = x.reshape(batch, days, channels.N_CHANNELS, n_windows, size, *rest)
    return jnp.moveaxis(x, 3, 1).reshape(batch * n_windows, days * channels.N_CHANNELS * size, *rest)


def from_windows(
    x: Shaped[Array, "B*window day*C*p *rest"], n_windows: int, n_days: int
) -> Shaped[Array, "B day CP *rest"]:
    """Inverse of `to_windows`."""
    rows, tokens, *rest = x.shape
    size = tokens // n_days // channels.N_CHANNELS
    x = x.reshape(rows // n_windows, n_windows, n_days, channels.N_CHANNELS, size, *rest)
    x = jnp.moveaxis(x, 1, 3)
    return x.reshape(rows // n_windows, n_days, channels.N_CHANNELS * n_windows * size, *rest)


def split_days(x: Shaped[Array, "B C day*M"], n_days: int) -> Shaped[Array, "B day C M"]:
    """Days of a window as an axis of their own."""
    batch, rows, length = x.shape
    return x.reshape(batch, rows, n_days, length // n_days).swapaxes(1, 2)


def join_days(x: Shaped[Array, "B day CP *rest"]) -> Shaped[Array, "B C*day*P *rest"]:
    """Tokens of the days in the order of one long day: channel, then day, then place in the day."""
    batch, days, tokens, *rest = x.shape
    x = x.reshape(batch, days, channels.N_CHANNELS, -1, *rest).swapaxes(1, 2)
    return x.reshape(batch, days * tokens, *rest)


def row_keys(keys: jax.Array, n: int) -> jax.Array:
    """`n` keys for each example's key, example-major: (B,) to (B * n,)."""
    fold = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
    return fold(keys, jnp.arange(n)).reshape(-1)


def _stream(words: UInt32[Array, "rows n"] | None) -> dropout.WordStream | None:
    return None if words is None else dropout.WordStream(words)


def within_days(
    block: blocks.Block, x: Float[Array, "B day T D"], words: UInt32[Array, "B*day n"] | None = None
) -> Float[Array, "B day T D"]:
    """A block on every day by itself."""
    return block(x.reshape(-1, *x.shape[2:]), stream=_stream(words)).reshape(x.shape)


def across_days(
    block: blocks.Block,
    x: Float[Array, "B day T D"],
    angles: Float[Array, "B day half"],
    n_windows: int,
    words: UInt32[Array, "B*window n"] | None = None,
) -> Float[Array, "B day T D"]:
    """A block on every window of all days together; queries and keys are turned by the angles of their day."""
    tokens_a_day = x.shape[2] // n_windows
    turns = jnp.repeat(jnp.repeat(angles, tokens_a_day, axis=1), n_windows, axis=0)
    out = block(to_windows(x, n_windows), angles=turns, stream=_stream(words))
    return from_windows(out, n_windows, x.shape[1])


class LSM2Sparse(nnx.Module):
    """Encoder of a daily model without gradient, decoder over several days, linear prediction of each patch."""

    def __init__(self, config: LSM2SparseConfig, *, rngs: nnx.Rngs):
        dtype = jnp.dtype(config.dtype)
        block: dict[str, Any] = dict(
            mlp_ratio=config.mlp_ratio, dropout_rate=config.dropout, implementation=config.attention,
            block=config.attention_block, dtype=dtype,
        )  # fmt: skip
        decoder = (config.decoder_depth // 2, config.decoder_dim, config.decoder_heads)
        self.config = config
        self.patch_embed = patch.PatchEmbed(config.patch, config.encoder_dim, dtype=dtype, rngs=rngs)
        self.encoder = blocks.TransformerStack(
            config.encoder_dim, config.encoder_depth, config.encoder_heads, scan_layers=config.scan_layers,
            remat=config.remat, rngs=rngs, **block,
        )  # fmt: skip
        self.encoder_to_decoder = linear.Linear(
            config.encoder_dim, config.decoder_dim, dtype=dtype, rngs=rngs
        )
        self.mask_token = nnx.Param(linear.truncated_normal()(rngs.params(), (config.decoder_dim,)))
        self.decoder_local = blocks.create_stacked(*decoder, rngs=rngs, **block)
        self.decoder_cross = blocks.create_stacked(*decoder, rngs=rngs, **block)
        self.decoder_norm = linear.LayerNorm(config.decoder_dim, dtype=dtype, rngs=rngs)
        self.decoder_pred = linear.Linear(config.decoder_dim, config.patch, dtype=dtype, rngs=rngs)
        if config.start == "local":  # the rest begins with a daily model
            for stacked in (self.decoder_local, self.decoder_cross):
                lsm2_start.look_nearby(stacked)

    def positions(self, dim: int) -> np.ndarray:
        """Fixed position features of the tokens of a day, (T, dim), those of the daily model."""
        return position.grid_sincos(
            channels.N_CHANNELS, self.config.patches_per_channel, dim, period=self.config.position_period
        )

    def encode(
        self,
        patches: Float[Array, "days T patch"],
        masked: Bool[Array, "days T"],
        *,
        selection: token_drop.Selection | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "days K D"]:
        """The daily encoder on days, each by itself; no gradient reaches its parameters.

        Arguments as in `lsm2.LSM2.encode`: masked tokens are never attended to.
        """
        graph, state = nnx.split((self.patch_embed, self.encoder))
        patch_embed, encoder = nnx.merge(graph, jax.tree.map(jax.lax.stop_gradient, state))
        positions = jnp.asarray(self.positions(self.config.encoder_dim))
        if selection is not None:
            patches = token_drop.gather(patches, selection)
            masked = token_drop.gather(masked, selection)
            positions = positions[selection.index]
        tokens = patch_embed(patches).astype(jnp.float32) + positions
        return jax.lax.stop_gradient(encoder(tokens, key_mask=~masked, keys=keys))

    def decode(
        self,
        encoded: Float[Array, "B*day K D"],
        masked: Bool[Array, "B day T"],
        *,
        day_offsets: Int[Array, "B day"],
        selection: token_drop.Selection | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B C*day*P patch"]:
        """Predicted patches in the order of `join_days`; otherwise as `lsm2.LSM2.decode`."""
        tokens = self.encoder_to_decoder(encoded).astype(jnp.float32)
        mask_token = self.mask_token[...]
        hidden = masked.reshape(-1, masked.shape[-1])
        if selection is None:
            tokens = jnp.where(hidden[..., None], mask_token, tokens)
        else:
            tokens = token_drop.restore(tokens, selection, mask_token, masked=hidden)
        tokens = tokens + self.positions(self.config.decoder_dim)
        width = self.config.decoder_dim // self.config.decoder_heads
        angles = rope.angles(day_offsets, width, last=LAST_OFFSET)
        tokens = self._alternate(tokens.reshape(*masked.shape, -1), angles, keys)
        return self.decoder_pred(self.decoder_norm(join_days(tokens))).astype(jnp.float32)

    def _alternate(self, x, angles, keys):
        """The decoder layers: within days, across days, within, across."""
        config, pairs = self.config, self.config.decoder_depth // 2
        local_graph, local = nnx.split(self.decoder_local)
        cross_graph, cross = nnx.split(self.decoder_cross)

        def within(x, state, words):
            return within_days(nnx.merge(local_graph, state), x, words)

        def across(x, state, words):
            return across_days(nnx.merge(cross_graph, state), x, angles, config.n_windows, words)

        within, across = (
            blocks.checkpointed(layer, config.remat, in_scan=config.scan_layers) for layer in (within, across)
        )
        local_words, cross_words = self._words(keys, x.shape)
        if config.scan_layers:

            def pair(x, xs):
                local, cross, local_words, cross_words = xs
                return across(within(x, local, local_words), cross, cross_words), None

            return jax.lax.scan(pair, x, (local, cross, local_words, cross_words))[0]
        layers = zip(blocks.unstack(local, pairs), blocks.unstack(cross, pairs), strict=True)
        for index, (one, other) in enumerate(layers):
            x = within(x, one, None if local_words is None else local_words[index])
            x = across(x, other, None if cross_words is None else cross_words[index])
        return x

    def _words(self, keys, shape):
        """Dropout words of the layers within days, a row a day, and across days, a row a window."""
        config, (_, days, tokens, dim) = self.config, shape
        if keys is None or config.dropout == 0.0:
            return None, None
        words = partial(blocks.layer_words, n_heads=config.decoder_heads, mlp_ratio=config.mlp_ratio)
        own = row_keys(keys, days + config.n_windows).reshape(len(keys), -1)
        local, cross = own[:, :days].reshape(-1), own[:, days:].reshape(-1)
        pairs, length = config.decoder_depth // 2, days * tokens // config.n_windows
        return words(local, pairs, tokens, dim), words(cross, pairs, length, dim)

    def __call__(
        self,
        patches: Float[Array, "B day T patch"],
        masked: Bool[Array, "B day T"],
        *,
        day_offsets: Int[Array, "B day"] | None = None,
        selection: token_drop.Selection | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B C*day*P patch"]:
        """Encode every day and decode all of a window together.

        Args:
            patches: normalised values, zero where missing.
            masked: tokens hidden by missing data or by the artificial mask; all of a padded day.
            day_offsets: calendar days since the first real day, -1 in padded slots; None is 0, 1, 2, …
            selection: kept tokens of every day, one row a day (B * day rows).
            keys: one dropout key a window; None is evaluation.
        """
        batch, days = masked.shape[:2]
        if day_offsets is None:
            day_offsets = jnp.broadcast_to(jnp.arange(days), (batch, days))
        encoder_keys = decoder_keys = None
        if keys is not None:
            encoder_keys, decoder_keys = jnp.unstack(jax.vmap(jax.random.split)(keys), axis=1)
            encoder_keys = row_keys(encoder_keys, days)
        rows = (x.reshape(-1, *x.shape[2:]) for x in (patches, masked))
        encoded = self.encode(*rows, selection=selection, keys=encoder_keys)
        return self.decode(encoded, masked, day_offsets=day_offsets, selection=selection, keys=decoder_keys)

    def reconstruct(
        self,
        values: Float[Array, "B C day*M"],
        missing: Bool[Array, "B C day*M"],
        *,
        day_offsets: Int[Array, "B day"] | None = None,
    ) -> Float[Array, "B C day*M"]:
        """Dense inference for imputation: every token is encoded, missing ones are hidden.

        Args:
            values: normalised, any number where missing (it is not read).
        Returns: z-scored values of continuous channels, probabilities of binary ones, for every minute.
        """
        config = self.config
        n_days = values.shape[-1] // config.minutes
        values, missing = (split_days(x, n_days) for x in (jnp.where(missing, 0.0, values), missing))
        rows = (x.reshape(-1, *x.shape[2:]) for x in (values, missing))
        patches, masked = (
            patch.patchify(next(rows), config.patch),
            lsm2.inherited_mask(next(rows), config.patch),
        )
        by_day = (len(values), n_days, config.n_tokens)
        predicted = self(
            patches.reshape(*by_day, config.patch), masked.reshape(by_day), day_offsets=day_offsets
        )
        predicted = patch.unpatchify(predicted, channels.N_CHANNELS)
        is_binary = jnp.isin(jnp.arange(channels.N_CHANNELS), jnp.asarray(channels.BINARY))[:, None]
        return jnp.where(is_binary, jax.nn.sigmoid(predicted), predicted)


def training_flops(config: LSM2SparseConfig) -> int:
    """FLOP of one window's step: the frozen encoder forward, the decoder forward and backward.

    Layers across days have the tokens of a window, which are fewer than those of a day.
    """
    own = lsm2.decoder_flops(config)
    size = config.n_days * config.n_tokens // config.n_windows
    flops = partial(blocks.flops, dim=config.decoder_dim, mlp_ratio=config.mlp_ratio)
    pairs = config.decoder_depth // 2
    decoder = config.n_days * (own - pairs * flops(config.n_tokens)) + pairs * config.n_windows * flops(size)
    return config.n_days * lsm2.encoder_flops(config) + (1 + lsm2.BACKWARD) * decoder


def decoder_layer_memory(
    config: lsm2.LSM2Config, *, n_days: int, layer: Literal["daily", "local", "cross"]
) -> int:
    """Bytes that one compiled decoder layer works in, forward and backward, on this backend; nothing is run.

    Raises ConfigError where the backend does not tell.

    Args:
        n_days: days at once: so many examples of the daily model, or one window of the sparse one.
        layer: of the daily decoder, or within or across the days of the sparse one.
    """
    build = partial(
        blocks.Block, config.decoder_dim, config.decoder_heads, mlp_ratio=config.mlp_ratio,
        dropout_rate=config.dropout, implementation=config.attention, block=config.attention_block,
        dtype=jnp.dtype(config.dtype),
    )  # fmt: skip
    graph, state = nnx.split(nnx.eval_shape(lambda: build(rngs=nnx.Rngs(0))))
    rows, tokens, dim = n_days, config.n_tokens, config.decoder_dim
    if isinstance(config, LSM2SparseConfig) and layer == "cross":
        rows, tokens = config.n_windows, n_days * config.n_tokens // config.n_windows

    def run(state, x, words, offsets):
        block = nnx.merge(graph, state)
        if layer == "daily":
            return block(x, stream=_stream(words))
        if layer == "local":
            return within_days(block, x, words)
        assert isinstance(config, LSM2SparseConfig)
        angles = rope.angles(offsets, dim // config.decoder_heads, last=LAST_OFFSET)
        return across_days(block, x, angles, config.n_windows, words)

    def step(state, x, words, offsets, cotangent):
        out, backward = jax.vjp(lambda state, x: run(state, x, words, offsets), state, x)
        return out, backward(cotangent)

    shape = (n_days, config.n_tokens, dim) if layer == "daily" else (1, n_days, config.n_tokens, dim)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    n_words = blocks.n_dropout_words(tokens, dim, config.decoder_heads, config.mlp_ratio)
    words = jax.ShapeDtypeStruct((rows, n_words), jnp.uint32) if config.dropout else None
    offsets = jax.ShapeDtypeStruct((1, n_days), jnp.int32)
    compiled = jax.jit(step).lower(state, x, words, offsets, x).compile()
    analysis = compiled.memory_analysis()
    if analysis is None:
        raise ConfigError(f"memory: the {jax.default_backend()} backend does not tell what a program needs")
    return analysis.temp_size_in_bytes
