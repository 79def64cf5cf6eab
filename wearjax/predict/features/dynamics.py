"""The 266 day-to-day features of a participant (OpenMHC prediction track, XGBoost: dynamics of daily series).

Moments and an ARIMA model of 14 daily series, and cross-correlations of 8 of them at lags of up to two days. Days
follow each other by date; gaps in the calendar are ignored.
"""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Float64

from wearjax.predict.features import arima, over_days
from wearjax.predict.features.daily import DailyTable

# Series, and the daily columns they are.
SERIES = {
    "watch_steps_sum": "watch_steps",
    "iphone_steps_sum": "iphone_steps",
    "iphone_flights_sum": "iphone_flights",
    "watch_distance_sum": "watch_distance",
    "iphone_distance_sum": "iphone_distance",
    "watch_hr_median": "watch_hr_median",
    "watch_hr_p5": "watch_hr_p5",
    "watch_hr_p95": "watch_hr_p95",
    "watch_energy_sum": "watch_energy",
    "sleep_minutes": "sleep_minutes",
    "inbed_minutes": "inbed_minutes",
    "watch_active_minutes": "watch_active_minutes",
    "iphone_active_minutes": "iphone_active_minutes",
    "workout_minutes": "workout_minutes",
}
MOMENTS = ("N", "RMS", "VAR", "STD", "POWER", "PEAK", "P2P", "CREST_FACTOR", "SKEW", "KURTOSIS")
ARIMA_PARAMETERS = ("ar.L1", "ar.L2", "sigma2")
ARIMA_DAYS_MIN = 15
CORRELATED = (
    "inbed_minutes",
    "sleep_minutes",
    "watch_active_minutes",
    "watch_energy_sum",
    "watch_hr_median",
    "watch_hr_p5",
    "watch_steps_sum",
    "workout_minutes",
)
PAIRS = tuple(itertools.combinations(CORRELATED, 2))
LAGS = (0, 1, 2)
CORRELATED_DAYS_MIN = 10

NAMES: tuple[str, ...] = (
    *(f"sp_stat_{moment}_{name}" for name in SERIES for moment in MOMENTS),
    *(f"sp_arima_{parameter}_{name}" for name in SERIES for parameter in ARIMA_PARAMETERS),
    *(f"cc_lag{lag}_{a}__{b}" for a, b in PAIRS for lag in LAGS),
)


def features(table: DailyTable) -> Float64[np.ndarray, "266"]:
    """The features in the order of `NAMES`; NaN where they are not defined."""
    series = over_days.finite(np.stack([table.columns[column] for column in SERIES.values()]))
    correlated = series[[list(SERIES).index(name) for name in CORRELATED]]
    found = [moments(series), arima_parameters(series), cross_correlations(correlated)]
    return np.concatenate([part.ravel() for part in found])


def moments(series: Float64[np.ndarray, "series day"]) -> Float64[np.ndarray, "series 10"]:
    """`MOMENTS` of each series, missing days left out.

    Count, root mean square, population variance and spread, mean square, largest size, range, PEAK / RMS, third
    standardized moment, fourth standardized moment less 3. What has no denominator is NaN.
    """
    known = ~np.isnan(series)
    count = known.sum(axis=1)
    n = np.where(count > 0, count, np.nan)
    values = np.where(known, series, 0)
    low = np.where(known, series, np.inf).min(axis=1)
    high = np.where(known, series, -np.inf).max(axis=1)
    span = np.subtract(high, low, out=np.full(len(n), np.nan), where=count > 0)
    # Of a constant series the mean is rounded, and must not leave a spread.
    mean = np.where(span == 0, low, values.sum(axis=1) / n)
    centred = np.where(known, values - mean[:, None], 0)
    power = (values**2).sum(axis=1) / n
    variance = (centred**2).sum(axis=1) / n
    rms, spread = np.sqrt(power), np.sqrt(variance)
    peak = np.where(count > 0, np.abs(values).max(axis=1), np.nan)
    third, fourth = ((centred**k).sum(axis=1) / n for k in (3, 4))
    columns = (
        count, rms, variance, spread, power, peak, span,
        _quotient(peak, rms), _quotient(third, spread**3), _quotient(fourth, variance**2) - 3,
    )  # fmt: skip
    return np.stack(columns, axis=1)


def _quotient(top: Float64[np.ndarray, "n"], bottom: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    return np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)


def arima_parameters(series: Float64[np.ndarray, "series day"]) -> Float64[np.ndarray, "series 3"]:
    """`ARIMA_PARAMETERS` of each series without its missing days; NaN below 15 values."""
    out = np.full((len(series), len(ARIMA_PARAMETERS)), np.nan)
    known = ~np.isnan(series)
    long = np.flatnonzero(known.sum(axis=1) >= ARIMA_DAYS_MIN)
    if len(long):
        out[long] = arima.fit([series[i, known[i]] for i in long])
    return out


def cross_correlations(
    series: Float64[np.ndarray, "series day"],
) -> Float64[np.ndarray, "pair lag=3"]:
    """Correlation of the first series `lag` days later with the second, over the days on which none is missing.

    Biased: each lag divides by the number of days. NaN below 10 such days, and for a constant series.
    """
    n_series = len(series)
    first, second = np.triu_indices(n_series, k=1)
    days = series[:, ~np.isnan(series).any(axis=0)]
    n = days.shape[1]
    if n < CORRELATED_DAYS_MIN:
        return np.full((len(first), len(LAGS)), np.nan)
    moving = days.max(axis=1) > days.min(axis=1)
    centred = days - days.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    score = np.divide(
        centred, spread, out=np.full_like(centred, np.nan), where=moving[:, None] & (spread > 0)
    )
    lagged = [np.sum(score[first, lag:] * score[second, : n - lag], axis=1) / n for lag in LAGS]
    return np.stack(lagged, axis=1)
