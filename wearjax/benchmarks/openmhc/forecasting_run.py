"""The pass over the participants: every method forecasts their windows, gaps are filled, errors become sums.

One participant is in memory at a time. A participant counts for a method when all of its windows are forecast; an
interrupted evaluation goes on with those that are not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
import pyarrow as pa

from wearjax.benchmarks.openmhc.forecasting_cases import Cases
from wearjax.benchmarks.openmhc.forecasting_errors import ErrorTable
from wearjax.benchmarks.openmhc.forecasting_gallery import Gallery
from wearjax.benchmarks.openmhc.forecasting_participant import Found, Task, Worker, work
from wearjax.benchmarks.openmhc.forecasting_parts import GALLERY, SCALE, ForecastingParts
from wearjax.benchmarks.openmhc.forecasting_scale import SeasonalScale
from wearjax.engine import Engine
from wearjax.errors import ConfigError
from wearjax.predict import forecaster
from wearjax.train.interrupt import Interrupts

# How closely a method without settings must repeat its first answer to go on from what is kept of it.
_SAME = 1e-3

Progressed = Callable[[int, int], None]


class Run:
    """One evaluation in progress.

    Args:
        methods: by name.
        cases: the windows.
        gallery_seed: chooses the example windows.

    Attributes:
        table: the sums of every method and participant.
        gallery: example windows with their forecasts.
        scale: day-to-day differences of the evaluated cells.
        seconds: inside each method, those of an earlier, interrupted evaluation included.
        counts: what methods count themselves, by method.
    """

    def __init__(self, methods: Mapping[str, Any], cases: Cases, *, gallery_seed: int = 42):
        self.methods, self.cases = dict(methods), cases
        self.table, self.scale = ErrorTable(), SeasonalScale()
        n_windows = {p: cases.n_windows_of(p) for p in cases.participants}
        self.gallery = Gallery(n_windows, horizon=cases.horizon, seed=gallery_seed)
        self.seconds = dict.fromkeys(methods, 0.0)
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in methods}
        self._worker = Worker(methods, cases, self.gallery.part())
        self._complete: dict[str, set[str]] = {name: set() for name in (SCALE, *methods)}
        self._saved: dict[str, set[str]] = {name: set() for name in (SCALE, *methods)}
        self._first_answer: dict[str, np.ndarray] = {}
        for name, method in self.methods.items():
            forecaster.check_horizon(method, cases.horizon, name=name)

    def all_participants(
        self, told: Progressed, kept: ForecastingParts | None = None, engine: Engine | None = None
    ) -> None:
        """Forecasts whatever is not found in `kept`.

        Args:
            told: called with (forecasts done, forecasts), a forecast being one window of one method.

        Raises:
            KeyboardInterrupt: on Ctrl-C or SIGTERM, after what is complete was written.
            ConfigError: a method of that name was another before, or the engine failed. MethodError: a method broke
                its contract.
        """
        if kept is not None:
            self._restore(kept)
        tasks = [task for participant in self.cases.participants if (task := self._task(participant))]
        total = self.cases.n_windows * len(self.methods)
        done = total - sum(self.cases.n_windows_of(task.participant) * len(task.methods) for task in tasks)
        told(done, total)
        with Interrupts() as interrupts:

            def check() -> None:
                if interrupts.requested:
                    raise KeyboardInterrupt

            self._worker.check = check
            try:
                for found in (engine or Engine()).map(work, tasks, shared=self._worker):
                    self._keep(found)
                    done += self.cases.n_windows_of(found.task.participant) * len(found.task.methods)
                    told(done, total)
                    check()
                    if kept is not None and kept.is_due():
                        self._save(kept)
                if kept is not None:
                    self._save(kept)
            except BaseException:
                if kept is not None:
                    self._save(kept)
                raise

    def _task(self, participant: str) -> Task | None:
        pending = tuple(name for name in self.methods if participant not in self._complete[name])
        if not pending and participant in self._complete[SCALE]:
            return None
        return Task(participant, pending)

    def _keep(self, found: Found) -> None:
        participant = found.task.participant
        self.scale.merge(found.scale)
        self.table.merge(found.table)
        self.gallery.merge(found.gallery)
        self._complete[SCALE].add(participant)
        for name in found.task.methods:
            self.seconds[name] += found.seconds[name]
            self.counts[name].update(found.counts[name])
            if participant == self.cases.participants[0]:
                self._first_answer[name] = found.first_answer[name]
            self._complete[name].add(participant)

    def _save(self, kept: ForecastingParts) -> None:
        """Writes the participants that became complete since the last time; the scale comes first."""
        if new := self._complete[SCALE] - self._saved[SCALE]:
            kept.write(SCALE, _rows_of(self.scale.record(), new), {})
            self._saved[SCALE] |= new
        for name in self.methods:
            if new := self._complete[name] - self._saved[name]:
                if (shown := _rows_of(self.gallery.record(name), new)).num_rows:
                    kept.write(GALLERY + name, shown, {})
                kept.write(name, self.table.record(name, sorted(new)), self._note(name))
                self._saved[name] |= new

    def _note(self, name: str) -> dict[str, Any]:
        first = self._first_answer.get(name)
        return {
            "method": describe(self.methods[name]),
            "seconds": self.seconds[name],
            "counts": dict(self.counts[name]),
            "first_answer": None if first is None else first.ravel().tolist(),
        }

    def _restore(self, kept: ForecastingParts) -> None:
        for table, _ in kept.read(SCALE):
            self.scale.restore(table)
            self._complete[SCALE].update(table["participant"].to_pylist())
        for name in self.methods:
            for table, _ in kept.read(GALLERY + name):
                self.gallery.restore(name, table)
            for table, note in kept.read(name):
                kept.check_method(name, note["method"], describe(self.methods[name]))
                self.table.restore(name, table)
                self._complete[name].update(table["participant"].to_pylist())
                self.seconds[name], self.counts[name] = note["seconds"], Counter(note["counts"])
                if note["first_answer"] is not None:
                    self._first_answer[name] = np.array(note["first_answer"], np.float32)
            self._check_same(name, kept)
        self._saved = {name: set(done) for name, done in self._complete.items()}

    def _check_same(self, name: str, kept: ForecastingParts) -> None:
        """A method that tells no settings must repeat its first answer: another may have taken its name meanwhile."""
        before = self._first_answer.get(name)
        if before is None or getattr(self.methods[name], "settings", None) is not None:
            return
        windows = self.cases.windows(self.cases.participants[0]).first()
        now = self._worker.ask(name, windows)[0].point.ravel()
        forecaster.reset(self.methods[name], name=name)
        finite = np.isfinite(before)
        scale = float(np.max(np.abs(before), initial=0.0, where=finite))
        if not np.allclose(now, before, rtol=_SAME, atol=_SAME * scale, equal_nan=True):
            raise ConfigError(
                f"{kept.folder}: {name!r} now forecasts other values than when this evaluation was begun; "
                "pass force=True (--force) to start over, or choose another folder"
            )


def _rows_of(table: pa.Table, participants: Set[str]) -> pa.Table:
    return table.take([row for row, p in enumerate(table["participant"].to_pylist()) if p in participants])


def describe(method: Any) -> dict[str, Any]:
    """What a method's forecasts depend on, as far as it can be known."""
    kind = type(method)
    own = {"class": f"{kind.__module__}.{kind.__qualname__}", **(getattr(method, "settings", None) or {})}
    return json.loads(json.dumps(own, default=str, sort_keys=True))
