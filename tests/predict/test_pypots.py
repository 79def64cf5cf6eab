"""The PyPOTS bridge: training on a store, resuming, folders, and the imputer contract."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import shutil
import sys

import numpy as np
import pytest
import torch
from made_days import made_day

from wearjax.batches.examples import DayExamples
from wearjax.channels import BINARY, MINUTES_PER_DAY
from wearjax.convert import pypots_release
from wearjax.days import normalization
from wearjax.days.normalization import NormalizationStats
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import CheckpointError, ConfigError, MethodError, WearjaxError
from wearjax.predict import protocols
from wearjax.predict.imputers import (
    pypots,
    pypots_data,
    pypots_library,
    pypots_models,
    pypots_training,
)
from wearjax.predict.imputers.pypots_models import (
    BRITSSettings,
    DLinearSettings,
    FEDformerSettings,
    TimesNetSettings,
    TrainingSettings,
)
from wearjax.segments import masks

STEPS = 24
SMALL = {
    "brits": BRITSSettings(n_steps=STEPS, rnn_hidden_size=4),
    "dlinear": DLinearSettings(n_steps=STEPS, moving_avg_window_size=7, d_model=4),
    "fedformer": FEDformerSettings(
        n_steps=STEPS, n_layers=1, d_model=16, d_ffn=8, moving_avg_window_size=5, modes=6
    ),
    "timesnet": TimesNetSettings(n_steps=STEPS, n_layers=1, top_k=2, d_model=4, d_ffn=4, n_kernels=2),
}
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, 50.0, 0.0), np.where(np.arange(19) < 7, np.linspace(1, 4, 19), 1.0)
)
QUICK = TrainingSettings(epochs=2, batch_size=50, learning_rate=1e-2, max_days=2, seed=5)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """On a busy machine PyTorch's threads wait for each other far longer than such small products take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("pypots") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        for participant in ("a", "b", "c"):
            writer.add(made_day(participant, 0))
    (path / "splits.json").write_text(json.dumps({"train": ["a", "b"], "validation": ["c"], "test": []}))
    return path


