"""The eight forecasters of VitalBench: shapes, channels, dropout, gradients; numbers are those of the golden cases."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.errors import ConfigError
from wearjax.models.vital import dlinear, micn, registry

BATCH, CONTEXT, HORIZON, CHANNELS = 2, 12, 4, 3
SMALL: dict[str, dict] = {
    "dlinear": {"window": 5},
    "lightts": {"d_model": 16},
    "itransformer": {"d_model": 8, "depth": 1, "n_heads": 2, "d_ff": 8},
    "patchtst": {"d_model": 8, "depth": 1, "n_heads": 2, "d_ff": 8, "patch": 4, "stride": 2},
    "fouriergnn": {"d_model": 8},
    "micn": {"d_model": 8, "depth": 1, "scales": (4,)},
    "s4": {"d_model": 8, "depth": 1, "d_state": 4, "patch": 6, "stride": 6},
    "mambats": {"d_model": 16, "depth": 1, "d_state": 2, "patch": 4, "stride": 4},
}
DROPS = {"itransformer", "patchtst", "micn", "s4", "mambats"}
FLEXIBLE = sorted(set(SMALL) - {"lightts", "micn"})


def small(kind: str, **changes):
    sizes = {"n_channels": CHANNELS, "context": CONTEXT, "horizon": HORIZON}
    return registry.get(kind).config(**sizes | SMALL[kind] | changes)


def windows(channels: int = CHANNELS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((BATCH, CONTEXT, channels), np.float32)


@pytest.fixture(scope="module", params=sorted(SMALL))
def made(request):
    """Kind, parameters away from their start, and compiled functions of forecast and gradient."""
    graph, shapes = nnx.split(registry.shapes(small(request.param)))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda p: jnp.asarray(0.3 * rng.normal(size=p.shape), jnp.float32), shapes)
    return request.param, params, functions(graph)


def functions(graph):
    def forecast(params, x):
        return registry.forecast(nnx.merge(graph, params), x)

    def loss(params, x, key):
        y = registry.forecast(nnx.merge(graph, params), x, key)
        return jnp.square(y).mean(), y

    return jax.jit(forecast), jax.jit(jax.grad(loss, has_aux=True))


def test_forecast_training_and_gradient(made):
    kind, params, (forecast, gradient) = made
    x = windows()
    y = forecast(params, x)
    assert (y.shape, y.dtype) == ((BATCH, HORIZON, CHANNELS), jnp.float32)
    grads, first = gradient(params, x, jax.random.key(0))
    _, second = gradient(params, x, jax.random.key(1))
    _, again = gradient(params, x, jax.random.key(0))
    np.testing.assert_array_equal(first, again)
    if kind in DROPS:
        assert not np.allclose(first, second, atol=1e-5)
        assert not np.allclose(first, y, atol=1e-5)
    else:
        np.testing.assert_allclose(first, y, atol=1e-5)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        assert np.isfinite(leaf).all(), path
        unread = ["time_features"] + [".bias"] * (kind in ("itransformer", "patchtst"))  # keys' bias cancels
        assert np.any(leaf) or any(name.strip(".") in str(path) for name in unread), path


def test_only_mixing_models_see_other_channels(made):
    kind, params, (forecast, _) = made
    rng = np.random.default_rng(
        5
    )  # LightTS starts with the identity between channels: as if training had moved it
    params = jax.tree.map(lambda leaf: leaf + 0.05 * rng.normal(size=leaf.shape).astype(np.float32), params)
    x = windows()
    changed = x.copy()
    changed[:, :, 0] = windows(seed=1)[:, :, 0]
    before, after = forecast(params, x), forecast(params, changed)
    assert not np.allclose(before[..., 0], after[..., 0], atol=1e-6)
    same = np.allclose(before[..., 1:], after[..., 1:], atol=1e-6)
    assert same != registry.get(kind).mixes_channels


def test_a_constant_window_is_finite(made):
    """Zeros where nothing was recorded, also under the window's own deviation."""
    _, params, (forecast, gradient) = made
    x = np.zeros((BATCH, CONTEXT, CHANNELS), np.float32)
    assert np.isfinite(forecast(params, x)).all()
    grads, _ = gradient(params, x, jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_number_of_channels(made):
    """Flexible models take others with the same parameters; the rest say what they want."""
    kind, params, (forecast, _) = made
    if kind not in FLEXIBLE:
        with pytest.raises(ConfigError, match=r"x: expected \(batch, 12, 3\), got \(2, 12, 2\)"):
            forecast(params, windows(2))
        return
    _, fewer = nnx.split(registry.shapes(small(kind, n_channels=CHANNELS + 4)))
    assert jax.tree.map(jnp.shape, fewer) == jax.tree.map(jnp.shape, params)
    assert jax.eval_shape(forecast, params, windows(2)).shape == (BATCH, HORIZON, 2)
    with pytest.raises(ConfigError, match="x: expected"):
        forecast(params, windows()[:, 1:])


@pytest.mark.parametrize("kind", ["mambats", "itransformer", "fouriergnn"])
def test_channels_that_fill_up_change_nothing(kind):
    """Forecasts and gradients of three channels of five are those of three alone.

    MambaTS, whose scan only runs forward and takes long to compile, is not differentiated here.
    """
    graph, shapes = nnx.split(registry.shapes(small(kind, n_channels=5)))
    rng = np.random.default_rng(3)
    params = jax.tree.map(lambda p: jnp.asarray(0.3 * rng.normal(size=p.shape), jnp.float32), shapes)
    x = windows(3)

    def loss(params, x, kept):
        y = registry.forecast(nnx.merge(graph, params), x, None, kept)[..., :3]
        return jnp.sum(y**2), y

    graded = jax.value_and_grad(loss, has_aux=True)
    run = jax.jit((lambda *args: (loss(*args), params)) if kind == "mambats" else graded)
    (_, alone), gradient = run(params, x, None)
    (_, filled), other = run(params, np.pad(x, ((0, 0), (0, 0), (0, 2))), np.int32(3))
    np.testing.assert_allclose(filled, alone, rtol=2e-4, atol=2e-5)
    largest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient))
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5 * largest)


