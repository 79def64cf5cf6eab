"""VitalBench training: windows on the device, what counts in a step, early stopping, resumption, forecasts."""

from __future__ import annotations

import dataclasses
import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import vital_stand_in as made
from flax import nnx

from wearjax.errors import ConfigError, MethodError, StoreError
from wearjax.objectives import vital_forecast
from wearjax.segments import vital_masks, vital_windows
from wearjax.segments.vital_settings import VitalSettings
from wearjax.train import vital_checkpoint, vital_evaluation, vital_steps
from wearjax.train.vitals import VitalModel

NETWORKS = {"alone": made.ALONE, "mixing": made.MIXING, "permuted": made.PERMUTED}


@pytest.fixture(scope="module")
def train():
    return made.cases(4)


@pytest.fixture(scope="module")
def validation():
    return made.cases(3, seed=1)


def weights(model) -> list[np.ndarray]:
    return jax.device_get(jax.tree.leaves((model.params, model.costs)))


def same(a, b) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(weights(a), weights(b), strict=True))


def fitted(network, train, validation, *, folder=None, progress=None, **changes) -> VitalModel:
    model = VitalModel(network, made.training(**changes))
    model.fit(train, validation, folder=folder, progress=progress)
    return model


@pytest.fixture(scope="module")
def trained(train, validation):
    """One run for each kind and track, shared by the tests."""
    return functools.cache(
        lambda kind, incomplete: fitted(NETWORKS[kind], train, validation, incomplete=incomplete)
    )


def test_windows_on_the_device_are_those_of_numpy(train):
    rows = vital_steps.rows_of(train, made.CONTEXT)
    ends, case = train.window_ends(made.HORIZON)
    channels = np.array([4, 0, 2], np.int32)
    scored = np.array([True, True, False])
    x = vital_steps.inputs(rows, ends, channels, made.CONTEXT)
    y, observed = vital_steps.futures(rows, ends, channels, scored, made.HORIZON)
    for i, values in enumerate(made.records(4)):
        at = np.arange(vital_windows.window_count(len(values), made.HORIZON))
        before, after = vital_windows.cut(
            vital_windows.scale(values), at, context=made.CONTEXT, horizon=made.HORIZON
        )
        np.testing.assert_array_equal(x[case == i], before[..., channels])
        np.testing.assert_array_equal(y[case == i][..., 0], after[..., 4])
        np.testing.assert_array_equal(observed[case == i][..., 0], after[..., 4] != 0)
    assert not observed[..., 1].any(), "a covariate is never scored"
    assert not observed[..., 2].any(), "nor a target that is not asked for"
    each = np.tile(channels, (len(ends), 1))
    np.testing.assert_array_equal(vital_steps.inputs(rows, ends, each, made.CONTEXT), x)


@pytest.mark.parametrize("incomplete", [False, True], ids=["complete", "incomplete"])
def test_models_that_treat_channels_alone_are_given_targets_only(incomplete):
    kept = np.array([1, 3, 4]) if incomplete else np.arange(5)
    seen = vital_evaluation.view(kept, 5, 3, mixes=False)
    assert seen.channels.tolist() == [2, 3, 4]
    assert seen.scored.tolist() == [not incomplete, True, True]
    mixed = vital_evaluation.view(kept, 5, 3, mixes=True, n_last=1)
    assert mixed.channels.tolist() == kept.tolist(), "three are half of five already"
    assert mixed.channels[mixed.scored].tolist() == [4]
    few = vital_evaluation.view(np.array([4]), 5, 3, mixes=True)
    assert few.channels.tolist() == [4, vital_steps.ABSENT, vital_steps.ABSENT]
    assert few.scored.tolist() == [True, False, False]
    many = vital_evaluation.view(np.array([3, 1, 4, 0]), 5, 3, mixes=True)
    assert many.channels.tolist() == [3, 1, 4, 0, vital_steps.ABSENT]
    assert (few.kept, many.kept) == (1, 4)


@pytest.mark.parametrize("kind", ["alone", "permuted"])
@pytest.mark.parametrize("incomplete", [False, True], ids=["complete", "incomplete"])
def test_training_lowers_the_loss_and_compiles_once(kind, incomplete, trained):
    model = trained(kind, incomplete)
    losses = [measured["validation"] for measured in model.history]
    assert min(losses[1:]) < losses[0]
    assert model.record["batches_per_epoch"] % 2 == 1, "an epoch ends with a call that is not full"
    draws = vital_masks.of_batches(2, 3, 0, model.record["batches_per_epoch"] * len(losses))
    assert {len(kept) for kept in draws} == {1, 2, 3}, "different numbers, all of them at most half of five"
    assert model.steps.train._cache_size() == 1
    assert model.record["best_epoch"] == 1 + int(np.argmin(losses))


