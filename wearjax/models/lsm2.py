"""LSM-2, the masked autoencoder of daily minute data with adaptive and inherited masking.

Xu et al. 2025 (LSM-2), in the form of the published OpenMHC daily model: every channel is cut into patches, one
patch is one token, channel-major; missing patches are never attended to by the encoder and become mask tokens
in the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float

from wearjax import channels
from wearjax.errors import ConfigError
from wearjax.layers import attention, blocks, linear, patch, position, token_drop
from wearjax.models import lsm2_start, sizes


@dataclass(frozen=True)
class LSM2Config:
    """Sizes and execution choices; the defaults are the published daily model (24,559,498 parameters).

    Attributes:
        minutes: samples a channel; a multiple of `patch`.
        patch: minutes a token.
        dropout: rate of all four dropouts of a block (attention, its projection, MLP hidden and output).
        mask_ratio: probability of an artificial mask of a token in the random strategy.
        removal_ratio: share of the tokens removed before the encoder in pretraining.
        binary_weight: weight of a patch of a 0/1 channel in the pretraining loss; 1 for a continuous one.
        position_period: longest period of the position embedding, in channels or patches. With few features
            the published 10,000 leaves hardly a frequency that tells neighbours apart.
        start: initial weights, `published`, or `local` (see `wearjax.models.lsm2_start`) for small models.
        dtype: compute type, `float32` or `bfloat16`; parameters, softmax, norms and loss stay float32.
        attention: implementation, see `wearjax.layers.attention.attend`.
        attention_block: queries a block of the blocked attention; None chooses by size.
        scan_layers, remat: see `wearjax.layers.blocks.TransformerStack`.
    """

    minutes: int = channels.MINUTES_PER_DAY
    patch: int = 10
    encoder_dim: int = 384
    encoder_depth: int = 12
    encoder_heads: int = 6
    decoder_dim: int = 256
    decoder_depth: int = 4
    decoder_heads: int = 4
    mlp_ratio: int = 4
    dropout: float = 0.1
    mask_ratio: float = 0.5
    removal_ratio: float = 0.5
    binary_weight: float = 1.0
    position_period: float = position.PERIOD
    start: Literal["published", "local"] = "published"
    dtype: str = "float32"
    attention: str = "auto"
    attention_block: int | None = None
    scan_layers: bool = False
    remat: blocks.Remat = "none"

    def __post_init__(self):
        if self.patch < 1 or self.minutes < 1 or self.minutes % self.patch:
            raise ConfigError(f"model.patch: {self.patch} does not divide model.minutes {self.minutes}")
        for side in ("encoder", "decoder"):
            dim, heads = getattr(self, f"{side}_dim"), getattr(self, f"{side}_heads")
            if dim < 1 or heads < 1 or dim % 4 or dim % heads:
                raise ConfigError(
                    f"model.{side}_dim: {dim} must be divisible by 4 and by {side}_heads {heads}"
                )
        sizes.at_least_1(self, "encoder_depth", "decoder_depth", "mlp_ratio")
        if self.attention not in attention.IMPLEMENTATIONS:
            known = ", ".join(attention.IMPLEMENTATIONS)
            raise ConfigError(f"model.attention: expected one of {known}; got {self.attention!r}")
        if self.attention_block is not None and self.attention_block < 1:
            raise ConfigError(f"model.attention_block: must be at least 1, got {self.attention_block}")
        if self.remat not in get_args(blocks.Remat):
            raise ConfigError(
                f"model.remat: expected one of {', '.join(get_args(blocks.Remat))}; got {self.remat!r}"
            )
        sizes.dtype(self)
        if self.start not in ("published", "local"):
            raise ConfigError(f"model.start: expected published or local, got {self.start!r}")
        if self.position_period <= 1.0 or self.binary_weight <= 0.0:
            raise ConfigError("model.position_period must be above 1 and model.binary_weight above 0")
        sizes.rates(self, "dropout", "removal_ratio")
        if not 0.0 <= self.mask_ratio <= 1.0:
            raise ConfigError(f"model.mask_ratio: must be in [0, 1], got {self.mask_ratio}")

    @property
    def patches_per_channel(self) -> int:
        return self.minutes // self.patch

    @property
    def n_tokens(self) -> int:
        return channels.N_CHANNELS * self.patches_per_channel

    @property
    def n_kept(self) -> int:
        """Tokens that reach the encoder in pretraining."""
        return max(1, int(self.n_tokens * (1.0 - self.removal_ratio)))


def inherited_mask(missing: Bool[Array, "B C M"], patch_minutes: int) -> Bool[Array, "B T"]:
    """Tokens that the data themselves hide: patches with any missing minute; for heart rate, with all missing.

    Heart rate is sampled every few minutes even on a worn watch, so its patches count as measured when a single
    minute is (published code; the paper states the plain rule).
    """
    by_channel = (missing.shape[0], channels.N_CHANNELS, -1)
    some = patch.any_in_patch(missing, patch_minutes).reshape(by_channel)
    every = patch.all_in_patch(missing, patch_minutes).reshape(by_channel)
    is_heart_rate = (jnp.arange(channels.N_CHANNELS) == channels.HEART_RATE)[:, None]
    return jnp.where(is_heart_rate, every, some).reshape(missing.shape[0], -1)


class LSM2(nnx.Module):
    """Encoder over the kept tokens, decoder over all of them, linear prediction of each patch."""

    def __init__(self, config: LSM2Config, *, rngs: nnx.Rngs):
        dtype = sizes.DTYPES[config.dtype]
        run = dict(
            mlp_ratio=config.mlp_ratio, dropout_rate=config.dropout, scan_layers=config.scan_layers,
            remat=config.remat, implementation=config.attention, block=config.attention_block, dtype=dtype,
        )  # fmt: skip
        self.config = config
        self.patch_embed = patch.PatchEmbed(config.patch, config.encoder_dim, dtype=dtype, rngs=rngs)
        self.encoder = blocks.TransformerStack(
            config.encoder_dim, config.encoder_depth, config.encoder_heads, rngs=rngs, **run
        )
        self.encoder_to_decoder = linear.Linear(
            config.encoder_dim, config.decoder_dim, dtype=dtype, rngs=rngs
        )
        self.mask_token = nnx.Param(linear.truncated_normal()(rngs.params(), (config.decoder_dim,)))
        self.decoder = blocks.TransformerStack(
            config.decoder_dim, config.decoder_depth, config.decoder_heads, rngs=rngs, **run
        )
        self.decoder_pred = linear.Linear(config.decoder_dim, config.patch, dtype=dtype, rngs=rngs)
        if config.start == "local":
            lsm2_start.begin_local(self)

    def positions(self, dim: int) -> np.ndarray:
        """Fixed position features of all tokens, (T, dim)."""
        return position.grid_sincos(
            channels.N_CHANNELS, self.config.patches_per_channel, dim, period=self.config.position_period
        )

    def encode(
        self,
        patches: Float[Array, "B T patch"],
        masked: Bool[Array, "B T"],
        *,
        selection: token_drop.Selection | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B K D"]:
        """Encoder output for the selected tokens (all without a selection); masked tokens are never attended to.

        Args:
            patches: normalised values, zero where missing.
            masked: tokens hidden by missing data or by the artificial mask.
            keys: one dropout key an example; None is evaluation.
        """
        positions = jnp.asarray(self.positions(self.config.encoder_dim))
        if selection is not None:  # before the embedding: neither gather needs a gradient then
            patches = token_drop.gather(patches, selection)
            masked = token_drop.gather(masked, selection)
            positions = positions[selection.index]
        tokens = self.patch_embed(patches).astype(jnp.float32) + positions
        return self.encoder(tokens, key_mask=~masked, keys=keys)

    def decode(
        self,
        encoded: Float[Array, "B K D"],
        masked: Bool[Array, "B T"],
        *,
        selection: token_drop.Selection | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B T patch"]:
        """Predicted patches: z-scored values of continuous channels, logits of binary ones; float32."""
        tokens = self.encoder_to_decoder(encoded).astype(jnp.float32)
        mask_token = self.mask_token[...]
        if selection is None:
            tokens = jnp.where(masked[..., None], mask_token, tokens)
        else:
            tokens = token_drop.restore(tokens, selection, mask_token, masked=masked)
        tokens = tokens + self.positions(self.config.decoder_dim)
        return self.decoder_pred(self.decoder(tokens, keys=keys)).astype(jnp.float32)

    def __call__(
        self,
        patches: Float[Array, "B T patch"],
        masked: Bool[Array, "B T"],
        *,
        selection: token_drop.Selection | None = None,
        keys: jax.Array | None = None,
    ) -> Float[Array, "B T patch"]:
        """Encode and decode; arguments as in `encode`."""
        encoder_keys = decoder_keys = None
        if keys is not None:
            encoder_keys, decoder_keys = jnp.unstack(jax.vmap(jax.random.split)(keys), axis=1)
        encoded = self.encode(patches, masked, selection=selection, keys=encoder_keys)
        return self.decode(encoded, masked, selection=selection, keys=decoder_keys)

    def reconstruct(
        self, values: Float[Array, "B C M"], missing: Bool[Array, "B C M"]
    ) -> Float[Array, "B C M"]:
        """Dense inference for imputation: every token is encoded, missing ones are hidden.

        Args:
            values: normalised, any number where missing (it is not read).
        Returns: z-scored values of continuous channels, probabilities of binary ones, for every minute.
        """
        patches = patch.patchify(jnp.where(missing, 0.0, values), self.config.patch)
        predicted = self(patches, inherited_mask(missing, self.config.patch))
        predicted = patch.unpatchify(predicted, channels.N_CHANNELS)
        is_binary = jnp.isin(jnp.arange(channels.N_CHANNELS), jnp.asarray(channels.BINARY))[:, None]
        return jnp.where(is_binary, jax.nn.sigmoid(predicted), predicted)

    def embed(self, values: Float[Array, "B C M"], missing: Bool[Array, "B C M"]) -> Float[Array, "B D"]:
        """Mean of the encoder output over the measured tokens; zeros for a day without any."""
        patches = patch.patchify(jnp.where(missing, 0.0, values), self.config.patch)
        masked = inherited_mask(missing, self.config.patch)
        encoded = self.encode(patches, masked).astype(jnp.float32)
        total = jnp.where(masked[..., None], 0.0, encoded).sum(axis=1)
        return total / jnp.maximum((~masked).sum(axis=1), 1)[:, None]


BACKWARD = 2  # a product y = x w is differentiated by two of the same size


def training_flops(config: LSM2Config) -> int:
    """FLOP of one example's forward and backward pass; removed tokens and recomputed values do not count."""
    return (1 + BACKWARD) * (encoder_flops(config) + decoder_flops(config))


def encoder_flops(config: LSM2Config) -> int:
    """Forward FLOP of one example up to the encoder's output."""
    stack = config.encoder_depth * blocks.flops(config.n_kept, config.encoder_dim, mlp_ratio=config.mlp_ratio)
    return stack + 2 * config.n_kept * config.encoder_dim * config.patch


def decoder_flops(config: LSM2Config) -> int:
    """Forward FLOP of one example from the encoder's output to the predicted patches."""
    stack = config.decoder_depth * blocks.flops(
        config.n_tokens, config.decoder_dim, mlp_ratio=config.mlp_ratio
    )
    edges = config.n_kept * config.encoder_dim + config.n_tokens * config.patch
    return stack + 2 * edges * config.decoder_dim
