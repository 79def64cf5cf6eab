from __future__ import annotations

import types

import jax
import numpy as np
import optax
import pytest
from flax import nnx

from wearjax.errors import CheckpointError, ConfigError
from wearjax.models.lsm2 import LSM2, LSM2Config
from wearjax.models.lsm2_sparse import LSM2SparseConfig
from wearjax.train import start, tasks
from wearjax.train import state as states

SIZES = dict(patch=120, encoder_dim=8, encoder_depth=1, encoder_heads=2, decoder_dim=8, decoder_depth=2,
             decoder_heads=2)  # fmt: skip


def daily(**changes):
    model = LSM2(LSM2Config(**SIZES | changes), rngs=nnx.Rngs(7))
    return types.SimpleNamespace(kind="lsm2", model=model)


@pytest.fixture(scope="module")
def sparse():
    """The task, and its state before the first step."""
    task = tasks.task_of(LSM2SparseConfig(**SIZES))
    make = states.initialiser(task.build, optax.adam(1e-3), seed=0, frozen=task.frozen)
    one = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return task, states.place(make, states.layout(make, lambda name, shape: one))


def test_only_the_decoder_side_is_trained(sparse):
    _, state = sparse
    assert not [n for n in states.named_leaves(state.params) if n.startswith(("encoder.", "patch_embed."))]
    moments = [n for n in states.named_leaves(state.opt_state) if "encoder.blocks" in n or "patch_embed" in n]
    assert not moments
    assert any(n.startswith("encoder.blocks") for n in states.named_leaves(state.buffers))


def test_a_sparse_model_starts_from_a_daily_one(sparse):
    task, state = sparse
    bundle = daily()
    start.check(bundle, state, task, where="bundle daily")
    found = start.put_in(bundle, state, task)
    got = states.named_leaves(found.params) | states.named_leaves(found.buffers)
    given = states.named_leaves(nnx.state(bundle.model, nnx.Param))
    taken = [n for n in got if n.split(".")[0] in task.starts_from["lsm2"]]
    assert {n.split(".")[0] for n in taken} == {
        "patch_embed", "encoder", "encoder_to_decoder", "mask_token", "decoder_pred"
    }  # fmt: skip
    for name in taken:
        np.testing.assert_array_equal(got[name], given[name], err_msg=name)
    before = states.named_leaves(state.params)
    for name in set(before) - set(taken):  # the decoder's own layers keep their start
        np.testing.assert_array_equal(got[name], before[name], err_msg=name)


def test_a_daily_model_of_another_size(sparse):
    task, state = sparse
    with pytest.raises(CheckpointError, match=r"bundle daily: .* has shape \(.*\), the model needs \(.*\)"):
        start.check(daily(patch=60), state, task, where="bundle daily")


def test_what_cannot_start(sparse):
    task, _ = sparse
    with pytest.raises(ConfigError, match=r"loop.init_from: a model of kind lsm2_sparse starts from .* lsm2"):
        start.read_start(None, task, None)
    bundles = types.SimpleNamespace(load_bundle=lambda path: types.SimpleNamespace(kind="wbm"))
    with pytest.raises(ConfigError, match="runs/w holds a wbm, from which a lsm2_sparse cannot start"):
        start.read_start("runs/w", task, bundles)
