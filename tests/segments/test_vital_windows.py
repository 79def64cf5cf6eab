"""VitalBench windows: scaling, cold start, imputation of inputs alone, downsampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.segments import vital_cases, vital_scaled, vital_windows
from wearjax.segments.vital_settings import VitalSettings
from wearjax.sources.vital_cases import Case
from wearjax.vitals import CENTRES

RECORD = np.array([[50, 2, 60, 80], [50, 4, 0, 90], [50, 0, 70, 100], [50, 6, 65, 80]], np.float32)


def prepare(*records, stats=None, **settings):
    ids = [f"c{i}" for i in range(len(records))]
    return vital_scaled.prepare(
        ids, records.__getitem__, 2, VitalSettings(**settings), keep=(0,), stats=stats
    )


def test_the_lowest_value_of_a_complete_column_is_taken_for_missing():
    cases = prepare(RECORD)
    np.testing.assert_allclose(cases.targets, [[60 / 70, 0], [0, 0.5], [1, 1], [65 / 70, 0]], rtol=1e-6)
    assert cases.observed.tolist() == [[True, False], [False, True], [True, True], [True, False]]
    assert not cases.values[:, 0].any(), "a constant tells nothing"
    np.testing.assert_allclose(cases.original(0, cases.targets, np.array([2, 3])), RECORD[:, 2:], rtol=1e-6)


def test_global_scaling_keeps_missing_apart_from_lowest():
    stats = vital_windows.observed_range([RECORD, RECORD * 2], keep=(0,))
    assert (stats.low.tolist(), stats.high.tolist()) == ([50, 2, 60, 80], [100, 12, 140, 200])
    cases = prepare(RECORD, stats=stats, scaling="train_global")
    assert cases.observed.tolist() == [[True, True], [False, True], [True, True], [True, True]]
    assert cases.targets[0].tolist() == [0, 0], "an observed lowest value is a value"
    assert cases.values[:, 1].tolist() == pytest.approx([0, 0.2, 0, 0.4])
    with pytest.raises(ConfigError, match="training values"):
        prepare(RECORD, scaling="train_global")
    with pytest.raises(ConfigError, match="training case"):
        vital_windows.observed_range([])


def test_zero_is_a_value_of_sex():
    people = np.array([[[0, 5, 6]] * 2, [[1, 5, 6]] * 2], np.float32)
    stats = vital_windows.observed_range(people, keep=(0,))
    scaled = [vital_windows.scale(p, scaling="train_global", stats=stats, keep=(0,))[0, 0] for p in people]
    assert scaled == [0, 1]
    assert vital_windows.observed_range(people).span[0] == 1


def test_imputed_targets_count_unless_only_inputs_are_filled():
    everything = prepare(RECORD, imputation="mean")
    assert everything.observed[1, 0]
    inputs = prepare(RECORD, imputation="mean", impute_targets=False)
    raw = prepare(RECORD)
    np.testing.assert_array_equal(inputs.targets, raw.targets)
    np.testing.assert_array_equal(inputs.observed, raw.observed)
    np.testing.assert_array_equal(inputs.low, raw.low)
    assert inputs.values[1, 2] == pytest.approx(65 / 70), "the filled gap, in the scale of the raw record"


def test_gaps_that_no_method_fills_are_missing_in_the_end():
    gap = RECORD.copy()
    gap[0, 2] = 0
    cases = prepare(gap, imputation="linear")
    assert np.isfinite(cases.values).all()
    assert not cases.observed[0, 0]


def test_windows_of_cases_do_not_cross():
    cases = prepare(RECORD, RECORD[:1], RECORD[:3])
    ends, case = cases.window_ends(2)
    assert cases.windows_of(2).tolist() == [2, 0, 1]
    assert (ends.tolist(), case.tolist()) == ([0, 1, 5], [0, 0, 2])
    assert cases.case_starts().tolist() == [0, 0, 0, 0, 4, 5, 5, 5]
    y, observed = cases.future(0, 2)
    np.testing.assert_array_equal(y, [cases.targets[1:3], cases.targets[2:4]])
    assert observed.shape == y.shape
    assert cases.future(1, 2)[0].shape == (0, 2, 2)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 4))
def test_cut_equals_slices_of_the_padded_record(rows, context, horizon):
    scaled = np.arange(1.0, 2 * rows + 1).reshape(rows, 2)
    n = vital_windows.window_count(rows, horizon)
    x, y = vital_windows.cut(scaled, np.arange(n), context=context, horizon=horizon)
    padded = np.concatenate((np.zeros((context - 1, 2)), scaled))
    assert x.shape == (n, context, 2)
    for i in range(n):
        np.testing.assert_array_equal(x[i], padded[i : i + context])
        np.testing.assert_array_equal(y[i], scaled[i + 1 : i + 1 + horizon])


def test_downsampling():
    fast = np.array([[1, 0], [2, 0], [0, 0], [0, 4], [6, 0]], np.float32)
    assert vital_windows.downsample(fast, 3).tolist() == [[2, 0], [6, 4]]
    assert vital_windows.downsample(fast, 3, rule="mean").tolist() == [[1.5, 0], [6, 4]]
    with pytest.raises(ConfigError, match="downsampling"):
        vital_windows.downsample(fast, 3, rule="first")


def test_cases_of_a_store(tmp_path):
    rng = np.random.default_rng(0)
    centre = CENTRES["vitaldb"]
    made = [Case(f"{i}", None, rng.uniform(1, 9, (30, 17)).astype(np.float32)) for i in range(5)]
    store = vital_cases.write_cases(tmp_path / "store", made, centre, split="random42")
    settings = VitalSettings(scaling="train_global", downsampling="mean")
    ids = store.splits["train"]
    stats = vital_scaled.training_range(store, ids, settings, every=12)
    found = vital_scaled.of_store(store, ids, settings, every=12, stats=stats)
    assert found.ids == tuple(ids)
    assert np.diff(found.offsets).tolist() == [3] * len(ids)
    assert (found.values.min(), found.values.max()) == (0, 1)
    first = vital_windows.downsample(made[int(ids[0])].values, 12, rule="mean")
    np.testing.assert_allclose(
        found.original(0, found.targets[:3], np.arange(9, 17)), first[:, 9:], rtol=1e-5
    )


def test_bad_records_are_named():
    with pytest.raises(ConfigError, match="case c1: expected"):
        prepare(RECORD, RECORD[:, :3])
    with pytest.raises(ConfigError, match="case c0: a value is not finite"):
        prepare(np.full((3, 4), np.nan))
    with pytest.raises(ConfigError, match="none"):
        vital_scaled.prepare([], [].__getitem__, 2)
    with pytest.raises(ConfigError, match="scaling"):
        vital_windows.scale(RECORD, scaling="none")


def test_settings_are_checked_and_recorded():
    assert VitalSettings().to_dict()["scaling"] == "per_case"
    assert len(VitalSettings().to_dict()) == 14
    with pytest.raises(ConfigError, match=r"imputation: expected one of none.*'median'"):
        VitalSettings(imputation="median")
    with pytest.raises(ConfigError, match="impute_targets"):
        VitalSettings(impute_targets="yes")
    with pytest.raises(ConfigError, match="seed"):
        VitalSettings(seed=-1)
