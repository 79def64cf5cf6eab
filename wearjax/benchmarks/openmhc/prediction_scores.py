"""Skill, rank, subgroup skill and fair skill of the prediction benchmark.

OpenMHC evaluation, prediction track: skill and fair skill are balanced over domains, by an arithmetic mean of
the domains' skills. All of them are of errors rounded to float32, as the benchmark stores them; only the
jackknife of the BCa interval is of unrounded ones. Reported centre of skill and rank: mean of the draws with a
percentile interval; of fair skill: the point with a BCa interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from wearjax.benchmarks.openmhc import prediction_errors
from wearjax.benchmarks.openmhc.imputation_scores import FAIR_SKILL, RANK, SKILL, Score
from wearjax.benchmarks.openmhc.prediction_errors import CohortErrors, TaskPredictions
from wearjax.scores import bootstrap, fairness, intervals, rank, skill
from wearjax.tasks import BASELINE, DOMAINS, Task

__all__ = [
    "FAIR_SKILL",
    "OVERALL",
    "RANK",
    "SKILL",
    "SUBGROUP_SKILL",
    "PredictionScore",
    "TaskPredictions",
    "score",
]
SUBGROUP_SKILL = "subgroup_skill"
OVERALL = "overall"


@dataclass(frozen=True)
class PredictionScore(Score):
    """One line of the score table; what differs from the imputation track:

    Attributes:
        metric: also `subgroup_skill`.
        scope: `overall`, a domain, `task:<domain>:<code>`; for fair skill `overall`, `age_group` or `sex`; for
            subgroup skill `<attribute>:<value>`.
        n_tasks: tasks of the scope in which the method has an error; of fair skill, tasks with a ratio of
            disparities, and of its overall scope, attributes.
        n_boot: all draws. n_defined: those in which the scope has a value, which the summary is of.
    """

    n_defined: int = 0


class Domains(NamedTuple):
    """The domains that given tasks are of, in the benchmark's order, and which task is of which."""

    names: tuple[str, ...]
    of_task: Bool[np.ndarray, "task domain"]

    def skills(self, log_ratio: Float[np.ndarray, "*outer task"]) -> Float[np.ndarray, "*outer scope"]:
        """Skill of every domain; last, their mean over the domains that have one."""
        return self._with_overall(skill.from_log_ratio(skill.group_mean(log_ratio, self.of_task)))

    def means(self, values: Float[np.ndarray, "*outer task"]) -> Float[np.ndarray, "*outer scope"]:
        """Mean over the tasks of every domain; last, the mean of these means."""
        return self._with_overall(skill.group_mean(values, self.of_task))

    def _with_overall(self, values: np.ndarray) -> np.ndarray:
        overall = skill.group_mean(values, np.ones((len(self.names), 1), bool))
        return np.concatenate([values, overall], axis=-1)


def domains_of(tasks: Sequence[Task]) -> Domains:
    """Domains without a task are left out."""
    present = {task.domain for task in tasks}
    others = sorted(present - set(DOMAINS))
    names = (*(d for d in DOMAINS if d in present), *others)
    return Domains(names, np.array([[task.domain == name for name in names] for task in tasks], bool))


def score(
    predictions: Sequence[TaskPredictions], *, baseline: str = BASELINE, n_boot: int = 1000, seed: int = 42
) -> list[PredictionScore]:
    """All scores of tasks as `prediction_errors.common` returns them.

    Scopes: `overall`, the domains, and `task:<domain>:<code>`; for fair skill the attributes and `overall`; for
    the skill inside subgroups `<attribute>:<value>`.

    Args:
        n_boot: bootstrap draws; 0 gives points without intervals.

    Raises:
        ConfigError: there is no task, or the baseline is not among the methods.
    """
    return score_errors(prediction_errors.compute(predictions, n_boot=n_boot, seed=seed), baseline=baseline)


def score_errors(errors: CohortErrors, *, baseline: str = BASELINE) -> list[PredictionScore]:
    """As `score`, from the errors."""
    scoring = _Scoring(errors, errors.method_index(baseline))
    return [*scoring.skills(), *scoring.ranks(), *scoring.subgroup_skills(), *scoring.fair_skills()]


@dataclass(frozen=True, eq=False)
class FairSkills:
    """Fair skill of every scope (attributes, then overall) and method.

    Attributes:
        n_parts: tasks with a ratio of disparities; of the overall scope, attributes.
        point, drawn: of errors rounded to float32.
        jackknife: of unrounded errors, with each participant left out.
    """

    scopes: tuple[str, ...]
    point: Float[np.ndarray, "scope method"]
    n_parts: np.ndarray
    drawn: Float[np.ndarray, "scope method draw"] | None
    jackknife: Float[np.ndarray, "scope method participant"] | None