@pytest.fixture(scope="module", params=sorted(SMALL))
def trained(request, store, tmp_path_factory):
    """Folder and imputer of two epochs."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    settings = SMALL[request.param]
    return folder, pypots_training.train(settings, data_dir=store, out=folder, training=QUICK)


def made(n: int = 1, time: int = MINUTES_PER_DAY, seed: int = 0):
    """Days in stored units, where they were measured, and cells to fill, whose values are still there."""
    rng = np.random.default_rng(seed)
    data = rng.normal(50, 3, (n, 19, time)).astype(np.float32)
    data[:, list(BINARY)] = rng.random((n, len(BINARY), time)) < 0.4
    observed = np.ones(data.shape, bool)
    observed[:, 3, : time // 3] = False
    observed[:, 11] = False
    data[~observed] = np.nan
    target = np.zeros(data.shape, bool)
    target[:, :, time // 4 : time // 2] = rng.random((n, 19, time // 2 - time // 4)) < 0.5
    return data, observed, target & observed


def weights(imputer):
    return {name: tensor.numpy() for name, tensor in imputer.model.model.state_dict().items()}


def assert_same_weights(first, second):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_published_settings():
    for kind in SMALL:
        settings, training = pypots_models.published(kind)
        assert settings.n_steps == 1440
        assert training.patience == 10
    dlinear, training = pypots_models.published("dlinear", n_days=7)
    assert (dlinear.n_steps, dlinear.d_model, dlinear.moving_avg_window_size) == (10080, 256, 51)
    assert (dlinear.ORT_weight, dlinear.MIT_weight, training.learning_rate) == (1.0, 1.0, 1e-2)
    fedformer, training = pypots_models.published("fedformer")
    assert (fedformer.d_model, fedformer.n_heads, fedformer.d_ffn, fedformer.modes) == (512, 8, 128, 32)
    assert (training.epochs, training.batch_size, training.learning_rate) == (50, 128, 2e-3)
    timesnet, _ = pypots_models.published("timesnet")
    assert (timesnet.top_k, timesnet.d_model, timesnet.d_ffn, timesnet.n_kernels, timesnet.dropout) == (
        5, 128, 512, 6, 0.4,
    )  # fmt: skip
    brits, training = pypots_models.published("brits")
    assert (brits.rnn_hidden_size, training.clip_norm, training.batch_size) == (128, 1.0, 32)


def test_training_leaves_a_loadable_imputer(trained):
    folder, imputer = trained
    manifest = json.loads((folder / "openmhc_manifest.json").read_text())
    assert manifest["kind"] == imputer.name
    assert [epoch["train_loss"] > 0 for epoch in manifest["wearjax"]["history"]] == [True, True]
    assert manifest["wearjax"]["epoch"] == 2
    assert manifest["wearjax"]["train_days"] == 2
    data, observed, target = made(2)
    wanted = imputer.impute(data, observed, target)
    notes: list[str] = []
    loaded = pypots.PyPOTSImputer.load(folder, batch_size=50, note=notes.append)
    assert notes == []
    assert loaded.settings == imputer.settings
    assert_same_weights(weights(loaded), weights(imputer))
    np.testing.assert_array_equal(loaded.impute(data, observed, target), wanted)
    again = pypots.PyPOTSImputer.load(loaded.save(folder.parent / "again"), batch_size=50)
    np.testing.assert_array_equal(again.impute(data, observed, target), wanted)
    with pytest.raises(CheckpointError, match="it is not overwritten"):
        loaded.save(folder)


def test_only_targets_are_written_and_nothing_under_them_is_read(trained):
    _, imputer = trained
    data, observed, target = made()
    given = [array.copy() for array in (data, observed, target)]
    out = protocols.call_impute(imputer, data, observed, target)
    np.testing.assert_array_equal(out[~target], data[~target])
    assert np.isfinite(out[target]).all()
    assert np.std(out[target]) > 0
    for array, before in zip((data, observed, target), given, strict=True):
        np.testing.assert_array_equal(array, before)
    for left in (np.nan, 1e6):
        other = np.where(target | ~observed, np.float32(left), data)
        np.testing.assert_array_equal(imputer.impute(other, observed, target)[target], out[target])
    # A cell that is observed and no target is read: it is not hidden once more.
    first = MINUTES_PER_DAY * 3 // 8 // STEPS * STEPS  # a series full of targets
    for seed in range(3):
        changed = data.copy()
        rng = np.random.default_rng(seed)
        minute = rng.choice(np.flatnonzero((observed & ~target)[0, 0, first : first + STEPS]))
        changed[0, 0, first + minute] += 30
        assert not np.array_equal(imputer.impute(changed, observed, target)[target], out[target])


def test_a_day_without_measurements_is_filled(trained):
    _, imputer = trained
    data = np.full((1, 19, MINUTES_PER_DAY), np.nan, np.float32)
    out = imputer.impute(data, np.zeros(data.shape, bool), np.ones(data.shape, bool))
    assert np.isfinite(out).all()


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_the_output_is_that_of_pypots(kind, tmp_path):
    """A file that PyPOTS saved, with a manifest as published, against PyPOTS's own `impute` on the same series."""
    settings = SMALL[kind]
    theirs = pypots_models.build(settings)
    theirs.save(str(tmp_path / "theirs.pypots"))
    (tmp_path / "normalization_stats.json").write_text(STATS.to_json())
    manifest = {
        "spec_version": 2,
        "kind": kind,
        "checkpoint": "theirs.pypots",
        "normalization_stats": "normalization_stats.json",
        "fourier_modes": {"block": modes}
        if (modes := pypots_models.fourier_modes_of(settings, 42))
        else None,
        "arch": {"n_features": 19, **dataclasses.asdict(settings)},
        "provenance": {},
    }
    (tmp_path / "openmhc_manifest.json").write_text(json.dumps(manifest))
    imputer = pypots.PyPOTSImputer.load(tmp_path)
    data, observed, target = made(3, STEPS)
    series = np.where(target | ~observed, np.nan, data)
    scaled = normalization.normalize(series, STATS).swapaxes(1, 2)
    found = normalization.denormalize(theirs.impute({"X": scaled}).swapaxes(1, 2), STATS)
    out = imputer.impute(data, observed, target)
    np.testing.assert_allclose(out[target], found[target], rtol=1e-5, atol=1e-5)
    assert out[:, list(BINARY)][target[:, list(BINARY)]].min() < 0 or kind != "dlinear"  # flags are not cut


