"""Decomposition of a series into its moving average and the rest."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


def moving_average(x: Float[Array, "B T C"], window: int) -> Float[Array, "B T C"]:
    """Mean over `window` steps around each step, the first and last value repeated beyond the ends.

    The trend of Autoformer (Wu et al. 2021, equation 1) and DLinear (Zeng et al. 2023).

    Args:
        window: steps; odd, so that the mean is centred and the length stays.
    """
    if window < 1 or window % 2 == 0:
        raise ValueError(f"window: must be odd and positive, got {window}")
    half = (window - 1) // 2
    padded = jnp.pad(x, ((0, 0), (half, half), (0, 0)), mode="edge")
    # Sums of their own for every step: differences of running sums would lose digits on long series.
    total = lax.reduce_window(padded, jnp.zeros((), x.dtype), lax.add, (1, window, 1), (1, 1, 1), "VALID")
    return total / window


def decompose(x: Float[Array, "B T C"], window: int) -> tuple[Float[Array, "B T C"], Float[Array, "B T C"]]:
    """Seasonal part and trend; they add up to `x`."""
    trend = moving_average(x, window)
    return x - trend, trend
