"""The state-space dual of Mamba-2 (Dao & Gu 2024) in three equal forms, and the mixer built on it.

A head keeps a state H of P x N numbers: H_t = exp(dt_t a) H_{t-1} + dt_t x_t B_t', read out as y_t = H_t C_t.
`associative` scans the states, `quadratic` writes the same map as a masked T x T product, `chunked` is quadratic
inside chunks and hands one state from chunk to chunk. Decays and their cumulative sums are float32 in all.
"""

from __future__ import annotations

import functools
import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float

from wearjax.errors import ConfigError
from wearjax.layers import linear

IMPLEMENTATIONS = ("auto", "associative", "chunked", "quadratic")
CHUNK = 84  # steps a chunk should have
QUADRATIC_STEPS = 400  # up to here one chunk is fastest on CPUs; not measured on GPUs and TPUs


def chunk_size(length: int, near: int = CHUNK) -> int:
    """The divisor of `length` nearest to `near` within a factor of 1.5; `near` itself, with padding, if none."""
    divisors = [n for n in range(1, length + 1) if length % n == 0 and near / 1.5 <= n <= near * 1.5]
    return min(divisors, key=lambda n: abs(n - near), default=min(near, length))


def choose(length: int) -> Literal["chunked", "quadratic"]:
    """The form that `auto` runs at a length. The state scan is never the fastest: it stores every state."""
    return "quadratic" if length <= QUADRATIC_STEPS else "chunked"