def test_resuming_equals_one_run(trained, store, tmp_path):
    """Weights, best weights and history of 1 + 1 epochs are those of 2, dropout included."""
    folder, imputer = trained
    settings = imputer.settings
    out = tmp_path / "run"
    pypots_training.train(settings, data_dir=store, out=out, training=dataclasses.replace(QUICK, epochs=1))
    said: list[str] = []
    resumed = pypots_training.train(settings, data_dir=store, out=out, training=QUICK, say=said.append)
    assert any("going on after epoch 1" in line for line in said)
    assert_same_weights(weights(resumed), weights(imputer))
    first, second = (torch.load(f / "training.pt", weights_only=True) for f in (folder, out))
    assert first["progress"] == second["progress"]
    for part in ("model", "best"):
        for name, tensor in first[part].items():
            assert torch.equal(tensor, second[part][name]), name
    data, observed, target = made(1)
    wanted = imputer.impute(data, observed, target)
    loaded = pypots.PyPOTSImputer.load(out, batch_size=50)
    np.testing.assert_array_equal(loaded.impute(data, observed, target), wanted)


def test_a_killed_epoch_is_run_again(store, tmp_path):
    settings = SMALL["dlinear"]
    training = dataclasses.replace(QUICK, epochs=3)
    whole = pypots_training.train(settings, data_dir=store, out=tmp_path / "whole", training=training)
    batches = pypots_data.training_batches

    def dies(*args, epoch, **kwargs):
        for number, batch in enumerate(batches(*args, epoch=epoch, **kwargs)):
            if epoch == 1 and number == 1:
                raise KeyboardInterrupt
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pypots_data, "training_batches", dies)
        with pytest.raises(KeyboardInterrupt):
            pypots_training.train(settings, data_dir=store, out=tmp_path / "killed", training=training)
    finished: list[tuple[int, int]] = []
    resumed = pypots_training.train(
        settings, data_dir=store, out=tmp_path / "killed", training=training,
        progress=lambda done, total: finished.append((done, total)),
    )  # fmt: skip
    assert finished == [(2, 3), (3, 3)]
    assert_same_weights(weights(resumed), weights(whole))
    # A finished run trains no more.
    shutil.copytree(tmp_path / "killed", tmp_path / "copy")
    again = pypots_training.train(settings, data_dir=store, out=tmp_path / "copy", training=training)
    assert_same_weights(weights(again), weights(whole))


def test_the_loop_is_that_of_pypots(store):
    """PyPOTS's own `fit` on the same series, one batch an epoch so that order does not matter."""
    settings = SMALL["brits"]
    training = dataclasses.replace(QUICK, epochs=3, batch_size=64, max_days=1)
    days = DayStore(store)
    stats = normalization.fit(days, [0])
    train, validation = (
        pypots_data.Series(
            DayExamples(days, np.asarray([index])), stats, n_steps=STEPS, minutes=MINUTES_PER_DAY
        )
        for index in (0, 2)
    )
    theirs, ours = (pypots_models.build(settings, training=training) for _ in range(2))
    ((values, hidden),) = pypots_data.validation_batches(validation, batch_size=64)
    theirs.fit(
        {"X": train.read(np.arange(len(train)))}, {"X": np.where(hidden, np.nan, values), "X_ori": values}
    )
    run = pypots_training._Run(
        ours, settings, training, train, validation, "cpu", pypots_training.Progress(None), {}
    )
    errors = []
    for epoch in range(3):
        run.progress.epoch = epoch
        pypots_training._train_epoch(torch, run)
        errors.append(pypots_training._validate(torch, run))
    assert min(errors) == errors[-1]  # the best epoch is the last, whose weights both hold
    np.testing.assert_allclose(theirs.best_loss, errors[-1], rtol=1e-5)
    for name, tensor in theirs.model.state_dict().items():
        np.testing.assert_allclose(
            tensor.numpy(), ours.model.state_dict()[name].numpy(), atol=2e-5, err_msg=name
        )


