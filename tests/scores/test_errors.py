import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.scores import errors
from wearjax.scores.errors import ErrorTable, SubgroupErrors


def test_values_are_rounded_to_float16_and_overflow_to_infinity():
    rounded = errors.half_precision(np.array([0.1, 2049.0, 65504.0, 7e4, -7e4], np.float32))
    assert rounded.dtype == np.float32
    np.testing.assert_array_equal(rounded, [np.float32(np.float16(0.1)), 2048.0, 65504.0, np.inf, -np.inf])


@given(st.integers(0, 2**32 - 1))
def test_sums_equal_a_loop_over_the_rows(seed):
    rng = np.random.default_rng(seed)
    truth, prediction = rng.normal(0, 300, (2, 20)).astype(np.float32)
    row = np.sort(rng.integers(0, 5, 20))
    count, absolute, squared = errors.error_sums(truth, prediction, row, 6)
    for r in range(6):
        difference = np.abs(prediction.astype(float) - truth)[row == r]
        assert count[r] == len(difference)
        assert absolute[r] == pytest.approx(difference.sum())
        assert squared[r] == pytest.approx((difference**2).sum())


def test_infinities_make_the_sum_of_their_row_not_finite():
    both = np.array([np.inf, 1.0], np.float32)
    _, absolute, _ = errors.error_sums(both, both, np.array([0, 1]), 2)
    np.testing.assert_array_equal(absolute, [np.nan, 0.0])


def test_a_table_refuses_arrays_of_another_shape():
    with pytest.raises(ValueError, match="expected"):
        ErrorTable(("a",), ("t",), ("p", "q"), np.zeros((1, 1, 3)))
    with pytest.raises(ValueError, match="sex"):
        ErrorTable(
            ("a",),
            ("t",),
            ("p",),
            np.zeros((1, 1, 1)),
            {"sex": SubgroupErrors(("f", "m"), np.zeros((1, 1, 1, 1)))},
        )


def test_an_unknown_method_is_named():
    table = ErrorTable(("a",), ("t",), ("p",), np.zeros((1, 1, 1)))
    assert table.method_index("a") == 0
    with pytest.raises(ConfigError, match="'b'"):
        table.method_index("b")
