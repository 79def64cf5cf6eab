"""Flax DLinear and BRITS as imputers: the contract, and from a store to a trained bundle."""

from __future__ import annotations

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from made_days import made_day

import wearjax
from wearjax.channels import BINARY
from wearjax.convert import bundle as bundles
from wearjax.days import normalization
from wearjax.days.normalization import NormalizationStats
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, MethodError
from wearjax.models import registry
from wearjax.models.brits import BRITSConfig
from wearjax.models.dlinear import DLinearConfig
from wearjax.predict import protocols
from wearjax.predict.imputers import lsm2
from wearjax.predict.imputers.series import BRITSImputer, DLinearImputer
from wearjax.train import config as configs
from wearjax.train import loop, tasks
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig

STEPS = 60
SMALL = {
    "dlinear": DLinearConfig(minutes=STEPS, window=7, d_model=4),
    "brits": BRITSConfig(minutes=STEPS, hidden_size=4),
}
STATS = NormalizationStats(
    np.where(np.arange(19) < 7, 50.0, 0.0), np.where(np.arange(19) < 7, np.linspace(1, 4, 19), 1.0)
)


@pytest.fixture(scope="module", params=sorted(SMALL))
def bundle(request):
    config = SMALL[request.param]
    model = registry.get(request.param).build(config, rngs=nnx.Rngs(0))
    return bundles.Bundle(request.param, config, model, STATS)


