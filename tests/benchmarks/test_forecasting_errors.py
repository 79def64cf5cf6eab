"""Sums of windows against the cells one by one, and their way to disk and back."""

from __future__ import annotations

import dataclasses
import itertools

import made_forecasts
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks.openmhc import forecasting_metrics
from wearjax.benchmarks.openmhc.forecasting_errors import ErrorTable
from wearjax.benchmarks.openmhc.forecasting_scale import SeasonalScale
from wearjax.channels import N_CHANNELS
from wearjax.errors import ConfigError, MethodError, StoreError

ORIGINS = (48, 96, 120)


def cells_of(found, values, hourly, whole, c):
    """All cells of one channel, one by one: metric to a list for each window."""
    windows = {name: [[] for _ in found.origins] for name in forecasting_metrics.CONTINUOUS_METRICS}
    horizon = found.target.shape[-1]
    for w, h in itertools.product(range(len(found.origins)), range(horizon)):
        y, guess = float(found.target[w, c, h]), float(found.point[w, c, h])
        if np.isnan(y):
            continue
        error, hour = abs(y - guess), (found.origins[w] + h) % 24
        if found.quantiles is None:
            loss = error / 2
        else:
            q = found.quantiles[w, c, h].astype(float)
            terms = [
                (level - (y <= x)) * (y - x)
                for level, x in zip(found.levels, q, strict=True)
                if np.isfinite(x)
            ]
            loss = np.mean(terms) if terms else np.nan
        cell = {"mae": error, "mse": error**2, "ql": loss, "mase_all": error / whole[c]}
        cell |= {"mase": error / hourly[c, hour], "sql": loss / hourly[c, hour]}
        for name, value in cell.items():
            if np.isfinite(value):
                windows[name][w].append(value)
    return windows


@pytest.fixture(scope="module", params=[False, True], ids=["points", "quantiles"])
def one(request):
    values = made_forecasts.record(3)
    found = made_forecasts.forecasts("p3", values, 2.0, origins=ORIGINS, quantiles=request.param)
    if request.param:
        found.quantiles[0, 0, 3] = np.nan  # all levels of a cell
        found.quantiles[1, 0, 5, 2] = np.nan
    scale = SeasonalScale()
    scale.add("p3", values, ORIGINS, 24)
    table = ErrorTable()
    table.add("m", found)
    return found, values, scale, table.finish(scale)


def test_metrics_are_sums_over_cells(one):
    found, values, scale, metrics = one
    hourly, whole = scale.hourly(), scale.whole()
    for c in (0, 5):
        for name, windows in cells_of(found, values, hourly, whole, c).items():
            cells = [value for window in windows for value in window]
            assert metrics.values[name][0, c, 0] == pytest.approx(np.mean(cells), rel=1e-6), name
            assert metrics.n_values[name][0, c, 0] == len(cells), name
            by_window = np.mean([np.mean(window) for window in windows])
            assert metrics.by_window["m"][f"ch_{c}"][name] == pytest.approx(by_window, rel=1e-6), name


def test_flags_have_areas_of_all_cells_together(one):
    found, _, _, metrics = one
    pooled = forecasting_metrics.pooled(found.target[:, 7], found.point[:, 7])
    for name, value in pooled.items():
        assert metrics.values[name][0, 7, 0] == value
        assert metrics.n_values[name][0, 7, 0] == 1
    assert np.isnan(metrics.values["mae"][0, 7, 0])
    assert np.isnan(metrics.values["auroc"][0, 0, 0])
    assert "ch_17" not in metrics.by_window["m"]


def test_the_scale_is_the_step_from_the_day_before():
    values = np.full((N_CHANNELS, 96), np.nan, np.float32)
    values[0] = np.repeat([1.0, 2.0, 4.0, 7.0], 24)
    values[0, 50] = np.nan
    values[1] = 5.0
    scale = SeasonalScale()
    scale.add("a", values, [24, 48], 48)  # hours of the third day are in both windows
    hourly = scale.hourly()
    assert hourly[0, 0] == pytest.approx((1 + 2 + 2 + 3) / 4)
    assert hourly[0, 2] == pytest.approx(1.0)  # the third day misses this hour, and so does the step after it
    assert np.isnan(hourly[1]).all()  # never changes: zero
    assert np.isnan(hourly[2]).all()
    total, cells = 23 * (1 + 2 + 2 + 3) + 1, 23 * 4 + 1
    assert scale.whole()[0] == pytest.approx(total / cells)
    again = SeasonalScale()
    again.restore(scale.record())
    again.add("a", values, [24, 48], 48)  # once more: replaced, not added
    np.testing.assert_array_equal(again.hourly(), hourly)


