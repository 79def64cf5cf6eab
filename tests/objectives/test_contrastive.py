"""The contrastive objective: its loss as a plain loop, gaps that stay outside, devices that share one loss."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from wearjax.days.normalization import NormalizationStats
from wearjax.models import wbm
from wearjax.objectives import contrastive

TINY = wbm.WBMConfig(
    hours=12,
    dim=8,
    tokenizer_hidden=8,
    depth=1,
    d_state=4,
    headdim=8,
    ffn_ratio=1,
    projection_dim=6,
    dropout=0.1,
)
BATCH = 8
QUICK = {"xla_backend_optimization_level": 0}  # here compiling takes longer than running
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, np.linspace(1, 3, 19), 0.0), np.where(np.arange(19) < 7, 2.0, 1.0), 0.0
)
OBJECTIVE = contrastive.WeekContrast(STATS)
PARTICIPANTS = np.array([0, 1, 2, 3, 1, 5, 0, 1], np.int32)


def made(seed: int) -> dict[str, np.ndarray]:
    """Weeks around a pattern of their participant."""
    rng = np.random.default_rng(seed)
    pattern = np.random.default_rng(0).normal(0, 2, (6, TINY.hours, 19))[PARTICIPANTS]
    values = (pattern + rng.normal(2, 1, pattern.shape)).astype(np.float32)
    values[..., 7:] = values[..., 7:] > 2
    values[rng.random(values.shape) < 0.3] = np.nan
    return {"values": values, "participant": PARTICIPANTS, "index": np.arange(BATCH)}


class Fixed:
    """Stands for a model: hours have given vectors; remembers what it was asked."""

    def __init__(self, config, z):
        self.config, self.z, self.asked, self.pooled = config, z, [], []

    def contextual(self, tokens, *, keys=None):
        self.asked.append((tokens, None if keys is None else jax.random.key_data(keys)))
        return self.z

    def project(self, r):
        self.pooled.append(r)
        return wbm.unit(r)


@partial(jax.jit, static_argnames=("config", "train"), compiler_options=QUICK)
def score(config, z, batch, seed=0, *, train=False):
    """Loss and metrics, the views before projection, and what the encoder was asked."""
    model = Fixed(config, z)
    loss, metrics = OBJECTIVE(model, batch, key=jax.random.key(seed), train=train)
    return {"loss": loss, **metrics}, model.pooled, model.asked


def restated(views, participants, temperature, weight):
    """The loss from its formula, sample by sample in float64."""
    h = [np.asarray(v, np.float64) for v in views]
    h = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in h]
    n, nce, spread, found = len(participants), 0.0, 0.0, 0
    for one, other in ((0, 1), (1, 0)):
        for i in range(n):
            allowed = [j for j in range(n) if j == i or participants[j] != participants[i]]
            s = {j: h[one][i] @ h[other][j] / temperature for j in allowed}
            nce += np.log(sum(np.exp(v) for v in s.values())) - s[i]
            found += all(s[i] > v for j, v in s.items() if j != i)
            near = min(((h[one][i] - h[one][j]) ** 2).sum() for j in range(n) if j != i)
            spread -= np.log(near + 1e-8)
    nce, spread = nce / (2 * n), spread / (2 * n)
    return {"loss": nce + weight * spread, "loss_infonce": nce, "loss_koleo": spread, "top1": found / (2 * n)}


@pytest.mark.parametrize("seed", [0, 1])
def test_loss_is_the_formula(seed):
    rng = np.random.default_rng(seed)
    config = dataclasses.replace(TINY, token_drop=0.5, temperature=0.3, koleo_weight=0.4)
    z = rng.normal(size=(BATCH, 1, 8)) + 4 * rng.normal(size=(BATCH, TINY.hours, 8))
    found, views, asked = score(config, z.astype(np.float32), made(seed), seed)
    wanted = restated(views, PARTICIPANTS, 0.3, 0.4)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(wanted, rel=1e-4)
    assert 0 < wanted["top1"] < 1
    assert len(asked) == 1  # without dropout the weeks are encoded once
    assert np.abs(views[0] - views[1]).max() > 0.1


def test_weeks_of_one_participant_are_no_negatives():
    allowed = contrastive.candidates(jnp.arange(3), jnp.array([7, 7, 2]), jnp.array([7, 7, 2]))
    assert allowed.tolist() == [[True, False, True], [False, True, True], [True, True, True]]


def test_views_drop_hours_independently():
    config = dataclasses.replace(TINY, token_drop=0.223)
    hours = 1000
    z = np.tile(np.eye(hours, dtype=np.float32), (BATCH, 1, 1))  # the mean shows which hours were kept
    batch = {"values": np.zeros((BATCH, hours, 19), np.float32), "participant": np.arange(BATCH)}
    one, two = (np.asarray(r) > 0 for r in score(config, z, batch)[1])
    for keep in (one, two):
        assert 1 - keep.mean() == pytest.approx(0.223, abs=0.02)
        assert np.abs(np.corrcoef(keep[:4]) - np.eye(4)).max() < 0.15
    assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.05


def test_dropout_encodes_both_views():
    z = np.random.default_rng(0).normal(size=(2 * BATCH, TINY.hours, 8)).astype(np.float32)
    batch = made(0)
    ((tokens, keys),) = score(TINY, z, batch, train=True)[2]
    assert len(tokens) == BATCH  # their common part is the model's to share
    assert len(np.unique(keys, axis=0)) == len(keys) == 2 * BATCH
    np.testing.assert_allclose(tokens, wbm.tokens_of(batch["values"], STATS), rtol=1e-5, atol=1e-6)


def test_collapse_and_a_batch_of_one_are_finite():
    found = score(TINY, np.ones((BATCH, TINY.hours, 8), np.float32), made(0))[0]
    assert found["top1"] == 0
    assert found["loss_koleo"] == pytest.approx(-np.log(1e-8), rel=1e-3)
    alone = {"values": made(0)["values"][:1], "participant": PARTICIPANTS[:1]}
    found = score(TINY, np.ones((1, TINY.hours, 8), np.float32), alone)[0]
    assert found["loss"] == pytest.approx(0, abs=1e-6)


def test_near_neighbours_keep_their_distance():
    base = np.random.default_rng(0).normal(size=8)
    h = np.stack([base, base + 1e-4]).astype(np.float32)
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    found = contrastive.koleo(h, jnp.arange(2), h)
    exact = -np.log(((h[0].astype(np.float64) - h[1]) ** 2).sum() + 1e-8)
    np.testing.assert_allclose(found, [exact] * 2, rtol=1e-3)


# a real model


def outline():
    return nnx.split(nnx.eval_shape(lambda: wbm.WBM(TINY, rngs=nnx.Rngs(0))))


def gradients_of(objective, state, batch, key, *, train):
    def loss_of(state):
        return objective(nnx.merge(outline()[0], state), batch, key=key, train=train)

    (loss, metrics), grads = jax.value_and_grad(loss_of, has_aux=True)(state)
    return {"loss": loss, **metrics}, grads


@pytest.fixture(scope="module")
def state():
    rng = np.random.default_rng(1)
    return jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.4, p.shape), p.dtype), outline()[1])


@pytest.fixture(scope="module")
def compiled():
    return jax.jit(
        lambda state, batch, key: gradients_of(OBJECTIVE, state, batch, key, train=True),
        compiler_options=QUICK,
    )


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


def test_gaps_stay_outside(compiled, state):
    batch = made(0)
    batch["values"][2:4] = np.nan  # two weeks without any hour: the same vector in evaluation
    metrics, grads = compiled(state, batch, jax.random.key(0))
    assert finite(metrics)
    assert finite(grads)
    batch["values"][:] = np.nan
    assert finite(compiled(state, batch, jax.random.key(0)))


def test_a_view_without_any_hour_is_finite():
    """Every hour dropped: the mean is zero, and so is its projection without bias."""
    kernel = jnp.asarray(np.random.default_rng(1).normal(size=(8, 6)), jnp.float32)

    @partial(jax.jit, compiler_options=QUICK)
    def loss_of(r):
        def total(r):
            h = wbm.unit(r @ kernel)
            loss, _ = contrastive.info_nce(h @ h.T, jnp.arange(3), jnp.ones((3, 3), bool))
            return (loss + contrastive.koleo(h, jnp.arange(3), h)).sum()

        return jax.value_and_grad(total)(r)

    r = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    r[1:] = 0
    assert finite(loss_of(r))


def test_devices_share_one_loss(compiled, state):
    """pmap over 8 devices, a week each: without the others' vectors there would be no negative at all."""
    batch, key = made(1), jax.random.key(3)
    whole, whole_grads = compiled(state, batch, key)
    objective = contrastive.WeekContrast(STATS, axis_name="device")

    def step(state, batch, key):
        metrics, grads = gradients_of(objective, state, batch, key, train=True)
        return metrics, jax.lax.pmean(grads, "device")

    spread = {name: value.reshape(8, 1, *value.shape[1:]) for name, value in batch.items()}
    metrics, grads = jax.pmap(step, axis_name="device", in_axes=(None, 0, None))(state, spread, key)
    for name, value in metrics.items():
        np.testing.assert_allclose(value, np.full(8, whole[name]), rtol=1e-5, err_msg=name)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-3, atol=1e-5 * np.abs(b).max() + 1e-6),
        grads, whole_grads,
    )  # fmt: skip
    assert whole["loss_infonce"] > 0.1


def test_a_few_steps_learn(compiled):
    state = nnx.state(nnx.jit(lambda: wbm.WBM(TINY, rngs=nnx.Rngs(0)))())
    update = optax.adam(3e-3)
    moments = update.init(state)

    @partial(jax.jit, compiler_options=QUICK)
    def apply(state, moments, grads):
        updates, moments = update.update(grads, moments, state)
        return optax.apply_updates(state, updates), moments

    def loss_now():
        unseen = [compiled(state, made(1000 + n), jax.random.key(1000 + n))[0] for n in range(6)]
        return np.mean([metrics["loss_infonce"] for metrics in unseen])

    before = loss_now()
    for number in range(40):
        _, grads = compiled(state, made(number), jax.random.key(number))
        state, moments = apply(state, moments, grads)
    assert loss_now() < 0.75 * before
