"""A run before its first step: folder, data, devices, model and compiled steps."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Int64

from wearjax import json_text, plural
from wearjax.batches import loader, placement
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError
from wearjax.train import config as configs
from wearjax.train import data, devices, optimizer, origin, run_folder, start, step, strategy
from wearjax.train import state as states
from wearjax.train.config import PretrainConfig
from wearjax.train.data import TrainingExamples
from wearjax.train.state import TrainState
from wearjax.train.tasks import Task


@dataclass(frozen=True)
class Run:
    """Everything that stays fixed during a run.

    Attributes:
        start: bundle that gives the first parameters, or None.
        validate_every: steps between validations, or None.
        layout: sharding of every array of the state, in the form that checkpoints hold.
    """

    config: PretrainConfig
    out: Path
    task: Task
    examples: TrainingExamples
    stats: NormalizationStats
    start: Any
    steps: int
    validate_every: int | None
    validation: Int64[np.ndarray, "chosen"]
    validation_batch: int
    blueprint: states.Blueprint
    make_state: Callable[[], TrainState]
    mesh: Mesh
    layout: TrainState
    strategy: strategy.Strategy
    validation_step: Any
    say: Callable[[str], None]


def prepare(
    config: PretrainConfig,
    out: Path,
    *,
    data_dir: str | os.PathLike | None,
    force: bool,
    task: Task,
    bundles: start.BundleFormat | None,
    say: Callable[[str], None],
) -> Run:
    """Opens folder and data, lays out devices and model; shapes only, nothing large is computed yet.

    Raises:
        ConfigError: settings that do not fit each other, the data or the folder.
    """
    batch_size, settings = config.data.batch_size, config.loop
    mesh = placement.make_mesh(placement.choose_devices(settings.devices), model=settings.model_devices)
    shares = mesh.shape["data"]
    placement.check_divisible(batch_size, shares, parts=settings.accumulate)
    bundle = start.read_start(settings.init_from, task, bundles)
    recorded = _open_folder(out, config, force)
    days = data.open_training_days(data_dir, config.data)
    examples = task.examples(days, seed=config.seed)
    if not len(examples.train):
        raise ConfigError(f"{data_dir}: no {examples.name} can be cut from the train days")
    if settings.patience is not None and not (settings.validation_examples and len(examples.validation)):
        raise ConfigError("loop.patience: counts validations, and there are no validation examples")
    amounts = {"train_examples": len(examples.train), "batch_size": batch_size}
    steps, validate_every = settings.total_steps(**amounts), settings.validation_interval(**amounts)

    schedule = optimizer.warmup_cosine(config.optimizer, steps=steps)
    update = optimizer.adamw(config.optimizer, schedule)
    blueprint, params, buffers = states.blueprint(task.build, frozen=task.frozen)
    make_state = states.initialiser(task.build, update, seed=config.seed, frozen=task.frozen)
    if bundle is not None:
        start.check(bundle, jax.eval_shape(make_state), task, where=f"bundle {settings.init_from}")
    stats = _statistics(out, config, data_dir, days, examples, steps, recorded, bundle, task, say)
    layout = states.layout(
        make_state,
        lambda name, shape: placement.parameter_sharding(
            mesh, name, shape, sharded=settings.sharding == "sharded"
        ),
    )
    trained, fixed = states.count(params), states.count(buffers) if task.frozen else 0
    say(f"model: {trained + fixed:,} parameters" + (f", {fixed:,} of them frozen" if fixed else ""))
    n_train, n_validation = len(examples.train), len(examples.validation)
    say(
        f"{examples.name}: {n_train:,} to train, {n_validation:,} to validate; {steps:,} "
        f"{plural.noun(steps, 'step')} of {batch_size} {examples.name} ({steps * batch_size / n_train:.1f} epochs) on "
        f"{mesh.size} {mesh.devices.flat[0].platform} device(s)"
    )
    validation, validation_batch = _validation_items(config, n_validation, shares)
    make_step = partial(
        step.train_step, blueprint, optimizer=update, schedule=schedule,
        seed=config.seed, accumulate=settings.accumulate,
    )  # fmt: skip
    return Run(
        config, out, task, examples, stats, bundle, steps, validate_every, validation, validation_batch,
        blueprint, make_state, mesh, layout, _strategy(config, task, stats, mesh, layout, make_step),
        strategy.compile_validation_step(
            step.validation_step(blueprint, task.objective(stats), seed=config.seed), mesh=mesh, layout=layout
        ),
        say,
    )  # fmt: skip


def _open_folder(out: Path, config: PretrainConfig, force: bool) -> dict[str, Any] | None:
    """What the folder records of the run. Only the lead process may empty it, before the others look."""
    values = configs.to_dict(config)
    recorded = run_folder.open_run(out, values, force=force) if devices.is_lead() else None
    devices.wait("folder")
    return recorded if devices.is_lead() else run_folder.open_run(out, values, force=False)


def _strategy(
    config: PretrainConfig, task: Task, stats: NormalizationStats, mesh: Mesh, layout: TrainState, make_step
) -> strategy.Strategy:
    if config.loop.strategy == "pmap":
        if "axis_name" not in inspect.signature(task.objective).parameters:
            raise ConfigError(f"loop.strategy: the objective of a {task.kind} runs under jit only")
        objective = task.objective(stats, axis_name=strategy.AXIS)
        return strategy.Pmap(make_step(objective, axis_name=strategy.AXIS), mesh=mesh)
    return strategy.Jit(make_step(task.objective(stats)), mesh=mesh, layout=layout)


def _statistics(
    out: Path,
    config: PretrainConfig,
    data_dir: str | os.PathLike | None,
    days: data.TrainingDays,
    examples: TrainingExamples,
    steps: int,
    recorded: dict[str, Any] | None,
    bundle: Any,
    task: Task,
    say: Callable[[str], None],
) -> NormalizationStats:
    """The statistics recorded in the run; in a new run they are fitted, or taken from its start, and recorded."""
    digest = days.digest()
    if recorded is not None:
        before = recorded["run"]["days_digest"]
        if before != digest:
            raise ConfigError(
                f"{out}: the run was started on other days than those of {data_dir} (digest {before}, now "
                f"{digest}); pass --force to start over"
            )
        return task.statistics.from_json(json.dumps(recorded["normalization"]))
    if start.keeps_statistics(bundle, task):
        stats = bundle.stats
    else:
        stats = examples.fit_and_say(say, train_days=len(days.train))
    facts = {
        "data_dir": str(data_dir),
        "days_digest": digest,
        "train_days": len(days.train),
        "train_participants": len(set(days.days.participants[days.train])),
        "validation_days": len(days.validation),
        "validation_participants": len(set(days.days.participants[days.validation])),
        "provenance": origin.provenance(days.days),
        "examples": examples.name,
        "train_examples": len(examples.train),
        "steps": steps,
    }
    if devices.is_lead():
        run_folder.write_config(
            out, configs.to_dict(config), normalization=json_text.loads(stats.to_json()), run=facts
        )
    devices.wait("config")
    return stats


def _validation_items(
    config: PretrainConfig, available: int, shares: int
) -> tuple[Int64[np.ndarray, "chosen"], int]:
    """The fixed validation subset in whole batches, and their size; fewer than devices are repeated."""
    chosen = loader.fixed_subset(np.arange(available), size=config.loop.validation_examples, seed=config.seed)
    if not len(chosen):
        return chosen, shares
    chosen = np.resize(chosen, max(len(chosen), shares))
    size = min(config.data.batch_size, len(chosen) // shares * shares)
    return chosen[: len(chosen) // size * size], size


def first_state(run: Run) -> TrainState:
    """The state before the first step."""
    state = states.place(run.make_state, run.layout)
    if run.start is None:
        run.say(f"starting from scratch (seed {run.config.seed})")
        return state
    run.say(f"starting from bundle {run.config.loop.init_from}")
    return start.put_in(run.start, state, run.task)


def gather(run: Run, tree: Any) -> Any:
    """Whole copies on every device, of arrays that may be split over them."""
    return jax.jit(lambda x: x, out_shardings=placement.replicated(run.mesh))(tree)
