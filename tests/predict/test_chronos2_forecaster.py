"""Chronos-2 as a forecaster: with a stand-in for its package, and with a tiny real model where it is installed."""

from __future__ import annotations

import sys

import fake_forecast_models
import fake_foundation
import numpy as np
import pytest

from wearjax.errors import CheckpointError, ConfigError, MethodError
from wearjax.predict import forecaster
from wearjax.predict.forecasters.chronos2 import Chronos2

torch = pytest.importorskip("torch")

LEVELS = [i / 10 for i in range(1, 10)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    fake_forecast_models.install(monkeypatch)
    return fake_forecast_models.chronos_folder(tmp_path / "release")


def test_deciles_and_the_packages_mean_of_every_history(folder):
    chronos = Chronos2(folder, device="cpu", batch_size=2)
    ((path, options),) = fake_foundation.Chronos2Pipeline.loaded
    assert path == str(folder / "checkpoint")
    assert options == {"dtype": torch.float32, "local_files_only": True}
    assert not chronos._pipeline.model.training
    histories = [fake_forecast_models.history(n, seed=n) for n in (30, 100)]
    found = chronos.predict_batch(histories, 24)
    (call,) = chronos._pipeline.calls
    assert call["levels"] == LEVELS
    assert (call["batch_size"], call["context_length"]) == (2 * 19, 48)  # the checkpoint's own context
    for given, history in zip(call["inputs"], histories, strict=True):
        np.testing.assert_array_equal(given, history[:, -48:])
    for history, (point, quantiles) in zip(histories, found, strict=True):
        last = np.nan_to_num(history[:, -1:])
        np.testing.assert_allclose(point, np.tile(last + 0.5, 24))
        np.testing.assert_allclose(
            quantiles, np.tile(last[..., None] + np.asarray(LEVELS), (1, 24, 1)), rtol=1e-6
        )
        assert point.dtype == quantiles.dtype == np.float32
    one = forecaster.call_predict(chronos, histories[0], 24)
    assert one.levels == tuple(LEVELS)
    np.testing.assert_array_equal(one.point, found[0][0])
    assert [len(forecaster.call_predict_batch(chronos, histories[:n], 24)) for n in (1, 2)] == [1, 2]
    assert chronos.predict_batch([], 24) == []


def test_precision_and_context_can_be_chosen(folder):
    chronos = Chronos2(folder, device="cpu", dtype="bfloat16", length=12)
    assert fake_foundation.Chronos2Pipeline.loaded[-1][1]["dtype"] == torch.bfloat16
    point, quantiles = chronos.predict(fake_forecast_models.history(30), 24)
    assert point.dtype == quantiles.dtype == np.float32
    assert chronos._pipeline.calls[0]["inputs"][0].shape == (19, 12)
    assert chronos.settings["hours"] == 12
    assert chronos.settings != Chronos2(folder, device="cpu", length=12).settings


def test_what_does_not_fit_is_refused(folder, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="context of 49 hours; the checkpoint takes 1 to 48"):
        Chronos2(folder, length=49)
    with pytest.raises(ConfigError, match="context of 0 hours"):
        Chronos2(folder, length=0)
    with pytest.raises(ConfigError, match="no such checkpoint"):
        Chronos2(tmp_path / "absent")
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        Chronos2(tmp_path)
    chronos = Chronos2(folder, device="cpu")
    with pytest.raises(MethodError, match=r"chronos2: expected a history \(19, hours\), got \(7, 30\)"):
        chronos.predict(np.zeros((7, 30), np.float32), 24)
    with pytest.raises(MethodError, match="horizon of 0 hours"):
        chronos.predict(fake_forecast_models.history(30), 0)
    monkeypatch.setattr(fake_forecast_models.Chronos2Pipeline, "quantiles", (0.1, 0.5, 0.9))
    with pytest.raises(CheckpointError, match=r"without the quantile 0\.2"):
        Chronos2(folder)
    monkeypatch.setitem(sys.modules, "chronos", None)
    with pytest.raises(ConfigError, match=r"'chronos'.*pip install 'wearjax\[foundation\]'"):
        Chronos2(folder)


def test_real_chronos_forecasts_each_history_by_itself(tmp_path):
    package = pytest.importorskip("chronos.chronos2")
    sizes = {
        "context_length": 48, "output_patch_size": 16, "input_patch_size": 16, "input_patch_stride": 16,
        "quantiles": [0.05, *LEVELS, 0.95], "use_reg_token": True, "use_arcsinh": True, "max_output_patches": 4,
        "time_encoding_scale": 48,
    }  # fmt: skip
    torch.manual_seed(0)
    config = package.Chronos2CoreConfig(
        d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, reg_token_id=1, chronos_config=sizes,
        architectures=["Chronos2Model"],
    )  # fmt: skip
    model = package.Chronos2Model(config).eval()
    model.save_pretrained(tmp_path / "checkpoint")
    histories = [fake_forecast_models.history(n, seed=n) for n in (30, 100, 48)]
    chronos = Chronos2(tmp_path, device="cpu")
    together = chronos.predict_batch(histories, 24)
    for history, (point, quantiles) in zip(histories, together, strict=True):
        context = torch.from_numpy(history[:, -48:])
        with torch.no_grad():
            direct = model(context=context, group_ids=torch.zeros(19, dtype=torch.long), num_output_patches=2)
        wanted = direct.quantile_preds[:, 1:-1, :24].movedim(1, -1).numpy()
        np.testing.assert_allclose(quantiles, wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(point, quantiles[..., 4])
        assert np.isfinite(quantiles).all()
        np.testing.assert_allclose(chronos.predict(history, 24)[1], quantiles, rtol=1e-4, atol=1e-4)
