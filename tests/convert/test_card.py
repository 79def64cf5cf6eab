"""Model cards: complete, the same for the same bundle, and of everything that writes bundles."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from flax import nnx

from wearjax import cli
from wearjax.channels import NAMES
from wearjax.convert import bundle as bundles
from wearjax.convert import card
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError
from wearjax.models import dlinear, registry
from wearjax.train import origin

CONFIG = dlinear.DLinearConfig(minutes=60, window=7, d_model=4)
STATS = NormalizationStats(np.linspace(0, 50, 19) * (np.arange(19) < 7), np.ones(19))
ORIGIN = {
    "how": "trained",
    "run": "first try",
    "data": {
        "days_digest": "0123456789abcdef",
        "train_days": 1234,
        "train_participants": 56,
        "validation_days": 78,
        "validation_participants": 9,
        "examples": "days",
        "train_examples": 1234,
        "provenance": {"source": "imputed", "from": {"source": "synthetic", "seed": 7}},
        "store": "made",
        "channels_digest": "f" * 64,
        "synthetic": True,
    },
    "training": {"seed": 3, "loop": {"steps": 100}},
    "steps": 100,
    "metrics": {"train": {"loss": 0.25}, "validation": {"loss": 0.5, "examples": 32}},
}


@pytest.fixture
def saved(tmp_path):
    def save(name, **told):
        model = dlinear.DLinear(CONFIG, rngs=nnx.Rngs(0))
        return bundles.save_bundle(
            tmp_path / name, kind="dlinear", config=CONFIG, model=model, stats=STATS, **told
        )

    return save


def test_a_card_says_what_it_is_and_what_it_learned_from(saved):
    text = (saved("one", origin=ORIGIN) / "model_card.md").read_text()
    n = json.loads((saved("two") / "bundle.json").read_text())["parameters"]
    for words in (
        "# Model card: first try", f"{n:,} parameters", "56 participants, 1,234 days to train",
        "9 participants, 78 days to validate", "0123456789abcdef", "invented", "| train | loss | 0.25 |",
        "| validation | loss | 0.5 |", '"d_model": 4', '"steps": 100', "wearjax.load_pretrained",
        "Not a medical device", "Not stated", '"seed": 7', *NAMES,
    ):  # fmt: skip
        assert words in text, words
    sections = re.findall("^## (.*)$", text, re.MULTILINE)
    assert sections == [
        "Trained on", "Metrics at the end of training", "Intended use", "Limits", "Licence", "Load", "Configuration",
        "Normalization", "Versions",
    ]  # fmt: skip


def test_the_same_bundle_has_the_same_card(saved):
    one, two = saved("one", origin=ORIGIN), saved("two", origin=ORIGIN)
    for file in one.iterdir():
        assert (two / file.name).read_bytes() == file.read_bytes()
    loaded = bundles.load_bundle(one)
    assert loaded.origin == ORIGIN
    again = saved("again", origin=loaded.origin, licence=loaded.licence)
    assert (again / "model_card.md").read_bytes() == (one / "model_card.md").read_bytes()


def test_real_recordings_are_not_called_invented(saved):
    real = ORIGIN | {"data": ORIGIN["data"] | {"synthetic": False, "provenance": {"source": "openmhc"}}}
    assert "invented" not in (saved("one", origin=real) / "model_card.md").read_text()


@pytest.mark.parametrize(
    ("provenance", "expected"),
    [
        ({"source": "synthetic"}, True),
        ({"source": "imputed", "from": {"source": "synthetic"}}, True),
        ({"source": "apple-health"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_what_counts_as_invented(provenance, expected):
    assert origin.is_synthetic(provenance) is expected


@pytest.mark.parametrize("kind", registry.ARCHITECTURES)
def test_every_kind_has_words_of_its_own(kind):
    facts = {"kind": kind, "config": {}, "parameters": 1, "normalization": json.loads(STATS.to_json())}
    text = card.render(facts)
    assert f"A model of kind {kind}" not in text
    assert "- It " in text


def test_the_verb_shows_it_and_sets_the_licence(saved, capsys):
    path = saved("one", origin=ORIGIN)
    weights = (path / "weights.npz").read_bytes()
    cli.main(["card", str(path), "--licence", "CC BY 4.0"])
    shown = capsys.readouterr().out
    assert "CC BY 4.0" in shown
    assert "Not stated" not in shown
    assert shown == (path / "model_card.md").read_text()
    assert bundles.load_bundle(path).licence == "CC BY 4.0"
    assert (path / "weights.npz").read_bytes() == weights
    assert len(list(path.iterdir())) == 3
    with pytest.raises(ConfigError, match="licence: give its name"):
        bundles.set_licence(path, " ")


def test_a_bundle_without_a_card_shows_one(saved, capsys):
    path = saved("one")
    (path / "model_card.md").unlink()
    cli.main(["card", str(path)])
    assert "Not recorded." in capsys.readouterr().out


def test_broken_facts_are_told_in_one_line(saved):
    path = saved("one")
    facts = json.loads((path / "bundle.json").read_text())
    (path / "bundle.json").write_text(json.dumps(facts | {"origin": {"data": {"store": 3}}}))
    with pytest.raises(CheckpointError, match="its facts cannot be told on a card") as caught:
        bundles.read_card(path)
    assert "\n" not in str(caught.value)


def test_a_converted_model_names_its_file(saved, tmp_path):
    (tmp_path / "model.ckpt").write_bytes(b"weights")
    told = card.of_file(tmp_path / "model.ckpt")
    text = (saved("one", origin=told) / "model_card.md").read_text()
    assert "Converted from `model.ckpt`" in text
    assert told["sha256"] in text
