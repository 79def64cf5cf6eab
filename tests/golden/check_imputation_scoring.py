"""Golden cases of the whole imputation scoring: pairs to errors, ratios, skill, rank, fairness, bootstrap."""

from __future__ import annotations

import check_imputation_aggregation as aggregation
import harness
import numpy as np

from wearjax.benchmarks.openmhc import imputation_errors, imputation_scores, imputation_tasks
from wearjax.channels import N_CHANNELS
from wearjax.scores import bootstrap, fairness
from wearjax.scores.errors import ErrorTable
from wearjax.scores.skill import BINARY_FLOOR

DRAWN = {"rtol": 1e-5, "atol": 1e-6}  # draws went through float32
ATTRIBUTES = {
    "age_group": (*fairness.age_labels(), fairness.UNKNOWN),
    "sex": (*fairness.SEXES, fairness.UNKNOWN),
}


def dense_pairs(pairs: list[dict], n_days: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, prediction and target of days in which the j-th pair of a channel lies at minute j."""
    longest = max(len(p["sample_idx"]) for p in pairs)
    truth, predicted = np.full((2, n_days, N_CHANNELS, longest), np.nan, np.float32)
    target = np.zeros(truth.shape, bool)
    for p in pairs:
        at = (np.array(p["sample_idx"]), p["channel"], np.arange(len(p["sample_idx"])))
        truth[at] = harness.numbers(p["gt"])
        predicted[at] = harness.numbers(p["pred"])
        target[at] = True
    return truth, predicted, target


def collect(case: dict) -> imputation_errors.ErrorCollector:
    """Errors of all methods and scenarios; a participant's days are brought together."""
    owners = case["sample_user_ids"]
    people = list(dict.fromkeys(owners))
    person = np.array([people.index(p) for p in owners])
    order = np.argsort(person, kind="stable")
    codes = {
        name: np.array([values.index(case["demographics"][p][name]) for p in owners])[order]
        for name, values in ATTRIBUTES.items()
    }
    collector = imputation_errors.ErrorCollector(
        case["methods"], case["scenarios"], people, attributes=ATTRIBUTES
    )
    for method, scenarios in case["pairs"].items():
        for scenario, pairs in scenarios.items():
            truth, predicted, target = (part[order] for part in dense_pairs(pairs, len(owners)))
            days = imputation_errors.HiddenCells(truth, target).pairs(predicted)
            collector.add(method, scenario, days, participant=person[order], subgroups=codes)
    return collector


def error_rows(table) -> dict[tuple, tuple]:
    m, t, p = np.nonzero(np.isfinite(table.errors))
    keys = [
        (table.methods[i], *table.tasks[j], table.participants[k]) for i, j, k in zip(m, t, p, strict=True)
    ]
    return {key: (value,) for key, value in zip(keys, table.errors[m, t, p], strict=True)}


def check_display(collector, case: dict) -> None:
    stds = np.full(N_CHANNELS, case["channel_stds"])
    for method, scenarios in case["expected"]["display_metrics"].items():
        for scenario, expected in scenarios.items():
            check_nested(collector.display_metrics(method, scenario, stds), expected, f"{method} {scenario}")


def check_nested(actual, expected, what: str) -> None:
    if isinstance(expected, dict):
        assert set(expected) <= set(actual), f"{what}: missing {set(expected) - set(actual)}"
        for key, value in expected.items():
            check_nested(actual[key], value, f"{what} {key}")
    elif isinstance(expected, str):
        assert actual == expected, what
    else:
        harness.close(actual, expected, what=what)


def check_draws(scores: list, case: dict, table) -> None:
    expected = case["expected"]["bootstrap"]
    assert list(table.participants) == expected["user_order"]
    assert bootstrap.derived_seed(expected["seed"], case["split"]) == expected["split_seed"]
    matrix = bootstrap.resample_matrix(expected["split_seed"], len(table.participants), expected["n_boot"])
    assert matrix[: len(expected["index_matrix_first_rows"])].tolist() == expected["index_matrix_first_rows"]
    summary = ("n_tasks", "mean", "se", "ci_lo", "ci_hi", "n_boot")
    scopes = [s for s in scores if not s.scope.startswith("task:")]
    for metric in ("skill", "rank"):
        rows = aggregation.score_rows(scopes, metric, *summary)
        aggregation.compare(rows, expected[metric], 2, *summary, **DRAWN)
    check_fair_draws(scores, expected["fairness"])


def floored_by_channel(table: ErrorTable) -> ErrorTable:
    """The pair-based variant of the table: collapsed errors are means of floored channel errors."""
    errors = table.errors.copy()
    for t, task in enumerate(table.tasks):
        if task.channel_type == "binary_collapsed":
            names = {f"ch_{c}" for c in imputation_tasks.COLLAPSED[task.bucket]}
            members = [
                i for i, o in enumerate(table.tasks) if o.scenario == task.scenario and o.channel in names
            ]
            errors[:, t] = np.nanmean(np.maximum(table.errors[:, members], BINARY_FLOOR), axis=1)
    return ErrorTable(table.methods, table.tasks, table.participants, errors)


def check_pair_variant(table: ErrorTable, options: dict, spec: dict) -> None:
    scores = imputation_scores.score(floored_by_channel(table), **options)
    scopes = [s for s in scores if not s.scope.startswith("task:")]
    rows = aggregation.score_rows(scopes, "skill", "mean", "ci_lo", "ci_hi")
    aggregation.compare(rows, spec, 2, "mean", "ci_lo", "ci_hi", **DRAWN)


def check_fair_draws(scores: list, spec: dict) -> None:
    summary = ("n_tasks", "mean", "se", "n_boot", "point")
    own = aggregation.score_rows(
        scores, "fair_skill", *summary, "ci_lo", "ci_hi", "percentile_lo", "percentile_hi"
    )
    aggregation.compare(own, spec, 2, *summary, "bca_lo", "bca_hi", "ci_lo", "ci_hi", **DRAWN)


@harness.checks("imputation_scoring")
def check(case: dict) -> None:
    collector = collect(case)
    table = collector.table()
    expected = case["expected"]
    aggregation.compare(error_rows(table), expected["per_user_errors_all"], 5, "E")
    rows = np.isfinite(table.errors).sum() + sum(
        np.isfinite(g.errors).sum() for g in table.subgroups.values()
    )
    assert rows == expected["n_rows_with_subgroups"]
    drawn = expected["bootstrap"]
    options = {
        "baseline": case["baseline"],
        "split": case["split"],
        "n_boot": drawn["n_boot"],
        "seed": drawn["seed"],
    }
    scores = imputation_scores.score(table, **options)
    aggregation.check_points(table, scores, case["baseline"], expected)
    fair = aggregation.score_rows(scores, "fair_skill", "point", "n_tasks")
    aggregation.compare(fair, expected["fair_skill_point"], 2, "fair_skill_score", "n_tasks")
    check_display(collector, case)
    check_draws(scores, case, table)
    check_pair_variant(table, options, drawn["skill_from_pairs"])
