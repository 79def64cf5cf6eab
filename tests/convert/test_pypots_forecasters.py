"""DLinear, SegRNN and MixLinear against PyPOTS's own modules with the same weights: forecasts, losses, gradients."""

from __future__ import annotations

import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

from wearjax.convert import bundle as bundles
from wearjax.convert import pypots_forecast_layout as layout
from wearjax.convert import pypots_forecasters, torch_checkpoint
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError
from wearjax.models import registry
from wearjax.models.dlinear_forecast import DLinearForecastConfig
from wearjax.models.mixlinear import MixLinearConfig
from wearjax.models.segrnn import SegRNNConfig
from wearjax.objectives import forecast
from wearjax.predict.forecasters import loading
from wearjax.predict.imputers import pypots_library

# Class of PyPOTS, its arguments beside the common ones, and our configuration.
CASES = {
    "dlinear_forecast": (
        "DLinear",
        {"n_steps": 48, "n_pred_steps": 24, "moving_avg_window_size": 7, "d_model": 5},
        DLinearForecastConfig(steps=48, horizon=24, window=7, d_model=5),
    ),
    "segrnn": (
        "SegRNN",
        {"n_steps": 48, "n_pred_steps": 24, "seg_len": 12, "d_model": 6, "dropout": 0.1},
        SegRNNConfig(steps=48, horizon=24, d_model=6),
    ),
    # Nothing divides: the segments, their grids and the horizon all have padding.
    "mixlinear": (
        "MixLinear",
        {"n_steps": 50, "n_pred_steps": 22, "period_len": 6, "lpf": 3, "alpha": 0.3, "rank": 2},
        MixLinearConfig(steps=50, horizon=22, frequencies=3, time_share=0.3),
    ),
}
IDENTITY = NormalizationStats(np.zeros(19), np.ones(19), 0.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """On a busy machine PyTorch's threads wait for each other far longer than such small products take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=CASES)
def pair(request):
    """Kind, arguments, a PyPOTS model, and ours with its weights."""
    name, arguments, config = CASES[request.param]
    pypots_library.load()
    from pypots import forecasting
    from pypots.nn.modules.loss import MAE

    with warnings.catch_warnings(), pypots_library.quiet(), pypots_library.seeded(3, device="cpu"):
        warnings.simplefilter("ignore")  # PyTorch calls complex layers experimental
        theirs = getattr(forecasting, name)(
            **arguments, n_features=19, n_pred_features=19, training_loss=MAE(), validation_metric=MAE(),
            device="cpu", verbose=False,
        )  # fmt: skip
    with torch.no_grad():  # maps that start constant or real would hide a transposition
        for parameter in theirs.model.parameters():
            draw = torch.randn(
                parameter.shape, dtype=parameter.dtype, generator=torch.Generator().manual_seed(1)
            )
            parameter.add_(0.1 * draw)
    params = layout.to_flax(request.param, state_of(theirs), horizon=config.horizon)
    return request.param, arguments, theirs, bundles.build(registry.get(request.param), config, params)


def state_of(theirs):
    return {name: tensor.detach().numpy() for name, tensor in theirs.model.state_dict().items()}


def made(config, seed: int = 0, count: int = 3):
    """Windows with gaps, a channel never measured, and a history that begins late."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 1, (count, config.steps + config.horizon, 19)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, :, 4] = np.nan
    values[1, :20] = np.nan
    return values


def inputs(values, steps):
    observed = np.isfinite(values)
    arrays = {"X": values[:, :steps], "X_pred": values[:, steps:]}
    masks = {"missing_mask": observed[:, :steps], "X_pred_missing_mask": observed[:, steps:]}
    both = {n: np.nan_to_num(a) for n, a in arrays.items()} | {
        n: a.astype(np.float32) for n, a in masks.items()
    }
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in both.items()}


def test_forecasts_agree(pair):
    _, _, theirs, ours = pair
    values = made(ours.config)
    given = inputs(values, ours.config.steps)
    theirs.model.eval()
    with torch.no_grad():
        wanted = theirs.model(given)["forecasting"].numpy()
    found = nnx.jit(lambda model, x, m: model.forecast(x, m))(
        ours, given["X"].numpy(), given["missing_mask"].numpy()
    )
    assert found.shape == (3, ours.config.horizon, 19)
    assert np.std(wanted[:, :, 4]) > 0.01
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-5)


