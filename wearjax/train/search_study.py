"""The study of a search: an Optuna journal as the record, replayed in memory to choose and to prune.

The record says what was tried and seen. Every choice is made by a study in memory that has lived through the
recorded trials in their order, so that a search that was killed decides as one that was not: Optuna itself keeps
random streams and half-made pruning decisions in the process.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wearjax.errors import ConfigError
from wearjax.train import run_folder
from wearjax.train.search_spaces import Choice, LogUniform, Range

JOURNAL = "study.journal"
# Hyperband of the published searches.
MIN_UNITS = 5
REDUCTION_FACTOR = 3
# Random trials of a bracket before TPE takes over. Optuna's default of 10 counts by bracket, so that a search of
# 15 trials would be random to its end.
STARTUP_TRIALS = 4
_NAME = "wearjax"  # Hyperband draws a trial's bracket from the study's name and the trial's number


@dataclass(frozen=True)
class Record:
    """What is known of a trial; `values` are validation losses by unit."""

    number: int
    state: Literal["complete", "pruned", "diverged", "unfinished"]
    parameters: dict[str, Any]
    values: dict[int, float]
    reason: str | None


def require_optuna() -> Any:
    """The module. Raises ConfigError when it is not installed."""
    try:
        import optuna
    except ImportError:
        raise ConfigError("searching needs optuna; install it with: pip install 'wearjax[search]'") from None
    return optuna


class Study:
    """The trials of a search. One process at a time may hold it.

    Args:
        out: folder of the search; holds the journal.
        parameters: ranges by name.
        facts, config: what the search was started with.

    Raises:
        ConfigError: the folder's search was started with other facts or another configuration.
    """

    def __init__(
        self,
        out: Path,
        parameters: Mapping[str, Range],
        *,
        seed: int,
        units: int,
        facts: dict[str, Any],
        config: dict[str, Any],
    ):
        self._optuna = require_optuna()
        self._seed, self._units = seed, units
        self._ranges = {name: self._distribution(found) for name, found in parameters.items()}
        self._storage, self._record = self._open(out / JOURNAL)
        self._check(out, facts, config)
        with self._quiet():
            self._memory = self._optuna.create_study(
                study_name=_NAME, direction="minimize", pruner=self._pruner()
            )
        self._live: Any = None  # the trial under way, in memory
        self._stop = False  # Hyperband's verdict on it
        for record in self.records():
            self._replay(record)

    def records(self) -> list[Record]:
        """All trials in their order."""
        return [_record(trial) for trial in self._record.get_trials(deepcopy=False)]

    def finished(self) -> int:
        """Number of trials that need no more training."""
        return sum(record.state != "unfinished" for record in self.records())

    def next_trial(self) -> tuple[int, dict[str, Any]]:
        """Number and parameters of the trial under way, or of a new one."""
        if self._live is None:
            live = self._begin(None)
            self._record.add_trial(  # one line of the journal: a trial is recorded whole or not at all
                self._optuna.trial.create_trial(
                    state=self._optuna.trial.TrialState.RUNNING,
                    params=live.params,
                    distributions=self._ranges,
                )
            )
        return self._live.number, dict(self._live.params)

    def report(self, number: int, unit: int, loss: float) -> bool:
        """Takes a validation loss; True when the trial should end here."""
        record = self.records()[number]
        if unit in record.values:  # repeated by a run that resumed from an earlier checkpoint
            return self._stop
        if not math.isfinite(loss):
            self._set_reason(number, f"validation loss {loss} at unit {unit}")
            return True
        self._storage.set_trial_intermediate_value(self._id(number), unit, loss)
        self._see(unit, loss)
        return self._stop

    def ended_early(self, number: int) -> bool:
        """Whether the trial was pruned or diverged, though it may not be marked finished yet."""
        return self._stop or self.records()[number].reason is not None

    def units_of(self, number: int) -> int:
        """Validation losses seen."""
        return len(self.records()[number].values)

    def finish(self, number: int, *, diverged: str | None = None) -> None:
        """Closes the trial under way as diverged, pruned, or else complete."""
        if diverged is not None:
            self._set_reason(number, diverged)
        state, record = self._optuna.trial.TrialState, self.records()[number]
        pruned = self._stop or record.reason is not None
        outcome = {"state": state.PRUNED} if pruned else {"values": record.values[self._units]}
        self._record.tell(number, **outcome)
        self._close(self.records()[number])

    def _open(self, journal: Path) -> tuple[Any, Any]:
        """Storage and study of the journal; what a killed process left half written is taken away."""
        if journal.is_file():
            content = journal.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with journal.open("r+b") as file:
                    file.truncate(whole)
        # The caller holds the folder, so this one belongs to nobody alive.
        journal.with_name(f"{journal.name}.lock").unlink(missing_ok=True)
        optuna = self._optuna
        with self._quiet():
            try:
                storage = optuna.storages.JournalStorage(
                    optuna.storages.journal.JournalFileBackend(str(journal))
                )
                return storage, optuna.create_study(
                    storage=storage, study_name=_NAME, direction="minimize", load_if_exists=True
                )
            except (ValueError, KeyError, UnicodeDecodeError) as error:
                raise ConfigError(f"{journal}: not readable ({error}); pass --force to start over") from None

    def _check(self, out: Path, facts: dict[str, Any], config: dict[str, Any]) -> None:
        recorded = self._record.user_attrs.get("search")
        if recorded is None:
            self._record.set_user_attr("search", {"facts": facts, "config": config})
            return
        difference = run_folder.first_difference(recorded["config"], config) or run_folder.first_difference(
            recorded["facts"], facts
        )
        if difference is not None:
            name, before, now = difference
            raise ConfigError(
                f"{out}: holds a search with {name} {before!r}, now {now!r}; pass --force to start over, or "
                "choose another folder"
            )

    def _replay(self, record: Record) -> None:
        """Lives a recorded trial again; one that was under way stays so."""
        self._begin(record.parameters)
        for unit, loss in sorted(record.values.items()):
            self._see(unit, loss)
        if record.state != "unfinished":
            self._close(record)

    def _begin(self, parameters: dict[str, Any] | None) -> Any:
        """Starts a trial in memory, with parameters given or chosen."""
        number = len(self._memory.get_trials(deepcopy=False))
        seed = int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])
        with self._quiet():
            self._memory.sampler = self._optuna.samplers.TPESampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, multivariate=True
            )
            if parameters is not None:
                self._memory.enqueue_trial(parameters)
            self._live, self._stop = self._memory.ask(self._ranges), False
        return self._live

    def _see(self, unit: int, loss: float) -> None:
        self._live.report(loss, unit)
        if unit < self._units:  # after the last unit there is nothing left to save
            self._stop = self._live.should_prune()

    def _close(self, record: Record) -> None:
        state = self._optuna.trial.TrialState
        if record.state == "complete":
            self._memory.tell(self._live, record.values[self._units])
        else:
            self._memory.tell(self._live, state=state.PRUNED)
        self._live, self._stop = None, False

    def _set_reason(self, number: int, reason: str) -> None:
        self._storage.set_trial_user_attr(self._id(number), "diverged", reason)

    def _id(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def _pruner(self) -> Any:
        pruners = self._optuna.pruners
        if self._units < MIN_UNITS:
            return pruners.NopPruner()
        return pruners.HyperbandPruner(
            min_resource=MIN_UNITS, max_resource=self._units, reduction_factor=REDUCTION_FACTOR
        )

    def _distribution(self, found: Range) -> Any:
        kinds = self._optuna.distributions
        if isinstance(found, Choice):
            return kinds.CategoricalDistribution(found.values)
        return kinds.FloatDistribution(found.low, found.high, log=isinstance(found, LogUniform))

    def _quiet(self) -> warnings.catch_warnings:
        """Optuna's log lines and its notes on experimental options are not for the user of a search."""
        logging.getLogger("optuna").setLevel(logging.WARNING)
        caught = warnings.catch_warnings(
            action="ignore", category=self._optuna.exceptions.ExperimentalWarning
        )
        return caught


def _record(trial: Any) -> Record:
    reason = trial.user_attrs.get("diverged")
    state: Literal["complete", "pruned", "diverged", "unfinished"]
    if not trial.state.is_finished():
        state = "unfinished"
    elif reason is not None:
        state = "diverged"
    else:
        state = "complete" if trial.state.name == "COMPLETE" else "pruned"
    return Record(trial.number, state, dict(trial.params), dict(trial.intermediate_values), reason)
