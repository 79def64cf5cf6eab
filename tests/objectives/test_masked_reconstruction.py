"""The pretraining objective against a loop in NumPy, and that missing data never harm it."""

from __future__ import annotations

import dataclasses
import math

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import strategies as st

from wearjax import channels
from wearjax.days.normalization import NormalizationStats
from wearjax.days.normalization import normalize as normalize_numpy
from wearjax.models import lsm2
from wearjax.models.lsm2 import LSM2, LSM2Config
from wearjax.objectives import masked_reconstruction
from wearjax.objectives.masked_reconstruction import MaskedReconstruction

TINY = LSM2Config(
    minutes=48, patch=12, encoder_dim=8, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2, dropout=0.1, binary_weight=2.5,
)  # fmt: skip
TIMES = TINY.patches_per_channel
BINARY = np.isin(np.arange(channels.N_CHANNELS), channels.BINARY)
STATS = NormalizationStats(
    np.where(BINARY, 0.0, np.arange(19) / 3.0), np.where(BINARY, 1.0, 1 + np.arange(19) / 5.0)
)
OBJECTIVE = MaskedReconstruction(STATS)
GRAPH, STATE = nnx.split(LSM2(TINY, rngs=nnx.Rngs(0)))


def made_values(seed: int, batch: int = 3, missing: float = 0.02) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.gamma(1.0, 2.0, (batch, 19, TINY.minutes)).astype(np.float32)
    values[:, BINARY] = rng.random((batch, BINARY.sum(), TINY.minutes)) < 0.3
    values[rng.random(values.shape) < missing] = np.nan
    values[:, channels.HEART_RATE, rng.random(TINY.minutes) < 0.7] = np.nan
    return values


@jax.jit
def loss_and_gradient(values, key):
    def value(state):
        return OBJECTIVE(nnx.merge(GRAPH, state), {"values": values}, key=key, train=True)

    return jax.value_and_grad(value, has_aux=True)(STATE)


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def loss_by_loops(predicted, target, artificial, inherited, *, binary_weight):
    """Numerators and counts patch by patch, in double precision."""
    total = plain = 0.0
    scored = 0
    for b in range(len(target)):
        for c in range(19):
            for t in range(TIMES):
                token = c * TIMES + t
                p, y = (x[b, token].astype(float) for x in (predicted, target))
                if c in channels.BINARY:
                    y = np.clip(y, 0, 1)
                    each = [softplus(a) - a * label for a, label in zip(p, y, strict=True)]
                    loss = binary_weight * sum(each) / len(each)
                elif c == channels.HEART_RATE:
                    measured = [i for i in range(len(y)) if y[i] != 0]
                    loss = sum((p[i] - y[i]) ** 2 for i in measured) / max(1, len(measured))
                else:
                    loss = ((p - y) ** 2).mean()
                plain += loss
                if artificial[b, token] and not inherited[b, token]:
                    total += loss
                    scored += 1
    return total / scored if scored else plain / predicted[..., 0].size


class Fixed:
    """A model that predicts the same whatever it is shown, and remembers its arguments."""

    config = TINY

    def __init__(self, predicted):
        self.predicted = predicted

    def __call__(self, patches, masked, *, selection, keys):
        self.seen = {"patches": patches, "masked": masked, "selection": selection, "keys": keys}
        return self.predicted


@pytest.mark.parametrize("seed", range(4))
def test_loss_is_that_of_plain_loops(seed):
    values = made_values(seed)
    predicted = (
        np.random.default_rng(seed + 50).normal(size=(3, TINY.n_tokens, TINY.patch)).astype(np.float32)
    )
    model = Fixed(predicted)
    loss, metrics = OBJECTIVE(model, {"values": values}, key=jax.random.key(seed), train=False)
    target = np.nan_to_num(normalize_numpy(values, STATS)).reshape(predicted.shape)
    np.testing.assert_allclose(model.seen["patches"], target, rtol=1e-5, atol=1e-6)
    inherited = np.asarray(lsm2.inherited_mask(np.isnan(values), TINY.patch))
    mask_keys, _ = OBJECTIVE._example_keys(jax.random.key(seed), 3)
    artificial, _ = masked_reconstruction.draw_masks(mask_keys, 19, TIMES, TINY.mask_ratio)
    wanted = loss_by_loops(predicted, target, np.asarray(artificial), inherited, binary_weight=2.5)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_array_equal(model.seen["masked"], artificial | inherited)
    np.testing.assert_allclose(metrics["missing_fraction"], inherited.mean(), rtol=1e-6)
    np.testing.assert_allclose(metrics["masked_fraction"], (artificial & ~inherited).mean(), rtol=1e-6)
    assert model.seen["keys"] is None  # evaluation has no dropout


def test_the_mean_over_all_patches_when_none_is_scored():
    values = np.full((2, 19, TINY.minutes), np.nan, np.float32)
    predicted = np.random.default_rng(0).normal(size=(2, TINY.n_tokens, TINY.patch)).astype(np.float32)
    loss, metrics = OBJECTIVE(Fixed(predicted), {"values": values}, key=jax.random.key(0), train=True)
    nothing = np.zeros(predicted.shape[:2], bool)
    wanted = loss_by_loops(predicted, np.zeros_like(predicted), nothing, nothing, binary_weight=2.5)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    assert metrics["masked_fraction"] == 0
    assert metrics["missing_fraction"] == 1