def test_compute_type_follows_the_input():
    config = small("patchtst")
    model = registry.build(config, rngs=nnx.Rngs(0))
    x = windows()
    exact, near = (nnx.jit(registry.forecast)(model, jnp.asarray(x, t)) for t in (jnp.float32, jnp.bfloat16))
    assert near.dtype == jnp.bfloat16
    np.testing.assert_allclose(near.astype(jnp.float32), exact, atol=0.05)


def test_dlinear_starts_as_the_mean_and_knows_two_parts():
    config = small("dlinear", window=3)
    model = registry.build(config, rngs=nnx.Rngs(0))
    x = windows()
    bias = np.asarray(model.seasonal.bias[...] + model.trend.bias[...])
    np.testing.assert_allclose(model(x), x.mean(1)[:, None] + bias[:, None], atol=1e-5)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)), mode="edge")
    trend = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    np.testing.assert_allclose(np.einsum("ts,bsk->btk", dlinear.averaging(CONTEXT, 3), x), trend, atol=1e-6)


def test_micn_moving_average_and_long_convolution():
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=(2, 9, 3)), rng.normal(size=(2, 9, 3))
    matrix = dlinear.averaging(9, 5)
    with jax.enable_x64(True):
        np.testing.assert_allclose(micn.moving_average(x, 5), np.einsum("ts,bsk->btk", matrix, x))
        gradient = jax.grad(lambda x: (micn.moving_average(x, 5) * weight).sum())(x)
        np.testing.assert_allclose(gradient, np.einsum("ts,btk->bsk", matrix, weight), atol=1e-12)
        taps = rng.normal(size=(9, 3, 4))
        wanted = [sum(x[:, s] @ taps[t - s] for s in range(t + 1)) for t in range(9)]
        found = micn.causal_convolution(jnp.asarray(x), jnp.asarray(taps))
        np.testing.assert_allclose(found, np.stack(wanted, axis=1), atol=1e-12)