def made(n: int = 2, time: int = 1440, seed: int = 0):
    rng = np.random.default_rng(seed)
    data = rng.normal(50, 3, (n, 19, time)).astype(np.float32)
    data[:, list(BINARY)] = rng.random((n, len(BINARY), time)) < 0.4
    observed = np.ones(data.shape, bool)
    observed[:, 3, : time // 3] = False
    observed[:, 11] = False
    data[~observed] = np.nan
    target = np.zeros(data.shape, bool)
    target[:, :, time // 4 : time // 2] = rng.random((n, 19, time // 2 - time // 4)) < 0.5
    return data, observed, target & observed


def test_only_targets_are_written_and_nothing_under_them_is_read(bundle):
    imputer = lsm2.imputer_of(bundle, batch_size=16)
    assert imputer.name == bundle.kind
    data, observed, target = made()
    out = protocols.call_impute(imputer, data, observed, target)
    np.testing.assert_array_equal(out[~target], data[~target])
    assert np.isfinite(out[target]).all()
    for left in (np.nan, 1e6):
        other = np.where(target | ~observed, np.float32(left), data)
        np.testing.assert_array_equal(imputer.impute(other, observed, target)[target], out[target])


def test_values_come_in_stored_units(bundle):
    """The reconstruction of one series, by hand; flags pass as the model gives them."""
    data, observed, target = made(1, STEPS)
    out = lsm2.imputer_of(bundle, batch_size=16).impute(data, observed, target)
    visible = observed & ~target
    scaled = normalization.normalize(np.where(visible, data, np.nan), STATS).swapaxes(1, 2)
    found = nnx.jit(type(bundle.model).reconstruct)(
        bundle.model, jnp.asarray(np.nan_to_num(scaled)), jnp.asarray(visible.swapaxes(1, 2), jnp.float32)
    )
    wanted = normalization.denormalize(np.asarray(found).swapaxes(1, 2), STATS)
    np.testing.assert_allclose(out[target], wanted[target], rtol=1e-5, atol=1e-5)


def test_a_saved_model_is_loaded_as_an_imputer(bundle, tmp_path):
    path = bundles.save_bundle(
        tmp_path / "model", kind=bundle.kind, config=bundle.config, model=bundle.model, stats=STATS
    )
    model = wearjax.load_pretrained(path, batch_size=16)
    assert model.bundle.config == bundle.config
    data, observed, target = made(1)
    found = protocols.call_impute(model, data, observed, target)
    np.testing.assert_allclose(
        found, lsm2.imputer_of(bundle, batch_size=16).impute(data, observed, target), rtol=1e-6
    )
    with pytest.raises(MethodError, match=f"kind '{bundle.kind}' gives no representation"):
        model.embed(data)


def test_what_does_not_fit_is_refused(bundle):
    imputer = lsm2.imputer_of(bundle)
    data, observed, target = made(1)
    with pytest.raises(
        MethodError, match=r"Imputer: expected \(batch, 19, k·60\) values, got \(1, 19, 100\)"
    ):
        imputer.impute(data[..., :100], observed[..., :100], target[..., :100])
    wrong = BRITSImputer if bundle.kind == "dlinear" else DLinearImputer
    with pytest.raises(MethodError, match=f"got '{bundle.kind}'"):
        wrong(bundle)
    with pytest.raises(MethodError, match="cannot impute; kinds that can: lsm2, lsm2_sparse, dlinear, brits"):
        lsm2.imputer_of(dataclasses.replace(bundle, kind="wbm"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("series") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        for participant in ("a", "b", "c"):
            for day in (0, 2):
                writer.add(made_day(participant, day))
    (path / "splits.json").write_text(json.dumps({"train": ["a", "b"], "validation": ["c"], "test": []}))
    return path


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_training_on_a_store(kind, store, tmp_path):
    """The common loop trains it, the loss falls, and the bundle imputes."""
    config = PretrainConfig(
        name=kind,
        data=DataConfig(batch_size=2),
        model=SMALL[kind],
        optimizer=OptimizerConfig(
            learning_rate=1e-2,
            weight_decay=0.0,
            warmup_fraction=0.0,
            warmup_start=1.0,
            final_learning_rate=1e-2,
        ),
        loop=LoopConfig(steps=10, log_every=2, validate_every=5, checkpoint_every=10, devices=1),
    )
    result = loop.pretrain(config, data_dir=store, out=tmp_path / "run", bundles=bundles)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if row["split"] == "train"]
    assert losses[-1] < 0.9 * losses[0]
    scores = [row for row in rows if row["split"] == "validation"]
    assert scores[-1]["mae_hidden"] < scores[0]["mae_hidden"]
    rates = [row["learning_rate"] for row in rows if "learning_rate" in row]
    np.testing.assert_allclose(rates, 1e-2, rtol=1e-6)
    data, observed, target = made(1)
    out = wearjax.load_pretrained(result.bundle_path).impute(data, observed, target)
    assert np.isfinite(out[target]).all()


def test_lengths_that_can_be_trained():
    for minutes, name in ((60, "days"), (1440, "days"), (10080, "windows")):
        for model in (DLinearConfig(minutes=minutes), BRITSConfig(minutes=minutes)):
            assert tasks.task_of(model).examples.__doc__.startswith(
                {"days": "Single", "windows": "Windows"}[name]
            )
    with pytest.raises(ConfigError, match=r"model.minutes: 1000 neither divides a day"):
        tasks.task_of(DLinearConfig(minutes=1000))


def test_shipped_configurations_are_as_published():
    daily, weekly, brits = (
        configs.load_config(name) for name in ("dlinear_imputation", "dlinear_imputation_weekly", "brits")
    )
    assert (daily.model.minutes, weekly.model.minutes, brits.model.minutes) == (1440, 10080, 1440)
    assert (daily.model.window, daily.model.d_model, brits.model.hidden_size) == (51, 256, 128)
    assert dataclasses.replace(weekly.model, minutes=1440) == daily.model
    assert brits.optimizer.clip_norm == 1.0
    for config in (daily, weekly, brits):
        assert (config.loop.epochs, config.data.batch_size, config.optimizer.weight_decay) == (100, 32, 0.0)
        assert (config.loop.validate_epochs, config.loop.validate_every, config.loop.patience) == (
            1.0,
            None,
            10,
        )
        assert config.loop.validation_examples >= 10**9  # all of the split
        assert (config.optimizer.beta1, config.optimizer.beta2) == (
            0.9,
            0.999,
        ) or config.optimizer.beta1 == 0.9
