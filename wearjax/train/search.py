"""Hyper-parameter search: TPE with Hyperband pruning over pretraining runs, resumable at any moment."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
from rich.console import Console

from wearjax import writing
from wearjax.errors import ConfigError, WearjaxError
from wearjax.train import config as configs
from wearjax.train import data, loop, progress, run_folder, search_spaces, search_study, tasks
from wearjax.train.config import PretrainConfig
from wearjax.train.search_spaces import SearchSpace

# Validation points of a search over runs of a given number of steps; the published LSM-2 search had 25 epochs.
UNITS = 25


@dataclass(frozen=True)
class Trial:
    """One run of a search.

    Attributes:
        state: `complete` trained to the end, `pruned` was ended by Hyperband, `diverged` lost a finite loss.
        value: last validation loss (the metric of the space); None where there is none.
        units: validation points reached.
        steps: optimizer steps of those.
        parameters: what the search chose, by the names of its space.
        reason: of a diverged trial.
    """

    number: int
    state: Literal["complete", "pruned", "diverged", "unfinished"]
    value: float | None
    units: int
    steps: int
    parameters: dict[str, Any]
    reason: str | None = None

    @property
    def folder(self) -> str:
        """Name of its run folder."""
        return f"trial-{self.number:04d}"


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        units: validation points of a trial that is not pruned.
        best: the complete trial with the lowest validation loss; None when no trial was completed.
    """

    out: Path
    metric: str
    units: int
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        complete = [t for t in self.trials if t.state == "complete"]
        return min(complete, key=lambda t: (t.value, t.number), default=None)


def data_facts(config: PretrainConfig, data_dir: str | os.PathLike | None) -> tuple[int, str]:
    """Number of examples to train on, and a digest that changes with them."""
    days = data.open_training_days(data_dir, config.data)
    examples = tasks.task_of(config.model).examples(days, seed=config.seed)
    return len(examples.train), days.digest()


@dataclass(frozen=True)
class _Plan:
    """Everything that stays fixed during a search."""

    config: PretrainConfig
    data_dir: str | os.PathLike | None
    out: Path
    space: SearchSpace
    units: int
    examples: int
    train: Callable[..., Any]
    say: Callable[[str], None]

    def trial_config(self, parameters: Mapping[str, Any]) -> PretrainConfig:
        """The run of a trial: as many steps as asked, in `units` equal parts with a validation after each."""
        chosen = search_spaces.apply(self.config, parameters)
        steps = chosen.loop.total_steps(train_examples=self.examples, batch_size=chosen.data.batch_size)
        every = steps // self.units
        if not every:
            raise ConfigError(
                f"units: {steps} steps of {chosen.data.batch_size} are too few for {self.units} validation points"
            )
        schedule = dataclasses.replace(
            chosen.loop, steps=every * self.units, epochs=None, validate_every=every, validate_epochs=None,
            patience=None, keep_checkpoints=1,
            checkpoint_every=min(every, chosen.loop.checkpoint_every or every),
        )  # fmt: skip
        return dataclasses.replace(chosen, loop=schedule)


