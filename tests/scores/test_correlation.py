import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from wearjax.scores import correlation

PAIRS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=60)


def columns(pairs) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(pairs, np.float64).T
    return x / 4, y / 10


def of_scipy(function, x, y) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return float(function(x, y)[0])


@given(PAIRS)
@settings(max_examples=60)
def test_equals_scipy_including_ties_and_constants(pairs):
    x, y = columns(pairs)
    # The last bit of scipy's Pearson depends on the processor; that of its Spearman does not.
    expected = pytest.approx(of_scipy(stats.pearsonr, x, y), rel=1e-13, abs=1e-13, nan_ok=True)
    assert correlation.pearson(x, y) == expected
    np.testing.assert_array_equal(correlation.spearman(x, y), of_scipy(stats.spearmanr, x, y))


@given(PAIRS)
@settings(max_examples=60)
def test_mean_ranks_equal_scipy(pairs):
    x, _ = columns(pairs)
    np.testing.assert_array_equal(correlation.mean_ranks(x), stats.rankdata(x))


def test_many_rows_equal_scipy():
    x, noise = np.random.default_rng(3).normal(size=(2, 500))
    assert correlation.pearson(x, x + noise) == pytest.approx(
        of_scipy(stats.pearsonr, x, x + noise), rel=1e-13
    )
    assert correlation.spearman(x, x + noise) == of_scipy(stats.spearmanr, x, x + noise)


def test_few_rows_are_summed_with_one_rounding_a_step():
    rng, differing = np.random.default_rng(1), 0
    for n in range(3, 32):
        x, y = rng.normal(size=(2, n))
        total = 0.0
        for a, b in zip(x.tolist(), y.tolist(), strict=True):
            total = float(Fraction(a) * Fraction(b) + Fraction(total))
        assert correlation._dot(x, y) == total
        differing += total != sum(a * b for a, b in zip(x.tolist(), y.tolist(), strict=True))
    assert differing  # rounding products, too, gives another last bit now and then


def test_two_rows_agree_or_disagree():
    assert correlation.pearson(np.array([0.1, 0.3]), np.array([5.7, 9.1])) == 1.0
    assert correlation.pearson(np.array([0.1, 0.3]), np.array([9.1, 5.7])) == -1.0


@pytest.mark.parametrize("function", [correlation.pearson, correlation.spearman])
def test_one_distinct_value_or_no_row_has_no_correlation(function):
    assert np.isnan(function(np.ones(4), np.arange(4.0)))
    assert np.isnan(function(np.arange(4.0), np.ones(4)))
    assert np.isnan(function(np.zeros(0), np.zeros(0)))
