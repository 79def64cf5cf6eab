"""From predictions to errors: one number a method, task and subgroup, for everybody, for each draw of the
bootstrap, and with each participant left out.

OpenMHC evaluation, prediction track. An error belongs to a whole cohort, so unlike in the imputation track a
draw computes every metric anew; `wearjax.scores.resampled` does that for all draws at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int

from wearjax.benchmarks.openmhc import prediction_metrics
from wearjax.errors import ConfigError
from wearjax.scores import bootstrap
from wearjax.tasks import Task

ATTRIBUTES = ("age_group", "sex")
EVERYBODY = ("all", "all")
MIN_ROWS = 2  # of a subgroup, in the full cohort and in a draw
# Two such small subgroups may have the same error: then the last bit decides whether they differ. The
# rounding to float32 settles that for the draws, which are many; what is left out here is computed plainly.
_SMALL = 64


@dataclass(frozen=True, eq=False)
class TaskPredictions:
    """What the methods predicted in one task for the same participants.

    Attributes:
        users: sorted, without repetition.
        y_pred, y_proba: one array a method; not finite = no prediction.
        subgroups: attribute to the subgroup of each participant; empty without demographics.
    """

    task: Task
    users: tuple[str, ...]
    y_true: Float[np.ndarray, " n"]
    y_pred: Mapping[str, Float[np.ndarray, " n"]]
    y_proba: Mapping[str, Float[np.ndarray, " n"]]
    subgroups: Mapping[str, tuple[str, ...]]

    def __post_init__(self):
        n = len(self.users)
        if list(self.users) != sorted(set(self.users)):
            raise ValueError(f"{self.task.code}: users must be sorted and each be there once")
        columns: dict[str, Any] = {"y_true": self.y_true, **self.subgroups}
        columns |= {f"y_pred of {m}": v for m, v in self.y_pred.items()}
        columns |= {f"y_proba of {m}": v for m, v in self.y_proba.items()}
        for name, column in columns.items():
            if len(column) != n:
                raise ValueError(f"{self.task.code}: {name} has {len(column)} rows, expected {n}")
        if set(self.y_pred) != set(self.y_proba):
            raise ValueError(f"{self.task.code}: y_pred and y_proba are of different methods")

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.y_pred)

    def scored(self, method: str) -> Float[np.ndarray, " n"]:
        """The column that the task's metric reads."""
        return prediction_metrics.scored_column(self.task.kind, self.y_pred[method], self.y_proba[method])

    def rows(self, kept: np.ndarray) -> TaskPredictions:
        """The same with some of the participants."""
        chosen = np.flatnonzero(kept)
        return replace(
            self,
            users=tuple(self.users[i] for i in chosen),
            y_true=self.y_true[chosen],
            y_pred={m: v[chosen] for m, v in self.y_pred.items()},
            y_proba={m: v[chosen] for m, v in self.y_proba.items()},
            subgroups={a: tuple(v[i] for i in chosen) for a, v in self.subgroups.items()},
        )


