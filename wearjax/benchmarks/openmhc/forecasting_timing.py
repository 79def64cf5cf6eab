"""How long the statistical forecasters take on this machine, on hours of the synthetic cohort."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import clean, hourly
from wearjax.errors import ConfigError
from wearjax.predict.forecasters import arima
from wearjax.predict.forecasters.arima import AutoARIMA, AutoETS
from wearjax.sources import synthetic

HORIZON_HOURS = 24
METHODS: dict[str, type[AutoARIMA] | type[AutoETS]] = {AutoARIMA.name: AutoARIMA, AutoETS.name: AutoETS}
_DAYS_OF_CONTEXT = arima.CONTEXT_HOURS // HOURS_PER_DAY


@dataclass(frozen=True)
class Timing:
    """What the forecasts of some series cost.

    Attributes:
        jobs: processes; None where the forecaster chose.
        processor_s: of all fits, in whatever process; loading the library is not in it.
        clock_s: of the call, processes started in it.
        counts: of the forecaster.
    """

    method: str
    jobs: int | None
    processor_s: float
    clock_s: float
    counts: dict[str, int]

    @property
    def seconds_a_fit(self) -> float:
        return self.processor_s / max(self.counts["series"] - self.counts["constant"], 1)


def series(n_series: int, *, seed: int = 0) -> Float32[np.ndarray, "series hour=336"]:
    """Series that vary, two weeks of hours each, from any channel of made participants; NaN = missing.

    Some are constant once their gaps are filled forward. Raises ConfigError for none.
    """
    if n_series < 1:
        raise ConfigError(f"series: at least 1 is needed, got {n_series}")
    out: list[np.ndarray] = []
    for window in _windows(seed):
        zeros = np.where(np.isnan(window), 0.0, window).astype(np.float64)
        out += list(window[zeros.std(axis=1) >= arima.CONSTANT_STD])
        if len(out) >= n_series:
            break
    return np.stack(out[:n_series])


def measure(
    method: str,
    *,
    n_series: int,
    jobs: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    seed: int = 0,
) -> Timing:
    """Forecasts a day of made series by `autoarima` or `autoets`.

    Raises:
        ConfigError: another method, no series, or statsforecast is not installed.
    """
    if method not in METHODS:
        raise ConfigError(f"method: expected {' or '.join(METHODS)}, got {method!r}")
    forecaster = METHODS[method](jobs=jobs, time_limit=time_limit, progress=progress)
    history = series(n_series, seed=seed)
    try:
        start = time.perf_counter()
        forecaster.predict(history, HORIZON_HOURS)
        clock_s = time.perf_counter() - start
    finally:
        forecaster.close()
    return Timing(method, jobs, forecaster.processor_s, clock_s, dict(forecaster.counts))


def rows(timings: Sequence[Timing]) -> list[dict]:
    """A line of text a timing, to print; the last column is the measured rate times what it names."""
    return [
        {
            "method": timing.method,
            "series fitted": timing.counts["series"] - timing.counts["constant"],
            "processor s a series": f"{timing.seconds_a_fit:.2f}",
            "min for 500 series on 2 cores": f"{timing.seconds_a_fit * 500 / 2 / 60:.1f}",
        }
        for timing in timings
    ]


def _windows(seed: int) -> Iterator[Float32[np.ndarray, "channel=19 hour=336"]]:
    """One window of each participant whose record is long enough, without end."""
    for index in range(1_000_000):
        cohort = synthetic.Cohort(n_participants=index + 1, days_per_participant=24, seed=seed)
        days = synthetic.simulate_participant(cohort, index).days
        place = [(day.date - days[0].date).days for day in days]
        hours = np.full((place[-1] + 1, N_CHANNELS, HOURS_PER_DAY), np.nan, np.float32)
        hours[place] = hourly.aggregate(np.stack([day.values for day in days]))
        if len(hours) >= _DAYS_OF_CONTEXT:
            record = clean.zero_to_nan(hours.swapaxes(0, 1).reshape(N_CHANNELS, -1))
            yield record[:, -arima.CONTEXT_HOURS :]
