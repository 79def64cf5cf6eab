import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from wearjax.scores import intervals


@given(st.integers(0, 2**32 - 1))
def test_bca_agrees_with_its_textbook_form(seed):
    rng = np.random.default_rng(seed)
    draws, jackknife = rng.gamma(1.0, 2.0, 200), rng.gamma(1.0, 1.0, 30)
    point = float(rng.gamma(1.0, 2.0))
    share = np.clip(np.mean(draws < point), 0.5 / 200, 1 - 0.5 / 200)
    deviation = jackknife.mean() - jackknife
    skew = np.sum(deviation**3) / (6 * np.sum(deviation**2) ** 1.5)
    bias = stats.norm.ppf(share)
    z = bias + stats.norm.ppf([0.025, 0.975])
    expected = np.percentile(draws, 100 * stats.norm.cdf(bias + z / (1 - skew * z)))
    np.testing.assert_allclose(intervals.bca(draws, point, jackknife), expected, rtol=1e-9)


def test_no_skew_and_no_bias_gives_the_percentile_interval():
    draws = np.linspace(-1, 1, 1000)
    assert intervals.bca(draws, 0.0, np.zeros(5)) == pytest.approx(intervals.percentile(draws), abs=2e-3)


def test_equal_draws_give_the_point():
    assert intervals.bca(np.full(9, 0.25), 0.5, np.arange(3.0)) == (0.5, 0.5)


def test_an_undefined_point_gives_the_percentile_interval():
    draws = np.arange(100.0)
    assert intervals.bca(draws, float("nan"), np.arange(3.0)) == intervals.percentile(draws)


def test_no_draws_give_no_interval():
    assert np.isnan(intervals.bca(np.array([np.nan]), 0.0, np.arange(3.0))).all()


def test_a_jackknife_that_says_nothing_has_no_acceleration():
    assert intervals.acceleration(np.array([np.nan, 1.0])) == 0.0
    assert intervals.acceleration(np.ones(4)) == 0.0