def test_steps_in_one_call_equal_single_steps(train, validation):
    several = fitted(made.ALONE, train, validation, incomplete=True, epochs=1, steps_per_call=3)
    single = fitted(made.ALONE, train, validation, incomplete=True, epochs=1, steps_per_call=1)
    for a, b in zip(weights(several), weights(single), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_channels_that_were_dropped_reach_nothing(train, validation):
    """A model that treats channels alone learns the same whatever stands in the others, and in entries not observed."""
    steps = VitalModel(made.ALONE, made.training()).steps
    params = VitalModel(made.ALONE, made.training()).params
    seen = vital_evaluation.view(np.array([0, 3]), 5, 3, mixes=False)
    noisy = dataclasses.replace(train, values=train.values.copy(), targets=train.targets.copy())
    noisy.values[:, [0, 1, 2, 4]], noisy.targets[:, [0, 2]] = 7, np.nan
    noisy.targets[~train.observed] = np.nan
    ends, _ = train.window_ends(made.HORIZON)
    results = []
    for cases in (train, noisy):
        state = steps.start(params, 5)
        state, (loss, _) = steps.train(
            state, vital_steps.rows_of(cases, made.CONTEXT), ends[None, :16], seen.channels[None],
            seen.scored[None], np.int32(1), np.float32(1e-2), jax.random.key(0),
        )  # fmt: skip
        results.append((loss, state.params))
    for a, b in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(a, b)


def validation_by_hand(model, cases, views, batch_size):
    found = []
    for i, seen in enumerate(views):
        n = int(cases.windows_of(made.HORIZON)[i])
        size = min(batch_size, n)
        used = n // size * size
        guess = model.predict(cases, i, seen)[:used]
        y, observed = cases.future(i, made.HORIZON)
        targets = np.sort(seen.channels[seen.scored]) - 2
        y, observed = y[:used][..., targets], observed[:used][..., targets]
        error = np.where(observed, guess - y, 0).astype(np.float64)
        over = observed.sum() if model.steps.reduction == "observed" else observed.size
        if observed.any():
            found.append((error**2).sum() / over)
    return np.mean(found)


@pytest.mark.parametrize(("kind", "incomplete"), [("alone", True), ("mixing", True), ("permuted", False)])
def test_validation_loss_is_the_mean_over_cases_of_whole_batches(kind, incomplete, validation):
    model = VitalModel(NETWORKS[kind], made.training(incomplete=incomplete, batch_size=8))
    views = model.views(validation)
    loss = vital_evaluation.validation_loss(
        model.steps, model.params, model.rows(validation), validation, views, 8
    )
    assert loss == pytest.approx(validation_by_hand(model, validation, views, 8), rel=1e-5)


def test_forecasts_come_in_ascending_order_whatever_order_the_model_processes(trained, validation):
    model = trained("permuted", False)
    solved = model.views(validation)
    assert solved[0].channels.tolist() == [4, 3, 2, 1, 0]
    for case, seen, found in model.forecasts(validation, views=solved):
        x, _ = vital_windows.cut(
            validation.values[validation.offsets[case] : validation.offsets[case + 1]],
            np.arange(validation.windows_of(made.HORIZON)[case]), context=made.CONTEXT, horizon=made.HORIZON,
        )  # fmt: skip
        direct = model.steps.call(nnx.merge(model.steps.graph, model.params), x[..., ::-1].copy(), None)
        np.testing.assert_allclose(found, np.asarray(direct)[..., ::-1][..., 2:], rtol=1e-5, atol=1e-6)
        assert seen is solved[case]


def test_order_costs_are_of_the_best_epoch(trained):
    model = trained("permuted", False)
    steps = model.record["batches_per_epoch"] * model.record["best_epoch"]
    assert float(model.costs.counts.sum()) == steps * 16 * 5
    np.testing.assert_allclose(model.costs.costs.sum(), 0, atol=1e-3)
    assert trained("alone", False).costs is None


def test_channel_order_can_be_that_of_the_table(validation):
    settings = VitalSettings(channel_order="identity")
    model = VitalModel(made.PERMUTED, made.training(settings=settings))
    views = model.views(validation, costs=vital_forecast.no_costs(5))
    assert views[0].channels.tolist() == [0, 1, 2, 3, 4]
    solved = VitalModel(made.PERMUTED, made.training())
    costs = vital_forecast.no_costs(5)
    one = vital_forecast.OrderCosts(costs.costs.at[0, 0].set(9.0), costs.counts + 1)
    assert solved.views(validation, costs=one)[0].channels.tolist() != [0, 1, 2, 3, 4]
    views = solved.views(validation, costs=one, channel_order="identity")  # as scores across centres
    assert views[0].channels.tolist() == [0, 1, 2, 3, 4]


def test_permutations_are_uniform():
    orders = np.asarray(vital_steps.permutations(jax.random.key(0), 6000, 5, 3))
    assert (orders[:, 3:] == [3, 4]).all(), "what fills up stays behind"
    orders = orders[:, :3]
    assert (np.sort(orders, axis=1) == np.arange(3)).all()
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6
    assert abs(counts - 1000).max() < 150


def test_released_code_scores_the_last_targets_only(train, validation):
    settings = VitalSettings(faithful_track1=True)
    model = fitted(made.MIXING, train, validation, epochs=1, settings=settings)
    k = vital_masks.last_targets_of_training(2, 3)
    assert model.record["targets_trained_on"] == k < 3
    views = model.views(validation)
    assert [int(v.scored.sum()) for v in views] == vital_masks.last_targets_of_cases(2, 3, 3).tolist()
    assert all(len(v.channels) == 5 for v in views)


def run_of(losses: list[float]) -> vital_checkpoint.Run:
    run = vital_checkpoint.Run(None, 0, None, [])
    for i, loss in enumerate(losses):
        state = vital_steps.TrainState(np.float32(i + 1), None, 0, None)
        run = run.after(state, {"validation": loss})
    return run


@pytest.mark.parametrize(
    ("losses", "best", "finished"),
    [
        ([3.0, 2.0, 2.5, 2.5], 2, False),
        ([3.0, 2.0, 2.5, 2.5, 2.1], 2, True),
        ([3.0, 2.0, 2.5, 2.5, 2.0], 5, False),  # a tie counts as better and starts the patience anew
        ([1.0] * 10, 10, True),
    ],
)
def test_patience(losses, best, finished):
    run = run_of(losses)
    assert run.best_epoch == best == int(run.best_params)
    assert run.finished(made.training(epochs=10)) is finished


def test_learning_rate_by_epoch():
    rates = [made.training().rate(epoch) for epoch in (1, 2, 3, 4)]
    assert rates == [1e-2, 1e-2, 5e-3, 2.5e-3]


def test_a_small_split_makes_one_batch(train, validation):
    model = fitted(made.ALONE, train, validation, epochs=1, batch_size=512)
    assert (model.record["batch_size"], model.record["batches_per_epoch"]) == (model.record["windows"], 1)


def test_another_seed_other_weights(trained, train, validation):
    other = fitted(made.ALONE, train, validation, settings=VitalSettings(seed=1), epochs=1)
    assert not same(trained("alone", False), other)


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import vital_stand_in as made
from flax import nnx
from wearjax.train.vitals import VitalModel
model = VitalModel(made.PERMUTED, made.training(incomplete=True))
train, validation = made.cases(4), made.cases(3, seed=1)
per_epoch = int(train.windows_of(made.HORIZON).sum()) // 16
def kill(done, total):
    if done > 2 * per_epoch:
        os.kill(os.getpid(), signal.SIGKILL)
model.fit(train, validation, folder=Path(sys.argv[2]), progress=kill)
"""


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path, trained, train, validation):
    here = str(Path(__file__).parent)
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "8"}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, here, str(tmp_path)], env=environment, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    calls = []
    resumed = fitted(
        made.PERMUTED, train, validation, incomplete=True, folder=tmp_path,
        progress=lambda done, total: calls.append(done),
    )  # fmt: skip
    assert calls[0] == 2 * resumed.record["batches_per_epoch"] + 2, "two epochs were done"
    straight = trained("permuted", True)
    assert same(resumed, straight)
    assert (resumed.history, resumed.record) == (straight.history, straight.record)
    again = fitted(made.PERMUTED, train, validation, incomplete=True, folder=tmp_path, progress=pytest.fail)
    assert same(again, straight), "a finished run is read"
    with pytest.raises(StoreError, match="other settings"):
        fitted(made.PERMUTED, train, validation, incomplete=True, folder=tmp_path, learning_rate=1e-3)


def test_weights_round_trip(tmp_path, trained):
    model = trained("permuted", False)
    model.save(tmp_path / "weights.npz")
    fresh = VitalModel(made.PERMUTED, made.training())
    fresh.load(tmp_path / "weights.npz")
    assert same(model, fresh)
    assert (fresh.history, fresh.record) == (model.history, model.record)
    with pytest.raises(StoreError, match="holds a permuted of other sizes, expected a alone"):
        VitalModel(made.ALONE, made.training()).load(tmp_path / "weights.npz")
    (tmp_path / "weights.npz").write_bytes(b"PK broken")
    with pytest.raises(StoreError, match=r"weights\.npz"):
        fresh.load(tmp_path / "weights.npz")


def test_bad_input_is_named(train, validation):
    with pytest.raises(ConfigError, match="fixed number of channels"):
        VitalModel(dataclasses.replace(made.ALONE, flexible=False), made.training(incomplete=True))
    with pytest.raises(ConfigError, match="longer than"):
        VitalModel(made.ALONE, made.training(horizon=100)).fit(train, validation)
    with pytest.raises(MethodError, match=r"epoch 1.*not finite"):
        fitted(made.ALONE, train, validation, learning_rate=1e30, epochs=1)
    blind = dataclasses.replace(validation, observed=np.zeros_like(validation.observed))
    with pytest.raises(MethodError, match="validation loss"):
        fitted(made.ALONE, train, blind, epochs=1)
    with pytest.raises(ConfigError, match="batch_size"):
        made.training(batch_size=0)
