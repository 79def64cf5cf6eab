"""The selective state space of Mamba (Gu & Dao 2023): a state of N numbers a feature, decays that depend on the step.

h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t and y_t = C_t h_t, A different for every feature and number, so that no
form as a matrix product exists. `associative` scans all states in parallel and keeps them, `sequential` runs step by
step and lets automatic differentiation keep what it wants, `recomputed` runs step by step, keeps one state a chunk
and runs every chunk again in the backward pass.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wearjax.errors import ConfigError

IMPLEMENTATIONS = ("auto", "associative", "sequential", "recomputed")
# Measured on CPUs with 102 steps, 256 features and 16 numbers each: the states of so many examples stay in the cache.
EXAMPLES, CHUNK = 8, 17


class Sizes(NamedTuple):
    """How the recomputed form cuts its work: examples at once, steps a chunk. Static."""

    examples: int
    chunk: int


def choose() -> str:
    """The form that `auto` runs: on CPUs the recomputed one, forward and backward 4 times as fast as `sequential`.

    Accelerators, where steps one after another cost launches, take the parallel scan; not measured.
    """
    return "recomputed" if jax.default_backend() == "cpu" else "associative"


def selective_scan(
    u: Float[Array, "B T D"],
    delta: Float[Array, "B T D"],
    a: Float[Array, "D N"],
    b: Float[Array, "B T N"],
    c: Float[Array, "B T N"],
    *,
    implementation: str = "auto",
    examples: int | None = None,
    chunk: int | None = None,
) -> Float[Array, "B T D"]:
    """y_t = C_t h_t with h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t and no state before the first step.

    The skip D u is not part of it (Gu & Dao 2023, algorithm 2). States are at least float32.

    Args:
        delta: positive step sizes, after softplus.
        a: negative decay rates.
        implementation: `auto` chooses by backend, see `choose`.
        examples, chunk: of the recomputed form, see `Sizes`; None is the measured choice.

    Raises:
        ConfigError: unknown implementation.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ConfigError(
            f"selective_scan: expected one of {', '.join(IMPLEMENTATIONS)}, got {implementation!r}"
        )
    dtype, wide = u.dtype, jnp.promote_types(u.dtype, jnp.float32)
    u, delta, a, b, c = (v.astype(wide) for v in (u, delta, a, b, c))
    if implementation == "auto":
        implementation = choose()
    if implementation != "recomputed":
        run = _associative if implementation == "associative" else _sequential
        return run(u, delta, a.T, b, c).astype(dtype)
    sizes = Sizes(examples or EXAMPLES, chunk or CHUNK)
    return _in_blocks(u, delta, a.T, b, c, sizes).astype(dtype)


def _associative(u, delta, a, b, c):
    decay = jnp.exp(delta[:, :, None] * a)  # (B, T, N, D)
    added = (delta * u)[:, :, None] * b[..., None]

    def combine(earlier, later):
        return earlier[0] * later[0], earlier[1] * later[0] + later[1]

    _, states = jax.lax.associative_scan(combine, (decay, added), axis=1)
    return jnp.einsum("btnd,btn->btd", states, c)


def _step(state, u, delta, a, b):
    return jnp.exp(delta[:, None] * a) * state + (delta * u)[:, None] * b[..., None]


def _sequential(u, delta, a, b, c):
    def step(state, now):
        u, delta, b, c = now
        state = _step(state, u, delta, a, b)
        return state, (state * c[..., None]).sum(axis=1)

    start = jnp.zeros((u.shape[0], *a.shape), u.dtype)
    _, y = jax.lax.scan(step, start, tuple(v.swapaxes(0, 1) for v in (u, delta, b, c)))
    return y.swapaxes(0, 1)


def _in_blocks(u, delta, a, b, c, sizes: Sizes):
    """Blocks of examples one after another, so that their states stay in the cache."""
    batch, length = u.shape[:2]
    n_blocks = -(-batch // sizes.examples)
    each = -(-batch // n_blocks)
    chunks = -(-length // sizes.chunk)

    def cut(
        v,
    ):  # (B, T, F) -> (blocks, chunks, steps, examples, F), padded with zeros, which leave the state alone
        v = jnp.pad(v, ((0, n_blocks * each - batch), (0, chunks * sizes.chunk - length), (0, 0)))
        return v.reshape(n_blocks, each, chunks, sizes.chunk, -1).transpose(0, 2, 3, 1, 4)

    parts = tuple(cut(v) for v in (u, delta, b, c))
    y = jax.lax.map(lambda block: _recomputed(*block[:2], a, *block[2:]), parts)
    return y.transpose(0, 3, 1, 2, 4).reshape(n_blocks * each, -1, u.shape[2])[:batch, :length]


@jax.custom_vjp
def _recomputed(u, delta, a, b, c):
    """(chunks, steps, B, D) twice, (N, D), (chunks, steps, B, N) twice -> (chunks, steps, B, D)."""
    return _recomputed_forward(u, delta, a, b, c)[0]


def _recomputed_forward(u, delta, a, b, c):
    def step(state, now):
        u, delta, b, c = now
        state = _step(state, u, delta, a, b)
        return state, (state * c[..., None]).sum(axis=1)

    def chunk(state, now):
        after, y = jax.lax.scan(step, state, now)
        return after, (y, state)

    start = jnp.zeros((u.shape[2], *a.shape), u.dtype)
    _, (y, before) = jax.lax.scan(chunk, start, (u, delta, b, c))
    return y, (u, delta, a, b, c, before)


def _recomputed_backward(saved, cotangent):
    u, delta, a, b, c, before = saved

    def again(state, now):
        u, delta, b = now
        return _step(state, u, delta, a, b), state

    def step(carry, now):
        later, d_a = carry
        u, delta, b, c, previous, d_y = now
        decay, entering = jnp.exp(delta[:, None] * a), delta * u
        state = decay * previous + entering[:, None] * b[..., None]
        d_state = later + c[..., None] * d_y[:, None]
        d_before = d_state * decay
        d_exponent = d_before * previous
        d_entering = (d_state * b[..., None]).sum(axis=1)
        d_delta = (d_exponent * a).sum(axis=1) + d_entering * u
        d_a = d_a + (d_exponent * delta[:, None]).sum(axis=0)
        # sums over the fastest axis: products of matrices and vectors are the quick way to them
        d_b, d_c = jnp.einsum("bnd,bd->bn", d_state, entering), jnp.einsum("bnd,bd->bn", state, d_y)
        return (d_before, d_a), (d_entering * delta, d_delta, d_b, d_c)

    def chunk(carry, now):
        u, delta, b, c, state, d_y = now
        _, previous = jax.lax.scan(again, state, (u, delta, b))
        return jax.lax.scan(step, carry, (u, delta, b, c, previous, d_y), reverse=True)

    start = (jnp.zeros_like(before[0]), jnp.zeros_like(a))
    (_, d_a), (d_u, d_delta, d_b, d_c) = jax.lax.scan(
        chunk, start, (u, delta, b, c, before, cotangent), reverse=True
    )
    return d_u, d_delta, d_a, d_b, d_c


_recomputed.defvjp(_recomputed_forward, _recomputed_backward)