def test_mambats_orders():
    """Processing in an order is processing permuted channels and putting the forecasts back."""
    model = registry.build(small("mambats"), rngs=nnx.Rngs(0))
    x, order = windows(), np.array([2, 0, 1])
    run = jax.jit(lambda x, order: model(x, order=order))
    plain = run(x, np.arange(3))
    np.testing.assert_allclose(run(x, order)[..., order], run(x[..., order], np.arange(3)), atol=1e-6)
    assert not np.allclose(run(x, order), plain, atol=1e-5)
    each = run(x, np.stack([order, np.arange(3)]))
    np.testing.assert_allclose(each[0], run(x, order)[0], atol=1e-6)
    np.testing.assert_allclose(each[1], plain[1], atol=1e-6)
    with pytest.raises(ConfigError, match="order: expected 3 channels"):
        model(x, order=np.arange(2))


WRONG = [
    ("dlinear", {"window": 4}, "window: must be odd"),
    ("dlinear", {"horizon": 0}, "horizon: must be at least 1"),
    ("lightts", {"d_model": 15}, "d_model: must be at least 16"),
    ("itransformer", {"n_heads": 3}, "n_heads: 3 heads do not divide d_model 8"),
    ("itransformer", {"dropout": 1.0}, r"dropout: must be in \[0, 1\)"),
    ("patchtst", {"patch": 13}, "patch: 13 steps are more than the context of 12"),
    ("patchtst", {"stride": 5}, "stride: 5 is more than the patch"),
    ("fouriergnn", {"d_model": 0}, "d_model: must be at least 1"),
    ("micn", {"scales": (5,)}, "scales: expected even"),
    ("s4", {"d_state": 3}, "d_state: must be even"),
    ("mambats", {"scan": "quick"}, "scan: expected one of"),
    ("mambats", {"patch": 13}, "patch: 13 steps are more"),
]


@pytest.mark.parametrize(("kind", "changes", "message"), WRONG)
def test_impossible_sizes(kind, changes, message):
    with pytest.raises(ConfigError, match=f"model.{message}"):
        small(kind, **changes)


def test_registry():
    assert registry.get("iTransformer").name == "iTransformer"
    for kind, architecture in registry.ARCHITECTURES.items():
        assert registry.of(small(kind)) is architecture
        assert architecture.flexible == (kind in FLEXIBLE)
        assert architecture.training_flops(small(kind)) > 0
    with pytest.raises(ConfigError, match="model: no model 'gpt'"):
        registry.get("gpt")
    with pytest.raises(ConfigError, match="no model takes a int"):
        registry.of(3)


def test_published_settings():
    fine = registry.published("mambats", "vitaldb", 2)
    assert (fine.learning_rate, fine(12).patch, fine(12).context, fine(12).n_channels) == (1e-3, 60, 360, 17)
    coarse = registry.published("MambaTS", "vitaldb", 3)(1)
    assert (coarse.patch, coarse.context, coarse.n_channels) == (5, 30, 17)
    mover = registry.published("mambats", "mover", 1)(30)
    assert (mover.patch, mover.stride, mover.n_channels, mover.horizon) == (6, 6, 33, 30)
    s4 = registry.published("s4", "mover", 2)
    assert (s4.learning_rate, s4(1).patch, s4(1).stride) == (1e-3, 10, 5)
    assert registry.published("itransformer", "mover", 1)(1).depth == 4
    assert dataclasses.asdict(registry.published("dlinear", "vitaldb", 1)(3))["normalise"] is False
    with pytest.raises(ConfigError, match="LightTS: track 2 needs a model that takes any number of channels"):
        registry.published("lightts", "vitaldb", 2)
    with pytest.raises(ConfigError, match="expected a centre of vitaldb, mover"):
        registry.published("s4", "eicu", 1)
