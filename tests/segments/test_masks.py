"""Masking scenarios against plain loops over the written rule, on random days."""

from __future__ import annotations

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.channels import DEVICE_GROUPS, ENERGY, HEART_RATE, SLEEP, WORKOUTS
from wearjax.errors import ConfigError
from wearjax.segments import masks

MINUTES = 240


@st.composite
def days(draw) -> np.ndarray:
    """Days of runs: channels missing whole or in part, flags now and then, a heart that races in places."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.integers(0, 3, (19, MINUTES)).astype(np.float32)
    values[HEART_RATE] = rng.choice([1.2, 2.9], MINUTES // 6).repeat(6)
    values[7:] = rng.random((12, MINUTES // 20)).repeat(20, axis=1) > draw(st.sampled_from([0.5, 0.9, 1.0]))
    for channel in np.flatnonzero(rng.random(19) < draw(st.sampled_from([0.0, 0.4, 1.0]))):
        start = int(rng.integers(0, MINUTES))
        values[channel, start if rng.random() < 0.5 else 0 :] = np.nan
    return values


def make(scenario: str, values: np.ndarray, seed: int = 0, **params) -> tuple[np.ndarray, bool]:
    return masks.make_mask(scenario, values, ~np.isnan(values), np.random.default_rng(seed), **params)


@pytest.mark.parametrize("scenario", masks.SCENARIOS)
@hypothesis.given(values=days(), seed=st.integers(0, 99))
def test_hides_only_measured_cells_and_repeats_itself(scenario, values, seed):
    before = values.copy()
    mask, applicable = make(scenario, values, seed)
    again, applicable_again = make(scenario, values, seed)
    assert mask.dtype == bool
    assert not np.any(mask & np.isnan(values))
    assert applicable or not mask.any()
    np.testing.assert_array_equal(mask, again)
    assert applicable == applicable_again
    np.testing.assert_array_equal(values, before)


@hypothesis.given(values=days(), seed=st.integers(0, 99), ratio=st.sampled_from([0.1, 0.5, 0.9]))
def test_random_noise_takes_patches_until_the_target(values, seed, ratio):
    mask, applicable = make("random_noise", values, seed, patch_size=25, mask_ratio=ratio)
    observed = ~np.isnan(values)
    expected, count = np.zeros_like(observed), 0
    per_channel = MINUTES // 25
    if observed.any():
        for patch in np.random.default_rng(seed).permutation(19 * per_channel):
            if count >= int(ratio * observed.sum()):
                break
            cells = np.s_[patch // per_channel, patch % per_channel * 25 : patch % per_channel * 25 + 25]
            expected[cells] = observed[cells]
            count += int(observed[cells].sum())
    assert applicable == observed.any()
    np.testing.assert_array_equal(mask, expected)


@hypothesis.given(values=days(), seed=st.integers(0, 99))
def test_temporal_slice_hides_whole_minutes(values, seed):
    mask, applicable = make("temporal_slice", values, seed, min_block_size=10, max_block_size=21)
    observed = ~np.isnan(values)
    rng = np.random.default_rng(seed)
    n = math.ceil(math.log(0.75) / math.log(1 - 15.5 / MINUTES))
    sizes = [int(size) for size in rng.integers(10, 22, size=n)]
    starts = rng.integers(0, [max(1, MINUTES - size) for size in sizes])
    covered = {m for start, size in zip(starts, sizes, strict=True) for m in range(start, start + size)}
    assert applicable == observed.any()
    for minute in range(MINUTES):
        wanted = observed[:, minute] if minute in covered else np.zeros(19, bool)
        np.testing.assert_array_equal(mask[:, minute], wanted)


@hypothesis.given(values=days(), seed=st.integers(0, 99))
def test_signal_slice_hides_whole_channels(values, seed):
    mask, applicable = make("signal_slice", values, seed)
    observed = ~np.isnan(values)
    measured = {c for c in range(19) if observed[c].any()}
    hidden = {c for c in range(19) if mask[c].any()}
    assert applicable == bool(measured)
    for c in hidden:
        np.testing.assert_array_equal(mask[c], observed[c])
    groups = [measured & set(group) for group in DEVICE_GROUPS.values()]
    if measured:
        by_channel = np.random.default_rng(seed).random() < 0.5 or not any(groups)
        assert len(hidden) == math.ceil(len(measured) / 2) if by_channel else hidden in groups


def test_signal_slice_uses_both_ways():
    values = np.ones((19, MINUTES), np.float32)
    hidden = {tuple(np.flatnonzero(make("signal_slice", values, seed)[0].any(axis=1))) for seed in range(40)}
    assert set(DEVICE_GROUPS.values()) < hidden


@hypothesis.given(values=days())
def test_sleep_gap_hides_all_but_sleep(values):
    mask, applicable = make("sleep_gap", values)
    asleep = [any(values[c, t] > 0 for c in SLEEP) for t in range(MINUTES)]
    assert applicable == any(asleep)
    for c in range(19):
        wanted = [c not in SLEEP and asleep[t] and not np.isnan(values[c, t]) for t in range(MINUTES)]
        assert mask[c].tolist() == wanted


@hypothesis.given(values=days())
def test_workout_gap_hides_heart_rate_and_energy(values):
    mask, applicable = make("workout_gap", values)
    active = [any(values[c, t] > 0 for c in WORKOUTS) for t in range(MINUTES)]
    for c in range(19):
        watch = c in (HEART_RATE, ENERGY)
        assert mask[c].tolist() == [
            watch and active[t] and not np.isnan(values[c, t]) for t in range(MINUTES)
        ]
    assert applicable == mask.any()


@hypothesis.given(values=days(), scale=st.sampled_from([1, 60]))
def test_intensity_failure_hides_long_runs(values, scale):
    values[HEART_RATE] *= scale
    mask, applicable = make("intensity_failure", values, min_minutes=7)
    above = [bool(x > 160 / 60 * scale) for x in values[HEART_RATE]]
    runs, start = np.zeros(MINUTES, bool), 0
    for t in range(1, MINUTES + 1):
        if t == MINUTES or above[t] != above[start]:
            runs[start:t] = above[start] and t - start >= 7
            start = t
    assert applicable == runs.any()
    for c in range(19):
        wanted = runs & ~np.isnan(values[c]) if c in (HEART_RATE, ENERGY) else np.zeros(MINUTES, bool)
        np.testing.assert_array_equal(mask[c], wanted)


def test_exactly_the_threshold_is_not_intense():
    values = np.full((19, MINUTES), np.nan, np.float32)
    values[HEART_RATE] = 160 / 60
    assert not make("intensity_failure", values)[1]
    values[HEART_RATE, 10:15] = np.nextafter(np.float32(160 / 60), np.float32(9))
    mask, applicable = make("intensity_failure", values)
    assert applicable
    assert np.flatnonzero(mask[HEART_RATE]).tolist() == [10, 11, 12, 13, 14]


def test_stated_unit_overrides_the_guess():
    values = np.full((19, MINUTES), np.nan, np.float32)
    values[HEART_RATE] = 9.0
    assert make("intensity_failure", values, hr_unit="hz")[1]
    assert not make("intensity_failure", values, hr_unit="bpm")[1]


def test_default_number_of_blocks_is_ten():
    values = np.ones((19, 1440), np.float32)
    mask, _ = make("temporal_slice", values)
    rng = np.random.default_rng(0)
    sizes = rng.integers(30, 61, size=10)
    starts = rng.integers(0, 1440 - sizes)
    covered = np.unique(np.concatenate([np.arange(a, a + n) for a, n in zip(starts, sizes, strict=True)]))
    assert np.flatnonzero(mask.all(axis=0)).tolist() == covered.tolist()


@pytest.mark.parametrize(
    ("scenario", "params", "message"),
    [
        ("noise", {}, "'noise' is unknown"),
        ("sleep_gap", {"mask_ratio": 0.5}, "unknown parameter 'mask_ratio'"),
        ("intensity_failure", {"hr_unit": "mph"}, "'mph' is unknown"),
    ],
)
def test_names_what_is_unknown(scenario, params, message):
    with pytest.raises(ConfigError, match=message):
        make(scenario, np.ones((19, MINUTES), np.float32), **params)


def test_refuses_arrays_that_do_not_fit():
    values = np.ones((18, MINUTES), np.float32)
    with pytest.raises(ConfigError, match=r"\(19, minutes\), got \(18, 240\)"):
        make("sleep_gap", values)


def test_structural_scenarios_need_a_generator():
    values = np.ones((19, MINUTES), np.float32)
    with pytest.raises(ConfigError, match="needs a random generator"):
        masks.make_mask("random_noise", values, ~np.isnan(values), None)
    assert not masks.make_mask("workout_gap", values * 0, ~np.isnan(values), None)[1]
