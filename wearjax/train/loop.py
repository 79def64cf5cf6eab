"""Pretraining from a configuration to a finished run folder: start or resume, train, validate, save."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding
from jaxtyping import Int64
from rich.console import Console

from wearjax.batches import loader, placement, source
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError
from wearjax.train import checkpoint, data, metrics, optimizer, progress, run_folder, step, tasks
from wearjax.train import config as configs
from wearjax.train import state as states
from wearjax.train.config import PretrainConfig
from wearjax.train.interrupt import Interrupts
from wearjax.train.state import TrainState


class BundleFormat(Protocol):
    """Writes and reads trained models; `wearjax.convert.bundle` is one. Given by the caller, since converting
    is a later station than training."""

    def save_bundle(
        self, path: Path, *, kind: str, config: Any, model: nnx.Module, stats: NormalizationStats
    ) -> Any: ...

    def load_bundle(self, path: str | os.PathLike) -> Any: ...


@dataclass(frozen=True)
class PretrainResult:
    """What a call of `pretrain` left behind.

    Attributes:
        bundle_path: the trained model; None when the call was given no bundle format.
        metrics: last logged scalars, `train` and `validation`.
        step: completed steps.
        finished: False when `max_seconds` ended the call before the last step.
    """

    run_dir: Path
    bundle_path: Path | None
    metrics: dict[str, dict[str, Any]]
    step: int
    finished: bool


@dataclass(frozen=True)
class _Run:
    """Everything that stays fixed during a run."""

    config: PretrainConfig
    out: Path
    task: tasks.Task
    days: data.TrainingDays
    stats: NormalizationStats
    steps: int
    validation: Int64[np.ndarray, "chosen"]
    validation_batch: int
    blueprint: states.Blueprint
    make_state: Callable[[], TrainState]
    everywhere: NamedSharding
    split: NamedSharding
    train_step: Any
    validation_step: Any
    say: Callable[[str], None]


def pretrain(
    config: PretrainConfig,
    *,
    data_dir: str | os.PathLike | None = None,
    out: str | os.PathLike,
    force: bool = False,
    max_seconds: float | None = None,
    bundles: BundleFormat | None = None,
    task: tasks.Task | None = None,
    console: Console | None = None,
) -> PretrainResult:
    """Trains a model, or goes on with the run that lies in `out`.

    Calling it again with the same configuration resumes from the last checkpoint; on the same devices the
    final parameters are bit-identical to those of an uninterrupted run. After Ctrl-C or SIGTERM the current
    step is saved, and KeyboardInterrupt raised.

    Args:
        data_dir: day store or OpenMHC data root with splits; default `config.data.path`.
        out: run folder.
        force: start over if the folder holds a run.
        max_seconds: stop after about so long, saved and resumable, with a bundle of the parameters so far.
        bundles: writes the trained model to `out/bundle`, and reads `loop.init_from`.
        task: model and objective; default by the class of `config.model`.

    Raises:
        ConfigError: impossible settings, no days, or a folder that holds another run.
        CheckpointError: a checkpoint or the bundle to start from does not fit the model.
        WearjaxError: the loss stopped being finite.
    """
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    console = console or Console()
    run = _prepare(
        config, Path(out), data_dir or config.data.path, force, task or tasks.task_of(config.model),
        lambda text: progress.say(console, text),
    )  # fmt: skip
    bundle_path = None if bundles is None else run.out / "bundle"
    with checkpoint.Checkpoints(run.out / "checkpoints", keep=config.loop.keep_checkpoints) as checkpoints:
        done = checkpoints.latest_step() == run.steps
        if done and (bundle_path is None or bundle_path.exists()):
            run.say(f"{run.out}: run is finished ({run.steps} steps); pass --force to start over")
            return PretrainResult(run.out, bundle_path, _last_metrics(run.out), run.steps, finished=True)
        state, kept = _starting_point(run, checkpoints, bundles)
        state = _train(run, state, kept, checkpoints, console, deadline)
    reached = int(state.step)
    if bundles is not None and bundle_path is not None:
        _write_bundle(run, state, bundles, bundle_path)
        run.say(f"bundle: {bundle_path}")
    return PretrainResult(
        run.out, bundle_path, _last_metrics(run.out), reached, finished=reached == run.steps
    )


def _prepare(
    config: PretrainConfig,
    out: Path,
    data_dir: str | os.PathLike | None,
    force: bool,
    task: tasks.Task,
    say: Callable[[str], None],
) -> _Run:
    """Opens folder and data, lays out devices and model; shapes only, nothing large is computed yet."""
    batch_size = config.data.batch_size
    mesh = placement.make_mesh(placement.choose_devices(config.loop.devices))
    placement.check_divisible(batch_size, mesh.size)
    recorded = run_folder.open_run(out, configs.to_dict(config), force=force)
    days = data.open_training_days(data_dir, config.data)
    steps = config.loop.total_steps(train_days=len(days.train), batch_size=batch_size)
    stats = _statistics(out, config, data_dir, days, steps, recorded, say)

    schedule = optimizer.warmup_cosine(config.optimizer, steps=steps)
    update = optimizer.adamw(config.optimizer, schedule)
    objective = task.objective(stats)
    blueprint, params = states.blueprint(task.build)
    say(f"model: {states.count(params):,} parameters")
    say(
        f"days: {len(days.train):,} to train, {len(days.validation):,} to validate; {steps:,} steps of "
        f"{batch_size} days ({steps * batch_size / len(days.train):.1f} epochs) on {mesh.size} "
        f"{mesh.devices.flat[0].platform} device(s)"
    )
    validation, validation_batch = _validation_days(config, days, mesh.size)
    everywhere, split = placement.replicated(mesh), placement.batch_sharded(mesh)
    shardings = {"state_sharding": everywhere, "batch_sharding": split}
    return _Run(
        config, out, task, days, stats, steps, validation, validation_batch, blueprint,
        states.initialiser(task.build, update, seed=config.seed), everywhere, split,
        step.compile_train_step(
            step.train_step(blueprint, objective, update, schedule, seed=config.seed), **shardings
        ),
        step.compile_validation_step(
            step.validation_step(blueprint, objective, seed=config.seed), **shardings
        ),
        say,
    )  # fmt: skip


def _statistics(
    out: Path,
    config: PretrainConfig,
    data_dir: str | os.PathLike | None,
    days: data.TrainingDays,
    steps: int,
    recorded: dict[str, Any] | None,
    say: Callable[[str], None],
) -> NormalizationStats:
    """The statistics recorded in the run; in a new run they are fitted on the train days and recorded."""
    digest = days.digest()
    if recorded is not None:
        before = recorded["run"]["days_digest"]
        if before != digest:
            raise ConfigError(
                f"{out}: the run was started on other days than those of {data_dir} (digest {before}, now "
                f"{digest}); pass --force to start over"
            )
        return NormalizationStats.from_json(json.dumps(recorded["normalization"]))
    say(f"fitting normalization on {len(days.train):,} days")
    stats = days.fit_normalization()
    facts = {
        "data_dir": str(data_dir),
        "days_digest": digest,
        "train_days": len(days.train),
        "validation_days": len(days.validation),
        "steps": steps,
    }
    run_folder.write_config(
        out, configs.to_dict(config), normalization=json.loads(stats.to_json()), run=facts
    )
    return stats


def _validation_days(
    config: PretrainConfig, days: data.TrainingDays, devices: int
) -> tuple[Int64[np.ndarray, "chosen"], int]:
    """The fixed validation subset in whole batches, and their size; fewer days than devices are repeated."""
    chosen = loader.fixed_subset(days.validation, size=config.loop.validation_days, seed=config.seed)
    if not len(chosen):
        return chosen, devices
    chosen = np.resize(chosen, max(len(chosen), devices))
    size = min(config.data.batch_size, len(chosen) // devices * devices)
    return chosen[: len(chosen) // size * size], size


def _starting_point(
    run: _Run, checkpoints: checkpoint.Checkpoints, bundles: BundleFormat | None
) -> tuple[TrainState, dict[str, Any]]:
    """Where training begins: own last checkpoint, else the bundle of `init_from`, else scratch."""
    latest = checkpoints.latest_step()
    if latest is not None:
        run.say(f"resuming from step {latest} of {run.steps} in {run.out}")
        state, kept = checkpoints.restore(states.abstract(run.make_state, run.everywhere))
        if kept["position"] != latest * run.config.data.batch_size:
            raise CheckpointError(
                f"checkpoint {checkpoints.folder / str(latest)}: data position {kept['position']} does "
                f"not belong to batches of {run.config.data.batch_size}"
            )
        return state, kept
    state = states.place(run.make_state, run.everywhere)
    init_from = run.config.loop.init_from
    if init_from is None:
        run.say(f"starting from scratch (seed {run.config.seed})")
        return state, {}
    if bundles is None:
        raise ConfigError("loop.init_from: pretrain() was given no bundle format to read it with")
    run.say(f"starting from bundle {init_from}")
    params = states.split(bundles.load_bundle(init_from).model)[1]
    found = states.named_leaves(params)
    states.check_same_shapes(found, states.named_leaves(state.params), where=f"bundle {init_from}")
    # A copy: the first step donates its state, and the bundle's model belongs to the caller.
    params = jax.device_put(states.unflatten(found, state.params), run.everywhere, may_alias=False)
    return dataclasses.replace(state, params=params), {}


def _train(
    run: _Run,
    state: TrainState,
    kept: dict[str, Any],
    checkpoints: checkpoint.Checkpoints,
    console: Console,
    deadline: float | None,
) -> TrainState:
    """From the state's step to the last. Returns early at the deadline; a signal raises KeyboardInterrupt."""
    start = int(state.step)
    metrics.cut_back(run.out / "metrics.jsonl", start)
    batches = source.ShuffledBatches(
        run.days.days, run.days.train, batch_size=run.config.data.batch_size, n_batches=run.steps,
        seed=run.config.seed, process_index=jax.process_index(), process_count=jax.process_count(),
    )  # fmt: skip
    reading = loader.Loader(
        batches, start=start, workers=run.config.data.workers, read_ahead=run.config.data.read_ahead
    )
    clock = metrics.Clock(seconds_before=kept.get("seconds", 0.0))
    with (
        Interrupts() as interrupts,
        reading,
        progress.Display(console, start=start, steps=run.steps) as display,
    ):
        ledger = metrics.Ledger(
            metrics.open_writers(run.config.loop.writers, run.out), run_dir=run.out,
            log_every=run.config.loop.log_every, last_step=run.steps, batch_size=run.config.data.batch_size,
            clock=clock, interval=kept.get("interval"), on_step=display.step, on_log=display.line,
        )  # fmt: skip
        try:
            for number in range(start + 1, run.steps + 1):
                with clock.waiting():
                    batch = next(reading)
                state, measured = run.train_step(state, placement.place(batch, run.split))
                if number == start + 1:
                    clock.restart()  # that call compiled
                ledger.record(number, batch["index"], measured)
                clock.count_step()  # after the line of the step before, to which it does not belong
                stop = interrupts.requested is not None or (
                    deadline is not None and time.monotonic() > deadline
                )
                if _due(number, run.config.loop.validate_every, run.steps) and len(run.validation):
                    ledger.flush()
                    with clock.pause():
                        ledger.write(number, "validation", _validate(run, state))
                if stop or _due(number, run.config.loop.checkpoint_every, run.steps):
                    ledger.flush()
                    _save(run, state, number, ledger, checkpoints)
                if stop:
                    break
        finally:
            ledger.close()
        checkpoints.wait()
        reached = int(state.step)
        if interrupts.requested is not None and reached < run.steps:
            run.say(f"{interrupts.requested.name}: saved at step {reached}; the same command resumes there")
            raise KeyboardInterrupt
    return state