def test_losses_and_gradients_agree(pair):
    """Gradients through the names of the layout: a swapped gate, or an imaginary part turned round, would show."""
    kind, _, theirs, ours = pair
    values = made(ours.config, 1)
    theirs.model.train()
    for layer in theirs.model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    theirs.model.zero_grad()
    wanted = theirs.model(inputs(values, ours.config.steps), calc_criterion=True)["loss"]
    wanted.backward()
    graph, params = nnx.split(ours)
    objective = forecast.MaskedForecast(IDENTITY)

    def loss(params):
        model, batch = nnx.merge(graph, params), {"values": jnp.asarray(values)}
        return objective(model, batch, key=jax.random.key(0), train=False)[0]

    found, grads = jax.jit(jax.value_and_grad(loss))(params)
    np.testing.assert_allclose(float(found), wanted.item(), rtol=1e-5)
    given = {name: p.grad.resolve_conj().numpy() for name, p in theirs.model.named_parameters()}
    of_theirs = layout.to_flax(kind, given, horizon=ours.config.horizon)
    for path, grad in nnx.to_flat_state(grads):
        name = ".".join(map(str, path))
        assert np.abs(of_theirs[name]).max() > 0, name
        np.testing.assert_allclose(np.asarray(grad[...]), of_theirs[name], atol=2e-5, err_msg=name)


def test_layout_there_and_back(pair):
    kind, _, theirs, ours = pair
    there, state = layout.to_pypots(kind, bundles.parameters(ours)), state_of(theirs)
    assert set(there) == set(state)
    horizon = ours.config.horizon
    for name, array in there.items():
        assert array.shape == state[name].shape
        assert array.dtype == state[name].dtype
        read = slice(-horizon, None) if name.startswith("backbone.linear") else slice(None)
        np.testing.assert_array_equal(array[read], state[name][read])
    back = layout.to_flax(kind, there, horizon=horizon)
    for name, array in bundles.parameters(ours).items():
        np.testing.assert_array_equal(back[name], array)
    if kind == "dlinear_forecast":  # what PyPOTS starts with, where no forecast looks
        np.testing.assert_array_equal(there["backbone.linear_trend.weight"][:-horizon], np.float32(1 / 48))


@pytest.mark.parametrize("before", ["model.", "backbone.", "module."])
def test_any_wrapper_prefix_is_found(pair, before):
    kind, _, theirs, ours = pair
    state = {before + name: array for name, array in state_of(theirs).items()}
    assert layout.kind_of(state, where="x") == kind
    found = layout.to_flax(kind, state, horizon=ours.config.horizon)
    for name, array in bundles.parameters(ours).items():
        np.testing.assert_array_equal(found[name], array)


def test_what_does_not_fit_is_named(pair):
    kind, _, _, ours = pair
    there = layout.to_pypots(kind, bundles.parameters(ours))
    name, horizon = sorted(there)[0], ours.config.horizon
    with pytest.raises(CheckpointError, match=f"no entry {name}"):
        layout.to_flax(kind, {n: a for n, a in there.items() if n != name}, horizon=horizon)
    with pytest.raises(CheckpointError, match=f"{name} has shape"):
        layout.to_flax(kind, there | {name: there[name][None]}, horizon=horizon)
    params = bundles.parameters(ours)
    with pytest.raises(CheckpointError, match="parameter more has no place"):
        layout.to_pypots(kind, params | {"more": params[sorted(params)[0]]})
    with pytest.raises(CheckpointError, match=r"expected one of dlinear_forecast, .*, got 'timesnet'"):
        layout.to_flax("timesnet", there, horizon=horizon)
    with pytest.raises(CheckpointError, match="neither DLinear, SegRNN nor MixLinear"):
        layout.kind_of({"encoder.weight": 0}, where="x")


SCALER = {
    "fit_scope": "train", "n_channels": 19, "means": [i / 10 for i in range(19)],
    "stds": [0.0, *(1.0 + i for i in range(18))], "valid_counts": [5] * 19,
}  # fmt: skip


