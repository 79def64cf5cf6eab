"""AutoARIMA and AutoETS: each channel of each window is a series that is fitted anew.

The rules are those of OpenMHC's evaluation. Its reference fits with pmdarima and statsmodels (through sktime); here
statsforecast does, an extra: `pip install 'wearjax[arima]'`.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64

from wearjax.errors import ConfigError, MethodError
from wearjax.predict.forecasters import univariate_cache, univariate_fits
from wearjax.predict.forecasters.univariate_cache import ForecastCache
from wearjax.predict.forecasters.univariate_fits import Outcome, Task
from wearjax.predict.forecasters.univariate_pool import FitPool

CONTEXT_HOURS = 336
CONSTANT_STD = 1e-10
LEVELS = (0.1, 0.5, 0.9)
MAX_ORDER = 5

Forecasts = list[tuple[Float32[np.ndarray, "channel horizon"], Float32[np.ndarray, "channel horizon 3"]]]


class _Univariate:
    """What the two have in common: series out of histories, fits side by side, counts."""

    name: str
    quantile_levels = LEVELS

    def __init__(
        self,
        *,
        kind: str,
        options: dict[str, Any],
        time_limit: float | None,
        jobs: int | None,
        cache: str | os.PathLike | None,
        progress: Callable[[int, int], None] | None,
    ):
        if time_limit is not None and not (time_limit > 0 and math.isfinite(time_limit)):
            raise ConfigError(f"time_limit: must be above 0 seconds, got {time_limit}")
        self._kind, self._options = kind, options
        self._time_limit, self._progress = time_limit, progress
        self._pool = FitPool(jobs)
        self._cache = None if cache is None else ForecastCache(Path(cache))
        if self._cache is None or not len(self._cache):
            univariate_fits.require_library()
        self.counts = {"series": 0, "constant": 0, "failed": 0, "timed_out": 0}
        self.reasons: Counter[str] = Counter()
        self.processor_s = 0.0

    @property
    def settings(self) -> dict[str, Any]:
        """What changes its forecasts."""
        return {**self._options, "context_hours": CONTEXT_HOURS, "time_limit": self._time_limit}

    def predict(
        self, history: Float32[np.ndarray, "channel hour"], horizon: int
    ) -> tuple[Float32[np.ndarray, "channel horizon"], Float32[np.ndarray, "channel horizon 3"]]:
        """Point and quantiles of one history; NaN = missing. Raises as `predict_batch` does."""
        return self.predict_batch([history], horizon)[0]

    def predict_batch(
        self, histories: Sequence[Float32[np.ndarray, "channel hour"]], horizon: int
    ) -> Forecasts:
        """Points and quantiles of several histories, each of its own length; equal series are fitted once.

        Raises:
            MethodError: a history without hours, or a horizon below 1.
            ConfigError: statsforecast is needed and not installed, or a process died.
            StoreError: the cache cannot be written.
        """
        if horizon < 1:
            raise MethodError(f"{self.name}: horizon must be at least 1, got {horizon}")
        forecasts, waiting = [], []
        for history in histories:
            if history.ndim != 2 or not history.shape[1]:
                raise MethodError(f"{self.name}: expected a history (channels, hours), got {history.shape}")
            series = np.ascontiguousarray(self._filled(np.asarray(history, np.float64))[:, -CONTEXT_HOURS:])
            constant = series.std(axis=1) < CONSTANT_STD
            values = np.repeat(series[:, None, -1:], 3, axis=1).repeat(horizon, axis=2).astype(np.float32)
            forecasts.append(values)
            waiting += [(values[channel], series[channel]) for channel in np.flatnonzero(~constant)]
            self.counts["series"] += len(series)
            self.counts["constant"] += int(constant.sum())
        outcomes = self._fitted([self._task(series, horizon) for _, series in waiting])
        for (values, _), outcome in zip(waiting, outcomes, strict=True):
            values[:] = outcome.values
            if outcome.status != "fitted":
                self.counts[outcome.status] += 1
                self.reasons[outcome.reason or "known from the cache"] += 1
        return [(values[:, 0], np.stack([values[:, i] for i in (1, 0, 2)], axis=-1)) for values in forecasts]

    def close(self) -> None:
        """Ends the processes, which otherwise end with the program."""
        self._pool.close()

    def _filled(self, history: Float64[np.ndarray, "channel hour"]) -> Float64[np.ndarray, "channel hour"]:
        raise NotImplementedError

    def _task(self, series: Float64[np.ndarray, "hour"], horizon: int) -> Task:
        return Task(self._kind, series, horizon, self._options, self._time_limit)

    def _fitted(self, tasks: list[Task]) -> list[Outcome]:
        """The outcome of each, every distinct series fitted once and what is known not at all."""
        limit, cache = self._time_limit, self._cache
        keys = [univariate_cache.key_of(task) for task in tasks]
        distinct = dict(zip(keys, tasks, strict=True))
        found: dict[str, Outcome] = {}
        if cache is not None:
            known = ((key, cache.get(key, limit_s=limit)) for key in distinct)
            found = {key: outcome for key, outcome in known if outcome is not None}
        missing = [key for key in distinct if key not in found]
        try:
            for at, outcome in self._pool.each([distinct[key] for key in missing]) if missing else ():
                found[missing[at]] = outcome
                self.processor_s += outcome.processor_s
                if cache is not None:
                    cache.add(missing[at], outcome, limit_s=limit)
                if self._progress is not None:
                    self._progress(len(found), len(distinct))
        finally:  # what an interrupted call has fitted is worth keeping
            if cache is not None:
                cache.flush()
        return [found[key] for key in keys]


class AutoARIMA(_Univariate):
    """ARIMA(p, d, q) by AIC over the last 336 hours, missing hours as zeros (OpenMHC evaluation, AutoARIMA).

    Missing hours become 0 before the history is cut. A series that is constant (standard deviation below 1e-10), or
    that no model fits, repeats its last value, in all quantiles. d is 0 to 2 by KPSS tests; p and q are tried from 0
    to 5, all of them with p + q up to `max_order` and a constant: a mean, a drift or, for d = 2, a bend. Models whose
    AR or MA part has a root within 1 % of the unit circle are left out. There is no season: the reference asks for
    seasonal terms without a period, and a period of 1 has none. Quantiles .1 and .9 are the ends of the normal 80 %
    interval, .5 is the point. Flags are forecast like any other channel, and may leave [0, 1].

    The reference states starting orders of 2, which its library reads in stepwise searches only: the exhaustive one
    starts at 0 and keeps p + q at most 5, the default that the reference leaves in place.

    What can differ from the reference is the optimizer, here BFGS until it converges on the standardized series, there
    at most 50 iterations of L-BFGS: where these stop early, another order of nearly the same AIC can win.

    Args:
        time_limit: processor seconds a series; one that needs more repeats its last value and is counted.
        jobs: processes; None takes one a core once a call has more than a few series, and this process until then.
            Several start by importing the program's main module, which therefore must be guarded
            (`if __name__ == "__main__"`). Forecasts do not depend on it.
        cache: folder that keeps every fit; an interrupted run continues there, and statsforecast need not be
            installed where all series are known.
        progress: called with (series known, distinct series to know) of a call.
        max_order: most of p + q; None tries all 36 pairs, which takes three times as long.

    Attributes:
        counts: `series` asked for, and of these `constant`, `failed` and `timed_out`, which got their last value.
        reasons: why, and how often.
        processor_s: seconds of all fits so far, in whatever process.

    Raises:
        ConfigError: statsforecast is not installed, or an impossible argument. StoreError: an unreadable cache.
    """

    name = "autoarima"

    def __init__(
        self,
        *,
        time_limit: float | None = None,
        jobs: int | None = None,
        cache: str | os.PathLike | None = None,
        progress: Callable[[int, int], None] | None = None,
        max_order: int | None = MAX_ORDER,
    ):
        if max_order is not None and max_order < 0:
            raise ConfigError(f"max_order: must not be negative, got {max_order}")
        super().__init__(
            kind="arima",
            options={"max_order": max_order},
            time_limit=time_limit,
            jobs=jobs,
            cache=cache,
            progress=progress,
        )

    def _filled(self, history: Float64[np.ndarray, "channel hour"]) -> Float64[np.ndarray, "channel hour"]:
        return np.where(np.isnan(history), 0.0, history)


class AutoETS(_Univariate):
    """Exponential smoothing by AIC over the last 336 hours, gaps filled forward (OpenMHC evaluation, AutoETS).

    A missing hour takes the value before it, a leading gap the first value, an empty channel 0, before the history
    is cut. Error, trend and season are chosen among additive and, for positive series, multiplicative ones, the
    trend additive, damped or none; the season is 24 hours, or none in histories of less than 48. Constant series,
    fits that fail, quantiles and flags are as in `AutoARIMA`.

    What can differ from the reference, which searches the same models with statsmodels: bounds, starting values and
    optimizer of the smoothing parameters and initial states (Nelder-Mead here), and with these the model that wins;
    intervals of models with multiplicative season come from a formula here and from simulation there.

    Args:
        time_limit, jobs, cache, progress: as in `AutoARIMA`.

    Attributes:
        counts, reasons, processor_s: as in `AutoARIMA`.

    Raises:
        ConfigError: statsforecast is not installed, or an impossible argument. StoreError: an unreadable cache.
    """

    name = "autoets"

    def __init__(
        self,
        *,
        time_limit: float | None = None,
        jobs: int | None = None,
        cache: str | os.PathLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ):
        super().__init__(
            kind="ets",
            options={"season": univariate_fits.SEASON_HOURS},
            time_limit=time_limit,
            jobs=jobs,
            cache=cache,
            progress=progress,
        )

    def _filled(self, history: Float64[np.ndarray, "channel hour"]) -> Float64[np.ndarray, "channel hour"]:
        observed = ~np.isnan(history)
        hours = np.arange(history.shape[1])
        source = np.maximum.accumulate(np.where(observed, hours, -1), axis=1)
        first = np.argmax(observed, axis=1)  # 0 in an empty channel
        filled = np.take_along_axis(history, np.where(source < 0, first[:, None], source), axis=1)
        return np.where(np.isnan(filled), 0.0, filled)
