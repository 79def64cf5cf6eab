"""Objectives of the series imputers; equality with PyPOTS's losses is tested with its layout."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, PartitionSpec

from wearjax.days.normalization import NormalizationStats
from wearjax.models.brits import BRITS, BRITSConfig
from wearjax.models.dlinear import DLinear, DLinearConfig
from wearjax.objectives import masked_imputation
from wearjax.objectives.masked_imputation import MaskedImputation, RecurrentImputation
from wearjax.segments import masks

STATS = NormalizationStats(
    np.where(np.arange(19) < 7, 5.0, 0.0), np.where(np.arange(19) < 7, np.linspace(1, 4, 19), 1.0)
)
CASES = {
    "dlinear": (DLinear(DLinearConfig(minutes=40, window=5, d_model=3), rngs=nnx.Rngs(0)), MaskedImputation),
    "brits": (BRITS(BRITSConfig(minutes=40, hidden_size=3), rngs=nnx.Rngs(0)), RecurrentImputation),
}


def days(seed: int = 0, count: int = 4, minutes: int = 40):
    rng = np.random.default_rng(seed)
    values = rng.normal(5, 2, (count, 19, minutes)).astype(np.float32)
    values[:, 7:] = values[:, 7:] > 5
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 4] = np.nan
    return values


@functools.cache
def compiled(kind: str, train: bool):
    model, objective = CASES[kind]
    graph, params = nnx.split(model)

    def loss(params, values, key):
        return objective(STATS)(nnx.merge(graph, params), {"values": values}, key=key, train=train)

    return params, jax.jit(jax.value_and_grad(loss, has_aux=True) if train else loss)


def evaluate(kind: str, values, *, train: bool, key: int = 0):
    """Loss and metrics; in training also the gradients."""
    params, run = compiled(kind, train)
    return run(params, jnp.asarray(values), jax.random.key(key))


def finite(tree) -> bool:
    return all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("kind", sorted(CASES))
def test_missing_values_never_make_a_loss_nan(kind):
    values = days()
    nothing = np.full_like(values, np.nan)
    for given in (values, nothing):
        assert finite(evaluate(kind, given, train=True))
        assert finite(evaluate(kind, given, train=False))
    assert float(evaluate(kind, nothing, train=False)[0]) == 0
    (loss, _), grads = evaluate("dlinear", nothing, train=True)
    assert float(loss) == 0
    assert not any(np.asarray(g).any() for g in jax.tree.leaves(grads))


def test_examples_are_cut_into_series():
    values = days(minutes=120)
    scaled, observed = masked_imputation.series_of(jnp.asarray(values), STATS, 40)
    assert scaled.shape == (12, 40, 19)
    scale = (STATS.stds + STATS.epsilon)[:, None]
    wanted = (values[1, :, 40:80] - STATS.means[:, None]) / scale
    np.testing.assert_array_equal(np.asarray(observed[4]).T, ~np.isnan(wanted))
    np.testing.assert_allclose(np.asarray(scaled[4]).T, np.nan_to_num(wanted), atol=1e-6)
    back = masked_imputation.from_series(scaled, 3)
    np.testing.assert_array_equal(np.asarray(masked_imputation.to_series(back, 40)), np.asarray(scaled))
    assert back.shape == values.shape


def test_cut_examples_count_like_series():
    """A batch of long examples and the batch of their pieces have one loss, mask draws included."""
    values = days(minutes=80, count=2)
    pieces = values.reshape(2, 19, 2, 40).swapaxes(1, 2).reshape(4, 19, 40)
    for train in (True, False):
        together, apart = (evaluate("dlinear", v, train=train) for v in (values, pieces))
        np.testing.assert_allclose(*(jax.tree.leaves(v)[0] for v in (together, apart)), rtol=1e-6)


def test_hidden_cells_are_a_share_of_the_observed():
    observed = jnp.asarray(np.random.default_rng(0).random((6, 200, 19)) < 0.6)
    keys = jax.random.split(jax.random.key(0), 6)
    hidden = masked_imputation.hide_cells(keys, observed, 0.2)
    assert not (hidden & ~observed).any()
    assert abs(hidden.sum() / observed.sum() - 0.2) < 0.02
    again = masked_imputation.hide_cells(keys[:2], observed[:2], 0.2)
    np.testing.assert_array_equal(np.asarray(hidden[:2]), np.asarray(again))
    assert not masked_imputation.hide_cells(keys, observed, 0.0).any()


def test_hidden_patches_follow_the_rule_of_the_benchmark():
    """The rule of random noise, checked on its own words: whole patches, until the share is reached, no sooner."""
    observed = np.random.default_rng(1).random((5, 124, 19)) < 0.6
    observed[3] = False
    keys = jax.random.split(jax.random.key(0), 5)
    hidden = np.asarray(masked_imputation.hide_patches(keys, jnp.asarray(observed)))
    assert not hidden[:, 120:].any()
    for whole, masked in zip(observed, hidden, strict=True):
        seen, gone = (a[:120].reshape(12, 10, 19) for a in (whole, masked))
        touched = gone.any(axis=1)
        np.testing.assert_array_equal(gone, seen & touched[:, None])
        over = gone.sum() - int(0.2 * whole.sum())
        assert 0 <= over < 10 if whole.any() else not gone.any()  # the last patch may overshoot
    rng = np.random.default_rng(0)
    theirs = [
        masks.make_mask(
            "random_noise", np.zeros(o.T.shape, np.float32), o.T, rng, patch_size=10, mask_ratio=0.2
        )[0].sum()
        for o in observed
    ]
    assert np.abs(np.asarray(theirs) - hidden.sum(axis=(1, 2))).max() <= 10


def test_training_hides_and_scores_both_kinds():
    (loss, metrics), grads = evaluate("dlinear", days(), train=True)
    np.testing.assert_allclose(float(loss), float(metrics["mae_observed"] + metrics["mae_hidden"]), rtol=1e-6)
    assert 0.1 < float(metrics["masked_fraction"]) < 0.3
    assert 0.3 < float(metrics["missing_fraction"]) < 0.4
    assert all(np.asarray(g).any() for g in jax.tree.leaves(grads))
    (other, _), _ = evaluate("dlinear", days(), train=True, key=1)
    assert float(other) != float(loss)


def test_hidden_cells_are_not_seen(monkeypatch):
    """Their values change the error at them, and nothing else."""
    model, objective = CASES["dlinear"]
    values = days()
    hidden = np.zeros((4, 40, 19), bool)
    hidden[:, 5:9, 0] = True
    monkeypatch.setattr(masked_imputation, "hide_cells", lambda *_: jnp.asarray(hidden))
    changed = values.copy()
    changed[:, 0, 5:9] += 100
    run = nnx.jit(lambda m, v: objective(STATS)(m, {"values": v}, key=jax.random.key(0), train=True)[1])
    found = [run(model, jnp.asarray(v)) for v in (values, changed)]
    np.testing.assert_allclose(found[0]["mae_observed"], found[1]["mae_observed"], rtol=1e-6)
    assert float(found[1]["mae_hidden"]) > 20 + float(found[0]["mae_hidden"])


def test_directions_are_drawn_together():
    (loss, metrics), _ = evaluate("brits", days(), train=True)
    parts = metrics["loss_estimates"] + metrics["loss_consistency"]
    np.testing.assert_allclose(float(loss), float(parts), rtol=1e-6)
    assert float(metrics["loss_consistency"]) > 0
    assert float(metrics["masked_fraction"]) == 0


@pytest.mark.parametrize("kind", sorted(CASES))
def test_devices_share_one_loss(kind):
    """Under a mapped axis loss, masks and the mean of the gradients are those of the global batch."""
    model, objective = CASES[kind]
    (wanted, metrics), grads = evaluate(kind, days(), train=True)
    graph, params = nnx.split(model)
    mesh = Mesh(np.asarray(jax.devices()[:2]), ("data",))

    def local(params, values):
        loss = lambda p: objective(STATS, "data")(  # noqa: E731
            nnx.merge(graph, p), {"values": values}, key=jax.random.key(0), train=True
        )
        (value, found), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return value, found, jax.lax.pmean(grads, "data")

    run = jax.jit(
        jax.shard_map(
            local, mesh=mesh, in_specs=(PartitionSpec(), PartitionSpec("data")),
            out_specs=PartitionSpec(), check_vma=False,
        )
    )  # fmt: skip
    value, found, shared = run(params, jnp.asarray(days()))
    np.testing.assert_allclose(float(value), float(wanted), rtol=1e-5)
    for name, metric in metrics.items():
        np.testing.assert_allclose(float(found[name]), float(metric), rtol=1e-5)
    for ours, theirs in zip(jax.tree.leaves(shared), jax.tree.leaves(grads), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), atol=1e-5)