def test_patience_ends_training_and_keeps_the_best(store, tmp_path, monkeypatch):
    errors = iter([0.5, 0.3, 0.4, 0.35, 0.2])
    monkeypatch.setattr(pypots_training, "_validate", lambda *_: next(errors))
    training = dataclasses.replace(QUICK, epochs=9, patience=2, max_days=1)
    kept = []
    save = pypots_training._save
    monkeypatch.setattr(
        pypots_training,
        "_save",
        lambda torch_, run, *rest: (kept.append(weights(run)), save(torch_, run, *rest)),
    )
    out = tmp_path / "run"
    imputer = pypots_training.train(SMALL["dlinear"], data_dir=store, out=out, training=training)
    assert len(kept) == 4
    assert_same_weights(weights(imputer), kept[1])
    assert_same_weights(weights(pypots.PyPOTSImputer.load(out)), kept[1])
    facts = json.loads((out / "openmhc_manifest.json").read_text())["wearjax"]
    assert (facts["epoch"], facts["best_epoch"], facts["best_loss"], facts["patience_left"]) == (4, 2, 0.3, 0)
    pypots_training.train(SMALL["dlinear"], data_dir=store, out=out, training=training)  # has ended
    assert len(kept) == 4


def test_clipping_bounds_a_step(store, tmp_path):
    """With plain gradients replaced by their clipped ones the first step of Adam stays, the second differs."""
    training = dataclasses.replace(QUICK, epochs=1, max_days=1, clip_norm=1e-4)
    clipped = pypots_training.train(SMALL["dlinear"], data_dir=store, out=tmp_path / "c", training=training)
    seen = []
    step = torch.nn.utils.clip_grad_norm_
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            torch.nn.utils, "clip_grad_norm_",
            lambda parameters, most: seen.append((most, step(parameters := list(parameters), most))),
        )  # fmt: skip
        pypots_training.train(SMALL["dlinear"], data_dir=store, out=tmp_path / "d", training=training)
    assert {most for most, _ in seen} == {1e-4}
    assert all(norm > 1e-4 for _, norm in seen)
    free = pypots_training.train(
        SMALL["dlinear"],
        data_dir=store,
        out=tmp_path / "e",
        training=dataclasses.replace(training, clip_norm=None),
    )
    assert any(not np.array_equal(a, weights(free)[name]) for name, a in weights(clipped).items())


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_nothing_missing_makes_a_loss_nan(kind):
    """Channels and whole series without a measurement: finite loss and gradients, in training and validation."""
    settings = SMALL[kind]
    values = np.random.default_rng(0).normal(0, 1, (3, STEPS, 19)).astype(np.float32)
    values[:, :, [2, 9]] = np.nan
    values[1] = np.nan
    for given in (values, np.full_like(values, np.nan)):
        hidden = ~np.isnan(given) & (np.arange(STEPS)[:, None] % 3 == 0)
        model = pypots_models.build(settings)
        inputs = pypots_data.inputs(settings, given, hidden, device="cpu")
        model.model.train()
        loss = model.model(inputs, calc_criterion=True)["loss"]
        loss.backward()
        assert torch.isfinite(loss)
        for name, parameter in model.model.named_parameters():
            if parameter.grad is not None:
                grad = torch.view_as_real(parameter.grad) if parameter.is_complex() else parameter.grad
                assert torch.isfinite(grad).all(), name
        model.model.eval()
        assert torch.isfinite(model.model(inputs, calc_criterion=True)["metric"])


def test_a_loss_that_is_not_finite_stops_training(store, tmp_path):
    training = dataclasses.replace(QUICK, epochs=5, learning_rate=1e30)
    with pytest.raises(WearjaxError, match=r"DLinear: the \w+ of a batch of epoch \d is not finite"):
        pypots_training.train(SMALL["dlinear"], data_dir=store, out=tmp_path / "run", training=training)


