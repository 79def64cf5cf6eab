"""Seasonal naive against its rules written out, one history at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.predict.forecasters.seasonal_naive import LEVELS, SeasonalNaive

NAN = np.float32(np.nan)


def slowly(history: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    n_channels, length = history.shape
    season = min(24, length)
    point = np.zeros((n_channels, horizon))
    quantiles = np.zeros((n_channels, horizon, len(LEVELS)))
    for c in range(n_channels):
        known = history[c][np.isfinite(history[c])].astype(np.float64)
        for k in range(horizon):
            at = [length - j * season + k % season for j in range(1, length // season + 1)] if season else []
            seen = [history[c, i] for i in at]
            near = [v for v in seen[:7] if np.isfinite(v)]
            point[c, k] = near[0] if near else known.mean() if len(known) else 0.0
            finite = [v for v in seen if np.isfinite(v)]
            quantiles[c, k] = np.quantile(np.array(finite, np.float64), LEVELS) if finite else point[c, k]
    return point, quantiles


def record(seed: int, n_hours: int) -> np.ndarray:
    """Counts, flags, a constant, zeros only, and nothing; gaps of hours and of whole weeks."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 9, (6, n_hours)).astype(np.float32)
    values[1] = rng.random(n_hours) < 0.3
    values[2], values[3] = 4.5, 0.0
    values[:, rng.random(n_hours) < 0.3] = NAN
    if n_hours > 300:
        values[0, 100:290] = NAN
    values[4] = NAN
    values[5, ::24] = NAN
    return values


@settings(max_examples=12)
@given(st.integers(0, 2**31), st.integers(0, 400), st.sampled_from([5, 24, 48]))
def test_the_rules(seed, n_hours, horizon):
    history = record(seed, n_hours)
    point, quantiles = SeasonalNaive().predict(history, horizon)
    assert point.dtype == quantiles.dtype == np.float32
    wanted, wanted_quantiles = slowly(history, horizon)
    np.testing.assert_allclose(point, wanted, rtol=1e-6)
    np.testing.assert_allclose(quantiles, wanted_quantiles, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("days", [[20, 3, 3, 8, 1, 25], [1]])
@pytest.mark.parametrize("rest", [0, 5])
def test_beginnings_of_one_record_give_what_each_gives_alone(days, rest):
    whole = record(3, 25 * 24 + rest)
    whole.flags.writeable = False
    histories = [whole[:, : 24 * d + rest] for d in days]
    method = SeasonalNaive()
    points, quantiles = method.predict_batch(histories, 48)
    for i, history in enumerate(histories):
        point, own = method.predict(history.copy(), 48)
        np.testing.assert_array_equal(points[i], point)
        np.testing.assert_array_equal(quantiles[i], own)
    np.testing.assert_array_equal(method.points(histories, 48), points)
    assert np.isfinite(points).all()


def test_histories_that_share_nothing_are_told_apart():
    histories = [record(1, 72), record(2, 240), record(3, 10), record(4, 73)]
    shifted = record(5, 200)
    histories += [shifted[:, :100], shifted[:, 100:]]  # of one array, but no beginnings
    method = SeasonalNaive()
    points, quantiles = method.predict_batch(histories, 24)
    for i, history in enumerate(histories):
        point, own = method.predict(history.copy(), 24)
        np.testing.assert_array_equal(points[i], point)
        np.testing.assert_array_equal(quantiles[i], own)


def test_looks_back_seven_days_and_no_further():
    history = np.full((1, 9 * 24), NAN)
    history[0, 24:48] = 5  # eight days back
    history[0, 48] = 7  # seven days back
    history[0, 0] = 1
    point, quantiles = SeasonalNaive().predict(history, 24)
    mean = (24 * 5 + 7 + 1) / 26
    np.testing.assert_allclose(point[0, :2], [7, mean], rtol=1e-6)
    np.testing.assert_allclose(quantiles[0, 0, [0, 4]], [np.quantile([1, 5, 7], 0.1), 5], rtol=1e-6)
    np.testing.assert_allclose(quantiles[0, 1], 5)


def test_says_what_it_is():
    method = SeasonalNaive(quantile_levels=(0.5,), seasons_max=2)
    assert method.settings == {"season": 24, "seasons_max": 2, "quantile_levels": [0.5]}
    assert method.predict(record(1, 48), 24)[1].shape == (6, 24, 1)
