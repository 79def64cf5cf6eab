"""How long the bootstrap of an imputation table takes on this machine, alone and beside another program's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wearjax.benchmarks.openmhc import imputation_scores, imputation_tasks, packet
from wearjax.errors import ConfigError
from wearjax.scores import bootstrap, fairness
from wearjax.scores.errors import ErrorTable, SubgroupErrors
from wearjax.segments.masks import SCENARIOS

SEED = 42
# score(errors, users, draws, baseline) of the rival: see `benchmarks/pandas_bootstrap.py`.
Rival = Callable[..., Any]
_GOLDEN_SCENARIOS = ("random_noise", "temporal_slice", "sleep_gap", "intensity_failure")
TOLERANCE = 1e-4  # draws go through float32 here, and not there


def random_table(
    *,
    n_participants: int,
    n_methods: int,
    seed: int = 0,
    missing: float = 0.05,
    scenarios: tuple[str, ...] = SCENARIOS,
) -> ErrorTable:
    """A table of made errors for all tasks, with age and sex subgroups and a share of missing values."""
    rng = np.random.default_rng(seed)
    tasks = imputation_tasks.tasks(scenarios)
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
    return _median_seconds(lambda: imputation_scores.score(table, n_boot=n_boot), repeats)


@dataclass(frozen=True)
class Comparison:
    """One table scored by both programs in the same process.

    Attributes:
        n_boot: draws of ours. rival_draws: of the rival, the first of ours.
        ours, rival: seconds; the rival's scaled to the draws of ours.
        largest_difference: between the means of the same draws of any method, metric and scope.
        n_compared: how many such means.
    """

    n_participants: int
    n_methods: int
    n_boot: int
    rival_draws: int
    ours: float
    rival: float
    largest_difference: float
    n_compared: int

    @property
    def times(self) -> float:
        """How many times faster ours is."""
        return self.rival / self.ours


class Case(NamedTuple):
    """A table to compare on; the rival gets the first `rival_draws` of `n_boot` draws."""

    table: ErrorTable
    n_boot: int
    rival_draws: int
    repeats: int = 1


def cases(repeats: int) -> list[Case]:
    """The size of the golden scoring case, and a cohort of 200 with ten methods."""
    golden = random_table(n_participants=4, n_methods=3, scenarios=_GOLDEN_SCENARIOS)
    return [
        Case(golden, 40, 40, repeats),
        Case(random_table(n_participants=200, n_methods=10), 1000, 20, repeats),
    ]


def compare(rival: Rival, table: ErrorTable, n_boot: int, rival_draws: int, repeats: int = 1) -> Comparison:
    """Times both on one table, and compares the means over the rival's draws.

    Ours does more in that time: leave-one-out values for BCa intervals, and scores of single tasks.

    Args:
        rival: gives `method, metric, scope, mean` of a long table of errors.
        rival_draws: the first draws, for a slow rival; its seconds are scaled.

    Raises:
        ConfigError: the means differ by more than 1e-4, so that the times do not compare.
    """
    matrix = bootstrap.resample_matrix(bootstrap.derived_seed(SEED, "test"), len(table.participants), n_boot)
    rows = packet.imputation_rows(table, split="test").to_pandas()
    rows["E_per_user"] = rows["E_per_user"].astype(float)
    users, answers = list(table.participants), []
    seconds = _median_seconds(
        lambda: answers.append(rival(rows, users, matrix[:rival_draws], imputation_tasks.BASELINE)), repeats
    )
    ours = _median_seconds(lambda: imputation_scores.score(table, n_boot=n_boot, seed=SEED), repeats)
    difference, n_compared = _largest_difference(table, matrix[:rival_draws], answers[0])
    if not difference <= TOLERANCE:
        raise ConfigError(f"bootstrap: the rival's means differ from ours by up to {difference:.2g}")
    return Comparison(
        len(table.participants), len(table.methods), n_boot, rival_draws, ours, seconds * n_boot / rival_draws,
        difference, n_compared,
    )  # fmt: skip


def _largest_difference(table: ErrorTable, matrix: np.ndarray, answer: Any) -> tuple[float, int]:
    scores = imputation_scores.score_draws(table, bootstrap.multiplicities(matrix))
    own = {(s.method, s.metric, s.scope): s.mean for s in scores if not s.scope.startswith("task:")}
    found = {(r.method, r.metric, r.scope): r.mean for r in answer.itertuples()}
    if missing := own.keys() ^ found.keys():
        raise ConfigError(f"bootstrap: only one program has a mean of {sorted(missing)[0]}")
    return max(abs(own[key] - found[key]) for key in own), len(own)


def _median_seconds(run: Callable[[], Any], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))
