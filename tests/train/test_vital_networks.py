"""VitalBench's models as training sees them."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
import vital_stand_in as made

from wearjax.errors import ConfigError
from wearjax.models.vital import dlinear, lightts, mambats, registry, s4
from wearjax.objectives.vital_forecast import OrderCosts
from wearjax.segments.vital_settings import VitalSettings
from wearjax.train import vital_evaluation, vital_networks, vitals

SIZES = {"n_channels": 5, "context": made.CONTEXT, "horizon": made.HORIZON}
MAMBATS = mambats.MambaTSConfig(**SIZES, patch=3, stride=3, d_model=8, depth=1, scan="sequential")
DLINEAR = dlinear.DLinearConfig(**SIZES, window=3)


@pytest.mark.parametrize("kind", registry.ARCHITECTURES)
def test_facts_of_the_registry(kind):
    config = registry.published(kind, "mover", 1)(1)
    network = vital_networks.network_of(config, VitalSettings())
    architecture = registry.get(kind)
    assert (network.kind, network.mixes) == (kind, architecture.mixes_channels)
    assert network.permutes == (network.order is not None) == (kind == "mambats")
    assert network.reduction == ("all" if kind == "mambats" else "observed")
    with pytest.raises(ConfigError, match="no model"):
        vital_networks.network_of(made.training(), VitalSettings())


def test_switches_decide():
    config = s4.S4Config(**SIZES, patch=3, stride=3, d_model=4)
    assert vital_networks.network_of(config, VitalSettings()).config.low_rank
    assert not vital_networks.network_of(config, VitalSettings(s4="diagonal")).config.low_rank
    plain = vital_networks.network_of(dataclasses.replace(MAMBATS, permute=False), VitalSettings())
    assert (plain.reduction, plain.order) == ("observed", None)
    model = vitals.model_of(DLINEAR, learning_rate=1e-3, settings=VitalSettings(reduction="all"))
    assert (model.steps.reduction, model.training.context) == ("all", made.CONTEXT)
    with pytest.raises(ConfigError, match="fixed number"):
        vitals.model_of(lightts.LightTSConfig(**SIZES), learning_rate=1e-3, incomplete=True)


def test_cheapest_order_is_of_the_kept_channels():
    costs = np.full((5, 5), 1.0)
    np.fill_diagonal(costs, [5, 5, 5, 0, 5])
    costs[3, 1] = costs[1, 4] = costs[4, 0] = -1
    found = vital_networks.cheapest_order(OrderCosts(costs, np.ones((5, 5))), np.array([0, 1, 3, 4]), seed=1)
    assert found.tolist() == [3, 1, 4, 0]


@pytest.fixture(scope="module")
def model():
    return vitals.model_of(MAMBATS, learning_rate=1e-3, batch_size=16)


def test_a_step_of_mambats_keeps_its_shapes(model):
    """Traced only: the stand-ins train, this one takes long to compile."""
    state = model.steps.start(model.params, 5)
    ends, channels = np.zeros((3, 16), np.int32), np.tile(np.arange(5), (3, 1))
    after, (losses, observed) = jax.eval_shape(
        model.steps.train, state, model.rows(made.cases(1)), ends, channels, channels >= 2,
        np.int32(3), np.float32(1e-3), jax.random.key(0),
    )  # fmt: skip
    assert losses.shape == observed.shape == (3,)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), state) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), after
    )


def test_mambats_is_evaluated_in_the_order_its_costs_give(model):
    rng = np.random.default_rng(0)
    costs = OrderCosts(rng.normal(size=(5, 5)), np.ones((5, 5)))
    seen = model.views(made.cases(1), costs=costs)[0]
    order = vital_networks.cheapest_order(costs, np.arange(5), seed=VitalSettings().seed)
    assert seen.channels.tolist() == order.tolist() != [0, 1, 2, 3, 4]
    assert model.views(made.cases(1))[0].channels.tolist() == [0, 1, 2, 3, 4], "no costs yet"


def test_permutation_by_columns_is_the_models_own(model):
    """Training hands MambaTS permuted columns instead of an order; forecasts are the same."""
    cases = made.cases(1)
    order = np.array([3, 0, 4, 2, 1])
    seen = vital_evaluation.View(order.astype(np.int32), order >= 2)
    found = model.predict(cases, 0, seen)
    x = np.stack([cases.values[: made.CONTEXT]] * 2)
    direct = jax.jit(lambda x: model.module()(x, order=order))(x)
    np.testing.assert_allclose(found[made.CONTEXT - 1], direct[0][:, 2:], rtol=1e-4, atol=1e-5)
    upright = model.predict(cases, 0, vital_evaluation.View(np.arange(5, dtype=np.int32), np.arange(5) >= 2))
    assert not np.allclose(found, upright, atol=1e-5), "the order matters"


def test_a_short_run_of_dlinear():
    dlinear_model = vitals.model_of(
        DLINEAR, learning_rate=1e-3, epochs=1, batch_size=16, steps_per_call=1, incomplete=True
    )
    dlinear_model.fit(made.cases(2), made.cases(1, seed=1))
    validation = made.cases(1)
    for case, seen, found in dlinear_model.forecasts(validation):
        assert found.shape == (validation.windows_of(made.HORIZON)[case], made.HORIZON, seen.scored.sum())
