"""One group of participants of the imputation benchmark: hide, let every method fill, reduce to errors.

What a group gives does not depend on other groups, so groups may be worked on anywhere and in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wearjax import channels
from wearjax.benchmarks.openmhc import imputation_errors
from wearjax.benchmarks.openmhc.imputation_cases import ATTRIBUTES, Batch, Cases, Masks
from wearjax.benchmarks.openmhc.imputation_errors import DayPairs, ErrorCollector, HiddenCells
from wearjax.benchmarks.openmhc.imputation_gallery import Gallery
from wearjax.predict import protocols
from wearjax.predict.imputers import fallback
from wearjax.scores import errors as score_errors
from wearjax.segments import seven_days


class Counts:
    """What one method's share of the pass counted, by scenario (and channel)."""

    def __init__(self, n_scenarios: int):
        self.substituted = np.zeros((n_scenarios, channels.N_CHANNELS), np.int64)
        self.asked = np.zeros((n_scenarios, channels.N_CHANNELS), np.int64)
        self.applicable = np.zeros(n_scenarios, np.int64)
        self.seconds = np.zeros(())

    def add(self, other: Counts) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass(frozen=True)
class Task:
    """A group to work on.

    Attributes:
        group: its windows, batch by batch.
        methods: those to ask.
        bounds: by scenario, the priority beyond which no day becomes an example.
    """

    group: list[np.ndarray]
    methods: tuple[str, ...]
    bounds: Mapping[str, float]


@dataclass
class Found:
    """What a group gave.

    Attributes:
        people: positions of its participants.
        counts, errors, gallery, first_answer: by method; the errors are those of the group's participants.
    """

    people: slice
    counts: dict[str, Counts]
    errors: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    gallery: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    first_answer: dict[str, np.ndarray] = field(default_factory=dict)


class Worker:
    """Works on groups.

    Args:
        gallery: an empty one; groups keep examples in parts of it.

    Attributes:
        check: called between scenarios, raises to stop; it stays in its process.
    """

    def __init__(
        self,
        methods: Mapping[str, Any],
        scenarios: tuple[str, ...],
        cases: Cases,
        masks_of: Masks,
        statistics: fallback.FallbackStatistics,
        gallery: Gallery,
    ):
        self.methods, self.scenarios, self.cases, self.masks = dict(methods), scenarios, cases, masks_of
        self.statistics, self.gallery = statistics, gallery
        self.check: Callable[[], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "check": None}

    def work(self, task: Task) -> Found:
        """What the methods of a task give on its group."""
        return _Pass(self, task).found()

    def first_fill(self, name: str, groups: Sequence[list[np.ndarray]]) -> np.ndarray:
        """A method's fills of the first window that has anything to fill."""
        for batch_rows in (rows for group in groups for rows in group):
            batch = self.cases.batch(batch_rows)
            for scenario in self.scenarios:
                target, applicable = self.masks.of_batch(scenario, batch)
                rows = np.flatnonzero(applicable.any(axis=1))
                if len(rows):
                    hidden = target[rows]
                    return self.answer(name, batch, rows, hidden)[0][0][hidden[0]]
        return np.zeros(0, np.float32)

    def answer(
        self, name: str, batch: Batch, rows: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """What a method fills in, and how long it took."""
        truth = batch.values[rows]
        corrupted = np.where(hidden, np.float32(np.nan), truth)
        # Arrays of its own, so that a method which writes into its arguments harms only itself.
        start = time.perf_counter()
        filled = protocols.call_impute(
            self.methods[name], corrupted, ~np.isnan(truth), hidden.copy(), **batch.metadata(rows)
        )
        return filled, time.perf_counter() - start


def work(worker: Worker, task: Task) -> Found:
    """The same as a function, for engines."""
    return worker.work(task)


class _Pass:
    """The pass over one group."""

    def __init__(self, worker: Worker, task: Task):
        self._worker, self._task = worker, task
        self._gallery = worker.gallery.part(task.bounds)
        self._counts = {name: Counts(len(worker.scenarios)) for name in task.methods}
        self._pairs: dict[tuple[str, int], list[DayPairs]] = {}
        self._positions: dict[int, list[np.ndarray]] = {}
        self._first_answer: dict[str, np.ndarray] = {}

    def found(self) -> Found:
        worker, names = self._worker, self._task.methods
        for rows in self._task.group:
            batch = worker.cases.batch(rows)
            for s in range(len(worker.scenarios)):
                self._impute(s, batch)
                if worker.check is not None:
                    worker.check()
        people = worker.cases.people_of(self._task.group)
        collector = self._collected(people)
        return Found(
            people,
            self._counts,
            {name: collector.record(name) for name in names},
            {name: self._gallery.record(name) for name in names},
            self._first_answer,
        )

    def _impute(self, s: int, batch: Batch) -> None:
        """One scenario of one batch: hide, fill with every method, keep the pairs."""
        worker, scenario = self._worker, self._worker.scenarios[s]
        target, applicable = worker.masks.of_batch(scenario, batch)
        rows = np.flatnonzero(applicable.any(axis=1))
        if not len(rows):
            return
        has_mask = applicable[rows]
        truth, hidden = batch.values[rows], target[rows]
        at = batch.windows[rows][has_mask]
        self._positions.setdefault(s, []).append(at)
        true_days, hidden_days = self._days(truth, has_mask), self._days(hidden, has_mask)
        cells = HiddenCells(true_days, hidden_days)
        shown = self._gallery.offered(scenario, at)
        for name, counts in self._counts.items():
            filled, seconds = worker.answer(name, batch, rows, hidden)
            self._first_answer.setdefault(name, filled[0][hidden[0]])
            usable = score_errors.within_half_precision(filled)
            done = fallback.substitute(usable, hidden, worker.statistics.fill)
            counts.seconds += seconds
            counts.applicable[s] += int(has_mask.sum())
            counts.substituted[s] += done.substituted
            counts.asked[s] += done.asked
            filled_days = self._days(done.values, has_mask)
            self._pairs.setdefault((name, s), []).append(cells.pairs(filled_days))
            self._gallery.keep(scenario, name, shown, true_days, hidden_days, filled_days)

    def _days(self, array: np.ndarray, has_mask: np.ndarray) -> np.ndarray:
        """Cuts windows into days and keeps those with a mask."""
        cut = seven_days.split_days(array, self._worker.cases.n_days)
        return cut.reshape(-1, *cut.shape[2:]) if has_mask.all() else cut[has_mask]

    def _collected(self, people: slice) -> ErrorCollector:
        cases, scenarios = self._worker.cases, self._worker.scenarios
        attributes = ATTRIBUTES if cases.subgroups else {}
        collector = ErrorCollector(
            self._task.methods, scenarios, cases.participants[people], attributes=attributes
        )
        for (name, s), parts in self._pairs.items():
            at = np.concatenate(self._positions[s])
            collector.add(
                name,
                scenarios[s],
                imputation_errors.join(parts),
                participant=cases.participant_of[at] - people.start,
                subgroups={attribute: codes[at] for attribute, codes in cases.subgroups.items()},
            )
        return collector
