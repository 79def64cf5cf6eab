"""Masked squared error, and the credit of permutation training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.objectives import vital_forecast

PREDICTION = jnp.array([[[1.0, 2.0], [3.0, 4.0]]])
TARGET = jnp.array([[[0.0, 4.0], [3.0, 1.0]]])
OBSERVED = jnp.array([[[False, True], [True, True]]])


@pytest.mark.parametrize(("reduction", "entries", "expected"), [
    ("observed", None, 13 / 3), ("all", None, 13 / 4), ("all", 8.0, 13 / 8),
])  # fmt: skip
def test_reductions(reduction, entries, expected):
    loss = vital_forecast.masked_mse(PREDICTION, TARGET, OBSERVED, reduction=reduction, entries=entries)
    assert float(loss) == pytest.approx(expected)


@pytest.mark.parametrize("reduction", vital_forecast.REDUCTIONS)
def test_nothing_observed_is_no_loss_and_no_gradient(reduction):
    nothing = jnp.zeros_like(OBSERVED)
    value, gradient = jax.value_and_grad(vital_forecast.masked_mse)(
        PREDICTION, TARGET, nothing, reduction=reduction
    )
    assert value == 0
    assert not gradient.any()


def test_missing_entries_reach_neither_loss_nor_gradient():
    clean = jax.value_and_grad(vital_forecast.masked_mse)(PREDICTION, TARGET, OBSERVED)
    hidden = jnp.where(OBSERVED, TARGET, jnp.nan)
    dirty = jax.value_and_grad(vital_forecast.masked_mse)(
        jnp.where(OBSERVED, PREDICTION, jnp.nan), hidden, OBSERVED
    )
    for a, b in zip(clean, dirty, strict=True):
        np.testing.assert_array_equal(a, b)


def test_unknown_reduction_is_named():
    with pytest.raises(ConfigError, match="observed, all, got 'mean'"):
        vital_forecast.masked_mse(PREDICTION, TARGET, OBSERVED, reduction="mean")


VISITED = np.array([[2, 0], [0, 1], [2, 1]])
ERRORS = np.array([1.0, 2.0, 6.0])  # their mean is 3


def by_hand(shares):
    costs, counts = np.zeros((3, 3)), np.zeros((3, 3))
    place = iter(shares)
    for order in VISITED:
        before = order[0]
        for channel in order:
            costs[before, channel] += next(place)
            counts[before, channel] += 1
            before = channel
    return costs, counts


@pytest.mark.parametrize(("faithful", "shares"), [
    (False, [-2, -2, -1, -1, 3, 3]),
    (True, [-2, -1, 3, -2, -1, 3]),
])  # fmt: skip
def test_costs_go_to_the_transitions_of_their_sample(faithful, shares):
    costs = vital_forecast.credit(
        vital_forecast.no_costs(3), jnp.asarray(VISITED), jnp.asarray(ERRORS), faithful=faithful
    )
    expected = by_hand(shares)
    np.testing.assert_allclose(costs.costs, expected[0])
    np.testing.assert_allclose(costs.counts, expected[1])
    twice = vital_forecast.credit(costs, jnp.asarray(VISITED), jnp.asarray(ERRORS), faithful=faithful)
    np.testing.assert_allclose(twice.costs, 2 * costs.costs)