def search(
    config: PretrainConfig,
    *,
    data_dir: str | os.PathLike | None = None,
    out: str | os.PathLike,
    trials: int | None = None,
    space: SearchSpace | None = None,
    seed: int | None = None,
    units: int | None = None,
    force: bool = False,
    train: Callable[..., Any] = loop.pretrain,
    measure: Callable[[PretrainConfig, Any], tuple[int, str]] = data_facts,
    console: Console | None = None,
) -> SearchResult:
    """Trains with parameters chosen by TPE, ends poor trials early by Hyperband, and goes on where it stopped.

    Trials run one after the other in `out/trial-0000`, …; each is an ordinary run folder. The study lies in
    `out/study.journal` (an Optuna journal file), results in `out/search.json` and, as configuration overrides,
    in `out/best.json`, rewritten after every trial. A search that was killed, and is called again, ends with
    the trials of one that was not: choices depend only on the seed, the trial's number and the trials before,
    and a trial under way continues from its checkpoint. The validation loss is compared between trials at
    equal units of training: epochs, or `UNITS` equal parts of a run given in steps.

    Args:
        data_dir: day store or OpenMHC data root; default `config.data.path`.
        trials: how many to finish, those of earlier calls included; default that of the published search.
        space: what to vary; default the published search of the configuration's model.
        seed: of the choices (default: that of the configuration, which also seeds every trial).
        units: validation points of a trial; each has equally many steps, the remainder is left out.
        force: start over.
        train: `loop.pretrain`, or a function called like it with `data_dir`, `out` and `on_validation`.
        measure: number of examples and digest of the data.

    Raises:
        ConfigError: impossible settings, a folder of another search, or optuna is not installed.
    """
    console = console or Console()
    out, data_dir, seed = Path(out), data_dir or config.data.path, config.seed if seed is None else seed
    space = space or search_spaces.space_of(config)
    trials = space.trials if trials is None else trials
    units = _default_units(config) if units is None else units
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed: must be in [0, 2^32), got {seed}")
    if trials < 1:
        raise ConfigError(f"trials: must be at least 1, got {trials}")
    if units < 1:
        raise ConfigError(f"units: must be at least 1, got {units}")
    search_study.require_optuna()
    if jax.process_count() > 1:
        raise ConfigError("a search runs in one process; use all of its devices, or one host of a pod")
    examples, digest = measure(config, data_dir)
    plan = _Plan(
        config, data_dir, out, space, units, examples, train, lambda text: progress.say(console, text)
    )
    for name, found in space.parameters.items():
        for end in found.ends():
            plan.trial_config({name: end})  # a field that does not exist, or does not take its range
    _clear(out, force=force)
    with _exclusive(out):
        facts = {
            "seed": seed,
            "units": units,
            "data": digest,
            "space": space.to_json(),
            "metric": space.metric,
        }
        study = search_study.Study(
            out, space.parameters, seed=seed, units=units, facts=facts, config=configs.to_dict(config)
        )
        for line in header(space, units=units, trials=trials, study=study):
            plan.say(line)
        while study.finished() < trials:
            number, parameters = study.next_trial()
            _run_trial(plan, study, number, parameters)
            _write_results(plan, study, seed)
        return _write_results(plan, study, seed)


def _default_units(config: PretrainConfig) -> int:
    """One unit an epoch; runs given in steps have `UNITS`."""
    if config.loop.steps is not None:
        return min(UNITS, config.loop.steps)
    assert config.loop.epochs is not None
    return max(1, round(config.loop.epochs))


def header(space: SearchSpace, *, units: int, trials: int, study: search_study.Study) -> list[str]:
    """What is searched, how, and what of it is not published."""
    pruning = (
        f"Hyperband from unit {search_study.MIN_UNITS}, reduction factor {search_study.REDUCTION_FACTOR}"
        if units >= search_study.MIN_UNITS
        else f"no pruning (fewer than {search_study.MIN_UNITS} units)"
    )
    lines = [f"search: {trials} trials of {units} units, with a validation after each; TPE, {pruning}"]
    if space.note:
        lines.append(f"note: {space.note}")
    lines += [f"  {name}: {found}" for name, found in space.parameters.items()]
    if study.records():
        lines.append(f"continuing: {study.finished()} trials are finished")
    return lines


def _run_trial(plan: _Plan, study: search_study.Study, number: int, parameters: dict[str, Any]) -> None:
    config = plan.trial_config(parameters)
    every = config.loop.validate_every or 1
    folder = plan.out / f"trial-{number:04d}"
    if folder.exists() and not (folder / "config.json").exists():
        shutil.rmtree(folder)  # killed before the run had begun
    chosen = ", ".join(f"{name} {_short(value)}" for name, value in parameters.items())
    plan.say(f"trial {number}: {chosen}")

    def observe(step: int, metrics: Mapping[str, float]) -> bool:
        unit, rest = divmod(step, every)
        if plan.space.metric not in metrics:
            raise ConfigError(
                f"search space: no validation metric {plan.space.metric!r}; there are: {sorted(metrics)}"
            )
        return not rest and study.report(number, unit, float(metrics[plan.space.metric]))

    reason = None
    if not study.ended_early(number):
        try:
            result = plan.train(config, data_dir=plan.data_dir, out=folder, on_validation=observe)
        except WearjaxError as error:
            if type(error) is not WearjaxError:  # the narrower kinds are settings and files, not training
                raise
            reason = str(error)
        else:
            if not result.finished and not study.ended_early(number):
                raise WearjaxError(f"{folder}: training ended at step {result.step} without being finished")
            if study.units_of(number) < plan.units and not study.ended_early(number):
                raise ConfigError(
                    f"{folder}: the run is finished but reported {study.units_of(number)} of {plan.units} "
                    "validation losses; a search needs a validation split and loop.validation_examples"
                )
    study.finish(number, diverged=reason)
    done = _trial(plan, study.records()[number])
    plan.say(
        f"trial {number}: {done.state} at unit {done.units}, validation {plan.space.metric} {_short(done.value)}"
    )


