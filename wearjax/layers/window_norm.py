"""Normalisation of a window by its own mean and deviation, undone on the forecast."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

EPSILON = 1e-5


class WindowScale(NamedTuple):
    """Mean and standard deviation of every sample and channel."""

    mean: Float[Array, "B 1 K"]
    deviation: Float[Array, "B 1 K"]


def normalise(x: Float[Array, "B L K"]) -> tuple[Float[Array, "B L K"], WindowScale]:
    """(x - mean) / deviation over the steps of a window, deviation = sqrt(population variance + 1e-5).

    The normalisation around the non-stationary transformer (Liu et al. 2022, section 3.1), without its learned
    factors. The mean is a constant to the gradient.
    """
    mean = jax.lax.stop_gradient(x.mean(axis=1, keepdims=True))
    centred = x - mean
    deviation = jnp.sqrt(jnp.var(x, axis=1, keepdims=True) + jnp.asarray(EPSILON, x.dtype))
    return centred / deviation, WindowScale(mean, deviation)


def restore(y: Float[Array, "B T K"], scale: WindowScale) -> Float[Array, "B T K"]:
    """The forecast in the scale of its window."""
    return y * scale.deviation + scale.mean
