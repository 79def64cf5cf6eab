from __future__ import annotations

import shutil

import jax
import numpy as np
import optax
import pytest
import toy_pretraining

from wearjax.errors import CheckpointError
from wearjax.train import checkpoint
from wearjax.train import state as states


@pytest.fixture(scope="module")
def sharding():
    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


def on(sharding, make):
    return states.layout(make, lambda name, shape: sharding)


def maker(width=8):
    return states.initialiser(toy_pretraining.task(width).build, optax.adam(1e-3), seed=3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, sharding):
    folder, state = (
        tmp_path_factory.mktemp("run") / "checkpoints",
        states.place(maker(), on(sharding, maker())),
    )
    with checkpoint.Checkpoints(folder, keep=2) as checkpoints:
        assert checkpoints.latest_step() is None
        for step in (1, 2, 5):
            checkpoints.save(
                state, step=step, config={"a": 1}, progress={"position": step * 8, "interval": {"x": 0.1}}
            )
        checkpoints.save(state, step=5, config={}, progress={"position": -1})  # already there: left as it is
    return folder, jax.device_get(state)


def test_comes_back_to_the_bit(saved, sharding):
    folder, state = saved
    with checkpoint.Checkpoints(folder) as checkpoints:
        assert checkpoints.latest_step() == 5
        got, kept = checkpoints.restore(states.abstract(maker(), on(sharding, maker())))
    assert kept == {"position": 40, "interval": {"x": 0.1}}
    assert jax.tree.structure(got) == jax.tree.structure(state)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(state), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
        assert a.sharding == sharding


def test_only_the_latest_stay(saved):
    assert sorted(int(p.name) for p in saved[0].iterdir() if p.name.isdigit()) == [2, 5]


def test_another_model_size_is_named(saved, sharding):
    with (
        checkpoint.Checkpoints(saved[0]) as checkpoints,
        pytest.raises(
            CheckpointError, match=r"5: down.bias has shape \(8,\), the model needs \(16,\)"
        ) as caught,
    ):
        checkpoints.restore(states.abstract(maker(16), on(sharding, maker(16))))
    assert "\n" not in str(caught.value)


def test_a_damaged_checkpoint_is_one_line(saved, sharding, tmp_path):
    folder = tmp_path / "checkpoints"
    shutil.copytree(saved[0], folder)
    for file in (folder / "5" / "state").rglob("*"):
        if file.is_file() and "_METADATA" not in file.name and "array_metadatas" not in file.parts:
            file.write_bytes(b"damaged")
    with (
        checkpoint.Checkpoints(folder) as checkpoints,
        pytest.raises(CheckpointError, match="5: not readable") as caught,
    ):
        checkpoints.restore(states.abstract(maker(), on(sharding, maker())))
    assert "\n" not in str(caught.value)


def test_none(tmp_path, sharding):
    with (
        checkpoint.Checkpoints(tmp_path / "new") as checkpoints,
        pytest.raises(CheckpointError, match="no checkpoint"),
    ):
        checkpoints.restore(states.abstract(maker(), on(sharding, maker())))
