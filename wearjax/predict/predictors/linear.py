"""The Linear baseline: means and spreads of the hours, three covariates, a linear head.

It is what the prediction track compares with, and what replaces predictions that a method does not give.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64

from wearjax.channels import N_CHANNELS
from wearjax.days.store import Days
from wearjax.days.task_labels import TaskLabels
from wearjax.errors import MethodError
from wearjax.predict import inputs, probes
from wearjax.predict.protocols import DataSpec, EvalContext
from wearjax.tasks import COVARIATES

CLIP = 10.0
_WIDTH = 2 * N_CHANNELS


class Linear:
    """The baseline of OpenMHC's prediction track.

    Features: `pool_mean_std` of the eligible days, then the covariates that the task leaves (0 where unknown);
    what is not finite counts as 0; standardized by the training participants and clipped to ±10.

    Args:
        days: the day set, or days by participant that others read too.
        labels: where the covariates are read; None leaves them out.
        kept_covariates: of a task's code, which of `tasks.COVARIATES` it may use; None allows all but the task
            itself.
        cache_dir: not needed, the day features stay in memory; here as every predictor takes it.
        progress: called with (participants done, total) while features are computed.
    """

    name = "linear"
    data_spec = DataSpec("hourly", "day")

    def __init__(
        self,
        days: Days | inputs.ParticipantDays,
        *,
        labels: TaskLabels | None = None,
        kept_covariates: Callable[[str], tuple[str, ...]] | None = None,
        seed: int = 42,
        cache_dir: Path | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        self._source = days if isinstance(days, inputs.ParticipantDays) else inputs.ParticipantDays(days)
        self._labels, self._kept, self._progress = labels, kept_covariates, progress
        self.seed = seed
        self.settings: dict[str, Any] = {"seed": seed, "covariates": labels is not None}
        n_days = len(self._source.days)
        self._day_features = np.empty((n_days, _WIDTH), np.float32)
        self._known = np.zeros(n_days, bool)
        self._context: EvalContext | None = None
        self._scaler: Any = None
        self._head: probes.Head | None = None

    def set_context(self, context: EvalContext) -> None:
        self._context = context

    def fit(self, data: Any, labels: Float64[np.ndarray, "n"], task_type: str) -> None:
        """Fits scaler and head to the participants of the context.

        Raises:
            MethodError: before `set_context`, or labels that the head cannot learn. ConfigError: scikit-learn is
            not installed.
        """
        features = self._features()
        self._scaler = probes.import_sklearn("preprocessing").StandardScaler().fit(features)
        self._head = probes.Head(task_type, seed=self.seed).fit(self._scaled(features), labels)

    def predict(self, data: Any) -> Float64[np.ndarray, "n"]:
        """One finite number for each participant of the context. Raises MethodError before `fit`."""
        if self._head is None:
            raise MethodError("linear: predict before fit")
        features = self._features()
        return self._head.predict(self._scaled(features)) if len(features) else np.empty(0)

    def _scaled(self, features: Float32[np.ndarray, "n d"]) -> Float32[np.ndarray, "n d"]:
        return np.clip(self._scaler.transform(features), -CLIP, CLIP)

    def _features(self) -> Float32[np.ndarray, "n d"]:
        context = self._context
        if context is None:
            raise MethodError("linear: set_context must come before fit and predict")
        sensors = np.empty((len(context.user_ids), _WIDTH), np.float32)
        for place, (user, dates) in enumerate(zip(context.user_ids, context.dates, strict=True)):
            sensors[place] = self._of_participant(user, dates)
            if self._progress is not None:
                self._progress(place + 1, len(sensors))
        both = np.concatenate([sensors, self._covariates(context)], axis=1)
        return np.where(np.isfinite(both), both, np.float32(0))

    def _of_participant(self, user: str, dates: tuple[str, ...]) -> Float32[np.ndarray, "38"]:
        indices = self._source.find(user, dates)
        lacking = indices[~self._known[indices]]
        if len(lacking):
            self._day_features[lacking] = day_mean_std(self._source.hours(lacking).swapaxes(1, 2))
            self._known[lacking] = True
        return _mean_over_days(self._day_features[indices])

    def _covariates(self, context: EvalContext) -> Float32[np.ndarray, "n k"]:
        labels = self._labels
        if labels is None:
            return np.empty((len(context.user_ids), 0), np.float32)
        kept = COVARIATES if self._kept is None else self._kept(context.task)
        names = [c for c in COVARIATES if c in kept and c != context.task and c in labels.tasks]
        rows = [[labels.first_value(name, user) or 0.0 for name in names] for user in context.user_ids]
        return np.asarray(rows, np.float32).reshape(len(rows), len(names))


def day_mean_std(hours: Float[np.ndarray, "day hour channel"]) -> Float32[np.ndarray, "day 2*channel"]:
    """Mean and population spread of the measured hours of each day and channel; NaN where there is none."""
    known = ~np.isnan(hours)
    count = known.sum(axis=1).astype(np.float64)
    count[count == 0] = np.nan
    values = np.where(known, hours, 0).astype(np.float64)
    mean = values.sum(axis=1) / count
    spread = np.sqrt((np.where(known, values - mean[:, None], 0) ** 2).sum(axis=1) / count)
    return np.concatenate([mean, spread], axis=1).astype(np.float32)


def pool_mean_std(hours: Float[np.ndarray, "day hour channel"]) -> Float32[np.ndarray, "2*channel"]:
    """Plain mean over days of `day_mean_std`: a channel that one day lacks is NaN (OpenMHC's Linear baseline)."""
    return _mean_over_days(day_mean_std(hours))


def _mean_over_days(features: Float32[np.ndarray, "day d"]) -> Float32[np.ndarray, "d"]:
    if not len(features):
        return np.full(features.shape[1], np.nan, np.float32)
    return features.mean(axis=0, dtype=np.float64).astype(np.float32)
