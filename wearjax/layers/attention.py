"""Exact softmax attention behind one function, in the form each backend runs best.

`blocked` walks over blocks of queries, keeps only a row sum a query for the backward pass and hashes its dropout
mask again there (the scheme of FlashAttention, Dao et al. 2022, with XLA's own matrix products); `xla` is the
textbook form. All forms give the same numbers.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from wearjax.errors import ConfigError
from wearjax.layers import dropout as dropouts

IMPLEMENTATIONS = ("auto", "blocked", "xla", "cudnn", "splash")
FAR_BELOW = np.float32(-1e30)  # a finite stand-in for -inf: -inf - -inf would be NaN


class DropWords(NamedTuple):
    """Random words of a dropout mask: one a query and one a key, for every head."""

    rows: UInt32[Array, "B N T 1"]
    columns: UInt32[Array, "B N 1 S"]


def _probabilities(scores, valid):
    """Softmax over the last axis in float32; a row without any valid key is all zeros."""
    if valid is not None:
        scores = jnp.where(valid, scores, FAR_BELOW)
    top = jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True))
    weights = jnp.exp(scores - top)
    if valid is not None:
        weights = jnp.where(valid, weights, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / jnp.where(total == 0.0, 1.0, total)


def _plain(q, k, v, valid, words: DropWords | None, rate: float):
    """q, k, v: (B, N, T, H), q already scaled; valid: (B, 1, 1, S) or None."""
    scores = jnp.einsum("bnth,bnsh->bnts", q, k, preferred_element_type=jnp.float32)
    weights = _probabilities(scores, valid)
    if words is not None:
        weights = dropouts.drop(weights, words.rows, words.columns, rate)
    return jnp.einsum("bnts,bnsh->bnth", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)


def _split(x, size):
    """(B, N, T, ...) -> (blocks, B, N, size, ...), T padded with zeros to a multiple of `size`."""
    batch, heads, length = x.shape[:3]
    blocks = -(-length // size)
    x = jnp.pad(x, [(0, 0), (0, 0), (0, blocks * size - length)] + [(0, 0)] * (x.ndim - 3))
    return jnp.moveaxis(x.reshape(batch, heads, blocks, size, *x.shape[3:]), 2, 0)


def _join(x, length):
    """Inverse of `_split`."""
    x = jnp.moveaxis(x, 0, 2)
    return x.reshape(*x.shape[:2], -1, *x.shape[4:])[:, :, :length]


def _block_weights(q, k, valid):
    """Unnormalised softmax weights of one block of queries, their sums and their shifts."""
    scores = jnp.einsum("bnth,bnsh->bnts", q, k, preferred_element_type=jnp.float32)
    if valid is not None:
        scores = jnp.where(valid, scores, FAR_BELOW)
    top = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - top)
    if valid is not None:
        weights = jnp.where(valid, weights, 0.0)
    return weights, weights.sum(axis=-1, keepdims=True), top


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _blocked(q, k, v, valid, words, rate, block):
    return _blocked_forward(q, k, v, valid, words, rate, block)[0]


def _blocked_forward(q, k, v, valid, words, rate, block):
    def one(args):
        q_block, rows = args
        weights, total, top = _block_weights(q_block, k, valid)
        total = jnp.where(total == 0.0, 1.0, total)
        if words is not None:
            weights = jnp.where(dropouts.keep_mask(rows, words.columns, rate), weights, 0.0)
        out = jnp.einsum("bnts,bnsh->bnth", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)
        return out * ((1.0 / (1.0 - rate)) / total), top + jnp.log(total)

    rows = None if words is None else _split(words.rows, block)
    out, log_total = jax.lax.map(one, (_split(q, block), rows))
    out, log_total = _join(out, q.shape[2]), _join(log_total, q.shape[2])
    return out, (q, k, v, valid, words, out, log_total)


def _blocked_backward(rate, block, saved, cotangent):
    q, k, v, valid, words, out, log_total = saved
    inner = (cotangent * out).sum(axis=-1, keepdims=True)  # sum over keys of probability x its cotangent

    def one(carry, args):
        dk, dv = carry
        q_block, d_out, inner_block, log_block, rows = args
        scores = jnp.einsum("bnth,bnsh->bnts", q_block, k, preferred_element_type=jnp.float32)
        weights = jnp.exp(scores - log_block)
        if valid is not None:
            weights = jnp.where(valid, weights, 0.0)
        d_out = d_out.astype(v.dtype)
        d_weights = jnp.einsum("bnth,bnsh->bnts", d_out, v, preferred_element_type=jnp.float32)
        dropped = weights
        if words is not None:
            keep = dropouts.keep_mask(rows, words.columns, rate)
            dropped = jnp.where(keep, weights * (1.0 / (1.0 - rate)), 0.0)
            d_weights = jnp.where(keep, d_weights * (1.0 / (1.0 - rate)), 0.0)
        d_scores = (weights * (d_weights - inner_block)).astype(q.dtype)
        dv += jnp.einsum(
            "bnts,bnth->bnsh", dropped.astype(v.dtype), d_out, preferred_element_type=jnp.float32
        )
        dk += jnp.einsum("bnts,bnth->bnsh", d_scores, q_block, preferred_element_type=jnp.float32)
        return (dk, dv), jnp.einsum("bnts,bnsh->bnth", d_scores, k, preferred_element_type=jnp.float32)

    rows = None if words is None else _split(words.rows, block)
    blocks = (*(_split(x, block) for x in (q, cotangent, inner, log_total)), rows)
    zero = jnp.zeros(k.shape, jnp.float32)
    (dk, dv), dq = jax.lax.scan(one, (zero, zero), blocks)
    return _join(dq, q.shape[2]).astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype), None, None


_blocked.defvjp(_blocked_forward, _blocked_backward)


def _choose(implementation: str) -> str:
    if implementation not in IMPLEMENTATIONS:
        raise ConfigError(
            f"attention: unknown implementation {implementation!r}, expected one of {IMPLEMENTATIONS}"
        )
    return "blocked" if implementation == "auto" else implementation


def attend(
    q: Float[Array, "B N T H"],
    k: Float[Array, "B N S H"],
    v: Float[Array, "B N S H"],
    *,
    key_mask: Bool[Array, "B S"] | None = None,
    dropout_rate: float = 0.0,
    stream: dropouts.WordStream | None = None,
    implementation: str = "auto",
    block: int | None = None,
) -> Float[Array, "B N T H"]:
    """softmax(q kT / sqrt(H)) v, with softmax and sums in float32 (Vaswani et al. 2017, equation 1).

    Args:
        key_mask: keys that may be attended to; None is all. A query without any gives zeros.
        dropout_rate: share of the probabilities set to zero, the others scaled up.
        stream: source of N (T + S) random words an example; None switches dropout off.
        block: queries a block of the blocked form.

    Raises:
        ConfigError: unknown implementation, or one that cannot do what is asked.
    """
    implementation = _choose(implementation)
    dtype = q.dtype
    q = q * np.asarray(q.shape[-1] ** -0.5, dtype)
    valid = None if key_mask is None else key_mask[:, None, None, :]
    words = None
    rate = 0.0
    if stream is not None and dropout_rate > 0.0:
        rate = dropout_rate
        words = DropWords(stream.take(q.shape[1], q.shape[2], 1), stream.take(k.shape[1], 1, k.shape[2]))
    if implementation == "xla":
        return _plain(q, k, v, valid, words, rate).astype(dtype)
    return _blocked(q, k, v, valid, words, rate, min(block or 342, q.shape[2])).astype(dtype)
