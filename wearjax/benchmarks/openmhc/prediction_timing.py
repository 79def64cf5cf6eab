"""How long the bootstrap of full-size predictions takes on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from wearjax import tasks as outcomes
from wearjax.benchmarks.openmhc import prediction_errors, prediction_metrics, prediction_scores
from wearjax.benchmarks.openmhc.prediction_errors import TaskPredictions
from wearjax.scores import fairness
from wearjax.tasks import BASELINE, Task


def random_predictions(
    *, n_participants: int, n_methods: int, tasks: Sequence[str] = (), seed: int = 0, labelled: float = 0.85
) -> list[TaskPredictions]:
    """Made labels and predictions, the first method the baseline, with age and sex subgroups.

    Args:
        tasks: codes; default the 32 of the benchmark.
        labelled: share of the participants with a label, in each task.
    """
    rng = np.random.default_rng(seed)
    people = np.array([f"p{i:05d}" for i in range(n_participants)], object)
    ages, sexes = (*fairness.age_labels(), fairness.UNKNOWN), (*fairness.SEXES, fairness.UNKNOWN)
    groups = {
        "age_group": np.array(ages, object)[rng.integers(0, len(ages), n_participants)],
        "sex": np.array(sexes, object)[rng.choice(3, n_participants, p=[0.45, 0.5, 0.05])],
    }
    methods = (BASELINE, *(f"method_{i}" for i in range(1, n_methods)))
    found = []
    for task in outcomes.chosen(tasks or outcomes.TASKS):
        chosen = np.flatnonzero(rng.random(n_participants) < labelled)
        latent = rng.normal(size=len(chosen))
        answers = {m: rng.uniform(0.2, 1.0) * latent + rng.normal(size=len(chosen)) for m in methods}
        columns = {
            m: prediction_metrics.output_columns(_on_scale(v, task), task.kind) for m, v in answers.items()
        }
        truth = _on_scale(latent, task)
        found.append(
            TaskPredictions(
                task=task,
                users=tuple(people[chosen]),
                y_true=np.round(truth) if task.kind != "regression" else truth,
                y_pred={m: y_pred for m, (y_pred, _) in columns.items()},
                y_proba={m: y_proba for m, (_, y_proba) in columns.items()},
                subgroups={name: tuple(values[chosen]) for name, values in groups.items()},
            )
        )
    return found


def _on_scale(latent: np.ndarray, task: Task) -> np.ndarray:
    if task.kind == "binary":
        return 1.0 / (1.0 + np.exp(-2.0 * latent))
    if task.kind == "regression":
        return 50.0 + 10.0 * latent
    highest = len(task.levels or ("no", "yes")) - 1
    return np.clip(0.5 * highest + latent, 0, highest)


def bootstrap_seconds(
    *, n_participants: int = 3569, n_methods: int = 10, n_boot: int = 1000, seed: int = 0
) -> float:
    """Seconds of this process to score made predictions of all tasks: draws, intervals, fairness with BCa."""
    predictions, _ = prediction_errors.common(
        random_predictions(n_participants=n_participants, n_methods=n_methods, seed=seed)
    )
    start = time.process_time()
    prediction_scores.score(predictions, n_boot=n_boot)
    return time.process_time() - start
