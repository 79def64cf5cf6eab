"""Normalization statistics: what is counted, the file form, and the blend with priors."""

from __future__ import annotations

import json

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.channels import BINARY, CONTINUOUS, HEART_RATE
from wearjax.days import normalization
from wearjax.days.normalization import NormalizationStats
from wearjax.days.store import Days
from wearjax.errors import ConfigError, StoreError


class FewDays(Days):
    """Days in memory."""

    def __init__(self, array: np.ndarray):
        self._array = array

    def values(self, index):
        return self._array[index].copy()

    def source(self, index):
        return "made"


def made(seed: int, n: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.gamma(2, 40, (n, 19, 1440)).astype(np.float32)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, HEART_RATE, ::7] = 0
    return values


def stats(**replaced) -> NormalizationStats:
    rng = np.random.default_rng(0)
    return NormalizationStats(**{"means": rng.random(19), "stds": 1 + rng.random(19), **replaced})


def test_fit_counts_measured_minutes_of_the_given_days(monkeypatch):
    monkeypatch.setattr(normalization, "_DAYS_AT_ONCE", 2)
    values = made(0)
    found = normalization.fit(FewDays(values), [0, 1, 4])
    for channel in CONTINUOUS:
        counted = values[[0, 1, 4], channel].astype(np.float64)
        counted = counted[np.isfinite(counted) & ((channel != HEART_RATE) | (counted != 0))]
        assert found.means[channel] == pytest.approx(counted.mean(), rel=1e-9)
        assert found.stds[channel] == pytest.approx(counted.std(), rel=1e-7)
    assert not found.means[list(BINARY)].any()
    assert np.all(found.stds[list(BINARY)] == 1)


def test_channels_that_do_not_vary_keep_std_one():
    values = np.full((2, 19, 1440), np.nan, np.float32)
    values[:, 1] = 3
    values[:, HEART_RATE] = 0
    found = normalization.fit(FewDays(values), [0, 1])
    assert found.means[[0, 1, HEART_RATE]].tolist() == [0, 3, 0]
    assert np.all(found.stds == 1)


@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_denormalize_undoes_normalize(seed):
    values = made(seed, 1)[0]
    there = normalization.normalize(values, stats())
    assert there.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(there), np.isnan(values))
    np.testing.assert_allclose(normalization.denormalize(there, stats()), values, rtol=1e-4, atol=1e-4)


def test_normalize_is_per_channel():
    values = np.ones((2, 19, 3), np.float32)
    own = stats()
    out = normalization.normalize(values, own)
    np.testing.assert_allclose(out[1, 4], (1 - own.means[4]) / (own.stds[4] + own.epsilon), rtol=1e-6)


def test_json_round_trip_and_form(tmp_path):
    own = normalization.fit(FewDays(made(1)), [0])
    content = json.loads(own.to_json())
    assert content.keys() == {"means", "stds", "channels", "epsilon"}
    assert content["channels"] == list(range(7))
    (tmp_path / "stats.json").write_text(own.to_json())
    read = NormalizationStats.load(tmp_path / "stats.json")
    np.testing.assert_array_equal(read.means, own.means)
    np.testing.assert_array_equal(read.stds, own.stds)
    assert read.epsilon == own.epsilon


def test_json_channels_not_listed_pass_unchanged():
    content = json.loads(stats().to_json()) | {"channels": [0, 1]}
    read = NormalizationStats.from_json(json.dumps(content))
    assert not read.means[2:].any()
    assert np.all(read.stds[2:] == 1)
    assert read.means[1] == stats().means[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable"),
        ("[]", "not readable"),
        ('{"means": [1], "stds": [1]}', "expected 19 means and stds"),
        ('{"means": [1]}', "stds"),
    ],
)
def test_refuses_other_json(text, message, tmp_path):
    with pytest.raises(StoreError, match=message):
        NormalizationStats.from_json(text)
    (tmp_path / "stats.json").write_text(text)
    with pytest.raises(StoreError, match=r"stats\.json: .*" + message):
        NormalizationStats.load(tmp_path / "stats.json")


def test_refuses_impossible_statistics():
    with pytest.raises(ConfigError, match="stds: every one must be above 0"):
        stats(stds=np.zeros(19))
    with pytest.raises(ConfigError, match="means: expected 19 finite"):
        stats(means=np.zeros(18))
    with pytest.raises(ConfigError, match="means: expected 19 finite"):
        stats(means=np.full(19, np.nan))


@hypothesis.given(seed=st.integers(0, 2**32 - 1), prior_count=st.sampled_from([1.0, 50.0]))
def test_blend_weighs_prior_and_sample(seed, prior_count):
    rng = np.random.default_rng(seed)
    values = rng.normal(5, 2, (4, 3, 60)).astype(np.float32)
    values[rng.random(values.shape) < 0.2] = np.nan
    priors = {"mean_prior": [1.0, 2.0, 3.0], "std_prior": [2.0, 1.0, 4.0], "prior_count": prior_count}
    mean, std = normalization.hybrid_statistics(values, **priors)
    for day, channel in np.ndindex(4, 3):
        own = values[day, channel][np.isfinite(values[day, channel])].astype(np.float64)
        weight = prior_count + len(own)
        expected_mean = (prior_count * priors["mean_prior"][channel] + len(own) * own.mean()) / weight
        variance = (prior_count * priors["std_prior"][channel] ** 2 + len(own) * own.var(ddof=1)) / weight
        assert mean[day, channel] == pytest.approx(expected_mean, rel=1e-5)
        assert std[day, channel] == pytest.approx(np.sqrt(variance), rel=1e-5)


def test_blend_at_its_limits():
    values = np.array([[4.0, np.nan], [np.nan, np.nan], [1.0, 3.0]], np.float32)
    priors = {"mean_prior": [1, 1, 1], "std_prior": [2, 2, 2]}
    out = normalization.hybrid_normalize(values, **priors, prior_count=1e12)
    np.testing.assert_allclose(out[[0, 2], 0], [1.5, 0])
    mean, std = normalization.hybrid_statistics(values, **priors, prior_count=1)
    assert mean.tolist() == pytest.approx([2.5, 1, 5 / 3])
    assert std.tolist() == pytest.approx([np.sqrt(2), 2, np.sqrt(8 / 3)])
    free = normalization.hybrid_normalize(values, **priors, prior_count=0)
    np.testing.assert_allclose(free[2], [-1, 1] / np.sqrt(2), rtol=1e-6)
    assert np.isnan(free[1]).all()


def test_blend_needs_one_prior_a_channel():
    with pytest.raises(ConfigError, match="3 channels need as many priors"):
        normalization.hybrid_normalize(
            np.zeros((3, 5), np.float32), mean_prior=[1, 2], std_prior=[1, 2, 3], prior_count=1
        )