class Rows:
    """Examples with known values: the day's number in every cell, NaN in every seventh minute."""

    def __len__(self):
        return 4

    def read(self, items, positions):
        values = np.zeros((len(items), 19, 120), np.float32) + np.asarray(items)[:, None, None] * 120
        values += np.arange(120)
        values[:, :, ::7] = np.nan
        return {"values": values}


def test_series_are_pieces_of_the_examples():
    series = pypots_data.Series(Rows(), NormalizationStats.identity(), n_steps=30, minutes=120)
    assert len(series) == 16
    found = series.read(np.asarray([0, 5, 15]))
    assert found.shape == (3, 30, 19)
    for row, first in zip(found, (0, 150, 450), strict=True):
        wanted = first + np.arange(30.0)
        wanted[(wanted % 120) % 7 == 0] = np.nan
        np.testing.assert_array_equal(row[:, 3], wanted.astype(np.float32))
    assert np.nanmax(np.abs(pypots_data.time_first(np.full((1, 19, 2), 50, np.float32), STATS)[..., :7])) == 0


def test_training_batches_cover_a_pass_and_follow_from_the_seed():
    series = pypots_data.Series(Rows(), NormalizationStats.identity(), n_steps=30, minutes=120)

    def passes(kind, epoch, seed=1):
        return list(pypots_data.training_batches(series, SMALL[kind], epoch=epoch, batch_size=5, seed=seed))

    first = passes("dlinear", 0)
    assert [len(values) for values, _ in first] == [5, 5, 5, 1]
    minimum = np.sort(np.concatenate([np.nanmin(values, axis=(1, 2)) for values, _ in first]))
    assert len(set(minimum)) == 16
    hidden = np.concatenate([mask for _, mask in first])
    observed = np.concatenate([~np.isnan(values) for values, _ in first])
    assert not (hidden & ~observed).any()
    assert abs(hidden.sum() / observed.sum() - 0.2) < 0.02
    for (values, mask), (values2, mask2) in zip(first, passes("dlinear", 0), strict=True):
        np.testing.assert_array_equal(values, values2)
        np.testing.assert_array_equal(mask, mask2)
    for other in (passes("dlinear", 1), passes("dlinear", 0, seed=2)):
        assert not np.array_equal(first[0][1], other[0][1])
        assert not np.array_equal(first[0][0], other[0][0], equal_nan=True)
    for kind in ("brits", "timesnet"):
        assert not any(mask.any() for _, mask in passes(kind, 0))


def test_validation_hides_the_patches_of_the_published_files():
    series = pypots_data.Series(Rows(), NormalizationStats.identity(), n_steps=120, minutes=120)
    found = [mask for _, mask in pypots_data.validation_batches(series, batch_size=3)]
    assert [len(mask) for mask in found] == [3, 1]
    rng = np.random.default_rng(42)
    for number, mask in enumerate(np.concatenate(found)):
        values = Rows().read([number], None)["values"][0]
        wanted, _ = masks.make_mask(
            "random_noise", values, ~np.isnan(values), rng, patch_size=10, mask_ratio=0.2
        )
        np.testing.assert_array_equal(mask.T, wanted)
    again = [mask for _, mask in pypots_data.validation_batches(series, batch_size=3)]
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(found))


def test_time_gaps_are_those_of_pypots():
    from pypots.data.utils import _parse_delta_torch

    observed = np.random.default_rng(0).random((3, 20, 19)) < 0.4
    wanted = _parse_delta_torch(torch.from_numpy(observed.astype(np.float32)))
    np.testing.assert_array_equal(pypots_data.time_gaps(observed), wanted.numpy())


@pytest.fixture
def fedformer(tmp_path):
    """Folder of a FEDformer whose two layers share the Fourier block, and its answers."""
    settings = dataclasses.replace(SMALL["fedformer"], n_layers=2)
    model = pypots_models.build(settings, training=TrainingSettings(seed=7))
    imputer = pypots.PyPOTSImputer(model, settings, STATS)
    return imputer.save(tmp_path / "model"), imputer


