"""Toto and Chronos-2 as encoders: with stand-ins for their packages, and with tiny real models where installed."""

from __future__ import annotations

import json
import sys

import fake_foundation
import numpy as np
import pytest
from made_days import FIRST_DATE, made_cohort

from wearjax.days import hourly
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import CheckpointError, ConfigError
from wearjax.predict.predictors.chronos2 import Chronos2
from wearjax.predict.predictors.toto import Toto
from wearjax.predict.protocols import EvalContext
from wearjax.segments import hourly_series

torch = pytest.importorskip("torch")
save_file = pytest.importorskip("safetensors.torch").save_file

N_DAYS = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> DayStore:
    path = tmp_path_factory.mktemp("series") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made_cohort(3, N_DAYS))  # each second day is not retained
    return DayStore(path)


@pytest.fixture
def fakes(monkeypatch):
    fake_foundation.install(monkeypatch)
    fake_foundation.Chronos2Pipeline.loaded = []


def users(store):
    return tuple(sorted(set(store.participants)))


def dates(*offsets):
    return tuple(str(np.datetime64(FIRST_DATE) + np.timedelta64(o, "D")) for o in offsets)


def context(store, *eligible, window="full_history"):
    return EvalContext("t", "train", users(store), tuple(dates(*own) for own in eligible), window)


def windows(store, length, *last):
    """The series of each participant up to a day, cut without the predictor."""
    found = []
    for user, end in zip(users(store), last, strict=True):
        rows = [
            r
            for r in np.flatnonzero(store.retained & (store.participants == user))
            if store.dates[r] <= dates(end)[0]
        ]
        hours = hourly.aggregate(store.batch(rows))
        found.append(hourly_series.series(hours, store.dates[rows].tolist(), length=length))
    return tuple(np.stack(part) for part in zip(*found, strict=True))


def toto_folder(folder, *, prefix="", seed=0, config=fake_foundation.SIZES):
    torch.manual_seed(seed)
    model = fake_foundation.TotoBackbone(**fake_foundation.SIZES, use_memory_efficient_attention=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, "not_an_argument": 1}))
    weights = {prefix + k: v.clone() for k, v in model.state_dict().items() if k != "transformer.rotary"}
    save_file(weights, folder / "model.safetensors")
    return model


def direct(model, values, observed):
    inputs, mask = torch.from_numpy(values), torch.from_numpy(observed)
    with torch.no_grad():
        scaled, *_ = model.scaler(inputs, torch.ones_like(inputs), mask, None)
        tokens, ids = model.patch_embed(scaled, torch.zeros_like(inputs))
        return model.transformer(tokens, ids, None)[:, :, -1].numpy()


@pytest.mark.usefixtures("fakes")
def test_toto_is_the_last_patch_averaged_over_the_channels(store, tmp_path):
    model = toto_folder(tmp_path / "toto", prefix="model.")
    probe = Toto(store, tmp_path / "toto", length=64, device="cpu", batch_size=2)
    # The ablation alone forgets what comes after the last eligible day.
    for window, last in (("full_history", (N_DAYS - 1,) * 3), ("forward", (4, 2, 4))):
        found = probe.participant_vectors(context(store, (0, 4), (0, 1, 2), (), window=window))
        values, observed = windows(store, 64, *last)
        wanted = direct(model, values, observed).mean(axis=1)
        np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-5, atol=1e-6)
        assert (found[2] == 0).all()  # nobody's days: zeros
    assert found.shape == (3, 6)
    assert probe.ignored_keys == []
    assert probe.settings["hours"] == 64


@pytest.mark.usefixtures("fakes")
def test_toto_fine_tuned_with_adapters_and_prefixes(store, tmp_path):
    model = toto_folder(tmp_path / "base")
    state = {f"model.base_model.{k}": v for k, v in model.state_dict().items() if k != "transformer.rotary"}
    name = "model.base_model.patch_embed.projection"
    down, up = torch.randn(2, 8), torch.randn(6, 2)
    state[f"{name}.base_layer.weight"] = state.pop(f"{name}.weight") - 4 / 2 * up @ down
    state[f"{name}.lora_A.default.weight"], state[f"{name}.lora_B.default.weight"] = down, up
    state["model.base_model.extra"] = torch.ones(1)
    state["loss.scale"] = torch.ones(1)
    release = tmp_path / "release"
    release.mkdir()
    torch.save({"state_dict": state, "hyper_parameters": {}}, release / "best.ckpt")
    (release / "openmhc_manifest.json").write_text(json.dumps({"spec_version": 1, "checkpoint": "best.ckpt"}))
    values, observed = windows(store, 64, 4, 2, 4)
    wanted = direct(model, values, observed)
    for checkpoint in (release, release / "best.ckpt"):
        probe = Toto(store, checkpoint, base=tmp_path / "base", lora_alpha=4, length=64, device="cpu")
        np.testing.assert_allclose(probe.encode(values, observed), wanted, rtol=1e-4, atol=1e-5)
        assert probe.ignored_keys == ["extra"]
    plain = Toto(store, release, base=tmp_path / "base", length=64, device="cpu")
    assert np.abs(plain.encode(values, observed) - wanted).max() > 1e-3  # alpha is the rank unless given


