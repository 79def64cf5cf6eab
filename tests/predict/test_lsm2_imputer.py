"""A trained LSM-2 as an imputer and as a source of day vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import wearjax
from wearjax.channels import BINARY
from wearjax.convert import bundle as bundles
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, MethodError
from wearjax.models import lsm2
from wearjax.predict import pretrained, protocols
from wearjax.predict.imputers.lsm2 import LSM2Imputer

SMALL = lsm2.LSM2Config(
    patch=240, encoder_dim=16, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2, mlp_ratio=2, dropout=0.1,
)  # fmt: skip
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, 50.0, 0.0), np.where(np.arange(19) < 7, np.linspace(1, 4, 19), 1.0)
)


@pytest.fixture(scope="module")
def bundle():
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2.LSM2(SMALL, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.3, p.shape), jnp.float32), shapes)
    return bundles.Bundle("lsm2", SMALL, nnx.merge(graph, state), STATS)


@pytest.fixture(scope="module")
def imputer(bundle):
    return LSM2Imputer(bundle, batch_size=2)


def made(n: int, time: int = 1440, seed: int = 0):
    """Days in stored units, where they were measured, and cells to fill, whose values are still there."""
    rng = np.random.default_rng(seed)
    data = rng.normal(50, 3, (n, 19, time)).astype(np.float32)
    data[:, list(BINARY)] = rng.random((n, len(BINARY), time)) < 0.4
    observed = np.ones(data.shape, bool)
    observed[:, 3, 100:300] = False
    data[~observed] = np.nan
    target = np.zeros(data.shape, bool)
    target[:, :, 480:720] = rng.random((n, 19, 240)) < 0.5
    target[:, 8, 900:1000] = True
    return data, observed, target & observed


def test_only_targets_are_written(imputer):
    data, observed, target = made(3)
    given = [array.copy() for array in (data, observed, target)]
    out = imputer.impute(data, observed, target)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[~target], data[~target])
    assert np.isfinite(out[target]).all()
    assert (out[target] != data[target]).any()
    for array, before in zip((data, observed, target), given, strict=True):
        np.testing.assert_array_equal(array, before)


def test_values_come_in_stored_units_and_flags_as_probabilities(bundle, imputer):
    data, observed, target = made(3)
    out = imputer.impute(data, observed, target)
    flags = out[:, list(BINARY)][target[:, list(BINARY)]]
    assert flags.min() >= 0
    assert flags.max() <= 1
    hidden = np.where(target, np.nan, data)
    missing = np.isnan(hidden)
    scaled = (hidden - STATS.means[:, None]) / (STATS.stds[:, None] + STATS.epsilon)
    scaled[:, list(BINARY)] = hidden[:, list(BINARY)]
    predicted = np.asarray(
        nnx.jit(lsm2.LSM2.reconstruct)(bundle.model, jnp.asarray(scaled, jnp.float32), missing)
    )
    wanted = predicted * STATS.stds[:, None] + STATS.means[:, None]
    np.testing.assert_allclose(out[target], wanted[target], rtol=1e-4, atol=1e-4)


def test_what_stands_under_targets_or_unobserved_cells_cannot_matter(imputer):
    data, observed, target = made(3)
    wanted = imputer.impute(np.where(target, np.nan, data), observed, target)
    for left in (0.0, 1e6):
        other = np.where(target | ~observed, np.float32(left), data)
        np.testing.assert_array_equal(imputer.impute(other, observed, target)[target], wanted[target])


def test_a_padded_batch_equals_an_unpadded_one(bundle, imputer):
    data, observed, target = made(3)
    together = imputer.impute(data, observed, target)  # two days, then one and a padded one
    for day in range(3):
        part = slice(day, day + 1)
        np.testing.assert_allclose(
            imputer.impute(data[part], observed[part], target[part]), together[part], rtol=1e-5, atol=1e-5
        )
    exact = LSM2Imputer(bundle, batch_size=3).impute(data, observed, target)
    np.testing.assert_allclose(exact, together, rtol=1e-5, atol=1e-5)


def test_a_window_is_imputed_day_by_day(imputer):
    data, observed, target = made(4)
    days = imputer.impute(data, observed, target)
    window = lambda x: np.stack([np.concatenate(x[i : i + 2], axis=-1) for i in (0, 2)])  # noqa: E731
    out = imputer.impute(window(data), window(observed), window(target))
    assert out.shape == (2, 19, 2880)
    np.testing.assert_allclose(out, window(days), rtol=1e-5, atol=1e-5)


def test_a_weekly_model_takes_windows_whole():
    week = lsm2.LSM2Config(
        minutes=7 * 1440, patch=1440, encoder_dim=8, encoder_depth=1, encoder_heads=1,
        decoder_dim=8, decoder_depth=1, decoder_heads=1, mlp_ratio=1,
    )  # fmt: skip
    graph, shapes = nnx.split(nnx.eval_shape(lambda: lsm2.LSM2(week, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(1)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0.1, 0.4, p.shape), jnp.float32), shapes)
    weekly = LSM2Imputer(bundles.Bundle("lsm2", week, nnx.merge(graph, state), STATS), batch_size=2)
    data, observed, target = made(3, 7 * 1440)
    data[1, :, :2880], observed[1, :, :2880], target[1, :, :2880] = np.nan, False, False
    target[1, 0, 4000:4200] = True
    out = weekly.impute(data, observed, target)
    np.testing.assert_array_equal(out[~target], data[~target])
    assert np.isfinite(out[target]).all()
    other = data.copy()
    other[..., 9000:] += 5  # another day of the week, without targets
    assert not target[..., 9000:].any()
    assert not np.allclose(weekly.impute(other, observed, target)[target], out[target], atol=1e-3)
    with pytest.raises(MethodError, match=r"expected \(batch, 19, k·10080\) values, got \(3, 19, 1440\)"):
        weekly.impute(*(x[..., :1440] for x in (data, observed, target)))


def test_nothing_to_fill_and_nothing_measured(imputer):
    data, observed, target = made(1)
    np.testing.assert_array_equal(imputer.impute(data, observed, np.zeros_like(target)), data)
    assert imputer.impute(data[:0], observed[:0], target[:0]).shape == (0, 19, 1440)
    empty = imputer.impute(np.full_like(data, np.nan), np.zeros_like(observed), np.ones_like(target))
    assert np.isfinite(empty).all()


def test_the_contract_of_imputers(imputer):
    data, observed, target = made(2)
    assert isinstance(imputer, protocols.Imputer)
    assert protocols.method_name(imputer) == "lsm2"
    out = protocols.call_impute(imputer, data, observed, target, sample_indices=np.arange(2), dates=None)
    np.testing.assert_array_equal(out, imputer.impute(data, observed, target))
    numbers = imputer.impute(data, observed.astype(np.uint8), target.astype(np.float32))  # masks of 0 and 1
    np.testing.assert_array_equal(numbers, out)


def test_what_does_not_fit_is_refused(bundle, imputer):
    data, observed, target = made(1)
    with pytest.raises(MethodError, match=r"expected \(batch, 19, k·1440\) values, got \(1, 19, 1000\)"):
        imputer.impute(data[..., :1000], observed[..., :1000], target[..., :1000])
    with pytest.raises(MethodError, match=r"got \(1, 7, 1440\)"):
        imputer.impute(data[:, :7], observed[:, :7], target[:, :7])
    with pytest.raises(MethodError, match=r"observed_mask: expected the shape of the data \(1, 19, 1440\)"):
        imputer.impute(data, observed[..., :100], target)
    with pytest.raises(MethodError, match="batch_size: must be at least 1, got 0"):
        LSM2Imputer(bundle, batch_size=0)
    with pytest.raises(MethodError, match=r"embed: expected \(example, 19, 1440\) values, got \(19, 1440\)"):
        pretrained.Pretrained(bundle).embed(data[0])
    with pytest.raises(MethodError, match="expected a bundle of kind 'lsm2', got 'other'"):
        LSM2Imputer(bundles.Bundle("other", SMALL, bundle.model, STATS))


def test_day_vectors(bundle):
    model = pretrained.Pretrained(bundle, batch_size=2)
    data, _, _ = made(3)
    data[1] = np.nan
    out = model.embed(data)
    assert out.shape == (3, SMALL.encoder_dim)
    assert out.dtype == np.float32
    assert np.isfinite(out).all()
    assert not out[1].any()
    assert abs(out[[0, 2]]).max(axis=1).min() > 0.01
    assert not np.allclose(out[0], out[2], atol=1e-4)
    np.testing.assert_allclose(model.embed(data[2:]), out[2:], rtol=1e-5, atol=1e-5)
    assert model.embed(data[:0]).shape == (0, SMALL.encoder_dim)


def test_a_saved_model_is_loaded_as_an_imputer(bundle, imputer, tmp_path):
    path = bundles.save_bundle(tmp_path / "model", kind="lsm2", config=SMALL, model=bundle.model, stats=STATS)
    model = wearjax.load_pretrained(path, batch_size=2)
    assert model.name == "lsm2"
    data, observed, target = made(2)
    found = protocols.call_impute(model, data, observed, target)
    np.testing.assert_allclose(found, imputer.impute(data, observed, target), rtol=1e-6)
    with pytest.raises(CheckpointError, match="not a bundle"):
        wearjax.load_pretrained(tmp_path)
