"""The best validation decides: when training ends, what the bundle holds, and after a kill all the same."""

from __future__ import annotations

import dataclasses
import math
import signal

import jax.numpy as jnp
import numpy as np
import pytest
import toy_pretraining as toy
from flax import nnx

from wearjax.errors import ConfigError
from wearjax.train import loop, metrics, search, search_spaces
from wearjax.train.config import LoopConfig
from wearjax.train.early_stopping import Best

# Validation losses as the runs below are made to see them, by step.
SEEN = {1: 3.0, 2: 1.0, 3: 2.0, 4: 1.0, 5: 1.5, 6: 0.5, 7: 9.0}


def seeing(monkeypatch, losses=SEEN, kill_at=None):
    """Makes validations find these losses; `kill_at` fails like a killed process in the middle of one."""
    validate = loop._validate

    def found(run, state):
        step = int(state.step)
        if step == kill_at:
            raise SystemExit
        return validate(run, state) | {"loss": losses[step]}

    monkeypatch.setattr(loop, "_validate", found)


def run(store, out, *, console=None, task=None, max_seconds=None, **settings):
    chosen = {"steps": 7, "validate_every": 1, "checkpoint_every": 4, "patience": 3, "log_every": 1}
    return loop.pretrain(
        toy.config(**chosen | settings), data_dir=store, out=out, bundles=toy.Bundles,
        task=task or toy.task(), console=console or toy.plain_console(), max_seconds=max_seconds,
    )  # fmt: skip


def weights(folder):
    return (folder / "bundle" / "weights.npz").read_bytes()


@pytest.fixture(scope="module")
def stopped(store, tmp_path_factory):
    """A run that ended early, and what it said."""
    out, console = tmp_path_factory.mktemp("runs") / "stopped", toy.plain_console()
    with pytest.MonkeyPatch.context() as patch:
        seeing(patch)
        return run(store, out, console=console), toy.said(console)


def test_training_ends_after_so_many_validations_without_a_lower_loss(stopped, store, tmp_path, monkeypatch):
    result, said = stopped
    assert (result.step, result.finished) == (5, True)  # best at 2; an equal loss is no improvement
    assert "stopped at step 5: no better validation than at step 2" in said
    assert "(best of validation, step 2)" in said
    assert [r["step"] for r in metrics.read_jsonl(result.run_dir / "metrics.jsonl") if r["split"] == "train"] == [
        1, 2, 3, 4, 5
    ]  # fmt: skip
    shorter = run(store, tmp_path / "two", patience=None, max_seconds=0)  # the same schedule, one step a call
    seeing(monkeypatch)
    run(store, shorter.run_dir, patience=None, max_seconds=0)
    assert weights(shorter.run_dir) == weights(result.run_dir)


def test_a_run_that_ended_early_is_finished(stopped, store):
    console = toy.plain_console()
    again = run(store, stopped[0].run_dir, console=console)
    assert again == stopped[0]
    assert "run is finished (5 steps)" in toy.said(console)


@pytest.mark.parametrize("kill_at", [1, 3, 5])
def test_killed_and_resumed_is_the_same_to_the_bit(stopped, store, tmp_path, monkeypatch, kill_at):
    out = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        seeing(patch, kill_at=kill_at)
        with pytest.raises(SystemExit):
            run(store, out, checkpoint_every=2)
    seeing(monkeypatch)
    console = toy.plain_console()
    result = run(store, out, checkpoint_every=2, console=console)
    assert ("resuming from step" in toy.said(console)) == (kill_at > 1)
    assert (result.step, result.finished) == (5, True)
    assert weights(out) == weights(stopped[0].run_dir)