def fair_skills(errors: CohortErrors, *, baseline: str = BASELINE) -> FairSkills | None:
    """None without an attribute that has two subgroups."""
    return _Fairness(errors, errors.method_index(baseline)).all()


class _Scoring:
    def __init__(self, errors: CohortErrors, own: int):
        self._errors, self._own, self._domains = errors, own, domains_of(errors.tasks)
        self._point = _stored(errors.point)[None]
        self._drawn = None if errors.drawn is None else errors.drawn.astype(np.float64)

    def skills(self) -> list[PredictionScore]:
        def finish(error: np.ndarray) -> np.ndarray:
            log_ratio = self._log_ratios(error[..., 0])
            return np.concatenate([self._domains.skills(log_ratio), skill.from_log_ratio(log_ratio)], axis=-1)

        return self._scope_scores(SKILL, finish)

    def ranks(self) -> list[PredictionScore]:
        def finish(error: np.ndarray) -> np.ndarray:
            ranks = np.moveaxis(rank.average_ranks(np.moveaxis(error[..., 0], 1, 0)), 0, 1)
            return np.concatenate([self._domains.means(ranks), ranks], axis=-1)

        return self._scope_scores(RANK, finish)

    def subgroup_skills(self) -> list[PredictionScore]:
        """Errors inside a subgroup against the baseline's error of everybody."""
        found = []
        for c, (attribute, value) in enumerate(self._errors.cells):
            if not c:
                continue

            def finish(error: np.ndarray, c=c) -> np.ndarray:
                log_ratio = skill.paired_log_ratios(error[..., c], error[:, self._own, None, :, 0])
                return self._domains.skills(log_ratio)[..., -1:]

            n_tasks = np.isfinite(self._errors.point[:, :, c]).sum(axis=1)[:, None]
            found += self._scores(SUBGROUP_SKILL, [f"{attribute}:{value}"], finish, n_tasks)
        return found

    def fair_skills(self) -> list[PredictionScore]:
        fair = _Fairness(self._errors, self._own).all()
        if fair is None:
            return []
        found = []
        for s, scope in enumerate(fair.scopes):
            for m, method in enumerate(self._errors.methods):
                point = float(fair.point[s, m])
                if not np.isfinite(point):
                    continue
                head = (method, FAIR_SKILL, scope, int(fair.n_parts[s, m]), self._most(m), point)
                if fair.drawn is None or fair.jackknife is None:
                    found.append(PredictionScore(*head))
                    continue
                interval = intervals.bca(fair.drawn[s, m], point, fair.jackknife[s, m])
                found.append(_with_draws(head, fair.drawn[s, m], interval))
        return found

    def _log_ratios(self, error: Float[np.ndarray, "draw method task"]) -> np.ndarray:
        ratio = skill.paired_log_ratios(error, error[:, self._own, None])
        # Against itself the baseline's ratio is one, also in a draw where its error is zero or undefined.
        ratio[:, self._own] = np.where(np.isfinite(self._errors.point[self._own, :, 0]), 0.0, np.nan)
        return ratio

    def _most(self, m: int) -> int:
        return int(self._errors.n_rows[np.isfinite(self._errors.point[m, :, 0])].max(initial=0))

    def _scope_scores(self, metric: str, finish: Callable) -> list[PredictionScore]:
        """Scores of domains, overall and tasks; their order is that of `Domains`, then of the tasks."""
        leaves = [f"task:{task.domain}:{task.code}" for task in self._errors.tasks]
        present = np.isfinite(self._errors.point[:, :, 0]).astype(int)
        in_domain = present @ self._domains.of_task
        counts = np.concatenate([in_domain, in_domain.sum(axis=1, keepdims=True), present], axis=1)
        return self._scores(metric, [*self._domains.names, OVERALL, *leaves], finish, counts)

    def _scores(
        self, metric: str, scopes: Sequence[str], finish: Callable, counts: np.ndarray
    ) -> list[PredictionScore]:
        points = finish(self._point)[0]
        drawn = None if self._drawn is None else finish(self._drawn)
        found = []
        for m, method in enumerate(self._errors.methods):
            for s in _overall_first(scopes):
                if not np.isfinite(points[m, s]):
                    continue
                n_people = self._people(m, scopes[s])
                head = (method, metric, scopes[s], int(counts[m, s]), n_people, float(points[m, s]))
                found.append(PredictionScore(*head) if drawn is None else _with_draws(head, drawn[:, m, s]))
        return found

    def _people(self, m: int, scope: str) -> int:
        """Participants of a task; of any other scope, the most of any of its tasks."""
        sizes = [
            n
            for task, n in zip(self._errors.tasks, self._errors.n_rows, strict=True)
            if scope in (task.domain, f"task:{task.domain}:{task.code}")
        ]
        return int(max(sizes)) if sizes else self._most(m)


