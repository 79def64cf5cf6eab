"""Seasonal naive: point and quantiles, of one history and of several at once."""

from __future__ import annotations

import harness
import numpy as np

from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive


@harness.checks("seasonal_naive")
def check(case: dict) -> None:
    history = harness.numbers(case["history"])
    method = SeasonalNaive(quantile_levels=case["quantile_levels"])
    point, quantiles = method.predict(history, case["horizon"])
    harness.close(point, case["expected_point"], what="point")
    wanted = np.array(case["expected_quantiles"])
    harness.close(quantiles[:, : wanted.shape[1]], wanted, what="quantiles")
    # The same among other beginnings of the record, which share their sorting.
    shorter = [
        history[:, : history.shape[1] - 24 * k] for k in range(1, 4) if history.shape[1] > 24 * (k + 1)
    ]
    points, together = method.predict_batch([*shorter, history], case["horizon"])
    np.testing.assert_array_equal(points[-1], point)
    np.testing.assert_array_equal(together[-1], quantiles)
