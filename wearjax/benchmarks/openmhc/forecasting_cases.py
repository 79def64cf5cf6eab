"""The cases of the forecasting benchmark: time points of the split's participants, each a window of their hours."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.channels import HOURS_PER_DAY
from wearjax.segments.trajectories import Trajectories


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows of one participant.

    Attributes:
        days: day index of each window.
        origins: its first hour to forecast; all hours before are its history.
        first_day: calendar day of the first hour of the record.
        values: the participant's whole record, read-only; NaN = missing.
    """

    participant: str
    first_day: dt.date
    days: Int64[np.ndarray, " window"]
    origins: Int64[np.ndarray, " window"]
    values: Float32[np.ndarray, "channel=19 hour"]
    horizon: int

    def __len__(self) -> int:
        return len(self.origins)

    @property
    def origin_dates(self) -> list[dt.date]:
        """The calendar day of each origin."""
        return [self.first_day + dt.timedelta(hours=hours) for hours in self.origins.tolist()]

    def first(self) -> Windows:
        """The first window alone."""
        return dataclasses.replace(self, days=self.days[:1], origins=self.origins[:1])

    def history(self, window: int) -> Float32[np.ndarray, "channel=19 hour"]:
        """A view of what lies before a window."""
        return self.values[:, : self.origins[window]]

    @property
    def histories(self) -> list[Float32[np.ndarray, "channel=19 hour"]]:
        """Views of what lies before each window."""
        return [self.history(window) for window in range(len(self))]

    def targets(self) -> Float32[np.ndarray, "window channel=19 horizon"]:
        """What was measured from each origin on; NaN = not scored."""
        hours = self.origins[:, None] + np.arange(self.horizon)
        return np.ascontiguousarray(self.values[:, hours].swapaxes(0, 1))


def _spread(days: Mapping[str, np.ndarray], n: int) -> dict[str, np.ndarray]:
    """So many windows in all: participants take turns, and those of one lie evenly among its windows."""
    sizes = np.array([len(own) for own in days.values()], np.int64)
    rounds = 0
    while np.minimum(sizes, rounds + 1).sum() <= n and rounds < sizes.max(initial=0):
        rounds += 1
    taken = np.minimum(sizes, rounds)
    more = np.flatnonzero(sizes > rounds)[: max(n - int(taken.sum()), 0)]
    taken[more] += 1
    return {
        participant: own[np.arange(k) * len(own) // k + (len(own) // k) // 2]
        for (participant, own), k in zip(days.items(), taken.tolist(), strict=True)
        if k
    }


class Cases:
    """The evaluated windows of a split, participant by participant.

    Args:
        points: day indices by participant; those of other splits are passed over.
        members: participants of the split.
        start_hour: shifts every origin by so many hours.
        max_samples: keep that many windows; participants have as many of them as each other, as far as they reach, and
            each one's lie evenly among its windows.

    Attributes:
        participants: those with a window, sorted.
        skipped: what is not evaluated, by reason.
    """

    def __init__(
        self,
        trajectories: Trajectories,
        points: Mapping[str, Sequence[int]],
        members: Sequence[str],
        *,
        horizon: int,
        start_hour: int = 0,
        max_samples: int | None = None,
    ):
        self.trajectories, self.horizon, self.start_hour = trajectories, horizon, start_hour
        found: Counter[str] = Counter()
        possible: dict[str, np.ndarray] = {}
        for participant in sorted(members):
            if participant not in trajectories:
                found["participants of the split without a day"] += 1
                found["time points of participants without a day"] += len(points.get(participant, ()))
                continue
            days = self._possible(participant, points.get(participant, ()), found)
            if len(days):
                possible[participant] = days
            else:
                found["participants without a time point"] += 1
        self._days = possible if max_samples is None else _spread(possible, max_samples)
        beyond = sum(map(len, possible.values())) - sum(map(len, self._days.values()))
        found["time points beyond max_samples"] = beyond
        found["participants beyond max_samples"] = len(possible) - len(self._days)
        self.participants = tuple(self._days)
        self.skipped = {reason: n for reason, n in found.items() if n}

    def _possible(self, participant: str, days: Sequence[int], found: Counter[str]) -> np.ndarray:
        """The points whose window lies in the record."""
        wanted = np.array(days, np.int64)
        origins = self._origins(wanted)
        early = origins <= 0
        late = origins + self.horizon > HOURS_PER_DAY * self.trajectories.n_days(participant)
        found["time points without a history"] += int(early.sum())
        found["time points whose target ends after the record"] += int((late & ~early).sum())
        return wanted[~early & ~late]

    def _origins(self, days: Int64[np.ndarray, " window"]) -> Int64[np.ndarray, " window"]:
        return HOURS_PER_DAY * days + self.start_hour

    @property
    def n_windows(self) -> int:
        """Windows of all participants."""
        return sum(map(len, self._days.values()))

    def n_windows_of(self, participant: str) -> int:
        """Windows of one participant; no hour is read for it."""
        return len(self._days[participant])

    def windows(self, participant: str) -> Windows:
        """Reads the record of a participant."""
        days, record = self._days[participant], self.trajectories.get(participant)
        record.values.flags.writeable = False
        return Windows(participant, record.first_day, days, self._origins(days), record.values, self.horizon)

    def digest(self) -> str:
        """Names the data and the points."""
        key = hashlib.sha256(self.trajectories.digest(self.participants).encode())
        for participant, days in self._days.items():
            key.update(participant.encode() + b"\0" + days.astype("<i8").tobytes())
        return key.hexdigest()
