"""Bundles: what is saved comes back, byte for byte the same, and damage is told in one line."""

from __future__ import annotations

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.convert import bundle as bundles
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError
from wearjax.models import lsm2

SMALL = lsm2.LSM2Config(
    patch=240, encoder_dim=16, encoder_depth=2, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2, mlp_ratio=2, dropout=0.0, start="local",
)  # fmt: skip
STATS = NormalizationStats(np.linspace(0, 1, 19) * (np.arange(19) < 7), np.ones(19))


@pytest.fixture(scope="module")
def model():
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2.LSM2(SMALL, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    return nnx.merge(
        graph, jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.1, p.shape), jnp.float32), shapes)
    )


@pytest.fixture
def saved(model, tmp_path):
    return bundles.save_bundle(tmp_path / "bundle", kind="lsm2", config=SMALL, model=model, stats=STATS)


def flat(model):
    return {
        ".".join(map(str, path)): np.asarray(leaf[...]) for path, leaf in nnx.to_flat_state(nnx.state(model))
    }


def one_line(path, *words):
    """The one line that loading `path` fails with, which must hold all words."""
    with pytest.raises(CheckpointError) as caught:
        bundles.load_bundle(path)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def edit_facts(folder, **changes):
    file = folder / "bundle.json"
    facts = json.loads(file.read_text())
    facts.update(changes)
    file.write_text(json.dumps({name: value for name, value in facts.items() if value is not None}))


def edit_weights(folder, change):
    file = folder / "weights.npz"
    with np.load(file) as stored:
        arrays = dict(stored)
    change(arrays)
    np.savez(file, **arrays)


def test_round_trip(saved, model, tmp_path):
    loaded = bundles.load_bundle(saved)
    assert (loaded.kind, loaded.config) == ("lsm2", SMALL)
    assert loaded.stats.to_json() == STATS.to_json()
    found, wanted = flat(loaded.model), flat(model)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
    again = bundles.save_bundle(
        tmp_path / "deeper" / "again",
        kind="lsm2",
        config=loaded.config,
        model=loaded.model,
        stats=loaded.stats,
    )
    assert sorted(file.name for file in again.iterdir()) == ["bundle.json", "model_card.md", "weights.npz"]
    for file in saved.iterdir():
        assert (again / file.name).read_bytes() == file.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bundle", "deeper"]  # nothing half made


def test_facts(saved, model):
    facts = json.loads((saved / "bundle.json").read_text())
    assert facts["parameters"] == sum(array.size for array in flat(model).values())
    assert facts["config"]["encoder_dim"] == 16
    assert facts["versions"]["jax"] == jax.__version__
    assert facts == bundles.describe(bundles.load_bundle(saved))


def test_a_bundle_is_never_overwritten(saved, model):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(CheckpointError, match="exists; a bundle is never overwritten"):
        bundles.save_bundle(saved, kind="lsm2", config=SMALL, model=model, stats=STATS)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


def test_a_failed_save_leaves_nothing(model, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(CheckpointError, match=r"bundle: cannot be written: disk full"):
        bundles.save_bundle(tmp_path / "bundle", kind="lsm2", config=SMALL, model=model, stats=STATS)
    assert not list(tmp_path.iterdir())


def test_weights_of_another_size(saved):
    edit_facts(saved, config={**dataclasses.asdict(SMALL), "patch": 120})
    one_line(saved, "weights.npz", "parameter decoder_pred.bias is (240,), the model needs (120,)")


def test_missing_parameter(saved):
    edit_weights(saved, lambda arrays: arrays.pop("mask_token"))
    one_line(saved, "weights.npz", "parameter mask_token is missing; the model needs (8,)")


def test_extra_parameter(saved):
    edit_weights(saved, lambda arrays: arrays.update(head=np.zeros(3)))
    one_line(saved, "weights.npz", "parameter head has no place in the model")


def test_nothing_is_unpickled(saved):
    def poison(arrays):
        arrays["mask_token"] = np.array([print] * 8, dtype=object)

    edit_weights(saved, poison)
    one_line(saved, "weights.npz", "not readable as weights")


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "gone"])
def test_damaged_weights(saved, damage):
    file = saved / "weights.npz"
    content = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    elif damage == "flipped":
        content[len(content) // 2] ^= 255
        file.write_bytes(content)
    else:
        file.write_bytes({"empty": b"", "cut": content[:-200], "text": b"no weights"}[damage])
    one_line(saved, "weights.npz", "not readable as weights")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "{}", '{"kind": "lsm2"}', "\x00\xff"])
def test_damaged_description(saved, text):
    (saved / "bundle.json").write_text(text, encoding="latin-1")
    one_line(saved, "bundle.json", "not readable as a bundle description")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, "bundle format 2, this version reads 1"),
        ({"kind": "lsm9"}, "no architecture 'lsm9'; known: lsm2"),
        ({"kind": None}, "kind"),
        ({"config": None}, "config"),
        ({"config": [1]}, "config: expected an object, got list"),
        ({"config": {"encoder_dims": 8}}, "config.encoder_dims: no such field (did you mean encoder_dim?)"),
        ({"config": {"encoder_dim": "8"}}, "config.encoder_dim: expected int, got '8'"),
        ({"config": {"patch": 7}}, "model.patch: 7 does not divide"),
        ({"normalization": None}, "normalization"),
        ({"normalization": {}}, "normalization: not readable"),
        ({"normalization": {"means": [0] * 19, "stds": [0] * 19}}, "stds"),
    ],
)
def test_impossible_description(saved, changes, words):
    edit_facts(saved, **changes)
    one_line(saved, "bundle.json", words)


def test_not_a_bundle(tmp_path):
    one_line(tmp_path / "nowhere", "nowhere: not a bundle (no bundle.json)")
    one_line(tmp_path, "not a bundle")
    (tmp_path / "run" / "bundle").mkdir(parents=True)
    (tmp_path / "run" / "bundle" / "bundle.json").write_text("{}")
    one_line(tmp_path / "run", "did you mean", "bundle?")
    (tmp_path / "file").write_text("")
    one_line(tmp_path / "file", "file")
