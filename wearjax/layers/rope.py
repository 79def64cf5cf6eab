"""Rotary position embedding: queries and keys turned by angles, so that their product tells the distance."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Shaped

PERIOD = 10000.0


def frequencies(width: int, *, period: float = PERIOD) -> Float32[np.ndarray, "half"]:
    """`period^(-2j / width)` for each pair j of features (Su et al. 2021, section 3.2.2)."""
    if width < 2 or width % 2:
        raise ValueError(f"width: must be even for a rotary embedding, got {width}")
    return np.float32(period) ** (-np.arange(0, width, 2, dtype=np.float32) / np.float32(width))


def angles(
    positions: Shaped[Array, "*any"], width: int, *, last: int | None = None, period: float = PERIOD
) -> Float[Array, "*any half"]:
    """Angle of every pair of features at each position, float32.

    Args:
        positions: whole or broken numbers; with `last` they are clamped to [0, last].
        width: features of a head.
    """
    if last is not None:
        positions = jnp.clip(positions, 0, last)
    return jnp.asarray(positions, jnp.float32)[..., None] * frequencies(width, period=period)


def rotate(x: Float[Array, "*any T H"], angles: Float[Array, "*any T half"]) -> Float[Array, "*any T H"]:
    """Turns feature pairs (j, j + H/2) by their angles: (a, b) to (a cos - b sin, b cos + a sin).

    The halves form the pairs, as in the published LSM-2 code. Float32 inside, the dtype of x outside.
    """
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return turned.astype(x.dtype)
