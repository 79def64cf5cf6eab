"""How long the bootstrap of a full-size imputation table takes on this machine."""

from __future__ import annotations

import time

import numpy as np

from wearjax.benchmarks.openmhc import imputation_scores, imputation_tasks
from wearjax.scores import fairness
from wearjax.scores.errors import ErrorTable, SubgroupErrors


def random_table(*, n_participants: int, n_methods: int, seed: int = 0, missing: float = 0.05) -> ErrorTable:
    """A table of made errors for all tasks, with age and sex subgroups and a share of missing values."""
    rng = np.random.default_rng(seed)
    tasks = imputation_tasks.tasks()
    shape = (n_methods, len(tasks), n_participants)
    errors = rng.gamma(2.0, 1.0, shape)
    binary = imputation_tasks.floored(tasks)
    errors[:, binary] = np.clip(errors[:, binary] / 10, 0.0, 1.0)
    errors[:, rng.random(shape[1:]) < missing] = np.nan  # what is missing is mostly missing for all methods
    groups = {}
    for name, values in (("age_group", fairness.age_labels()), ("sex", fairness.SEXES)):
        values = (*values, fairness.UNKNOWN)
        member = rng.integers(0, len(values), n_participants)
        inside = np.where(member == np.arange(len(values))[:, None, None, None], errors, np.nan)
        groups[name] = SubgroupErrors(values, inside)
    methods = (imputation_tasks.BASELINE, *(f"method_{i}" for i in range(1, n_methods)))
    return ErrorTable(methods, tasks, tuple(f"p{i}" for i in range(n_participants)), errors, groups)


def bootstrap_seconds(
    *, n_participants: int = 1000, n_methods: int = 10, n_boot: int = 1000, repeats: int = 1, seed: int = 0
) -> float:
    """Seconds, median of the repeats, to score a made table: points, draws, intervals, fairness with BCa."""
    table = random_table(n_participants=n_participants, n_methods=n_methods, seed=seed)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        imputation_scores.score(table, n_boot=n_boot)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
