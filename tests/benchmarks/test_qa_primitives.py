"""The primitives against plain statements of what they compute."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wearjax.benchmarks.wearableqa import primitives
from wearjax.benchmarks.wearableqa.primitives import OPS

VALUES = st.one_of(st.just(np.nan), st.integers(-5, 5).map(float))
ROWS = hnp.arrays(np.float64, (3, 14), elements=VALUES)


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float64)[:, None]


@given(ROWS)
@settings(max_examples=40)
def test_reductions_ignore_missing_days(x):
    for row, mean, median, mad, n in zip(
        x, OPS["mean"](x), OPS["median"](x), OPS["mad"](x), OPS["count"](x), strict=True
    ):
        known = row[~np.isnan(row)]
        assert n[0] == len(known)
        if len(known):
            assert mean[0] == pytest.approx(np.mean(known))
            assert median[0] == np.median(known)
            assert mad[0] == np.median(np.abs(known - np.median(known)))
        else:
            assert np.isnan([mean[0], median[0], mad[0]]).all()


@given(ROWS, ROWS)
@settings(max_examples=40)
def test_spearman_is_that_of_the_common_days(a, b):
    for x, y, found in zip(a, b, OPS["spearman"](a, b), strict=True):
        both = ~np.isnan(x) & ~np.isnan(y)
        if both.sum() < 8 or np.ptp(x[both]) == 0 or np.ptp(y[both]) == 0:
            assert np.isnan(found[0])
        else:
            assert found[0] == pytest.approx(scipy.stats.spearmanr(x[both], y[both]).statistic, abs=1e-12)


def test_long_series_rank_as_short_ones_do():
    rng = np.random.default_rng(9)
    x = rng.integers(0, 9, (5, 40)).astype(float)
    x[rng.random(x.shape) < 0.2] = np.nan
    np.testing.assert_array_equal(primitives.ranks(x), primitives._sorted_ranks(x))
    np.testing.assert_array_equal(
        primitives.ranks(np.pad(x, ((0, 0), (0, 20)), constant_values=np.nan))[:, :40], primitives.ranks(x)
    )


def test_lagged_spearman_is_one_column_a_lag():
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, 2, 20))
    found = OPS["lagged_spearman"](a, b, c)
    np.testing.assert_allclose(found, np.hstack([OPS["spearman"](a, b), OPS["spearman"](a, c)]))


def test_scale_is_undefined_without_spread():
    x = np.array([[1.0, 1, 1, 1, 5], [1, 2, 3, 4, 5]])
    np.testing.assert_allclose(OPS["scale"](x), [[np.nan], [1.4826]])


def test_rounding_takes_halves_away_from_zero():
    np.testing.assert_allclose(
        OPS["round_to"](np.array([[0.35, 0.25, -0.25, 0.2499]]), step=0.1), [[0.4, 0.3, -0.3, 0.2]]
    )
    np.testing.assert_allclose(
        OPS["round_to"](np.array([[8449.0, 8450, np.nan]]), step=100), [[8400, 8500, np.nan]]
    )
    np.testing.assert_allclose(
        OPS["significant"](np.array([[1234.0, 0.012345, 0.0, -45.65]])), [[1230, 0.0123, 0, -45.7]]
    )


def test_theil_sen_ignores_one_wild_day():
    x = 2.0 * np.arange(15)[None] + 1
    x[0, 4], x[0, 9] = 500, np.nan
    assert OPS["theil_sen"](x)[0, 0] == pytest.approx(2)


def test_argmax_margin():
    x = np.array([[1.0, 4, 2], [np.nan, 3, np.nan], [np.nan] * 3])
    np.testing.assert_array_equal(OPS["argmax_margin"](x), [[1, 4, 2], [1, 3, np.inf], [np.nan] * 3])


def test_bands_include_their_lower_edge():
    x = np.array([[0.2, 0.25, 0.65, np.nan]])
    np.testing.assert_array_equal(OPS["band"](x, edges=[0.25, 0.5, 0.65]), [[0, 1, 3, np.nan]])


def test_flag_is_undefined_near_a_limit():
    x = column(4.0, 5.42, 5.6, 5.8, 6.8, 7.0, 8.0, np.nan)
    found = OPS["flag"](x, limits=[5.6, 7.0])[:, 0]
    np.testing.assert_array_equal(found, [0, 0, np.nan, 1, np.nan, np.nan, 2, np.nan])
    low = OPS["flag"](column(1.5, 1.0, 0.98, 0.8), limits=[1.0], direction="down")[:, 0]
    np.testing.assert_array_equal(low, [0, np.nan, np.nan, 1])


def test_all_of_and_table_lookup_do_not_guess():
    a, b = column(1, 1, 0, np.nan), column(1, 0, 0, 1)
    np.testing.assert_array_equal(OPS["all_of"](a, b)[:, 0], [1, 0, 0, np.nan])
    table = [[1, 1, 7], [1, 0, 8]]
    np.testing.assert_array_equal(OPS["table_lookup"](a, b, table=table)[:, 0], [7, 8, np.nan, np.nan])


def test_percentile_between_and_beyond_known_points():
    points = [column(v) for v in (10.0, 20.0, 40.0)]
    found = OPS["pct_of_cohort"](column(15, 40, 5, np.nan), *points, percents=[25, 50, 75])[:, 0]
    np.testing.assert_allclose(found[[0, 1, 3]], [37.5, 75, np.nan])
    assert found[2] <= 25


def test_clean_half_and_means():
    x = np.array([[0.0, 3, 300, np.nan]])
    np.testing.assert_array_equal(
        OPS["clean"](x, low=0, high=100, zero_is_missing=True), [[np.nan, 3, np.nan, np.nan]]
    )
    np.testing.assert_array_equal(OPS["half"](x, which=1), [[300, np.nan]])
    assert OPS["diff_of_means"](OPS["half"](x, which=1), OPS["half"](x, which=0))[0, 0] == 298.5


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="defined twice"):
        primitives.op("mean")(lambda x: x)
