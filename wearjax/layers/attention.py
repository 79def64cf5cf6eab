"""Exact softmax attention behind one function, in the form each backend runs best.

`blocked` walks over heads and blocks of queries that fit the cache, keeps one number a query for the backward
pass and hashes its dropout mask again there (the scheme of FlashAttention, Dao et al. 2022, on XLA's own matrix
products). `xla` is the textbook form, `cudnn` and `splash` are the kernels of NVIDIA GPUs and of TPUs. All give
the same numbers up to rounding; only the first two can drop probabilities.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, UInt32

from wearjax.errors import ConfigError
from wearjax.layers import dropout as dropouts

IMPLEMENTATIONS = ("auto", "blocked", "xla", "cudnn", "splash")
FAR_BELOW = np.float32(-1e30)  # stands in for -inf, whose difference with itself would be NaN
CPU_SCORES = 2**20  # scores a step of the blocked form: 4 MB of float32 stay in the cache between passes
DEVICE_SCORES = 2**27  # the same on an accelerator, where only memory bounds it
LANES = 128  # the TPU kernel takes multiples of this length


class DropWords(NamedTuple):
    """Random words of a dropout mask: one a query and one a key, for every head."""

    rows: UInt32[Array, "B N T 1"]
    columns: UInt32[Array, "B N 1 S"]


def _scores(q, k, bias):
    """(..., T, H), (..., S, H) -> float32 (..., T, S), masked keys far below all others."""
    scores = jnp.einsum("...th,...sh->...ts", q, k, preferred_element_type=jnp.float32)
    return scores if bias is None else scores + bias


def _mix(weights, v):
    """(..., T, S), (..., S, H) -> float32 (..., T, H)."""
    return jnp.einsum("...ts,...sh->...th", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)


def _mix_transposed(weights, x):
    """(..., T, S), (..., T, H) -> float32 (..., S, H)."""
    return jnp.einsum("...ts,...th->...sh", weights.astype(x.dtype), x, preferred_element_type=jnp.float32)


def _plain(q, k, v, bias, words: DropWords | None, rate: float):
    weights = jax.nn.softmax(_scores(q, k, bias), axis=-1)
    if words is not None:
        weights = dropouts.drop(weights, words.rows, words.columns, rate)
    return _mix(weights, v)


class _Plan(NamedTuple):
    """How the blocked form cuts its work: heads a step, queries a step, dropout rate. Static."""

    heads: int
    queries: int
    rate: float


def _block_forward(q, k, v, bias, rows, columns, rate):
    """One step: output, and the logarithm of the softmax denominator that the backward pass needs."""
    scores = _scores(q, k, bias)
    top = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    if rows is not None:
        weights = jnp.where(dropouts.keep_mask(rows, columns, rate), weights, 0.0)
    return _mix(weights, v) * (1.0 / (1.0 - rate) / total), top + jnp.log(total)


def _block_backward(q, k, v, bias, rows, columns, rate, log_total, d_out, inner):
    """One step: gradients of its queries, and its share of those of keys and values.

    `inner` is the sum over keys of each probability times its cotangent, which equals output x cotangent.
    """
    weights = jnp.exp(_scores(q, k, bias) - log_total)
    d_weights = jnp.einsum("...th,...sh->...ts", d_out, v, preferred_element_type=jnp.float32)
    dropped = weights
    if rows is not None:
        keep = dropouts.keep_mask(rows, columns, rate)
        dropped = jnp.where(keep, weights * (1.0 / (1.0 - rate)), 0.0)
        d_weights = jnp.where(keep, d_weights * (1.0 / (1.0 - rate)), 0.0)
    d_scores = weights * (d_weights - inner)
    return _mix(d_scores, k), _mix_transposed(d_scores, q), _mix_transposed(dropped, d_out)


def _by_heads(x, heads):
    """(B, N, ...) -> (N / heads, B, heads, ...)."""
    return jnp.moveaxis(x.reshape(x.shape[0], -1, heads, *x.shape[2:]), 1, 0)


def _from_heads(x):
    x = jnp.moveaxis(x, 0, 1)
    return x.reshape(x.shape[0], -1, *x.shape[3:])


def _by_queries(x, queries):
    """(B, N, T, ...) -> (blocks, B, N, queries, ...), T padded with zeros."""
    length = x.shape[2]
    blocks = -(-length // queries)
    x = jnp.pad(x, [(0, 0), (0, 0), (0, blocks * queries - length)] + [(0, 0)] * (x.ndim - 3))
    return jnp.moveaxis(x.reshape(*x.shape[:2], blocks, queries, *x.shape[3:]), 2, 0)


def _from_queries(x, length):
    x = jnp.moveaxis(x, 0, 2)
    return x.reshape(*x.shape[:2], -1, *x.shape[4:])[:, :, :length]


def _over(function, xs):
    """`jax.lax.map`, without a loop for a single step."""
    if jax.tree.leaves(xs)[0].shape[0] == 1:
        return jax.tree.map(lambda y: y[None], function(jax.tree.map(lambda x: x[0], xs)))
    return jax.lax.map(function, xs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _blocked(q, k, v, bias, words, plan: _Plan):
    return _blocked_forward(q, k, v, bias, words, plan)[0]


def _blocked_forward(q, k, v, bias, words, plan):
    length = q.shape[2]
    rows, columns = (None, None) if words is None else words

    def some_heads(args):
        q, k, v, rows, columns = args

        def some_queries(args):
            return _block_forward(args[0], k, v, bias, args[1], columns, plan.rate)

        blocks = jax.tree.map(lambda x: _by_queries(x, plan.queries), (q, rows))
        return jax.tree.map(lambda x: _from_queries(x, length), _over(some_queries, blocks))

    heads = jax.tree.map(lambda x: _by_heads(x, plan.heads), (q, k, v, rows, columns))
    # Named, so that a remat policy can keep what the backward pass needs instead of attending again.
    out, log_total = (checkpoint_name(_from_heads(x), "attn_out") for x in _over(some_heads, heads))
    return out, (q, k, v, bias, words, out, log_total)


def _blocked_backward(plan, saved, cotangent):
    q, k, v, bias, words, out, log_total = saved
    length = q.shape[2]
    rows, columns = (None, None) if words is None else words
    inner = (cotangent * out).sum(axis=-1, keepdims=True)

    def some_heads(args):
        by_query, k, v, columns = args

        def some_queries(carry, args):
            q, rows, log_total, d_out, inner = args
            dq, dk, dv = _block_backward(q, k, v, bias, rows, columns, plan.rate, log_total, d_out, inner)
            return (carry[0] + dk, carry[1] + dv), dq

        blocks = jax.tree.map(lambda x: _by_queries(x, plan.queries), by_query)
        if blocks[0].shape[0] == 1:
            q, rows, *others = jax.tree.map(lambda x: x[0], blocks)
            return _block_backward(q, k, v, bias, rows, columns, plan.rate, *others)
        zero = jnp.zeros(k.shape, jnp.float32)
        (dk, dv), dq = jax.lax.scan(some_queries, (zero, zero), blocks)
        return _from_queries(dq, length), dk, dv

    by_query = (q, rows, log_total, cotangent.astype(v.dtype), inner)
    heads = jax.tree.map(lambda x: _by_heads(x, plan.heads), (by_query, k, v, columns))
    dq, dk, dv = jax.tree.map(_from_heads, _over(some_heads, heads))
    return dq.astype(q.dtype), dk.astype(k.dtype), dv.astype(v.dtype), None, None


_blocked.defvjp(_blocked_forward, _blocked_backward)


def _divisor(length: int, steps: int) -> int:
    """Queries a step for about `steps` steps: an exact divisor of `length` if one is near, else with padding."""
    for count in range(steps, 2 * steps):
        if length % count == 0:
            return length // count
    return -(-length // steps)


def _plan(q, k, rate: float, block: int | None) -> _Plan:
    batch, heads, length, _ = q.shape
    on_cpu = jax.default_backend() == "cpu"
    at_once = 1 if on_cpu else heads
    if block is None:
        most = max(1, (CPU_SCORES if on_cpu else DEVICE_SCORES) // (batch * at_once * k.shape[2]))
        block = length if most >= length else _divisor(length, -(-length // most))
    return _Plan(at_once, min(block, length), rate)


def _cudnn(q, k, v, key_mask):
    """q already scaled; the kernel wants (B, T, N, H) in half precision."""
    if q.dtype not in (jnp.bfloat16, jnp.float16):
        raise ConfigError(f"attention: cudnn needs bfloat16 or float16, got {q.dtype}; set model.dtype")
    mask = None if key_mask is None else key_mask[:, None, None, :]
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    out = jax.nn.dot_product_attention(q, k, v, mask=mask, scale=1.0, implementation="cudnn")
    return out.swapaxes(1, 2)


def _splash(q, k, v, key_mask):
    """The TPU kernel on lengths padded to 128; runs interpreted, slowly, on other backends."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    length, n_keys = q.shape[2], k.shape[2]
    grow = lambda x: jnp.pad(x, [(0, 0), (0, 0), (0, -x.shape[2] % LANES), (0, 0)])  # noqa: E731
    q, k, v = grow(q), grow(k), grow(v)
    if key_mask is None:
        key_mask = jnp.ones((q.shape[0], n_keys), bool)
    keys = jnp.pad(key_mask, [(0, 0), (0, k.shape[2] - n_keys)]).astype(jnp.int32)
    keys = keys.at[:, 0].max(
        (keys.sum(axis=1) == 0).astype(jnp.int32)
    )  # the kernel fails on a row without keys
    mask = masks.MultiHeadMask([masks.FullMask((q.shape[2], k.shape[2]))] * q.shape[1])
    run = kernel.make_splash_mha(
        mask, head_shards=1, q_seq_shards=1, interpret=jax.default_backend() != "tpu"
    )
    queries = jnp.ones(q.shape[::2], jnp.int32)
    out = jax.vmap(lambda q, k, v, a, b: run(q, k, v, segment_ids=kernel.SegmentIds(a, b)))(
        q, k, v, queries, keys
    )
    return out[:, :, :length]


