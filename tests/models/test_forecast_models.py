"""DLinear, SegRNN and MixLinear as forecasters; their parity with PyPOTS is tested with its layout."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.errors import ConfigError
from wearjax.models import registry, segrnn
from wearjax.models.dlinear_forecast import DLinearForecastConfig
from wearjax.models.mixlinear import MixLinearConfig
from wearjax.models.segrnn import SegRNNConfig
from wearjax.train import state

SMALL = {
    "dlinear_forecast": DLinearForecastConfig(steps=48, horizon=12, window=5, d_model=3),
    "segrnn": SegRNNConfig(steps=48, horizon=12, segment=6, d_model=4, dropout=0.5),
    "mixlinear": MixLinearConfig(steps=48, horizon=12),
}
PARAMETERS = {
    # Two branches: embedding, the last 24 hours of the map over time, projection.
    "dlinear_forecast": 2 * (38 * 64 + 64 + 336 * 24 + 24 + 64 * 19 + 19),
    # Mixing of channels, segments, two kernels and biases of the gates, queries, hours of a segment.
    "segrnn": (38 * 19 + 19) + (12 * 64 + 64) + 2 * (64 * 192 + 192) + (2 + 19) * 32 + (64 * 12 + 12),
    # Mixing, two grid maps, smoothing, two complex maps, mixing back.
    "mixlinear": (38 * 19 + 19) + 2 * 8 * 2 + 7 + 2 * (2 * 2 + 2 * 4) + (19 * 19 + 19),
}


def made(config, seed: int = 0):
    model = registry.of(config).build(config, rngs=nnx.Rngs(seed))
    rng = np.random.default_rng(seed)
    observed = (rng.random((2, config.steps, 19)) < 0.7).astype(np.float32)
    return model, jnp.asarray(rng.normal(0, 1, observed.shape) * observed, jnp.float32), jnp.asarray(observed)


@pytest.mark.parametrize("kind", registry.FORECASTERS)
def test_parameters_of_the_published_sizes(kind):
    architecture = registry.get(kind)
    _, params, _ = state.blueprint(lambda rngs: architecture.build(architecture.config(), rngs=rngs))
    assert state.count(params) == PARAMETERS[kind]
    assert registry.of(SMALL[kind]) is architecture
    assert architecture.training_flops(SMALL[kind]) > 0


@pytest.mark.parametrize("kind", registry.FORECASTERS)
def test_examples_do_not_see_each_other_and_flags_of_observation_are_read(kind):
    model, x, observed = made(SMALL[kind])
    if kind == "dlinear_forecast":
        model.trend.time.kernel[...] += 0.1 * jax.random.normal(jax.random.key(0), (48, 12))
    run = nnx.jit(lambda model, x, m: model.forecast(x, m))
    before = np.asarray(run(model, x, observed))
    after = np.asarray(run(model, x, observed.at[0, 40, 2].set(1 - observed[0, 40, 2])))
    assert before.shape == (2, 12, 19)
    assert before.dtype == np.float32
    assert not np.allclose(before[0], after[0], atol=1e-6)
    np.testing.assert_array_equal(before[1], after[1])


@pytest.mark.parametrize("config", [SMALL["dlinear_forecast"], SMALL["segrnn"]])
def test_bfloat16_is_near(config):
    exact, x, observed = made(config)
    model = registry.of(config).build(dataclasses.replace(config, dtype="bfloat16"), rngs=nnx.Rngs(0))
    found, wanted = (np.asarray(nnx.jit(lambda m: m.forecast(x, observed))(m)) for m in (model, exact))
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 0.1


def test_segrnn_drops_decoded_units_with_keys_only():
    model, x, observed = made(SMALL["segrnn"])
    keys = jax.random.split(jax.random.key(1), 2)
    run = nnx.jit(lambda model, keys: model.forecast(x, observed, keys=keys))
    plain, dropped = np.asarray(run(model, None)), np.asarray(run(model, keys))
    assert not np.allclose(plain, dropped)
    np.testing.assert_array_equal(dropped, np.asarray(run(model, keys)))
    swapped = np.asarray(run(model, keys[::-1]))  # the draw of an example is its key's alone
    assert not np.allclose(swapped[0], dropped[0])
    model.predict.kernel[...] *= 0  # then nothing of the decoded state is read
    np.testing.assert_array_equal(np.asarray(run(model, keys)), np.asarray(run(model, None)))


def test_gru_step_is_the_gated_sum():
    rng = np.random.default_rng(0)
    x, h = rng.normal(size=(5, 9)), rng.normal(size=(5, 9))
    before = rng.normal(size=(5, 3))
    sigmoid = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
    reset, update = sigmoid(x[:, :3] + h[:, :3]), sigmoid(x[:, 3:6] + h[:, 3:6])
    wanted = (1 - update) * np.tanh(x[:, 6:] + reset * h[:, 6:]) + update * before
    found = segrnn.next_state(*(jnp.asarray(a, jnp.float32) for a in (x, h, before)))
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-6)


def test_starts():
    """As PyPOTS starts: DLinear's maps over time are means, MixLinear's complex maps are real."""
    model = made(SMALL["dlinear_forecast"])[0]
    np.testing.assert_array_equal(np.asarray(model.seasonal.time.kernel[...]), np.float32(1 / 48))
    mixed = made(SMALL["mixlinear"])[0]
    real, imaginary = np.asarray(mixed.narrow[...])
    assert np.abs(real).min() > 0
    assert not imaginary.any()


def test_mixlinear_repeats_a_constant():
    """A series that does not change is its own mean, which goes past all maps but those of the channels."""
    model, x, observed = made(SMALL["mixlinear"])
    x, observed = jnp.full_like(x, 0.7), jnp.ones_like(observed)
    found = np.asarray(model.forecast(x, observed))
    np.testing.assert_allclose(found, np.broadcast_to(found[:, :1], found.shape), atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DLinearForecastConfig(horizon=337), r"model.horizon: at most model.steps \(336\), got 337"),
        (lambda: DLinearForecastConfig(window=300), "model.window: must be odd, got 300"),
        (lambda: DLinearForecastConfig(dtype="float16"), "model.dtype: expected one of"),
        (lambda: SegRNNConfig(horizon=30), "model.horizon: must be whole segments of 12, got 30"),
        (lambda: SegRNNConfig(d_model=5), "model.d_model: must be even, got 5"),
        (lambda: SegRNNConfig(dropout=1.0), r"model.dropout: must be in \[0, 1\), got 1.0"),
        (lambda: MixLinearConfig(period=7), "model.period: must be even, got 7"),
        (lambda: MixLinearConfig(frequencies=57), "model.frequencies: at most the 56 segments, got 57"),
        (lambda: MixLinearConfig(time_share=1.5), r"model.time_share: must be in \[0, 1\], got 1.5"),
        (lambda: MixLinearConfig(rank=0), "model.rank: must be at least 1, got 0"),
        (lambda: MixLinearConfig(dtype="bfloat16"), "model.dtype: MixLinear computes in float32"),
    ],
)
def test_impossible_sizes(make, message):
    with pytest.raises(ConfigError, match=message):
        make()
