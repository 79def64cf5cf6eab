from __future__ import annotations

import jax
import numpy as np
import pytest
import toy_pretraining

from wearjax.batches import placement
from wearjax.train import checkpoint, optimizer, step, strategy
from wearjax.train import state as states

STEPS = 4


def batches(n=STEPS):
    rng = np.random.default_rng(0)
    for _ in range(n):
        values = rng.normal(50, 20, (16, 19, 1440)).astype(np.float32)
        values[:, :, :30] = np.nan
        yield {"values": values, "index": np.arange(16)}


class Harness:
    """The compiled step on the first so many devices."""

    def __init__(self, devices: int, *, seed: int = 0):
        mesh = placement.make_mesh(jax.devices()[:devices])
        self.everywhere, self.split = placement.replicated(mesh), placement.batch_sharded(mesh)
        config, task = toy_pretraining.config(), toy_pretraining.task()
        schedule = optimizer.warmup_cosine(config.optimizer, steps=STEPS)
        update = optimizer.adamw(config.optimizer, schedule)
        self.blueprint, *_ = states.blueprint(task.build)
        self.make = states.initialiser(task.build, update, seed=seed)
        self.layout = states.layout(self.make, lambda name, shape: self.everywhere)
        pure = step.train_step(self.blueprint, toy_pretraining.objective, update, schedule, seed=seed)
        self.step = strategy.Jit(pure, mesh=mesh, layout=self.layout).compiled
        evaluate = step.validation_step(self.blueprint, toy_pretraining.objective, seed=seed)
        self.evaluate = strategy.compile_validation_step(evaluate, mesh=mesh, layout=self.layout)

    def run(self):
        state, rows = states.place(self.make, self.layout), []
        for batch in batches():
            state, measured = self.step(state, placement.place(batch, self.split))
            rows.append(jax.device_get(measured))
        return state, rows


@pytest.fixture(scope="module")
def single():
    harness = Harness(1)
    return harness, *harness.run()


def test_a_second_step_never_compiles(single):
    harness, _, _ = single
    assert harness.step._cache_size() == 1


def test_a_restored_state_does_not_compile_either(single, tmp_path):
    harness, state, _ = single
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state, step=STEPS, config={}, progress={})
        checkpoints.wait()
        got, _ = checkpoints.restore(states.abstract(harness.make, harness.layout))
    harness.step(got, placement.place(next(batches(1)), harness.split))
    assert harness.step._cache_size() == 1


def test_eight_devices_agree_with_one(single):
    _, state, rows = single
    harness = Harness(8)
    other, other_rows = harness.run()
    assert harness.step._cache_size() == 1
    for row, other_row in zip(rows, other_rows, strict=True):
        for name in row:
            np.testing.assert_allclose(other_row[name], row[name], rtol=1e-5, atol=1e-7, err_msg=name)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_same_again_is_the_same_to_the_bit(single):
    harness, state, _ = single
    again, _ = harness.run()
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_a_step_changes_and_reports(single):
    harness, state, rows = single
    assert int(state.step) == STEPS
    assert float(jax.tree.leaves(state.buffers)[0]) == STEPS  # counted by the model itself
    assert set(rows[0]) == {"loss", "grad_norm", "learning_rate", "kept"}
    start = states.place(harness.make, harness.layout)
    assert all(
        not np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(state.params), jax.tree.leaves(start.params), strict=True)
    )
    assert rows[0]["kept"] != rows[1]["kept"]  # every step draws its own mask


def test_the_state_is_donated(single):
    harness, _, _ = single
    state = states.place(harness.make, harness.layout)
    harness.step(state, placement.place(next(batches(1)), harness.split))
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.params))


def test_validation_is_repeatable_and_leaves_the_state(single):
    harness, state, rows = single
    placed = placement.place(next(batches(1)), harness.split)

    def evaluate(number):
        which = jax.device_put(np.int32(number), harness.everywhere)
        return jax.device_get(harness.evaluate(state.params, state.buffers, placed, which))

    assert evaluate(0) == evaluate(0)
    assert evaluate(0)["kept"] != evaluate(1)["kept"]
    assert evaluate(0)["kept"] != rows[0]["kept"]  # not the mask of a training step
    assert harness.evaluate._cache_size() == 1
