"""Fine-tuning Chronos-2 through its package: with a stand-in, and with a tiny real model where it is installed."""

from __future__ import annotations

import json
import sys

import fake_forecast_models
import fake_foundation
import numpy as np
import pytest
from made_days import made_day

from wearjax.cli import finetune
from wearjax.days import splits
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError
from wearjax.predict.forecasters import chronos2_training
from wearjax.predict.forecasters.chronos2 import Chronos2
from wearjax.predict.forecasters.chronos2_training import FineTuning
from wearjax.segments import forecast_points, trajectories

torch = pytest.importorskip("torch")

CONTEXT, HORIZON = 60, 24


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuning") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made_day(p, d) for p in "abcd" for d in range(7) if (p, d) != ("a", 5))
    splits.write_splits(path, splits.Splits(("a", "b"), ("c",), ("d",)))
    return path


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    fake_forecast_models.install(monkeypatch)
    return fake_forecast_models.chronos_folder(tmp_path / "base")


@pytest.fixture
def fits(monkeypatch):
    """What `fit` of the stand-in is called with."""
    seen: list = []
    fit = fake_forecast_models.Chronos2Pipeline.fit

    def recorded(self, *args, **options):
        seen.append((self, options))
        return fit(self, *args, **options)

    monkeypatch.setattr(fake_forecast_models.Chronos2Pipeline, "fit", recorded)
    return seen


def tune(store, checkpoint, out, **options):
    settings = FineTuning(**{"context": CONTEXT, "steps": 3, "batch_size": 2, **options.pop("settings", {})})
    return chronos2_training.fine_tune(
        store, checkpoint=checkpoint, out=out, settings=settings, device="cpu", **options
    )


def test_the_package_gets_training_windows_and_the_published_settings(store, checkpoint, fits, tmp_path):
    steps = []
    made = tune(store, checkpoint, tmp_path / "out", progress=lambda *at: steps.append(at))
    assert made == tmp_path / "out"
    assert steps == [(1, 3), (2, 3), (3, 3)]
    ((pipeline, options),) = fits
    records = trajectories.open_trajectories(store, participants=("a", "b"))
    points = forecast_points.sample(records, HORIZON, cap=None)
    windows = options["inputs"]
    assert len(windows) == sum(map(len, points.values())) > 0
    places = [(user, day) for user in points for day in points[user]]
    for window, (user, day) in zip(windows, places, strict=True):
        values = records.get(user).values
        wanted = np.full((19, CONTEXT + HORIZON), np.nan, np.float32)
        part = values[:, max(0, 24 * day - CONTEXT) : 24 * day + HORIZON]
        wanted[:, -part.shape[1] :] = part
        np.testing.assert_array_equal(window["context"].numpy(), wanted)
        assert torch.isnan(window["future_covariates"]).all()
        assert window["future_covariates"].shape == (19, HORIZON)
        assert (window["n_targets"], window["n_covariates"], window["n_future_covariates"]) == (19, 0, 0)
    # Context and target have one place in a window: the package cannot move it.
    assert options["min_past"] == options["context_length"] == CONTEXT
    assert options["prediction_length"] == HORIZON
    assert options["finetune_mode"] == "lora"
    assert (options["lora_config"]["r"], options["lora_config"]["lora_alpha"]) == (8, 16)
    assert options["batch_size"] == 2 * 19
    assert fake_foundation.Chronos2Pipeline.loaded[0][1]["dtype"] == torch.float32
    record = json.loads((made / "fine_tuning.json").read_text())
    assert record["windows"] == len(windows)
    assert record["participants"] == 2
    assert [entry["step"] for entry in record["loss"]] == [1, 2, 3]
    assert sorted(p.name for p in made.iterdir()) == ["checkpoint", "fine_tuning.json"]
    assert {p.name for p in tmp_path.iterdir()} == {"base", "out"}
    # Plain weights are saved, whatever the mode: they open without adapters.
    saved = torch.load(made / "checkpoint" / "weights.pt")
    for name, value in pipeline.model.state_dict().items():
        torch.testing.assert_close(saved[name], value + 1)
    assert Chronos2(made, device="cpu").predict(fake_forecast_models.history(50), 24)[0].shape == (19, 24)


