"""Statistical baselines against plain loops over the written rules."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict.imputers import statistical

MINUTES = 12


@st.composite
def samples(draw, days: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data with gaps, an observed mask that hides some finite cells too, and targets; rows may be empty."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (draw(st.integers(1, 4)), 3, MINUTES * days)
    truth = (rng.normal(size=shape) * 10).round(1).astype(np.float32)
    truth[rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 0.9]))] = np.nan
    observed = np.isfinite(truth) & (rng.random(shape) < 0.9)
    target = observed & (rng.random(shape) < draw(st.sampled_from([0.1, 0.5, 1.0])))
    data = np.where(target, np.float32(np.nan), truth)
    return data, observed, target


def train(seed: int = 0, n: int = 6) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 4, (n, 3, MINUTES)).astype(np.float32) / 4
    days[rng.random(days.shape) < 0.3] = np.nan
    days[:, 1, 3] = np.nan
    return [days[:2], days[2:]]


STATISTICS = statistical.fit(train, minutes_per_day=MINUTES)


def known_cells(data, observed, target, n, c) -> list[int]:
    return [
        t
        for t in range(data.shape[2])
        if observed[n, c, t] and not target[n, c, t] and np.isfinite(data[n, c, t])
    ]


def linear(row, known, t):
    return np.interp(t, known, row[known].astype(np.float64))


def locf(row, known, t):
    before = [k for k in known if k < t]
    return row[before[-1]] if before else row[known[0]]


@pytest.mark.parametrize(("name", "rule"), [("linear", linear), ("locf", locf)])
@hypothesis.given(sample=st.one_of(samples(), samples(days=2)))
def test_neighbours_fill_as_a_plain_loop_would(name, rule, sample):
    data, observed, target = sample
    out = statistical.imputer(name, STATISTICS).impute(data, observed, target)
    expected = data.copy()
    for n, c, t in np.argwhere(target):
        known = known_cells(data, observed, target, n, c)
        expected[n, c, t] = rule(data[n, c], known, t) if known else STATISTICS.channel_means[c]
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", statistical.NAMES)
@hypothesis.given(sample=st.one_of(samples(), samples(days=3)))
def test_only_target_cells_change(name, sample):
    data, observed, target = sample
    before = data.copy()
    out = statistical.imputer(name, STATISTICS).impute(
        data, observed.astype(np.float32), target.astype(np.float32)
    )
    assert out.dtype == np.float32
    assert out.shape == data.shape
    assert not np.shares_memory(out, data)
    np.testing.assert_array_equal(data, before)
    np.testing.assert_array_equal(out[~target], data[~target])
    assert np.isfinite(out[target]).all()


@pytest.mark.parametrize("name", ["linear", "locf"])
def test_neighbours_are_the_same_however_the_batch_is_cut(name, monkeypatch):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(5, 3, MINUTES)).astype(np.float32)
    target = rng.random(data.shape) < 0.6
    data[target] = np.nan
    method = statistical.imputer(name, STATISTICS)
    whole = method.impute(data, np.ones_like(target), target)
    monkeypatch.setattr(statistical, "_CELLS_AT_ONCE", 1)
    np.testing.assert_array_equal(method.impute(data, np.ones_like(target), target), whole)


def test_means_leave_out_what_is_missing():
    days = np.concatenate(train())
    np.testing.assert_allclose(STATISTICS.channel_means, np.nanmean(days, axis=(0, 2)), rtol=1e-6)
    expected = STATISTICS.channel_means[1]
    assert STATISTICS.temporal_means[1, 3] == expected
    np.testing.assert_allclose(STATISTICS.temporal_means[0], np.nanmean(days[:, 0], axis=0), rtol=1e-6)
    assert STATISTICS.temporal_modes[1, 3] == STATISTICS.channel_modes[1]


def test_unmeasured_channel_is_zero():
    days = np.ones((2, 3, MINUTES), np.float32)
    days[:, 2] = np.nan
    statistics = statistical.fit(lambda: [days], minutes_per_day=MINUTES)
    assert statistics.channel_means.tolist() == statistics.channel_modes.tolist() == [1, 1, 0]
    assert not statistics.temporal_means[2].any()
    assert not statistics.temporal_modes[2].any()


def test_infinite_training_cells_do_not_count():
    days = np.ones((1, 3, MINUTES), np.float32)
    days[0, 0, 0] = np.inf
    statistics = statistical.fit(lambda: [days], minutes_per_day=MINUTES)
    assert statistics.channel_means[0] == statistics.channel_modes[0] == 1


def test_temporal_fill_repeats_in_windows():
    data = np.full((1, 3, 2 * MINUTES), np.nan, np.float32)
    everything = np.ones(data.shape, bool)
    out = statistical.imputer("temporal_mean", STATISTICS).impute(data, everything, everything)
    np.testing.assert_array_equal(out[0, :, :MINUTES], STATISTICS.temporal_means)
    np.testing.assert_array_equal(out[0, :, MINUTES:], STATISTICS.temporal_means)


class FewDays(Days):
    """Days in memory that note which of them were read."""

    def __init__(self, n: int):
        self.array = np.random.default_rng(1).integers(0, 3, (n, 19, 1440)).astype(np.float32)
        self.read: list[int] = []

    def values(self, index):
        self.read.append(index)
        return self.array[index].copy()

    def source(self, index):
        return "made"


@pytest.mark.parametrize("name", statistical.NAMES)
def test_build_fits_on_the_given_days_only(name):
    days = FewDays(4)
    indices = np.array([0, 2])
    method = statistical.build(name, days, indices)
    assert set(days.read) == {0, 2}
    data = np.full((1, 19, 1440), np.nan, np.float32)
    everything = np.ones(data.shape, bool)
    fitted = statistical.fit(lambda: [days.array[indices]])
    expected = statistical.imputer(name, fitted).impute(data, everything, everything)
    np.testing.assert_array_equal(method.impute(data, everything, everything), expected)


def test_build_all_shares_the_reading():
    days = FewDays(3)
    methods = statistical.build_all(statistical.NAMES, days, np.arange(3))
    assert list(methods) == list(statistical.NAMES)
    assert days.read == [0, 1, 2] * 2  # once for means, once for modes


def test_says_what_is_wrong():
    with pytest.raises(ConfigError, match="'median' is unknown; expected one of mean"):
        statistical.imputer("median", STATISTICS)
    without = statistical.fit(train, minutes_per_day=MINUTES, with_modes=False)
    with pytest.raises(ConfigError, match="temporal_mode: the training statistics were fitted without modes"):
        statistical.imputer("temporal_mode", without)
    with pytest.raises(MethodError, match="no day to learn from"):
        statistical.fit(lambda: [])
