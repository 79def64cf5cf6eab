"""One surgery from its table to windows (VitalBench): scaling, cold start, futures, imputation."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.segments import vital_imputation, vital_windows

METHODS = {"mean": "mean", "linear": "linear", "ffill": "ffill", "kNN": "knn"}


@harness.checks("vital_windowing")
def check(case: dict) -> None:
    columns = case["column_order_after_loading"]
    values = harness.numbers(
        [[row[case["csv_columns"].index(name)] for name in columns] for row in case["csv_rows"]]
    )
    context, label, horizon = case["seq_len"], case["label_len"], case["pred_len"]
    scaled = vital_windows.scale(values)
    harness.close(scaled, case["scaled"], rtol=1e-9, atol=1e-12, what="scaled")
    assert vital_windows.window_count(len(values), horizon) == case["n_windows"]
    for at, window in case["windows"].items():
        x, y = vital_windows.cut(scaled, np.array([int(at)]), context=context, horizon=horizon)
        harness.close(x[0], window["x"], rtol=1e-9, atol=1e-12, what=f"window {at}")
        whole = np.concatenate((x[0, context - label :], y[0]))
        harness.close(whole, window["y_label_plus_pred"], rtol=1e-9, atol=1e-12, what=f"future {at}")
    keep = (columns.index("Gender"),)
    for reference, expected in case["imputation_scaled"].items():
        filled = vital_imputation.impute(values, METHODS[reference], keep=keep)
        found = vital_windows.scale(filled)
        known = ~np.isnan(harness.numbers(expected))
        assert (np.isnan(filled) == ~known).all(), f"{reference}: gaps before the first value stay"
        harness.close(
            found[known],
            harness.numbers(expected)[known],
            rtol=1e-9,
            atol=1e-12,
            what=f"imputed by {reference}",
        )
        assert (found[~known] == 0).all()
