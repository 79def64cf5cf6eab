"""Skill, rank and fair skill of the imputation benchmark, from a table of per-participant errors.

Points come from float64; the bootstrap first rounds what it stores per draw (error, ratio, rank) to float32,
as the benchmark's draw files do. Reported centre of skill and rank: mean of the draws with a percentile
interval; of fair skill: the point with a BCa interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from wearjax.benchmarks.openmhc import imputation_tasks
from wearjax.benchmarks.openmhc.imputation_tasks import BASELINE, Hierarchy
from wearjax.scores import bootstrap, fairness, intervals, rank, skill
from wearjax.scores.errors import ErrorTable, SubgroupErrors

SKILL = "skill"
RANK = "rank"
FAIR_SKILL = "fair_skill"


@dataclass(frozen=True)
class Score:
    """One line of the score table.

    Attributes:
        metric: `skill`, `rank` or `fair_skill`.
        scope: a scenario, `cat:<bucket>`, `semantic`, `overall`, `task:<scenario>:<channel>`; for fair skill
            `age_group`, `sex` or `overall`.
        n_tasks: how many parts the scope averages (buckets, scenarios or tasks, by scope).
        n_participants: participants behind the task: with a pair (skill), or with any method's error (rank);
            of a scope, the most of any of its tasks.
        point: value of the full sample; the centre that is reported for fair skill.
        mean, se: mean and spread of the draws; the mean is the centre that is reported for skill and rank.
        ci_lo, ci_hi: reported interval: percentile for skill and rank, BCa for fair skill.
        percentile_lo, percentile_hi: percentile interval, whatever is reported.
        n_boot: finite draws.
    """

    method: str
    metric: str
    scope: str
    n_tasks: int
    n_participants: int
    point: float
    mean: float = float("nan")
    se: float = float("nan")
    ci_lo: float = float("nan")
    ci_hi: float = float("nan")
    n_boot: int = 0
    percentile_lo: float = float("nan")
    percentile_hi: float = float("nan")

    @property
    def reported(self) -> float:
        """The published centre: bootstrap mean of skill and rank, point of fair skill; the point without draws."""
        return self.point if self.metric == FAIR_SKILL or math.isnan(self.mean) else self.mean


@dataclass(frozen=True, eq=False)
class Statistics:
    """The per-participant statistics that every draw averages: clipped log ratios and ranks."""

    log_ratio: Float[np.ndarray, "method task participant"]
    rank: Float[np.ndarray, "method task participant"]


def statistics(table: ErrorTable, *, baseline: str = BASELINE) -> Statistics:
    """Ratios use floored binary errors, ranks never do. A pool of one method has no ranks."""
    own = table.method_index(baseline)
    floored = skill.floored(table.errors, imputation_tasks.floored(table.tasks))
    log_ratio = skill.paired_log_ratios(floored, floored[own][None])
    # Against itself the baseline's ratio is one for everybody with an error, also where that error is zero.
    log_ratio[own] = np.where(np.isfinite(table.errors[own]), 0.0, np.nan)
    if len(table.methods) == 1:
        return Statistics(log_ratio, np.full(table.errors.shape, np.nan))
    return Statistics(log_ratio, rank.average_ranks(table.errors))


def score(
    table: ErrorTable, *, baseline: str = BASELINE, n_boot: int = 1000, seed: int = 42, split: str = "test"
) -> list[Score]:
    """All scores of a table: skill and rank of every scope and task, fair skill where subgroups exist.

    Args:
        n_boot: bootstrap draws; 0 gives points without intervals.
        split: tag of the derived seed.
    """
    return score_draws(table, _draw_counts(table, n_boot, seed, split), baseline=baseline)


def score_draws(
    table: ErrorTable, draws: Float[np.ndarray, "draw participant"] | None, *, baseline: str = BASELINE
) -> list[Score]:
    """`score` with given draws, as the multiplicity of each participant in each; None for points only."""
    nesting = imputation_tasks.hierarchy(table.tasks)
    stats = statistics(table, baseline=baseline)
    found = _skill_scores(table, nesting, stats.log_ratio, draws)
    found += _rank_scores(table, nesting, stats.rank, draws)
    return found + fair_scores(table, baseline=baseline, draws=draws)


def _draw_counts(table: ErrorTable, n_boot: int, seed: int, split: str) -> np.ndarray | None:
    if n_boot == 0 or not table.participants:
        return None
    matrix = bootstrap.resample_matrix(bootstrap.derived_seed(seed, split), len(table.participants), n_boot)
    return bootstrap.multiplicities(matrix)


def _everyone(table: ErrorTable) -> np.ndarray:
    return np.ones((1, len(table.participants)))


def _stored(values: np.ndarray) -> np.ndarray:
    """What a draw file keeps: float32."""
    return values.astype(np.float32).astype(np.float64)


def paired_ratios(
    table: ErrorTable, *, baseline: str = BASELINE
) -> tuple[Float[np.ndarray, "method task"], Float[np.ndarray, "method task"]]:
    """Ratio of each method and task against the baseline, and the number of participants behind it."""
    log_ratio = statistics(table, baseline=baseline).log_ratio
    mean = bootstrap.weighted_means(_everyone(table), log_ratio)[0]
    return np.exp(mean), np.isfinite(log_ratio).sum(axis=-1)


def _skill_scores(
    table: ErrorTable, nesting: Hierarchy, log_ratio: np.ndarray, draws: np.ndarray | None
) -> list:
    point = skill.clip_log(np.exp(bootstrap.weighted_means(_everyone(table), log_ratio)[0]))
    drawn = None
    if draws is not None:
        drawn = skill.clip_log(_stored(np.exp(bootstrap.weighted_means(draws, log_ratio))))
    people = np.isfinite(log_ratio).sum(axis=-1)
    return _scope_scores(table, nesting, SKILL, people, point, drawn, skill.from_log_ratio)


def _rank_scores(table: ErrorTable, nesting: Hierarchy, ranks: np.ndarray, draws: np.ndarray | None) -> list:
    point = bootstrap.weighted_means(_everyone(table), ranks)[0]
    drawn = None if draws is None else _stored(bootstrap.weighted_means(draws, ranks))
    people = np.where(np.isfinite(point), np.isfinite(ranks).any(axis=0).sum(axis=-1), 0)
    return _scope_scores(table, nesting, RANK, people, point, drawn, lambda mean: mean)


def _scope_scores(table, nesting, metric, people, point, drawn, finish) -> list[Score]:
    """Scores of all scopes and tasks from task values of the full sample and of the draws."""
    leaves = tuple(f"task:{t.scenario}:{t.channel}" for t in table.tasks)
    scopes = (*nesting.scopes, *leaves)
    points = finish(np.concatenate([nesting.scope_means(point), point], axis=-1))
    counts = np.concatenate([nesting.scope_counts(point), np.isfinite(point).astype(int)], axis=-1)
    most = (people[:, :, None] * nesting.scope_of).max(axis=1, initial=0)
    people = np.concatenate([most, people], axis=-1)
    summary = None
    if drawn is not None:
        summary = bootstrap.summarise(finish(np.concatenate([nesting.scope_means(drawn), drawn], axis=-1)))
    found = []
    for m, method in enumerate(table.methods):
        for s in np.flatnonzero(np.isfinite(points[m])):
            found.append(
                _score_line(
                    method, metric, scopes[s], counts[m, s], people[m, s], points[m, s], summary, (m, s)
                )
            )
    return found


def _score_line(method, metric, scope, n_tasks, people, point, summary, at, interval=None) -> Score:
    line = (method, metric, scope, int(n_tasks), int(people), float(point))
    if summary is None:
        return Score(*line)
    percentile = float(summary.low[at]), float(summary.high[at])
    low, high = interval or percentile
    moments = float(summary.mean[at]), float(summary.se[at])
    return Score(*line, *moments, low, high, int(summary.n[at]), *percentile)


def fair_scores(
    table: ErrorTable, *, baseline: str = BASELINE, draws: Float[np.ndarray, "draw participant"] | None = None
) -> list[Score]:
    """Fair skill of each attribute and overall.

    Args:
        draws: multiplicity of each participant in each draw; without, only points.
    """
    attributes = {name: group for name, group in table.subgroups.items() if _occupied(group).sum() >= 2}
    if not attributes:
        return []
    fair = _FairSkill(table, attributes, baseline)

    def mean(errors: np.ndarray) -> np.ndarray:
        return bootstrap.weighted_means(_everyone(table), errors)

    exact = fair.log_ratios(mean)
    required = np.isfinite(exact[:, 0]).any(axis=-1)
    points = _with_overall(exact, required)[:, 0]
    counts = fair.bucket_counts(mean, required)
    summary, interval = None, None
    if draws is not None:
        drawn = _with_overall(
            fair.log_ratios(lambda e: _stored(bootstrap.weighted_means(draws, e))), required
        )
        stored = _with_overall(fair.log_ratios(lambda e: _stored(mean(e))), required)
        left_out = _with_overall(
            fair.log_ratios(lambda e: _stored(bootstrap.leave_one_out_means(e))), required
        )
        summary = bootstrap.summarise(np.moveaxis(drawn, 1, 0))
    found = []
    for m, method in enumerate(table.methods):
        people = np.isfinite(table.errors[m]).any(axis=0).sum()
        for a, scope in enumerate((*attributes, "overall")):
            if not np.isfinite(points[a, m]):
                continue
            if summary is not None:
                interval = intervals.bca(drawn[a, :, m], float(stored[a, 0, m]), left_out[a, :, m])
            line = (method, FAIR_SKILL, scope, counts[a, m], people, points[a, m], summary, (a, m), interval)
            found.append(_score_line(*line))
    return found


def _occupied(group: SubgroupErrors) -> np.ndarray:
    return np.isfinite(group.errors).any(axis=(1, 2, 3))


class _FairSkill:
    """Compares disparities of subgroup errors, however these were averaged over participants.

    Single binary channels are left out: their collapsed tasks stand for them.
    """

    def __init__(self, table: ErrorTable, attributes: dict[str, SubgroupErrors], baseline: str):
        kept = [t for t, task in enumerate(table.tasks) if task.bucket is not None]
        self._nesting = imputation_tasks.hierarchy([table.tasks[t] for t in kept])
        self._own = table.method_index(baseline)
        self._errors = [group.errors[_occupied(group)][:, :, kept] for group in attributes.values()]

    def log_ratios(self, average: Callable) -> Float[np.ndarray, "attribute draw method"]:
        """Bucket-balanced log ratio of the method's disparities over the baseline's.

        Args:
            average: errors of a subgroup `(method, task, participant)` to `(draw, method, task)`.
        """
        ratios = [self._task_log_ratios(errors, average) for errors in self._errors]
        return np.stack([self._nesting.bucket_balanced(ratio) for ratio in ratios])

    def _task_log_ratios(self, errors: np.ndarray, average: Callable) -> np.ndarray:
        averaged = np.stack([average(inside) for inside in errors])  # (group, draw, method, task)
        return fairness.log_disparity_ratios(averaged, averaged[:, :, self._own][:, :, None])

    def bucket_counts(self, average: Callable, required: np.ndarray) -> np.ndarray:
        """Buckets behind each attribute and method; last, their sum over the required attributes."""
        ratios = [self._task_log_ratios(errors, average) for errors in self._errors]
        counts = np.stack([self._nesting.bucket_counts(ratio)[0] for ratio in ratios])
        return np.concatenate([counts, counts[required].sum(axis=0)[None]])


def _with_overall(
    log_ratios: Float[np.ndarray, "attribute draw method"], required: np.ndarray
) -> Float[np.ndarray, "scope draw method"]:
    """Skill of each attribute and, last, their mean over the required ones."""
    skills = skill.from_log_ratio(log_ratios)
    return np.concatenate([skills, fairness.over_attributes(skills, required)[None]])
