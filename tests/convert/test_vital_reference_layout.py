"""Weights in the layout of VitalBench's reference: there and back, and what does not fit is refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from flax import nnx

from wearjax.convert import vital_layout
from wearjax.errors import CheckpointError
from wearjax.models.vital import registry

SIZES = {"n_channels": 3, "context": 12, "horizon": 4}
SMALL: dict[str, dict] = {
    "dlinear": {},
    "lightts": {"d_model": 16},
    "itransformer": {"d_model": 8, "depth": 2, "n_heads": 2, "d_ff": 4},
    "patchtst": {"d_model": 8, "depth": 1, "n_heads": 2, "d_ff": 4, "patch": 4, "stride": 2},
    "fouriergnn": {"d_model": 8},
    "micn": {"d_model": 8, "depth": 1, "scales": (4, 6)},
    "mambats": {"d_model": 16, "depth": 2, "d_state": 2, "patch": 4, "stride": 4},
}


def small(kind: str):
    return registry.get(kind).config(**SIZES | SMALL[kind])


def random_weights(config) -> dict[str, np.ndarray]:
    """In the reference's shapes."""
    rng, model = np.random.default_rng(0), registry.shapes(config)
    shapes = {path: leaf.shape for path, leaf in vital_layout._leaves(model)}
    return {
        entry.theirs: rng.normal(size=entry.to_theirs(np.zeros(shapes[entry.ours])).shape).astype(np.float32)
        for entry in vital_layout.entries_of(config)
    }


@pytest.mark.parametrize("kind", vital_layout.KINDS)
def test_there_and_back(kind):
    config = small(kind)
    weights = random_weights(config)
    model = vital_layout.load(config, {f"module.{name}": array for name, array in weights.items()})
    back = vital_layout.to_torch(config, model)
    assert back.keys() == weights.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(back[name], array, err_msg=name)
    n_numbers = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))
    assert n_numbers == registry.parameter_counts(config).trainable


def test_buffers_are_passed_over_and_costs_can_be_read():
    config = small("mambats")
    weights = random_weights(config)
    weights["encoder.adjacency_matrix"] = np.eye(3, dtype=np.float32)
    weights["encoder.count_matrix"] = np.ones((3, 3), np.float32)
    weights["encoder.ending_points"] = np.zeros(3, np.float32)
    vital_layout.load(config, weights)
    cost, count = vital_layout.transition_costs(weights)
    np.testing.assert_array_equal(cost, np.eye(3))
    np.testing.assert_array_equal(count, np.ones((3, 3)))
    with pytest.raises(CheckpointError, match=r"no entry encoder\.adjacency_matrix"):
        vital_layout.transition_costs({})


def test_what_does_not_fit():
    config = small("dlinear")
    weights = random_weights(config)
    with pytest.raises(CheckpointError, match=r"Linear_Trend.weight has shape \(4, 2\), expected \(4, 12\)"):
        vital_layout.load(config, weights | {"Linear_Trend.weight": np.zeros((4, 2))})
    with pytest.raises(CheckpointError, match="DLinear: the model has no entry extra"):
        vital_layout.load(config, weights | {"extra": np.zeros(1)})
    del weights["Linear_Trend.bias"]
    with pytest.raises(CheckpointError, match=r"no entry Linear_Trend\.bias"):
        vital_layout.load(config, weights)
    with pytest.raises(CheckpointError, match="s4: the reference has no such module"):
        vital_layout.entries_of(registry.get("s4").config(**SIZES, patch=4, stride=2))
