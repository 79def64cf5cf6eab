"""The hours before a date as one continuous series: what an encoder trained on forecasting reads of a participant.

Rules of the OpenMHC Toto and Chronos-2 encoders. They differ from the public `series` form of the prediction track in
two ways: gaps within a recorded day are zeros before the zero-to-missing rule runs over the day's 24 hours (whose
sleep threshold, 180, no day of hours can reach: all sleep zeros become missing), and all retained days count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import clean
from wearjax.errors import ConfigError


def series(
    hours: Float32[np.ndarray, "day 19 24"], dates: Sequence[str], *, length: int
) -> tuple[Float32[np.ndarray, "19 hour"], Bool[np.ndarray, "19 hour"]]:
    """The last `length` hours of a participant, cut after the last hour with any measured channel.

    Calendar gaps stay as missing hours, and a history that is too short is padded on the left.

    Args:
        hours: hours of the retained days, NaN = missing, in any order.
        dates: ISO date of each.

    Returns:
        Values, 0 where missing; and where they were measured.

    Raises:
        ConfigError: other shapes, a date that is none or comes twice, or a length below one.
    """
    if length < 1:
        raise ConfigError(f"length must be at least 1, got {length}")
    if hours.ndim != 3 or hours.shape[1:] != (N_CHANNELS, HOURS_PER_DAY) or len(dates) != len(hours):
        raise ConfigError(
            f"hours: expected ({len(dates)}, {N_CHANNELS}, {HOURS_PER_DAY}), a date each, got {hours.shape}"
        )
    timeline = _timeline(hours, dates)
    measured = np.flatnonzero(np.isfinite(timeline).any(axis=0))
    stop = measured[-1] + 1 if len(measured) else 0
    values = np.full((N_CHANNELS, length), np.nan, np.float32)
    tail = timeline[:, max(0, stop - length) : stop]
    values[:, length - tail.shape[1] :] = tail
    observed = np.isfinite(values)
    return np.where(observed, values, np.float32(0)), observed


def first_day(last_day: int, *, length: int) -> int:
    """The earliest day (in days since 1970) of which a series of `length` hours up to `last_day` holds an hour.

    A recorded day is never cut short: flights and workouts that were not measured are zeros by then, not missing.
    """
    return last_day - (-(-length // HOURS_PER_DAY) - 1)


def _timeline(hours, dates) -> Float32[np.ndarray, "19 hour"]:
    """All hours from the first to the last day; NaN where missing."""
    try:
        date = np.asarray(dates, dtype=object).astype("datetime64[D]").astype(np.int64)
    except ValueError as error:
        raise ConfigError(f"dates must be ISO dates like 2020-01-31 ({error})") from None
    if len(np.unique(date)) != len(date):
        raise ConfigError("dates: a participant has two days at one date")
    if not len(date):
        return np.empty((N_CHANNELS, 0), np.float32)
    place = date - date.min()
    days = np.full((place.max() + 1, N_CHANNELS, HOURS_PER_DAY), np.nan, np.float32)
    for at, day in zip(place, hours, strict=True):
        days[at] = clean.zero_to_nan(np.where(np.isnan(day), np.float32(0), day))
    return days.swapaxes(0, 1).reshape(N_CHANNELS, -1)
