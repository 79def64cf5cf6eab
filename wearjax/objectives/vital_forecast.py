"""Masked squared error of VitalBench, and the costs that MambaTS collects about the order of channels."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from wearjax.errors import ConfigError

REDUCTIONS = ("observed", "all")


def squared_sums(
    prediction: Float[Array, "B T K"], target: Float[Array, "B T K"], observed: Bool[Array, "B T K"]
) -> tuple[Float[Array, "B"], Float[Array, "B"]]:
    """Sum of squared errors and count of the observed entries of each sample.

    Entries that are not observed are replaced before the subtraction: what stands there reaches neither the sum nor
    its gradient.
    """
    error = jnp.where(observed, prediction, 0.0) - jnp.where(observed, target, 0.0)
    return jnp.square(error).sum((1, 2)), observed.sum((1, 2)).astype(error.dtype)


def masked_mse(
    prediction: Float[Array, "B T K"],
    target: Float[Array, "B T K"],
    observed: Bool[Array, "B T K"],
    *,
    reduction: str = "observed",
    entries: Float[Array, ""] | float | None = None,
) -> Float[Array, ""]:
    """Mean squared error of a batch (VitalBench, section "Loss"); 0 with zero gradient where nothing is observed.

    Args:
        reduction: `observed`, the mean over observed entries, or `all`, over all scored ones, the others counting
            as 0.
        entries: how many entries are scored, where columns of the arrays are not; only for `all`.

    Raises:
        ConfigError: another reduction.
    """
    if reduction not in REDUCTIONS:
        raise ConfigError(f"reduction: expected one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    squared, count = squared_sums(prediction, target, observed)
    if reduction == "observed":
        return squared.sum() / jnp.maximum(count.sum(), 1.0)
    return squared.sum() / (float(prediction.size) if entries is None else entries)


class OrderCosts(NamedTuple):
    """What permutation training has seen of every transition from one channel to the next, and how often.

    VitalBench, section "MambaTS"; `counts` 0 means never visited.
    """

    costs: Float[Array, "K K"]
    counts: Float[Array, "K K"]


def no_costs(n_channels: int) -> OrderCosts:
    """Before any step."""
    return OrderCosts(*(jnp.zeros((n_channels, n_channels), jnp.float32) for _ in range(2)))


def credit(
    costs: OrderCosts, visited: Int[Array, "B k"], errors: Float[Array, "B"], *, faithful: bool = False
) -> OrderCosts:
    """Adds each sample's error, less the batch's mean, to the transitions of its order of channels.

    Transitions are the first channel to itself and every channel to the next.

    Args:
        visited: channels of each sample, in the order they were processed; negative ones are none, and last.
        errors: mean masked error of each sample.
        faithful: spread the errors as the released code does, which lays the batch's errors end to end beside the
            transitions listed sample by sample: most go to transitions of another sample.
    """
    before = jnp.concatenate([visited[:, :1], visited[:, :-1]], axis=1)
    above = errors - errors.mean()
    there = visited >= 0
    kept = there.sum(axis=1, keepdims=True)
    if faithful:
        place = jnp.arange(len(visited))[:, None] * kept + jnp.arange(visited.shape[1])
        shares = above[place % len(visited)]
    else:
        shares = jnp.broadcast_to(above[:, None], visited.shape)
    weight = there.astype(above.dtype)
    return OrderCosts(
        costs.costs.at[before, visited].add(shares * weight), costs.counts.at[before, visited].add(weight)
    )
