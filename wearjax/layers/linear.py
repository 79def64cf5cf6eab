"""Linear map, layer normalisation and GELU: float32 parameters, a chosen compute dtype."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float


def truncated_normal(std: float = 0.02, bound: float = 2.0):
    """Initialiser N(0, std^2) cut at the absolute values +-`bound`.

    `jax.nn.initializers.truncated_normal` cuts at multiples of std; the published LSM-2 weights were drawn
    with absolute bounds, which at std 0.02 is a plain normal distribution.
    """

    def init(key, shape, dtype=jnp.float32, out_sharding=None):
        del out_sharding
        return (jax.random.truncated_normal(key, -bound / std, bound / std, shape, jnp.float32) * std).astype(
            dtype
        )

    return init


def _moments(x, epsilon):
    """Float32 mean and reciprocal standard deviation over the last axis."""
    mean = x.mean(axis=-1, keepdims=True)
    return mean, jax.lax.rsqrt(jnp.square(x - mean).mean(axis=-1, keepdims=True) + epsilon)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_norm(
    x: Float[Array, "*any D"], scale: Float[Array, "D"], bias: Float[Array, "D"], epsilon: float = 1e-5
) -> Float[Array, "*any D"]:
    """Layer normalisation over the last axis of a float32 array (Ba et al. 2016, equation 4).

    The backward pass starts from x again, so only two numbers a row are kept for it.
    """
    return _layer_norm_forward(x, scale, bias, epsilon)[0]


def _layer_norm_forward(x, scale, bias, epsilon):
    mean, inverse = _moments(x, epsilon)
    return (x - mean) * inverse * scale + bias, (x, mean, inverse, scale)


def _layer_norm_backward(epsilon, saved, cotangent):
    x, mean, inverse, scale = saved
    normed = (x - mean) * inverse
    rows = tuple(range(x.ndim - 1))
    d_normed = cotangent * scale
    d_x = (
        d_normed
        - d_normed.mean(axis=-1, keepdims=True)
        - normed * (d_normed * normed).mean(axis=-1, keepdims=True)
    )
    return d_x * inverse, (cotangent * normed).sum(axis=rows), cotangent.sum(axis=rows)


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


def gelu(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """x times the normal distribution function of x, in its exact form (Hendrycks & Gimpel 2016).

    Written with erf: `jax.nn.gelu` goes through erfc, which takes more than twice as long on CPUs.
    """
    return x * (jax.lax.erf(x * np.asarray(2**-0.5, x.dtype)) + 1) * np.asarray(0.5, x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def affine(
    x: Float[Array, "*any I"], kernel: Float[Array, "I O"], bias: Float[Array, "O"], dtype
) -> Float[Array, "*any O"]:
    """x @ kernel + bias, x and result in `dtype`; gradients of kernel and bias are summed in float32.

    The gradient of the kernel is a product with one factor transposed. CPUs copy that factor, and automatic
    differentiation picks it blindly; here it is the narrower one.
    """
    return x @ kernel.astype(dtype) + bias.astype(dtype)


def _affine_forward(x, kernel, bias, dtype):
    return affine(x, kernel, bias, dtype), (x, kernel)


def _affine_backward(dtype, saved, cotangent):
    x, kernel = saved
    d_x = cotangent @ kernel.astype(dtype).T
    rows, cotangents = x.reshape(-1, x.shape[-1]), cotangent.reshape(-1, cotangent.shape[-1])
    product = functools.partial(jnp.einsum, "ra,rb->ab", preferred_element_type=jnp.float32)
    if rows.shape[1] <= cotangents.shape[1]:
        d_kernel = product(rows, cotangents)
    else:
        d_kernel = product(cotangents, rows).T
    return d_x, d_kernel, cotangents.sum(axis=0, dtype=jnp.float32)


affine.defvjp(_affine_forward, _affine_backward)


class Linear(nnx.Module):
    """x @ kernel + bias; kernel is (in, out)."""

    def __init__(self, n_in: int, n_out: int, *, dtype=jnp.float32, rngs: nnx.Rngs):
        self.kernel = nnx.Param(truncated_normal()(rngs.params(), (n_in, n_out)))
        self.bias = nnx.Param(jnp.zeros((n_out,), jnp.float32))
        self.dtype = dtype

    def __call__(self, x: Float[Array, "*any in_"]) -> Float[Array, "*any out"]:
        return affine(x.astype(self.dtype), self.kernel[...], self.bias[...], self.dtype)


class LayerNorm(nnx.Module):
    """Affine layer normalisation, epsilon 1e-5 (Flax defaults to 1e-6)."""

    def __init__(self, dim: int, *, epsilon: float = 1e-5, dtype=jnp.float32, rngs: nnx.Rngs):
        del rngs  # nothing random; taken so that every layer is built alike
        self.scale = nnx.Param(jnp.ones((dim,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((dim,), jnp.float32))
        self.epsilon = epsilon
        self.dtype = dtype

    def __call__(self, x: Float[Array, "*any D"]) -> Float[Array, "*any D"]:
        x = x.astype(jnp.float32)
        return layer_norm(x, self.scale[...], self.bias[...], self.epsilon).astype(self.dtype)
