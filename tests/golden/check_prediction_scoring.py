"""Golden cases of the prediction scoring: pairs to errors, skill, rank, bootstrap, fairness with BCa."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.benchmarks.openmhc import prediction_errors, prediction_scores
from wearjax.benchmarks.openmhc.prediction_scores import TaskPredictions
from wearjax.scores import fairness
from wearjax.tasks import Task

DRAWN = {"rtol": 1e-5, "atol": 1e-6}  # errors of draws went through float32
SUMMARY = ("mean", "se", "ci_lo", "ci_hi", "n_boot")


def task_predictions(case: dict, code: str) -> TaskPredictions:
    """One task of all methods, over all participants that any of them has; NaN where one has none."""
    of_method = {method: tasks[code] for method, tasks in case["predictions"].items() if code in tasks}
    people = tuple(sorted({uid for answers in of_method.values() for uid in answers["uids"]}))
    columns: dict[str, dict[str, np.ndarray]] = {"y_true": {}, "y_pred": {}, "y_proba": {}}
    for method, answers in of_method.items():
        at = [people.index(uid) for uid in answers["uids"]]
        for name, found in columns.items():
            found[method] = np.full(len(people), np.nan)
            found[method][at] = harness.numbers(answers[name])
    kind = next(iter(of_method.values()))["task_type"]
    unknown = {"age_group": fairness.UNKNOWN, "sex": fairness.UNKNOWN}
    groups = [case["demographics"].get(p, unknown) for p in people]
    return TaskPredictions(
        task=Task(code, code, kind, case["domains"][code]),
        users=people,
        y_true=np.nanmax(list(columns["y_true"].values()), axis=0),
        y_pred=columns["y_pred"],
        y_proba=columns["y_proba"],
        subgroups={name: tuple(group[name] for group in groups) for name in unknown},
    )


def predictions_of(case: dict) -> tuple[TaskPredictions, ...]:
    codes = dict.fromkeys(code for tasks in case["predictions"].values() for code in tasks)
    return prediction_errors.common([task_predictions(case, code) for code in codes])[0]


def error_rows(errors: prediction_errors.CohortErrors) -> dict[tuple, tuple]:
    rows = np.argwhere(np.isfinite(errors.point))
    return {
        (errors.methods[m], errors.tasks[t].code, *errors.cells[c]): (errors.point[m, t, c],)
        for m, t, c in rows
    }


def compare(actual: dict[tuple, tuple], spec: dict, keys: int, *fields: str, **tolerance) -> None:
    """The same rows, and close numbers in the named columns."""
    columns = harness.table(spec)
    names = list(zip(*[columns[name] for name in spec["columns"][:keys]], strict=True))
    assert set(actual) == set(names), f"rows differ: {set(actual) ^ set(names)}"
    for i, name in enumerate(names):
        harness.close(actual[name], [columns[f][i] for f in fields], what=str(name), **tolerance)


def score_rows(scores: list, metric: str, *fields: str) -> dict[tuple, tuple]:
    """Fields of the scores of a metric by method and scope, tasks aside; the benchmark writes `Overall`."""
    named = {"overall": "Overall"} if metric != prediction_scores.FAIR_SKILL else {}
    return {
        (s.method, *named.get(s.scope, s.scope).split(":")): tuple(getattr(s, f) for f in fields)
        for s in scores
        if s.metric == metric and not s.scope.startswith("task:")
    }


def check_draw_order(predictions: tuple[TaskPredictions, ...], drawn: dict) -> None:
    generator = np.random.default_rng(drawn["seed"])
    for found in predictions:
        n = len(found.users)
        rows = generator.integers(0, n, size=(drawn["n_boot"], n))
        assert rows[0].tolist() == drawn["first_row_indices_per_task"][found.task.code]


def check_fairness(scores: list, case: dict) -> None:
    """Point, percentile and BCa interval; the reference's jackknife knows its own point, unrounded."""
    expected = case["expected"]["fairness"]
    fields = ("point", "se", "percentile_lo", "percentile_hi", "ci_lo", "ci_hi")
    columns = ("point", "se", "ci_lo", "ci_hi", "bca_lo", "bca_hi")
    own = score_rows(scores, prediction_scores.FAIR_SKILL, *fields)
    compare(own, expected, 2, *columns, **DRAWN)
    for key, value in case["expected"]["jackknife_point"].items():
        harness.close(own[tuple(key.split("|"))][0], value, what=key, **DRAWN)


@harness.checks("prediction_scoring")
def check(case: dict) -> None:
    expected, drawn = case["expected"], case["expected"]["bootstrap"]
    predictions = predictions_of(case)
    errors = prediction_errors.compute(predictions, n_boot=drawn["n_boot"], seed=drawn["seed"])
    compare(error_rows(errors), expected["point_errors"], 4, "E")
    check_draw_order(predictions, drawn)
    scores = prediction_scores.score_errors(errors, baseline=case["baseline"])
    skill = score_rows(scores, "skill", "point", *SUMMARY, "n_tasks")
    compare(skill, expected["skill"], 2, "point", *SUMMARY, "n_tasks", **DRAWN)
    ranks = score_rows(scores, "rank", "point", *SUMMARY)
    compare(ranks, expected["rank"], 2, "point", *SUMMARY, **DRAWN)
    inside = score_rows(scores, prediction_scores.SUBGROUP_SKILL, "point", *SUMMARY)
    compare(inside, expected["subgroup_skill"], 3, "point", *SUMMARY, **DRAWN)
    check_fairness(scores, case)
