"""BRITS against its equations step by step; parity with PyPOTS is tested with its layout."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.models import brits, registry
from wearjax.models.brits import BRITSConfig
from wearjax.train import state

SMALL = BRITSConfig(minutes=17, hidden_size=5)


def made(seed: int = 0):
    model = brits.BRITS(SMALL, rngs=nnx.Rngs(seed))
    rng = np.random.default_rng(seed)
    observed = (rng.random((3, SMALL.minutes, 19)) < 0.5).astype(np.float32)
    observed[:, :, 4] = 0
    return model, (rng.normal(0, 1, observed.shape) * observed).astype(np.float32), observed


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_direction(p: dict[str, np.ndarray], x, m):
    """The equations of the paper, one example and one step after another, in float64."""
    h_size, c = SMALL.hidden_size, x.shape[-1]
    out = np.zeros((3, *x.shape))
    others = p["features_kernel"] * (1 - np.eye(c))
    for b in range(len(x)):
        h, cell, gap = np.zeros(h_size), np.zeros(h_size), np.zeros(c)
        for t in range(x.shape[1]):
            if t:
                gap = 1 + (1 - m[b, t - 1]) * gap
            h = h * np.exp(-np.maximum(0, gap @ p["decay_h_kernel"] + p["decay_h_bias"]))
            gamma = np.exp(-np.maximum(0, gap * p["decay_x_kernel"] + p["decay_x_bias"]))
            history = h @ p["history_kernel"] + p["history_bias"]
            known = m[b, t] * x[b, t] + (1 - m[b, t]) * history
            features = known @ others + p["features_bias"]
            mix = sigmoid(np.concatenate([gamma, m[b, t]]) @ p["mixing_kernel"] + p["mixing_bias"])
            combined = mix * features + (1 - mix) * history
            out[:, b, t] = history, features, combined
            fed = np.concatenate([m[b, t] * x[b, t] + (1 - m[b, t]) * combined, m[b, t]])
            gates = fed @ p["input_kernel"] + p["input_bias"] + h @ p["state_kernel"] + p["state_bias"]
            i, f, g, o = np.split(gates, 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(cell)
    return out


def test_estimates_follow_the_equations():
    model, x, observed = made()
    found = nnx.jit(brits.BRITS.estimate)(model, jnp.asarray(x), jnp.asarray(observed))
    names = [n for n in vars(model.rits) if n.endswith(("kernel", "bias"))]
    assert len(names) == 14
    for direction, order in enumerate((slice(None), slice(None, None, -1))):
        p = {n: np.asarray(getattr(model.rits, n)[...], np.float64)[direction] for n in names}
        wanted = one_direction(p, x[:, order].astype(np.float64), observed[:, order])[:, :, order]
        for estimate, name, theirs in zip(found, found._fields, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(estimate[direction]), theirs, atol=1e-5, err_msg=name)


def test_unrolling_changes_nothing():
    """And the reconstruction is the mean of the directions."""
    model, x, observed = made()
    _, params = nnx.split(model)
    unrolled = brits.BRITS(dataclasses.replace(SMALL, unroll=3), rngs=nnx.Rngs(1))
    nnx.update(unrolled, params)
    found = nnx.jit(brits.BRITS.reconstruct)(unrolled, jnp.asarray(x), jnp.asarray(observed))
    wanted = nnx.jit(brits.BRITS.estimate)(model, jnp.asarray(x), jnp.asarray(observed)).combined
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted).mean(axis=0), atol=1e-6)


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_time_gaps_follow_their_recurrence(seed, share):
    m = (np.random.default_rng(seed).random((2, 12, 3)) < share).astype(np.float32)
    wanted = np.zeros_like(m)
    for t in range(1, 12):
        wanted[:, t] = 1 + (1 - m[:, t - 1]) * wanted[:, t - 1]
    np.testing.assert_array_equal(np.asarray(brits.time_gaps(jnp.asarray(m))), wanted)


def test_a_value_is_not_explained_by_itself():
    """The regression over channels has no diagonal; a channel's own value reaches its estimate of later steps only."""
    model, x, observed = made()
    observed[0, 8, 2], x[0, 8, 2] = 1, 0.5
    run = nnx.jit(brits.BRITS.estimate)
    changed = x.copy()
    changed[0, 8, 2] = 3.0
    before, after = (
        np.asarray(run(model, jnp.asarray(a), jnp.asarray(observed)).combined) for a in (x, changed)
    )
    np.testing.assert_array_equal(before[:, 0, 8, 2], after[:, 0, 8, 2])
    assert not np.allclose(before[0, 0, 9], after[0, 0, 9], atol=1e-6)
    np.testing.assert_array_equal(before[0, 0, :8], after[0, 0, :8])
    np.testing.assert_array_equal(before[1, 0, 9:], after[1, 0, 9:])


def test_parameters_of_the_published_size():
    architecture = registry.get("brits")
    _, params, _ = state.blueprint(lambda rngs: architecture.build(BRITSConfig(), rngs=rngs))
    c, h = 19, 128
    lstm = 4 * h * (2 * c + h) + 8 * h
    wanted = lstm + (c * h + h) + 2 * c + (h * c + c) + (c * c + c) + (2 * c * c + c)
    assert state.count(params) == 2 * wanted
    assert registry.of(SMALL) is architecture
    assert brits.training_flops(BRITSConfig()) > 6 * 2 * 1440 * 4 * h * (2 * c + h)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 0}, "model.hidden_size: must be at least 1, got 0"),
        ({"unroll": 0}, "model.unroll: must be at least 1, got 0"),
        ({"consistency_weight": -0.1}, "model.consistency_weight: must not be negative"),
        ({"dtype": "bfloat16"}, "BRITS computes in float32, got 'bfloat16'"),
    ],
)
def test_impossible_sizes(change, message):
    with pytest.raises(ConfigError, match=message):
        BRITSConfig(**change)