def test_the_lowest_priorities_are_kept():
    values = made_values(1)
    model = Fixed(np.zeros((3, TINY.n_tokens, TINY.patch), np.float32))
    OBJECTIVE(model, {"values": values}, key=jax.random.key(5), train=True)
    masked, selection = np.asarray(model.seen["masked"]), model.seen["selection"]
    assert selection.index.shape == (3, TINY.n_tokens // 2)
    for b in range(3):  # masked tokens stay only when the unmasked ones do not fill the places
        kept = np.asarray(selection.kept[b])
        assert (kept & masked[b]).sum() == max(0, TINY.n_kept - (~masked[b]).sum())
    assert model.seen["keys"].shape == (3,)


missing_patterns = st.fixed_dictionaries(
    {
        "days": st.lists(st.booleans(), min_size=3, max_size=3),
        "channels": st.lists(st.booleans(), min_size=19, max_size=19),
        "share": st.sampled_from([0.0, 0.01, 0.5, 1.0]),
        "seed": st.integers(0, 2**31),
    }
)


@hypothesis.settings(max_examples=40)
@hypothesis.given(pattern=missing_patterns)
@hypothesis.example(pattern={"days": [True] * 3, "channels": [True] * 19, "share": 1.0, "seed": 0})
@hypothesis.example(pattern={"days": [True, False, False], "channels": [True] * 19, "share": 0.0, "seed": 1})
def test_loss_and_gradient_are_finite_whatever_is_missing(pattern):
    rng = np.random.default_rng(pattern["seed"])
    values = made_values(pattern["seed"] % 100, missing=0.0)
    values[rng.random(values.shape) < pattern["share"]] = np.nan
    values[pattern["days"]] = np.nan
    values[:, pattern["channels"]] = np.nan
    (loss, metrics), gradient = loss_and_gradient(values, jax.random.key(pattern["seed"]))
    assert np.isfinite(loss)
    assert all(np.isfinite(x) for x in metrics.values())
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_same_key_same_loss_other_key_other_masks():
    values = made_values(2)
    first, again, other = (loss_and_gradient(values, jax.random.key(k))[0] for k in (3, 3, 4))
    assert first[0] == again[0]
    assert first[0] != other[0]
    assert first[1]["masked_fraction"] != other[1]["masked_fraction"]


def test_an_example_draws_the_same_whatever_its_batch():
    keys = OBJECTIVE._example_keys(jax.random.key(1), 5)[0]
    wide = masked_reconstruction.draw_masks(keys, 19, TIMES, 0.5)
    narrow = masked_reconstruction.draw_masks(keys[:2], 19, TIMES, 0.5)
    for a, b in zip(wide, narrow, strict=True):
        np.testing.assert_array_equal(a[:2], b)


def test_mask_strategies_and_their_rates():
    n, n_times, ratio = 3000, 24, 0.2
    keys = jax.random.split(jax.random.key(0), n)
    mask, order = jax.jit(lambda k: masked_reconstruction.draw_masks(k, 19, n_times, ratio))(keys)
    mask, order = np.asarray(mask).reshape(n, 19, n_times), np.asarray(order)
    by_time = (mask == mask[:, :1]).all(axis=(1, 2))  # the same times on every channel
    by_channel = (mask == mask[:, :, :1]).all(axis=(1, 2))  # a channel whole or not at all
    temporal, sensor = by_time & ~by_channel, by_channel & ~by_time
    random = ~by_time & ~by_channel
    for chosen, rate in ((temporal, 0.5), (sensor, 0.5), (random, ratio)):
        assert abs(chosen.mean() - 1 / 3) < 0.04
        assert abs(mask[chosen].mean() - rate) < 0.015
    assert 0 <= order.min() < 1e-4
    assert 1 - 1e-4 < order.max() < 1
    assert abs(order.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(order.ravel(), mask.reshape(n, -1).ravel())[0, 1]) < 0.01


def test_normalize_is_that_of_the_days_and_its_inverse():
    values = made_values(6)
    scaled, missing = masked_reconstruction.normalize(jnp.asarray(values), STATS)
    np.testing.assert_array_equal(missing, np.isnan(values))
    np.testing.assert_allclose(scaled, np.nan_to_num(normalize_numpy(values, STATS)), rtol=1e-5, atol=1e-6)
    back = np.where(missing, np.nan, masked_reconstruction.denormalize(scaled, STATS))
    np.testing.assert_allclose(back, values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("strategy", ["pmap", "jit"])
def test_devices_share_one_loss(strategy):
    """Mean gradients of a mapped axis, and a sharded batch, give the loss and gradients of one device."""
    values = made_values(7, batch=4)
    values[1:3] = np.nan  # devices with very different numbers of scored patches
    config = dataclasses.replace(TINY, dropout=0.0)
    graph, state = nnx.split(LSM2(config, rngs=nnx.Rngs(0)))

    def gradients(objective, state, values):
        def value(state):
            return objective(nnx.merge(graph, state), {"values": values}, key=jax.random.key(2), train=True)[
                0
            ]

        return jax.value_and_grad(value)(state)

    wanted_loss, wanted = jax.jit(lambda s, v: gradients(OBJECTIVE, s, v))(state, values)
    if strategy == "pmap":
        mapped = MaskedReconstruction(STATS, axis_name="data")

        def step(state, values):
            loss, grads = gradients(mapped, state, values)
            return loss, jax.lax.pmean(grads, "data")

        found = jax.pmap(step, "data", in_axes=(None, 0), devices=jax.devices()[:2])(
            state, values.reshape(2, 2, 19, -1)
        )
        loss, grads = jax.tree.map(lambda x: np.asarray(x)[0], found)
    else:
        mesh = jax.make_mesh(
            (4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:4]
        )
        split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        loss, grads = jax.jit(lambda s, v: gradients(OBJECTIVE, s, v))(state, jax.device_put(values, split))
    np.testing.assert_allclose(loss, wanted_loss, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
