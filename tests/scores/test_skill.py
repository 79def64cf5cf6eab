import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wearjax.scores import skill

MAYBE = st.one_of(st.just(float("nan")), st.floats(0, 1e3))


def test_the_published_example():
    baseline, method = np.array([8.0, 4.0, 10.0, 0.0]), np.array([4.0, 2.0, 1.0, 3.0])
    log_ratio = skill.paired_log_ratios(method, baseline)
    assert np.isnan(log_ratio[3])  # a perfect baseline has no ratio
    assert skill.from_log_ratio(np.nanmean(log_ratio)) == pytest.approx(0.7076, abs=5e-5)


def test_floored_binary_errors_cancel():
    errors = skill.floored(1 - np.array([[[1.0, 0.9]], [[0.9, 1.0]]]), np.array([True]))
    log_ratio = skill.paired_log_ratios(errors[0, 0], errors[1, 0])
    np.testing.assert_allclose(np.exp(log_ratio), [0.05, 20.0])
    assert skill.from_log_ratio(log_ratio.mean()) == pytest.approx(0.0)


def test_only_marked_tasks_are_floored_and_nan_stays():
    errors = np.array([[0.0, np.nan], [0.0, np.nan]])
    np.testing.assert_array_equal(
        skill.floored(errors, np.array([True, False])), [[skill.BINARY_FLOOR, np.nan], [0.0, np.nan]]
    )


@given(hnp.arrays(float, 6, elements=MAYBE), hnp.arrays(float, 6, elements=MAYBE))
def test_pairs_exist_where_both_errors_do_and_stay_within_the_clip(errors, baseline):
    log_ratio = skill.paired_log_ratios(errors, baseline)
    np.testing.assert_array_equal(
        np.isfinite(log_ratio), np.isfinite(errors) & np.isfinite(baseline) & (baseline > 0)
    )
    kept = log_ratio[np.isfinite(log_ratio)]
    assert np.all((kept >= np.log(skill.RATIO_MIN)) & (kept <= np.log(skill.RATIO_MAX)))


@given(hnp.arrays(float, (3, 5), elements=MAYBE), hnp.arrays(bool, (5, 4)))
def test_group_means_equal_a_loop(values, membership):
    means, counts = skill.group_mean(values, membership), skill.group_count(values, membership)
    for row in range(3):
        for group in range(4):
            members = values[row, membership[:, group]]
            finite = members[np.isfinite(members)]
            assert counts[row, group] == len(finite)
            expected = finite.mean() if len(finite) else np.nan
            np.testing.assert_allclose(means[row, group], expected, rtol=1e-12)