def test_all_weights_need_no_adapters(store, checkpoint, fits, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError, match=r"low-rank updates .*'peft'.*pip install 'wearjax\[foundation\]'"):
        tune(store, checkpoint, tmp_path / "out")  # the package alone would train all weights and only warn
    assert not fits
    tune(store, checkpoint, tmp_path / "out", settings={"mode": "full"})
    assert fits[0][1]["finetune_mode"] == "full"
    assert "lora_config" not in fits[0][1]


def test_the_folder_appears_when_training_is_over(store, checkpoint, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(store, checkpoint, tmp_path / "out", progress=interrupt)
    assert {p.name for p in tmp_path.iterdir()} == {"base"}
    tune(store, checkpoint, tmp_path / "out")
    with pytest.raises(ConfigError, match="exists; pass --force"):
        tune(store, checkpoint, tmp_path / "out")
    tune(store, checkpoint, tmp_path / "out", force=True, settings={"steps": 1})
    assert json.loads((tmp_path / "out" / "fine_tuning.json").read_text())["steps"] == 1


def test_new_weights_are_seeded(store, checkpoint, tmp_path, monkeypatch):
    drawn = []
    fit = fake_forecast_models.Chronos2Pipeline.fit

    def drawing(self, *args, **options):
        assert options["seed"] in (1, 2)
        drawn.append(float(torch.rand(())))
        return fit(self, *args, **options)

    monkeypatch.setattr(fake_forecast_models.Chronos2Pipeline, "fit", drawing)
    for number, seed in enumerate((1, 1, 2)):
        tune(store, checkpoint, tmp_path / f"out{number}", settings={"seed": seed})
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "half"}, "mode 'half': expected lora or full"),
        ({"rank": 0}, "rank: must be at least 1, got 0"),
        ({"learning_rate": 0.0}, r"learning_rate: must be positive, got 0\.0"),
        ({"seed": -1}, "seed: must be in"),
        ({"alpha": float("nan")}, "alpha: must be positive, got nan"),
    ],
)
def test_impossible_settings(options, message):
    with pytest.raises(ConfigError, match=message):
        FineTuning(**options)


def test_no_window_to_learn_from(store, checkpoint, tmp_path):
    with pytest.raises(ConfigError, match="no training participant has a time point"):
        tune(store, checkpoint, tmp_path / "out", settings={"horizon": 24 * 7})
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("fits")
def test_the_verb(store, checkpoint, tmp_path, capsys):
    finetune.chronos2(
        store,
        checkpoint=str(checkpoint),
        out=tmp_path / "out",
        context=CONTEXT,
        steps=2,
        rank=4,
        device="cpu",
    )
    record = json.loads((tmp_path / "out" / "fine_tuning.json").read_text())
    assert (record["rank"], record["steps"], record["mode"]) == (4, 2, "lora")
    assert str(tmp_path / "out") in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize("mode", ["full", "lora"])
def test_real_chronos_learns(store, tmp_path, mode):
    package = pytest.importorskip("chronos.chronos2")
    pytest.importorskip("accelerate")
    if mode == "lora":
        pytest.importorskip("peft")
    sizes = {
        "context_length": 64, "output_patch_size": 16, "input_patch_size": 16, "input_patch_stride": 16,
        "quantiles": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], "use_reg_token": True, "use_arcsinh": True,
        "max_output_patches": 4, "time_encoding_scale": 64,
    }  # fmt: skip
    config = package.Chronos2CoreConfig(
        d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, reg_token_id=1, chronos_config=sizes,
        architectures=["Chronos2Model"],
    )  # fmt: skip
    package.Chronos2Model(config).save_pretrained(tmp_path / "base")
    made = tune(
        store, tmp_path / "base", tmp_path / "out",
        settings={"mode": mode, "steps": 40, "learning_rate": 1e-2, "context": 64},
    )  # fmt: skip
    losses = [entry["loss"] for entry in json.loads((made / "fine_tuning.json").read_text())["loss"]]
    assert np.mean(losses[-3:]) < 0.97 * np.mean(losses[:3])
    assert not list((made / "checkpoint").glob("adapter*"))
    history = fake_forecast_models.history(64)
    before, after = (Chronos2(p, device="cpu").predict(history, 24)[0] for p in (tmp_path / "base", made))
    assert np.abs(after - before).max() > 1e-3