def test_hours_without_a_scale_stay_out_of_scaled_metrics():
    values = made_forecasts.record(1)
    values[0, 5::24] = 3.0  # never changes at five in the morning
    found = made_forecasts.forecasts("p", values, 1.0)
    scale, table = SeasonalScale(), ErrorTable()
    scale.add("p", values, ORIGINS, 24)
    table.add("m", found)
    metrics = table.finish(scale)
    cells = cells_of(found, values, scale.hourly(), scale.whole(), 0)
    scaled = [value for window in cells["mase"] for value in window]
    assert metrics.n_values["mase"][0, 0, 0] == len(scaled) <= metrics.n_values["mae"][0, 0, 0] - 3
    assert metrics.values["mase"][0, 0, 0] == pytest.approx(np.mean(scaled))


def test_windows_of_two_days_and_shifted_origins_keep_their_hours():
    values = made_forecasts.record(4)
    origins = (51, 75)
    found = made_forecasts.forecasts("p", values, 1.5, origins=origins, horizon=48)
    scale, table = SeasonalScale(), ErrorTable()
    scale.add("p", values, origins, 48)
    table.add("m", found)
    metrics = table.finish(scale)
    cells = cells_of(found, values, scale.hourly(), scale.whole(), 6)
    for name, windows in cells.items():
        wanted = np.mean([value for window in windows for value in window])
        assert metrics.values[name][0, 6, 0] == pytest.approx(wanted), name


def test_a_record_goes_on_to_the_same_bytes(tmp_path):
    everything, first, second = ErrorTable(), ErrorTable(), ErrorTable()
    scale = SeasonalScale()
    for i in range(4):
        values = made_forecasts.record(i)
        scale.add(f"p{i}", values, ORIGINS, 24)
        for m, method in enumerate(("a", "b")):
            found = made_forecasts.forecasts(f"p{i}", values, 1.0 + m, seed=m)
            everything.add(method, found)
            (first if i < 2 else second).add(method, found)
    parts = {m: [first.record(m), second.record(m, ["p3"])] for m in ("a", "b")}
    gone_on = ErrorTable()
    for method, tables in parts.items():
        for number, table in enumerate(tables):
            file = tmp_path / f"{method}{number}.parquet"
            pq.write_table(table, file)
            gone_on.restore(method, pq.read_table(file))
    assert gone_on.done("a") == {"p0", "p1", "p3"}
    assert gone_on.done("c") == frozenset()
    values = made_forecasts.record(2)
    for m, method in enumerate(("a", "b")):
        gone_on.add(method, made_forecasts.forecasts("p2", values, 1.0 + m, seed=m))
    wanted, found = everything.finish(scale), gone_on.finish(scale)
    assert wanted.participants == found.participants
    for name, array in wanted.values.items():
        assert array.tobytes() == found.values[name].tobytes(), name
    assert wanted.by_window == found.by_window
    np.testing.assert_array_equal(wanted.windows, found.windows)


def test_substituted_cells_are_counted_over_all_channels():
    metrics = made_forecasts.user_metrics(2, ("good",))
    asked = 2 * 3 * 24
    assert metrics.fallback_rates("good")["ch_2"] == pytest.approx(2 * 2 / asked)
    assert "ch_0" not in metrics.fallback_rates("good")
    assert metrics.fallback_rate("good") == pytest.approx(2 * sum(np.arange(19) % 3) / (19 * asked))
    assert metrics.windows.tolist() == [3, 3]


def test_methods_come_in_the_order_asked_for():
    table, scale = ErrorTable(), SeasonalScale()
    values = made_forecasts.record(0)
    for method in ("b", "a"):
        table.add(method, made_forecasts.forecasts("p", values, 1.0))
    assert table.finish(scale).methods == ("b", "a")
    assert table.finish(scale, ["a", "b"]).methods == ("a", "b")
    with pytest.raises(ConfigError, match="no window of 'c'"):
        table.finish(scale, ["c"])


def test_what_is_no_forecast_is_refused():
    values = made_forecasts.record(0)
    found = made_forecasts.forecasts("p", values, 1.0)
    found.point[0, 0, 0] = np.nan
    with pytest.raises(MethodError, match="m: forecasts of participant p are not finite"):
        ErrorTable().add("m", found)
    with pytest.raises(ValueError, match="point has shape"):
        dataclasses.replace(found, point=found.point[:, :, :3])
    with pytest.raises(ConfigError, match="no window"):
        ErrorTable().finish(SeasonalScale())
    with pytest.raises(StoreError, match="not a record"):
        ErrorTable().restore("m", pa.table({"participant": ["p"]}))
