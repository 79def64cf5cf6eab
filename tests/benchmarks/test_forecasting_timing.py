"""What the statistical forecasters cost: the series, and that each is counted once."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.benchmarks.openmhc import forecasting_timing
from wearjax.errors import ConfigError
from wearjax.predict.forecasters import univariate_fits


def test_series_vary_and_follow_from_the_seed():
    found = forecasting_timing.series(30, seed=3)
    assert found.shape == (30, 336)
    assert np.all(np.nan_to_num(found).std(axis=1) > 0)
    assert np.isnan(found).any()
    assert np.array_equal(found[:9], forecasting_timing.series(9, seed=3), equal_nan=True)
    assert not np.array_equal(found, forecasting_timing.series(30, seed=4), equal_nan=True)


@pytest.mark.parametrize("method", ["autoarima", "autoets"])
def test_a_timing_adds_up_the_fits(monkeypatch, method):
    def fit(series, horizon, **options):
        return np.zeros((3, horizon))

    monkeypatch.setattr(univariate_fits, "FITS", {"arima": fit, "ets": fit})
    monkeypatch.setattr(univariate_fits, "load_library", lambda: None)
    monkeypatch.setattr(univariate_fits, "require_library", lambda: None)
    told: list[tuple[int, int]] = []
    timing = forecasting_timing.measure(method, n_series=5, jobs=1, progress=lambda *now: told.append(now))
    fitted = 5 - timing.counts["constant"]
    assert timing.counts["series"] == 5
    assert told[-1] == (fitted, fitted)
    assert timing.seconds_a_fit == timing.processor_s / fitted
    (row,) = forecasting_timing.rows([timing])
    assert row["method"] == method
    assert row["series fitted"] == fitted


def test_an_unknown_method_is_refused():
    with pytest.raises(ConfigError, match="autoarima or autoets"):
        forecasting_timing.measure("arma", n_series=1)
    with pytest.raises(ConfigError, match="at least 1"):
        forecasting_timing.series(0)
