"""Golden cases of ratios, skill and rank from per-participant errors."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.benchmarks.openmhc import imputation_scores
from wearjax.benchmarks.openmhc.imputation_tasks import Task
from wearjax.scores.errors import ErrorTable


def error_table(rows: dict[str, list]) -> ErrorTable:
    """The dense table of a long one; order of first appearance."""
    methods = tuple(dict.fromkeys(rows["method"]))
    triples = zip(rows["scenario"], rows["channel"], rows["channel_type"], strict=True)
    of_row = [Task(*triple) for triple in triples]
    tasks = tuple(dict.fromkeys(of_row))
    people = tuple(dict.fromkeys(rows["user_id"]))
    errors = np.full((len(methods), len(tasks), len(people)), np.nan)
    for method, task, person, error in zip(rows["method"], of_row, rows["user_id"], rows["E"], strict=True):
        errors[methods.index(method), tasks.index(task), people.index(person)] = harness.numbers(error)
    return ErrorTable(methods, tasks, people, errors)


def ratio_rows(table: ErrorTable, baseline: str) -> dict[tuple, tuple]:
    """Ratio and participants of every (method, scenario, channel, type) but the baseline's."""
    ratios, people = imputation_scores.paired_ratios(table, baseline=baseline)
    return {
        (method, *task): (ratios[m, t], people[m, t])
        for m, method in enumerate(table.methods)
        for t, task in enumerate(table.tasks)
        if method != baseline and np.isfinite(ratios[m, t])
    }


def score_rows(scores: list, metric: str, *fields: str, without: str | None = None) -> dict[tuple, tuple]:
    """The wanted fields of the scores of a metric, by (method, scope)."""
    return {
        (s.method, s.scope): tuple(getattr(s, field) for field in fields)
        for s in scores
        if s.metric == metric and s.method != without
    }


def compare(actual: dict[tuple, tuple], spec: dict, keys: int, *fields: str, **tolerance) -> None:
    """The same rows, and close numbers in the named columns."""
    columns = harness.table(spec)
    names = list(zip(*[columns[name] for name in spec["columns"][:keys]], strict=True))
    assert set(actual) == set(names), f"rows differ: {set(actual) ^ set(names)}"
    for i, name in enumerate(names):
        harness.close(actual[name], [columns[f][i] for f in fields], what=str(name), **tolerance)


def check_points(table: ErrorTable, scores: list, baseline: str, expected: dict) -> None:
    """Ratios, skill and rank of the full sample."""
    compare(ratio_rows(table, baseline), expected["paired_ratio"], 4, "R", "n_users")
    skill = score_rows(scores, "skill", "point", "n_tasks", without=baseline)
    compare(skill, expected["skill"], 2, "skill_score", "n_tasks")
    rank = score_rows(scores, "rank", "point", "n_tasks", "n_participants")
    compare(rank, expected["rank"], 2, "avg_rank", "n_tasks", "n_users")


@harness.checks("imputation_aggregation")
def check(case: dict) -> None:
    table = error_table(harness.table(case["input"]))
    scores = imputation_scores.score(table, baseline=case["baseline"], n_boot=0)
    check_points(table, scores, case["baseline"], case["expected"])
