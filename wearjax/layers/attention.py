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
CPU_SCORES = 2**21  # scores a step of the blocked form: 8 MB of float32 stay in the cache between passes
DEVICE_SCORES = 2**27  # the same on an accelerator, where only memory bounds it
LANES = 128  # the TPU kernel takes multiples of this length


class DropWords(NamedTuple):
    """Random words of a dropout mask: one a query and one a key, for every head."""

    rows: UInt32[Array, "B N T 1"]
    columns: UInt32[Array, "B N 1 S"]


def _plain(q, k, v, bias, words: DropWords | None, rate: float):
    scores = jnp.einsum("bnth,bnsh->bnts", q, k, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(scores if bias is None else scores + bias, axis=-1)
    if words is not None:
        weights = dropouts.drop(weights, words.rows, words.columns, rate)
    return jnp.einsum("bnts,bnsh->bnth", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)


class _Plan(NamedTuple):
    """How the blocked form cuts its work: heads a step, queries a step, dropout rate. Static."""

    heads: int
    queries: int
    rate: float


# In the steps below queries, keys, values and cotangents lie feature-major, (..., H, T): the products then take
# the forms that XLA's CPU libraries are fastest at (up to 1.5 times the plain ones at H = 64).


def _outer(x, y):
    """(..., H, T), (..., H, S) -> float32 (..., T, S)."""
    return jnp.einsum("...ht,...hs->...ts", x, y, preferred_element_type=jnp.float32)


def _over_keys(weights, y):
    """(..., T, S), (..., H, S) -> float32 (..., T, H)."""
    return jnp.einsum("...ts,...hs->...th", weights.astype(y.dtype), y, preferred_element_type=jnp.float32)


def _over_queries(x, weights):
    """(..., H, T), (..., T, S) -> float32 (..., H, S)."""
    return jnp.einsum("...ht,...ts->...hs", x, weights.astype(x.dtype), preferred_element_type=jnp.float32)


def _step_forward(q, k, v, bias, rows, columns, rate):
    """Output of some queries, and the logarithm of the softmax denominator, which the backward pass needs."""
    scores = _outer(q, k)
    if bias is not None:
        scores = scores + bias
    top = scores.max(axis=-1, keepdims=True)
    weights = jnp.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    if rows is not None:
        weights = jnp.where(dropouts.keep_mask(rows, columns, rate), weights, 0.0)
    return _over_keys(weights, v) * (1.0 / (1.0 - rate) / total), top + jnp.log(total)


def _step_backward(q, d_out, k, v, bias, rows, columns, rate, log_total, inner):
    """Gradients of some queries, and their share of those of keys and values.

    `d_out` carries the factor 1 / (1 - rate) of dropout. `inner` is the sum over keys of each probability times
    its cotangent, which equals output x cotangent.
    """
    scores = _outer(q, k)
    weights = jnp.exp(scores - log_total if bias is None else scores + bias - log_total)
    d_weights = _outer(d_out, v)
    dropped = weights
    if rows is not None:
        keep = dropouts.keep_mask(rows, columns, rate)
        dropped = jnp.where(keep, weights, 0.0)
        d_weights = jnp.where(keep, d_weights, 0.0)
    d_scores = weights * (d_weights - inner)
    return _over_keys(d_scores, k), (_over_queries(q, d_scores), _over_queries(d_out, dropped))


def _by_heads(x, plan: _Plan):
    """(B, N, ...) -> (N / heads, B, heads, ...)."""
    return jnp.moveaxis(x.reshape(x.shape[0], -1, plan.heads, *x.shape[2:]), 1, 0)


def _from_heads(x):
    x = jnp.moveaxis(x, 0, 1)
    return x.reshape(x.shape[0], -1, *x.shape[3:])


def _by_queries(x, plan: _Plan):
    """(B, N, T, ...) -> (N / heads, blocks, B, heads, queries, ...), T padded with zeros."""
    length = x.shape[2]
    blocks = -(-length // plan.queries)
    x = jnp.pad(x, [(0, 0), (0, 0), (0, blocks * plan.queries - length)] + [(0, 0)] * (x.ndim - 3))
    x = jnp.moveaxis(x.reshape(*x.shape[:2], blocks, plan.queries, *x.shape[3:]), 2, 0)
    return jnp.moveaxis(jax.vmap(lambda x: _by_heads(x, plan))(x), 0, 1)


def _from_queries(x, length):
    x = jnp.moveaxis(jax.vmap(_from_heads, in_axes=1)(x), 0, 2)
    return x.reshape(*x.shape[:2], -1, *x.shape[4:])[:, :, :length]


def _turn(x):
    return x.swapaxes(-1, -2)


def _over(function, xs):
    """`jax.lax.map`, without a loop for a single step."""
    if jax.tree.leaves(xs)[0].shape[0] == 1:
        return jax.tree.map(lambda y: y[None], function(jax.tree.map(lambda x: x[0], xs)))
    return jax.lax.map(function, xs)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _blocked(q, k, v, bias, words, plan: _Plan):
    return _blocked_forward(q, k, v, bias, words, plan)[0]


def _blocked_forward(q, k, v, bias, words, plan):
    rows, columns = (None, None) if words is None else words

    def some_heads(args):
        blocks, k, v, columns = args
        return _over(lambda x: _step_forward(x[0], k, v, bias, x[1], columns, plan.rate), blocks)

    blocks = (_turn(_by_queries(q, plan)), None if rows is None else _by_queries(rows, plan))
    keys = jax.tree.map(lambda x: _by_heads(x, plan), (_turn(k), _turn(v), columns))
    # Named, so that a remat policy can keep what the backward pass needs instead of attending again.
    out, log_total = (
        checkpoint_name(_from_queries(x, q.shape[2]), "attn_out") for x in _over(some_heads, (blocks, *keys))
    )
    return out, (q, k, v, bias, words, out, log_total)


def _blocked_backward(plan, saved, cotangent):
    q, k, v, bias, words, out, log_total = saved
    rows, columns = (None, None) if words is None else words
    inner = (cotangent * out).sum(axis=-1, keepdims=True)

    def some_heads(args):
        blocks, k, v, columns = args

        def some_queries(args):
            q, d_out, rows, log_total, inner = args
            return _step_backward(q, d_out, k, v, bias, rows, columns, plan.rate, log_total, inner)

        def add(sums, args):
            dq, shares = some_queries(args)
            return jax.tree.map(jnp.add, sums, shares), dq

        if jax.tree.leaves(blocks)[0].shape[0] == 1:
            dq, shares = some_queries(jax.tree.map(lambda x: x[0], blocks))
            return dq[None], shares
        zero = jnp.zeros(k.shape, jnp.float32)
        shares, dq = jax.lax.scan(add, (zero, zero), blocks)
        return dq, shares

    d_out = (cotangent * (1.0 / (1.0 - plan.rate))).astype(v.dtype)
    blocks = jax.tree.map(lambda x: _by_queries(x, plan), (q, d_out, rows, log_total, inner))
    blocks = (_turn(blocks[0]), _turn(blocks[1]), *blocks[2:])
    keys = jax.tree.map(lambda x: _by_heads(x, plan), (_turn(k), _turn(v), columns))
    dq, (dk, dv) = _over(some_heads, (blocks, *keys))
    dq, dk, dv = _from_queries(dq, q.shape[2]), _turn(_from_heads(dk)), _turn(_from_heads(dv))
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
