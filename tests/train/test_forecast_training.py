"""Forecasters through the common loop: a made cohort of days that repeat, and the same losses on any devices."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import jax
import numpy as np
import pytest
import toy_pretraining as toy
from flax import nnx

from wearjax.batches import placement, source
from wearjax.convert import bundle as bundles
from wearjax.day import Day
from wearjax.days.hourly_scaler import HourlyScaler
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError
from wearjax.models import registry
from wearjax.models.dlinear_forecast import DLinearForecastConfig
from wearjax.models.mixlinear import MixLinearConfig
from wearjax.models.segrnn import SegRNNConfig
from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive
from wearjax.predict.forecasters.series import SeriesForecaster
from wearjax.segments import forecast_points, trajectories
from wearjax.train import config as configs
from wearjax.train import data, loop, metrics, optimizer, step, strategy, tasks
from wearjax.train import state as states
from wearjax.train.config import DataConfig, LoopConfig, OptimizerConfig, PretrainConfig

HORIZON, STEPS = 24, 72
SMALL = {
    "dlinear_forecast": DLinearForecastConfig(steps=STEPS, window=25, d_model=8),
    "segrnn": SegRNNConfig(steps=STEPS, d_model=8),
    "mixlinear": MixLinearConfig(steps=STEPS),
}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory):
    """Channels swing with the day, each at its own hour and nearly the same for everybody, under noise of the hour."""
    path, rng, hour = tmp_path_factory.mktemp("sines") / "days", np.random.default_rng(0), np.arange(24)
    names = [f"p{i:02d}" for i in range(12)]
    with DayStoreWriter(path, provenance={}, cleaned=True) as writer:
        common = rng.uniform(0, 24, (19, 1))
        for name in names:
            phase = common + rng.uniform(-1, 1, (19, 1))
            for day in range(9):
                swing = 10 + 4 * np.sin(2 * np.pi * (hour + phase) / 24) + rng.normal(0, 2, (19, 24))
                if day == 4:
                    swing[:, 5:8] = np.nan
                values = np.repeat(swing, 60, axis=1).astype(np.float32)
                writer.add(Day(values, name, dt.date(2024, 3, 1 + day), 0.0, "sines"))
    (path / "splits.json").write_text(
        json.dumps({"train": names[:8], "validation": names[8:10], "test": names[10:]})
    )
    return path


def config(model, **settings):
    chosen = {"steps": 90, "log_every": 30, "validate_epochs": 2.0, "patience": 8, "devices": 1} | settings
    rate = 1e-2
    return PretrainConfig(
        name="sines", data=DataConfig(batch_size=16), model=model, loop=LoopConfig(**chosen),
        optimizer=OptimizerConfig(
            learning_rate=rate, beta2=0.999, weight_decay=0.0, warmup_fraction=0.0, warmup_start=1.0,
            final_learning_rate=1e-3,
        ),
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(cohort, tmp_path_factory):
    return loop.pretrain(
        config(SMALL["dlinear_forecast"]), data_dir=cohort, out=tmp_path_factory.mktemp("runs") / "run",
        bundles=bundles, console=toy.plain_console(),
    )  # fmt: skip


def errors(forecaster, cohort):
    """Mean absolute error over all test windows."""
    found = []
    for record in trajectories.open_trajectories(cohort, participants=["p10", "p11"]):
        for day in forecast_points.start_days(record.retained, HORIZON):
            origin = 24 * day
            out = forecaster.predict(record.values[:, :origin], HORIZON)
            point = out[0] if isinstance(out, tuple) else out
            found.append(np.abs(point - record.values[:, origin : origin + HORIZON]))
    return np.nanmean(found)


def test_the_bundle_beats_seasonal_naive(trained, cohort):
    forecaster = SeriesForecaster(bundles.load_bundle(trained.bundle_path))
    assert errors(forecaster, cohort) < 0.85 * errors(SeasonalNaive(), cohort)


def test_the_run_folder_tells_the_hours(trained, cohort):
    recorded = json.loads((trained.run_dir / "config.json").read_text())
    # Of nine days, three come before the first point; the days are whole, so all other midnights count.
    assert (recorded["run"]["examples"], recorded["run"]["train_examples"]) == ("windows", 8 * 6)
    assert recorded["normalization"]["channels"] == list(range(19))
    values = np.concatenate(
        [
            r.values
            for r in trajectories.open_trajectories(cohort, participants=[f"p{i:02d}" for i in range(8)])
        ],
        axis=1,
    ).astype(np.float64)
    bundle = bundles.load_bundle(trained.bundle_path)
    np.testing.assert_allclose(bundle.stats.means, np.nanmean(values, axis=1))
    np.testing.assert_allclose(bundle.stats.stds, np.nanstd(values, axis=1))
    assert bundle.stats.epsilon == 0
    rows = list(metrics.read_jsonl(trained.run_dir / "metrics.jsonl"))
    assert {"loss", "mae_continuous", "mae_binary", "missing_history"} <= set(rows[0])
    assert [r["step"] for r in rows if r["split"] == "validation"][:2] == [6, 12]


def test_a_resumed_run_scales_flags_as_before(trained, cohort, tmp_path):
    asked = config(SMALL["dlinear_forecast"])
    for _ in range(2):
        loop.pretrain(
            asked, data_dir=cohort, out=tmp_path / "run", bundles=bundles, console=toy.plain_console(),
            max_seconds=0,
        )  # fmt: skip
    resumed, whole = (bundles.load_bundle(p).stats for p in (tmp_path / "run/bundle", trained.bundle_path))
    np.testing.assert_array_equal(resumed.means, whole.means)
    np.testing.assert_array_equal(resumed.stds, whole.stds)


def batches(count=3):
    rng = np.random.default_rng(0)
    for _ in range(count):
        values = rng.normal(0, 1, (16, STEPS + HORIZON, 19)).astype(np.float32)
        values[rng.random(values.shape) < 0.3] = np.nan
        values[0] = np.nan
        yield {"values": values, "index": np.arange(16)}


def losses(model, devices, pmap=False):
    """Metrics of three steps, and how often the step was traced."""
    mesh, settings = placement.make_mesh(jax.devices()[:devices]), OptimizerConfig(learning_rate=1e-2)
    task, traces = tasks.task_of(model), []
    schedule = optimizer.warmup_cosine(settings, steps=3)
    update = optimizer.adamw(settings, schedule)
    blueprint, *_ = states.blueprint(task.build)
    make = states.initialiser(task.build, update, seed=0)
    layout = states.layout(
        make, lambda name, shape: placement.parameter_sharding(mesh, name, shape, sharded=False)
    )
    axis = strategy.AXIS if pmap else None
    stats = HourlyScaler(np.zeros(19), np.full(19, 2.0), 0.0)
    pure = step.train_step(
        blueprint, task.objective(stats, axis_name=axis), update, schedule, seed=0, axis_name=axis
    )

    def counted(*args):
        traces.append(1)
        return pure(*args)

    way = strategy.Pmap(counted, mesh=mesh) if pmap else strategy.Jit(counted, mesh=mesh, layout=layout)
    state, rows = way.begin(states.place(make, layout)), []
    for batch in batches():
        state, measured = way.step(state, way.place(batch))
        rows.append(jax.device_get(measured))
    return rows, len(traces)


@pytest.mark.parametrize("kind", registry.FORECASTERS)
def test_eight_devices_give_the_losses_of_one(kind):
    alone, traces = losses(SMALL[kind], 1)
    assert traces == 1  # the first step compiles, no other does
    assert len({float(row["loss"]) for row in alone}) == 3
    spread, traces = losses(
        SMALL[kind], 8, pmap=kind == "segrnn"
    )  # whose dropout must not depend on the device
    assert traces == 1
    for row, expected in zip(spread, alone, strict=True):
        for name in expected:
            np.testing.assert_allclose(row[name], expected[name], rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", registry.FORECASTERS)
def test_published_training(kind):
    name = f"{kind.removesuffix('_forecast')}_forecast"
    published = configs.load_config(name)
    assert published.model == registry.get(kind).config()
    assert (published.data.batch_size, published.seed) == (64, 42)
    assert (published.loop.epochs, published.loop.validate_epochs, published.loop.patience) == (50, 1.0, 10)
    schedule = optimizer.warmup_cosine(published.optimizer, steps=100)
    assert {float(schedule(s)) for s in (0, 1, 50, 99)} == {float(np.float32(1e-3))}
    assert configs.from_dict(json.loads(json.dumps(configs.to_dict(published)))) == published


def test_windows_of_a_participant_are_neighbours_in_an_epoch(cohort):
    found = data.open_training_days(cohort, DataConfig())
    examples = data.forecast_examples(found, seed=0, steps=STEPS, horizon=HORIZON)
    batches = source.ShuffledBatches(
        examples.train, batch_size=6, n_batches=16, seed=0, groups=examples.groups
    )  # six windows each of eight participants
    owners = [set(examples.train.owner[batch["index"]]) for batch in (batches[step] for step in range(16))]
    assert [len(own) for own in owners] == [1] * 16
    for epoch in (owners[:8], owners[8:]):
        assert set.union(*epoch) == set(range(8))


def test_a_cohort_without_whole_days_has_no_windows(cohort, tmp_path):
    with pytest.raises(ConfigError, match="no windows can be cut from the train days"):
        loop.pretrain(
            config(dataclasses.replace(SMALL["mixlinear"], horizon=240)), data_dir=cohort, out=tmp_path / "run",
            console=toy.plain_console(),
        )  # fmt: skip


def test_models_are_built_as_their_task_says():
    for kind, model in SMALL.items():
        task = tasks.task_of(model)
        assert (task.kind, task.statistics) == (kind, HourlyScaler)
        assert isinstance(nnx.eval_shape(lambda task=task: task.build(nnx.Rngs(0))), nnx.Module)
