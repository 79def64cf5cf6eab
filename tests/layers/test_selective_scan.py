"""The forms of the selective scan against a loop in float64, with gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.layers import selective_scan

B, T, D, N = 3, 7, 4, 2


def made(seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    u, c_side = rng.normal(size=(B, T, D)), rng.normal(size=(2, B, T, N))
    delta, a = rng.uniform(0.01, 0.5, (B, T, D)), -rng.uniform(0.5, 4.0, (D, N))
    return u, delta, a, c_side[0], c_side[1]


def loop(u, delta, a, b, c):
    """As the equations read."""
    y, state = np.zeros_like(u), np.zeros((u.shape[0], D, N))
    for t in range(u.shape[1]):
        state = np.exp(delta[:, t, :, None] * a) * state + (delta[:, t] * u[:, t])[..., None] * b[:, t, None]
        y[:, t] = np.einsum("bdn,bn->bd", state, c[:, t])
    return y


def gradients(arrays, weight, form: dict):
    def loss(*arrays):
        return (selective_scan.selective_scan(*arrays, **form) * weight).sum()

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3, 4)))(*arrays)


FORMS = [
    {"implementation": "associative"},
    {"implementation": "sequential"},
    {"implementation": "recomputed", "examples": 2, "chunk": 3},  # neither divides
    {},
]


@pytest.mark.parametrize("form", FORMS)
def test_forms_equal_the_loop(form):
    arrays = made()
    with jax.enable_x64(True):
        run = jax.jit(lambda *arrays: selective_scan.selective_scan(*arrays, **form))
        np.testing.assert_allclose(run(*arrays), loop(*arrays), rtol=1e-12, atol=1e-12)
    single = [array.astype(np.float32) for array in arrays]
    found = selective_scan.selective_scan(*map(jnp.asarray, single), **form)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, loop(*arrays), atol=1e-5)


@pytest.mark.parametrize("form", FORMS[1:])
def test_gradients_equal_those_of_the_parallel_scan(form):
    arrays, weight = made(), np.random.default_rng(1).normal(size=(B, T, D))
    with jax.enable_x64(True):
        wanted = gradients(arrays, weight, FORMS[0])
        for one, other in zip(gradients(arrays, weight, form), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_half_precision_keeps_its_type_and_float32_states():
    arrays = [jnp.asarray(array, jnp.float32) for array in made()]
    short = [arrays[0].astype(jnp.bfloat16), *arrays[1:]]
    found = selective_scan.selective_scan(*short)
    assert found.dtype == jnp.bfloat16
    wanted = selective_scan.selective_scan(short[0].astype(jnp.float32), *arrays[1:])
    np.testing.assert_allclose(found.astype(jnp.float32), wanted, rtol=0.01, atol=1e-3)


def test_unknown_form():
    with pytest.raises(ConfigError, match="selective_scan: expected one of auto"):
        selective_scan.selective_scan(*map(jnp.asarray, made()), implementation="quick")
