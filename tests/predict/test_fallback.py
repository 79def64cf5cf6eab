"""Training statistics of the evaluation and the substitution of missing predictions."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.channels import BINARY, CONTINUOUS
from wearjax.errors import MethodError
from wearjax.predict.imputers import fallback


def made(seed: int, n: int = 4, time: int = 30) -> np.ndarray:
    rng = np.random.default_rng(seed)
    days = rng.normal(5, 3, (n, 19, time)).astype(np.float32)
    days[:, list(BINARY)] = rng.random((n, len(BINARY), time)) < rng.random((1, len(BINARY), 1))
    days[rng.random(days.shape) < 0.2] = np.nan
    return days


@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_statistics_are_those_of_all_cells(seed):
    days = made(seed)
    found = fallback.fit([days[:1], days[1:]])
    spread = np.nanstd(days.astype(np.float64), axis=(0, 2))
    np.testing.assert_allclose(found.stds, np.maximum(spread, 1e-6), rtol=1e-5)
    mean = np.nanmean(days.astype(np.float64), axis=(0, 2))
    np.testing.assert_allclose(found.fill[list(CONTINUOUS)], mean[list(CONTINUOUS)], rtol=1e-5)
    assert found.fill[list(BINARY)].tolist() == (mean[list(BINARY)] > 0.5).astype(float).tolist()
    assert found.stds.dtype == found.fill.dtype == np.float32


def test_edges_of_the_statistics():
    days = np.full((2, 19, 2), np.nan, np.float32)
    days[0, 0, 0] = 7  # one value
    days[:, 1] = 3  # no spread
    days[0, 7] = [0, 1]  # a tie is not a majority
    days[0, 8] = [np.inf, 1]
    found = fallback.fit([days])
    assert found.stds[[0, 1, 2]].tolist() == np.array([1, 1e-6, 1], np.float32).tolist()
    assert found.fill[[0, 1, 2, 7, 8, 9]].tolist() == [7, 3, 0, 0, 1, 0]


@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_replaces_what_is_not_finite_at_targets_only(seed):
    rng = np.random.default_rng(seed)
    imputed = rng.choice([1.0, np.nan, np.inf, -np.inf], (3, 19, 8), p=[0.7, 0.1, 0.1, 0.1]).astype(
        np.float32
    )
    before = imputed.copy()
    target = rng.random(imputed.shape) < 0.5
    fill = rng.random(19).astype(np.float32)
    done = fallback.substitute(imputed, target, fill)
    np.testing.assert_array_equal(imputed, before)
    np.testing.assert_array_equal(done.values[~target], imputed[~target])
    for n, c, t in np.argwhere(target):
        wanted = imputed[n, c, t] if np.isfinite(imputed[n, c, t]) else fill[c]
        assert done.values[n, c, t] == wanted
    broken = target & ~np.isfinite(imputed)
    assert done.substituted.tolist() == [int(broken[:, c].sum()) for c in range(19)]
    assert done.asked.tolist() == [int(target[:, c].sum()) for c in range(19)]


def test_rates():
    substituted, asked = np.array([1, 0, 3]), np.array([4, 0, 12])
    assert fallback.overall_rate(substituted, asked) == 0.25
    assert fallback.channel_rates(substituted, asked) == {"ch_0": 0.25, "ch_2": 0.25}
    assert fallback.overall_rate(asked * 0, asked * 0) == 0


def test_training_days_must_have_19_channels():
    with pytest.raises(MethodError, match=r"expected \(days, 19, time\), got \(2, 18, 5\)"):
        fallback.fit([np.zeros((2, 18, 5), np.float32)])
