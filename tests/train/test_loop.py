from __future__ import annotations

import json
import shutil
import signal
import types

import jax
import numpy as np
import pytest
import toy_pretraining as toy
from flax import nnx

from wearjax.errors import CheckpointError, ConfigError, WearjaxError
from wearjax.train import loop, metrics
from wearjax.train import state as states
from wearjax.train.tasks import Task

SETTINGS = {"steps": 4, "log_every": 3, "validate_every": 2, "checkpoint_every": 3}


def run(
    store, out, *, console=None, bundles=toy.Bundles, task=None, force=False, max_seconds=None, **settings
):
    return loop.pretrain(
        toy.config(**SETTINGS | settings), data_dir=store, out=out, bundles=bundles, task=task or toy.task(),
        console=console or toy.plain_console(), force=force, max_seconds=max_seconds,
    )  # fmt: skip


def weights(folder):
    return (folder / "bundle" / "weights.npz").read_bytes()


def same_every_time(folder):
    timing = ("seconds", "days_per_second", "data_wait_fraction")
    return [
        {k: v for k, v in row.items() if k not in timing}
        for row in metrics.read_jsonl(folder / "metrics.jsonl")
    ]


@pytest.fixture(scope="module")
def whole(store, tmp_path_factory):
    """An uninterrupted run, and what it said."""
    console = toy.plain_console()
    return run(store, tmp_path_factory.mktemp("runs") / "whole", console=console), toy.said(console)


def test_a_run_leaves_its_folder(whole, store):
    result, said = whole
    assert (result.step, result.finished) == (4, True)
    assert result.bundle_path == result.run_dir / "bundle"
    rows = list(metrics.read_jsonl(result.run_dir / "metrics.jsonl"))
    assert [(r["step"], r["split"]) for r in rows] == [
        (2, "validation"), (3, "train"), (4, "train"), (4, "validation")
    ]  # fmt: skip
    every_line = {"loss", "learning_rate", "grad_norm", "days_per_second", "data_wait_fraction", "seconds"}
    assert all(every_line <= set(row) for row in rows[1:3])
    assert result.metrics == {"train": rows[2], "validation": rows[3]}
    assert rows[0]["examples"] == 4
    recorded = json.loads((result.run_dir / "config.json").read_text())
    assert recorded["loop"]["steps"] == 4
    assert recorded["run"]["train_days"] == 24
    assert recorded["run"]["data_dir"] == str(store)
    assert "jax" in recorded["versions"]
    assert np.shape(recorded["normalization"]["means"]) == (19,)
    assert "model: 7,760 parameters" in said
    assert "starting from scratch (seed 1)" in said
    assert "step 3/4  loss" in said
    assert "waiting for data" in said


def test_a_finished_run_says_so(whole, store):
    console = toy.plain_console()
    again = run(
        store, whole[0].run_dir, console=console, task=Task("toy", toy.task().build, lambda stats: None)
    )
    assert "run is finished (4 steps)" in toy.said(console)
    assert again == whole[0]


def test_a_run_killed_before_its_bundle_gets_it(whole, store, tmp_path):
    out, console = tmp_path / "run", toy.plain_console()
    shutil.copytree(whole[0].run_dir, out)
    shutil.rmtree(out / "bundle")
    assert run(store, out, console=console).finished
    assert "resuming from step 4 of 4" in toy.said(console)
    assert weights(out) == weights(whole[0].run_dir)
    assert same_every_time(out) == same_every_time(whole[0].run_dir)


def test_stopped_and_resumed_is_the_same_to_the_bit(whole, store, tmp_path):
    out, console = tmp_path / "run", toy.plain_console()
    first = run(store, out, max_seconds=0)
    assert (first.step, first.finished) == (1, False)
    assert first.bundle_path.exists()
    second = run(store, out, max_seconds=0, console=console)
    assert second.step == 2
    assert "resuming from step 1 of 4" in toy.said(console)
    third = run(store, out)
    assert third.finished
    assert weights(out) == weights(whole[0].run_dir)
    assert same_every_time(out) == same_every_time(whole[0].run_dir)


