"""Weeks of hours: seven calendar days of a participant, counted from the first date.

Rules of OpenMHC's weekly index: windows start at the participant's first date and move by a fixed stride; one that
reaches beyond the last date, or has too few days, is left out. Days without a recording stay as gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import hourly
from wearjax.errors import ConfigError
from wearjax.segments import seven_days

N_DAYS = seven_days.N_DAYS
MIN_DAYS = 5
STRIDE = 7
MIN_HOURS = 12  # hours with any measured channel that make a day of a week count as valid
ABSENT = seven_days.PADDING


def weeks(
    participants: Sequence[str], dates: Sequence[str], *, stride: int = STRIDE, min_days: int = MIN_DAYS
) -> tuple[Int64[np.ndarray, "week 7"], np.ndarray]:
    """Weeks of each participant.

    Args:
        participants: participant of each day.
        dates: ISO date of each day; the days need no order.
        stride: days from one window's start to the next: 7 in the published index, 1 in the paper.
        min_days: days that a window needs at least.

    Returns:
        Positions of the days of each week, -1 where a date has none, participants in order of id and weeks in
        order of date; and the first date of each week, datetime64[D], whether or not that day exists.

    Raises:
        ConfigError: lists of different length, a date that is none, two days of a participant at one date, a
            stride below one, or `min_days` outside 1 to 7.
    """
    if stride < 1:
        raise ConfigError(f"stride must be at least 1, got {stride}")
    if not 1 <= min_days <= N_DAYS:
        raise ConfigError(f"min_days must lie in 1 to {N_DAYS}, got {min_days}")
    if len(participants) != len(dates):
        raise ConfigError(f"{len(participants)} participants but {len(dates)} dates")
    try:
        date = np.asarray(dates, dtype=object).astype("datetime64[D]")
    except ValueError as error:
        raise ConfigError(f"dates must be ISO dates like 2020-01-31 ({error})") from None
    if np.isnat(date).any():
        raise ConfigError("dates must be ISO dates like 2020-01-31, found an empty one")
    ids, owner = np.unique(np.asarray(participants, dtype=str), return_inverse=True)
    order = np.lexsort((date, owner))
    repeated = (np.diff(owner[order]) == 0) & (np.diff(date[order]) == np.timedelta64(0, "D"))
    if repeated.any():
        day = order[np.flatnonzero(repeated)[0]]
        raise ConfigError(f"participant {participants[day]} has two days at {dates[day]}")
    positions, starts = [np.empty((0, N_DAYS), np.int64)], [np.empty(0, "datetime64[D]")]
    for own in np.split(order, np.cumsum(np.bincount(owner, minlength=len(ids)))[:-1]) if len(ids) else ():
        window, offset = _weeks_of_one((date[own] - date[own[0]]).astype(np.int64), own, stride, min_days)
        positions.append(window)
        starts.append(date[own[0]] + offset.astype("timedelta64[D]"))
    return np.concatenate(positions), np.concatenate(starts)


def _weeks_of_one(offsets, own, stride: int, min_days: int):
    """Windows of one participant, and their starts in days since the first date; `offsets` ascend from 0."""
    calendar = np.full(offsets[-1] + 1, ABSENT, np.int64)
    calendar[offsets] = own
    starts = np.arange(0, len(calendar) - N_DAYS + 1, stride)
    window = calendar[starts[:, None] + np.arange(N_DAYS)]
    enough = (window != ABSENT).sum(axis=1) >= min_days
    return window[enough], starts[enough]


def gather(
    hours: Float32[np.ndarray, "day 19 24"], week: Int64[np.ndarray, "week 7"]
) -> Float32[np.ndarray, "week 168 19"]:
    """Hours of each week, time-major as the weekly model reads them; NaN where missing and on absent days."""
    if hours.shape[1:] != (N_CHANNELS, HOURS_PER_DAY):
        raise ConfigError(f"hours: expected (day, {N_CHANNELS}, {HOURS_PER_DAY}), got {hours.shape}")
    out = np.full((*week.shape, HOURS_PER_DAY, N_CHANNELS), np.nan, np.float32)
    exists = week != ABSENT
    out[exists] = hours[week[exists]].swapaxes(1, 2)
    return out.reshape(len(week), N_DAYS * HOURS_PER_DAY, N_CHANNELS)


def n_valid_days(
    hours: Float32[np.ndarray, "day 19 24"], week: Int64[np.ndarray, "week 7"]
) -> Int64[np.ndarray, "week"]:
    """Days of each week with at least 12 hours in which any channel was measured."""
    valid = np.append(hourly.valid_hours(hours) >= MIN_HOURS, False)  # the last stands for an absent day
    return valid[week].sum(axis=1)
