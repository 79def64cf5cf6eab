"""Counting the most frequent value: exact, first seen wins, whatever the memory bound."""

from __future__ import annotations

from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.errors import ConfigError, MethodError
from wearjax.predict.imputers import modes

MINUTES = 6


def stream(seed: int, days_per_row: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    batches = []
    for n in rng.integers(1, 5, size=3):
        batch = rng.choice([0, -0.04, 0.3, 0.31, -2.0, 700.04], (n, 2, MINUTES * days_per_row)).astype(
            np.float32
        )
        batch[rng.random(batch.shape) < 0.3] = np.nan
        batches.append(batch)
    return batches


def first_most_common(values) -> float | None:
    """Counter keeps the order of insertion among equals."""
    kept = [float(np.round(np.float32(v), 1)) + 0.0 for v in values if np.isfinite(v)]
    return Counter(kept).most_common(1)[0][0] if kept else None


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1), days_per_row=st.integers(1, 2), max_entries=st.sampled_from([1, 5, 10**6])
)
def test_agrees_with_counting_one_by_one(seed, days_per_row, max_entries):
    batches = stream(seed, days_per_row)
    channel, temporal = modes.fit(lambda: batches, minutes_per_day=MINUTES, max_entries=max_entries)
    for c in range(2):
        rows = [row[c] for batch in batches for row in batch]
        whole = first_most_common(value for row in rows for value in row)
        expected = 0.0 if whole is None else whole
        assert channel[c] == np.float32(expected)
        for minute in range(MINUTES):
            own = first_most_common(value for row in rows for value in row[minute::MINUTES])
            assert temporal[c, minute] == np.float32(expected if own is None else own)


def test_a_tight_bound_costs_passes_not_answers():
    rng = np.random.default_rng(0)
    days = rng.random((50, 2, MINUTES)).astype(np.float32) * 100
    passes = []

    def batches():
        passes.append(1)
        return [days[:20], days[20:]]

    free = modes.fit(batches, minutes_per_day=MINUTES)
    assert len(passes) == 1
    bound = modes.fit(batches, minutes_per_day=MINUTES, max_entries=150)
    assert len(passes) > 3
    for one, other in zip(free, bound, strict=True):
        np.testing.assert_array_equal(one, other)


def test_many_small_batches_are_merged_on_the_way(monkeypatch):
    batches = [batch for seed in range(20) for batch in stream(seed)]
    expected = modes.fit(lambda: batches, minutes_per_day=MINUTES)
    monkeypatch.setattr(modes, "_MERGE_MIN", 2)
    for one, other in zip(modes.fit(lambda: batches, minutes_per_day=MINUTES), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@hypothesis.given(seed=st.integers(0, 2**32 - 1), items=st.integers(0, 9))
def test_smallest_mode_of_each_row(seed, items):
    rng = np.random.default_rng(seed)
    values = rng.choice([1.5, -2.0, 0.0, np.nan], (5, items)).astype(np.float32)
    found = modes.smallest_modes(values)
    for row, mode in zip(values, found, strict=True):
        counts = Counter(row[~np.isnan(row)].tolist())
        best = [value for value, count in counts.items() if count == max(counts.values())]
        assert np.isnan(mode) if not best else mode == min(best)


def test_rounds_halves_to_even_tenths():
    values = np.array([0.25, 0.35, -0.04, 1e6], np.float32)
    assert modes.rounded(values).tolist() == np.array([0.2, 0.4, 0.0, 1e6], np.float32).tolist()
    assert not np.signbit(modes.rounded(values)[2])


def test_says_what_is_wrong():
    with pytest.raises(ConfigError, match="13 time steps are not whole days of 6"):
        modes.fit(lambda: [np.zeros((1, 2, 13), np.float32)], minutes_per_day=MINUTES)
    with pytest.raises(MethodError, match="no day to count"):
        modes.fit(lambda: [], minutes_per_day=MINUTES)
