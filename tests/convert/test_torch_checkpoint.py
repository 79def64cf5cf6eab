"""PyTorch files: what they hold comes in bit for bit, goes out again, and nothing in them runs."""

from __future__ import annotations

import importlib
import json
import os
import pickle

import numpy as np
import pytest
import torch_side
from torch_side import CONFIGS, WEEK

from wearjax.convert import bundle as bundles
from wearjax.convert import torch_checkpoint, torch_layout, torch_sizes
from wearjax.convert.torch_checkpoint import export_torch, import_torch
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError

torch = pytest.importorskip("torch", reason="the files are PyTorch's")
safetensors_numpy = pytest.importorskip("safetensors.numpy", reason="the files are safetensors'")

IS_CONTINUOUS = np.arange(19) < 7
STATS = NormalizationStats(np.where(IS_CONTINUOUS, np.pi, 0), np.where(IS_CONTINUOUS, 1 / 3, 1))
PRIORS = {"mean_prior": STATS.means.tolist(), "std_prior": STATS.stds.tolist(), "prior_count": 1e12}


@pytest.fixture(params=list(CONFIGS))
def kind(request):
    return request.param


def bundle_of(kind, path):
    stats = NormalizationStats(STATS.means, STATS.stds, 0.0) if kind == "wbm" else STATS
    model = torch_side.drawn(kind, CONFIGS[kind])
    return bundles.save_bundle(path, kind=kind, config=CONFIGS[kind], model=model, stats=stats)


def state_of(kind="lsm2"):
    """A state dict of tensors as the published classes save it."""
    params = torch_side.parameters(torch_side.drawn(kind, CONFIGS[kind]))
    weights = torch_layout.to_torch(kind, params)
    return {f"model.{name}": torch.tensor(np.array(array)) for name, array in weights.items()}


def lightning(path, kind="lsm2", **changes):
    """A checkpoint as the training of the published models leaves it."""
    content = {
        "epoch": 3, "global_step": 100, "pytorch-lightning_version": "2.2.0",
        "state_dict": state_of(kind),
        "hyper_parameters": {**torch_sizes.hyper_parameters(kind, CONFIGS[kind]), "learning_rate": 1e-4},
        "LightningDataModule": {"normalization_stats": PRIORS},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(1.0)}}}],
        **changes,
    }  # fmt: skip
    torch.save({name: value for name, value in content.items() if value is not None}, path)
    return path


