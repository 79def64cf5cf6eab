"""ARIMA(2,1,0): the likelihood against a plain Kalman filter, its maximum against statsmodels and perturbation."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.predict.features import arima


def series(n: int, ar: tuple[float, float], scale: float, seed: int) -> np.ndarray:
    """A sum of autoregressive differences about three scales above zero."""
    rng = np.random.default_rng(seed)
    d = np.zeros(n + 100)
    for t in range(2, len(d)):
        d[t] = ar[0] * d[t - 1] + ar[1] * d[t - 2] + scale * rng.standard_normal()
    return 3 * scale + np.cumsum(d[100:])


def kalman(values: np.ndarray, ar: tuple[float, float], sigma2: float) -> float:
    """Log-likelihood of all but the first value, by the filter over (level, difference, difference before)."""
    a, b = ar
    transition = np.array([[1, 1, 0], [0, a, b], [0, 1, 0]])
    design = np.array([1.0, 1, 0])
    gamma0 = sigma2 * (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))
    gamma1 = gamma0 * a / (1 - b)
    state = np.zeros(3)
    covariance = np.array([[arima.LEVEL_VARIANCE, 0, 0], [0, gamma0, gamma1], [0, gamma1, gamma0]])
    total = 0.0
    for t, value in enumerate(values):
        error, variance = value - design @ state, design @ covariance @ design
        if t:
            total -= 0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
        gain = covariance @ design / variance
        state = transition @ (state + gain * error)
        covariance = transition @ (covariance - np.outer(gain, gain) * variance) @ transition.T
        covariance[1, 1] += sigma2
    return total


@pytest.mark.parametrize("scale", [1.0, 300.0, 3e4])
@pytest.mark.parametrize("ar", [(0.5, -0.3), (-0.6, 0.2), (0.0, 0.0), (1.2, -0.5)])
def test_likelihood_is_the_filters(ar, scale):
    values = series(30, (0.2, 0.1), scale, seed=5)
    for sigma2 in (0.5 * scale**2, 2 * scale**2):
        assert arima.log_likelihood(values, ar, sigma2) == pytest.approx(
            kalman(values, ar, sigma2), rel=1e-6, abs=1e-4
        )


MADE = [
    series(n, ar, scale, seed)
    for seed, (n, ar, scale) in enumerate(
        (n, ar, scale)
        for n in (15, 40, 365)
        for ar in ((0.5, -0.3), (-0.7, -0.3), (0.9, 0.05))
        for scale in (1.0, 3e3)
    )
]


@pytest.fixture(scope="module")
def fitted() -> np.ndarray:
    return arima.fit(MADE)


def test_no_parameter_nearby_is_likelier(fitted):
    for values, (a, b, sigma2) in zip(MADE, fitted, strict=True):
        best = arima.log_likelihood(values, (a, b), sigma2)
        for change in (0.02, -0.02):
            assert arima.log_likelihood(values, (a + change * (1 - abs(b)) / 2, b), sigma2) < best
            assert arima.log_likelihood(values, (a, b + change * (1 - abs(a)) / 4), sigma2) < best + 1e-9
            assert arima.log_likelihood(values, (a, b), sigma2 * (1 + change)) < best


def test_agrees_with_statsmodels_and_is_never_less_likely(fitted):
    module = pytest.importorskip("statsmodels.tsa.arima.model")
    threads = pytest.importorskip("threadpoolctl")
    for i in (0, 2, 6, 8, 1, 7):
        values, own = MADE[i], fitted[i]
        # Several threads on its tiny matrices take a hundred times as long.
        with warnings.catch_warnings(), threads.threadpool_limits(1):
            warnings.simplefilter("ignore")
            result = module.ARIMA(values, order=(2, 1, 0)).fit(cov_type="none")
        assert result.model.loglike(own) == pytest.approx(
            arima.log_likelihood(values, tuple(own[:2]), own[2]), abs=1e-5
        )
        assert result.model.loglike(own) >= result.llf - 1e-6
        if values.std() < 100:  # at large scales its optimizer stops before the maximum
            np.testing.assert_allclose(own, result.params, rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_allclose(own[:2], result.params[:2], atol=0.02)


def test_long_series_recover_their_parameters():
    found = arima.fit([series(4000, (0.4, -0.35), 2.0, seed=9)])[0]
    np.testing.assert_allclose(found, [0.4, -0.35, 4.0], rtol=0.12)


def test_series_do_not_influence_each_other(fitted):
    for i in (0, 9, 17):
        np.testing.assert_allclose(arima.fit([MADE[i]])[0], fitted[i], rtol=1e-5, atol=1e-6)


def test_small_scales_multiply_through():
    small = arima.fit([MADE[0]])[0]
    tripled = arima.fit([3 * MADE[0]])[0]
    np.testing.assert_allclose(tripled, [*small[:2], 9 * small[2]], rtol=1e-3, atol=1e-4)


def test_a_constant_series_has_zeros_and_extremes_stay_finite_and_stationary():
    ramp, step, spike = np.arange(40.0), np.r_[np.zeros(20), np.ones(20)], np.r_[5.0, np.zeros(30)]
    found = arima.fit([np.full(20, 3.0), ramp, step, spike, 1e9 * step, 1e-9 * step, (-1.0) ** np.arange(30)])
    assert not found[0].any()
    assert np.isfinite(found).all()
    a, b = found[:, 0], found[:, 1]
    assert ((np.abs(b) <= 1) & (a + b <= 1 + 1e-9) & (b - a <= 1 + 1e-9)).all()
    assert (found[1:, 2] > 0).all()
    assert arima.fit([]).shape == (0, 3)


@settings(max_examples=25)
@given(st.lists(st.integers(0, 300), min_size=15, max_size=60), st.integers(-1000, 1000))
def test_whole_numbers_never_fail_and_a_small_shift_changes_little(values, shift):
    values = np.array(values, np.float64)
    found = arima.fit([values])[0]
    assert np.isfinite(found).all()
    if found[2] > 0:
        moved = arima.fit([values + shift])[0]
        # The almost diffuse start knows where zero is, but hardly.
        best = arima.log_likelihood(values + shift, tuple(moved[:2]), moved[2])
        if abs(found[0]) + abs(found[1]) < 0.99:
            assert best >= arima.log_likelihood(values + shift, tuple(found[:2]), found[2]) - 1e-6
