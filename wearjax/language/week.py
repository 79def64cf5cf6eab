"""The one week of hours that a language model is shown of a participant, in units for people."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int64

from wearjax.channels import CHANNELS, HOURS_PER_DAY, N_CHANNELS, Channel
from wearjax.errors import MethodError

N_DAYS = 7
HOURS = N_DAYS * HOURS_PER_DAY


@dataclass(frozen=True)
class Week:
    """Seven calendar days of hours in units for people.

    Attributes:
        values: float32 (168, 19), NaN = not measured; heart rate in bpm, energy in kcal/h, steps/h and so on.
        start: first date; None where the dates are not known.
    """

    values: Float32[np.ndarray, "hour=168 channel=19"]
    start: dt.date | None = None


def hourly_unit(channel: Channel) -> str:
    """Unit of a channel's hour for people: what is summed over an hour is per hour."""
    return channel.display_unit.replace("/min", "/h") if channel.hourly == "sum" else channel.display_unit


def fullest_week(days: Float[np.ndarray, "day 24 38"], dates: Sequence[str] | None = None) -> Week | None:
    """The seven calendar days with the most hours in which any channel was measured; of equal ones the latest.

    A week starts at any day that was given; days between that were not are missing. The benchmark does not say
    which week its models saw: this choice is ours.

    Args:
        days: 19 values, NaN where missing, then 19 flags, 1 where missing; units of the channel table.
        dates: ISO date of each day; None takes the days as consecutive.

    Returns:
        None where no hour was measured.

    Raises:
        MethodError: days of another shape, or another number of dates.
    """
    if days.ndim != 3 or days.shape[1:] != (HOURS_PER_DAY, 2 * N_CHANNELS):
        raise MethodError(f"days: expected (day, {HOURS_PER_DAY}, {2 * N_CHANNELS}), got {days.shape}")
    if dates is not None and len(dates) != len(days):
        raise MethodError(f"days: {len(days)} of them but {len(dates)} dates")
    values = np.where(days[:, :, N_CHANNELS:] > 0.5, np.nan, days[:, :, :N_CHANNELS]).astype(np.float32)
    hours = (~np.isnan(values).all(axis=2)).sum(axis=1)
    if not hours.any():
        return None
    day = _day_numbers(dates, len(days))
    observed = [hours[(day >= first) & (day < first + N_DAYS)].sum() for first in day]
    first = max(zip(observed, day, strict=True))[1]
    week = np.full((N_DAYS, HOURS_PER_DAY, N_CHANNELS), np.nan, np.float32)
    within = (day >= first) & (day < first + N_DAYS)
    week[day[within] - first] = values[within]
    scale = np.array([channel.display_scale for channel in CHANNELS], np.float32)
    start = None if dates is None else dt.date(1970, 1, 1) + dt.timedelta(days=int(first))
    return Week(week.reshape(HOURS, N_CHANNELS) * scale, start)


def _day_numbers(dates: Sequence[str] | None, count: int) -> Int64[np.ndarray, "day"]:
    if dates is None:
        return np.arange(count, dtype=np.int64)
    try:
        return np.asarray(dates, dtype="datetime64[D]").astype(np.int64)
    except ValueError as error:
        raise MethodError(f"dates must be ISO dates like 2020-01-31 ({error})") from None


def coverage(week: Week) -> Float[np.ndarray, "channel=19"]:
    """Share of the week's hours in which each channel was measured."""
    return np.asarray(np.mean(~np.isnan(week.values), axis=0, dtype=np.float64))
