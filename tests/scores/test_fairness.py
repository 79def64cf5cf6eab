from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wearjax.scores import fairness

MAYBE = st.one_of(st.just(float("nan")), st.floats(0, 10))


@given(hnp.arrays(float, (4, 3), elements=MAYBE), hnp.arrays(float, (4, 3), elements=MAYBE))
def test_disparity_is_the_mean_difference_over_shared_subgroups(errors, baseline):
    own, other = fairness.disparities(errors, baseline)
    for task in range(3):
        shared = [g for g in range(4) if np.isfinite(errors[g, task]) and np.isfinite(baseline[g, task])]
        pairs = list(combinations(shared, 2))
        for found, values in ((own, errors), (other, baseline)):
            expected = (
                np.mean([abs(values[g, task] - values[h, task]) for g, h in pairs]) if pairs else np.nan
            )
            np.testing.assert_allclose(found[task], expected, rtol=1e-12)


def test_an_equal_baseline_defines_no_ratio():
    errors, baseline = np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([[1.0, 1.0], [1.0, 3.0]])
    ratio = np.exp(fairness.log_disparity_ratios(errors, baseline))
    assert np.isnan(ratio[0])
    assert ratio[1] == pytest.approx(0.5)


def test_means_that_differ_in_their_last_bit_are_equal():
    baseline = np.array([0.1 + 0.2, 0.3])
    assert baseline[0] != baseline[1]
    assert np.isnan(fairness.log_disparity_ratios(np.array([0.1, 0.2]), baseline))


@pytest.mark.parametrize(
    ("age", "group"),
    [
        (None, "unknown"),
        (float("nan"), "unknown"),
        (17.9, "unknown"),
        (18, "18-29"),
        (29.99, "18-29"),
        (60, "60+"),
    ],
)
def test_age_groups(age, group):
    assert fairness.age_group(age) == group


def test_the_prediction_track_counts_minors_to_the_first_group():
    assert fairness.age_group(17, minors_in_first=True) == "18-29"
    assert fairness.age_group(None, minors_in_first=True) == "unknown"


def test_overall_needs_every_required_attribute():
    skills = np.array([[0.2, 0.2], [0.4, np.nan]])
    np.testing.assert_allclose(fairness.over_attributes(skills, np.array([True, True])), [0.3, np.nan])
    np.testing.assert_allclose(fairness.over_attributes(skills, np.array([True, False])), [0.2, 0.2])
    assert np.isnan(fairness.over_attributes(skills, np.array([False, False]))).all()
