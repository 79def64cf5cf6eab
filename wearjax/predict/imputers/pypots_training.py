"""Training of PyPOTS imputers on a store: PyPOTS's own epochs and early stopping, resumable exactly.

PyPOTS's `fit` keeps neither its optimizer nor its place. Here both are saved after every epoch, and order, masks and
dropout of an epoch follow from the seed and its number: a run that was stopped between two epochs, or killed within
one, ends with the weights of one that never stopped (on the same device and number of threads).
"""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wearjax import writing
from wearjax.channels import MINUTES_PER_DAY
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError, WearjaxError
from wearjax.predict.imputers import pypots, pypots_data, pypots_library, pypots_models
from wearjax.predict.imputers.pypots_data import Series
from wearjax.predict.imputers.pypots_models import Settings, TrainingSettings
from wearjax.segments.seven_days import N_DAYS
from wearjax.train import data as training_data
from wearjax.train.config import DataConfig

STATE = "training.pt"
_DROPOUT_STREAM = 0x64726F70


@dataclass
class Progress:
    """Where a run is.

    Attributes:
        epoch: finished epochs.
        best_epoch, best_loss: the epoch whose weights are kept (counted from 1), and its validation error.
        patience_left: epochs without a better one until training ends; None never ends it.
        history: training loss and validation error of every epoch.
    """

    patience_left: int | None
    epoch: int = 0
    best_epoch: int = 0
    best_loss: float = math.inf
    history: list[dict[str, float]] = field(default_factory=list)

    def ended(self, epochs: int) -> bool:
        return self.epoch >= epochs or self.patience_left == 0


@dataclass
class _Run:
    """A model in training and all that an epoch changes."""

    model: Any
    settings: Settings
    training: TrainingSettings
    train: Series
    validation: Series
    device: str
    progress: Progress
    best: dict[str, Any]


def train(
    settings: Settings,
    *,
    data_dir: str | os.PathLike,
    out: str | os.PathLike,
    training: TrainingSettings | None = None,
    stats: NormalizationStats | None = None,
    device: str = "cpu",
    force: bool = False,
    say: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int], None] | None = None,
) -> pypots.PyPOTSImputer:
    """Trains an imputer on the retained days of the train split, or goes on with the run that lies in `out`.

    The validation split, with patches of ten minutes hidden, chooses the epoch whose weights are kept and ends
    training; without a validation day the training loss does, as in PyPOTS. Calling it again with the same settings,
    or with more epochs, goes on after the last finished epoch.

    Args:
        data_dir: day store or OpenMHC data root with splits.
        out: folder that gets manifest, weights, normalization and, in `training.pt`, what resuming needs. It is a
            loadable imputer after the first epoch.
        stats: minute statistics; None takes those that came with the data, or fits them on the train days.
        device: `cpu`, `cuda` or `cuda:N`.
        force: start over if the folder holds a run.
        say: called with lines for people.
        progress: called with finished epochs and their number after each.

    Raises:
        ConfigError: no day to train on, or a folder that holds another run.
        MethodError: PyPOTS is not installed, or the device is not there.
        CheckpointError: a damaged training state.
        WearjaxError: the loss stopped being finite.
    """
    training, out = training or TrainingSettings(), Path(out)
    torch = pypots_library.load()[1]
    _check_folder(out)
    found = training_data.open_training_days(data_dir, DataConfig(max_train_days=training.max_days))
    windows = settings.n_steps > MINUTES_PER_DAY
    cut = training_data.window_examples if windows else training_data.day_examples
    examples = cut(found, seed=training.seed)
    facts = _facts(settings, training, found)
    state = None if force or not (out / STATE).is_file() else _read_state(torch, out / STATE, facts, device)
    if state is not None:
        stats = NormalizationStats.from_json(state["normalization"])
    elif stats is None:
        stats = examples.fit_and_say(say, train_days=len(found.train))
    minutes = (N_DAYS if windows else 1) * MINUTES_PER_DAY
    train_series, validation_series = (
        Series(part, stats, n_steps=settings.n_steps, minutes=minutes)
        for part in (examples.train, examples.validation)
    )
    model = pypots_models.build(settings, training=training, device=device)
    if force and out.exists():  # only now that nothing can be refused any more
        shutil.rmtree(out)
    start = Progress(training.patience)
    run = _Run(model, settings, training, train_series, validation_series, device, start, {})
    if state is not None:
        _restore(run, state)
        say(f"{out}: going on after epoch {run.progress.epoch}")
    say(f"{settings.class_name}: {len(run.train):,} series to train, {len(run.validation):,} to validate")
    imputer = pypots.PyPOTSImputer(model, settings, stats, batch_size=training.batch_size, device=device)
    _epochs(torch, run, imputer, out, facts, say, progress)
    model.model.load_state_dict(run.best)
    return imputer


def _epochs(torch, run: _Run, imputer, out: Path, facts: dict, say, progress) -> None:
    at, training = run.progress, run.training
    while not at.ended(training.epochs):
        with pypots_library.seeded(training.seed, at.epoch, _DROPOUT_STREAM, device=run.device):
            loss = _train_epoch(torch, run)
        error = _validate(torch, run) if len(run.validation) else loss
        at.epoch += 1
        at.history.append({"train_loss": loss, "validation_mae": error})
        if error < at.best_loss:
            at.best_epoch, at.best_loss, at.patience_left = at.epoch, error, training.patience
            run.best = copy.deepcopy(run.model.model.state_dict())
        elif at.patience_left is not None:
            at.patience_left -= 1
        _save(torch, run, imputer, out, facts)
        say(
            f"epoch {at.epoch} of {training.epochs}: loss {loss:.4f}, validation {error:.4f}"
            + (" (best)" if at.best_epoch == at.epoch else "")
        )
        if progress is not None:
            progress(at.epoch, training.epochs)


