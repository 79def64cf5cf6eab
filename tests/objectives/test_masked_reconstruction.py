"""The pretraining objective: its loss as a plain loop, its masks as statistics, and that NaN stays outside."""

from __future__ import annotations

import dataclasses
import types
from functools import partial

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from hypothesis import strategies as st

from wearjax import channels
from wearjax.days.normalization import NormalizationStats
from wearjax.models import lsm2, lsm2_sparse
from wearjax.objectives import masked_reconstruction

SMALL = lsm2.LSM2Config(
    patch=240, encoder_dim=8, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2, mlp_ratio=2, dropout=0.1,
)  # fmt: skip
BATCH = 3
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, np.linspace(1, 3, 19), 0.0), np.where(np.arange(19) < 7, 2.0, 1.0)
)


def made(seed: int, share_missing: float = 0.0005, batch: int = BATCH) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(2, 2, (batch, 19, 1440)).astype(np.float32)
    values[:, 7:] = rng.random((batch, 12, 1440)) < 0.3
    values[rng.random(values.shape) < share_missing] = np.nan
    values[:, 5][rng.random((batch, 1440)) < 0.8] = np.nan
    return values


class Recorder:
    """Stands for a model: predicts given numbers and remembers which tokens were hidden."""

    def __init__(self, config, predicted):
        self.config, self.predicted = config, predicted

    def __call__(self, patches, masked, *, selection, keys):
        self.patches, self.masked, self.selection, self.keys = patches, masked, selection, keys
        return jnp.asarray(self.predicted)


def predictions(seed: int, batch: int = BATCH):
    shape = (batch, SMALL.n_tokens, SMALL.patch)
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


def patch_loss(channel: int, predicted, target) -> float:
    if channel >= 7:
        label, p = np.clip(target, 0, 1), 1 / (1 + np.exp(-predicted))
        return float(-(label * np.log(p) + (1 - label) * np.log(1 - p)).mean())
    error = (predicted - target) ** 2
    if channel == channels.HEART_RATE:
        return float(error[target != 0].sum() / max(1, (target != 0).sum()))
    return float(error.mean())


def restated(values, masked, predicted, *, binary_weight=1.0) -> dict[str, float]:
    """The loss from its description, patch by patch in float64; `masked` is the union of both masks."""
    sums = {"all": 0.0, "scored": 0, "every": 0.0, "tokens": 0, "binary": 0.0, "n_binary": 0, "missing": 0}
    for b, c, t in np.ndindex(len(values), 19, SMALL.patches_per_channel):
        raw = values[b, c, t * SMALL.patch : (t + 1) * SMALL.patch].astype(np.float64)
        gap = np.isnan(raw)
        hidden = gap.all() if c == channels.HEART_RATE else gap.any()
        target = raw if c >= 7 else (raw - STATS.means[c]) / (STATS.stds[c] + STATS.epsilon)
        target = np.where(gap, 0.0, target)
        token = c * SMALL.patches_per_channel + t
        plain = patch_loss(c, predicted[b, token].astype(np.float64), target)
        loss = plain * (binary_weight if c >= 7 else 1.0)
        sums["every"] += loss
        sums["tokens"] += 1
        sums["missing"] += hidden
        if masked[b, token] and not hidden:
            sums["all"] += loss
            sums["scored"] += 1
            if c >= 7:
                sums["binary"] += plain
                sums["n_binary"] += 1
    continuous = sums["all"] - binary_weight * sums["binary"]
    return {
        "loss": sums["all"] / sums["scored"] if sums["scored"] else sums["every"] / sums["tokens"],
        "loss_continuous": continuous / max(1, sums["scored"] - sums["n_binary"]),
        "loss_binary": sums["binary"] / max(1, sums["n_binary"]),
        "masked_fraction": sums["scored"] / sums["tokens"],
        "missing_fraction": sums["missing"] / sums["tokens"],
    }


OBJECTIVE = masked_reconstruction.MaskedReconstruction(STATS)


