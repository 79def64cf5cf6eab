"""Masking scenarios on single days: the bits must be those of the reference."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.days import clean
from wearjax.segments import masks


@harness.checks("masks")
def check(case: dict) -> None:
    values = harness.run_length_day(case["raw_day"])
    if case.get("zero_to_nan"):
        values = clean.zero_to_nan(values)
    observed = ~np.isnan(values)
    if "observed_per_channel" in case:
        assert observed.sum(axis=1).tolist() == case["observed_per_channel"]
    for scenario, expected in case["expected"].items():
        rng = np.random.default_rng(case["seed"])
        params = case.get("params", {}).get(scenario, {})
        mask, applicable = masks.make_mask(scenario, values, observed, rng, **params)
        compare(scenario, mask, applicable, expected)


def compare(scenario: str, mask: np.ndarray, applicable: bool, expected: dict) -> None:
    assert applicable == expected["applicable"], scenario
    assert int(mask.sum()) == expected["n_masked"], scenario
    assert mask.sum(axis=1).tolist() == expected["per_channel"], scenario
    # The list of runs may be cut short in the file; the hash covers every cell.
    assert harness.mask_runs(mask)[: len(expected["runs"])] == expected["runs"], scenario
    assert harness.packbits_sha256(mask) == expected["sha256_packbits"], scenario