def _train_epoch(torch, run: _Run) -> float:
    """One pass over the train series; mean loss of its batches, as PyPOTS reports it."""
    run.model.model.train()
    losses = []
    batches = pypots_data.training_batches(
        run.train, run.settings, epoch=run.progress.epoch,
        batch_size=run.training.batch_size, seed=run.training.seed,
    )  # fmt: skip
    for inputs in _sent(run, batches):
        run.model.optimizer.zero_grad()
        loss = _evaluate(run, inputs, "loss")
        loss.backward()
        if run.training.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(run.model.model.parameters(), run.training.clip_norm)
        run.model.optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def _validate(torch, run: _Run) -> float:
    """Mean over the batches of the error at the hidden cells, in normalised units."""
    run.model.model.eval()
    batches = pypots_data.validation_batches(run.validation, batch_size=run.training.batch_size)
    with torch.no_grad():
        errors = [_evaluate(run, inputs, "metric").item() for inputs in _sent(run, batches)]
    return sum(errors) / len(errors)


def _evaluate(run: _Run, inputs: dict[str, Any], what: str) -> Any:
    """Loss or metric of a batch. Raises WearjaxError unless it is finite."""
    try:
        found = run.model.model(inputs, calc_criterion=True)[what].sum()
        finite = math.isfinite(found.item())
    except AssertionError:  # PyPOTS's answer to predictions that are not numbers; its inputs here are
        finite = False
    if not finite:
        raise WearjaxError(
            f"{run.settings.class_name}: the {what} of a batch of epoch {run.progress.epoch + 1} is not finite; "
            "lower training.learning_rate or set training.clip_norm"
        )
    return found


def _sent(run: _Run, batches: Iterator) -> Iterator[dict[str, Any]]:
    for values, hidden in batches:
        yield pypots_data.inputs(run.settings, values, hidden, device=run.device)


def _facts(
    settings: Settings, training: TrainingSettings, found: training_data.TrainingDays
) -> dict[str, Any]:
    """What must be the same for a run to go on; the number of epochs may grow."""
    fixed = {k: v for k, v in dataclasses.asdict(training).items() if k != "epochs"}
    return {
        "kind": settings.kind,
        "settings": dataclasses.asdict(settings),
        "training": fixed,
        "days_digest": found.digest(),
        "train_days": len(found.train),
        "validation_days": len(found.validation),
    }


def _check_folder(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / STATE).is_file():
        raise ConfigError(f"{out}: exists and holds no PyPOTS training run; choose another folder")


def _read_state(torch, file: Path, facts: Mapping[str, Any], device: str) -> dict[str, Any]:
    try:
        state = torch.load(file, map_location=device, weights_only=True)
        recorded = state["facts"]
        missing = {"model", "best", "optimizer", "progress", "normalization"} - state.keys()
    except Exception as error:  # torch raises many kinds on damaged files
        raise CheckpointError(f"{file}: not readable as a training state ({error!r:.200})") from None
    if missing:
        raise CheckpointError(f"{file}: {sorted(missing)[0]} is missing")
    for name, value in facts.items():
        before = recorded.get(name)
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            name, value, before = next(
                (f"{name}.{key}", value.get(key), before.get(key))
                for key in value
                if value[key] != before.get(key)
            )
        raise ConfigError(
            f"{file.parent}: the run was started with {name} {before!r}, now it is {value!r}; pass force to start over"
        )
    return state


def _restore(run: _Run, state: Mapping[str, Any]) -> None:
    run.progress = Progress(**state["progress"])
    if modes := state["fourier_modes"]:
        assert isinstance(run.settings, pypots_models.FEDformerSettings)
        pypots_models.set_fourier_modes(run.model, run.settings, modes)
    pypots.put_weights(run.model, state["model"], where=STATE)
    run.model.optimizer.load_state_dict(state["optimizer"])
    run.best = state["best"]


def _save(torch, run: _Run, imputer: pypots.PyPOTSImputer, out: Path, facts: Mapping[str, Any]) -> None:
    """The state first, whole or not at all; what is made from it follows, and is made again on resuming."""
    out.mkdir(parents=True, exist_ok=True)
    state = {
        "facts": dict(facts),
        "progress": dataclasses.asdict(run.progress),
        "normalization": imputer.stats.to_json(),
        "fourier_modes": imputer.fourier_modes,
        "model": run.model.model.state_dict(),
        "best": run.best,
        "optimizer": run.model.optimizer.state_dict(),
    }
    with writing.file(out / STATE, error=CheckpointError) as partial:
        torch.save(state, partial)
    if run.progress.best_epoch == run.progress.epoch:
        pypots.write_weights(out / pypots.WEIGHTS, run.best)
    pypots.write_manifest(
        out, imputer, {"training": dataclasses.asdict(run.training), **facts, **state["progress"]}
    )
