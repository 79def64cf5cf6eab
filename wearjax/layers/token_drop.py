"""Dropping tokens with static shapes, and laying the kept ones back among mask tokens.

A selection knows both directions (which token sits in each slot, which slot holds each token), so that the
gradient of either gather is the other gather and never a scatter, which XLA runs index by index on CPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Shaped


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Selection:
    """Which tokens were kept.

    Attributes:
        index: token in each of the K slots, ascending.
        slot: slot of each token; meaningful only where `kept`.
        kept: whether the token has a slot.
    """

    index: Int32[Array, "B K"]
    slot: Int32[Array, "B T"]
    kept: Bool[Array, "B T"]


def keep_lowest(priority: Float[Array, "B T"], n_keep: int) -> Selection:
    """Keep the `n_keep` tokens of lowest priority value, in their order in the sequence.

    Ties at the boundary go to the earlier token, so exactly `n_keep` are kept.
    """
    index = jnp.sort(jax.lax.top_k(-priority, n_keep)[1], axis=-1)
    rows = jnp.arange(priority.shape[0])[:, None]
    kept = jnp.zeros(priority.shape, bool).at[rows, index].set(True)
    slot = jnp.maximum(jnp.cumsum(kept.astype(jnp.int32), axis=-1) - 1, 0)
    return Selection(index, slot, kept)


def _rows(x: Shaped[Array, "B T *rest"], index: Int32[Array, "B K"]) -> Shaped[Array, "B K *rest"]:
    return jax.vmap(lambda row, i: row.at[i].get(mode="promise_in_bounds"))(x, index)


@jax.custom_vjp
def gather(x: Shaped[Array, "B T *rest"], selection: Selection) -> Shaped[Array, "B K *rest"]:
    """The kept tokens in slot order."""
    return _rows(x, selection.index)


def _gather_forward(x, selection):
    return gather(x, selection), selection


def _gather_backward(selection, cotangent):
    return spread(cotangent, selection), None


@jax.custom_vjp
def spread(x: Float[Array, "B K D"], selection: Selection) -> Float[Array, "B T D"]:
    """Every kept token at its place in the full sequence, zeros elsewhere."""
    return jnp.where(selection.kept[..., None], _rows(x, selection.slot), 0)


def _spread_forward(x, selection):
    return spread(x, selection), selection


def _spread_backward(selection, cotangent):
    return gather(cotangent, selection), None


gather.defvjp(_gather_forward, _gather_backward)
spread.defvjp(_spread_forward, _spread_backward)


def restore(
    x: Float[Array, "B K D"],
    selection: Selection,
    mask_token: Float[Array, "D"],
    *,
    masked: Bool[Array, "B T"],
) -> Float[Array, "B T D"]:
    """Full sequence: kept and unmasked tokens at their places, `mask_token` at every other."""
    visible = selection.kept & ~masked
    return jnp.where(visible[..., None], spread(x, selection), mask_token.astype(x.dtype))
