import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from wearjax.scores import proportion


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 10, 0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1), (2976, 4084, 0.7149, 0.7421)],
)
def test_wilson_gives_the_values_of_the_benchmark(hits, n, low, high):
    found = proportion.wilson(hits, n)
    assert found == pytest.approx((low, high), abs=5e-5)
    assert found[0] >= 0
    assert found[1] <= 1


def test_wilson_without_questions_or_with_impossible_ones():
    assert all(map(math.isnan, proportion.wilson(0, 0)))
    with pytest.raises(ValueError, match="between 0 and n=3, got 4"):
        proportion.wilson(4, 3)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(pair):
    hits, n = pair
    low, high = proportion.wilson(hits, n)
    assert 0 <= low <= hits / n <= high <= 1
    assert proportion.wilson(n - hits, n) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(b, c):
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert proportion.mcnemar(b, c) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_of_many_pairs():
    assert 0 < proportion.mcnemar(1500, 2500) < 1e-50
    assert proportion.mcnemar(2000, 2000) == 1.0


def test_chi_squared():
    observed, expected = np.array([10, 20, 30]), np.array([1.0, 1.0, 1.0])
    assert proportion.chi_squared(observed, expected) == pytest.approx(tuple(stats.chisquare(observed)))
    assert proportion.chi_squared(np.array([3, 1]), np.array([0.0, 2.0])) == (math.inf, 0.0)
    statistic, p = proportion.chi_squared(np.array([0, 4]), np.array([0.0, 2.0]))
    assert (statistic, p) == (0.0, 1.0)
    assert all(map(math.isnan, proportion.chi_squared(np.zeros(3, int), expected)))


def test_entropy():
    assert proportion.entropy_bits(np.full(8, 5)) == pytest.approx(3.0)
    assert proportion.entropy_bits(np.array([0, 7])) == 0.0
    assert math.isnan(proportion.entropy_bits(np.zeros(2, int)))
