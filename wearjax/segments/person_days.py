"""What a person wants to know of each of their days: hours recorded, steps, sleep, resting heart rate."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float64, Int64

from wearjax import channels, npz, writing
from wearjax.daily_metrics import INDEX as METRIC
from wearjax.days.store import Days
from wearjax.errors import StoreError
from wearjax.segments import daily_from_minutes

_EPOCH = np.datetime64("1970-01-01")
_COUNTS = {"watch": ("watch_steps", "watch_distance", "watch_energy"),
           "iphone": ("iphone_steps", "iphone_distance", "iphone_flights")}  # fmt: skip


@dataclass(frozen=True, eq=False)
class PersonDays:
    """The days of a store by participant and date; NaN = not known.

    Attributes:
        participant: id of each day.
        date: days since 1970-01-01.
        worn_hours: hours not counted as non-wear.
        watch_hours, phone_hours: clock hours in which the device recorded movement or, the watch, a heart rate.
        steps, sleep_hours, resting_heart_rate: as `daily_from_minutes` computes them; the last in beats a minute.
    """

    participant: np.ndarray
    date: Int64[np.ndarray, "day"]
    worn_hours: Float64[np.ndarray, "day"]
    watch_hours: Float64[np.ndarray, "day"]
    phone_hours: Float64[np.ndarray, "day"]
    steps: Float64[np.ndarray, "day"]
    sleep_hours: Float64[np.ndarray, "day"]
    resting_heart_rate: Float64[np.ndarray, "day"]

    def of(self, participant: str) -> PersonDays:
        """The days of one participant."""
        mine = self.participant == participant
        return PersonDays(*(getattr(self, f.name)[mine] for f in fields(self)))


def of_days(days: Days, *, progress: Callable[[int, int], None] | None = None) -> PersonDays:
    """Reads every measured day of a store; `progress` gets (days done, days in total)."""
    order = np.lexsort((days.dates, days.participants))
    participant = np.array([str(days.participants[i]) for i in order])
    date = (np.array([str(days.dates[i]) for i in order], "datetime64[D]") - _EPOCH).astype(np.int64)
    worn = 24 - np.asarray(days.nonwear_minutes, np.float64)[order] / 60
    watch, phone = np.zeros((2, len(order)))
    for place, index in enumerate(order):
        values = days.values(int(index))
        watch[place] = _hours(values, "watch")
        phone[place] = _hours(values, "iphone")
        if progress:
            progress(place + 1, len(order))
    daily = np.concatenate([record.values for record in daily_from_minutes.of_days(days)])
    return PersonDays(
        participant, date, worn, watch, phone,
        *(daily[:, METRIC[name]] for name in ("steps", "sleep_duration", "rhr")),
    )  # fmt: skip


def _hours(values: np.ndarray, device: str) -> int:
    """Clock hours in which a device left a sign; zeros alone may have been filled in."""
    alive = (values[[channels.INDEX[name] for name in _COUNTS[device]]] > 0).any(axis=0)
    if device == "watch":
        alive |= np.isfinite(values[channels.HEART_RATE])
    return int(alive.reshape(channels.HOURS_PER_DAY, -1).any(axis=1).sum())


def save(days: PersonDays, path: str | os.PathLike) -> None:
    """Writes arrays only, so that they open without pickle."""
    with writing.file(path) as partial:
        np.savez_compressed(partial, **{f.name: getattr(days, f.name) for f in fields(days)})


def load(path: str | os.PathLike) -> PersonDays:
    """Reads what `save` wrote. Raises StoreError where it is not that."""
    try:
        archive = npz.load(path)
        arrays = [archive[f.name] for f in fields(PersonDays)]
    except FileNotFoundError:
        raise StoreError(f"{path}: the table of days is missing") from None
    except Exception as error:  # numpy and zipfile raise many kinds on damaged files
        raise StoreError(f"{path}: not a readable table of days ({type(error).__name__})") from None
    kinds = ["U", *["i"], *["f"] * (len(arrays) - 2)]
    if any(a.shape != (len(arrays[0]),) or a.dtype.kind != k for a, k in zip(arrays, kinds, strict=True)):
        raise StoreError(f"{path}: the columns of the table of days do not fit together")
    return PersonDays(*arrays)
