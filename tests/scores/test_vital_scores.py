"""VitalBench metrics of a case: definitions by hand, ties, missing entries, averages and intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.errors import MethodError
from wearjax.scores import correlation, vital


def arrays(seed: int, shape=(30, 4, 3), *, levels: int | None = None, dtype=np.float32):
    rng = np.random.default_rng(seed)
    y, guess = rng.random(shape), rng.normal(size=shape)
    if levels:
        y, guess = np.round(y * levels) / levels, np.round(guess * levels) / levels
    y = np.where(rng.random(shape) < 0.3, 0, y)
    return guess.astype(dtype), y.astype(dtype)


def by_hand(guess, y):
    """Each formula with plain loops over what it calls outputs and samples."""
    seen = y != 0
    out = {
        "MAE": np.mean(np.abs(guess - y)[seen]),
        "RMSE": np.sqrt(np.mean((guess - y)[seen] ** 2)),
        "MAPE": np.mean(np.abs((guess - y) / np.where(seen, y, 1))[seen]),
        "pearson": np.corrcoef(guess[seen], y[seen])[0, 1],
        "spearman": correlation.spearman(y[seen], guess[seen]),
    }
    zeroed, error, total = np.where(seen, guess, 0), 0.0, 0.0
    for truth, found in zip(y.reshape(-1, y.shape[2]), zeroed.reshape(-1, y.shape[2]), strict=True):
        spread = np.sum((truth - truth.mean()) ** 2)
        if spread > 0:
            error, total = error + np.sum((truth - found) ** 2), total + spread
    out["R2_variables"] = 1 - error / total
    temporal = []
    for v in range(y.shape[2]):
        truth, found = y[..., v][seen[..., v]], guess[..., v][seen[..., v]]
        temporal.append(1 - np.sum((truth - found) ** 2) / np.sum((truth - truth.mean()) ** 2))
    out["R2_temporal"] = np.mean(temporal)
    return out


@pytest.mark.parametrize("levels", [None, 4], ids=["distinct", "ties"])
def test_metrics_by_hand(levels, monkeypatch):
    guess, y = arrays(0, levels=levels)
    expected = by_hand(guess.astype(np.float64), y.astype(np.float64))
    for cells in (1 << 20, 24):  # also in pieces of two windows
        monkeypatch.setattr(vital, "_CELLS_AT_ONCE", cells)
        found = vital.case_metrics(guess, y)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-9), name
        assert (found["CC"], found["R2"]) == (found["spearman"], found["R2_variables"])
    other = vital.case_metrics(guess, y, cc="pearson", r2="temporal")
    assert (other["CC"], other["R2"]) == (found["pearson"], found["R2_temporal"])


@settings(max_examples=30)
@given(st.integers(0, 2**16), st.integers(2, 60), st.sampled_from([1, 2, 7, 1000]))
def test_sorted_ranks_are_the_usual_ones(seed, n, levels):
    rng = np.random.default_rng(seed)
    a, b = (np.round(rng.normal(size=n) * levels).astype(np.float32) for _ in range(2))
    a[0] = -0.0
    expected = correlation.spearman(a.astype(np.float64) + 0.0, b.astype(np.float64) + 0.0)
    assert vital.spearman(a, b) == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)


def test_missing_entries_do_not_matter():
    guess, y = arrays(1)
    elsewhere = np.where(y == 0, 7, guess).astype(np.float32)
    assert vital.case_metrics(elsewhere, y) == vital.case_metrics(guess, y)
    mask = y != 0
    hidden = np.where(mask, y, 5).astype(np.float32)
    assert vital.case_metrics(guess, hidden, mask) == vital.case_metrics(guess, y)


def test_undefined_is_nan():
    guess, y = arrays(2, (5, 2, 1))
    assert np.isnan(vital.case_metrics(guess, y)["R2"]), "one variable has nothing to compare with"
    nothing = vital.case_metrics(guess, np.zeros_like(y))
    assert all(np.isnan(value) for value in nothing.values())
    flat = vital.case_metrics(np.ones_like(y), np.abs(y) + 1)
    assert np.isnan(flat["CC"])
    assert np.isfinite(flat["MAE"])
    empty = vital.case_metrics(guess[:0], y[:0])
    assert all(np.isnan(value) for value in empty.values())


def test_bad_predictions_are_named():
    guess, y = arrays(3)
    with pytest.raises(MethodError, match=r"S4: prediction \(30, 4, 2\)"):
        vital.case_metrics(guess[..., :2], y, name="S4")
    guess[0, 0, 0] = np.nan
    with pytest.raises(MethodError, match="not finite"):
        vital.case_metrics(guess, y)


def test_errors_of_variables_in_their_units():
    guess, y = arrays(4)
    mask = y != 0
    span = np.array([1.0, 10.0, 100.0])
    mae, rmse = vital.variable_errors(guess, y, mask, span)
    for v in range(3):
        error = (guess.astype(np.float64) - y)[..., v][mask[..., v]]
        assert mae[v] == pytest.approx(np.abs(error).mean() * span[v])
        assert rmse[v] == pytest.approx(np.sqrt((error**2).mean()) * span[v])


def test_averages_pass_over_nan():
    found = vital.aggregate([{"MAE": 1.0, "R2": np.nan}, {"MAE": 3.0, "R2": 0.5}])
    assert found["MAE"] == vital.Average(2.0, 1.0, 2)
    assert found["R2"] == vital.Average(0.5, 0.0, 1)
    assert vital.average([np.nan]).n == 0
    pair = [vital.Average(1.0, 0.1, 2), vital.Average(2.0, 0.3, 2)]
    assert vital.over_horizons(pair) == pytest.approx((1.5, 0.2))
    assert vital.over_horizons(pair, spread="std_of_stds") == pytest.approx((1.5, 0.1))
    with pytest.raises(ValueError, match="spread"):
        vital.over_horizons(pair, spread="std")


def test_intervals_hold_the_mean_and_narrow_with_cases():
    rng = np.random.default_rng(0)
    widths = []
    for n in (10, 200):
        cases = [{"MAE": value, "R2": np.nan} for value in rng.normal(1, 0.1, n)]
        found = vital.case_intervals(cases, draws=200, seed=1)
        for low, high in (found["MAE"].percentile, found["MAE"].bca):
            assert low < found["MAE"].mean < high
        widths.append(found["MAE"].percentile[1] - found["MAE"].percentile[0])
        assert np.isnan(found["R2"].mean)
    assert widths[1] < widths[0] / 2
    assert found["MAE"] == vital.case_intervals(cases, draws=200, seed=1)["MAE"]
