"""AutoARIMA and AutoETS: what is fitted, what falls back and is counted, what is kept, and against a plain search."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import signal
import threading

import numpy as np
import pytest

from wearjax.errors import ConfigError, MethodError, StoreError
from wearjax.predict import forecaster
from wearjax.predict.forecasters import univariate_fits
from wearjax.predict.forecasters.arima import AutoARIMA, AutoETS

HAVE_LIBRARY = importlib.util.find_spec("statsforecast") is not None
needs_library = pytest.mark.skipif(not HAVE_LIBRARY, reason="the extra [arima] is not installed")
METHODS = (AutoARIMA, AutoETS)


class Fits:
    """Stands for the library: remembers the series, and forecasts their first value."""

    def __init__(self):
        self.series: list[np.ndarray] = []

    def __call__(self, series, horizon, **options):
        self.series.append(series)
        return np.stack([np.full(horizon, series[0] + shift) for shift in (0, -1, 1)])


@pytest.fixture
def fits(monkeypatch) -> Fits:
    found = Fits()
    monkeypatch.setattr(univariate_fits, "FITS", {"arima": found, "ets": found})
    monkeypatch.setattr(univariate_fits, "load_library", lambda: None)
    monkeypatch.setattr(univariate_fits, "require_library", lambda: None)
    return found


def replace_fit(monkeypatch, fit) -> None:
    monkeypatch.setattr(univariate_fits, "FITS", {"arima": fit, "ets": fit})


def history(seed: int, *, channels: int = 19, hours: int = 48) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(channels, hours)).astype(np.float32)


# What becomes of missing hours, and which series are fitted.


@pytest.mark.parametrize(
    ("method", "expected"),
    [(AutoARIMA, [[0, 2, 0, 3, 0], [0, 0, 0, 0, 5]]), (AutoETS, [[2, 2, 2, 3, 3]])],
)
def test_missing_hours_are_zeros_for_arima_and_filled_forward_for_ets(fits, method, expected):
    nan = np.nan
    given = np.array([[nan, 2, nan, 3, nan], [nan, nan, nan, nan, 5], [nan] * 5], np.float32)
    found = method(jobs=1)
    point, _ = found.predict(given, 2)
    assert np.array_equal(fits.series, expected)
    # One value filled both ways is constant, and an empty channel is zero.
    assert found.counts["constant"] == 3 - len(expected)
    assert point[2].tolist() == [0, 0]


def test_the_context_is_two_weeks_and_gaps_are_filled_from_before_it(fits):
    given = history(0, channels=1, hours=400)
    given[0, 60:70] = np.nan
    AutoETS(jobs=1).predict(given, 1)
    AutoARIMA(jobs=1).predict(given, 1)
    smooth, zeros = fits.series
    assert len(smooth) == len(zeros) == 336
    assert np.array_equal(smooth[:6], np.full(6, given[0, 59], np.float64))
    assert np.array_equal(zeros[:6], np.zeros(6))
    assert np.array_equal(zeros[6:], given[0, 70:])


@pytest.mark.parametrize("method", METHODS)
def test_constant_series_repeat_their_last_value_unfitted(fits, method):
    given = np.full((19, 24), 7, np.float32)
    given[1] = 0
    given[2] = np.nan
    given[3, 5] = np.nextafter(np.float32(7), np.float32(8))  # 5e-7 away varies, for double precision
    found = method(jobs=1)
    point, quantiles = found.predict(given, 3)
    assert found.counts == {"series": 19, "constant": 18, "failed": 0, "timed_out": 0}
    assert len(fits.series) == 1
    assert np.array_equal(point[[0, 1, 2]], [[7] * 3, [0] * 3, [0] * 3])
    fitted = np.arange(19) == 3
    assert np.array_equal(quantiles[~fitted], np.repeat(point[~fitted, :, None], 3, axis=2))


def test_quantiles_are_in_the_order_of_their_levels_and_the_middle_is_the_point(fits):
    found = AutoARIMA(jobs=1)
    checked = forecaster.call_predict(found, history(1), 24)
    assert checked.levels == (0.1, 0.5, 0.9)
    assert np.array_equal(checked.quantiles[..., 1], checked.point)
    assert np.allclose(checked.quantiles - checked.point[..., None], [-1, 0, 1], atol=1e-6)


def test_equal_series_are_fitted_once_and_all_counted(fits):
    found = AutoARIMA(jobs=1)
    one = history(2)
    batch = forecaster.call_predict_batch(found, [one, one, history(3, hours=72)], 24)
    assert len(fits.series) == 38
    assert found.counts["series"] == 57
    assert np.array_equal(batch[0].point, batch[1].point)
    assert np.array_equal(batch[0].point, found.predict(one, 24)[0])


# Failures and limits.


@pytest.mark.parametrize("problem", ["raises", "not finite", "beyond float32"])
def test_a_failed_fit_repeats_the_last_value_and_is_counted(fits, monkeypatch, problem):
    def fit(series, horizon, **options):
        if problem == "raises":
            raise Exception("no model\nat all")
        return np.full((3, horizon), np.nan if problem == "not finite" else 1e300)

    replace_fit(monkeypatch, fit)
    found = AutoETS(jobs=1)
    given = history(4)
    point, quantiles = found.predict(given, 24)
    assert found.counts["failed"] == 19
    assert found.reasons == {
        "Exception: no model" if problem == "raises" else "the forecast is not finite": 19
    }
    assert np.array_equal(point, np.repeat(given[:, -1:], 24, axis=1))
    assert np.array_equal(quantiles, np.repeat(point[..., None], 3, axis=2))


def test_the_time_limit_interrupts_a_fit_that_would_never_end(fits, monkeypatch):
    before = signal.getsignal(signal.SIGVTALRM)

    def endless(series, horizon, **options):
        while True:
            with contextlib.suppress(Exception):  # the library does this, and must not swallow the limit
                sum(range(1000))

    replace_fit(monkeypatch, endless)
    found = AutoARIMA(jobs=1, time_limit=0.02)
    given = history(5, channels=3)
    point, _ = found.predict(given, 2)
    assert found.counts == {"series": 3, "constant": 0, "failed": 0, "timed_out": 3}
    assert np.array_equal(point, np.repeat(given[:, -1:], 2, axis=1))
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before


# The cache.


def test_an_interrupted_call_continues_where_it_stopped(fits, monkeypatch, tmp_path):
    given = history(6)
    expected = AutoARIMA(jobs=1).predict(given, 24)
    fits.series.clear()

    def until_the_fifth(series, horizon, **options):
        if len(fits.series) == 5:
            raise KeyboardInterrupt
        return fits(series, horizon)

    replace_fit(monkeypatch, until_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        AutoARIMA(jobs=1, cache=tmp_path).predict(given, 24)
    replace_fit(monkeypatch, fits)
    told: list[tuple[int, int]] = []
    resumed = AutoARIMA(jobs=1, cache=tmp_path, progress=lambda *now: told.append(now)).predict(given, 24)
    assert len(fits.series) == 5 + 14
    assert told == [(n, 19) for n in range(6, 20)]
    assert all(np.array_equal(a, b) for a, b in zip(resumed, expected, strict=True))
    assert not list(tmp_path.glob(".*"))


def test_a_known_series_needs_no_library_and_counts_as_before(fits, monkeypatch, tmp_path):
    def half_fail(series, horizon, **options):
        if series[0] < 0:
            raise ValueError("negative")
        return fits(series, horizon)

    replace_fit(monkeypatch, half_fail)
    given = history(7)
    first = AutoETS(jobs=1, cache=tmp_path)
    expected = first.predict(given, 24)
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    second = AutoETS(jobs=1, cache=tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(second.predict(given, 24), expected, strict=True))
    assert 0 < first.counts["failed"] < 19
    assert second.counts == first.counts
    with pytest.raises(ConfigError, match=r"pip install 'wearjax\[arima\]'"):
        second.predict(history(8), 24)


def test_the_cache_tells_methods_options_horizons_and_values_apart(fits, tmp_path):
    given = history(9, channels=1)
    AutoARIMA(jobs=1, cache=tmp_path).predict(given, 24)
    for other in (AutoETS(jobs=1, cache=tmp_path), AutoARIMA(jobs=1, cache=tmp_path, max_order=None)):
        other.predict(given, 24)
    again = AutoARIMA(jobs=1, cache=tmp_path)
    again.predict(given, 48)
    again.predict(given + np.float32(1), 24)
    assert len(fits.series) == 5
    again.predict(given, 24)
    assert len(fits.series) == 5


def test_a_series_out_of_time_is_fitted_again_only_under_a_longer_limit(fits, monkeypatch, tmp_path):
    given = history(10, channels=1)

    def endless(series, horizon, **options):
        while True:
            pass

    replace_fit(monkeypatch, endless)
    AutoARIMA(jobs=1, cache=tmp_path, time_limit=0.02).predict(given, 2)
    replace_fit(monkeypatch, fits)
    same = AutoARIMA(jobs=1, cache=tmp_path, time_limit=0.02)
    same.predict(given, 2)
    assert same.counts["timed_out"] == 1
    longer = AutoARIMA(jobs=1, cache=tmp_path, time_limit=60)
    longer.predict(given, 2)
    assert longer.counts["timed_out"] == 0
    assert len(fits.series) == 1
    same = AutoARIMA(jobs=1, cache=tmp_path, time_limit=0.02)  # once it is known, it is known
    same.predict(given, 2)
    assert same.counts["timed_out"] == 0
    assert len(fits.series) == 1


def test_a_file_that_is_no_cache_is_named(fits, tmp_path):
    (tmp_path / "fits-0.npz").write_bytes(b"PK")
    with pytest.raises(StoreError, match=r"fits-0\.npz"):
        AutoETS(cache=tmp_path)


# Arguments.


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit"),
        ({"jobs": 0}, "jobs"),
        ({"max_order": -1}, "max_order"),
    ],
)
def test_impossible_arguments_are_refused(fits, wrong, told):
    with pytest.raises(ConfigError, match=told):
        AutoARIMA(**wrong)


def test_impossible_histories_are_refused(fits):
    with pytest.raises(MethodError, match=r"\(19, 0\)"):
        AutoARIMA().predict(history(0, hours=0), 24)
    with pytest.raises(MethodError, match="horizon"):
        AutoETS().predict(history(0), 0)


def test_a_missing_library_is_told_at_once(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for method in METHODS:
        with pytest.raises(ConfigError, match=r"pip install 'wearjax\[arima\]'"):
            method()


# The search.


def test_the_grid_of_orders():
    pairs = univariate_fits.orders(336, max_order=5)
    assert len(pairs) == len(set(pairs)) == 21
    assert {(0, 0), (5, 0), (0, 5), (2, 3)} <= set(pairs)
    assert len(univariate_fits.orders(336, max_order=None)) == 36
    assert max(univariate_fits.orders(8, max_order=None)) == (2, 2)


def test_roots_near_the_unit_circle():
    none = np.zeros(0)
    for size in (0.5, 0.985):
        assert univariate_fits.away_from_unit_circle(np.array([size]), np.array([-size]))
    assert not univariate_fits.away_from_unit_circle(np.array([0.995]), none)
    assert not univariate_fits.away_from_unit_circle(none, np.array([0.995]))
    # (1 - 0.5 x)(1 - 0.995 x), padded with a lag that is not there
    assert not univariate_fits.away_from_unit_circle(np.array([1.495, -0.4975, 0.0]), none)


@needs_library
@pytest.mark.parametrize("d", [0, 1, 2])
def test_arima_agrees_with_the_statistics_package_of_the_reference(d):
    """The candidate with the lowest AIC, and its forecast, by statsmodels' exact likelihood."""
    from statsmodels.api import tsa

    shocks = np.random.default_rng(3).normal(size=61)
    series = np.zeros(60)
    for t in range(60):
        series[t] = 0.6 * series[t - 1] + shocks[t + 1] + 0.5
    for _ in range(d):
        series = np.cumsum(series)
    candidates = [
        tsa.SARIMAX(series, order=(p, d, q), trend="c").fit(disp=0)
        for p, q in univariate_fits.orders(60, max_order=1)
    ]
    expected = min(candidates, key=lambda one: one.aic).get_forecast(24)
    point, low, high = univariate_fits.arima(series, 24, max_order=1)
    assert np.allclose(point, expected.predicted_mean, rtol=1e-3)
    # 1.2816 is the normal quantile .9
    assert np.allclose((high - point) / 1.2816, expected.se_mean, rtol=2e-3)
    assert np.allclose((point - low) / 1.2816, expected.se_mean, rtol=2e-3)


