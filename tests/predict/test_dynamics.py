"""Day-to-day features: moments and correlations against plain formulas."""

from __future__ import annotations

import itertools
import math

import made_feature_days
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.predict.features import arima, daily, day_block, dynamics


def test_there_are_266_names_by_kind():
    assert len(dynamics.NAMES) == len(set(dynamics.NAMES)) == 266
    starts = [
        sum(name.startswith(kind) for name in dynamics.NAMES) for kind in ("sp_stat_", "sp_arima_", "cc_lag")
    ]
    assert starts == [140, 42, 84]
    assert list(dynamics.CORRELATED) == sorted(dynamics.CORRELATED)
    assert "cc_lag2_watch_hr_p5__watch_steps_sum" in dynamics.NAMES
    assert "sp_arima_ar.L1_iphone_flights_sum" in dynamics.NAMES
    assert "sp_stat_CREST_FACTOR_watch_hr_median" in dynamics.NAMES


def plain_moments(values: list[float]) -> list[float]:
    known = [v for v in values if v == v]
    n = len(known)
    if not n:
        return [0.0, *[math.nan] * 9]
    mean = sum(known) / n
    power = sum(v * v for v in known) / n
    var = sum((v - mean) ** 2 for v in known) / n
    peak = max(abs(v) for v in known)
    if max(known) == min(known):
        var = 0.0
    crest = peak / math.sqrt(power) if power else math.nan
    skew = sum((v - mean) ** 3 for v in known) / n / var**1.5 if var else math.nan
    kurtosis = sum((v - mean) ** 4 for v in known) / n / var**2 - 3 if var else math.nan
    span = max(known) - min(known)
    return [n, math.sqrt(power), var, math.sqrt(var), power, peak, span, crest, skew, kurtosis]


@given(st.lists(st.one_of(st.integers(-1000, 1000).map(float), st.just(math.nan)), min_size=1, max_size=30))
def test_moments_are_the_plain_ones(values):
    found = dynamics.moments(np.array([values, values[::-1]]))
    np.testing.assert_allclose(found[0], plain_moments(values), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9)


def test_a_constant_that_is_not_exact_in_binary_has_no_spread():
    found = dict(zip(dynamics.MOMENTS, dynamics.moments(np.full((1, 7), 0.1))[0], strict=True))
    assert (found["VAR"], found["STD"], found["P2P"]) == (0, 0, 0)
    assert np.isnan([found["SKEW"], found["KURTOSIS"]]).all()
    assert found["CREST_FACTOR"] == pytest.approx(1)


def test_moments_of_zeros_have_no_crest_factor():
    found = dict(zip(dynamics.MOMENTS, dynamics.moments(np.zeros((1, 4)))[0], strict=True))
    assert (found["N"], found["RMS"], found["PEAK"]) == (4, 0, 0)
    assert np.isnan(found["CREST_FACTOR"])


def plain_cross_correlation(x: np.ndarray, y: np.ndarray, lag: int) -> float:
    n = len(x)
    x, y = x - x.mean(), y - y.mean()
    total = sum(x[t + lag] * y[t] for t in range(n - lag))
    return total / n / (x.std() * y.std())


def test_cross_correlations_use_days_on_which_nothing_is_missing():
    rng = np.random.default_rng(0)
    series = rng.gamma(2, 100, (8, 30))
    series[3, 4] = series[6, [10, 11]] = np.nan
    found = dynamics.cross_correlations(series)
    complete = np.delete(series, [4, 10, 11], axis=1)
    for row, (i, j) in enumerate(itertools.combinations(range(8), 2)):
        for lag in (0, 1, 2):
            assert found[row, lag] == pytest.approx(plain_cross_correlation(complete[i], complete[j], lag))
    assert np.abs(found).max() <= 1


def test_cross_correlations_agree_with_statsmodels():
    stattools = pytest.importorskip("statsmodels.tsa.stattools")
    series = np.random.default_rng(1).gamma(2, 100, (8, 25))
    found = dynamics.cross_correlations(series)
    expected = stattools.ccf(series[2], series[5], adjusted=False)[:3]
    row = list(itertools.combinations(range(8), 2)).index((2, 5))
    np.testing.assert_allclose(found[row], expected, rtol=1e-9)


def test_a_leading_series_correlates_at_its_lag():
    rng = np.random.default_rng(2)
    series = rng.standard_normal((8, 400))
    series[0, 1:] = series[1, :-1]  # the first repeats the second a day later
    found = dynamics.cross_correlations(series)[0]
    assert found[1] > 0.95
    assert abs(found[0]) < 0.2


def test_nine_complete_days_are_too_few_and_a_constant_has_no_correlation():
    series = np.random.default_rng(3).standard_normal((8, 10))
    assert np.isnan(dynamics.cross_correlations(series[:, :9])).all()
    series[7] = 0.1
    found = dynamics.cross_correlations(series)
    involved = np.array([7 in pair for pair in itertools.combinations(range(8), 2)])
    assert np.isnan(found[involved]).all()
    assert np.isfinite(found[~involved]).all()


def test_arima_needs_fifteen_values_and_skips_missing_days():
    series = np.random.default_rng(4).gamma(2, 10, (3, 20))
    series[1, [0, 3, 7, 8, 9, 19]] = np.nan  # fourteen left
    series[2, [2, 5]] = np.nan
    found = dynamics.arima_parameters(series)
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[2], arima.fit([np.delete(series[2], [2, 5])])[0], rtol=1e-5, atol=1e-6)


def test_features_of_days_stand_under_their_names():
    values, nonwear, weekend = made_feature_days.varied_days()
    table = daily.of_block(day_block.of_values(values, nonwear, weekend))
    found = dict(zip(dynamics.NAMES, dynamics.features(table), strict=True))
    steps = table.columns["watch_steps"]
    worn = steps[np.isfinite(steps)]
    assert found["sp_stat_N_watch_steps_sum"] == 11
    assert found["sp_stat_PEAK_watch_steps_sum"] == worn.max()
    assert found["sp_stat_STD_watch_steps_sum"] == pytest.approx(worn.std())
    assert found["sp_stat_N_sleep_minutes"] == 11  # the short nap is missing, the day without sleep is not
    assert found["sp_stat_N_workout_minutes"] == 12
    assert np.isnan(found["sp_arima_sigma2_watch_steps_sum"])  # twelve days
    assert np.isnan(found["cc_lag0_sleep_minutes__watch_steps_sum"])  # nine days with everything


def test_nothing_recorded_gives_counts_of_zero_and_missing_features():
    block = day_block.of_values(np.zeros((20, 19, 1440), np.float32), np.zeros(20), np.zeros(20, bool))
    found = dict(zip(dynamics.NAMES, dynamics.features(daily.of_block(block)), strict=True))
    assert found["sp_stat_N_watch_steps_sum"] == 0
    assert np.isnan(found["sp_stat_RMS_watch_steps_sum"])
    assert np.isnan(found["sp_arima_ar.L1_watch_hr_p5"])
    assert found["sp_arima_sigma2_workout_minutes"] == 0
    assert np.isnan(found["cc_lag0_inbed_minutes__sleep_minutes"])
