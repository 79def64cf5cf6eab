"""WBM as a predictor: the mean of a participant's week vectors under a linear probe."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Float64, Int64

from wearjax.batches import weeks
from wearjax.convert.bundle import Bundle
from wearjax.days import task_labels
from wearjax.days.store import Days
from wearjax.days.task_labels import TaskLabels
from wearjax.predict import vector_cache
from wearjax.predict.predictors import lsm2, representation
from wearjax.predict.predictors.representation import DatedRows, RepresentationProbe
from wearjax.predict.protocols import EvalContext
from wearjax.predict.representations import WeekEncoder
from wearjax.segments import hourly_week


class WBM(RepresentationProbe):
    """Week vectors before the projection head, mean over eligible weeks (OpenMHC, WBM inference).

    Weeks are seven calendar days from the participant's first retained day on, without overlap, with at least five
    days. Which are eligible, and the labels to learn from, a weekly lookup says where there is one (the published
    one ends some weeks after the label); else it is every week that holds an eligible day. A participant without
    a week has no prediction.

    Args:
        days: the store that the harness evaluates.
        bundle: a trained model of kind `wbm`.
        lookup: weekly labels; `stored` takes those of the data root, if it has them; None does without.
        cache_dir: keeps the week vectors for later runs; None keeps them in memory.
        batch_size: weeks a call of the model.
        progress: called with (weeks embedded, weeks to embed).
        n_components, seed: of the probe.

    Attributes:
        unmatched_weeks: by (task, split), weeks of the lookup that cannot be cut from the days.

    Raises:
        MethodError: another kind of model. SourceError: an unreadable lookup.
    """

    name = "wbm"

    def __init__(
        self,
        days: Days,
        bundle: Bundle,
        *,
        lookup: TaskLabels | Literal["stored"] | None = "stored",
        cache_dir: str | os.PathLike | None = None,
        batch_size: int = 32,
        progress: Callable[[int, int], None] | None = None,
        n_components: int = representation.N_COMPONENTS,
        seed: int = 42,
    ):
        super().__init__(n_components=n_components, seed=seed)
        self._encode = WeekEncoder(bundle, batch_size=batch_size)
        self._days, self._progress = days, progress
        self._lookup = stored_lookup(days) if lookup == "stored" else lookup
        self._weights = lsm2.weights_digest(bundle)
        retained = np.flatnonzero(days.retained).astype(np.int64)
        names = days.participants[retained].astype(str).tolist()
        cut, starts = hourly_week.weeks(names, days.dates[retained].tolist())
        self._week = np.where(cut == hourly_week.ABSENT, hourly_week.ABSENT, retained[cut])
        first = self._week.max(axis=1, initial=0)  # any real day names the owner
        self._rows = DatedRows(days.participants[first], starts)
        self._cache = vector_cache.VectorCache(
            len(cut),
            bundle.config.dim,
            self._week_vectors,
            folder=lsm2.cache_folder(cache_dir, days, self.name, self._weights),
            rows_a_call=4 * batch_size,
        )
        self.unmatched_weeks: dict[tuple[str, str], int] = {}

    @property
    def settings(self) -> dict[str, Any]:
        lookup = None if self._lookup is None else self._lookup.path.name
        return {**super().settings, "weights": self._weights, "weekly_lookup": lookup}

    def participant_vectors(self, context: EvalContext) -> Float32[np.ndarray, "participant D"]:
        rows = self._eligible_weeks(context)
        self._cache.ensure(np.concatenate([*rows, np.empty(0, np.int64)]), progress=self._progress)
        vectors = np.full((len(rows), self._cache.dim), np.nan, np.float32)
        for place, own in enumerate(rows):
            if len(own):
                vectors[place] = self._cache.rows(own).mean(axis=0, dtype=np.float64)
        return vectors

    def training_labels(
        self, context: EvalContext, labels: Float64[np.ndarray, "participant"]
    ) -> Float64[np.ndarray, "participant"]:
        """Those of the weekly lookup, where there is one."""
        cohort = self._cohort(context)
        if cohort is None:
            return labels
        of = dict(zip(cohort.users, cohort.labels, strict=True))
        return np.array([of.get(user, label) for user, label in zip(context.user_ids, labels, strict=True)])

    def _eligible_weeks(self, context: EvalContext) -> list[Int64[np.ndarray, "week"]]:
        cohort = self._cohort(context)
        if cohort is None:
            pairs = zip(context.user_ids, context.dates, strict=True)
            return [self._holding(user, dates) for user, dates in pairs]
        starts = dict(zip(cohort.users, cohort.dates, strict=True))
        rows = [self._rows.at(user, starts.get(user, ())) for user in context.user_ids]
        asked = sum(map(len, cohort.dates))
        self.unmatched_weeks[context.task, context.split] = asked - sum(map(len, rows))
        return rows

    def _holding(self, participant: str, dates: Sequence[str]) -> Int64[np.ndarray, "week"]:
        """Weeks of a participant with at least one of the dates."""
        rows, starts = self._rows.of(participant)
        if not len(rows):
            return rows
        date = representation.epoch_days(dates)
        place = np.searchsorted(starts, date, side="right") - 1
        inside = (place >= 0) & (date - starts[place] < hourly_week.N_DAYS)
        return rows[np.unique(place[inside])]

    def _cohort(self, context: EvalContext) -> task_labels.Cohort | None:
        if self._lookup is None or context.task not in self._lookup.tasks:
            return None
        return self._lookup.cohort(context.task, context.user_ids)

    def _week_vectors(self, rows: Int64[np.ndarray, "week"]) -> Float32[np.ndarray, "week D"]:
        week = self._week[rows]
        needed = np.unique(week[week != hourly_week.ABSENT])
        hours = weeks.hours_of(self._days, needed)
        place = np.where(week == hourly_week.ABSENT, hourly_week.ABSENT, np.searchsorted(needed, week))
        return self._encode(hourly_week.gather(hours, place))


def stored_lookup(days: Days) -> TaskLabels | None:
    """The weekly labels of a data root; None where it has none."""
    name = task_labels.ROOT_FILES["week", "forward"]
    if not (days.path / "processed" / name).exists():
        return None
    return task_labels.read_lookup(days.path, unit="week", window="forward")
