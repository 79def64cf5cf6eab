"""Cutting rows of samples into patches and laying patches back; tokens are row-major."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Shaped

from wearjax.layers import linear


def patchify(x: Shaped[Array, "B rows length"], size: int) -> Shaped[Array, "B token size"]:
    """Token `row * (length / size) + i` holds samples `i * size .. (i + 1) * size` of that row."""
    batch, rows, length = x.shape
    return x.reshape(batch, rows * (length // size), size)


def unpatchify(tokens: Shaped[Array, "B token size"], rows: int) -> Shaped[Array, "B rows length"]:
    """Inverse of `patchify`."""
    return tokens.reshape(tokens.shape[0], rows, -1)


def any_in_patch(flags: Bool[Array, "B rows length"], size: int) -> Bool[Array, "B token"]:
    """True where at least one sample of the patch is flagged."""
    return patchify(flags, size).any(axis=-1)


def all_in_patch(flags: Bool[Array, "B rows length"], size: int) -> Bool[Array, "B token"]:
    """True where every sample of the patch is flagged."""
    return patchify(flags, size).all(axis=-1)


class PatchEmbed(nnx.Module):
    """One linear map from a patch of samples to a token, shared by all rows."""

    def __init__(self, size: int, dim: int, *, dtype=jnp.float32, rngs: nnx.Rngs):
        self.proj = linear.Linear(size, dim, dtype=dtype, rngs=rngs)

    def __call__(self, patches: Float[Array, "B token size"]) -> Float[Array, "B token dim"]:
        return self.proj(patches)
