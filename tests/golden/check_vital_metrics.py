"""Errors of one surgery (VitalBench): metrics and both reductions of the masked loss."""

from __future__ import annotations

import harness
import jax
import numpy as np

from wearjax.objectives import vital_forecast
from wearjax.scores import vital

NAMES = {"MAE": "MAE", "RMSE": "RMSE", "MAPE": "MAPE", "R2": "R2", "CC": "CC"}
LOSSES = {"observed": "masked_mse_mean_over_observed", "all": "masked_mse_mean_over_all_elements"}


@harness.checks("vital_metrics")
def check(case: dict) -> None:
    target, prediction, expected = (
        harness.numbers(case["true"]),
        harness.numbers(case["pred"]),
        case["expected"],
    )
    found = vital.case_metrics(prediction, target)
    for name, reference in NAMES.items():
        harness.close(found[name], expected[reference], rtol=1e-9, atol=0, what=name)
    assert np.count_nonzero(target) == expected["n_observed"]
    with jax.enable_x64(True):
        for reduction, reference in LOSSES.items():
            loss = vital_forecast.masked_mse(prediction, target, target != 0, reduction=reduction)
            harness.close(float(loss), expected[reference], rtol=1e-9, atol=0, what=reference)
    compare_sorted_form(prediction, target)


def compare_sorted_form(prediction: np.ndarray, target: np.ndarray) -> None:
    """The rank correlation of float32 arrays takes another path; these values stay distinct in float32."""
    narrow = vital.case_metrics(prediction.astype(np.float32), target.astype(np.float32))
    harness.close(
        narrow["CC"], vital.case_metrics(prediction, target)["CC"], rtol=1e-9, atol=0, what="CC in float32"
    )