def _overall_first(scopes: Sequence[str]) -> list[int]:
    return sorted(range(len(scopes)), key=lambda s: scopes[s] != OVERALL)


def _with_draws(
    head: tuple[str, str, str, int, int, float],
    draws: Float[np.ndarray, " draw"],
    interval: tuple[float, float] | None = None,
) -> PredictionScore:
    """The score with the summary of its draws; the percentile interval unless another is given."""
    found = bootstrap.summarise(draws)
    n = int(found.n)
    se = float(found.se) if n > 1 else float("nan")  # this track's rule for a single draw
    low, high = interval or (float(found.low), float(found.high))
    return PredictionScore(
        *head,
        mean=float(found.mean),
        se=se,
        ci_lo=low,
        ci_hi=high,
        n_boot=len(draws),
        percentile_lo=float(found.low),
        percentile_hi=float(found.high),
        n_defined=n,
    )


def _stored(errors: np.ndarray) -> np.ndarray:
    """What the benchmark stores: float32."""
    return errors.astype(np.float32).astype(np.float64)


class _Fairness:
    """Compares how unequal the errors of subgroups are, of each method and of the baseline."""

    def __init__(self, errors: CohortErrors, own: int):
        self._errors, self._own, self._domains = errors, own, domains_of(errors.tasks)
        names = dict.fromkeys(attribute for attribute, _ in errors.cells[1:])
        self._cells = {a: errors.cells_of(a) for a in names if len(errors.cells_of(a)) >= 2}
        self._row = {a: i for i, a in enumerate(names)}

    def all(self) -> FairSkills | None:
        if not self._cells:
            return None
        point, n_tasks = self._of_errors(_stored(self._errors.point)[None])
        drawn = None
        if self._errors.drawn is not None:
            drawn = np.moveaxis(self._of_errors(self._errors.drawn.astype(np.float64))[0], 1, -1)
        n_parts = np.concatenate([n_tasks[:, 0], np.isfinite(point[:-1, 0]).sum(axis=0)[None]])
        jackknife = self._jackknife() if self._errors.left_out else None
        return FairSkills((*self._cells, OVERALL), point[:, 0], n_parts, drawn, jackknife)

    def _of_errors(self, error: Float[np.ndarray, "draw method task cell"]) -> tuple[np.ndarray, np.ndarray]:
        """Fair skills `(scope, draw, method)`, and how many tasks have a ratio."""
        ratios = np.stack([self._log_ratios(error[..., cells]) for cells in self._cells.values()])
        return self._skills(ratios), np.isfinite(ratios).sum(axis=-1)

    def _log_ratios(self, error: Float[np.ndarray, "draw method task group"]) -> np.ndarray:
        inside = np.moveaxis(error, -1, 0)
        return fairness.log_disparity_ratios(inside, inside[:, :, self._own, None])

    def _skills(self, log_ratio: Float[np.ndarray, "attribute draw method task"]) -> np.ndarray:
        """Of every attribute, and last the mean over those that have a value."""
        skills = self._domains.skills(log_ratio)[..., -1]
        overall = skill.group_mean(np.moveaxis(skills, 0, -1), np.ones((len(skills), 1), bool))
        return np.concatenate([skills, np.moveaxis(overall, -1, 0)])

    def _jackknife(self) -> Float[np.ndarray, "scope method participant"]:
        """Fair skills with each participant left out of every task; only their own subgroups change."""
        point = self._errors.point
        n_users = len(self._errors.users)
        ratios = []
        for attribute, cells in self._cells.items():
            everybody = self._log_ratios(point[None, :, :, cells])  # (1, method, task)
            ratio = np.repeat(everybody, n_users, axis=0)
            for t, left_out in enumerate(self._errors.left_out):
                cell = left_out.cell[self._row[attribute]]
                own = left_out.errors[self._row[attribute]].T[:, :, None]  # (participant, method, 1)
                changed = np.where((cell[:, None] == cells)[:, None], own, point[:, t, cells])
                ratio[left_out.users, :, t] = self._log_ratios(changed[:, :, None])[..., 0]
            ratios.append(ratio)
        return np.moveaxis(self._skills(np.stack(ratios)), 1, -1)
