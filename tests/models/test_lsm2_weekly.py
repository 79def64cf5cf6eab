"""The weekly dense LSM-2: the daily class on a week of hour tokens."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax import channels
from wearjax.days.normalization import NormalizationStats
from wearjax.layers import position
from wearjax.models import lsm2
from wearjax.objectives import masked_reconstruction

WEEK = 7 * 1440
PUBLISHED = lsm2.LSM2Config(minutes=WEEK, patch=60)
SMALL = dataclasses.replace(
    PUBLISHED, patch=720, encoder_dim=8, encoder_depth=1, encoder_heads=1,
    decoder_dim=8, decoder_depth=1, decoder_heads=1, mlp_ratio=1,
)  # fmt: skip


def linear(n_in: int, n_out: int) -> int:
    return n_in * n_out + n_out


def block(dim: int) -> int:
    """Two norms, the fused projection and its output, an MLP four times as wide."""
    mlp = linear(dim, 4 * dim) + linear(4 * dim, dim)
    return 2 * 2 * dim + linear(dim, 3 * dim) + linear(dim, dim) + mlp


def test_the_published_model_has_the_size_that_its_shapes_give():
    assert (PUBLISHED.patches_per_channel, PUBLISHED.n_tokens, PUBLISHED.n_kept) == (168, 3192, 1596)
    wanted = (
        linear(60, 384) + 12 * block(384) + 2 * 384  # patch embedding, encoder and its norm
        + linear(384, 256) + 256  # to the decoder's width, mask token
        + 4 * block(256) + 2 * 256 + linear(256, 60)
    )  # fmt: skip
    assert wanted == 24_591_548
    shapes = nnx.eval_shape(lambda: lsm2.LSM2(PUBLISHED, rngs=nnx.Rngs(0)))
    assert sum(leaf.size for leaf in jax.tree.leaves(nnx.state(shapes, nnx.Param))) == wanted


def test_time_runs_over_the_hours_of_the_week():
    model = nnx.eval_shape(lambda: lsm2.LSM2(PUBLISHED, rngs=nnx.Rngs(0)))
    table = model.positions(384).reshape(19, 168, 384)
    np.testing.assert_array_equal(table[3, :, 192:], position.sincos(np.arange(168), 192))
    np.testing.assert_array_equal(table[:, 100, :192], position.sincos(np.arange(19), 192))


def test_a_missing_day_hides_its_hours():
    missing = np.zeros((1, 19, WEEK), bool)
    missing[:, :, 2 * 1440 : 3 * 1440] = True
    missing[:, 0, 30] = True  # one minute hides an hour, of heart rate it does not
    missing[:, channels.HEART_RATE, :59] = True
    found = np.asarray(lsm2.inherited_mask(jnp.asarray(missing), 60)).reshape(19, 168)
    wanted = np.zeros((19, 168), bool)
    wanted[:, 48:72] = True
    wanted[0, 0] = True
    np.testing.assert_array_equal(found, wanted)


@pytest.fixture(scope="module")
def compiled():
    """Loss and gradient of a narrow model on one week, with dropout."""
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2.LSM2(SMALL, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.2, p.shape), jnp.float32), shapes)
    objective = masked_reconstruction.MaskedReconstruction(NormalizationStats.identity())

    def loss(state, values):
        return objective(nnx.merge(graph, state), {"values": values}, key=jax.random.key(1), train=True)

    function = jax.jit(
        jax.value_and_grad(loss, has_aux=True), compiler_options={"xla_backend_optimization_level": 0}
    )
    return lambda values: function(state, jnp.asarray(values))


@pytest.mark.parametrize("missing_days", [(), (2,), (0, 1, 2, 3, 4, 5), tuple(range(7))])
def test_loss_and_gradient_are_finite_with_missing_days(compiled, missing_days):
    values = np.random.default_rng(3).normal(size=(1, 19, 7, 1440)).astype(np.float32)
    values[:, :, list(missing_days)] = np.nan
    (loss, metrics), gradient = compiled(values.reshape(1, 19, WEEK))
    assert np.isfinite(loss)
    assert loss > 0
    assert float(metrics["missing_fraction"]) == pytest.approx(len(missing_days) / 7, abs=1e-6)
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()
