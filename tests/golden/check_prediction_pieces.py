"""Golden cases of small prediction rules: metric of a run, age groups, file names, covariates; inputs apart."""

from __future__ import annotations

import harness
import prediction_pieces_inputs  # noqa: F401  registers the checks of features, fallback and probe

from wearjax import tasks
from wearjax.benchmarks.openmhc import prediction_metrics
from wearjax.scores import fairness

FAMILY = "prediction_pieces"


@harness.checks(FAMILY, op="primary_metric")
def check_metric(case: dict) -> None:
    kind = case["task_type"]
    columns = prediction_metrics.output_columns(harness.numbers(case["y_pred_raw"]), kind)
    scores = prediction_metrics.scored_column(kind, *columns)
    truth = harness.numbers(case["y_true"])
    [found] = prediction_metrics.primary_metrics(kind, truth, scores[None], seed=case["bootstrap_seed"])
    actual = {found.name: found.value, f"{found.name}_se": found.se}
    for name, value in case["expected"].items():
        harness.close(actual[name], value, what=name)


@harness.checks(FAMILY, op="age_group")
def check_age_groups(case: dict) -> None:
    groups = [fairness.age_group(age, minors_in_first=True) for age in case["values"]]
    assert groups == case["expected"]


@harness.checks(FAMILY, op="safe_task_dir")
def check_file_names(case: dict) -> None:
    assert [tasks.file_name(code) for code in case["values"]] == case["expected"]


@harness.checks(FAMILY)
def check_covariates(case: dict) -> None:
    """Which covariates a task keeps; no published case says how this op is spelled."""
    if "covariate" not in case["op"]:
        raise LookupError(f"no checker for op {case['op']!r} of {FAMILY}")
    if "values" in case:
        kept = [list(tasks.kept_covariates(code)) for code in case["values"]]
        assert kept == [list(expected) for expected in case["expected"]]
    else:
        kept = list(tasks.kept_covariates(case["task"]))
        assert kept == list(case["expected"])
