"""Linear map and layer normalisation that compute in the type of their input, started as PyTorch starts them."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from wearjax.layers import linear


def uniform(rngs: nnx.Rngs, shape: tuple[int, ...], fan_in: int) -> Float[Array, "..."]:
    """Uniform within 1 / sqrt(fan_in): Kaiming's uniform start (He et al. 2015) at the slope sqrt(5) of PyTorch."""
    bound = 1.0 / math.sqrt(fan_in)
    return jax.random.uniform(rngs.params(), shape, jnp.float32, -bound, bound)


class Dense(nnx.Module):
    """x @ kernel + bias; kernel is (in, out), float32 unless loaded otherwise."""

    def __init__(self, n_in: int, n_out: int, *, bias: bool = True, rngs: nnx.Rngs):
        self.kernel = nnx.Param(uniform(rngs, (n_in, n_out), n_in))
        self.bias: Any = nnx.Param(uniform(rngs, (n_out,), n_in)) if bias else None

    def __call__(self, x: Float[Array, "*any in_"]) -> Float[Array, "*any out"]:
        kernel = self.kernel[...]
        if x.dtype == jnp.float64:  # for checks of numerics; `affine` sums gradients in float32
            product = x @ kernel.astype(x.dtype)
            return product if self.bias is None else product + self.bias[...].astype(x.dtype)
        bias = jnp.zeros(kernel.shape[1:], jnp.float32) if self.bias is None else self.bias[...]
        return linear.affine(x, kernel, bias, x.dtype)


class Norm(nnx.Module):
    """Affine layer normalisation over the last axis; half-precision input is normalised in float32."""

    def __init__(self, dim: int, *, epsilon: float = 1e-5):
        self.scale = nnx.Param(jnp.ones((dim,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((dim,), jnp.float32))
        self.epsilon = epsilon

    def __call__(self, x: Float[Array, "*any D"]) -> Float[Array, "*any D"]:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        scale, bias = self.scale[...].astype(wide), self.bias[...].astype(wide)
        return linear.layer_norm(x.astype(wide), scale, bias, self.epsilon).astype(x.dtype)
