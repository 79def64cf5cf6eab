"""Pretraining from a configuration to a finished run folder: start or resume, train, validate, save."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from rich.console import Console

from wearjax import plural
from wearjax.batches import loader, placement, source
from wearjax.errors import CheckpointError
from wearjax.train import checkpoint, devices, metrics, origin, prepare, progress, run_folder, tasks
from wearjax.train import config as configs
from wearjax.train import state as states
from wearjax.train.config import PretrainConfig
from wearjax.train.early_stopping import Best
from wearjax.train.interrupt import Interrupts
from wearjax.train.prepare import Run
from wearjax.train.start import BundleFormat
from wearjax.train.state import TrainState

OnValidation = Callable[[int, metrics.Scalars], bool]


@dataclass(frozen=True)
class PretrainResult:
    """What a call of `pretrain` left behind.

    Attributes:
        bundle_path: the trained model; None when the call was given no bundle format.
        metrics: last logged scalars, `train` and `validation`.
        step: completed steps.
        finished: False when `max_seconds` or `on_validation` ended the call before the last step; True when the
            patience ended the run.
    """

    run_dir: Path
    bundle_path: Path | None
    metrics: dict[str, dict[str, Any]]
    step: int
    finished: bool


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
    on_validation: OnValidation = lambda step, found: False,
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
        on_validation: called with step and metrics after each validation; True ends the call early, saved and
            resumable. Several processes must answer alike.

    Raises:
        ConfigError: impossible settings, no days, or a folder that holds another run.
        CheckpointError: a checkpoint or the bundle to start from does not fit the model.
        WearjaxError: the loss stopped being finite.
    """
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    console = console or Console()
    if not devices.is_lead():
        console = Console(quiet=True)
    run = prepare.prepare(
        config, Path(out), data_dir=data_dir or config.data.path, force=force,
        task=task or tasks.task_of(config.model), bundles=bundles,
        say=lambda text: progress.say(console, text),
    )  # fmt: skip
    bundle_path = None if bundles is None else run.out / "bundle"
    with (
        run_folder.hold(run.out) if devices.is_lead() else contextlib.nullcontext(),
        checkpoint.Checkpoints(run.out / "checkpoints", keep=config.loop.keep_checkpoints) as checkpoints,
    ):
        done, stopped = checkpoints.latest_step() == run.steps, _stopped_early(run, checkpoints)
        if (done or stopped) and (bundle_path is None or bundle_path.exists()):
            reached = checkpoints.latest_step() or 0
            run.say(
                f"{run.out}: run is finished ({reached} {plural.noun(reached, 'step')}); pass --force to start over"
            )
            return PretrainResult(run.out, bundle_path, _last_metrics(run.out), reached, finished=True)
        state, kept = _starting_point(run, checkpoints)
        best = _best_so_far(run, state, kept, checkpoints)
        state = _train(run, state, kept, best, checkpoints, console, deadline, on_validation)
        reached = int(state.step)
        if bundles is not None and bundle_path is not None:
            params = state.params if best.params is None else best.params
            _write_bundle(run, params, state.buffers, bundles, bundle_path)
            of_best = "" if best.params is None else f" (best of validation, step {best.step})"
            run.say(f"bundle: {bundle_path}{of_best}")
    return PretrainResult(
        run.out, bundle_path, _last_metrics(run.out), reached,
        finished=reached == run.steps or best.exhausted,
    )  # fmt: skip


def _stopped_early(run: Run, checkpoints: checkpoint.Checkpoints) -> bool:
    """Whether the run was ended by its patience before."""
    if run.config.loop.patience is None:
        return False
    best = Best(run.config.loop.patience)
    if (kept := checkpoints.progress().get("best")) is not None:
        best.resume(kept, None)
    return best.exhausted


def _best_so_far(
    run: Run, state: TrainState, kept: dict[str, Any], checkpoints: checkpoint.Checkpoints
) -> Best:
    """The best parameters at the starting point of this call."""
    best = Best(run.config.loop.patience)
    if best.patience is not None and (progress := kept.get("best")) is not None:
        known = progress["step"] is not None
        best.resume(progress, checkpoints.restore_best(state.params) if known else None)
    return best


def _starting_point(run: Run, checkpoints: checkpoint.Checkpoints) -> tuple[TrainState, dict[str, Any]]:
    """Where training begins: own last checkpoint, else the start of the run."""
    latest = checkpoints.latest_step()
    if latest is None:
        return prepare.first_state(run), {}
    run.say(f"resuming from step {latest} of {run.steps} in {run.out}")
    state, kept = checkpoints.restore(states.abstract(run.make_state, run.layout))
    if kept["position"] != latest * run.config.data.batch_size:
        raise CheckpointError(
            f"checkpoint {checkpoints.folder / str(latest)}: data position {kept['position']} does "
            f"not belong to batches of {run.config.data.batch_size}"
        )
    return state, kept


@contextlib.contextmanager
def _records(run: Run, start: int, kept: dict[str, Any], clock: metrics.Clock, console: Console):
    """The ledger of a run with its display; only the lead process writes."""
    lead = devices.is_lead()
    if lead:
        metrics.cut_back(run.out / "metrics.jsonl", start)
    with progress.Display(console, start=start, steps=run.steps, name=run.examples.name) as display:
        ledger = metrics.Ledger(
            metrics.open_writers(run.config.loop.writers, run.out) if lead else [], run_dir=run.out,
            log_every=run.config.loop.log_every, last_step=run.steps, clock=clock,
            days_per_step=run.config.data.batch_size * run.examples.days_each,
            interval=kept.get("interval"), on_step=display.step, on_log=display.line,
        )  # fmt: skip
        try:
            yield ledger
        finally:
            ledger.close()


