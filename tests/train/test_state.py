from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import toy_pretraining
from flax import nnx

from wearjax.errors import CheckpointError
from wearjax.train import state as states


@pytest.fixture(scope="module")
def made():
    build = toy_pretraining.task().build
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    make = states.initialiser(build, optax.adam(1e-3), seed=3)
    layout = states.layout(make, lambda name, shape: sharding)
    return states.blueprint(build)[:2], states.abstract(make, layout), states.place(make, layout)


def test_shapes_are_known_before_anything_is_computed(made):
    (_, params), abstract, state = made
    assert jax.tree.structure(abstract) == jax.tree.structure(state)
    assert [x.shape for x in jax.tree.leaves(abstract)] == [x.shape for x in jax.tree.leaves(state)]
    assert states.count(params) == states.count(state.params) == 2 * 19 * 24 * 8 + 8 + 19 * 24


def test_random_streams_are_not_part_of_the_state(made):
    names = states.named_leaves(made[2])
    assert not [n for n in names if "rngs" in n or "count" in n.split(".")[-2:-1]]
    assert "params.down.kernel" in names
    assert "buffers.seen" in names
    assert "step" in names


def test_a_model_comes_back_with_streams_of_the_key(made):
    (blueprint, _), _, state = made
    x = jnp.ones((64, 19 * 24))

    def run(key):
        return np.asarray(
            blueprint.model(state.params, state.buffers, key=jax.random.key(key))(x, train=True)
        )

    np.testing.assert_array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))


def test_names_lead_back_to_the_tree(made):
    state = made[2]
    back = states.unflatten(dict(reversed(states.named_leaves(state).items())), state)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(state), strict=True):
        assert a is b


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"up.bias": np.zeros(3)}, r"up.bias has shape \(3,\), the model needs \(456,\)"),
        (
            lambda d: {n: v for n, v in d.items() if n != "down.kernel"},
            r"no parameter down.kernel, which .* \(456, 8\)",
        ),
        (lambda d: d | {"extra": np.zeros(3)}, "parameter extra does not exist in the model"),
    ],
)
def test_what_does_not_fit_is_named(made, change, message):
    wanted = states.named_leaves(made[0][1])
    states.check_same_shapes(wanted, wanted, where="here")
    with pytest.raises(CheckpointError, match=f"here: {message}"):
        states.check_same_shapes(change(wanted), wanted, where="here")


def test_stacked_streams_get_a_key_each():
    class Stacked(nnx.Module):
        def __init__(self, rngs):
            self.streams = rngs.split(3)

    blueprint, params, _ = states.blueprint(lambda rngs: Stacked(rngs))
    model = blueprint.model(params, nnx.State({}), key=jax.random.key(0))
    keys = jax.tree.leaves(nnx.state(model, nnx.RngKey))[0]
    assert len(np.unique(jax.random.key_data(keys), axis=0)) == 3
