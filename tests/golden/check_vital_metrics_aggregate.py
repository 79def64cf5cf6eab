"""Averages over surgeries (VitalBench): mean and population standard deviation, NaN ignored."""

from __future__ import annotations

import harness

from wearjax.scores import vital


@harness.checks("vital_metrics_aggregate")
def check(case: dict) -> None:
    cases = [harness.sibling(case, name) for name in case["cases"]]
    averages = vital.aggregate(
        [vital.case_metrics(harness.numbers(each["pred"]), harness.numbers(each["true"])) for each in cases]
    )
    for name, expected in case["expected"].items():
        found = averages[name]
        harness.close(
            [found.mean, found.std], [expected["mean"], expected["std"]], rtol=1e-9, atol=0, what=name
        )
        assert found.n == len(cases)