def write_release(folder, arguments, theirs, scaler=SCALER):
    (folder / "checkpoint").mkdir(parents=True)
    torch.save({"model_state_dict": theirs.model.state_dict()}, folder / "checkpoint" / "x.pypots")
    written = {"model": {"name": "x", "args": arguments | {"n_features": 19}}, "lr": 1e-3}
    (folder / "training_config.json").write_text(json.dumps(written))
    (folder / "standard_scaler_stats.json").write_text(json.dumps(scaler))
    return folder


def test_a_release_becomes_a_bundle(pair, tmp_path):
    kind, arguments, theirs, ours = pair
    folder, notes = write_release(tmp_path / "release", arguments, theirs), []
    made_bundle = torch_checkpoint.import_torch(folder, out=tmp_path / "bundle", note=notes.append)
    bundle = bundles.load_bundle(made_bundle)
    assert (bundle.kind, bundle.config, notes) == (kind, ours.config, [])
    np.testing.assert_array_equal(bundle.stats.means, SCALER["means"])
    np.testing.assert_array_equal(bundle.stats.stds, [1.0, *SCALER["stds"][1:]])
    for name, array in bundles.parameters(ours).items():
        np.testing.assert_array_equal(bundles.parameters(bundle.model)[name], array)
    history = np.random.default_rng(2).normal(3, 1, (19, 60)).astype(np.float32)
    found = loading.load(made_bundle).predict(history, ours.config.horizon)
    np.testing.assert_array_equal(loading.load(folder).predict(history, ours.config.horizon), found)
    scaled = ((history.T - SCALER["means"]) / bundle.stats.stds)[None, -ours.config.steps :].astype(
        np.float32
    )
    theirs.model.eval()
    with torch.no_grad():
        mask = torch.ones(scaled.shape)
        wanted = theirs.model({"X": torch.from_numpy(scaled), "missing_mask": mask})["forecasting"][0].numpy()
    np.testing.assert_allclose(found, (wanted * bundle.stats.stds + SCALER["means"]).T, atol=1e-4)


def test_settings_that_are_not_written_are_told(pair, tmp_path):
    kind, arguments, theirs, _ = pair
    kept = {"n_steps": float(arguments["n_steps"]), "n_pred_steps": arguments["n_pred_steps"]}
    notes = []
    bundle = pypots_forecasters.read_forecaster(
        write_release(tmp_path / "r", kept, theirs), note=notes.append
    )
    assert isinstance(bundle.config.steps, int)
    silent = {"dlinear_forecast": ["moving_avg_window_size"], "segrnn": ["dropout"], "mixlinear": ["alpha"]}[
        kind
    ]
    assert [note.split("does not tell ")[1].split(";")[0] for note in notes] == silent


@pytest.mark.parametrize("pair", ["segrnn"], indirect=True)
def test_faults_of_a_release(pair, tmp_path):
    _, arguments, theirs, _ = pair
    with pytest.raises(CheckpointError, match="d_model is 8, the weights are of 6"):
        pypots_forecasters.read_forecaster(write_release(tmp_path / "a", arguments | {"d_model": 8}, theirs))
    with pytest.raises(CheckpointError, match="seg_len: expected a number, got 'long'"):
        pypots_forecasters.read_forecaster(
            write_release(tmp_path / "b", arguments | {"seg_len": "long"}, theirs)
        )
    with pytest.raises(CheckpointError, match="expected 19 means and stds"):
        pypots_forecasters.read_forecaster(
            write_release(tmp_path / "c", arguments, theirs, SCALER | {"means": [0.0]})
        )
    folder = write_release(tmp_path / "d", arguments, theirs)
    file = folder / "training_config.json"
    file.write_text(json.dumps({"model": arguments, "backbone": {"d_model": 7}}))
    with pytest.raises(CheckpointError, match="d_model is both 6 and 7"):
        pypots_forecasters.read_forecaster(folder)
    (folder / "y.pypots").write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"expected one \.pypots file, found checkpoint/x\.pypots, y\.pypots"
    ):
        pypots_forecasters.read_forecaster(folder)
    assert not pypots_forecasters.is_release(folder / "checkpoint")
