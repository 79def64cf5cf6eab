"""Frozen representations under a linear probe: participants become vectors, a probe learns each task on them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped

from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import probes
from wearjax.predict.protocols import DataSpec, EvalContext

N_COMPONENTS = 50


class RepresentationProbe(abc.ABC):
    """A predictor with its own features: it reads the participants of the context, never the data handed to it.

    Subclasses say what the vector of a participant is. A participant without a vector (NaN) is left out of `fit` and
    gets no prediction (NaN), which the harness replaces and counts.

    Args:
        n_components: of the probe's principal components.
        seed: of the probe.

    Attributes:
        left_out: by (task, split), participants without a vector.
    """

    name = "representation"
    data_spec = DataSpec("hourly", "day")

    def __init__(self, *, n_components: int = N_COMPONENTS, seed: int = 42):
        self._n_components, self._seed = n_components, seed
        self._context: EvalContext | None = None
        self._probe: probes.LinearProbe | None = None
        self.left_out: dict[tuple[str, str], int] = {}

    @abc.abstractmethod
    def participant_vectors(self, context: EvalContext) -> Float32[np.ndarray, "participant D"]:
        """One vector a participant, in the order of the context; NaN where there is none."""

    @property
    def settings(self) -> dict[str, Any]:
        """What changes the predictions, as plain values."""
        return {"n_components": self._n_components, "seed": self._seed}

    def training_labels(
        self, context: EvalContext, labels: Float64[np.ndarray, "participant"]
    ) -> Float64[np.ndarray, "participant"]:
        """The labels to learn from; a method with a lookup of its own replaces those that are given."""
        return labels

    def set_context(self, context: EvalContext) -> None:
        if len(context.user_ids) != len(context.dates):
            raise MethodError(
                f"{self.name}: {len(context.user_ids)} users but {len(context.dates)} lists of dates"
            )
        self._context = context

    def fit(self, data: Any, labels: Float64[np.ndarray, "participant"], task_type: str) -> None:
        """Fits the probe to the participants of the context who have a vector.

        Raises MethodError without a context, or when it is not one label a participant.
        """
        context = self._told()
        if np.shape(labels) != (len(context.user_ids),):
            raise MethodError(
                f"{self.name}: {np.shape(labels)} labels for {len(context.user_ids)} participants of {context.task}"
            )
        vectors, known = self._vectors(context)
        self._probe = None
        if known.any():
            learnt = self.training_labels(context, np.asarray(labels, np.float64))[known]
        if known.any() and len(np.unique(learnt)) > 1:
            self._probe = probes.LinearProbe(task_type, n_components=self._n_components, seed=self._seed)
            self._probe.fit(vectors[known], learnt)

    def predict(self, data: Any) -> Float64[np.ndarray, "participant"]:
        """One number a participant; NaN without a vector, or when too few had one to learn from."""
        vectors, known = self._vectors(self._told())
        predicted = np.full(len(vectors), np.nan)
        if self._probe is not None and known.any():
            predicted[known] = self._probe.predict(vectors[known])
        return predicted

    def _told(self) -> EvalContext:
        if self._context is None:
            raise MethodError(
                f"{self.name}: set_context(context) must be called first; it has features of its own"
            )
        return self._context

    def _vectors(self, context: EvalContext):
        vectors = self.participant_vectors(context)
        known = np.isfinite(vectors).all(axis=1)
        self.left_out[context.task, context.split] = int((~known).sum())
        return vectors, known


class DatedRows:
    """Finds rows of a table by participant and date.

    Args:
        participants, dates: of each row; ISO dates or datetime64.
        rows: the number of each row, where they are not 0, 1, 2, ...
    """

    def __init__(
        self,
        participants: Shaped[np.ndarray, "row"],
        dates: Shaped[np.ndarray, "row"],
        rows: Int64[np.ndarray, "row"] | None = None,
    ):
        days = np.asarray(dates).astype("datetime64[D]").astype(np.int64)
        rows = np.arange(len(days)) if rows is None else np.asarray(rows, np.int64)
        self._ids, owner = np.unique(np.asarray(participants).astype(str), return_inverse=True)
        order = np.lexsort((days, owner))
        self._days, self._rows = days[order], rows[order]
        self._stop = np.cumsum(np.bincount(owner, minlength=len(self._ids)))

    def of(self, participant: str) -> tuple[Int64[np.ndarray, "own"], Int64[np.ndarray, "own"]]:
        """Rows of a participant by date, and the dates in days since 1970."""
        place = int(np.searchsorted(self._ids, participant))
        if place == len(self._ids) or self._ids[place] != participant:
            return self._rows[:0], self._days[:0]
        part = slice(self._stop[place - 1] if place else 0, self._stop[place])
        return self._rows[part], self._days[part]

    def at(self, participant: str, dates: Sequence[str]) -> Int64[np.ndarray, "found"]:
        """Rows of a participant at those of the dates that have one."""
        rows, days = self.of(participant)
        return rows[np.isin(days, epoch_days(dates))]


def retained_rows(days: Days) -> DatedRows:
    """The retained days of a store; rows are positions in it."""
    rows = np.flatnonzero(days.retained).astype(np.int64)
    return DatedRows(days.participants[rows], days.dates[rows], rows)


def epoch_days(dates: Sequence[str]) -> Int64[np.ndarray, "date"]:
    """ISO dates as days since 1970. Raises ConfigError."""
    try:
        return np.asarray(dates, dtype=object).astype("datetime64[D]").astype(np.int64)
    except ValueError as error:
        raise ConfigError(f"dates must be ISO dates like 2020-01-31 ({error})") from None