def _trial(plan: _Plan, record: search_study.Record) -> Trial:
    every = plan.trial_config(record.parameters).loop.validate_every or 1
    units = max(record.values, default=0)
    return Trial(
        record.number, record.state, record.values.get(units), units, units * every, record.parameters,
        record.reason,
    )  # fmt: skip


def rows(result: SearchResult) -> list[dict[str, str]]:
    """The trials as rows of a table, best first, then the others by how far they came and their loss.

    What a trial chose is one cell, without the sections of the fields: `learning_rate=0.0003 batch_size=64`.
    """
    order = {"complete": 0, "pruned": 1, "unfinished": 2, "diverged": 3}
    found = sorted(
        result.trials,
        key=lambda t: (order[t.state], -t.units, math.inf if t.value is None else t.value, t.number),
    )
    return [
        {
            "trial": f"{t.number}{' (best)' if result.best is t else ''}",
            "state": t.state,
            f"validation {result.metric}": _short(t.value),
            "validations": f"{t.units} of {result.units}",
            "steps": f"{t.steps:,}",
            "settings": " ".join(f"{_field(name)}={_short(value)}" for name, value in t.parameters.items()),
        }
        for t in found
    ]


def arguments(trial: Trial) -> list[str]:
    """Command line overrides that train with a trial's parameters: `["--optimizer.learning_rate", "0.0003"]`."""
    found = search_spaces.overrides(trial.parameters)
    return [token for name, value in found.items() for token in (f"--{name}", str(value))]


def _field(names: str) -> str:
    """Names of a search space without their sections."""
    return ",".join(name.strip().rpartition(".")[2] for name in names.split(","))


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _write_results(plan: _Plan, study: search_study.Study, seed: int) -> SearchResult:
    result = SearchResult(
        plan.out, plan.space.metric, plan.units, tuple(_trial(plan, r) for r in study.records())
    )
    best = result.best
    _write_json(
        plan.out / "search.json",
        {
            "config": configs.to_dict(plan.config),
            "data_dir": None if plan.data_dir is None else str(plan.data_dir),
            "seed": seed,
            "units": plan.units,
            "min_units": search_study.MIN_UNITS,
            "reduction_factor": search_study.REDUCTION_FACTOR,
            "space": plan.space.to_json(),
            "metric": plan.space.metric,
            "note": plan.space.note,
            "best": None if best is None else {**dataclasses.asdict(best), "run": best.folder},
            "trials": [{**dataclasses.asdict(t), "run": t.folder} for t in result.trials],
            "versions": {**run_folder.versions(), "optuna": search_study.require_optuna().__version__},
        },
    )
    if best is not None:
        _write_json(plan.out / "best.json", search_spaces.overrides(best.parameters))
    return result


def _write_json(file: Path, content: Any) -> None:
    with writing.file(file) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n")


def _clear(out: Path, *, force: bool) -> None:
    """Refuses a folder of something else; with `force`, removes a search."""
    if not out.exists() or all(entry.name == _LOCK for entry in out.iterdir()):
        return
    if not (out / search_study.JOURNAL).is_file():
        raise ConfigError(f"{out}: folder is not empty and holds no search; choose another")
    if force:
        with _exclusive(out):
            for entry in out.iterdir():
                if entry.name != _LOCK:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


_LOCK = ".search.lock"


@contextlib.contextmanager
def _exclusive(out: Path) -> Iterator[None]:
    """One search a folder at a time; the lock ends with the process, however it ends."""
    import fcntl  # POSIX only, like the accelerators

    out.mkdir(parents=True, exist_ok=True)
    with (out / _LOCK).open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{out}: another search is running in this folder") from None
        yield