def score(values, model, seed: int = 0, *, train: bool = False):
    loss, metrics = OBJECTIVE(model, {"values": jnp.asarray(values)}, key=jax.random.key(seed), train=train)
    return {"loss": float(loss), **{name: float(value) for name, value in metrics.items()}}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_loss_is_the_plain_loop(seed):
    values, predicted = made(seed), predictions(seed)
    model = Recorder(SMALL, predicted)
    found = score(values, model, seed)
    wanted = restated(values, np.asarray(model.masked), predicted)
    assert 0.1 < wanted["masked_fraction"] < 0.8
    assert found == pytest.approx(wanted, rel=1e-5)
    kept = np.asarray(model.selection.kept)
    assert (kept.sum(axis=1) == SMALL.n_kept).all()
    for row in range(BATCH):  # visible tokens stay before any hidden one does
        visible = ~np.asarray(model.masked)[row]
        assert kept[row][visible].sum() == min(visible.sum(), SMALL.n_kept)
    assert model.keys is None


def test_a_batch_without_any_measurement_is_finite():
    predicted = predictions(3)
    values = np.full((BATCH, 19, 1440), np.nan, np.float32)
    found = score(values, Recorder(SMALL, predicted))
    wanted = restated(values, np.ones((BATCH, SMALL.n_tokens), bool), predicted)
    assert found == pytest.approx(wanted, rel=1e-5)
    assert found["missing_fraction"] == 1
    assert found["masked_fraction"] == found["loss_continuous"] == found["loss_binary"] == 0


def test_binary_weight_scales_only_the_binary_part():
    values, predicted = made(4), predictions(4)
    found = {}
    for weight in (1.0, 3.0):
        model = Recorder(dataclasses.replace(SMALL, binary_weight=weight), predicted)
        found[weight] = score(values, model)
        wanted = restated(values, np.asarray(model.masked), predicted, binary_weight=weight)
        assert found[weight]["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
        assert found[weight]["loss_binary"] == pytest.approx(wanted["loss_binary"], rel=1e-5)
    assert found[3.0]["loss"] > found[1.0]["loss"]


def test_binary_weight_leaves_the_metrics_of_either_kind():
    values, predicted = made(4), predictions(4)
    one, three = (
        score(values, Recorder(dataclasses.replace(SMALL, binary_weight=weight), predicted))
        for weight in (1.0, 3.0)
    )
    assert three["loss_continuous"] == pytest.approx(one["loss_continuous"], rel=1e-5)
    assert three["loss_binary"] == pytest.approx(one["loss_binary"], rel=1e-5)


def test_extreme_logits_stay_finite():
    predicted = jnp.asarray([-1e4, 0.0, 1e4])[None, :, None] * jnp.ones((1, 3, 1))
    predicted = jnp.tile(predicted, (1, 19, 2))
    target = jnp.ones_like(predicted)
    value, gradient = jax.value_and_grad(
        lambda p: masked_reconstruction.patch_losses(p, target)[:, 7:].sum()
    )(predicted)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_devices_share_one_loss():
    """Two halves under a mapped axis give the loss and the masks of the whole batch."""
    values, predicted = made(5, batch=4), predictions(5, batch=4)
    whole = score(values, Recorder(SMALL, predicted))
    objective = masked_reconstruction.MaskedReconstruction(STATS, axis_name="device")

    def half(values, predicted):
        model = types.SimpleNamespace(config=SMALL)
        recorder = Recorder(model.config, predicted)
        return objective(recorder, {"values": values}, key=jax.random.key(0), train=False)

    loss, metrics = jax.vmap(half, axis_name="device")(
        values.reshape(2, 2, 19, 1440), predicted.reshape(2, 2, *predicted.shape[1:])
    )
    np.testing.assert_allclose(loss, whole["loss"], rtol=1e-5)
    for name, value in metrics.items():
        np.testing.assert_allclose(value, whole[name], rtol=1e-5)


# a real model


@pytest.fixture(scope="module")
def compiled():
    """Loss and gradient of a tiny model by values and key, compiled once, with dropout."""
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2.LSM2(SMALL, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.2, p.shape), jnp.float32), shapes)

    def loss(state, values, key):
        return OBJECTIVE(nnx.merge(graph, state), {"values": values}, key=key, train=True)[0]

    function = jax.jit(jax.value_and_grad(loss), compiler_options={"xla_backend_optimization_level": 0})
    return lambda values, seed=0: function(state, jnp.asarray(values), jax.random.key(seed))


