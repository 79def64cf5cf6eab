"""Windows of several days as an LSM-2-Sparse fills them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.channels import BINARY
from wearjax.convert import bundle as bundles
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import MethodError
from wearjax.models import lsm2_sparse
from wearjax.predict import protocols
from wearjax.predict.imputers.lsm2 import LSM2SparseImputer

DAYS = 3
SMALL = lsm2_sparse.LSM2SparseConfig(
    patch=240, n_days=DAYS, window_minutes=480, encoder_dim=8, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=2, decoder_heads=2, mlp_ratio=2, dropout=0.1,
)  # fmt: skip
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, 50.0, 0.0), np.where(np.arange(19) < 7, np.linspace(1, 4, 19), 1.0)
)
FLAGS = list(BINARY)


def draw(path, p, rng=np.random.default_rng(0)):  # noqa: B008 - one stream for all parameters
    """Attention sharp enough that days and their offsets show in the output."""
    spread = 2.0 if "qkv" in jax.tree_util.keystr(path) else 0.4
    return jnp.asarray(rng.normal(0.1, spread, p.shape), jnp.float32)


@pytest.fixture(scope="module")
def bundle():
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2_sparse.LSM2Sparse(SMALL, rngs=nnx.Rngs(0))))
    state = jax.tree_util.tree_map_with_path(draw, shapes)
    return bundles.Bundle("lsm2_sparse", SMALL, nnx.merge(graph, state), STATS)


@pytest.fixture(scope="module")
def imputer(bundle):
    return LSM2SparseImputer(bundle, batch_size=2)


def made(n: int, days: int = DAYS, seed: int = 0):
    """Windows in stored units, where they were measured, and cells to fill, whose values are still there."""
    rng = np.random.default_rng(seed)
    shape = (n, 19, days * 1440)
    data = rng.normal(50, 3, shape).astype(np.float32)
    data[:, FLAGS] = rng.random((n, len(FLAGS), days * 1440)) < 0.4
    observed = np.ones(shape, bool)
    observed[:, 3, 100:300] = False
    data[~observed] = np.nan
    target = np.zeros(shape, bool)
    target[:, :, 480:720] = rng.random((n, 19, 240)) < 0.5
    target[:, 8, -200:] = True
    return data, observed, target & observed


OFFSETS = np.asarray([[0, 1, 2], [0, 3, 4], [0, 20, 21]])


def test_only_targets_are_written(imputer):
    data, observed, target = made(3)
    given = [array.copy() for array in (data, observed, target)]
    out = imputer.impute(data, observed, target, day_offsets=OFFSETS)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[~target], data[~target])
    assert np.isfinite(out[target]).all()
    assert (out[target] != data[target]).any()
    for array, before in zip((data, observed, target), given, strict=True):
        np.testing.assert_array_equal(array, before)


def test_values_come_in_stored_units_and_flags_as_probabilities(bundle, imputer):
    data, observed, target = made(3)
    out = imputer.impute(data, observed, target, day_offsets=OFFSETS)
    assert out[:, FLAGS][target[:, FLAGS]].min() >= 0
    assert out[:, FLAGS][target[:, FLAGS]].max() <= 1
    hidden = np.where(target, np.nan, data)
    scaled = (hidden - STATS.means[:, None]) / (STATS.stds[:, None] + STATS.epsilon)
    scaled[:, FLAGS] = hidden[:, FLAGS]
    reconstruct = nnx.jit(lambda model, v, m, o: model.reconstruct(v, m, day_offsets=o))
    predicted = reconstruct(
        bundle.model, jnp.asarray(scaled, jnp.float32), np.isnan(hidden), jnp.asarray(OFFSETS)
    )
    wanted = np.asarray(predicted) * STATS.stds[:, None] + STATS.means[:, None]
    np.testing.assert_allclose(out[target], wanted[target], rtol=1e-4, atol=1e-4)


def test_what_stands_under_targets_unobserved_cells_or_padded_days_cannot_matter(imputer):
    data, observed, target = made(2)
    offsets = np.asarray([[0, 1, 2], [-1, 0, 4]])
    target[1, :, :1440] = False
    padded = np.zeros_like(target)
    padded[1, :, :1440] = True
    wanted = imputer.impute(np.where(target | padded, np.nan, data), observed, target, day_offsets=offsets)
    assert target[1].any()
    for left in (0.0, 1e6):
        other = np.where(target | ~observed | padded, np.float32(left), data)
        found = imputer.impute(other, observed, target, day_offsets=offsets)
        np.testing.assert_array_equal(found[target], wanted[target])


def test_offsets_reach_the_model_through_the_protocol(imputer):
    data, observed, target = made(2)
    assert isinstance(imputer, protocols.Imputer)
    assert protocols.method_name(imputer) == "lsm2_sparse"
    call = lambda offsets: protocols.call_impute(  # noqa: E731
        imputer, data, observed, target, sample_indices=np.arange(2), day_offsets=offsets
    )
    plain = call(None)
    np.testing.assert_array_equal(call(np.tile(np.arange(DAYS), (2, 1))), plain)
    far = call(np.asarray([[0, 1, 2], [0, 40, 90]]))
    np.testing.assert_array_equal(far[0], plain[0])
    assert not np.allclose(far[1][target[1]], plain[1][target[1]], atol=1e-2)


def test_days_help_each_other(imputer):
    data, observed, target = made(1)
    out = imputer.impute(data, observed, target)
    other = data.copy()
    other[..., 1440:2880] += 5  # without targets itself
    found = imputer.impute(other, observed, target)
    assert not np.allclose(found[target], out[target], atol=1e-2)


def test_a_batch_does_not_change_its_windows(bundle, imputer):
    data, observed, target = made(3)
    together = imputer.impute(data, observed, target, day_offsets=OFFSETS)  # two windows, then one
    for i in range(3):
        part = slice(i, i + 1)
        one = imputer.impute(data[part], observed[part], target[part], day_offsets=OFFSETS[part])
        np.testing.assert_allclose(one, together[part], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("days", [1, 2])
def test_shorter_windows_are_padded_on_the_left(imputer, days):
    data, observed, target = made(2, days)
    pad = lambda x, value: np.pad(x, [(0, 0), (0, 0), ((DAYS - days) * 1440, 0)], constant_values=value)  # noqa: E731
    offsets = np.tile(np.arange(days) * 3, (2, 1))
    found = imputer.impute(data, observed, target, day_offsets=offsets)
    whole = imputer.impute(
        pad(data, np.nan), pad(observed, False), pad(target, False),
        day_offsets=np.pad(offsets, [(0, 0), (DAYS - days, 0)], constant_values=-1),
    )  # fmt: skip
    assert found.shape == data.shape
    np.testing.assert_array_equal(found, whole[..., -days * 1440 :])


def test_nothing_to_fill_and_nothing_measured(imputer):
    data, observed, target = made(1)
    np.testing.assert_array_equal(imputer.impute(data, observed, np.zeros_like(target)), data)
    assert imputer.impute(data[:0], observed[:0], target[:0]).shape == (0, 19, DAYS * 1440)
    empty = imputer.impute(np.full_like(data, np.nan), np.zeros_like(observed), np.ones_like(target))
    assert np.isfinite(empty).all()


def test_what_does_not_fit_is_refused(bundle, imputer):
    data, observed, target = made(1)
    cut = lambda stop: (x[..., :stop] for x in (data, observed, target))  # noqa: E731
    message = r"expected \(batch, 19, k·1440\) values of at most 3 days, got "
    for stop, shape in ((1000, r"\(1, 19, 1000\)"), (0, r"\(1, 19, 0\)")):
        with pytest.raises(MethodError, match=message + shape):
            imputer.impute(*cut(stop))
    with pytest.raises(MethodError, match=message + r"\(1, 19, 5760\)"):
        imputer.impute(*(np.concatenate([x, x[..., :1440]], axis=2) for x in (data, observed, target)))
    with pytest.raises(MethodError, match=message + r"\(1, 7, 4320\)"):
        imputer.impute(data[:, :7], observed[:, :7], target[:, :7])
    for offsets in (np.zeros((1, 2), int), np.zeros((1, 3))):
        with pytest.raises(MethodError, match=r"expected whole day_offsets of shape \(1, 3\), got"):
            imputer.impute(data, observed, target, day_offsets=offsets)
    with pytest.raises(MethodError, match="expected a bundle of kind 'lsm2_sparse', got 'lsm2'"):
        LSM2SparseImputer(bundles.Bundle("lsm2", SMALL, bundle.model, STATS))
