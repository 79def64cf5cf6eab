"""The table of a prediction run, task by task, and the counts of what its scores could not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from wearjax.benchmarks.openmhc import prediction_metrics
from wearjax.benchmarks.openmhc.prediction_errors import CohortErrors, TaskPredictions
from wearjax.tasks import BASELINE

COLUMNS = ("task", "task_type", "classifier", "metric", "value", "n_test")


def records(predictions: Sequence[TaskPredictions], n_boot: int, seed: int) -> list[dict[str, Any]]:
    """Metric and standard error of every task and method, each method by itself: a row a number."""
    found = []
    for of_task in predictions:
        task = of_task.task
        scored = np.stack([of_task.scored(m) for m in of_task.methods])
        values = prediction_metrics.primary_metrics(
            task.kind, of_task.y_true, scored, n_boot=n_boot, seed=seed
        )
        for method, primary in zip(of_task.methods, values, strict=True):
            for metric, value in ((primary.name, primary.value), (f"{primary.name}_se", primary.se)):
                row = (task.code, task.kind, method, metric, value, len(of_task.users))
                found.append(dict(zip(COLUMNS, row, strict=True)))
    return found


def undefined(errors: CohortErrors) -> dict[str, list[str]]:
    """Codes of the tasks in which a method has no error, by method."""
    lacking = np.isnan(errors.point[:, :, 0])
    return {
        method: [errors.tasks[t].code for t in np.flatnonzero(lacking[m])]
        for m, method in enumerate(errors.methods)
        if lacking[m].any()
    }


def without_value(errors: CohortErrors) -> dict[str, int]:
    """Counts of what the scores could not use."""
    own = errors.method_index(BASELINE)
    counts = Counter({f"{m}: tasks without a metric": len(codes) for m, codes in undefined(errors).items()})
    counts["tasks without skill: the baseline makes no error"] = int((errors.point[own, :, 0] <= 0).sum())
    inside = errors.point[:, :, 1:]
    anybody = np.isfinite(inside).any(axis=0)  # a subgroup that nobody is scored in is no method's loss
    counts["subgroups of tasks without a metric of any method"] = int((~anybody).sum())
    for m, method in enumerate(errors.methods):
        counts[f"{method}: subgroups of tasks without a metric"] = int((np.isnan(inside[m]) & anybody).sum())
    return {reason: n for reason, n in counts.items() if n}