@hypothesis.settings(max_examples=15)
@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.0, 1e-3, 0.02, 0.9, 0.999, 1.0]),
    empty_days=st.sets(st.integers(0, BATCH - 1)),
    empty_channels=st.sets(st.integers(0, 18)),
)
def test_gradient_is_finite_whatever_is_missing(compiled, seed, share, empty_days, empty_channels):
    values = made(seed, share)
    values[list(empty_days)] = np.nan
    values[:, list(empty_channels)] = np.nan
    loss, gradient = compiled(values, seed)
    assert np.isfinite(loss)
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()


def test_values_in_partly_missing_patches_cannot_matter(compiled):
    values = made(6, 0.0)
    first = values.reshape(BATCH, 19, -1, SMALL.patch)
    broken = np.random.default_rng(6).random(first.shape[:3]) < 0.4
    broken[:, channels.HEART_RATE] = False
    first[broken, 7] = np.nan  # one minute hides the patch
    second = first.copy()
    second[broken] = second[broken] * 3 + 100
    found = [compiled(x.reshape(values.shape)) for x in (first, second)]
    for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(found[1]), strict=True):
        np.testing.assert_array_equal(a, b)
    third = np.where(broken[..., None], first, first + 1)
    assert not np.allclose(compiled(third.reshape(values.shape))[0], found[0][0], atol=1e-3)


def test_the_same_key_gives_the_same_loss(compiled):
    values = made(7)
    assert compiled(values, 1)[0] == compiled(values, 1)[0]
    assert compiled(values, 1)[0] != compiled(values, 2)[0]


def test_an_example_draws_by_its_place_alone():
    values = made(8)
    masks = []
    for count in (BATCH, 1):
        model = Recorder(SMALL, predictions(8, count))
        score(values[:count], model, train=True)
        masks.append(np.asarray(model.masked))
        assert model.keys.shape == (count,)
    np.testing.assert_array_equal(masks[0][:1], masks[1])
    full = np.zeros((BATCH, 19, 1440), np.float32)
    model = Recorder(SMALL, predictions(8))
    score(full, model)
    assert len({row.tobytes() for row in np.asarray(model.masked)}) == BATCH


# masks


@pytest.mark.parametrize("ratio", [0.5, 0.2])
def test_statistics_of_the_strategies(ratio):
    keys = jax.random.split(jax.random.key(0), 3000)
    draw = jax.jit(masked_reconstruction.draw_masks, static_argnums=(1, 2, 3))
    mask, order = (np.asarray(x) for x in draw(keys, 19, 30, ratio))
    mask = mask.reshape(-1, 19, 30)
    temporal = (mask == mask[:, :1]).all(axis=(1, 2))
    sensor = (mask == mask[:, :, :1]).all(axis=(1, 2)) & ~temporal
    random = ~temporal & ~sensor
    for chosen, wanted in ((temporal, 0.5), (sensor, 0.5), (random, ratio)):
        assert abs(chosen.mean() - 1 / 3) < 0.04
        assert abs(mask[chosen].mean() - wanted) < 0.015
        assert mask[chosen].mean(axis=(1, 2)).std() > 0.01  # independent draws, not exact shares
    assert order.shape == (3000, 570)
    assert order.min() >= 0
    assert order.max() < 1
    assert abs(order.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(order.ravel(), mask.ravel())[0, 1]) < 0.01


# windows of several days

DAYS = 3
SPARSE = lsm2_sparse.LSM2SparseConfig(
    patch=240, n_days=DAYS, window_minutes=480, encoder_dim=8, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=2, decoder_heads=2, mlp_ratio=2, dropout=0.1,
)  # fmt: skip
OFFSETS = np.asarray([[0, 1, 5], [-1, 0, 2]], np.int32)
QUICKLY = {"xla_backend_optimization_level": 0}  # compiling takes longer than running here