def test_frequencies_travel_beside_the_weights(fedformer):
    folder, imputer = fedformer
    modes = imputer.fourier_modes
    assert len(modes) == 6
    assert modes == sorted(set(modes))
    assert modes == pypots_models.fourier_modes_of(SMALL["fedformer"], 7)
    assert modes != pypots_models.fourier_modes_of(SMALL["fedformer"], 8)
    sidecar = folder / "fourier_modes.json"
    blocks = [f"encoder.encoder.attn_layers.{i}.attention.attention_operator" for i in (0, 1)]
    assert json.loads(sidecar.read_text()) == dict.fromkeys(blocks, modes)
    data, observed, target = made(1)
    wanted = imputer.impute(data, observed, target)
    np.testing.assert_array_equal(pypots.PyPOTSImputer.load(folder).impute(data, observed, target), wanted)
    manifest = json.loads((folder / "openmhc_manifest.json").read_text())
    (folder / "openmhc_manifest.json").write_text(json.dumps(manifest | {"fourier_modes": {"block": modes}}))
    assert pypots.PyPOTSImputer.load(folder).fourier_modes == modes
    (folder / "openmhc_manifest.json").write_text(
        json.dumps(manifest | {"fourier_modes": None, "spec_version": 1})
    )
    with pytest.raises(CheckpointError, match="holds no fourier_modes"):
        pypots.PyPOTSImputer.load(folder)
    other = [m for m in range(STEPS // 2) if m not in modes][:6]
    found = pypots.PyPOTSImputer.load(folder, fourier_modes=other).impute(data, observed, target)
    assert not np.allclose(found[target], wanted[target], rtol=1e-4)
    with pytest.raises(CheckpointError, match="expected 6 whole numbers"):
        pypots.PyPOTSImputer.load(folder, fourier_modes=[1, 2])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2, 3, 4, 5, 6], r"expected \{module path: \[numbers\]\}"),
        ({}, r"expected \{module path: \[numbers\]\}"),
        ({"a": 3}, "a: expected a list of whole numbers"),
        ({"a": [1, True]}, "a: expected a list of whole numbers"),
        ({"a": [1, 2], "b": [1, 3]}, "b and a differ; the layers share one Fourier block"),
    ],
)
def test_frequencies_of_another_form_are_refused(fedformer, content, message):
    folder, _ = fedformer
    (folder / "fourier_modes.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=f"fourier_modes: {message}"):
        pypots.PyPOTSImputer.load(folder)


def test_building_leaves_random_numbers_alone():
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    before = np.random.get_state()[1].copy(), torch.random.get_rng_state()  # noqa: NPY002
    first, second = (pypots_models.build(SMALL["fedformer"]) for _ in range(2))
    np.testing.assert_array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), before[1])
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])


def test_what_a_manifest_lacks_is_told_by_shapes_or_taken_as_published(tmp_path):
    settings = DLinearSettings(n_steps=STEPS, d_model=4)
    imputer = pypots.PyPOTSImputer(pypots_models.build(settings), settings, STATS)
    folder = imputer.save(tmp_path / "model")
    manifest = json.loads((folder / "openmhc_manifest.json").read_text())

    def load(arch, **changes):
        (folder / "openmhc_manifest.json").write_text(json.dumps(manifest | {"arch": arch} | changes))
        notes: list[str] = []
        return pypots.PyPOTSImputer.load(folder, note=notes.append), notes

    found, notes = load({"individual": False})
    assert found.settings == settings
    assert len(notes) == 4  # three settings as published, one left out
    assert any("individual" in note for note in notes)
    for arch, message in (
        ({"d_model": 9}, "arch.d_model is 9, the weights are of 4"),
        ({"ORT_weight": "one"}, "arch.ORT_weight: expected float, got 'one'"),
        ({"n_features": 7}, "days have 19 channels, got 7"),
        ({"moving_avg_window_size": 4}, "must be odd, got 4"),
    ):
        with pytest.raises(CheckpointError, match=message):
            load(arch)
    for change, message in (
        ({"kind": "lsm2"}, "'lsm2' is no PyPOTS imputer"),
        ({"spec_version": 3}, "spec_version 3"),
        ({"checkpoint": "../model.pypots"}, "outside the release folder"),
        ({"checkpoint": "gone.pypots"}, "no such file"),
        ({"arch": [1]}, "arch: expected an object, got list"),
        ({"normalization_stats": "gone.json"}, "normalization_stats"),
        ({"kind": "brits", "arch": {}}, "no entry"),
    ):
        with pytest.raises(CheckpointError, match=message):
            load(**({"arch": manifest["arch"]} | change))
    with pytest.raises(CheckpointError, match=r"openmhc_manifest.json: no such file"):
        pypots.PyPOTSImputer.load(tmp_path)