@pytest.mark.usefixtures("fakes")
def test_toto_checkpoints_that_do_not_fit(store, tmp_path):
    toto_folder(tmp_path / "toto")
    with pytest.raises(ConfigError, match="multiple of the patch 8"):
        Toto(store, tmp_path / "toto", length=60)
    with pytest.raises(
        ConfigError, match="no such checkpoint; to fetch one from the hub, write hub:owner/name"
    ):
        Toto(store, "Datadog/Toto-Open-Base-1.0")
    with pytest.raises(ConfigError, match="dtype 'float16'"):
        Toto(store, tmp_path / "toto", dtype="float16")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"neither model\.safetensors nor"):
        Toto(store, tmp_path / "empty")
    (tmp_path / "empty" / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no config\.json.*base="):
        Toto(store, tmp_path / "empty")
    toto_folder(tmp_path / "wide", config={**fake_foundation.SIZES, "embed_dim": 7})
    with pytest.raises(CheckpointError, match=r"model\.safetensors: weight .* the encoder needs"):
        Toto(store, tmp_path / "wide", length=64)
    (tmp_path / "wide" / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no Toto model can be built"):
        Toto(store, tmp_path / "wide", length=64)


@pytest.mark.usefixtures("fakes")
def test_chronos_is_the_last_future_token_averaged_over_the_channels(store, tmp_path):
    folder = tmp_path / "release" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model": "chronos2"}')
    probe = Chronos2(store, tmp_path / "release", device="cpu", batch_size=3)
    ((path, options),) = fake_foundation.Chronos2Pipeline.loaded
    assert path == str(folder)
    assert options["local_files_only"]
    assert probe.length == 48  # the checkpoint's own context
    found = probe.participant_vectors(context(store, (4,), (2,), (0, 2), window="forward"))
    values, observed = windows(store, 48, 4, 2, 2)
    call = probe._model.calls[-1]
    seen = call["context"].numpy().reshape(3, 19, 48)
    np.testing.assert_array_equal(np.isnan(seen), ~observed)
    np.testing.assert_array_equal(seen[observed], values[observed])
    assert call["groups"].reshape(3, 19).tolist() == [[i] * 19 for i in range(3)]
    assert call["future"] == 2  # 24 hours in patches of 16
    about = np.stack([values.sum(-1), observed.sum(-1), np.zeros((3, 19))], axis=-1)
    weight, bias = (p.detach().numpy() for p in probe._model.embed.parameters())
    np.testing.assert_allclose(found, 4 * (about @ weight.T + bias).mean(axis=1), rtol=1e-4)


@pytest.mark.usefixtures("fakes")
def test_chronos_refuses_what_is_not_its_own(store, tmp_path):
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        Chronos2(store, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"not a Chronos-2 checkpoint \(Not a Chronos config file\)$"):
        Chronos2(store, tmp_path)
    (tmp_path / "config.json").write_text('{"model": "chronos2"}')
    with pytest.raises(ConfigError, match="context of 0 hours"):
        Chronos2(store, tmp_path, length=0)


@pytest.mark.usefixtures("fakes")
def test_vectors_are_kept_for_later_runs_and_named_by_weights(store, tmp_path):
    toto_folder(tmp_path / "a")
    toto_folder(tmp_path / "b", seed=1)
    eligible = context(store, (0,), (2,), (4,))
    seen = []
    options = {"length": 64, "device": "cpu", "cache_dir": tmp_path / "kept"}
    first = Toto(store, tmp_path / "a", progress=lambda *at: seen.append(at), **options)
    vectors = first.participant_vectors(eligible)
    assert seen == [(3, 3)]
    again = Toto(store, tmp_path / "a", progress=lambda *_: pytest.fail("computed again"), **options)
    np.testing.assert_array_equal(again.participant_vectors(eligible), vectors)
    other = Toto(store, tmp_path / "b", **options)
    assert np.abs(other.participant_vectors(eligible) - vectors).max() > 1e-3
    assert len(list((tmp_path / "kept").iterdir())) == 2


@pytest.mark.usefixtures("fakes")
def test_lower_precision_gives_float32_vectors_nearby(store, tmp_path):
    toto_folder(tmp_path / "toto")
    values, observed = windows(store, 64, 4, 2, 4)
    full, half = (
        Toto(store, tmp_path / "toto", length=64, device="cpu", dtype=d).encode(values, observed)
        for d in ("float32", "bfloat16")
    )
    assert half.dtype == np.float32
    assert 0 < np.abs(full - half).max() < 0.1


def test_without_the_packages_the_extra_is_named(store, tmp_path, monkeypatch):
    toto_folder(tmp_path / "toto")
    monkeypatch.setitem(sys.modules, "toto.model.backbone", None)
    with pytest.raises(ConfigError, match=r"'toto'.*pip install 'wearjax\[foundation\]'"):
        Toto(store, tmp_path / "toto", length=64)
    monkeypatch.setitem(sys.modules, "chronos", None)
    with pytest.raises(ConfigError, match=r"'chronos'.*pip install 'wearjax\[foundation\]'"):
        Chronos2(store, tmp_path / "toto")


def test_only_an_explicit_hub_name_is_fetched(store, tmp_path, monkeypatch):
    fake_foundation.install(monkeypatch)
    toto_folder(tmp_path / "fetched")
    asked = []
    hub = type(sys)("huggingface_hub")
    hub.snapshot_download = lambda name, **options: asked.append(name) or str(tmp_path / "fetched")
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    Toto(store, tmp_path / "fetched", length=64, device="cpu")
    assert not asked
    Toto(store, "hub:owner/name", length=64, device="cpu")
    assert asked == ["owner/name"]


def test_real_toto_gives_the_transformers_last_patch(store, tmp_path):
    backbone = pytest.importorskip("toto.model.backbone")
    config = {
        "patch_size": 8, "stride": 8, "embed_dim": 12, "num_layers": 2, "num_heads": 2, "mlp_hidden_dim": 16,
        "dropout": 0.1, "spacewise_every_n_layers": 2, "spacewise_first": False,
        "scaler_cls": "<class 'model.scaler.CausalPatchStdMeanScaler'>",
        "output_distribution_classes": ["<class 'model.distribution.MixtureOfStudentTsOutput'>"],
        "output_distribution_kwargs": {"k_components": 2},
    }  # fmt: skip
    torch.manual_seed(0)
    model = backbone.TotoBackbone(**config, use_memory_efficient_attention=False).eval()
    (tmp_path / "toto").mkdir()
    (tmp_path / "toto" / "config.json").write_text(json.dumps(config))
    save_file(
        {f"model.{k}": v.clone() for k, v in model.state_dict().items()},
        tmp_path / "toto" / "model.safetensors",
    )
    seen = {}
    model.transformer.register_forward_hook(lambda module, given, out: seen.update(out=out))
    values, observed = windows(store, 64, 4, 2, 4)
    with torch.no_grad():
        model(torch.from_numpy(values), torch.from_numpy(observed), torch.zeros(values.shape))
    found = Toto(store, tmp_path / "toto", length=64, device="cpu").encode(values, observed)
    np.testing.assert_allclose(found, seen["out"][:, :, -1].numpy(), rtol=1e-5, atol=1e-6)


def test_real_chronos_gives_the_last_token_of_an_unknown_day(store, tmp_path):
    chronos = pytest.importorskip("chronos.chronos2")
    sizes = {
        "context_length": 48, "output_patch_size": 16, "input_patch_size": 16, "input_patch_stride": 16,
        "quantiles": [0.1, 0.5, 0.9], "use_reg_token": True, "use_arcsinh": True, "max_output_patches": 4,
        "time_encoding_scale": 48,
    }  # fmt: skip
    torch.manual_seed(0)
    model = chronos.Chronos2Model(
        chronos.Chronos2CoreConfig(
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=2,
            num_heads=2,
            reg_token_id=1,
            chronos_config=sizes,
            architectures=["Chronos2Model"],
        )
    ).eval()
    model.save_pretrained(tmp_path / "checkpoint")
    values, observed = windows(store, 48, 4, 2, 4)
    given = torch.from_numpy(np.where(observed, values, np.nan).astype(np.float32)).reshape(-1, 48)
    with torch.no_grad():
        tokens = model.encode(
            context=given,
            group_ids=torch.arange(3).repeat_interleave(19),
            future_covariates=torch.full((len(given), 24), float("nan")),
            num_output_patches=2,
        )[0][0]
    found = Chronos2(store, tmp_path, device="cpu").encode(values, observed)
    np.testing.assert_allclose(found, tokens[:, -1].numpy().reshape(3, 19, -1), rtol=1e-5, atol=1e-6)