def test_a_signal_saves_and_the_run_goes_on(whole, store, tmp_path, monkeypatch):
    console, validate = toy.plain_console(), loop._validate

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGTERM)
        return validate(*arguments)

    monkeypatch.setattr(loop, "_validate", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run(store, tmp_path / "run", console=console)
    assert signal.getsignal(signal.SIGTERM) is before
    assert "SIGTERM: saved at step 3; the same command resumes there" in toy.said(console)
    monkeypatch.undo()
    run(store, tmp_path / "run", console=console)
    assert "resuming from step 3 of 4" in toy.said(console)
    assert weights(tmp_path / "run") == weights(whole[0].run_dir)


def test_another_topology_goes_on_with_the_same_losses(whole, store, tmp_path):
    run(store, tmp_path / "run", max_seconds=0, devices=1, validation_examples=8)
    result = run(store, tmp_path / "run", devices=8, validation_examples=8)
    assert result.metrics["train"]["loss"] == pytest.approx(whole[0].metrics["train"]["loss"], rel=1e-5)


def test_another_configuration_needs_force(store, tmp_path):
    run(store, tmp_path / "run", max_seconds=0)
    with pytest.raises(
        ConfigError, match=r"holds a run with optimizer.learning_rate 0.01, now 0.02; pass --force"
    ):
        run(store, tmp_path / "run", learning_rate=0.02)
    with pytest.raises(ConfigError, match=r"holds a run with loop.steps 4, now 5"):
        run(store, tmp_path / "run", steps=5)
    result = run(store, tmp_path / "run", log_every=1, max_seconds=0, force=True)
    assert result.step == 1  # not resumed
    assert json.loads((tmp_path / "run" / "config.json").read_text())["loop"]["log_every"] == 1


def test_other_days_need_force(store, tmp_path):
    run(store, tmp_path / "run", max_seconds=0)
    other = toy.write_store(tmp_path / "other", days=4)
    with pytest.raises(ConfigError, match="run was started on other days"):
        run(other, tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(store, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="holds no training run"):
        run(store, tmp_path, force=True)
    assert (tmp_path / "thesis.tex").exists()


def test_a_batch_must_divide(store, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.batch_size: 12 does not divide by the 8 devices"):
        run(store, tmp_path / "run", batch_size=12, devices=8)
    assert not (tmp_path / "run").exists()


def test_there_must_be_data(tmp_path):
    with pytest.raises(ConfigError, match="give the store with --data"):
        run(None, tmp_path / "run")


def test_no_validation_days_no_validation(store, tmp_path):
    result = run(store, tmp_path / "run", validation_examples=0, bundles=None)
    assert set(result.metrics) == {"train"}
    assert result.bundle_path is None


def test_few_validation_days_fill_the_devices(store, tmp_path):
    result = run(store, tmp_path / "run", validation_examples=3, devices=8)
    assert result.metrics["validation"]["examples"] == 8


def test_a_loss_that_is_not_finite_stops_with_the_days(store, tmp_path):
    def broken(model, batch, *, key, train):
        loss, measured = toy.objective(model, batch, key=key, train=train)
        return loss * jax.numpy.where(loss < 1e6, jax.numpy.nan, 1.0), measured

    with pytest.raises(WearjaxError, match="step 1: loss is nan"):
        run(
            store,
            tmp_path / "run",
            task=Task("toy", toy.task().build, lambda stats: broken),
            checkpoint_every=1,
        )
    dumped = json.loads((tmp_path / "run" / "nonfinite_step_1.json").read_text())
    assert len(dumped["index"]) == 8
    assert not list((tmp_path / "run" / "checkpoints").glob("[0-9]*"))


def bundles_of(width):
    model = toy.Toy(width, rngs=nnx.Rngs(99))
    return types.SimpleNamespace(
        save_bundle=toy.Bundles.save_bundle,
        load_bundle=lambda path: types.SimpleNamespace(kind="toy", model=model),
    ), model


def test_starting_from_a_bundle(store, tmp_path):
    bundles, model = bundles_of(8)
    console = toy.plain_console()
    run(
        store,
        tmp_path / "run",
        bundles=bundles,
        console=console,
        init_from="earlier",
        max_seconds=0,  # the first step of the warm-up moves nothing further than 1e-8
    )
    assert "starting from bundle earlier" in toy.said(console)
    with np.load(tmp_path / "run" / "bundle" / "weights.npz") as file:
        got = {n.split("'")[1] + "." + n.split("'")[3]: file[n] for n in file.files}
    for name, value in states.named_leaves(nnx.state(model, nnx.Param)).items():
        np.testing.assert_allclose(got[name], value, atol=1e-7)


def test_a_bundle_of_another_size_is_named(store, tmp_path):
    with pytest.raises(
        CheckpointError, match=r"bundle earlier: down.bias has shape \(16,\), the model needs \(8,\)"
    ):
        run(store, tmp_path / "run", bundles=bundles_of(16)[0], init_from="earlier")
    assert not (tmp_path / "run").exists()  # the corrected command is not refused for what never ran


def test_a_checkpoint_of_another_size_is_named(store, tmp_path):
    run(store, tmp_path / "run", max_seconds=0)
    with pytest.raises(CheckpointError, match=r"down.bias has shape \(8,\), the model needs \(16,\)"):
        run(store, tmp_path / "run", task=toy.task(16))
