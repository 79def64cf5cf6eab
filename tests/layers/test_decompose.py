from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.layers import decompose


def by_the_book(x: np.ndarray, window: int) -> np.ndarray:
    half = window // 2
    ends = [np.repeat(x[:, :1], half, axis=1), x, np.repeat(x[:, -1:], half, axis=1)]
    padded = np.concatenate(ends, axis=1).astype(np.float64)
    return np.stack([padded[:, t : t + window].mean(axis=1) for t in range(x.shape[1])], axis=1)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 7, 51]))
def test_moving_average_is_the_mean_around_a_step(seed, window):
    x = np.random.default_rng(seed).normal(0, 1, (2, 20, 3)).astype(np.float32)
    trend = np.asarray(decompose.moving_average(jnp.asarray(x), window))
    np.testing.assert_allclose(trend, by_the_book(x, window), atol=1e-5)
    seasonal, again = decompose.decompose(jnp.asarray(x), window)
    np.testing.assert_allclose(np.asarray(seasonal) + np.asarray(again), x, atol=1e-6)


def test_a_long_offset_series_keeps_its_digits():
    """Running sums would have lost them."""
    x = np.full((1, 10080, 1), 1000.0, np.float32)
    x[0, ::2] += 0.25
    trend = np.asarray(decompose.moving_average(jnp.asarray(x), 51))
    np.testing.assert_allclose(trend, by_the_book(x, 51), atol=2e-3)


@pytest.mark.parametrize("window", [0, -3, 4])
def test_other_windows_are_refused(window):
    with pytest.raises(ValueError, match=f"must be odd and positive, got {window}"):
        decompose.moving_average(jnp.zeros((1, 5, 1)), window)
