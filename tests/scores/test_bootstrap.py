import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wearjax.scores import bootstrap

MAYBE = st.one_of(st.just(float("nan")), st.floats(-1e3, 1e3))


def nanmean(values):
    finite = values[np.isfinite(values)]
    return finite.mean() if len(finite) else np.nan


@given(hnp.arrays(float, (2, 3, 7), elements=MAYBE), st.integers(0, 1000))
def test_weighted_means_equal_means_over_the_drawn_participants(values, seed):
    draws = bootstrap.resample_matrix(seed, 7, 5)
    means = bootstrap.weighted_means(bootstrap.multiplicities(draws), values)
    assert means.shape == (5, 2, 3)
    for b, row in enumerate(draws):
        for at in np.ndindex(2, 3):
            np.testing.assert_allclose(means[b][at], nanmean(values[at][row]), rtol=1e-9, atol=1e-9)


@given(hnp.arrays(float, (2, 6), elements=MAYBE))
def test_leave_one_out_means_equal_a_loop(values):
    means = bootstrap.leave_one_out_means(values)
    assert means.shape == (6, 2)
    for left_out in range(6):
        for row in range(2):
            np.testing.assert_allclose(
                means[left_out, row], nanmean(np.delete(values[row], left_out)), rtol=1e-9, atol=1e-9
            )


def test_equal_values_stay_exactly_equal_when_one_is_left_out():
    means = bootstrap.leave_one_out_means(np.full((1, 9), 0.1))
    assert np.ptp(means.astype(np.float32)) == 0


def test_one_participant_leaves_nobody():
    assert np.isnan(bootstrap.leave_one_out_means(np.ones((2, 1)))).all()


def test_multiplicities_count_each_draw():
    draws = np.array([[0, 0, 2], [1, 1, 1]])
    np.testing.assert_array_equal(bootstrap.multiplicities(draws), [[2, 0, 1], [0, 3, 0]])


def test_the_seed_depends_on_the_tag_and_fits_in_31_bits():
    seeds = {bootstrap.derived_seed(42, tag) for tag in ("test", "val", "forecasting")}
    assert len(seeds) == 3
    assert all(0 <= s < 2**31 for s in seeds)


def test_summary_leaves_out_draws_that_are_not_finite():
    draws = np.array([[1.0, np.nan, np.nan], [2.0, 5.0, np.nan], [3.0, np.inf, np.nan]])
    found = bootstrap.summarise(draws)
    np.testing.assert_array_equal(found.n, [3, 1, 0])
    np.testing.assert_allclose(found.mean, [2.0, 5.0, np.nan])
    np.testing.assert_allclose(found.se, [1.0, 0.0, np.nan])
    assert (found.low[0], found.high[0]) == pytest.approx((1.05, 2.95))