def one_line(call, *words):
    with pytest.raises(CheckpointError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def same_weights(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(other[name], array)


# there and back


@pytest.mark.parametrize("format", ["safetensors", "ckpt"])
def test_a_bundle_comes_back_byte_for_byte(kind, format, tmp_path):
    bundle = bundle_of(kind, tmp_path / "bundle")
    file = export_torch(bundle, tmp_path / "deeper" / f"model.{format}", format=format)
    back = import_torch(file, out=tmp_path / "back")
    for stored in bundle.iterdir():
        assert (back / stored.name).read_bytes() == stored.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "bundle", "deeper"]
    assert [p.name for p in file.parent.iterdir()] == [file.name]


def test_a_lightning_checkpoint_comes_in(kind, tmp_path):
    file = lightning(tmp_path / "last.ckpt", kind)
    bundle = bundles.load_bundle(import_torch(file, out=tmp_path / "bundle"))
    assert bundle.kind == kind
    assert bundle.stats.epsilon == (0.0 if kind == "wbm" else 1e-8)
    np.testing.assert_array_equal(bundle.stats.means, STATS.means)
    np.testing.assert_array_equal(bundle.stats.stds, STATS.stds)
    same_weights(
        torch_side.parameters(torch_side.drawn(kind, CONFIGS[kind])), torch_side.parameters(bundle.model)
    )
    if kind != "wbm":
        assert (bundle.config.encoder_heads, bundle.config.decoder_heads) == (2, 3)


def test_the_torch_class_loads_an_exported_checkpoint(tmp_path):
    bundle = bundle_of("lsm2", tmp_path / "bundle")
    content = torch.load(export_torch(bundle, tmp_path / "m.ckpt", format="ckpt"), weights_only=True)
    restated = torch_side.torch_lsm2(CONFIGS["lsm2"])
    restated.load_state_dict(
        {k.removeprefix("model."): v for k, v in content["state_dict"].items()}, strict=True
    )
    assert all(name.startswith("model.") for name in content["state_dict"])
    assert content["hyper_parameters"]["seq_length"] == 1440
    assert content["hyper_parameters"]["decoder_num_heads"] == 3
    assert content["LightningDataModule"]["normalization_stats"]["std_prior"] == STATS.stds.tolist()


def test_a_bare_state_dict_with_statistics_beside_it(tmp_path):
    torch.save(state_of("wbm"), tmp_path / "wbm.pth")
    one_line(
        lambda: import_torch(tmp_path / "wbm.pth", out=tmp_path / "b"), "wbm.pth", "normalization_stats.json"
    )
    (tmp_path / "normalization_stats.json").write_text(STATS.to_json())
    bundle = bundles.load_bundle(import_torch(tmp_path / "wbm.pth", out=tmp_path / "bundle"))
    assert bundle.stats.epsilon == 0.0
    assert bundle.config.dim == WEEK.dim


def test_given_statistics_go_before_those_of_the_file(tmp_path):
    given = NormalizationStats(STATS.means * 2, STATS.stds)
    (tmp_path / "mine.json").write_text(given.to_json())
    file = lightning(tmp_path / "a.ckpt")
    bundle = bundles.load_bundle(import_torch(file, out=tmp_path / "b", stats=tmp_path / "mine.json"))
    np.testing.assert_array_equal(bundle.stats.means, given.means)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_float_types_become_float32(dtype, tmp_path):
    from safetensors.torch import save_file

    state = {name: tensor.to(dtype).contiguous() for name, tensor in state_of().items()}
    settings = json.dumps(torch_sizes.hyper_parameters("lsm2", CONFIGS["lsm2"]))
    save_file(state, tmp_path / "m.safetensors", metadata={"hyper_parameters": settings})
    file = lightning(tmp_path / "m.ckpt", state_dict=state)
    (tmp_path / "normalization_stats.json").write_text(STATS.to_json())
    first, second = (
        torch_side.parameters(bundles.load_bundle(import_torch(path, out=tmp_path / path.suffix[1:])).model)
        for path in (file, tmp_path / "m.safetensors")
    )
    same_weights(first, second)
    wanted = state["model.mask_token"].float().numpy().reshape(-1)
    np.testing.assert_array_equal(first["mask_token"], wanted)


def test_what_else_a_wbm_checkpoint_holds_is_counted(tmp_path):
    state = {**state_of("wbm"), "criterion.queue": torch.ones(3), "criterion.step": torch.tensor(3)}
    file = lightning(tmp_path / "m.ckpt", "wbm", state_dict=state)
    lines = []
    import_torch(file, out=tmp_path / "b", note=lines.append)
    assert len(lines) == 1
    assert "2 keys" in lines[0]


# releases


@pytest.fixture
def release(tmp_path):
    folder = tmp_path / "release"
    folder.mkdir()
    lightning(folder / "model.ckpt", hyper_parameters=None, LightningDataModule=None)
    (folder / "normalization_stats.json").write_text(STATS.to_json())
    arch = torch_sizes.hyper_parameters("lsm2", CONFIGS["lsm2"])
    manifest = {"spec_version": 2, "kind": "lsm2", "checkpoint": "model.ckpt",
                "normalization_stats": "normalization_stats.json", "arch": arch, "provenance": {}}  # fmt: skip
    (folder / "openmhc_manifest.json").write_text(json.dumps(manifest))
    return folder


def edit(release, **changes):
    file = release / "openmhc_manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize("by", ["folder", "manifest"])
def test_a_release_comes_in(release, tmp_path, by):
    path = release if by == "folder" else release / "openmhc_manifest.json"
    bundle = bundles.load_bundle(import_torch(path, out=tmp_path / "bundle"))
    assert (bundle.kind, bundle.config.encoder_heads) == ("lsm2", 2)
    np.testing.assert_array_equal(bundle.stats.means, STATS.means)


def test_links_of_a_download_cache_are_followed(release, tmp_path):
    (release / "model.ckpt").rename(tmp_path / "blob")
    os.symlink(tmp_path / "blob", release / "model.ckpt")
    import_torch(release, out=tmp_path / "bundle")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoint": "../outside.ckpt"}, ("'../outside.ckpt' is outside",)),
        ({"checkpoint": "/etc/passwd"}, ("outside the release folder",)),
        ({"normalization_stats": "a/../../x.json"}, ("outside the release folder",)),
        ({"checkpoint": "gone.ckpt"}, ("gone.ckpt: no such file",)),
        ({"checkpoint": 3}, ("openmhc_manifest.json", "manifest")),
        ({"kind": "brits"}, ("'brits'", "lsm2_weekly_sparse")),
        ({"kind": "wbm"}, ("model.ckpt", "missing")),
        ({"spec_version": 9}, ("spec_version 9",)),
        ({"arch": [1]}, ("arch",)),
    ],
)
def test_a_release_that_does_not_fit(release, tmp_path, changes, words):
    edit(release, **changes)
    one_line(lambda: import_torch(release, out=tmp_path / "bundle"), *words)
    assert not (tmp_path / "bundle").exists()