def test_killed_between_the_end_and_the_bundle(stopped, store, tmp_path, monkeypatch):
    out = tmp_path / "run"
    seeing(monkeypatch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_write_bundle", lambda *_: (_ for _ in ()).throw(SystemExit))
        with pytest.raises(SystemExit):
            run(store, out)
    result = run(store, out)
    assert (result.step, result.finished) == (5, True)
    assert weights(out) == weights(stopped[0].run_dir)


def test_a_run_that_goes_to_its_end_has_the_best_parameters_too(stopped, store, tmp_path, monkeypatch):
    seeing(monkeypatch, SEEN | {6: 5.0})
    result = run(store, tmp_path / "run", patience=9)
    assert (result.step, result.finished) == (7, True)
    assert weights(tmp_path / "run") == weights(stopped[0].run_dir)


def test_without_patience_the_last_parameters_count(stopped, store, tmp_path, monkeypatch):
    seeing(monkeypatch)
    result = run(store, tmp_path / "run", patience=None)
    assert (result.step, result.finished) == (7, True)
    assert weights(tmp_path / "run") != weights(stopped[0].run_dir)


def test_best_parameters_are_found_under_pmap_too(stopped, store, tmp_path, monkeypatch):
    seeing(monkeypatch)
    task = dataclasses.replace(toy.task(), objective=lambda stats, axis_name=None: toy.objective)
    run(store, tmp_path / "run", strategy="pmap", task=task)
    with (
        np.load(tmp_path / "run/bundle/weights.npz") as found,
        np.load(stopped[0].bundle_path / "weights.npz") as b,
    ):
        for name in b.files:
            np.testing.assert_allclose(found[name], b[name], atol=1e-6)


def test_a_loss_that_is_not_finite_is_no_improvement():
    best = Best(2)
    params = nnx.State({"a": nnx.Param(jnp.ones(2))})
    for step, loss in ((1, math.nan), (2, 1.0), (3, math.nan), (4, math.inf)):
        best.see(step, loss, params)
    assert (best.step, best.misses, best.exhausted) == (2, 2, True)
    assert Best(None).exhausted is False


def test_progress_is_what_goes_on():
    best, again = Best(3), Best(3)
    again.resume(best.progress(), None)
    assert (again.step, again.loss, again.misses) == (None, math.inf, 0)
    params = nnx.State({"a": nnx.Param(jnp.ones(2))})
    best.see(1, 2.0, params)
    best.see(2, 3.0, params)
    again.resume(best.progress(), best.params)
    again.see(3, 1.9, params)
    assert (again.step, again.loss, again.misses) == (3, 1.9, 0)


def test_a_signal_saves_the_best_parameters(stopped, store, tmp_path, monkeypatch):
    seeing(monkeypatch)
    validate = loop._validate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            loop, "_validate", lambda *given: (signal.raise_signal(signal.SIGTERM), validate(*given))[1]
        )
        for step in (2, 4):  # the one after that in which the signal came
            with pytest.raises(KeyboardInterrupt):
                run(store, tmp_path / "run", checkpoint_every=100)
            assert any(p.name == str(step) for p in (tmp_path / "run/checkpoints").iterdir())
    assert run(store, tmp_path / "run", checkpoint_every=100).step == 5
    assert weights(tmp_path / "run") == weights(stopped[0].run_dir)


def test_validations_by_epochs():
    every = LoopConfig(epochs=5, validate_epochs=1.0).validation_interval
    assert every(train_examples=640, batch_size=64) == 10
    assert every(train_examples=30, batch_size=64) == 1
    assert (
        LoopConfig(epochs=5, validate_epochs=0.5).validation_interval(train_examples=640, batch_size=64) == 5
    )
    both = LoopConfig(epochs=5, validate_epochs=0.5, validate_every=7)
    assert both.validation_interval(train_examples=640, batch_size=64) == 7
    assert LoopConfig(epochs=5).validation_interval(train_examples=640, batch_size=64) is None


def test_patience_needs_validations(store, tmp_path):
    with pytest.raises(ConfigError, match=r"loop.patience: counts validations; set loop.validate_every or"):
        LoopConfig(steps=5, patience=2)
    with pytest.raises(ConfigError, match=r"loop.patience: must be at least 1, got 0"):
        LoopConfig(steps=5, patience=0, validate_every=1)
    with pytest.raises(ConfigError, match=r"loop.validate_epochs: must be positive, got 0"):
        LoopConfig(steps=5, validate_epochs=0.0)
    with pytest.raises(
        ConfigError, match=r"loop.patience: counts validations, and there are no validation examples"
    ):
        run(store, tmp_path / "run", validation_examples=0)


def test_trials_of_a_search_are_ended_by_the_search(tmp_path, store):
    space = search_spaces.SearchSpace(
        {"optimizer.learning_rate": search_spaces.LogUniform(1e-4, 1e-2)}, trials=1
    )
    settings = dict(patience=1, validate_every=None, validate_epochs=0.5)
    plan = search._Plan(
        toy.config(**settings), store, tmp_path, space, units=3, examples=24, train=loop.pretrain,
        say=lambda text: None,
    )  # fmt: skip
    chosen = plan.trial_config({}).loop
    assert (chosen.patience, chosen.validate_every, chosen.validate_epochs) == (None, 2, None)