def _choose(implementation: str, dtype, *, dropped: bool) -> str:
    if implementation not in IMPLEMENTATIONS:
        raise ConfigError(
            f"attention: unknown implementation {implementation!r}, expected one of {IMPLEMENTATIONS}"
        )
    if implementation in ("cudnn", "splash") and dropped:
        raise ConfigError(f"attention: {implementation} cannot drop probabilities; use blocked, or dropout 0")
    if implementation != "auto":
        return implementation
    backend = jax.default_backend()
    if dropped or backend == "cpu":
        return "blocked"
    if backend == "tpu":
        return "splash"
    return "cudnn" if dtype in (jnp.bfloat16, jnp.float16) else "blocked"


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
        key_mask: keys that may be attended to; None is all. Queries of an example without any give zeros, and
            their gradients are zero.
        dropout_rate: share of the probabilities set to zero, the others scaled up.
        stream: source of N (T + S) random words an example; None switches dropout off.
        implementation: `auto` is the fastest that can do what is asked on this backend.
        block: queries a step of the blocked form; None chooses by size.

    Raises:
        ConfigError: unknown implementation, or one that cannot do what is asked.
    """
    words, rate = None, 0.0
    if stream is not None and dropout_rate > 0.0:
        rate = dropout_rate
        words = DropWords(stream.take(*q.shape[1:3], 1), stream.take(k.shape[1], 1, k.shape[2]))
    implementation = _choose(implementation, q.dtype, dropped=words is not None)
    dtype = q.dtype
    q = q * np.asarray(q.shape[-1] ** -0.5, dtype)
    bias = None if key_mask is None else jnp.where(key_mask, 0.0, FAR_BELOW)[:, None, None, :]
    if implementation == "cudnn":
        out = checkpoint_name(_cudnn(q, k, v, key_mask), "attn_out")
    elif implementation == "splash":
        out = checkpoint_name(_splash(q, k, v, key_mask), "attn_out")
    elif implementation == "xla":
        out = checkpoint_name(_plain(q, k, v, bias, words, rate), "attn_out")
    else:
        out = _blocked(q, k, v, bias, words, _plan(q, k, rate, block))
    if (
        key_mask is not None
    ):  # without a valid key the softmax above is uniform: finite, and switched off here
        out = out * key_mask.any(axis=1)[:, None, None, None]
    return out.astype(dtype)