def test_a_folder_without_manifest(tmp_path):
    one_line(lambda: import_torch(tmp_path, out=tmp_path / "b"), "openmhc_manifest.json")
    (tmp_path / "openmhc_manifest.json").write_text("{")
    one_line(lambda: import_torch(tmp_path, out=tmp_path / "b"), "not readable as a release manifest")


# files that are refused


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("plain", [False, True], ids=["torch file", "bare pickle"])
def test_nothing_in_a_file_runs(tmp_path, plain):
    content = {"state_dict": state_of(), "callbacks": Trap(tmp_path / "ran")}
    if plain:
        (tmp_path / "m.ckpt").write_bytes(pickle.dumps({"callbacks": Trap(tmp_path / "ran")}, protocol=2))
    else:
        torch.save(content, tmp_path / "m.ckpt")
    one_line(
        lambda: import_torch(tmp_path / "m.ckpt", out=tmp_path / "b"), "m.ckpt", "re-save", "safetensors"
    )
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", ["m.ckpt", "m.safetensors"])
@pytest.mark.parametrize("damage", ["empty", "cut", "text", "gone"])
def test_damaged_files(tmp_path, name, damage):
    file = export_torch(bundle_of("wbm", tmp_path / "bundle"), tmp_path / name, format=name[2:])
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(
            {"empty": b"", "cut": content[: len(content) // 2], "text": b"no weights at all"}[damage]
        )
    one_line(lambda: import_torch(file, out=tmp_path / "b"), name)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([1, 2], ("found list",)),
        ({"model_state": {"a": torch.ones(1)}}, ("model_state: expected a tensor, found dict",)),
        ({"state_dict": {}}, ("state_dict",)),
        ({"state_dict": {"a": torch.ones(1)}}, ("no model that wearjax has",)),
        ({"state_dict": {"a": torch.ones(2, 2).to_sparse()}}, ("a: expected a plain tensor",)),
        ({"state_dict": {"a": torch.ones(1)}, "hyper_parameters": [1]}, ("hyper_parameters",)),
    ],
)
def test_files_of_something_else(tmp_path, content, words):
    torch.save(content, tmp_path / "m.pt")
    one_line(lambda: import_torch(tmp_path / "m.pt", out=tmp_path / "b"), "m.pt", *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"LightningDataModule": {"normalization_stats": {"mean_prior": [0] * 19}}}, ("std_prior",)),
        ({"LightningDataModule": {"normalization_stats": {**PRIORS, "std_prior": [0] * 19}}}, ("stds",)),
        ({"LightningDataModule": {"normalization_stats": {**PRIORS, "std_prior": [1] * 3}}}, ("19",)),
        ({"hyper_parameters": {"seq_length": 1440}}, ("num_heads",)),
        ({"wearjax": {"kind": "lsm2"}, "hyper_parameters": None}, ("m.ckpt",)),
        ({"wearjax": {"kind": "lsm2", "config": {"patch": 7}}}, ("model.patch: 7",)),
    ],
)
def test_checkpoints_that_cannot_be_run(tmp_path, changes, words):
    file = lightning(tmp_path / "m.ckpt", **changes)
    one_line(lambda: import_torch(file, out=tmp_path / "b"), "m.ckpt", *words)
    assert not (tmp_path / "b").exists()


