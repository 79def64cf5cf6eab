"""DLinear against the plain order of its maps; parity with PyPOTS is tested with its layout."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.errors import ConfigError
from wearjax.models import dlinear, registry
from wearjax.models.dlinear import DLinearConfig
from wearjax.train import state

SMALL = DLinearConfig(minutes=30, window=5, d_model=3)


def made(config=SMALL, seed: int = 0):
    model = dlinear.DLinear(config, rngs=nnx.Rngs(seed))
    rng = np.random.default_rng(seed)
    for branch in (model.seasonal, model.trend):
        branch.time.kernel[...] += 0.1 * jnp.asarray(rng.normal(size=branch.time.kernel.shape), jnp.float32)
    observed = (rng.random((2, config.minutes, 19)) < 0.7).astype(np.float32)
    return model, (rng.normal(0, 1, observed.shape) * observed).astype(np.float32), observed


def as_written(branch, x, observed):
    """Embedding, map over time and projection one after another, in float64."""
    array = lambda v: np.asarray(v[...], np.float64)  # noqa: E731
    hidden = np.concatenate([x, observed], axis=-1) @ array(branch.embed.kernel) + array(branch.embed.bias)
    mapped = np.einsum("btd,ts->bsd", hidden, array(branch.time.kernel)) + array(branch.time.bias)[:, None]
    return mapped @ array(branch.project.kernel) + array(branch.project.bias)


def test_the_order_of_linear_maps_does_not_matter():
    model, x, observed = made()
    half = SMALL.window // 2
    padded = np.pad(x.astype(np.float64), ((0, 0), (half, half), (0, 0)), mode="edge")
    trend = np.stack([padded[:, t : t + SMALL.window].mean(axis=1) for t in range(SMALL.minutes)], axis=1)
    wanted = as_written(model.seasonal, x - trend, observed) + as_written(model.trend, trend, observed)
    found = nnx.jit(dlinear.DLinear.reconstruct)(model, jnp.asarray(x), jnp.asarray(observed))
    assert found.shape == x.shape
    np.testing.assert_allclose(np.asarray(found), wanted, atol=2e-5)


def test_bfloat16_is_near():
    model, x, observed = made(DLinearConfig(minutes=30, window=5, d_model=3, dtype="bfloat16"))
    exact, *_ = made()
    found, wanted = (
        np.asarray(nnx.jit(dlinear.DLinear.reconstruct)(m, jnp.asarray(x), jnp.asarray(observed)))
        for m in (model, exact)
    )
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 0.05


def test_the_flags_of_observation_are_read():
    model, x, observed = made()
    run = nnx.jit(dlinear.DLinear.reconstruct)
    changed = observed.copy()
    changed[0, 3, 2] = 1 - changed[0, 3, 2]
    before, after = (run(model, jnp.asarray(x), jnp.asarray(m)) for m in (observed, changed))
    assert not np.allclose(before, after)


def test_start():
    """Maps over time start as means, the rest within 1 / sqrt of what goes in."""
    model = dlinear.DLinear(DLinearConfig(minutes=60, d_model=16), rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(np.asarray(model.trend.time.kernel[...]), np.float32(1 / 60))
    for part, fan in ((model.seasonal.embed, 38), (model.seasonal.project, 16)):
        for array in (part.kernel, part.bias):
            values = np.asarray(array[...])
            assert 0.5 / np.sqrt(fan) < np.abs(values).max() <= 1 / np.sqrt(fan)


def test_parameters_of_the_published_sizes():
    architecture = registry.get("dlinear")
    for minutes in (1440, 10080):
        config = DLinearConfig(minutes=minutes)
        _, params, _ = state.blueprint(lambda rngs, c=config: architecture.build(c, rngs=rngs))
        wanted = 2 * (38 * 256 + 256 + minutes * minutes + minutes + 256 * 19 + 19)
        assert state.count(params) == wanted
    assert registry.of(SMALL) is architecture


def test_counted_work():
    """The maps over time act on channels: that is nearly all of it."""
    config = DLinearConfig()
    over_time = 3 * 2 * 2 * 1440 * 1440 * 19
    assert over_time < dlinear.training_flops(config) < 1.1 * over_time


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minutes": 0}, "model.minutes: must be at least 1, got 0"),
        ({"window": 50}, "model.window: must be odd, got 50"),
        ({"mask_ratio": 1.0}, r"model.mask_ratio: must be in \[0, 1\), got 1.0"),
        ({"masked_weight": -1.0}, "model.masked_weight: must not be negative"),
        ({"dtype": "float16"}, "model.dtype: expected one of"),
    ],
)
def test_impossible_sizes(change, message):
    with pytest.raises(ConfigError, match=message):
        DLinearConfig(**change)


def test_gradients_reach_everything():
    model, x, observed = made()
    graph, params = nnx.split(model)
    loss = lambda p: jnp.square(nnx.merge(graph, p).reconstruct(jnp.asarray(x), jnp.asarray(observed))).sum()  # noqa: E731
    for path, grad in nnx.to_flat_state(jax.jit(jax.grad(loss))(params)):
        assert np.abs(np.asarray(grad[...])).max() > 0, path
