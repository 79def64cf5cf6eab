"""Golden cases of the percentile and BCa intervals of one statistic."""

from __future__ import annotations

import harness

from wearjax.scores import bootstrap, intervals


@harness.checks("bootstrap_intervals")
def check(case: dict) -> None:
    draws = harness.numbers(case["draws"])
    point = float(harness.numbers(case["point"]))
    jackknife = harness.numbers(case["jackknife"])
    level = case["ci_level"]
    expected = case["expected"]
    summary = bootstrap.summarise(draws, level=level)
    harness.close(intervals.bca(draws, point, jackknife, level=level), expected["bca"], what="bca")
    harness.close(intervals.acceleration(jackknife), expected["acceleration"], what="acceleration")
    harness.close(intervals.percentile(draws, level=level), expected["percentile_ci"], what="percentile")
    harness.close([summary.low, summary.high], expected["percentile_ci"], what="summary interval")
    harness.close([summary.mean, summary.se], [expected["mean"], expected["se"]], what="moments")
    assert summary.n == expected["n"]
