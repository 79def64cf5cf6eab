"""Boosted trees on 495 features of behaviour: the XGBoost method of OpenMHC's prediction track."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.days.store import Days
from wearjax.engine import Engine
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import probes
from wearjax.predict.features import table
from wearjax.predict.protocols import DataSpec, EvalContext

SEED = 42
TREES: dict[str, Any] = {
    "n_estimators": 1000,
    "max_depth": 2,
    "learning_rate": 0.05,
    "subsample": 0.8,
    "colsample_bytree": 0.3,
    "reg_alpha": 0.1,
    "reg_lambda": 1.0,
    "min_child_weight": 1,
    "gamma": 0,
}


class XGBoost:
    """Trees on the features of `wearjax.predict.features.table`; the data handed to it are never read.

    Features are those of all retained days of a participant whatever the task, extracted once for all tasks. Missing
    features stay missing: trees handle them. A participant without a retained day is left out of `fit` and gets
    no prediction (NaN), which the harness replaces and counts.

    Binary and multiclass tasks train a classifier on log loss, regression one on squared error, with seed 42. An
    ordinal task trains one binary classifier for each level but the last of those seen, of `label > level` and
    with XGBoost's own default seed; the prediction is the most probable level by differences of their
    probabilities, counted from 0 among the levels seen (as the benchmark has it).

    Args:
        days: the day set.
        cache_dir: keeps the features for later runs; None keeps them in memory.
        progress: called with (participants done, participants to do) while features are extracted.
        n_jobs: processes of the extraction and threads of the trees; by default as many as make sense.
        engine: where features are extracted, instead of in `n_jobs` processes.
        n_trees: fewer for a quick look; the benchmark has 1000.

    Attributes:
        left_out: by (task, split), participants without a retained day.
    """

    name = "xgboost"
    data_spec = DataSpec("hourly", "day")

    def __init__(
        self,
        days: Days,
        *,
        cache_dir: str | os.PathLike | None = None,
        progress: Callable[[int, int], None] | None = None,
        n_jobs: int | None = None,
        engine: Engine | None = None,
        n_trees: int = TREES["n_estimators"],
    ):
        if n_trees < 1:
            raise ConfigError(f"n_trees: must be at least 1, got {n_trees}")
        self._days, self._cache_dir, self._progress, self._n_jobs = days, cache_dir, progress, n_jobs
        self._engine = engine
        self.settings: dict[str, Any] = {**TREES, "n_estimators": n_trees, "seed": SEED}
        self.left_out: dict[tuple[str, str], int] = {}
        self._table: table.FeatureTable | None = None
        self._context: EvalContext | None = None
        self._kind = ""
        self._levels: np.ndarray = np.empty(0)
        self._models: list[Any] = []

    def set_context(self, context: EvalContext) -> None:
        self._context = context

    def features(self) -> table.FeatureTable:
        """The features of every participant, extracted when first asked for. Raises as `table.extract`."""
        if self._table is None:
            self._table = table.extract(
                self._days,
                cache_dir=self._cache_dir,
                n_jobs=self._n_jobs,
                engine=self._engine,
                progress=self._progress,
            )
        return self._table

    def fit(self, data: Any, labels: Float64[np.ndarray, "n"], task_type: str) -> None:
        """Trains on the participants of the context who have features.

        Raises:
            MethodError: before `set_context`, not one label a participant, or labels of one class only.
            ConfigError: an unknown kind of task, or XGBoost is not installed.
        """
        if task_type not in probes.KINDS:
            raise ConfigError(f"task type {task_type!r}; expected one of {', '.join(probes.KINDS)}")
        library = _import_xgboost()
        values, known = self._rows()
        if np.shape(labels) != (len(known),):
            raise MethodError(f"xgboost: {np.shape(labels)} labels for {len(known)} participants")
        values, labels = values[known], np.asarray(labels, np.float64)[known]
        self._kind, self._levels = task_type, np.unique(labels)
        if not len(labels):
            raise MethodError("xgboost: no participant with a retained day to train on")
        if task_type == "regression":
            self._models = [self._trees(library.XGBRegressor, "reg:squarederror", SEED).fit(values, labels)]
            return
        if len(self._levels) < 2 or (task_type == "binary" and len(self._levels) > 2):
            raise MethodError(f"xgboost: a {task_type} task with {len(self._levels)} different labels")
        if task_type == "ordinal":
            self._models = [
                self._trees(library.XGBClassifier, "binary:logistic", None).fit(values, labels > level)
                for level in self._levels[:-1]
            ]
            return
        objective = "binary:logistic" if len(self._levels) == 2 else "multi:softprob"
        classes = np.searchsorted(self._levels, labels)
        self._models = [self._trees(library.XGBClassifier, objective, SEED).fit(values, classes)]

    def predict(self, data: Any) -> Float64[np.ndarray, "n"]:
        """One number a participant of the context; NaN without features. Raises MethodError before `fit`."""
        if not self._models:
            raise MethodError("xgboost: predict before fit")
        values, known = self._rows()
        out = np.full(len(known), np.nan)
        if known.any():
            out[known] = self._answers(values[known])
        return out

    def _answers(self, values: Float64[np.ndarray, "n 495"]) -> Float64[np.ndarray, "n"]:
        if self._kind == "regression":
            return np.asarray(self._models[0].predict(values), np.float64)
        chances = [np.asarray(model.predict_proba(values), np.float64) for model in self._models]
        if self._kind == "binary":
            return chances[0][:, 1]
        if self._kind == "multiclass":
            return self._levels[np.argmax(chances[0], axis=1)]
        above = np.stack([chance[:, 1] for chance in chances], axis=1)
        return probes.ordinal_levels(above).astype(np.float64)

    def _trees(self, kind: Any, objective: str, seed: int | None) -> Any:
        settings = {key: value for key, value in self.settings.items() if key != "seed"}
        if objective != "reg:squarederror":
            settings["eval_metric"] = "mlogloss" if objective == "multi:softprob" else "logloss"
        return kind(objective=objective, random_state=seed, n_jobs=self._n_jobs, **settings)

    def _rows(self) -> tuple[Float64[np.ndarray, "n 495"], Bool[np.ndarray, "n"]]:
        """Features of the participants of the context (of any where `known` is false)."""
        context = self._context
        if context is None:
            raise MethodError("xgboost: set_context must come before fit and predict")
        features = self.features()
        rows = features.find(context.user_ids)
        known = rows >= 0
        self.left_out[context.task, context.split] = int((~known).sum())
        values = np.full((len(rows), len(table.NAMES)), np.nan)
        values[known] = features.values[rows[known]]
        return values, known


def _import_xgboost() -> Any:
    """The library. Raises ConfigError naming the extra where it is not installed."""
    try:
        import xgboost
    except ImportError:
        raise ConfigError(
            "XGBoost is not installed; install it with: pip install 'wearjax[probes]'"
        ) from None
    return xgboost
