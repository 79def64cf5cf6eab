"""Initial weights from which a small LSM-2 learns within minutes.

A narrow transformer with the published start (normal, 0.02) spends most of a short training on finding out that a
patch resembles its neighbours in time and the other channels at the same time. Here attention starts with that
preference, in the spirit of mimetic initialization (Trockman & Kolter 2023): queries and keys begin as a scaled
part of the identity on the position features, so that tokens close on the grid match. Everything stays trainable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from wearjax import channels

if TYPE_CHECKING:
    from wearjax.layers.blocks import Block
    from wearjax.models.lsm2 import LSM2

WEIGHT_GAIN = 2.5  # on the published 0.02, for every linear map
PATCH_GAIN = 2.0  # more for the patch embedding, whose output must stand out from the position features
SAME_CHANNEL, NEAR_IN_TIME = 6.0, 1.2  # sharpness of a head that looks along its own channel
SAME_TIME = 6.0  # sharpness of a head that looks across channels
RARE_LOGIT = -4.0  # first guess for a 0/1 channel: most minutes are without sleep or workout
RIDGE = 1e-2


def begin_local(model: LSM2) -> None:
    """Replaces the initial weights of a model with two heads a layer or any even number of them."""
    for stack in (model.encoder, model.decoder):
        look_nearby(stack.blocks)
    for part in (model.encoder_to_decoder, model.decoder_pred):
        part.kernel[...] = part.kernel[...] * WEIGHT_GAIN
    model.mask_token[...] = model.mask_token[...] * WEIGHT_GAIN
    _start_at_priors(model)
    embed = model.patch_embed.proj
    embed.kernel[...] = embed.kernel[...] * (WEIGHT_GAIN * PATCH_GAIN)


def look_nearby(stacked: Block) -> None:
    """Replaces the initial weights of stacked blocks; tokens of several days attend by channel and time of day."""
    for part in (stacked.attn.qkv, stacked.attn.proj, stacked.mlp.fc1, stacked.mlp.fc2):
        part.kernel[...] = part.kernel[...] * WEIGHT_GAIN
    _focus(stacked)


def _start_at_priors(model: LSM2) -> None:
    """Lets the first predictions be the rare logit for 0/1 channels and the mean for the others.

    One bias serves all channels, so the offset is read off the position features, by ridge regression. Without
    it the first steps push every prediction down, and the continuous channels take long to come back.
    """
    features = model.positions(model.config.decoder_dim)
    features = (features - features.mean(axis=1, keepdims=True)) / features.std(axis=1, keepdims=True)
    wanted = np.where(np.isin(np.arange(channels.N_CHANNELS), channels.BINARY), RARE_LOGIT, 0.0)
    wanted = np.repeat(wanted, model.config.patches_per_channel)
    gram = features.T @ features / len(features) + RIDGE * np.eye(features.shape[1])
    offset = np.linalg.solve(gram, features.T @ wanted / len(features))
    kernel = model.decoder_pred.kernel
    kernel[...] = kernel[...] + jnp.asarray(offset, jnp.float32)[:, None]


def _focus(stacked: Block) -> None:
    """Adds to the query and key kernels the match of positions: even heads along a channel, odd ones across."""
    kernel = stacked.attn.qkv.kernel
    dim = kernel.shape[1]
    n_heads = stacked.attn.n_heads
    width = dim // n_heads
    match = np.zeros((dim, dim), np.float32)
    for head in range(n_heads):
        for column, (feature, sharpness) in enumerate(_features(dim, width, along=head % 2 == 0)):
            match[feature, head * width + column] = np.sqrt(sharpness)
    both = np.concatenate([match, match, np.zeros_like(match)], axis=1)
    kernel[...] = kernel[...] + jnp.asarray(both)


def _features(dim: int, width: int, *, along: bool) -> list[tuple[int, float]]:
    """Position features that a head matches, with their sharpness.

    The features of a token are [sines, cosines of its channel | sines, cosines of its time], highest frequency
    first (`wearjax.layers.position.grid_sincos`).
    """
    quarter = dim // 4
    if not along:
        pairs = range(min(quarter, width // 2))
        return [(2 * quarter + offset + k, SAME_TIME) for offset in (0, quarter) for k in pairs]
    pairs = range(min(quarter, width // 4))
    channel = [(offset + k, SAME_CHANNEL) for offset in (0, quarter) for k in pairs]
    time = [(2 * quarter + offset + k, NEAR_IN_TIME) for offset in (0, quarter) for k in pairs]
    return channel + time
