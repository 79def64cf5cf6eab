"""Some days of a participant as the features read them: what was recorded, and what of it was measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from wearjax.channels import CHANNELS, HEART_RATE, HOURS_PER_DAY, INDEX, SLEEP, WORKOUTS
from wearjax.days import clean
from wearjax.days.store import Days

DAYTIME = slice(6 * 60, 22 * 60)
NIGHT_STARTS, NIGHT_ENDS = 23 * 60, 6 * 60
BPM_A_UNIT = CHANNELS[HEART_RATE].display_scale


@dataclass(frozen=True, eq=False)
class DayBlock:
    """A few days of one participant.

    Attributes:
        recorded: values as OpenMHC stores them, zero where nothing was recorded.
        measured: the same after the zero-to-missing rule; a sleep channel without any sleep keeps its zeros.
        heart_rate: beats a minute, NaN where there is no positive finite reading.
        nonwear_minutes: of each day, 0..1440.
        weekend: Saturdays and Sundays.
        working_out: minutes inside any logged workout.
    """

    recorded: Float32[np.ndarray, "day channel=19 minute=1440"] = field(repr=False)
    measured: Float32[np.ndarray, "day channel=19 minute=1440"] = field(repr=False)
    heart_rate: Float32[np.ndarray, "day minute=1440"] = field(repr=False)
    nonwear_minutes: Float64[np.ndarray, "day"]
    weekend: Bool[np.ndarray, "day"]
    working_out: Bool[np.ndarray, "day minute=1440"] = field(repr=False)

    def channel(self, name: str) -> Float32[np.ndarray, "day minute=1440"]:
        """Measured values of a channel by its short name."""
        return self.measured[:, INDEX[name]]

    def has(self, name: str) -> Bool[np.ndarray, "day"]:
        """Days on which the channel was measured from the first minute to the last."""
        # A missing minute stays missing in a sum.
        return ~np.isnan(self.channel(name).sum(axis=1))

    def sums(self, name: str, first: int = 0, stop: int | None = None) -> Float64[np.ndarray, "day"]:
        """Daily sums over some minutes; NaN where one of them is missing."""
        return self.channel(name)[:, first:stop].sum(axis=1, dtype=np.float64)

    def hours(self, name: str) -> Float64[np.ndarray, "day hour=24"]:
        """Sums of each hour; NaN where a minute is missing."""
        minutes = self.channel(name)
        return minutes.reshape(len(minutes), HOURS_PER_DAY, -1).sum(axis=2, dtype=np.float64)


def read(days: Days, indices: Int64[np.ndarray, "day"]) -> DayBlock:
    """Reads days of a store.

    A cell that the store holds as missing counts as a recorded zero before the zero-to-missing rule, because the
    benchmark's store is zero-filled.
    """
    dates = np.asarray(days.dates[indices], dtype="datetime64[D]")
    weekday = (dates.astype(np.int64) + 3) % 7  # 1 January 1970 was a Thursday
    return of_values(days.batch(indices), days.nonwear_minutes[indices], weekday >= 5)


def of_values(
    values: Float32[np.ndarray, "day channel=19 minute=1440"],
    nonwear_minutes: Float32[np.ndarray, "day"],
    weekend: Bool[np.ndarray, "day"],
) -> DayBlock:
    """The block of given values; NaN or zero where nothing was recorded."""
    recorded = np.where(np.isfinite(values), values, np.float32(0))
    measured = np.stack([clean.zero_to_nan(day) for day in recorded])
    for c in SLEEP:
        silent = ~recorded[:, c].any(axis=1)
        measured[silent, c] = 0
    beats = recorded[:, HEART_RATE]
    heart_rate = np.where(beats > 0, beats * np.float32(BPM_A_UNIT), np.float32(np.nan))
    working_out = np.any(recorded[:, WORKOUTS[0] : WORKOUTS[-1] + 1] > 0, axis=1)
    return DayBlock(
        recorded, measured, heart_rate, np.asarray(nonwear_minutes, np.float64), weekend, working_out
    )


def night(minutes: Float32[np.ndarray, "*day minute=1440"]) -> Float32[np.ndarray, "*day minute=420"]:
    """The minutes from 23 h to midnight and from midnight to 6 h of the same calendar day."""
    return np.concatenate([minutes[..., NIGHT_STARTS:], minutes[..., :NIGHT_ENDS]], axis=-1)
