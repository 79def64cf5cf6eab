"""Toto as a forecaster: with a stand-in for its package, and with a tiny real model where it is installed."""

from __future__ import annotations

import json
import sys

import fake_forecast_models
import numpy as np
import pytest

from wearjax.channels import N_CHANNELS
from wearjax.errors import CheckpointError, ConfigError, MethodError
from wearjax.predict import forecaster
from wearjax.predict.forecasters.toto import Toto

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

LENGTH, PATCH = 32, 8
LEVELS = [i / 10 for i in range(1, 10)]


@pytest.fixture
def fakes(monkeypatch):
    fake_forecast_models.install(monkeypatch)


def build(folder, **options):
    return Toto(folder, **{"length": LENGTH, "device": "cpu", "n_samples": 64, **options})


def padded(history):
    values = np.full((1, N_CHANNELS, LENGTH), np.nan, np.float32)
    tail = history[:, -LENGTH:]
    values[0, :, LENGTH - tail.shape[1] :] = tail
    return torch.from_numpy(np.nan_to_num(values)), torch.from_numpy(np.isfinite(values))


def next_patch(model, inputs, mask):
    """Mean of the distribution of the patch after the inputs, in stored units."""
    with torch.no_grad():
        ids = torch.zeros_like(inputs, dtype=torch.long)
        features, loc, scale = model.backbone(inputs, mask, ids, scaling_prefix_length=LENGTH)
        mean = model.output_distribution.mean(features)[..., 0]
        return (loc + scale * mean)[..., -PATCH:], scale[..., -PATCH:]


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("hours", [100, 20])
def test_deciles_are_those_of_the_distribution_of_the_patch_to_come(tmp_path, hours):
    model = fake_forecast_models.toto_folder(tmp_path / "toto")
    history = fake_forecast_models.history(hours)
    given = history.copy()
    toto = build(tmp_path / "toto", n_samples=4000)
    point, quantiles = toto.predict(history, 6)
    np.testing.assert_array_equal(history, given)
    mean, scale = (x[0, :, :6].numpy() for x in next_patch(model, *padded(history)))
    normal = torch.distributions.Normal(0.0, 1.0).icdf(torch.tensor(LEVELS)).numpy()
    wanted = mean[..., None] + scale[..., None] * normal
    assert np.abs((quantiles - wanted) / scale[..., None]).max() < 0.15  # five standard errors of a decile
    np.testing.assert_array_equal(point, quantiles[..., 4])
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    assert point.dtype == quantiles.dtype == np.float32
    ((inputs, mask, prefix),) = toto._backbone.calls  # one pass, and padding counts as missing
    np.testing.assert_array_equal(mask.numpy(), padded(history)[1].numpy())
    assert (inputs[~mask] == 0).all()
    assert prefix == LENGTH
    assert forecaster.call_predict(toto, history, 6).levels == tuple(LEVELS)


@pytest.mark.usefixtures("fakes")
def test_draws_depend_on_seed_and_history_alone(tmp_path):
    fake_forecast_models.toto_folder(tmp_path / "toto")
    histories = [fake_forecast_models.history(n, seed=n) for n in (40, 24, 64)]
    toto = build(tmp_path / "toto", batch_size=2)
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    together = toto.predict_batch(histories, 6)
    assert torch.equal(torch.random.get_rng_state(), state)
    for history, (point, quantiles) in zip(reversed(histories), reversed(together), strict=True):
        again = toto.predict(history, 6)
        np.testing.assert_allclose(again[0], point, rtol=1e-5)
        np.testing.assert_allclose(again[1], quantiles, rtol=1e-5)
    other = build(tmp_path / "toto", seed=1).predict(histories[0], 6)
    assert np.abs(other[1] - together[0][1]).max() > 1e-2
    assert toto.predict_batch([], 6) == []
    # Other histories have other draws: their noise does not go the same way.
    means = [next_patch(toto._backbone, *padded(history))[0][0, :, :6].numpy() for history in histories]
    noise = [point - mean for (point, _), mean in zip(together, means, strict=True)]
    assert abs(np.corrcoef(noise[0].ravel(), noise[2].ravel())[0, 1]) < 0.5


@pytest.mark.usefixtures("fakes")
def test_a_horizon_beyond_the_patch_is_decoded_patch_by_patch(tmp_path):
    model = fake_forecast_models.toto_folder(tmp_path / "toto", spread=0.0)  # every sample is the mean
    history = fake_forecast_models.history(50)
    toto = build(tmp_path / "toto", n_samples=40)
    point, quantiles = toto.predict(history, 20)
    inputs, mask = padded(history)
    for _ in range(3):
        ahead, _ = next_patch(model, inputs, mask)
        inputs = torch.cat([inputs, ahead], dim=-1)
        mask = torch.cat([mask, torch.ones_like(ahead, dtype=torch.bool)], dim=-1)
    np.testing.assert_allclose(point, inputs[0, :, LENGTH : LENGTH + 20].numpy(), rtol=1e-4, atol=1e-3)
    assert np.ptp(quantiles, axis=-1).max() < 1e-4
    assert [len(given) for given, *_ in toto._backbone.calls] == [1, 32, 32, 8, 8]  # samples go in two parts


