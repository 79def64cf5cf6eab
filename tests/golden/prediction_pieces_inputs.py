"""Golden cases of the prediction track's inputs: fallback, Linear features, series window, linear probe."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.benchmarks.openmhc import prediction_cohort
from wearjax.predict import inputs, probes
from wearjax.predict.predictors import linear


@harness.checks("prediction_pieces", op="linear_fallback_merge")
def check_fallback(case: dict) -> None:
    merged = prediction_cohort.substitute(
        harness.numbers(case["y_pred"]), harness.numbers(case["linear_pred"]), case["task_type"]
    )
    harness.close(merged.values, case["expected"])
    assert merged.n_substituted == case["n_substituted"]


@harness.checks("prediction_pieces", op="linear_pool_mean_std")
def check_linear_features(case: dict) -> None:
    pooled = linear.pool_mean_std(harness.numbers(case["values_n_T_19"], np.float32))
    harness.close(pooled, case["expected_38"])
    harness.close(np.where(np.isfinite(pooled), pooled, 0), case["expected_38_after_fill"])


@harness.checks("prediction_pieces", op="series_window")
def check_series_window(case: dict) -> None:
    out = inputs.series_window(
        harness.numbers(case["values"], np.float32), case["dates"], length=case["window_hours"]
    )
    harness.close(out, case["expected"])


@harness.checks("prediction_pieces", op="linear_probe")
def check_linear_probe(case: dict) -> None:
    probe = probes.LinearProbe(case["task_type"], n_components=case["n_components"])
    probe.fit(harness.numbers(case["X_train"]), harness.numbers(case["y_train"]))
    found = probe.predict(harness.numbers(case["X_test"]))
    harness.close(found, case["expected"], rtol=case["rtol"])