def common(predictions: Sequence[TaskPredictions]) -> tuple[tuple[TaskPredictions, ...], dict[str, int]]:
    """The tasks that all methods have, in order of their codes, with the participants all methods predicted.

    Returns:
        The tasks, and how much was left out, by reason.

    Raises:
        ConfigError: a task comes twice.
    """
    codes = [p.task.code for p in predictions]
    if len(set(codes)) < len(codes):
        raise ConfigError(f"task {Counter(codes).most_common(1)[0][0]!r} comes twice")
    methods = {m for p in predictions for m in p.methods}
    kept, left_out = [], Counter[str]()
    for found in sorted(predictions, key=lambda p: p.task.code):
        if set(found.methods) != methods:
            left_out["tasks that some method does not have"] += 1
            continue
        usable = np.isfinite(found.y_true)
        for method in found.methods:
            usable &= np.isfinite(found.scored(method))
        code = found.task.code
        if not usable.all():
            left_out[f"task {code}: participants whom some method does not predict"] = int((~usable).sum())
            found = found.rows(usable)
        if len(found.users):
            kept.append(found)
        else:
            left_out["tasks without a participant whom all methods predict"] += 1
    return tuple(kept), dict(left_out)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Errors of one task with each of its participants left out.

    Attributes:
        users: the participants, as positions among those of all tasks.
        cell: the subgroup of each participant that changes, one an attribute.
        errors: of that subgroup without the participant.
    """

    users: Int[np.ndarray, " n"]
    cell: Int[np.ndarray, "attribute n"]
    errors: Float[np.ndarray, "attribute method n"]


@dataclass(frozen=True, eq=False)
class CohortErrors:
    """Errors of the methods in every task and cell; lower is better, NaN = undefined.

    Attributes:
        cells: `("all", "all")`, then attribute and value of each subgroup.
        n_rows: participants of each task.
        point: of the full cohorts.
        drawn: of the draws, rounded to float32 as the benchmark stores them; None without a bootstrap.
        left_out: one a task, for the subgroups; empty without a bootstrap.
        users: participants of all tasks, sorted.
    """

    methods: tuple[str, ...]
    tasks: tuple[Task, ...]
    cells: tuple[tuple[str, str], ...]
    n_rows: Int[np.ndarray, " task"]
    point: Float[np.ndarray, "method task cell"]
    drawn: Float32[np.ndarray, "draw method task cell"] | None
    left_out: tuple[LeftOut, ...]
    users: tuple[str, ...]

    def method_index(self, method: str) -> int:
        """Raises ConfigError when there is no such method."""
        if method not in self.methods:
            raise ConfigError(f"method {method!r} is not among the predictions ({', '.join(self.methods)})")
        return self.methods.index(method)

    def cells_of(self, attribute: str) -> list[int]:
        """Positions of the subgroups of an attribute."""
        return [i for i, (name, _) in enumerate(self.cells) if name == attribute]


def compute(predictions: Sequence[TaskPredictions], *, n_boot: int, seed: int) -> CohortErrors:
    """All errors of tasks as `common` returns them.

    One generator draws the participants of the tasks in order of their codes, each task on its own; the
    methods share the draws.

    Raises:
        ConfigError: there is no task.
    """
    if not predictions:
        raise ConfigError("predictions: no task has a participant whom all methods predict")
    methods = predictions[0].methods
    cells = _cells(predictions)
    users = sorted({user for found in predictions for user in found.users})
    place = {user: i for i, user in enumerate(users)}
    shape = (len(methods), len(predictions), len(cells))
    point = np.full(shape, np.nan)
    drawn = np.full((n_boot, *shape), np.nan, np.float32) if n_boot else None
    left_out = []
    generator = np.random.default_rng(seed)
    for t, found in enumerate(predictions):
        cohort = _Cohort(found, methods, cells)
        point[:, t] = cohort.full()
        if drawn is not None:
            n = len(found.users)
            drawn[:, :, t] = cohort.resampled(generator.integers(0, n, size=(n_boot, n)))
            left_out.append(cohort.left_out(np.array([place[user] for user in found.users])))
    n_rows = np.array([len(found.users) for found in predictions])
    tasks = tuple(found.task for found in predictions)
    return CohortErrors(methods, tasks, cells, n_rows, point, drawn, tuple(left_out), tuple(users))


def _cells(predictions: Sequence[TaskPredictions]) -> tuple[tuple[str, str], ...]:
    groups = {
        (attribute, value)
        for found in predictions
        for attribute, values in found.subgroups.items()
        for value in values
    }
    return (EVERYBODY, *sorted(groups))


class _Cohort:
    """The participants of one task and the cells they are in."""

    def __init__(self, found: TaskPredictions, methods: tuple[str, ...], cells: tuple[tuple[str, str], ...]):
        self._kind, self._truth = found.task.kind, np.asarray(found.y_true, np.float64)
        self._scores = np.stack([np.asarray(found.scored(m), np.float64) for m in methods])
        self._attributes = list(dict.fromkeys(attribute for attribute, _ in cells[1:]))
        self._members = [np.ones(len(found.users), bool)]
        for attribute, value in cells[1:]:
            of_user = np.array(found.subgroups.get(attribute, ("",) * len(found.users)), object)
            self._members.append(of_user == value)
        self._cells = cells

    def full(self) -> Float[np.ndarray, "method cell"]:
        out = np.full((len(self._scores), len(self._cells)), np.nan)
        for c, member in enumerate(self._members):
            if c and np.count_nonzero(member) < MIN_ROWS:
                continue
            for m, scores in enumerate(self._scores):
                out[m, c] = 1.0 - prediction_metrics.metric(self._kind, self._truth[member], scores[member])
        return out

    def resampled(self, draws: Int[np.ndarray, "draw n"]) -> Float[np.ndarray, "draw method cell"]:
        counts = np.ascontiguousarray(bootstrap.multiplicities(draws).T)
        out = np.full((len(draws), len(self._scores), len(self._cells)), np.nan)
        for c, member in enumerate(self._members):
            if not member.any():
                continue
            inside = counts if member.all() else counts[member]
            position = np.cumsum(member) - 1

            def rows_of(draw: int, member=member, position=position) -> np.ndarray:
                rows = draws[draw]
                return position[rows[member[rows]]]

            errors = self._errors(member, inside, rows_of)
            if c:
                errors[:, inside.sum(axis=0) < MIN_ROWS] = np.nan
            out[:, :, c] = errors.T
        return out

    def left_out(self, users: Int[np.ndarray, " n"]) -> LeftOut:
        """Leaving a participant out changes the cells that hold the participant, and no others."""
        n = len(users)
        cell = np.full((len(self._attributes), n), -1)
        errors = np.full((len(self._attributes), len(self._scores), n), np.nan)
        for c, member in enumerate(self._members[1:], start=1):
            size = int(np.count_nonzero(member))
            if not size:
                continue
            a = self._attributes.index(self._cells[c][0])
            cell[a, member] = c
            if size > MIN_ROWS:
                others = 1.0 - np.eye(size)

                def rows_of(i: int, size=size) -> np.ndarray:
                    return np.delete(np.arange(size), i)

                errors[a][:, member] = self._errors(member, others, rows_of, plain=size <= _SMALL)
        return LeftOut(users, cell, errors)

    def _errors(self, member: np.ndarray, counts: np.ndarray, rows_of: Any, **options: bool) -> np.ndarray:
        return 1.0 - prediction_metrics.resampled_metrics(
            self._kind, self._truth[member], self._scores[:, member], counts, rows_of, **options
        )
