"""Linear map and layer normalisation: float32 parameters, a chosen compute dtype."""

from __future__ import annotations

import jax
import jax.numpy as jnp
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


def layer_norm(
    x: Float[Array, "*any D"], scale: Array, bias: Array, *, epsilon: float, dtype
) -> Float[Array, "*any D"]:
    """Layer normalisation over the last axis with float32 statistics (Ba et al. 2016)."""
    x = x.astype(jnp.float32)
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + epsilon) * scale + bias).astype(dtype)


class Linear(nnx.Module):
    """x @ kernel + bias; kernel is (in, out)."""

    def __init__(self, n_in: int, n_out: int, *, dtype=jnp.float32, rngs: nnx.Rngs):
        self.kernel = nnx.Param(truncated_normal()(rngs.params(), (n_in, n_out)))
        self.bias = nnx.Param(jnp.zeros((n_out,), jnp.float32))
        self.dtype = dtype

    def __call__(self, x: Float[Array, "*any in_"]) -> Float[Array, "*any out"]:
        return x.astype(self.dtype) @ self.kernel[...].astype(self.dtype) + self.bias[...].astype(self.dtype)


class LayerNorm(nnx.Module):
    """Affine layer normalisation, epsilon 1e-5 (Flax defaults to 1e-6)."""

    def __init__(self, dim: int, *, epsilon: float = 1e-5, dtype=jnp.float32, rngs: nnx.Rngs):
        del rngs  # nothing random; taken so that every layer is built alike
        self.scale = nnx.Param(jnp.ones((dim,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((dim,), jnp.float32))
        self.epsilon = epsilon
        self.dtype = dtype

    def __call__(self, x: Float[Array, "*any D"]) -> Float[Array, "*any D"]:
        return layer_norm(x, self.scale[...], self.bias[...], epsilon=self.epsilon, dtype=self.dtype)