def test_keys_and_shapes_are_named_with_the_file(tmp_path):
    state = state_of()
    state["model.encoder.blocks.1.attn.proj.weight"] = torch.ones(16, 15)
    file = lightning(tmp_path / "m.ckpt", state_dict=state)
    one_line(
        lambda: import_torch(file, out=tmp_path / "b"),
        "m.ckpt: encoder.blocks.1.attn.proj.weight is (16, 15), the model needs (16, 16)",
    )


def test_a_wrong_kind_is_named(tmp_path):
    file = lightning(tmp_path / "m.ckpt")
    one_line(lambda: import_torch(file, kind="wbm", out=tmp_path / "b"), "backbone.0.fwd", "missing")
    one_line(lambda: import_torch(file, kind="lsm9", out=tmp_path / "b"), "lsm9")


def test_nothing_is_overwritten(tmp_path):
    bundle = bundle_of("wbm", tmp_path / "bundle")
    file = export_torch(bundle, tmp_path / "m.safetensors")
    before = file.read_bytes()
    one_line(lambda: export_torch(bundle, file), "exists")
    one_line(lambda: import_torch(file, out=bundle), "exists")
    assert file.read_bytes() == before


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    bundle = bundle_of("wbm", tmp_path / "bundle")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(safetensors_numpy, "save_file", fail)
    with pytest.raises(CheckpointError, match=r"m\.safetensors: cannot be written: disk full"):
        export_torch(bundle, tmp_path / "m.safetensors")
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_other_endings_and_formats(tmp_path):
    (tmp_path / "m.npz").write_bytes(b"")
    one_line(lambda: import_torch(tmp_path / "m.npz", out=tmp_path / "b"), ".safetensors")
    one_line(lambda: export_torch(tmp_path, tmp_path / "o", format="onnx"), "onnx")


def test_a_model_that_the_torch_class_cannot_express(tmp_path):
    config = type(CONFIGS["lsm2"])(**{**vars(CONFIGS["lsm2"]), "position_period": 100.0})
    model = torch_side.drawn("lsm2", config)
    bundle = bundles.save_bundle(tmp_path / "b", kind="lsm2", config=config, model=model, stats=STATS)
    one_line(lambda: export_torch(bundle, tmp_path / "m.ckpt", format="ckpt"), "position_period")


@pytest.mark.parametrize(("name", "needs"), [("m.ckpt", "torch"), ("m.safetensors", "safetensors")])
def test_the_extra_is_named_when_it_is_not_installed(tmp_path, monkeypatch, name, needs):
    (tmp_path / name).write_bytes(b"")
    found = importlib.import_module

    def without(module):
        if module.split(".")[0] == needs:
            raise ModuleNotFoundError(module)
        return found(module)

    monkeypatch.setattr(torch_checkpoint.importlib, "import_module", without)
    one_line(lambda: import_torch(tmp_path / name, out=tmp_path / "b"), needs, "wearjax[convert]")
