"""The order in which MambaTS processes channels: the annealer against all orders, and its corner cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.models.vital import variable_order


def path_cost(costs, order):
    """Sum over the transitions of an order, without the first channel's own."""
    return float(costs[order[:-1], order[1:]].sum())


@settings(max_examples=8)
@given(st.integers(0, 1000), st.integers(3, 6))
def test_finds_the_cheapest_path(seed, channels):
    costs = np.random.default_rng(seed).random((channels, channels)) + 0.01
    order = variable_order.processing_order(costs, seed=0)
    start = int(np.argmin(np.diagonal(costs)))
    assert sorted(order) == list(range(channels))
    assert order[0] == start
    others = [i for i in range(channels) if i != start]
    best = min(path_cost(costs, np.array([start, *rest])) for rest in itertools.permutations(others))
    assert path_cost(costs, order) == pytest.approx(best)


def test_a_hidden_chain_of_many_channels_is_found_and_repeatable():
    rng = np.random.default_rng(3)
    chain = rng.permutation(17)
    costs = rng.random((17, 17)) + 1.0
    costs[chain[:-1], chain[1:]] = 0.01
    np.fill_diagonal(costs, 5.0)
    costs[chain[0], chain[0]] = 0.5
    order = variable_order.processing_order(costs, seed=7)
    np.testing.assert_array_equal(order, variable_order.processing_order(costs, seed=7))
    np.testing.assert_array_equal(order, chain)


def test_up_to_two_channels_go_by_their_diagonal():
    assert variable_order.processing_order(np.array([[2.0, 0.1], [9.0, 1.0]]), seed=0).tolist() == [1, 0]
    assert variable_order.processing_order(np.array([[2.0]]), seed=0).tolist() == [0]
    with pytest.raises(ConfigError, match="costs: expected a square matrix"):
        variable_order.processing_order(np.zeros((2, 3)), seed=0)
    with pytest.raises(ConfigError, match="costs: expected a square matrix"):
        variable_order.processing_order(np.zeros((0, 0)), seed=0)


def test_mean_costs():
    means = variable_order.mean_costs(np.array([[-2.0, 0.0], [6.0, 1.0]]), np.array([[2, 0], [3, 1]]))
    # -1 is lifted to 1e-7 + 0, the one never visited costs the mean of -1, 2 and 1
    np.testing.assert_allclose(means, np.array([[0.0, 5 / 3], [3.0, 2.0]]) + 1e-7)
    assert (variable_order.mean_costs(np.zeros((2, 2)), np.zeros((2, 2))) > 0).all()
    assert variable_order.buffer_size(17) == 595
