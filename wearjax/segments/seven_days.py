"""Windows of several days for long-context imputation: a participant's days in order, cut into groups.

Gaps in the calendar are stepped over, not filled; `day_offsets` tells a model where the days lie. The last
group of a participant is padded on the left (OpenMHC evaluation, multi-day imputation).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64, Shaped

from wearjax.errors import ConfigError

N_DAYS = 7
PADDING = -1


def windows(
    participants: Sequence[str], dates: Sequence[str], *, n_days: int = N_DAYS
) -> tuple[Int64[np.ndarray, "window n_days"], Int64[np.ndarray, "window n_days"]]:
    """Cuts each participant's days into groups of `n_days`, without overlap.

    Args:
        participants: participant of each day of a split, in split-local order.
        dates: ISO date of each day, in the same order.
        n_days: days in a window.

    Returns:
        Split-local positions of the days of each window, participants in order of id and days in order of
        date, and the calendar days since the window's first real day. Both are -1 in padded slots.

    Raises:
        ConfigError: lists of different length, a date that is none, or fewer than one day a window.
    """
    if n_days < 1:
        raise ConfigError(f"n_days must be at least 1, got {n_days}")
    if len(participants) != len(dates):
        raise ConfigError(f"{len(participants)} participants but {len(dates)} dates")
    try:
        date = np.asarray(dates, dtype=object).astype("datetime64[D]").astype(np.int64)
    except ValueError as error:
        raise ConfigError(f"dates must be ISO dates like 2020-01-31 ({error})") from None
    positions = [_grouped(own, n_days) for own in _by_participant(participants, date)]
    window = np.concatenate(positions) if positions else np.empty((0, n_days), np.int64)
    real = window != PADDING
    first = date[first_positions(window)] if len(window) else np.empty(0, np.int64)
    return window, np.where(real, date[window] - first[:, None], PADDING) if len(window) else window.copy()


def _by_participant(participants: Sequence[str], dates: np.ndarray) -> list[Int64[np.ndarray, " day"]]:
    """Positions of each participant's days in order of date; participants in order of id."""
    ids, owner = np.unique(np.asarray(participants, dtype=str), return_inverse=True)
    order = np.lexsort((np.arange(len(owner)), dates, owner))
    return np.split(order, np.cumsum(np.bincount(owner, minlength=len(ids)))[:-1]) if len(ids) else []


def _grouped(positions: np.ndarray, n_days: int) -> np.ndarray:
    n_windows = -(-len(positions) // n_days)
    window = np.full(n_windows * n_days, PADDING, np.int64)
    whole = len(positions) // n_days * n_days
    window[:whole] = positions[:whole]
    if whole < len(positions):
        window[whole - len(positions) :] = positions[whole:]
    return window.reshape(n_windows, n_days)


def first_positions(window: Int64[np.ndarray, "window n_days"]) -> Int64[np.ndarray, " window"]:
    """Split-local position of the first real day of each window, which names the window."""
    first = np.argmax(window != PADDING, axis=1)
    return np.take_along_axis(window, first[:, None], axis=1)[:, 0]


def split_days(
    array: Shaped[np.ndarray, "*window channel time"], n_days: int
) -> Shaped[np.ndarray, "*window n_days channel minute"]:
    """Cuts windows back into days: the inverse of joining them along time."""
    *lead, n_channels, time = array.shape
    if time % n_days:
        raise ConfigError(f"{time} minutes are not {n_days} days of equal length")
    return np.moveaxis(array.reshape(*lead, n_channels, n_days, time // n_days), -2, -3)
