from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, PartitionSpec

from wearjax.days.hourly_scaler import HourlyScaler
from wearjax.models.segrnn import SegRNN, SegRNNConfig
from wearjax.objectives import forecast
from wearjax.objectives.forecast import MaskedForecast

CONFIG = SegRNNConfig(steps=24, horizon=12, d_model=4, dropout=0.3)
STATS = HourlyScaler(np.arange(19.0), 1.0 + np.arange(19) / 2, 0.0)


@pytest.fixture(scope="module")
def model():
    return SegRNN(CONFIG, rngs=nnx.Rngs(0))


def made(count: int = 8):
    rng = np.random.default_rng(0)
    values = rng.normal(5, 3, (count, CONFIG.steps + CONFIG.horizon, 19)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, :, 4] = np.nan
    values[2] = np.nan
    values[3, CONFIG.steps :] = np.nan
    return values


class Fixed:
    """Forecasts zeros: the mean of every channel."""

    config = CONFIG

    def forecast(self, x, observed, *, keys=None):
        return jnp.zeros((len(x), CONFIG.horizon, 19)) + 0 * x.sum()


def test_loss_is_the_mean_of_the_observed_errors():
    values = made()
    errors = np.abs(values[:, CONFIG.steps :] - STATS.means) / STATS.stds
    loss, metrics = MaskedForecast(STATS)(
        Fixed(), {"values": jnp.asarray(values)}, key=jax.random.key(0), train=True
    )
    np.testing.assert_allclose(float(loss), np.nanmean(errors), rtol=1e-5)
    np.testing.assert_allclose(float(metrics["mae_continuous"]), np.nanmean(errors[..., :7]), rtol=1e-5)
    np.testing.assert_allclose(float(metrics["mae_binary"]), np.nanmean(errors[..., 7:]), rtol=1e-5)
    history, target = values[:, : CONFIG.steps], values[:, CONFIG.steps :]
    np.testing.assert_allclose(float(metrics["missing_history"]), np.isnan(history).mean(), rtol=1e-5)
    np.testing.assert_allclose(float(metrics["missing_target"]), np.isnan(target).mean(), rtol=1e-5)


def test_standardizing_and_back():
    values = made()
    scaled, observed = forecast.standardize(jnp.asarray(values), STATS)
    np.testing.assert_array_equal(np.asarray(observed), np.isfinite(values))
    assert not np.asarray(scaled)[np.isnan(values)].any()
    back = np.asarray(forecast.restore(scaled, STATS))
    np.testing.assert_allclose(back[np.isfinite(values)], values[np.isfinite(values)], atol=1e-5)


@pytest.fixture(scope="module")
def gradient():
    def run(model, values, train=True):
        def loss(model):
            return MaskedForecast(STATS)(model, {"values": values}, key=jax.random.key(3), train=train)

        return nnx.value_and_grad(loss, has_aux=True)(model)

    return nnx.jit(run, static_argnums=2)


def leaves(grads):
    return np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(grads)])


def test_missing_hours_reach_neither_loss_nor_gradient(model, gradient):
    values = made()
    (loss, metrics), grads = gradient(model, jnp.asarray(values))
    assert np.isfinite(leaves(grads)).all()
    assert np.abs(leaves(grads)).max() > 0
    assert all(np.isfinite(float(value)) for value in metrics.values())
    # A window without anything to forecast counts for nothing, whatever its history is.
    changed = values.copy()
    changed[3, : CONFIG.steps] = 1000.0
    (same, _), others = gradient(model, jnp.asarray(changed))
    assert float(same) == float(loss)
    np.testing.assert_array_equal(leaves(others), leaves(grads))


def test_a_batch_with_nothing_to_forecast_is_zero(model, gradient):
    values = made()
    values[:, CONFIG.steps :] = np.nan
    (loss, _), grads = gradient(model, jnp.asarray(values))
    assert float(loss) == 0.0
    assert not leaves(grads).any()


def test_dropout_in_training_only(model, gradient):
    values = jnp.asarray(made())
    training, validation = float(gradient(model, values)[0][0]), float(gradient(model, values, False)[0][0])
    assert training != validation


def test_devices_share_the_loss_of_the_whole_batch(model):
    values = jnp.asarray(made(16))
    mesh = Mesh(np.asarray(jax.devices()[:8]), ("data",))
    graph, params = nnx.split(model)

    def run(objective, values):
        batch = {"values": values}
        return objective(nnx.merge(graph, params), batch, key=jax.random.key(1), train=True)

    alone = jax.jit(lambda v: run(MaskedForecast(STATS), v))(values)
    spread = jax.jit(
        jax.shard_map(
            lambda v: run(MaskedForecast(STATS, "data"), v), mesh=mesh, in_specs=PartitionSpec("data"),
            out_specs=PartitionSpec(), check_vma=False,
        )
    )(values)  # fmt: skip
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), spread, alone)
