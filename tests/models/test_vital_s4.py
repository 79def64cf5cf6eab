"""S4 against dense matrices: HiPPO as published, discretised by solving, run as a recurrence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.models.vital import s4

STATE, DIM, LENGTH = 8, 3, 6


def legs(n_states: int) -> tuple[np.ndarray, np.ndarray]:
    """The HiPPO-LegS matrix and input (Gu et al. 2020), element by element."""
    n = np.arange(n_states)
    lower = -np.sqrt((2 * n[:, None] + 1) * (2 * n[None] + 1)) * (n[:, None] > n[None])
    return lower - np.diag(n + 1.0), np.sqrt(2 * n + 1.0)


def spaces(low_rank: bool = True, seed: int = 0) -> s4.StateSpaces:
    made = s4.StateSpaces(DIM, STATE, low_rank=low_rank, rngs=nnx.Rngs(seed))
    rng = np.random.default_rng(seed)
    for name in ("log_decay", "frequency", "b", "p"):  # away from the start, features unlike
        param = getattr(made, name)
        if param is not None:
            param[...] = param[...] + jnp.asarray(0.1 * rng.normal(size=param.shape), jnp.float32)
    return made


def test_hippo_is_the_published_matrix_in_another_basis():
    start = s4.hippo(STATE)
    full = lambda half: np.concatenate([half, half.conj()])  # noqa: E731
    eigenvalues, p, b = full(start.eigenvalues), full(start.p), full(start.b)
    matrix, inputs = legs(STATE)
    ours = np.diag(eigenvalues) - np.outer(p, p.conj())
    # Equal moments b* A^k b for all k: the same system, whatever the basis.
    for k in range(STATE):
        wanted = inputs @ np.linalg.matrix_power(matrix, k) @ inputs
        found = b.conj() @ np.linalg.matrix_power(ours, k) @ b
        np.testing.assert_allclose(found, wanted, rtol=1e-8)
    found, wanted = (np.sort(np.linalg.eigvals(each).real) for each in (ours, matrix))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("low_rank", [True, False])
def test_kernel_is_the_recurrence_with_discretised_matrices(low_rank):
    made = spaces(low_rank)
    x = np.random.default_rng(1).normal(size=(2, 1, LENGTH, DIM))
    with jax.enable_x64(True):
        kernel = np.asarray(made.kernel(LENGTH, jnp.float64))
        found = np.asarray(made(jnp.asarray(x)))
    pair = lambda v: np.asarray(v[...], np.float64) @ np.array([1, 1j])  # noqa: E731
    for feature in range(DIM):
        full = lambda half, d=feature: np.concatenate([half[d], half[d].conj()])  # noqa: E731
        half = -np.exp(np.asarray(made.log_decay[...], np.float64)) + 1j * np.asarray(made.frequency[...])
        matrix = np.diag(full(half))
        if low_rank:
            p = full(pair(made.p))
            matrix = matrix - np.outer(p, p.conj())
        step = np.exp(np.float64(made.log_step[...][feature]))
        one = np.eye(STATE)
        left, right = one - step / 2 * matrix, one + step / 2 * matrix
        a, b = np.linalg.solve(left, right), np.linalg.solve(left, step * full(pair(made.b)))
        state, y = np.zeros((2, STATE), complex), np.zeros((2, LENGTH))
        c, skip = full(pair(made.c)), float(made.skip[...][feature])
        for t in range(LENGTH):
            state = state @ a.T + x[:, 0, t, feature, None] * b
            y[:, t] = (state @ c).real + skip * x[:, 0, t, feature]
            taps = (c @ np.linalg.matrix_power(a, t) @ b).real
            np.testing.assert_allclose(kernel[t, feature], taps, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[:, 0, :, feature], y, rtol=1e-9, atol=1e-12)


def test_float32_kernel_is_near():
    made = spaces()
    with jax.enable_x64(True):
        exact = np.asarray(made.kernel(LENGTH, jnp.float64))
    np.testing.assert_allclose(made.kernel(LENGTH), exact, rtol=1e-4, atol=1e-5)


def test_start():
    made = s4.StateSpaces(64, STATE, low_rank=True, rngs=nnx.Rngs(0))
    steps = np.exp(np.asarray(made.log_step[...]))
    assert 1e-3 <= steps.min() < 3e-3
    assert 0.03 < steps.max() <= 0.1
    np.testing.assert_allclose(np.exp(made.log_decay[...]), 0.5, rtol=1e-5)
    assert 0.6 < np.asarray(made.c[...]).std() < 0.8