class SparseRecorder(Recorder):
    def __call__(self, patches, masked, *, day_offsets, selection, keys):
        self.day_offsets = day_offsets
        return super().__call__(patches, masked, selection=selection, keys=keys)


def windows_of(seed: int, share_missing: float = 0.0005) -> np.ndarray:
    """Two windows of three days; the first day of the second is padded."""
    values = made(seed, share_missing, batch=2 * DAYS).reshape(2, DAYS, 19, 1440)
    values[1, 0] = np.nan
    return values.swapaxes(1, 2).reshape(2, 19, DAYS * 1440)


@partial(jax.jit, compiler_options=QUICKLY)
def score_windows(values, offsets, predicted, seed):
    """Loss with its metrics, and what the model was given."""
    model = SparseRecorder(SPARSE, predicted)
    objective = masked_reconstruction.SparseReconstruction(STATS)
    batch = {"values": values, "day_offsets": offsets}
    loss, metrics = objective(model, batch, key=jax.random.key(seed), train=False)
    assert model.keys is None
    return {"loss": loss, **metrics}, (model.patches, model.masked, model.selection.kept, model.day_offsets)


def plain_numbers(metrics):
    return {name: float(value) for name, value in metrics.items()}


def window_predictions(seed: int):
    return np.random.default_rng(seed).normal(0, 2, (2, 19 * DAYS * 6, 240)).astype(np.float32)


@pytest.mark.parametrize("seed", [0, 1])
def test_loss_of_windows_is_the_plain_loop_over_their_days(seed):
    values, predicted = windows_of(seed), window_predictions(seed)
    found, given = score_windows(values, OFFSETS, predicted, seed)
    patches, masked, kept, offsets = map(np.asarray, given)
    assert patches.shape == (2, DAYS, 114, 240)
    np.testing.assert_array_equal(offsets, OFFSETS)
    assert masked[1, 0].all()
    days = values.reshape(2, 19, DAYS, 1440).swapaxes(1, 2).reshape(2 * DAYS, 19, 1440)
    by_day = predicted.reshape(2, 19, DAYS, 6, 240).swapaxes(1, 2).reshape(2 * DAYS, 114, 240)
    wanted = restated(days, masked.reshape(2 * DAYS, 114), by_day)
    assert 0.1 < wanted["masked_fraction"] < 0.8
    assert plain_numbers(found) == pytest.approx(wanted, rel=1e-5)
    assert kept.shape == (2 * DAYS, 114)
    assert (kept.sum(axis=1) == SPARSE.n_kept).all()


def test_masks_are_drawn_for_every_day():
    offsets, masked = np.tile(np.arange(DAYS, dtype=np.int32), (2, 1)), []
    for seed in range(30):
        values = np.zeros((2, 19, DAYS * 1440), np.float32)
        masked.append(np.asarray(score_windows(values, offsets, window_predictions(0), seed)[1][1]))
    masked = np.concatenate(masked).reshape(60, DAYS, 19, 6)
    temporal = (masked == masked[:, :, :1]).all(axis=(2, 3))
    assert 0.2 < temporal.mean() < 0.5
    assert (temporal.any(axis=1) & ~temporal.all(axis=1)).mean() > 0.3  # days differ in their strategy
    assert len({day.tobytes() for day in masked.reshape(60 * DAYS, -1)}) > 90


