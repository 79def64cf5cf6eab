"""DLinear and BRITS against PyPOTS's own modules with the same weights: outputs, losses and one training step."""

from __future__ import annotations

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from flax import nnx

from wearjax.convert import bundle as bundles
from wearjax.convert import pypots_layout, pypots_release
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError
from wearjax.models import registry
from wearjax.models.brits import BRITSConfig
from wearjax.models.dlinear import DLinearConfig
from wearjax.objectives import masked_imputation
from wearjax.predict.imputers import pypots, pypots_data, pypots_models
from wearjax.predict.imputers.pypots_models import BRITSSettings, DLinearSettings, TrainingSettings

MINUTES = 48
CASES = {
    "dlinear": (
        DLinearSettings(n_steps=MINUTES, moving_avg_window_size=7, d_model=5, MIT_weight=0.5),
        DLinearConfig(minutes=MINUTES, window=7, d_model=5, masked_weight=0.5),
    ),
    "brits": (BRITSSettings(n_steps=MINUTES, rnn_hidden_size=6), BRITSConfig(minutes=MINUTES, hidden_size=6)),
}
IDENTITY = NormalizationStats(np.zeros(19), np.ones(19), 0.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """On a busy machine PyTorch's threads wait for each other far longer than such small products take."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=sorted(CASES))
def pair(request):
    """Kind, settings, a PyPOTS model, and ours with its weights."""
    settings, config = CASES[request.param]
    theirs = pypots_models.build(settings, training=TrainingSettings(seed=3))
    with torch.no_grad():  # the maps over time start constant, which would hide a transposition
        for parameter in theirs.model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    state = {name: tensor.numpy() for name, tensor in theirs.model.state_dict().items()}
    params = pypots_layout.to_flax(settings.kind, state)
    return settings, theirs, bundles.build(registry.get(settings.kind), config, params)


def made(seed: int = 0, count: int = 3):
    """Series with gaps, one channel never measured, and cells to hide."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, 1, (count, MINUTES, 19)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, :, 4] = np.nan
    values[1, :20] = np.nan
    hidden = (rng.random(values.shape) < 0.2) & ~np.isnan(values)
    return values, hidden


def test_reconstructions_agree(pair):
    settings, theirs, ours = pair
    values, hidden = made()
    inputs = pypots_data.inputs(settings, values, hidden, device="cpu")
    theirs.model.eval()
    with torch.no_grad():
        wanted = theirs.model(inputs)[
            "reconstruction" if settings.kind == "dlinear" else "imputation"
        ].numpy()
    visible = ~np.isnan(values) & ~hidden
    known = np.where(visible, values, 0)
    found = np.asarray(
        nnx.jit(type(ours).reconstruct)(ours, jnp.asarray(known), jnp.asarray(visible, jnp.float32))
    )
    if settings.kind == "brits":
        found = np.where(visible, known, found)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert np.std(wanted[:, :, 4]) > 0.01


def losses(settings, ours, values, hidden, monkeypatch):
    """Our loss and gradients with the given cells hidden instead of drawn ones."""
    objective = {
        "dlinear": masked_imputation.MaskedImputation,
        "brits": masked_imputation.RecurrentImputation,
    }[settings.kind](IDENTITY)
    monkeypatch.setattr(masked_imputation, "hide_cells", lambda *_: jnp.asarray(hidden))
    batch = {"values": jnp.asarray(values.swapaxes(1, 2))}
    graph, params = nnx.split(ours)

    def loss(params):
        return objective(nnx.merge(graph, params), batch, key=jax.random.key(0), train=True)[0]

    return params, *jax.jit(jax.value_and_grad(loss))(params)


def test_loss_and_gradients_agree(pair, monkeypatch):
    """Gradients through the names of the layout: a wrong sign or a swapped direction would show."""
    settings, theirs, ours = pair
    values, hidden = made(1)
    if settings.kind == "brits":
        hidden[:] = False
    theirs.model.train()
    theirs.model.zero_grad()
    loss = theirs.model(pypots_data.inputs(settings, values, hidden, device="cpu"), calc_criterion=True)[
        "loss"
    ]
    loss.backward()
    _, found, grads = losses(settings, ours, values, hidden, monkeypatch)
    np.testing.assert_allclose(float(found), loss.item(), rtol=1e-5)
    given = {name: p.grad.numpy() for name, p in theirs.model.named_parameters()}
    wanted = pypots_layout.to_flax(settings.kind, given)
    for path, grad in nnx.to_flat_state(grads):
        name = ".".join(map(str, path))
        np.testing.assert_allclose(np.asarray(grad[...]), wanted[name], atol=2e-5, err_msg=name)


def test_validation_scores_agree(pair, monkeypatch):
    settings, theirs, ours = pair
    values, hidden = made(2)
    theirs.model.eval()
    with torch.no_grad():
        wanted = theirs.model(
            pypots_data.inputs(settings, values, hidden, device="cpu"), calc_criterion=True
        )["metric"].item()
    monkeypatch.setattr(masked_imputation, "hide_patches", lambda *_: jnp.asarray(hidden))
    objective = masked_imputation.RecurrentImputation(IDENTITY)  # validation is the same for both
    batch = {"values": jnp.asarray(values.swapaxes(1, 2))}
    found, metrics = nnx.jit(lambda model: objective(model, batch, key=jax.random.key(0), train=False))(ours)
    np.testing.assert_allclose(float(found), wanted, rtol=1e-5)
    assert float(metrics["mae_hidden"]) == float(found)
    np.testing.assert_allclose(
        float(metrics["masked_fraction"]), hidden.sum() / (~np.isnan(values)).sum(), rtol=1e-6
    )


def test_one_step_of_adam_agrees(pair, monkeypatch):
    """Also where two biases share one role, and at weights that never get a gradient."""
    settings, _, ours = pair
    values, hidden = made(3)
    if settings.kind == "brits":
        hidden[:] = False
    theirs = pypots_models.build(settings, training=TrainingSettings(learning_rate=0.01))
    pypots.put_weights(
        theirs,
        {
            n: torch.from_numpy(a.copy())
            for n, a in pypots_layout.to_pypots(settings.kind, bundles.parameters(ours)).items()
        },
        where="ours",
    )
    theirs.model.train()
    theirs.model(pypots_data.inputs(settings, values, hidden, device="cpu"), calc_criterion=True)[
        "loss"
    ].backward()
    theirs.optimizer.step()
    params, _, grads = losses(settings, ours, values, hidden, monkeypatch)
    update = optax.adam(0.01)
    changes, _ = update.update(grads, update.init(params), params)
    wanted = pypots_layout.to_flax(
        settings.kind, {n: t.detach().numpy() for n, t in theirs.model.state_dict().items()}
    )
    moved = optax.apply_updates(params, changes)
    for path, leaf in nnx.to_flat_state(moved):
        name = ".".join(map(str, path))
        difference = np.abs(np.asarray(leaf[...]) - wanted[name])
        # Where a gradient is within rounding of zero, Adam's first step has its sign, hence the few exceptions.
        assert np.mean(difference > 1e-4) < 0.02, name


def test_layout_there_and_back(pair):
    settings, theirs, ours = pair
    there = pypots_layout.to_pypots(settings.kind, bundles.parameters(ours))
    parameters = dict(theirs.model.named_parameters())
    assert set(there) == set(parameters)
    for name, array in there.items():
        wanted = parameters[name].detach().numpy()
        if name.endswith("temp_decay_x.W"):
            wanted = np.diag(np.diag(wanted))
        np.testing.assert_array_equal(array, wanted)
    back = pypots_layout.to_flax(settings.kind, there)
    for name, array in bundles.parameters(ours).items():
        np.testing.assert_array_equal(back[name], array)


@pytest.mark.parametrize("before", ["", "model.", "backbone.", "module."])
def test_any_wrapper_prefix_is_found(pair, before):
    settings, theirs, ours = pair
    state = {name: tensor.numpy() for name, tensor in theirs.model.state_dict().items()}
    if settings.kind == "brits":
        state = {name.removeprefix("model."): array for name, array in state.items()}
    found = pypots_layout.to_flax(settings.kind, {before + name: array for name, array in state.items()})
    for name, array in bundles.parameters(ours).items():
        np.testing.assert_array_equal(found[name], array)


def test_what_does_not_fit_is_named(pair):
    settings, _, ours = pair
    there = pypots_layout.to_pypots(settings.kind, bundles.parameters(ours))
    name = sorted(there)[0]
    with pytest.raises(CheckpointError, match=f"no entry {name.removeprefix('model.')}"):
        pypots_layout.to_flax(settings.kind, {n: a for n, a in there.items() if n != name})
    with pytest.raises(CheckpointError, match="has shape"):
        pypots_layout.to_flax(settings.kind, there | {name: there[name][None]})
    params = bundles.parameters(ours)
    first = sorted(params)[0]
    with pytest.raises(CheckpointError, match=f"parameter {first} is missing"):
        pypots_layout.to_pypots(settings.kind, {n: a for n, a in params.items() if n != first})
    with pytest.raises(CheckpointError, match="parameter more has no place"):
        pypots_layout.to_pypots(settings.kind, params | {"more": params[first]})
    with pytest.raises(CheckpointError, match="expected one of dlinear, brits, got 'timesnet'"):
        pypots_layout.to_flax("timesnet", there)


def test_a_release_becomes_a_bundle(pair, tmp_path):
    settings, theirs, ours = pair
    stats = NormalizationStats(
        np.arange(19) / 10 * (np.arange(19) < 7), np.where(np.arange(19) < 7, 2.0, 1.0)
    )
    folder = pypots.PyPOTSImputer(theirs, settings, stats).save(tmp_path / "theirs")
    notes: list[str] = []
    bundle = bundles.load_bundle(
        pypots_release.import_pypots(folder, out=tmp_path / "bundle", note=notes.append)
    )
    assert bundle.kind == settings.kind
    assert bundle.config == dataclasses.replace(ours.config)
    assert notes == []
    np.testing.assert_array_equal(bundle.stats.stds, stats.stds)
    for name, array in bundles.parameters(ours).items():
        np.testing.assert_array_equal(bundles.parameters(bundle.model)[name], array)
    manifest = json.loads((folder / "openmhc_manifest.json").read_text())
    for name in [*manifest["arch"]]:
        if name not in ("n_steps", "n_features"):
            manifest["arch"].pop(name)
    manifest["arch"]["n_steps"] = MINUTES
    (folder / "openmhc_manifest.json").write_text(json.dumps(manifest))
    pypots_release.import_pypots(folder, out=tmp_path / "second", note=notes.append)
    assert bool(notes) == (settings.kind == "dlinear")  # its window is in no shape
    if settings.kind == "dlinear":
        manifest["arch"]["d_model"] = 9
        (folder / "openmhc_manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(CheckpointError, match=r"arch.d_model is 9, the weights are of 5"):
            pypots_release.import_pypots(folder, out=tmp_path / "third")
