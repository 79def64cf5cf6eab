from __future__ import annotations

import jax
import numpy as np
import pytest
import toy_pretraining as toy

from wearjax.batches import placement
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError
from wearjax.models.lsm2 import LSM2Config
from wearjax.train import checkpoint, config, loop, metrics, optimizer, step, strategy, tasks
from wearjax.train import state as states

STEPS = 5
MODEL = LSM2Config(
    patch=120, encoder_dim=16, encoder_depth=2, encoder_heads=2, decoder_dim=16, decoder_depth=1,
    decoder_heads=2, dropout=0.1,
)  # fmt: skip


def batches():
    rng = np.random.default_rng(0)
    for _ in range(STEPS):
        values = rng.normal(0, 1, (16, 19, 1440)).astype(np.float32)
        values[:, 7:] = values[:, 7:] > 1
        values[rng.random((16, 19)) < 0.3] = np.nan
        values[0] = np.nan  # a day without anything
        yield {"values": values, "index": np.arange(16)}


class Training:
    """Five steps of a small LSM-2 on some devices, by some strategy."""

    def __init__(self, devices, *, model=1, sharded=False, pmap=False, accumulate=1):
        self.mesh = placement.make_mesh(jax.devices()[:devices], model=model)
        settings, task = config.OptimizerConfig(learning_rate=1e-2), tasks.task_of(MODEL)
        schedule = optimizer.warmup_cosine(settings, steps=STEPS)
        update = optimizer.adamw(settings, schedule)
        blueprint, *_ = states.blueprint(task.build)
        self.make = states.initialiser(task.build, update, seed=0)
        self.layout = states.layout(
            self.make,
            lambda name, shape: placement.parameter_sharding(self.mesh, name, shape, sharded=sharded),
        )
        axis = strategy.AXIS if pmap else None
        pure = step.train_step(
            blueprint, task.objective(NormalizationStats.identity(), axis_name=axis), update, schedule, seed=0,
            accumulate=accumulate, axis_name=axis,
        )  # fmt: skip
        self.traces = 0

        def counted(*args):
            self.traces += 1
            return pure(*args)

        if pmap:
            self.strategy = strategy.Pmap(counted, mesh=self.mesh)
        else:
            self.strategy = strategy.Jit(counted, mesh=self.mesh, layout=self.layout)

    def run(self, state=None):
        state = self.strategy.begin(state or states.place(self.make, self.layout))
        rows = []
        for batch in batches():
            state, measured = self.strategy.step(state, self.strategy.place(batch))
            rows.append(jax.device_get(measured))
        return self.strategy.whole(state), rows


@pytest.fixture(scope="module")
def alone():
    return Training(1).run()


WAYS = {
    "replicated": dict(devices=8),
    "sharded": dict(devices=8, sharded=True),
    "model axis": dict(devices=8, model=2),
    "both": dict(devices=8, model=2, sharded=True),
    "pmap": dict(devices=8, pmap=True),
    "pmap on one": dict(devices=1, pmap=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_losses_of_one_device(alone, way):
    training = Training(**WAYS[way])
    state, rows = training.run()
    assert training.traces == 1  # the first step compiles, no other does
    for row, expected in zip(rows, alone[1], strict=True):
        assert row.keys() == expected.keys()
        for name in row:
            np.testing.assert_allclose(row[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(alone[0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5)


def test_accumulated_parts_are_means_of_their_losses():
    state, rows = Training(2, accumulate=4).run()
    assert int(state.step) == STEPS
    assert rows[-1]["loss"] < rows[0]["loss"]
    split, rows_of_eight = Training(4, accumulate=4).run()
    for row, other in zip(rows, rows_of_eight, strict=True):
        np.testing.assert_allclose(row["loss"], other["loss"], rtol=1e-5)
    assert int(split.step) == STEPS


def test_sharded_arrays_are_split():
    layout = Training(8, sharded=True).layout
    found = {
        n: s.spec for n, s in states.named_leaves(layout).items() if "encoder.blocks.attn.qkv.kernel" in n
    }
    assert len(found) == 3  # the kernel and both of its moments
    assert set(found.values()) == {jax.sharding.PartitionSpec(None, "data", None)}


@pytest.fixture(scope="module")
def eight():
    """State after five steps on eight devices, sharded, and the losses of the next five."""
    training = Training(8, sharded=True)
    state, _ = training.run()
    _, rows = training.run(jax.tree.map(lambda x: x.copy(), state))
    return state, [row["loss"] for row in rows]


@pytest.mark.parametrize(
    "later",
    [dict(devices=1), dict(devices=4, sharded=True), dict(devices=4, pmap=True)],
    ids=["one", "four, sharded", "four, pmap"],
)
def test_a_checkpoint_of_eight_devices_goes_on_elsewhere(tmp_path, eight, later):
    state, expected = eight
    with checkpoint.Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(state, step=STEPS, config={}, progress={})
        checkpoints.wait()
        other = Training(**later)
        with jax.set_mesh(other.mesh):  # an active mesh must not get in the way
            got, _ = checkpoints.restore(states.abstract(other.make, other.layout))
    _, rows = other.run(got)
    np.testing.assert_allclose([row["loss"] for row in rows], expected, rtol=1e-5, atol=1e-6)


def test_a_run_goes_on_under_another_strategy(store, tmp_path):
    """Stopped after two of six steps on eight devices, finished on four by pmap: the same loss curve."""
    settings = toy.config(steps=6, batch_size=8, log_every=1, validate_every=2, devices=8)
    settings = config.override(settings, ["--loop.sharding", "sharded"])
    small = config.PretrainConfig("small", 1, settings.data, MODEL, settings.optimizer, settings.loop)
    whole = loop.pretrain(small, data_dir=store, out=tmp_path / "whole", console=toy.plain_console())
    loop.pretrain(
        small, data_dir=store, out=tmp_path / "parts", console=toy.plain_console(),
        on_validation=lambda step, found: True,
    )  # fmt: skip
    later = config.override(
        small, ["--loop.devices", "4", "--loop.strategy", "pmap", "--loop.sharding", "replicated"]
    )
    parts = loop.pretrain(later, data_dir=store, out=tmp_path / "parts", console=toy.plain_console())
    assert parts.finished

    def losses(result):
        rows = metrics.read_jsonl(result.run_dir / "metrics.jsonl")
        return [
            r["loss"] for r in rows if r["split"] == "train"
        ]  # few validation days are repeated by devices

    assert len(losses(whole)) == 6
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-5)


def test_what_cannot_be_combined(store, tmp_path):
    with pytest.raises(ConfigError, match="pmap keeps a whole model a device"):
        config.LoopConfig(steps=1, strategy="pmap", sharding="sharded")
    with pytest.raises(ConfigError, match="3 does not divide the 8 devices"):
        placement.make_mesh(jax.devices(), model=3)
    with pytest.raises(ConfigError, match="the objective of a toy runs under jit only"):
        loop.pretrain(
            toy.config(strategy="pmap"), data_dir=store, out=tmp_path / "run", task=toy.task(),
            console=toy.plain_console(),
        )  # fmt: skip
