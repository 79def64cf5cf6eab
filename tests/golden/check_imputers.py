"""The nine statistical imputers: fitted statistics, and the values they write at the target cells."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.predict.imputers import personalized, statistical
from wearjax.predict.protocols import call_impute

UNKNOWN_SAMPLE = "__unknown_sample_index"
NO_METADATA = "__no_metadata"


@harness.checks("imputers")
def check(case: dict) -> None:
    batches = [harness.numbers(batch, np.float32) for batch in case["train_batches"]]
    train = statistical.fit(lambda: batches, minutes_per_day=case["minutes_per_day"])
    for name, expected in case.get("fitted", {}).items():
        harness.close(getattr(train, name), expected, what=name)
    truth = harness.numbers(case["uncorrupted"], np.float32)
    target = np.array(case["target_mask"]).astype(bool)
    observed = np.isfinite(truth)
    corrupted = np.where(target, np.float32(np.nan), truth)
    evaluated = personalized.EvaluatedDays(truth.__getitem__, case["user_ids"])
    for name, expected in case["expected_at_targets"].items():
        method, metadata = method_and_metadata(name, train, evaluated, case)
        out = call_impute(method, corrupted, observed, target, **metadata)
        harness.close(out[target], expected, what=name)
        np.testing.assert_array_equal(out[~target], corrupted[~target], err_msg=name)


def method_and_metadata(name: str, train, evaluated, case: dict) -> tuple[object, dict]:
    base = name.split("__")[0]
    if base in statistical.NAMES:
        return statistical.imputer(base, train), {}
    samples = np.array(case["sample_indices"])
    metadata = {"sample_indices": samples, "user_ids": case["user_ids"]}
    if name.endswith(NO_METADATA):
        metadata = {}
    elif name.endswith(UNKNOWN_SAMPLE):
        metadata["sample_indices"] = samples + len(evaluated)
    elif name != base:
        raise LookupError(f"imputer variant {name!r} is unknown")
    return personalized.imputer(base, train, evaluated), metadata
