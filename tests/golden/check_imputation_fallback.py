"""Training statistics of the evaluation, and substitution of predictions that are not finite."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.predict.imputers import fallback


@harness.checks("imputation_fallback")
def check(case: dict) -> None:
    expected = case["expected"]
    statistics = fallback.fit([harness.numbers(case["train"], np.float32)])
    harness.close(statistics.stds, expected["channel_stds"], what="stds")
    harness.close(statistics.fill, expected["fallback_fill"], what="fill")
    target = np.array(case["target_mask"]).astype(bool)
    imputed = harness.numbers(case["imputed"], np.float32)
    result = fallback.substitute(imputed, target, statistics.fill)
    assert result.substituted.tolist() == expected["substituted"]
    assert result.asked.tolist() == expected["asked"]
    harness.close(result.values[target], expected["repaired_at_targets"], what="repaired")
    np.testing.assert_array_equal(result.values[~target], imputed[~target])
    harness.close(fallback.overall_rate(result.substituted, result.asked), expected["overall_fallback_rate"])
