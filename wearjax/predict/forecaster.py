"""What a forecaster must offer, and the one place where its answers are checked."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Float32

from wearjax.channels import CHANNELS, N_CHANNELS
from wearjax.errors import MethodError, WearjaxError
from wearjax.predict import own_code, protocols

VARIABLE_NAMES = tuple(channel.source_name for channel in CHANNELS)
_EXTENSIONS = {"participant", "origin_date"}


@runtime_checkable
class Forecaster(Protocol):
    """Continues a participant's hours. The contract is OpenMHC's: such methods run here unchanged.

    Beside its two arguments `predict` may declare keywords, and is passed those that it declares:

        variable_names: the 19 channels as OpenMHC stores name them.
        past_covariates, future_covariates: None; the benchmark has none.
        index_days: day index of the origin, counted from the first day of the trajectory.
        participant, origin_date: whose history it is, and the calendar day of the origin; an extension of wearjax.

    A method may also declare:

        quantile_levels: the levels of its quantiles; without it, i/(n+1) for n of them.
        reset(): called after each participant.
        n_pred_steps: the only horizon that it can forecast.
        training_daily_start_hour_offset: hour of the day at which its training windows began.
        predict_batch(histories, horizon): several windows of one participant at once, an extension of wearjax.
            Gets read-only arrays, and the same keywords with `index_days` and `origin_date` one a window; returns
            an array (window, 19, horizon), a pair of that and quantiles (window, 19, horizon, level), or a list of
            what `predict` returns.
        settings: a dict of plain values that change its forecasts.
        counts: a dict of numbers that grow as it forecasts; results report them.
    """

    def predict(
        self, history: Float32[np.ndarray, "channel=19 hour"], horizon: int, /
    ) -> Float32[np.ndarray, "channel=19 horizon"] | tuple:
        """The hours that follow, or a pair of them and quantiles (19, horizon, level).

        A cell that is not finite is no forecast; seasonal naive takes its place and is counted. So it does for all
        cells where the answer is None.
        """
        ...


@dataclass(frozen=True, eq=False)
class Forecast:
    """One window's forecast.

    Attributes:
        point: need not be finite.
        quantiles: None for a method that has only points.
        levels: of the quantiles.
    """

    point: Float32[np.ndarray, "channel=19 horizon"]
    quantiles: Float32[np.ndarray, "channel=19 horizon level"] | None = None
    levels: tuple[float, ...] = ()


def call_predict(
    forecaster: Any,
    history: Float32[np.ndarray, "channel=19 hour"],
    horizon: int,
    *,
    index_days: int | None = None,
    participant: str | None = None,
    origin_date: dt.date | None = None,
    name: str | None = None,
    where: str = "",
) -> Forecast:
    """One window's forecast, checked.

    Args:
        index_days: passed on if declared.
        participant: passed on if declared.
        origin_date: passed on if declared.
        name: what errors call the method; default is what it calls itself.
        where: what errors say of the window.

    Raises:
        MethodError: no `predict`, one that fails, or an answer of another shape or type.
    """
    called = name or protocols.method_name(forecaster)
    predict = getattr(forecaster, "predict", None)
    if not callable(predict):
        raise MethodError(f"{called}: has no predict(history, horizon) method")
    told = f"{called}.predict{where and ', ' + where}"
    own = {"index_days": index_days, "participant": participant, "origin_date": origin_date}
    out = _naming(told, lambda: predict(history, horizon, **_keywords(predict, **own)))
    return _checked(out, horizon, forecaster, told)


def call_predict_batch(
    forecaster: Any,
    histories: Sequence[Float32[np.ndarray, "channel=19 hour"]],
    horizon: int,
    *,
    index_days: Sequence[int] | None = None,
    participant: str | None = None,
    origin_date: Sequence[dt.date] | None = None,
    name: str | None = None,
    where: str = "",
) -> list[Forecast]:
    """The forecasts of several windows by a method's `predict_batch`, checked.

    Raises:
        MethodError: no `predict_batch`, one that fails, or an answer of another shape or type.
    """
    called = name or protocols.method_name(forecaster)
    predict = getattr(forecaster, "predict_batch", None)
    if not callable(predict):
        raise MethodError(f"{called}: has no predict_batch(histories, horizon) method")
    told = f"{called}.predict_batch{where and ', ' + where}"
    lists = {"index_days": index_days, "origin_date": origin_date}
    own: dict[str, Any] = {name: None if values is None else list(values) for name, values in lists.items()}
    own["participant"] = participant
    out = _naming(told, lambda: predict(histories, horizon, **_keywords(predict, **own)))
    return [_checked(one, horizon, forecaster, told) for one in _one_each(out, len(histories), told)]


def _one_each(out: Any, n: int, told: str) -> list[Any]:
    """An answer to several windows as a list of answers to one."""
    if isinstance(out, tuple) and len(out) == 2 and getattr(out[0], "ndim", 0) == 3:
        points, quantiles = out
        if quantiles is not None and (getattr(quantiles, "ndim", 0) != 4 or len(quantiles) != len(points)):
            raise MethodError(f"{told}: expected quantiles (window, {N_CHANNELS}, horizon, level)")
        out = list(zip(points, [None] * len(points) if quantiles is None else quantiles, strict=True))
    try:
        found = list(out)
    except TypeError:
        raise MethodError(f"{told}: returned {type(out).__name__}, expected a forecast a window") from None
    if len(found) != n:
        raise MethodError(f"{told}: returned {len(found)} forecasts for {n} windows")
    return found


def check_horizon(forecaster: Any, horizon: int, *, name: str | None = None) -> None:
    """Raises MethodError where a method says that it forecasts another number of hours."""
    steps = getattr(forecaster, "n_pred_steps", None)
    if steps is not None and int(steps) != horizon:
        called = name or protocols.method_name(forecaster)
        raise MethodError(f"{called}: forecasts {int(steps)} hours (n_pred_steps), {horizon} are asked for")


def reset(forecaster: Any, *, name: str | None = None) -> None:
    """Tells a method that a participant is over, if it listens. Raises MethodError when that fails."""
    call = getattr(forecaster, "reset", None)
    if callable(call):
        _naming(f"{name or protocols.method_name(forecaster)}.reset", call)


def _checked(out: Any, horizon: int, forecaster: Any, told: str) -> Forecast:
    point, quantiles = out if isinstance(out, tuple) and len(out) == 2 else (out, None)
    shape = (N_CHANNELS, horizon)
    if point is None:
        points = np.full(shape, np.nan, np.float32)
    else:
        points = _real(point, told)
        if points.shape != shape:
            raise MethodError(f"{told}: returned shape {points.shape}, expected {shape}")
    if quantiles is None:
        return Forecast(points)
    found = _real(quantiles, told)
    if found.ndim != 3 or found.shape[:2] != shape or not found.shape[2]:
        raise MethodError(f"{told}: returned quantiles of shape {found.shape}, expected {(*shape, 'level')}")
    return Forecast(points, found, _levels(forecaster, found.shape[2], told))


def _levels(forecaster: Any, n: int, told: str) -> tuple[float, ...]:
    """Declared levels, else evenly spaced ones (OpenMHC evaluation, quantile loss)."""
    declared = getattr(forecaster, "quantile_levels", None)
    if declared is None:
        return tuple((i + 1) / (n + 1) for i in range(n))
    levels = tuple(float(level) for level in declared)
    if len(levels) != n:
        raise MethodError(f"{told}: returned {n} quantiles, quantile_levels has {len(levels)}")
    if not all(0 < level < 1 for level in levels):
        raise MethodError(f"{told}: quantile_levels must lie between 0 and 1, got {levels}")
    return levels


def _real(values: Any, told: str) -> Float32[np.ndarray, "..."]:
    try:
        found = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise MethodError(f"{told}: returned no array ({error})") from None
    if found.dtype.kind not in "fiub":
        raise MethodError(f"{told}: returned {found.dtype}, expected float32")
    # A float64 answer beyond float32 becomes infinite and is substituted like any other non-finite value.
    with np.errstate(over="ignore"):
        return found.astype(np.float32, copy=False)


def _keywords(function: Callable, **own: Any) -> dict[str, Any]:
    """The optional keywords that a method declares; None is passed too, for they may have no default."""
    given = {
        "variable_names": list(VARIABLE_NAMES),
        "past_covariates": None,
        "future_covariates": None,
        **own,
    }
    parameters = inspect.signature(function).parameters.values()
    by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = {parameter.name for parameter in parameters if parameter.kind in by_keyword}
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        names |= (
            given.keys() - _EXTENSIONS
        )  # a method that takes any keyword was written for those of OpenMHC
    return {key: value for key, value in given.items() if key in names}


def _naming(told: str, call: Callable[[], Any]) -> Any:
    """Whatever a method raises says which method it was; messages for the user pass as they are."""
    try:
        return call()
    except WearjaxError:
        raise
    except Exception as error:
        raise MethodError(f"{told}: {own_code.told(error)}") from error


def levels_of(forecasts: Sequence[Forecast]) -> tuple[float, ...]:
    """The levels that several forecasts share; empty where none has quantiles."""
    return next((forecast.levels for forecast in forecasts if forecast.quantiles is not None), ())


def stack(
    forecasts: Sequence[Forecast],
) -> tuple[
    Float[np.ndarray, "window channel=19 horizon"],
    Float[np.ndarray, "window channel=19 horizon level"] | None,
]:
    """Points and quantiles of several windows; a window without quantiles among others that have them is NaN.

    Raises:
        MethodError: the number of quantiles changes from window to window.
    """
    points = np.stack([forecast.point for forecast in forecasts])
    levels = levels_of(forecasts)
    if not levels:
        return points, None
    quantiles = np.full((*points.shape, len(levels)), np.nan, np.float32)
    for row, forecast in enumerate(forecasts):
        if forecast.quantiles is not None:
            if forecast.levels != levels:
                raise MethodError(f"forecasts of {len(levels)} and of {len(forecast.levels)} quantiles")
            quantiles[row] = forecast.quantiles
    return points, quantiles