def ssd(
    x: Float[Array, "B T H P"],
    dt: Float[Array, "B T H"],
    a: Float[Array, "H"],
    b: Float[Array, "B T G N"],
    c: Float[Array, "B T G N"],
    *,
    implementation: str = "auto",
    chunk: int | None = None,
    reverse: bool = False,
) -> Float[Array, "B T H P"]:
    """y_t = H_t C_t with H_t = exp(dt_t a) H_{t-1} + dt_t x_t B_t' and no state before the first step.

    The skip D x is not part of it. Products take operands of x's type and sum in float32.

    Args:
        dt: positive step sizes, after softplus.
        a: negative decay rate of each head.
        b, c: input and output maps of each group; H / G neighbouring heads share one.
        implementation: `auto` chooses by length, see `choose`.
        chunk: steps a chunk of the chunked form; the sequence is padded to a multiple. None: `chunk_size`.
        reverse: run from the last step to the first, each step at its own place.

    Returns: float32.

    Raises:
        ConfigError: unknown implementation, or heads that do not divide into the groups.
    """
    if implementation not in IMPLEMENTATIONS:
        raise ConfigError(f"ssd: expected one of {', '.join(IMPLEMENTATIONS)}, got {implementation!r}")
    (batch, length, heads, width), groups = x.shape, b.shape[2]
    if heads % groups:
        raise ConfigError(f"ssd: {heads} heads do not divide into {groups} groups")
    if implementation == "auto":
        implementation = choose(length)
    # (B, T, H, ...) -> (B, G, R, T, ...): the products below are batched over everything before time
    by_group = lambda v: jnp.moveaxis(v.reshape(batch, length, groups, heads // groups, -1), 1, 3)  # noqa: E731
    dt = by_group(dt.astype(jnp.float32))
    log_decay = (dt * a.astype(jnp.float32).reshape(groups, -1, 1, 1))[..., 0]
    inputs = (by_group(x) * dt).astype(x.dtype)
    b, c = jnp.moveaxis(b, 1, 2).astype(x.dtype), jnp.moveaxis(c, 1, 2).astype(x.dtype)
    if implementation == "quadratic":
        y = _quadratic(inputs, jax.lax.cumsum(log_decay, axis=3, reverse=reverse), b, c, reverse)
    else:
        turned = lambda v, axis: jnp.flip(v, axis) if reverse else v  # noqa: E731
        arguments = (turned(inputs, 3), turned(log_decay, 3), turned(b, 2), turned(c, 2))
        chunked = implementation == "chunked"
        y = _chunked(*arguments, chunk or chunk_size(length)) if chunked else _associative(*arguments)
        y = turned(y, 3)
    return jnp.moveaxis(y, 3, 1).reshape(batch, length, heads, width)


_product = functools.partial(jnp.matmul, preferred_element_type=jnp.float32)


def _decay(cumulative, causal):
    """(..., T), mask (T, T) -> (..., T, T): at (t, s) exp(cumulative_t - cumulative_s), zero outside the mask.

    The exponential of a difference: its two factors alone overflow at ordinary step sizes. The mask comes before the
    exponential, which would overflow outside it.
    """
    return jnp.exp(jnp.where(causal, cumulative[..., :, None] - cumulative[..., None, :], -jnp.inf))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _quadratic(x, cumulative, b, c, reverse=False):
    """(..., G, R, T, P), (..., G, R, T), (..., G, T, N) twice -> (..., G, R, T, P).

    y = M x with M = decay * (c b'), the latter once a group. The backward pass makes M again, transposed so that no
    product has to turn it, and needs no sums over gradients of T x T decays: those of the logarithms, over a row or
    a column of M, are products of vectors that are there anyway, y with its cotangent and x with its gradient.
    """
    return _quadratic_forward(x, cumulative, b, c, reverse)[0]


def _causal(length, reverse):
    """At (t, s): whether step s reaches step t."""
    causal = np.tri(length, dtype=bool)
    return causal.T if reverse else causal


def _quadratic_forward(x, cumulative, b, c, reverse):
    decay = _decay(cumulative, _causal(x.shape[-2], reverse))
    scores = _product(c, b.swapaxes(-1, -2))[..., None, :, :]
    y = _product((scores * decay).astype(x.dtype), x)
    return y, (x, cumulative, b, c, y)


def _quadratic_backward(reverse, saved, cotangent):
    x, cumulative, b, c, y = saved
    scores = _product(b, c.swapaxes(-1, -2))[..., None, :, :]
    decay = _decay(-cumulative, _causal(x.shape[-2], not reverse))
    d_y = cotangent.astype(x.dtype)
    d_x = _product((scores * decay).astype(x.dtype), d_y)
    d_m = _product(x, d_y.swapaxes(-1, -2))
    # heads one by one: as a product with a reduction behind it, CPUs run this several times slower
    heads = [d_m[..., r, :, :] * decay[..., r, :, :] for r in range(d_m.shape[-3])]
    d_scores = functools.reduce(jnp.add, heads).astype(x.dtype)
    d_cumulative = (cotangent * y).sum(axis=-1) - (x * d_x).sum(axis=-1)
    d_b, d_c = _product(d_scores, c), _product(d_scores.swapaxes(-1, -2), b)
    return d_x.astype(x.dtype), d_cumulative, d_b.astype(b.dtype), d_c.astype(c.dtype)


_quadratic.defvjp(_quadratic_forward, _quadratic_backward)


def _chunked(x, log_decay, b, c, chunk: int):
    """Quadratic inside chunks; the state at the end of each reaches the later ones."""
    length = x.shape[-2]
    n_chunks = -(-length // chunk)
    short = n_chunks * chunk - length

    def cut(v, axis):  # (..., T, ...) -> (chunk number, ..., chunk, ...); padded steps neither decay nor add
        v = jnp.pad(v, [(0, short if i == axis else 0) for i in range(v.ndim)])
        return jnp.moveaxis(v.reshape(*v.shape[:axis], n_chunks, chunk, *v.shape[axis + 1 :]), axis, 0)

    x, b, c = cut(x, 3), cut(b, 2), cut(c, 2)
    cumulative = jnp.cumsum(cut(log_decay, 3), axis=-1)
    inside = _quadratic(x, cumulative, b, c)
    until_end = jnp.exp(cumulative[..., -1:] - cumulative)
    added = _product(
        (x * until_end[..., None]).astype(x.dtype).swapaxes(-1, -2), b[..., None, :, :]
    )  # (K, B, G, R, P, N)

    def carry(state, now):
        decay, new = now
        return state * decay[..., None, None] + new, state

    _, states = jax.lax.scan(carry, jnp.zeros_like(added[0]), (jnp.exp(cumulative[..., -1]), added))
    from_before = _product(c[..., None, :, :], states.astype(c.dtype).swapaxes(-1, -2))
    y = jnp.moveaxis(inside + from_before * jnp.exp(cumulative)[..., None], 0, 3)
    return y.reshape(*y.shape[:3], -1, y.shape[-1])[..., :length, :]


def _associative(x, log_decay, b, c):
    """Every state by a parallel prefix scan: T times the memory of one state, and the plainest to read."""
    states = x[..., :, None].astype(jnp.float32) * b[:, :, None, :, None, :].astype(jnp.float32)

    def combine(earlier, later):
        return earlier[0] * later[0], earlier[1] * later[0] + later[1]

    _, states = jax.lax.associative_scan(combine, (jnp.exp(log_decay)[..., None, None], states), axis=3)
    return jnp.einsum("bgrtpn,bgtn->bgrtp", states, c, preferred_element_type=jnp.float32)


def causal_conv(
    x: Float[Array, "B T C"], kernel: Float[Array, "C W"], bias: Float[Array, "C"], *, reverse: bool = False
) -> Float[Array, "B T C"]:
    """Each channel filtered along time by its own W taps, the last of which meets the current step.

    A sum of W shifted products, which one pass over memory computes; convolutions of this shape are slow on CPUs.

    Args:
        reverse: the other taps meet later steps, the nearest first, instead of earlier ones.
    """
    length, width = x.shape[1], kernel.shape[1]
    padded = jnp.pad(x, ((0, 0), (0, width - 1) if reverse else (width - 1, 0), (0, 0)))
    first = (lambda k: width - 1 - k) if reverse else (lambda k: k)
    taps = [padded[:, first(k) : first(k) + length] * kernel[:, k].astype(x.dtype) for k in range(width)]
    return functools.reduce(jnp.add, taps) + bias.astype(x.dtype)


def gated_rms_norm(
    y: Float[Array, "*any D"], gate: Float[Array, "*any D"], weight: Float[Array, "D"], epsilon: float = 1e-5
) -> Float[Array, "*any D"]:
    """y SiLU(gate), over the root of its mean square, times `weight`; float32."""
    gated = y.astype(jnp.float32) * jax.nn.silu(gate.astype(jnp.float32))
    return gated * jax.lax.rsqrt(jnp.square(gated).mean(axis=-1, keepdims=True) + epsilon) * weight


class Projection(nnx.Module):
    """x @ kernel, without bias."""

    def __init__(self, n_in: int, n_out: int, *, dtype=jnp.float32, rngs: nnx.Rngs):
        self.kernel = nnx.Param(linear.truncated_normal()(rngs.params(), (n_in, n_out)))
        self.dtype = dtype

    def __call__(self, x: Float[Array, "*any in_"]) -> Float[Array, "*any out"]:
        kernel = self.kernel[...]
        # the zeros are folded away; what `affine` brings is the cheaper of two gradients
        return linear.affine(x.astype(self.dtype), kernel, jnp.zeros(kernel.shape[1:]), self.dtype)


class Taps(nnx.Module):
    """Parameters of `causal_conv`, uniform within 1 / sqrt(width) as PyTorch starts a depthwise convolution."""

    def __init__(self, n_channels: int, width: int, *, rngs: nnx.Rngs):
        bound = width**-0.5
        draw = lambda *shape: jax.random.uniform(rngs.params(), shape, minval=-bound, maxval=bound)  # noqa: E731
        self.kernel = nnx.Param(draw(n_channels, width))
        self.bias = nnx.Param(draw(n_channels))

    def __call__(self, x: Float[Array, "B T C"], *, reverse: bool = False) -> Float[Array, "B T C"]:
        return causal_conv(x, self.kernel[...], self.bias[...], reverse=reverse)


class NormWeight(nnx.Module):
    """Parameter of `gated_rms_norm`."""

    def __init__(self, dim: int):
        self.weight = nnx.Param(jnp.ones((dim,), jnp.float32))


def draw_dt_bias(key: jax.Array, n_heads: int) -> Float[Array, "H"]:
    """Numbers whose softplus is log-uniform in [0.001, 0.1] (Gu & Dao 2023, section 3.6), and at least 1e-4."""
    low, high = math.log(1e-3), math.log(0.1)
    dt = jnp.exp(jax.random.uniform(key, (n_heads,), minval=low, maxval=high))
    dt = jnp.maximum(dt, 1e-4)
    return dt + jnp.log(-jnp.expm1(-dt))


class Mamba2(nnx.Module):
    """The Mamba-2 mixer with one group of B and C (Dao & Gu 2024, section 7), norm after the gate.

    `in_proj` gives, in this order, the gate z, then x, B, C (which pass the convolution), then the step sizes.

    Args:
        dim: features in and out.
        d_state: size N of the state of a head.
        d_conv: taps of the convolution.
        expand: inner features over `dim`; headdim: inner features a head.
        implementation: form of the scan, see `ssd`.
    """

    def __init__(self, dim: int, *, d_state=128, d_conv=4, expand=2, headdim=64, implementation="auto",
                 dtype=jnp.float32, rngs: nnx.Rngs):  # fmt: skip
        inner = expand * dim
        if inner % headdim:
            raise ConfigError(f"mamba2: {inner} inner features do not divide into heads of {headdim}")
        self.inner, self.d_state, self.n_heads = inner, d_state, inner // headdim
        self.implementation = implementation
        self.in_proj = Projection(dim, 2 * inner + 2 * d_state + self.n_heads, dtype=dtype, rngs=rngs)
        self.conv1d = Taps(inner + 2 * d_state, d_conv, rngs=rngs)
        self.dt_bias = nnx.Param(draw_dt_bias(rngs.params(), self.n_heads))
        self.A_log = nnx.Param(
            jnp.log(jax.random.uniform(rngs.params(), (self.n_heads,), minval=1.0, maxval=16.0))
        )
        self.D = nnx.Param(jnp.ones((self.n_heads,), jnp.float32))
        self.norm = NormWeight(inner)
        self.out_proj = Projection(inner, dim, dtype=dtype, rngs=rngs)

    def hidden(self, u: Float[Array, "B T D"], *, reverse: bool = False) -> Float[Array, "B T E"]:
        """The inner features before the output projection: scan, skip, gate and norm."""
        batch, length, _ = u.shape
        inner, state = self.inner, self.d_state
        gate, mixed, dt = jax.lax.split(self.in_proj(u), (inner, inner + 2 * state, self.n_heads), axis=2)
        mixed = jax.nn.silu(self.conv1d(mixed, reverse=reverse))
        x, b, c = jax.lax.split(mixed, (inner, state, state), axis=2)
        dt = jax.nn.softplus(dt.astype(jnp.float32) + self.dt_bias[...])
        x = x.reshape(batch, length, self.n_heads, -1)
        y = ssd(
            x, dt, -jnp.exp(self.A_log[...]), b[:, :, None], c[:, :, None],
            implementation=self.implementation, reverse=reverse,
        )  # fmt: skip
        y = (y + self.D[...][:, None] * x).reshape(gate.shape)
        return gated_rms_norm(y, gate, self.norm.weight[...])

    def __call__(self, u: Float[Array, "B T D"], *, reverse: bool = False) -> Float[Array, "B T D"]:
        """Features of every step from it and those before it, or with `reverse` those after it."""
        return self.out_proj(self.hidden(u, reverse=reverse))


def both_directions(
    forward: Mamba2, backward: Mamba2, merge: linear.Linear, u: Float[Array, "B T D"]
) -> Float[Array, "B T O"]:
    """`merge` of [forward(u) ‖ backward(u) in reverse].

    No nonlinearity stands between the output projections and `merge`, so their kernels are multiplied first: one
    product over the steps where there were two.
    """
    kernels = jnp.split(merge.kernel[...], 2)
    joined = [
        jnp.matmul(mixer.out_proj.kernel[...], kernel, precision=jax.lax.Precision.HIGHEST)
        for mixer, kernel in zip((forward, backward), kernels, strict=True)
    ]
    ahead = linear.affine(forward.hidden(u).astype(merge.dtype), joined[0], merge.bias[...], merge.dtype)
    no_bias = jnp.zeros_like(merge.bias[...])
    back = backward.hidden(u, reverse=True).astype(merge.dtype)
    return ahead + linear.affine(back, joined[1], no_bias, merge.dtype)