def _train(
    run: Run,
    state: TrainState,
    kept: dict[str, Any],
    best: Best,
    checkpoints: checkpoint.Checkpoints,
    console: Console,
    deadline: float | None,
    on_validation: OnValidation,
) -> TrainState:
    """From the state's step to the last. Returns early at the deadline, when `on_validation` says so or when the
    patience is over; a signal raises KeyboardInterrupt."""
    start, settings = int(state.step), run.config.loop
    last = start if best.exhausted else run.steps
    batches = source.ShuffledBatches(
        run.examples.train, batch_size=run.config.data.batch_size, n_batches=run.steps,
        seed=run.config.seed, groups=run.examples.groups,
        process_index=jax.process_index(), process_count=jax.process_count(),
    )  # fmt: skip
    reading = loader.Loader(
        batches, start=start, workers=run.config.data.workers, read_ahead=run.config.data.read_ahead
    )
    clock = metrics.Clock(seconds_before=kept.get("seconds", 0.0))
    state = run.strategy.begin(state)
    number, stop = start, False
    with Interrupts() as interrupts, reading, _records(run, start, kept, clock, console) as ledger:
        for number in range(start + 1, last + 1):
            with clock.waiting():
                batch = next(reading)
            state, measured = run.strategy.step(state, run.strategy.place(batch))
            if number == start + 1:
                clock.restart()  # that call compiled
            ledger.record(number, batch["index"], measured)
            clock.count_step()  # after the line of the step before, to which it does not belong
            stop = _asked_to_stop(interrupts, deadline, number, settings.log_every)
            if _due(number, run.validate_every, run.steps) and len(run.validation):
                ledger.flush()
                with clock.pause():
                    found = _validate(run, run.strategy.whole(state))
                    best.see(number, found["loss"], run.strategy.whole(state).params)
                ledger.write(number, "validation", found)
                stop = on_validation(number, found) or best.exhausted or stop
            if stop or _due(number, settings.checkpoint_every, run.steps):
                ledger.flush()
                _save(run, run.strategy.whole(state), best, number, ledger, checkpoints)
            if stop:
                break
        checkpoints.wait()
        if best.exhausted and number < run.steps:
            run.say(f"stopped at step {number}: no better validation than at step {best.step}")
        elif interrupts.requested is not None and number < run.steps:
            run.say(f"{interrupts.requested.name}: saved at step {number}; the same command resumes there")
            raise KeyboardInterrupt
    return run.strategy.whole(state)


def _asked_to_stop(interrupts: Interrupts, deadline: float | None, number: int, log_every: int) -> bool:
    """Whether to stop after this step. Several processes agree, at log lines, where they wait anyway."""
    wanted = interrupts.requested is not None or (deadline is not None and time.monotonic() > deadline)
    if jax.process_count() == 1:
        return wanted
    return number % log_every == 0 and devices.any_of(wanted)


def _due(number: int, every: int | None, steps: int) -> bool:
    return number == steps or (every is not None and number % every == 0)


def _save(
    run: Run,
    state: TrainState,
    best: Best,
    number: int,
    ledger: metrics.Ledger,
    checkpoints: checkpoint.Checkpoints,
) -> None:
    kept = {"position": number * run.config.data.batch_size, **ledger.progress()}
    if best.patience is not None:
        kept["best"] = best.progress()
    checkpoints.save(state, step=number, config=configs.to_dict(run.config), progress=kept, best=best.params)


def _validate(run: Run, state: TrainState) -> metrics.Scalars:
    """Mean metrics over the fixed subset, with keys that are the same every time."""
    found = []
    batches = loader.in_order(
        run.examples.validation, run.validation, batch_size=run.validation_batch,
        process_index=jax.process_index(), process_count=jax.process_count(),
    )  # fmt: skip
    split, everywhere = placement.batch_sharded(run.mesh), placement.replicated(run.mesh)
    for number, batch in enumerate(batches):
        which = jax.device_put(np.int32(number), everywhere)
        found.append(run.validation_step(state.params, state.buffers, placement.place(batch, split), which))
    rows = jax.device_get(found)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]} | {
        "examples": len(run.validation)
    }


def _write_bundle(run: Run, params: nnx.State, buffers: nnx.State, bundles: BundleFormat, path: Path) -> None:
    params, buffers = prepare.gather(run, (params, buffers))
    if devices.is_lead():
        if path.exists():
            shutil.rmtree(path)  # of an earlier, shorter part of the same run
        model = run.blueprint.model(params, buffers, key=jax.random.key(run.config.seed))
        bundles.save_bundle(
            path, kind=run.task.kind, config=run.config.model, model=model, stats=run.stats,
            origin=origin.of_run(run.out, run.config),
        )  # fmt: skip
    devices.wait("bundle")


def _last_metrics(out: Path) -> dict[str, dict[str, Any]]:
    last: dict[str, dict[str, Any]] = {}
    for row in metrics.read_jsonl(out / "metrics.jsonl"):
        last[row["split"]] = row
    return last
