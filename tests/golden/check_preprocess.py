"""Cleaning, day filters, hourly form and prior-blended normalization of a day."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.days import clean, hourly, normalization


@harness.checks("preprocess", op="zero_to_nan")
def check_zero_to_nan(case: dict) -> None:
    values = harness.run_length_day(case["input"])
    out = clean.zero_to_nan(values)
    missing = np.isnan(out)
    assert harness.mask_runs(missing) == case["expected_nan_runs"]
    if "n_nan_per_channel" in case:
        assert missing.sum(axis=1).tolist() == case["n_nan_per_channel"]
    if case.get("finite_values_unchanged"):
        np.testing.assert_array_equal(out[~missing], values[~missing])


@harness.checks("preprocess", op="wear_time_filter")
def check_wear_time(case: dict) -> None:
    minutes = harness.numbers(case["total_nonwear_minutes"])
    assert clean.enough_wear(minutes, case["min_wear_fraction"]).tolist() == case["expected_keep"]


@harness.checks("preprocess", op="low_variance_filter")
def check_low_variance(case: dict) -> None:
    thresholds = {int(channel): limit for channel, limit in case["thresholds"].items()}
    # Rows may be of different lengths: absent entries never drop a day.
    kept = [bool(clean.enough_variance(harness.numbers(row), thresholds)) for row in case["channel_variance"]]
    assert kept == case["expected_keep"]


@harness.checks("preprocess", op="hybrid_normalize")
def check_hybrid_normalize(case: dict) -> None:
    out = normalization.hybrid_normalize(
        harness.numbers(case["input"], np.float32),
        mean_prior=case["mean_prior"],
        std_prior=case["std_prior"],
        prior_count=case["prior_count"],
        epsilon=case["epsilon"],
    )
    harness.close(out, case["expected"])


@harness.checks("preprocess", op="hourly_aggregate")
def check_hourly_aggregate(case: dict) -> None:
    values = clean.zero_to_nan(harness.run_length_day(case["input"]))
    # The expected values are float64; ours are stored as float32.
    harness.close(hourly.aggregate(values), case["expected"], rtol=1e-5)
