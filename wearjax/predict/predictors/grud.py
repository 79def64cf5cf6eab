"""GRU-D as a predictor: one network trained end to end on all tasks at once, then asked task by task."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from wearjax.days import splits, task_labels
from wearjax.days.store import Days
from wearjax.days.task_labels import TaskLabels
from wearjax.errors import ConfigError, MethodError
from wearjax.objectives import multi_task
from wearjax.predict import inputs, vector_cache
from wearjax.predict.predictors import representation
from wearjax.predict.protocols import DataSpec, EvalContext
from wearjax.sources import openmhc
from wearjax.train.grud import Cohort, GRUDTraining, Network, channel_means


class GRUD:
    """Reads its labels itself and trains when it is first asked, on the training participants of every task.

    A participant is the mean over all retained days, whatever the task. Training labels are those of the lookup that
    ends some weeks after the label, where the data root has one. Channel means are those of the cohort at hand: all who
    are learnt from, all who training is validated on, those who are asked together. A participant without days, and a
    task without a training label, has no prediction (NaN).

    Args:
        days: the day set, or days by participant that others read too.
        data_dir: where splits and task labels lie; default is the path of the days.
        tasks: code and kind of every task that may be asked; those that the lookup does not have are left out.
        labels: the lookup to learn from instead of the stored one.
        training: settings.
        cache_dir: keeps the trained weights for later runs.
        progress: called with (epochs done, most epochs).

    Attributes:
        history: training and validation loss of each epoch.
        unlearnt: tasks without a usable training label.

    Raises:
        ConfigError: no task. StoreError, SourceError: no splits or labels.
    """

    name = "grud"
    data_spec = DataSpec("hourly", "day")

    def __init__(
        self,
        days: Days | inputs.ParticipantDays,
        data_dir: str | os.PathLike | None = None,
        *,
        tasks: Mapping[str, str],
        labels: TaskLabels | None = None,
        training: GRUDTraining | None = None,
        cache_dir: str | os.PathLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        self._source = days if isinstance(days, inputs.ParticipantDays) else inputs.ParticipantDays(days)
        self._data_dir = Path(data_dir if data_dir is not None else self._source.days.path)
        self._lookup = labels if labels is not None else stored_labels(self._data_dir)
        self._kinds = {code: kind for code, kind in tasks.items() if code in self._lookup.tasks}
        if not self._kinds:
            raise ConfigError(f"{self._lookup.path}: none of {len(tasks)} tasks has labels there")
        self.training = training or GRUDTraining()
        self._folder = None if cache_dir is None else Path(cache_dir)
        self._progress = progress or (lambda done, total: None)
        self._members = splits.read_splits(self._data_dir)
        self._rows = representation.retained_rows(self._source.days)
        self._context: EvalContext | None = None
        self._people: dict[str, Cohort] = {}
        self._asked: tuple[str, frozenset[str]] | None = None
        self._outputs: dict[str, tuple[np.ndarray, ...]] = {}
        self.history: list[dict[str, float]] = []
        self.unlearnt: dict[str, str] = {}

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the predictions, as plain values."""
        return {**asdict(self.training), "tasks": dict(self._kinds), "lookup": self._lookup.path.name}

    def set_context(self, context: EvalContext) -> None:
        self._context = context

    def predict(self, data: Any) -> Float64[np.ndarray, "participant"]:
        """One number a participant of the context; the data handed over is not read.

        Raises MethodError without a context.
        """
        context = self._context
        if context is None:
            raise MethodError(
                f"{self.name}: set_context(context) must be called first; it has features of its own"
            )
        predicted = np.full(len(context.user_ids), np.nan)
        learnt = self._learnt
        if context.task not in learnt.targets:
            return predicted
        place = list(learnt.targets).index(context.task)
        answers = self._answers(context)
        known = [i for i, user in enumerate(context.user_ids) if user in answers]
        if known:
            outputs = np.stack([answers[context.user_ids[i]][place] for i in known])
            predicted[known] = multi_task.read_out(outputs, learnt.targets[context.task])
        return predicted

    def _answers(self, context: EvalContext) -> dict[str, tuple[np.ndarray, ...]]:
        """What the network says of a task's cohort, who share the channel means; the next task may have the same."""
        members = self._members.of(context.split)
        if strangers := sorted(set(context.user_ids) - set(members)):
            raise MethodError(
                f"{self.name}: {len(strangers)} users are not in {context.split}, first {strangers[0]}"
            )
        if context.split not in self._people:
            self._people[context.split] = self._cohort(members, {})
        people, asked = self._people[context.split], (context.split, frozenset(context.user_ids))
        if self._asked != asked:
            rows = np.array([row for row, user in enumerate(people.users) if user in asked[1]], np.int64)
            self._asked, self._outputs = asked, self._learnt.answers(people.part(rows))
        return self._outputs

    def _cohort(self, users: Iterable[str], labels: Mapping[str, Mapping[str, float]]) -> Cohort:
        """Those of the users that have days and, where labels are given, one of them."""
        rows = {user: self._rows.of(user)[0] for user in sorted(users)}
        wanted = set().union(*labels.values()) if labels else set(rows)
        chosen = [user for user, own in rows.items() if len(own) and user in wanted]
        table = np.array([[of.get(user, np.nan) for of in labels.values()] for user in chosen], np.float64)
        own = [rows[user] for user in chosen]
        hours = self._source.hours(np.concatenate([*own, np.empty(0, np.int64)])).swapaxes(1, 2)
        return Cohort(
            users=tuple(chosen),
            labels=table.reshape(len(chosen), len(labels)),
            hours=np.ascontiguousarray(hours),
            starts=np.cumsum([0, *map(len, own)]),
            means=channel_means(hours),
        )

    def _labels(self, split: str, codes: Iterable[str]) -> dict[str, dict[str, float]]:
        users = self._members.of(split)
        found = {code: self._lookup.cohort(code, users) for code in codes}
        return {code: dict(zip(of.users, of.labels.tolist(), strict=True)) for code, of in found.items()}

    @cached_property
    def _learnt(self) -> Network:
        labels = self._labels("train", self._kinds)
        with_days = {user: len(self._rows.of(user)[0]) > 0 for user in self._members.train}
        targets: dict[str, multi_task.Target] = {}
        for code, kind in self._kinds.items():
            known = [label for user, label in labels[code].items() if with_days[user]]
            try:
                targets[code] = multi_task.target_of(np.array(known, np.float64), kind)
            except ConfigError as error:
                self.unlearnt[code] = str(error)
        if not targets:
            raise MethodError(f"{self.name}: no task can be learnt ({next(iter(self.unlearnt.values()))})")
        train = self._cohort(self._members.train, {code: labels[code] for code in targets})
        validation = self._cohort(self._members.validation, self._labels("validation", targets))
        network, file = Network(targets, self.training), self._file(train, validation)
        if file is not None and file.exists():
            self.history = network.load(file)
            return network
        self.history = network.train(train, validation, self._progress)
        if file is not None:
            network.save(file, self.history)
        return network

    def _file(self, train: Cohort, validation: Cohort) -> Path | None:
        if self._folder is None:
            return None
        found = hashlib.sha256(vector_cache.digest_of(self._source.days, self.settings).encode())
        for cohort in (train, validation):
            found.update("\n".join(cohort.users).encode() + cohort.labels.tobytes())
        return self._folder / f"{self.name}-{found.hexdigest()[:24]}.npz"


def stored_labels(data_dir: Path) -> TaskLabels:
    """The lookup that training reads: with the forward window in a data root, the only one of a store."""
    is_root = (data_dir / openmhc.MARKER).exists()
    return task_labels.read_lookup(data_dir, window="forward" if is_root else "full_history")