def test_weights_are_tensors_only(tmp_path):
    settings = SMALL["dlinear"]
    folder = pypots.PyPOTSImputer(pypots_models.build(settings), settings, STATS).save(tmp_path / "model")
    state = torch.load(folder / pypots.WEIGHTS, weights_only=True)["model_state_dict"]
    name = "linear_trend_output.bias"
    for content, message in (
        ({"model_state_dict": state | {name: torch.full((19,), torch.nan)}}, f"{name} holds values that"),
        (
            {"model_state_dict": state | {name: torch.zeros(3)}},
            rf"{name} is torch.float32 \(3,\), the model needs",
        ),
        ({"model_state_dict": {n: t for n, t in state.items() if n != name}}, f"no entry {name}"),
        ({"model_state_dict": {}}, "expected the state dict"),
        (pypots_models.build(settings).model, "not readable as tensors"),  # a pickled module
    ):
        torch.save(content, folder / pypots.WEIGHTS)
        with pytest.raises(CheckpointError, match=message):
            pypots.PyPOTSImputer.load(folder)
    assert pypots_release.KINDS == ("brits", "timesnet", "dlinear", "fedformer")
    assert set(pypots_release.KINDS) == set(pypots_models.MODELS)


def test_a_folder_belongs_to_one_run(store, tmp_path):
    out, settings = tmp_path / "run", SMALL["dlinear"]
    training = dataclasses.replace(QUICK, epochs=1, max_days=1)
    pypots_training.train(settings, data_dir=store, out=out, training=training)
    for other, changed, message in (
        (dataclasses.replace(settings, d_model=5), training, r"settings.d_model 4, now it is 5; pass force"),
        (settings, dataclasses.replace(training, seed=1), r"training.seed 5, now it is 1"),
        (settings, dataclasses.replace(training, max_days=2), r"training.max_days 1, now it is 2"),
    ):
        with pytest.raises(ConfigError, match=message):
            pypots_training.train(other, data_dir=store, out=out, training=changed)
    changed = dataclasses.replace(training, seed=1)
    fresh = pypots_training.train(settings, data_dir=store, out=out, training=changed, force=True)
    assert weights(fresh).keys() == weights(pypots.PyPOTSImputer.load(out)).keys()
    (out / "training.pt").write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="not readable as a training state"):
        pypots_training.train(settings, data_dir=store, out=out, training=changed)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    with pytest.raises(ConfigError, match="holds no PyPOTS training run"):
        pypots_training.train(settings, data_dir=store, out=tmp_path / "mine", training=training, force=True)
    assert (tmp_path / "mine" / "notes.txt").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DLinearSettings(n_steps=1000), "model.n_steps: 1000 neither divides a day"),
        (lambda: DLinearSettings(n_steps=5), "model.n_steps: must be at least 10, got 5"),
        (lambda: DLinearSettings(d_model=0), "model.d_model: must be at least 1, got 0"),
        (lambda: DLinearSettings(moving_avg_window_size=50), "must be odd, got 50"),
        (lambda: TimesNetSettings(dropout=1.0), r"model.dropout: must be in \[0, 1\), got 1.0"),
        (lambda: FEDformerSettings(version="Wavelets"), "expected Fourier, got 'Wavelets'"),
        (lambda: FEDformerSettings(d_model=20), "must divide by 8"),
        (lambda: FEDformerSettings(n_heads=4), "Fourier block has 8, got 4"),
        (lambda: TrainingSettings(patience=0), "training.patience: must be at least 1, got 0"),
        (lambda: TrainingSettings(learning_rate=0.0), "training.learning_rate: must be positive"),
        (lambda: pypots_models.published("saits"), "no PyPOTS imputer 'saits'; known: brits"),
        (lambda: pypots_models.published("brits", n_days=3), "n_days: expected 1 or 7, got 3"),
    ],
)
def test_impossible_settings(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_what_does_not_fit_is_refused():
    settings = SMALL["dlinear"]
    imputer = pypots.PyPOTSImputer(pypots_models.build(settings), settings, STATS)
    data, observed, target = made(1)
    with pytest.raises(MethodError, match=r"expected \(batch, 19, k·24\) values, got \(1, 19, 100\)"):
        imputer.impute(data[..., :100], observed[..., :100], target[..., :100])
    with pytest.raises(MethodError, match="target_mask: expected the shape of the data"):
        imputer.impute(data, observed, target[:, :3])
    with pytest.raises(MethodError, match="batch_size: must be at least 1, got 0"):
        pypots.PyPOTSImputer(imputer.model, settings, STATS, batch_size=0)
    with pytest.raises(MethodError, match="device: expected cpu, cuda or cuda:N, got 'tpu'"):
        pypots_models.build(settings, device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(MethodError, match="device: cuda asked for, but PyTorch sees no CUDA device"):
            pypots_models.build(settings, device="cuda")


def test_seven_days_are_one_series(store, tmp_path):
    """A window is trained on and filled whole; the days that pad it are missing."""
    settings = TimesNetSettings(
        n_steps=7 * MINUTES_PER_DAY, n_layers=1, top_k=1, d_model=2, d_ffn=2, n_kernels=1
    )
    training = dataclasses.replace(QUICK, epochs=1)
    said: list[str] = []
    imputer = pypots_training.train(
        settings, data_dir=store, out=tmp_path / "run", training=training, say=said.append
    )
    assert any("2 series to train, 1 to validate" in line for line in said)
    data, observed, target = made(1, 7 * MINUTES_PER_DAY)
    data[..., : 2 * MINUTES_PER_DAY], observed[..., : 2 * MINUTES_PER_DAY] = np.nan, False
    out = imputer.impute(data, observed, target & observed)
    np.testing.assert_array_equal(out[~(target & observed)], data[~(target & observed)])
    assert np.isfinite(out[target & observed]).all()
    with pytest.raises(MethodError, match=r"k·10080"):
        imputer.impute(*made(1))


def without(monkeypatch, *names):
    """Forgets modules, until the test is over."""
    for module in list(sys.modules):
        if module.split(".")[0] in names:
            monkeypatch.delitem(sys.modules, module)


def test_importing_spares_the_home(tmp_path, monkeypatch, capfd):
    """The part of PyPOTS that makes the folder, imported again with an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    without(monkeypatch, "tsdb")
    with pypots_library._silenced(), pypots_library.quiet(), pypots_library._spared_home():
        found = importlib.import_module("tsdb")
    assert found.CACHED_DATASET_DIR
    assert not any(tmp_path.iterdir())
    assert os.environ["HOME"] == str(tmp_path)
    found.utils.logging.logger.warning("heard")
    out, err = capfd.readouterr()
    assert "configuration file" not in out + err
    without(monkeypatch, "tsdb")
    importlib.import_module("tsdb")  # as it would have been
    assert (tmp_path / ".pypots" / "config.ini").exists()
    without(monkeypatch, "tsdb")
    (tmp_path / ".pypots" / "config.ini").touch()
    with pypots_library._silenced(), pypots_library._spared_home():
        assert os.environ["HOME"] == str(tmp_path)  # a user of PyPOTS keeps the folder


def test_without_pypots_the_extra_is_named(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(pypots_library.importlib, "import_module", missing)
    with pytest.raises(MethodError, match=r"pip install 'wearjax\[pypots\]'"):
        pypots_library.load()
    with pytest.raises(CheckpointError, match=r"pip install 'wearjax\[pypots\]'"):
        pypots_release.torch_module()