@needs_library
def test_exponential_smoothing_follows_the_day():
    rng = np.random.default_rng(4)
    day = 10 * np.sin(2 * np.pi * np.arange(24) / 24)
    series = np.tile(day, 4) + rng.normal(size=96)
    point, low, high = univariate_fits.ets(series, 24, season=24)
    assert np.abs(point - day).mean() < 1.5
    assert np.all((low < point) & (point < high))
    flat = univariate_fits.ets(series[:47], 24, season=24)[0]  # less than two days: no season
    assert np.ptp(np.diff(flat)) < 0.5


@needs_library
def test_a_process_gives_the_same_forecasts_is_limited_and_its_death_is_told():
    """Outside the main thread, where no signal can interrupt a fit, a limit needs a process of its own."""
    given = np.concatenate([history(11, channels=2, hours=60), np.full((1, 60), np.nan, np.float32)])
    longer = history(12, channels=2, hours=336)
    here = AutoARIMA(jobs=1, max_order=1)
    there = AutoARIMA(jobs=1, max_order=1, time_limit=60)
    answers: list = []
    try:
        thread = threading.Thread(target=lambda: answers.extend(there.predict(given, 24)))
        thread.start()
        thread.join()
        assert all(np.array_equal(a, b) for a, b in zip(answers, here.predict(given, 24), strict=True))
        assert there.counts == here.counts == {"series": 3, "constant": 1, "failed": 0, "timed_out": 0}

        there._time_limit, there._options = 1e-3, {"max_order": None}  # in the process that runs already
        thread = threading.Thread(target=lambda: there.predict(longer, 24))
        thread.start()
        thread.join()
        assert there.counts["timed_out"] == 2

        (worker,) = multiprocessing.active_children()
        worker.kill()
        worker.join()
        thread = threading.Thread(target=lambda: answers.append(_error_of(there, longer)))
        thread.start()
        thread.join()
        assert isinstance(answers[-1], ConfigError)
        assert "a process of the fits died" in str(answers[-1])
    finally:
        there.close()


def _error_of(method, given) -> Exception | None:
    try:
        method.predict(given, 24)
    except Exception as error:
        return error
    return None