def test_what_a_padded_slot_holds_cannot_matter():
    values = windows_of(2)
    other = values.copy()
    other[1, :, :1440] = np.random.default_rng(0).normal(size=(19, 1440))
    found = [score_windows(x, OFFSETS, window_predictions(2), 2) for x in (values, other)]
    for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(found[1]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_devices_share_one_loss_of_windows():
    values, predicted = windows_of(3), window_predictions(3)
    whole, _ = score_windows(values, OFFSETS, predicted, 0)
    objective = masked_reconstruction.SparseReconstruction(STATS, axis_name="device")

    def half(values, offsets, predicted):
        batch = {"values": values, "day_offsets": offsets}
        return objective(SparseRecorder(SPARSE, predicted), batch, key=jax.random.key(0), train=False)

    halves = jax.jit(jax.vmap(half, axis_name="device"), compiler_options=QUICKLY)
    loss, metrics = halves(*(jnp.asarray(x)[:, None] for x in (values, OFFSETS, predicted)))
    np.testing.assert_allclose(loss, whole["loss"], rtol=1e-5)
    for name, value in metrics.items():
        np.testing.assert_allclose(value, whole[name], rtol=1e-5)


@pytest.fixture(scope="module")
def compiled_windows():
    """One gradient step of a tiny sparse model, compiled once, with dropout: (state, batch, key) and a rate."""
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2_sparse.LSM2Sparse(SPARSE, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0.0, 0.3, p.shape), jnp.float32), shapes)
    objective = masked_reconstruction.SparseReconstruction(STATS)

    def loss(state, batch, key):
        return objective(nnx.merge(graph, state), batch, key=key, train=True)[0]

    @partial(jax.jit, compiler_options=QUICKLY)
    def step(state, values, offsets, seed):
        batch = {"values": values, "day_offsets": offsets}
        return jax.value_and_grad(loss)(state, batch, jax.random.key(seed))

    return state, step


@pytest.mark.parametrize("missing", ["gaps", "a day", "a window", "everything"])
def test_gradient_of_windows_is_finite_whatever_is_missing(compiled_windows, missing):
    state, step = compiled_windows
    values, offsets = windows_of(4), OFFSETS.copy()
    if missing == "a day":
        values[0, :, 1440:2880] = np.nan
    elif missing == "a window":
        values[1], offsets[1] = np.nan, -1
    elif missing == "everything":
        values[:] = np.nan
    loss, gradient = step(state, values, offsets, 0)
    assert np.isfinite(loss)
    for path, leaf in nnx.to_flat_state(gradient):
        assert np.isfinite(leaf[...]).all()
        if lsm2_sparse.frozen(path):
            assert not np.any(leaf[...])


def test_loss_of_windows_falls(compiled_windows):
    """Windows of still and of busy days: twenty steps on the decoder bring the loss well below its start."""
    state, step = compiled_windows
    busy = np.asarray([[True, True, True], [False, False, False]])
    values = np.zeros((2, 19, DAYS, 1440), np.float32)
    values[:, :7] = STATS.means[:7, None, None] + np.where(busy, 4, -3)[:, None, :, None]
    values[:, 7:] = busy[:, None, :, None]
    values = values.reshape(2, 19, DAYS * 1440)
    offsets, losses = np.tile(np.arange(DAYS, dtype=np.int32), (2, 1)), []
    optimizer = optax.adam(0.05)
    update, moments = jax.jit(optimizer.update, compiler_options=QUICKLY), optimizer.init(state)
    for seed in range(20):
        loss, gradient = step(state, values, offsets, seed)
        updates, moments = update(gradient, moments)
        state = optax.apply_updates(state, updates)
        losses.append(float(loss))
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


# units


def test_normalization_and_its_inverse():
    values = made(9)
    scaled, missing = masked_reconstruction.normalize(jnp.asarray(values), STATS)
    np.testing.assert_array_equal(missing, np.isnan(values))
    assert not np.asarray(scaled)[np.isnan(values)].any()
    scaled = np.asarray(scaled)
    measured = ~np.isnan(values)
    wanted = (values - STATS.means[:, None]) / (STATS.stds[:, None] + STATS.epsilon)
    np.testing.assert_allclose(scaled[:, :7][measured[:, :7]], wanted[:, :7][measured[:, :7]], atol=1e-5)
    np.testing.assert_array_equal(scaled[:, 7:][measured[:, 7:]], values[:, 7:][measured[:, 7:]])
    back = np.asarray(masked_reconstruction.denormalize(scaled, STATS))
    np.testing.assert_allclose(back[measured], values[measured], atol=1e-5)
