"""The fits behind AutoARIMA and AutoETS, one series at a time: what runs in each of their processes.

Hyndman and Khandakar 2008 (automatic ARIMA) and Hyndman et al. 2002 (automatic exponential smoothing), through
statsforecast, an extra: `pip install 'wearjax[arima]'`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from jaxtyping import Float32, Float64

from wearjax.channels import HOURS_PER_DAY
from wearjax.errors import ConfigError

Status = Literal["fitted", "failed", "timed_out"]

REVISION = 1  # of what follows; kept forecasts of another one are not used
INTERVAL_PERCENT = 80  # from the quantile .1 to the quantile .9
MAX_P = MAX_Q = 5
MAX_D = 2
SEASON_HOURS = HOURS_PER_DAY
MAX_INVERSE_ROOT = 0.99  # a model with a root so near to the unit circle is not taken


@dataclass(frozen=True, eq=False)
class Task:
    """One series to fit.

    Attributes:
        kind: a key of `FITS`.
        options: keywords of that fit.
        limit_s: processor seconds; None for no limit.
    """

    kind: str
    series: Float64[np.ndarray, "hour"]
    horizon: int
    options: Mapping[str, Any] = field(default_factory=dict)
    limit_s: float | None = None


class Outcome(NamedTuple):
    """What became of a task; without a fit the last value of the series stands in the three rows.

    Attributes:
        values: point, lower and upper end of the interval.
        reason: why there is no fit.
        processor_s: what it took.
    """

    status: Status
    values: Float32[np.ndarray, "3 horizon"]
    reason: str = ""
    processor_s: float = 0.0


class _OutOfTime(BaseException):
    """Not an Exception: the library catches those inside a fit."""


def run(task: Task) -> Outcome:
    """Fits one series. A fit that fails, or meets the limit, is told by the status."""
    start = time.process_time()
    return _outcome(task)._replace(processor_s=time.process_time() - start)


def _outcome(task: Task) -> Outcome:
    last = np.full((3, task.horizon), task.series[-1], np.float32)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), _time_limit(task.limit_s):
            warnings.simplefilter("ignore")
            values = FITS[task.kind](task.series, task.horizon, **task.options).astype(np.float32)
            finite = bool(np.isfinite(values[0]).all())
    except _OutOfTime:
        return Outcome("timed_out", last, f"no result after {task.limit_s:g} s")
    except Exception as error:  # the library raises bare ones, and any failure falls back
        first_line = next(iter(str(error).splitlines()), "")
        return Outcome("failed", last, f"{type(error).__name__}: {first_line}")
    return Outcome("fitted", values) if finite else Outcome("failed", last, "the forecast is not finite")


def require_library() -> None:
    """Raises ConfigError where statsforecast is not installed."""
    if importlib.util.find_spec("statsforecast") is None:
        raise ConfigError(
            "AutoARIMA and AutoETS need statsforecast; install it with: pip install 'wearjax[arima]'"
        )


def load_library() -> None:
    """Imports what the fits need, which takes seconds that belong to no series. Raises ConfigError without it."""
    require_library()
    import statsforecast.models  # noqa: F401


def can_limit_time() -> bool:
    """Whether the running thread can interrupt a fit: signals reach only the main one, and not on Windows."""
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raises _OutOfTime in the block once this process has used that many seconds of processor time.

    Processor time and not the clock's: on a machine with other work the same series meet the limit.
    """
    if seconds is None:
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _raise_out_of_time)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        finally:  # the signal may come before the timer is off
            signal.signal(signal.SIGVTALRM, before)


def _raise_out_of_time(number: int, frame: FrameType | None) -> NoReturn:
    raise _OutOfTime


def orders(n_hours: int, *, max_order: int | None) -> list[tuple[int, int]]:
    """The (p, q) that are tried, in order.

    Args:
        n_hours: a third of the series is the longest lag.
        max_order: of p + q; None for all.
    """
    third = n_hours // 3
    return [
        (p, q)
        for p in range(min(MAX_P, third) + 1)
        for q in range(min(MAX_Q, third) + 1)
        if max_order is None or p + q <= max_order
    ]


