"""One participant of the forecasting benchmark: every method forecasts the windows, gaps are filled, errors reduced.

What a participant gives does not depend on the others, so participants may be worked on anywhere and in any order.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.benchmarks.openmhc.forecasting_cases import Cases, Windows
from wearjax.benchmarks.openmhc.forecasting_errors import ErrorTable, ParticipantForecasts
from wearjax.benchmarks.openmhc.forecasting_gallery import Gallery
from wearjax.benchmarks.openmhc.forecasting_scale import SeasonalScale
from wearjax.predict import forecaster
from wearjax.predict.forecaster import Forecast
from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive


@dataclass(frozen=True)
class Task:
    """A participant, and the methods to ask."""

    participant: str
    methods: tuple[str, ...]


@dataclass
class Found:
    """What a participant gave.

    Attributes:
        seconds, counts: by method; counts are the method's own.
        first_answer: by method, its first point forecast.
    """

    task: Task
    gallery: Gallery
    scale: SeasonalScale = field(default_factory=SeasonalScale)
    table: ErrorTable = field(default_factory=ErrorTable)
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    first_answer: dict[str, np.ndarray] = field(default_factory=dict)


class Worker:
    """Works on participants.

    Args:
        gallery: an empty one; participants keep their example windows in parts of it.

    Attributes:
        check: called between forecasts, raises to stop; it stays in its process.
    """

    def __init__(self, methods: Mapping[str, Any], cases: Cases, gallery: Gallery):
        self.methods, self.cases, self.gallery = dict(methods), cases, gallery
        self.check: Callable[[], None] | None = None
        self._naive = SeasonalNaive()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "check": None}

    def work(self, task: Task) -> Found:
        """What the methods of a task give on its participant."""
        found = Found(task, self.gallery.part())
        windows = self.cases.windows(task.participant)
        found.scale.add(task.participant, windows.values, windows.origins.tolist(), self.cases.horizon)
        for name in task.methods:
            forecasts = self._forecasts(name, windows, found)
            found.table.add(name, forecasts)
            found.gallery.keep(name, forecasts, windows.values, windows.first_day)
        return found

    def ask(self, name: str, windows: Windows) -> list[Forecast]:
        """A method's forecasts of a participant, as it gives them."""
        method, days = self.methods[name], windows.days.tolist()
        where = f"participant {windows.participant}"
        if callable(getattr(method, "predict_batch", None)):
            found = forecaster.call_predict_batch(
                method, windows.histories, windows.horizon, index_days=days, participant=windows.participant,
                origin_date=windows.origin_dates, name=name, where=where,
            )  # fmt: skip
            self._check()
            return found
        found = []
        for window, (day, date) in enumerate(zip(days, windows.origin_dates, strict=True)):
            # An array of its own, so that a method which writes into it harms only itself.
            history = windows.history(window).copy()
            one = forecaster.call_predict(
                method, history, windows.horizon, index_days=day, participant=windows.participant,
                origin_date=date, name=name, where=f"{where}, day {day}",
            )  # fmt: skip
            found.append(one)
            self._check()
        return found

    def _check(self) -> None:
        if self.check is not None:
            self.check()

    def _forecasts(self, name: str, windows: Windows, into: Found) -> ParticipantForecasts:
        """One method's forecasts of one participant, without gaps."""
        method = self.methods[name]
        before = Counter(getattr(method, "counts", None) or {})
        start = time.perf_counter()
        found = self.ask(name, windows)
        forecaster.reset(method, name=name)
        into.seconds[name] = time.perf_counter() - start
        into.first_answer[name] = found[0].point
        point, quantiles = forecaster.stack(found)
        point, substituted = self._substitute(point, windows)
        now = Counter(getattr(method, "counts", None) or {})
        into.counts[name] = Counter({key: n - before[key] for key, n in now.items()})
        return ParticipantForecasts(
            participant=windows.participant,
            origins=windows.origins,
            target=windows.targets(),
            point=point,
            quantiles=quantiles,
            levels=forecaster.levels_of(found),
            substituted=substituted,
        )

    def _substitute(
        self, point: Float32[np.ndarray, "window channel=19 horizon"], windows: Windows
    ) -> tuple[Float32[np.ndarray, "window channel=19 horizon"], Int64[np.ndarray, "channel=19"]]:
        """Seasonal naive from the same history wherever a method gave no number, and how often (by channel)."""
        open_cells = ~np.isfinite(point)
        rows = np.flatnonzero(open_cells.any(axis=(1, 2)))
        if not len(rows):
            return point, np.zeros(point.shape[1], np.int64)
        naive = self._naive.points([windows.history(int(row)) for row in rows], windows.horizon)
        filled = point.copy()
        filled[rows] = np.where(open_cells[rows], naive, point[rows])
        return filled, open_cells.sum(axis=(0, 2), dtype=np.int64)


def work(worker: Worker, task: Task) -> Found:
    """The same as a function, for engines."""
    return worker.work(task)
