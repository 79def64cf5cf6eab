from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import wearjax
from wearjax.convert import bundle as bundles
from wearjax.convert.bundle import Bundle
from wearjax.days.hourly_scaler import HourlyScaler
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import MethodError
from wearjax.models import registry
from wearjax.models.dlinear import DLinearConfig
from wearjax.models.lsm2 import LSM2Config
from wearjax.models.segrnn import SegRNNConfig
from wearjax.predict import forecaster as contract
from wearjax.predict.forecasters import loading
from wearjax.predict.forecasters.series import SeriesForecaster
from wearjax.predict.pretrained import Pretrained

CONFIG = SegRNNConfig(steps=48, d_model=4)
STATS = HourlyScaler(np.linspace(-3, 3, 19), np.linspace(0.5, 4, 19), 0.0)


@pytest.fixture(scope="module")
def bundle():
    return Bundle("segrnn", CONFIG, registry.get("segrnn").build(CONFIG, rngs=nnx.Rngs(0)), STATS)


@pytest.fixture(scope="module")
def histories():
    rng = np.random.default_rng(0)
    made = [rng.normal(2, 1, (19, n)).astype(np.float32) for n in (24, 48, 72, 96, 120)]
    for history in made:
        history[rng.random(history.shape) < 0.3] = np.nan
    return made


def plainly(bundle, history):
    """One window by hand."""
    x = np.full((1, CONFIG.steps, 19), np.nan)
    x[0, -min(CONFIG.steps, history.shape[1]) :] = history[:, -CONFIG.steps :].T
    observed = np.isfinite(x)
    scaled = np.where(observed, (x - STATS.means) / STATS.stds, 0)
    found = bundle.model.forecast(jnp.asarray(scaled, jnp.float32), jnp.asarray(observed, jnp.float32))
    return (np.asarray(found)[0] * STATS.stds + STATS.means).T


def test_forecasts_of_many_are_those_of_each(bundle, histories):
    method = SeriesForecaster(bundle, batch_size=2)
    together = method.predict_batch(histories, 24)
    assert together.shape == (5, 19, 24)
    assert together.dtype == np.float32
    for history, found in zip(histories, together, strict=True):
        np.testing.assert_allclose(found, plainly(bundle, history), atol=2e-5)
        np.testing.assert_allclose(method.predict(history, 24), found, atol=1e-6)
    assert method._forecast.func._cache_size() == 1  # the last call is padded
    assert method.predict_batch([], 24).shape == (0, 19, 24)


def test_only_the_last_hours_are_read(bundle, histories):
    method = SeriesForecaster(bundle)
    long = histories[4]
    longer = np.concatenate([np.full((19, 30), 1e6, np.float32), long], axis=1)
    np.testing.assert_array_equal(method.predict(long, 24), method.predict(longer, 24))
    np.testing.assert_array_equal(
        method.predict(histories[0], 24),
        method.predict(np.concatenate([np.full((19, 500), np.nan, np.float32), histories[0]], axis=1), 24),
    )


def test_a_history_without_anything(bundle):
    assert np.isfinite(SeriesForecaster(bundle).predict(np.full((19, 24), np.nan, np.float32), 24)).all()


def test_it_keeps_the_contract(bundle, histories):
    method = SeriesForecaster(bundle)
    assert isinstance(method, contract.Forecaster)
    contract.check_horizon(method, 24)
    with pytest.raises(MethodError, match="forecasts 24 hours"):
        contract.check_horizon(method, 48)
    one = contract.call_predict(method, histories[1], 24)
    many = contract.call_predict_batch(method, histories, 24)
    assert one.quantiles is None
    np.testing.assert_allclose(many[1].point, one.point, atol=1e-6)
    assert method.name == "segrnn"


def test_settings_tell_what_it_is(bundle):
    one = SeriesForecaster(bundle).settings
    assert one["kind"] == "segrnn"
    assert one["config"]["steps"] == 48
    other = Bundle("segrnn", CONFIG, registry.get("segrnn").build(CONFIG, rngs=nnx.Rngs(1)), STATS)
    assert SeriesForecaster(other).settings["weights"] != one["weights"]
    scaled = Bundle("segrnn", CONFIG, bundle.model, HourlyScaler(STATS.means, 2 * STATS.stds, 0.0))
    assert SeriesForecaster(scaled).settings["weights"] != one["weights"]


def test_from_its_folder(bundle, histories, tmp_path):
    path = bundles.save_bundle(
        tmp_path / "bundle", kind="segrnn", config=CONFIG, model=bundle.model, stats=STATS
    )
    wanted = SeriesForecaster(bundle).predict(histories[2], 24)
    np.testing.assert_array_equal(loading.load(path).predict(histories[2], 24), wanted)
    np.testing.assert_array_equal(wearjax.load_pretrained(path).forecast(histories[2], 24), wanted)
    loaded = wearjax.load_pretrained(path)
    with pytest.raises(MethodError, match="cannot impute"):
        loaded.impute(np.zeros((1, 19, 1440)), np.ones((1, 19, 1440)), np.ones((1, 19, 1440)))


def test_what_it_refuses(bundle, histories):
    method = SeriesForecaster(bundle)
    with pytest.raises(MethodError, match=r"segrnn: forecasts 24 hours \(model.horizon\), 48 are asked for"):
        method.predict(histories[0], 48)
    with pytest.raises(MethodError, match=r"expected a history of shape \(19, hours\), got \(24, 19\)"):
        method.predict(histories[0].T, 24)
    with pytest.raises(MethodError, match="batch_size: must be at least 1"):
        SeriesForecaster(bundle, batch_size=0)
    small = DLinearConfig(minutes=30, d_model=2)
    imputer = Bundle(
        "dlinear",
        small,
        registry.get("dlinear").build(small, rngs=nnx.Rngs(0)),
        NormalizationStats.identity(),
    )
    with pytest.raises(
        MethodError, match="a model of kind 'dlinear' cannot forecast; kinds that can: dlinear_fore"
    ):
        loading.of_bundle(imputer)
    with pytest.raises(MethodError, match="a model of kind 'dlinear' predicts no outcome; lsm2 and wbm do"):
        Pretrained(imputer).as_predictor(None)


def test_an_lsm2_says_whether_it_forecasts_and_from_what():
    daily = Bundle("lsm2", LSM2Config(), None, NormalizationStats.identity())
    with pytest.raises(
        MethodError, match="a model of kind 'lsm2' for 1440 minutes cannot forecast; lsm2_sparse,"
    ):
        Pretrained(daily).forecast(np.zeros((19, 24), np.float32), 24)
    weekly = Bundle("lsm2", LSM2Config(minutes=7 * 1440, patch=60), None, NormalizationStats.identity())
    with pytest.raises(
        MethodError, match=r"from the minutes of a store, .*evaluate_forecasting\(model, data_dir="
    ):
        Pretrained(weekly).forecast(np.zeros((19, 24), np.float32), 24)
