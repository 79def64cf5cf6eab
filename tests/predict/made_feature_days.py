"""Days that meet every branch of the feature rules, and a small store-like set of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np

from wearjax.channels import INDEX
from wearjax.days import clean
from wearjax.days.store import Days

MONDAY = dt.date(2021, 3, 1)


def busy_day(seed: int) -> np.ndarray:
    """A zero-filled day (19, 1440): both devices, sleep at both ends, a run in the morning."""
    rng = np.random.default_rng(seed)
    values = np.zeros((19, 1440), np.float32)
    moving = rng.random(1440) < 0.3
    moving[: 300 + 10 * (seed % 7)] = False
    for device, factor in (("iphone", 0.8), ("watch", 1.0)):
        steps = np.where(moving, np.rint(rng.gamma(2, 25 * factor, 1440)), 0)
        values[INDEX[f"{device}_steps"]] = steps
        values[INDEX[f"{device}_distance"]] = steps * rng.uniform(0.6, 0.9)
    values[INDEX["iphone_flights"]] = rng.random(1440) < 0.01
    beats = 1.1 + 0.3 * np.sin((np.arange(1440) - 500) / 230) + 0.1 * rng.standard_normal(1440)
    values[INDEX["watch_hr"]] = np.where(rng.random(1440) < 0.4, beats, 0)
    values[INDEX["watch_energy"]] = rng.gamma(1.5, 300, 1440) * (rng.random(1440) < 0.6)
    wake, bed = 380 + 13 * (seed % 9), 1330 + 11 * (seed % 8)
    values[INDEX["sleep_asleep"], 25:wake] = 1
    values[INDEX["sleep_asleep"], 100:130] = 0
    values[INDEX["sleep_asleep"], bed:] = 1
    values[INDEX["sleep_inbed"], : wake + 20] = 1
    values[INDEX["sleep_inbed"], bed - 15 :] = 1
    values[INDEX["workout_running"], 600 : 630 + seed % 5] = 1
    values[INDEX["watch_hr"], 595:650] = 2.2 + 0.2 * rng.standard_normal(55)
    return values


def varied_days() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values (12, 19, 1440), non-wear minutes, weekend flags): an ordinary week and a half, and what goes wrong."""
    values = np.stack([busy_day(seed) for seed in range(12)])
    watch = [INDEX[name] for name in ("watch_steps", "watch_distance", "watch_hr", "watch_energy")]
    values[2, watch] = 0  # the watch stays at home
    values[5, INDEX["iphone_steps"]] = 0  # and here the phone, which still counts distance
    values[3, INDEX["sleep_asleep"]] = 0  # a short nap: its zeros count as missing
    values[3, INDEX["sleep_asleep"], 700:760] = 1
    values[4, [INDEX["sleep_asleep"], INDEX["sleep_inbed"]]] = 0  # no sleep at all: zeros stay
    values[6, INDEX["workout_running"]] = 0  # no workout
    values[7, INDEX["workout_strength"], 1390:1440] = 1  # one to the end of the day
    values[8, INDEX["workout_yoga"], 0:3] = 1  # and one from its start
    values[9, INDEX["watch_hr"], 590:] = 0  # no reading after the workout
    values[10, INDEX["watch_hr"]] = 0
    values[11, INDEX["watch_distance"]] *= 3  # no gait is like that
    nonwear = np.array([0, 30, 700, 60, 1000, 10, 0, 5, 90, 120, 33, 1440], np.float32)
    weekend = np.array([(MONDAY + dt.timedelta(days=int(d))).weekday() >= 5 for d in range(12)])
    return values, nonwear, weekend


class ListedDays(Days):
    """Days in memory; pickles as a whole, for processes.

    Args:
        values: zero-filled days by participant, on consecutive dates from a Monday.
    """

    def __init__(self, values: dict[str, np.ndarray]):
        self.path = Path("listed")
        self.reads = 0
        self._values = [clean.zero_to_nan(day) for days in values.values() for day in days]
        self.participants = np.array([name for name, days in values.items() for _ in days], dtype=object)
        self.dates = np.array(
            [
                (MONDAY + dt.timedelta(days=d)).isoformat()
                for days in values.values()
                for d in range(len(days))
            ],
            dtype=object,
        )
        self.nonwear_minutes = np.full(len(self._values), 60, np.float32)
        self.variance = np.stack([clean.channel_variance(day) for day in self._values])

    def values(self, index: int) -> np.ndarray:
        self.reads += 1
        return self._values[index].copy()

    def source(self, index: int) -> str:
        return "listed"
