"""Weeks of hours as examples: one random week of a participant, and what is needed before the first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int64, Shaped

from wearjax.batches.source import Batch
from wearjax.channels import CONTINUOUS, HOURS_PER_DAY, N_CHANNELS
from wearjax.days import hourly
from wearjax.days.normalization import STD_MIN, NormalizationStats
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.segments import hourly_week, seven_days

_DAYS_AT_ONCE = 64
_WEEK_CHOICE = 0x7765656B  # a random stream of its own: the order of the participants has (seed, epoch)


def hours_of(
    days: Days,
    indices: Int64[np.ndarray, "day"],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Float32[np.ndarray, "day 19 24"]:
    """Hours of the given days, NaN = missing; `progress` is called with (days done, total)."""
    chosen = np.asarray(indices, np.int64)
    hours = np.empty((len(chosen), N_CHANNELS, HOURS_PER_DAY), np.float32)
    for start in range(0, len(chosen), _DAYS_AT_ONCE):
        part = slice(start, start + _DAYS_AT_ONCE)
        hours[part] = hourly.aggregate(days.batch(chosen[part]))
        if progress is not None:
            progress(min(start + _DAYS_AT_ONCE, len(chosen)), len(chosen))
    return hours


def weeks_of(
    days: Days, indices: Int64[np.ndarray, "day"], hours: Float32[np.ndarray, "day 19 24"]
) -> tuple[Float32[np.ndarray, "week 168 19"], Shaped[np.ndarray, "week"]]:
    """Weeks of the given days, whose hours are known, and the participant of each."""
    participants = np.asarray([str(days.participants[i]) for i in indices])
    cut, _ = hourly_week.weeks(participants.tolist(), [str(days.dates[i]) for i in indices])
    owners = participants[seven_days.first_positions(cut)] if len(cut) else participants[:0]
    return hourly_week.gather(hours, cut), owners


def fit_hourly(hours: Float32[np.ndarray, "day 19 24"]) -> NormalizationStats:
    """Mean and population spread of the measured hours of each continuous channel; no epsilon.

    Sums run in float64. As for minutes, a channel without values or with a spread of 1e-6 or less keeps std 1
    (OpenMHC data layer, hourly normalization).
    """
    means, stds = np.zeros(N_CHANNELS), np.ones(N_CHANNELS)
    for channel in CONTINUOUS:
        measured = hours[:, channel].astype(np.float64)
        measured = measured[np.isfinite(measured)]
        if measured.size:
            means[channel], spread = measured.mean(), measured.std()
            stds[channel] = spread if spread > STD_MIN else 1.0
    return NormalizationStats(means, stds, 0.0)


class ParticipantWeeks:
    """One random week of each participant: contrastive pretraining compares participants.

    `values` float32 (B, 168, 19), raw hours, NaN = missing; `participant` int32 (B,), the place of the participant
    in the order of ids; `index` (B,), the row of the week. Which week comes depends on the seed and on the position
    in the endless order only.

    Args:
        hours: the weeks, as `segments.hourly_week.gather` lays them out.
        participants: owner of each week.

    Raises:
        ConfigError: not one participant a week.
    """

    def __init__(
        self,
        hours: Float32[np.ndarray, "week hour 19"],
        participants: Shaped[np.ndarray, "week"],
        *,
        seed: int,
    ):
        if hours.ndim != 3 or len(participants) != len(hours):
            raise ConfigError(
                f"hours: expected ({len(participants)}, hours, channels), a participant a week, got {hours.shape}"
            )
        self._hours, self._seed = hours, seed
        self.participants, owner = np.unique(np.asarray(participants), return_inverse=True)
        self._order = np.argsort(owner, kind="stable")  # weeks of a participant lie together
        self._count = np.bincount(owner)
        self._first = np.cumsum(self._count) - self._count

    def __len__(self) -> int:
        return len(self.participants)

    def read(self, items: Int64[np.ndarray, "B"], positions: Int64[np.ndarray, "B"]) -> Batch:
        """One week of each of the given participants."""
        share = [np.random.default_rng([self._seed, int(p), _WEEK_CHOICE]).random() for p in positions]
        index = self._order[self._first[items] + (np.asarray(share) * self._count[items]).astype(np.int64)]
        return {
            "values": self._hours[index].astype(np.float32, copy=False),
            "participant": np.asarray(items, np.int32),
            "index": index.astype(np.int64),
        }

    def __repr__(self) -> str:
        return f"ParticipantWeeks(weeks={len(self._hours)}, participants={len(self)})"