@pytest.mark.usefixtures("fakes")
def test_every_sample_goes_its_own_way_beyond_the_patch(tmp_path):
    fake_forecast_models.toto_folder(tmp_path / "toto")
    toto = build(tmp_path / "toto")
    history = fake_forecast_models.history(50)
    _, quantiles = toto.predict(history, 20)
    assert quantiles.shape == (N_CHANNELS, 20, 9)
    last = toto._backbone.calls[-1][0][:, :, LENGTH : LENGTH + PATCH]
    assert (last.std(dim=0) > 0).all()
    np.testing.assert_array_equal(toto.predict(history, 20)[1], quantiles)


@pytest.mark.usefixtures("fakes")
def test_impossible_numbers_of_the_model(tmp_path):
    fake_forecast_models.toto_folder(tmp_path / "toto")
    toto = build(tmp_path / "toto")
    with torch.no_grad():
        toto._backbone.output_distribution.mean.bias.fill_(torch.inf)
        assert (toto.predict(fake_forecast_models.history(40), 6)[1] == 0).all()  # as the package has it
        toto._backbone.unembed.bias.fill_(torch.nan)
    point, quantiles = toto.predict(fake_forecast_models.history(40), 6)
    assert np.isnan(point).all()  # no forecast: the harness puts seasonal naive there
    assert np.isnan(quantiles).all()


@pytest.mark.usefixtures("fakes")
def test_lower_precision_is_nearby(tmp_path):
    fake_forecast_models.toto_folder(tmp_path / "toto", spread=0.0)
    full, half = (build(tmp_path / "toto", dtype=d) for d in ("float32", "bfloat16"))
    history = fake_forecast_models.history(40)
    (one, _), (other, _) = (toto.predict(history, 6) for toto in (full, half))
    assert other.dtype == np.float32
    assert 0 < np.abs(one - other).max() < 1
    assert full.settings != half.settings
    assert full.settings == build(tmp_path / "toto").settings  # float32 where there is no GPU


@pytest.mark.usefixtures("fakes")
def test_what_does_not_fit_is_refused(tmp_path, monkeypatch):
    fake_forecast_models.toto_folder(tmp_path / "toto")
    with pytest.raises(ConfigError, match="multiple of the patch 8"):
        build(tmp_path / "toto", length=60)
    with pytest.raises(ConfigError, match="n_samples must be at least 1, got 0"):
        build(tmp_path / "toto", n_samples=0)
    with pytest.raises(ConfigError, match="no such checkpoint"):
        build(tmp_path / "absent")
    with pytest.raises(ConfigError, match="dtype 'float16'"):
        build(tmp_path / "toto", dtype="float16")
    toto = build(tmp_path / "toto")
    for shape in ((19, 0), (7, 30), (19,)):
        with pytest.raises(MethodError, match=r"toto: expected a history \(19, hours\), got"):
            toto.predict(np.zeros(shape, np.float32), 6)
    with pytest.raises(MethodError, match="horizon of 0 hours"):
        toto.predict(fake_forecast_models.history(40), 0)
    config = json.loads((tmp_path / "toto" / "config.json").read_text())
    (tmp_path / "toto" / "config.json").write_text(json.dumps({**config, "embed_dim": 7}))
    with pytest.raises(CheckpointError, match=r"model\.safetensors: weight .* needs"):
        build(tmp_path / "toto")
    monkeypatch.setitem(sys.modules, "toto.model.backbone", None)
    with pytest.raises(ConfigError, match=r"'toto'.*pip install 'wearjax\[foundation\]'"):
        build(tmp_path / "toto")


def test_real_toto_agrees_with_the_packages_own_samples(tmp_path):
    backbone = pytest.importorskip("toto.model.backbone")
    package = pytest.importorskip("toto.inference.forecaster")
    from safetensors.torch import save_file

    config = {
        "patch_size": 8, "stride": 8, "embed_dim": 12, "num_layers": 2, "num_heads": 2, "mlp_hidden_dim": 16,
        "dropout": 0.1, "spacewise_every_n_layers": 2, "spacewise_first": False,
        "scaler_cls": "<class 'model.scaler.CausalPatchStdMeanScaler'>",
        "output_distribution_classes": ["<class 'model.distribution.MixtureOfStudentTsOutput'>"],
        "output_distribution_kwargs": {"k_components": 2},
    }  # fmt: skip
    torch.manual_seed(0)
    model = backbone.TotoBackbone(**config, use_memory_efficient_attention=False).eval()
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = {f"model.{k}": v.clone() for k, v in model.state_dict().items()}
    save_file(weights, tmp_path / "model.safetensors")
    history = fake_forecast_models.history(100)
    inputs, mask = padded(history)
    series = package.MaskedTimeseries(
        inputs, mask, torch.zeros_like(inputs, dtype=torch.long), torch.zeros_like(inputs, dtype=torch.long),
        torch.full(inputs.shape[:2], 3600),
    )  # fmt: skip
    wanted = package.TotoForecaster(model).forecast(series, 16, num_samples=512, samples_per_batch=512)
    for horizon in (6, 16):  # in one pass, and patch by patch
        _, quantiles = build(tmp_path, n_samples=512).predict(history, horizon)
        middle = torch.stack([wanted.quantile(level) for level in LEVELS[2:7]], dim=-1)[
            0, :, :horizon
        ].numpy()
        spread = (wanted.quantile(0.75) - wanted.quantile(0.25))[0, :, :horizon, None].numpy()
        assert np.abs((quantiles[..., 2:7] - middle) / spread).max() < 0.5