def arima(
    series: Float64[np.ndarray, "hour"], horizon: int, *, max_order: int | None
) -> Float64[np.ndarray, "3 horizon"]:
    """Forecast of the ARIMA(p, d, q) with a constant and the lowest AIC; d by KPSS tests.

    The orders are compared on the differenced series, centred and divided by its deviation. Its likelihood is that
    of the series itself up to a factor that all of them share, and the optimizer, which knows no scales, finds it:
    beside a drift as a regression on time it stays at its start.

    Raises:
        ValueError: no model can be estimated.
    """
    from statsforecast.arima import ndiffs
    from statsforecast.models import ARIMA

    d = int(ndiffs(series, max_d=MAX_D))
    steps = np.diff(series, n=d)
    centre, scale = float(steps.mean()), float(steps.std()) or 1.0
    coefficients, mean = _lowest_aic((steps - centre) / scale, max_order=max_order)
    constant = centre + scale * mean
    p, q = (sum(name.startswith(part) for name in coefficients) for part in ("ar", "ma"))
    # What the constant alone makes of the series: a level, a line or a parabola.
    hours = np.arange(len(series) + horizon, dtype=np.float64)
    course = constant * (np.ones_like(hours), hours, hours * (hours - 1) / 2)[d]
    model = ARIMA(order=(p, d, q), include_mean=False, fixed=coefficients, method="ML")
    rows = _rows(model.fit(series - course[: len(series)]).predict(horizon, level=[INTERVAL_PERCENT]))
    return rows + course[len(series) :]


def _lowest_aic(
    steps: Float64[np.ndarray, "hour"], *, max_order: int | None
) -> tuple[dict[str, float], float]:
    """The AR and MA coefficients, by name, and the mean of the best model of a stationary series."""
    from statsforecast.models import ARIMA

    best, lowest = None, math.inf
    for p, q in orders(len(steps), max_order=max_order):
        try:
            # Exact likelihood from the start: a start at the conditional sum of squares costs a third more.
            model = ARIMA(order=(p, 0, q), include_mean=True, method="ML").fit(steps).model_
        except (ValueError, np.linalg.LinAlgError):
            continue
        aic, state = float(model["aic"]), model["model"]
        if math.isfinite(aic) and aic < lowest and away_from_unit_circle(state["phi"], state["theta"]):
            best, lowest = model, aic
    if best is None:
        raise ValueError("no ARIMA model can be estimated")
    found = {name: float(value) for name, value in best["coef"].items()}
    return found, found.pop("intercept")


def ets(
    series: Float64[np.ndarray, "hour"], horizon: int, *, season: int
) -> Float64[np.ndarray, "3 horizon"]:
    """Forecast of the exponential smoothing with the lowest AIC: errors, trend and season chosen together."""
    from statsforecast import ets as library

    model = library.ets_f(series, m=season if len(series) >= 2 * season else 1, model="ZZZ", ic="aic")
    return _rows(library.forecast_ets(model, horizon, level=[INTERVAL_PERCENT]))


def away_from_unit_circle(phi: Float64[np.ndarray, "p"], theta: Float64[np.ndarray, "q"]) -> bool:
    """Whether all inverse roots of 1 - φ1 x - φ2 x² - … and of 1 + θ1 x + … are at most 0.99 in size."""
    # The inverse roots of a polynomial are the roots of the same read backwards.
    inverse = [np.roots(np.concatenate([[1.0], part])) for part in (-phi, theta)]
    return bool(np.all(np.abs(np.concatenate(inverse)) <= MAX_INVERSE_ROOT))


def _rows(found: Mapping[str, Any]) -> Float64[np.ndarray, "3 horizon"]:
    ends = (f"lo-{INTERVAL_PERCENT}", f"hi-{INTERVAL_PERCENT}")
    return np.stack([np.asarray(found[key], np.float64) for key in ("mean", *ends)])


FITS: dict[str, Callable[..., Float64[np.ndarray, "3 horizon"]]] = {"arima": arima, "ets": ets}