def _due(number: int, every: int | None, steps: int) -> bool:
    return number == steps or (every is not None and number % every == 0)


def _save(
    run: _Run, state: TrainState, number: int, ledger: metrics.Ledger, checkpoints: checkpoint.Checkpoints
) -> None:
    kept = {"position": number * run.config.data.batch_size, **ledger.progress()}
    checkpoints.save(state, step=number, config=configs.to_dict(run.config), progress=kept)


def _validate(run: _Run, state: TrainState) -> metrics.Scalars:
    """Mean metrics over the fixed subset, with keys that are the same every time."""
    found = []
    batches = loader.in_order(
        run.days.days, run.validation, batch_size=run.validation_batch,
        process_index=jax.process_index(), process_count=jax.process_count(),
    )  # fmt: skip
    for number, batch in enumerate(batches):
        placed = placement.place(batch, run.split)
        which = jax.device_put(np.int32(number), run.everywhere)
        found.append(run.validation_step(state.params, state.buffers, placed, which))
    rows = jax.device_get(found)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]} | {
        "days": len(run.validation)
    }


def _write_bundle(run: _Run, state: TrainState, bundles: BundleFormat, path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)  # of an earlier, shorter part of the same run
    model = run.blueprint.model(state.params, state.buffers, key=jax.random.key(run.config.seed))
    bundles.save_bundle(path, kind=run.task.kind, config=run.config.model, model=model, stats=run.stats)


def _last_metrics(out: Path) -> dict[str, dict[str, Any]]:
    last: dict[str, dict[str, Any]] = {}
    for row in metrics.read_jsonl(out / "metrics.jsonl"):
        last[row["split"]] = row
    return last
