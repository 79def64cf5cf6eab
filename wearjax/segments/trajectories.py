"""A participant's whole record in hours, from the first to the last calendar day: what forecasters see a part of.

Hours are those of all days, whether they pass the day filters or not, and the zero-to-missing rule runs once over
the whole record (OpenMHC evaluation, forecasting track): its sleep threshold counts hours of all days together,
and a channel is absent only if it is zero everywhere.
"""

from __future__ import annotations

import abc
import datetime as dt
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import clean, hourly
from wearjax.days.open import open_days
from wearjax.days.openmhc import OpenMHCDays
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.sources import openmhc, openmhc_trajectories

_DAYS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The hours of one participant.

    Attributes:
        first_day: calendar day of the first hour.
        values: NaN = missing, absent days included; the hours are whole days.
        retained: which calendar days pass the wear and variance filters.
    """

    participant: str
    first_day: dt.date
    values: Float32[np.ndarray, "channel=19 hour"] = field(repr=False)
    retained: Bool[np.ndarray, " day"] = field(repr=False)


class Trajectories(Sequence[Trajectory]):
    """Trajectories of some participants, each made when it is asked for.

    Attributes:
        participants: sorted.
        stored_order: the same in the order of the data, which decides how time points are drawn.
    """

    participants: tuple[str, ...]
    stored_order: tuple[str, ...]

    @abc.abstractmethod
    def n_days(self, participant: str) -> int:
        """Calendar days from first to last."""

    @abc.abstractmethod
    def first_day(self, participant: str) -> dt.date:
        """The first calendar day."""

    @abc.abstractmethod
    def retained(self, participant: str) -> Bool[np.ndarray, " day"]:
        """Which calendar days pass the filters; no hour is read for it."""

    @abc.abstractmethod
    def hours(self, participant: str) -> Float32[np.ndarray, "channel=19 hour"]:
        """The hours before the zero-to-missing rule."""

    @abc.abstractmethod
    def digest(self, participants: Sequence[str]) -> str:
        """Names the data of some participants, without reading their hours."""

    def get(self, participant: str) -> Trajectory:
        """The trajectory of a participant. Raises ConfigError when there is none."""
        if participant not in self:
            raise ConfigError(f"participant {participant!r}: has no trajectory in these data")
        return Trajectory(
            participant,
            self.first_day(participant),
            clean.zero_to_nan(self.hours(participant)),
            self.retained(participant),
        )

    def __contains__(self, participant: object) -> bool:
        return participant in self._known

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.participants)

    def __len__(self) -> int:
        return len(self.participants)

    def __getitem__(self, index):
        return self.get(self.participants[index])

    def __iter__(self) -> Iterator[Trajectory]:
        return (self.get(participant) for participant in self.participants)


def open_trajectories(
    data: str | os.PathLike | Days, *, participants: Sequence[str] | None = None
) -> Trajectories:
    """Trajectories of a day store (its days in hours) or of an OpenMHC data root (its `hourly_trajectory/`).

    Args:
        data: the folder, or opened days.
        participants: only these; those without any day are left out.

    Raises:
        StoreError, SourceError: the folder is neither of the two, or incomplete.
    """
    if isinstance(data, Days):
        root = data.path if isinstance(data, OpenMHCDays) else None
    else:
        root = Path(data) if (Path(data) / openmhc.MARKER).exists() else None
    if root is not None:
        return RootTrajectories(root, participants=participants)
    return DayTrajectories(data if isinstance(data, Days) else open_days(data), participants=participants)


class DayTrajectories(Trajectories):
    """Trajectories put together from the days of a store.

    A store has cleaned each day by itself; what that took for missing is zero again (`clean.nan_to_zero`) before days
    become hours. Of days that came from an OpenMHC root, every channel but heart rate then holds the hours of the
    root's minutes, unless minutes are missing in the root itself: in a channel of which the day's rule left nothing,
    these count as zeros. An hour of heart rate is the mean of its readings; whether a root's own hours average over
    the minutes without one as well is not published.
    """

    def __init__(self, days: Days, *, participants: Sequence[str] | None = None):
        self.days = days
        ids, owner = np.unique(days.participants.astype(str), return_inverse=True)
        date = days.dates.astype("datetime64[D]").astype(np.int64)
        order = np.lexsort((date, owner))  # stable: of two equal days the first counts
        fresh = np.ones(len(order), bool)
        fresh[1:] = (np.diff(owner[order]) != 0) | (np.diff(date[order]) != 0)
        self._rows, self._dates = order[fresh], date[order][fresh]
        bounds = np.searchsorted(owner[self._rows], np.arange(len(ids) + 1))
        wanted = None if participants is None else set(participants)
        self._own = {
            str(name): slice(int(bounds[i]), int(bounds[i + 1]))
            for i, name in enumerate(ids)
            if wanted is None or name in wanted
        }
        self.participants = self.stored_order = tuple(self._own)

    def _places(self, participant: str) -> np.ndarray:
        """Calendar position of each of the days."""
        dates = self._dates[self._own[participant]]
        return dates - dates[0]

    def n_days(self, participant: str) -> int:
        return int(self._places(participant)[-1]) + 1

    def first_day(self, participant: str) -> dt.date:
        return np.datetime64(int(self._dates[self._own[participant].start]), "D").item()

    def retained(self, participant: str) -> Bool[np.ndarray, " day"]:
        out = np.zeros(self.n_days(participant), bool)
        out[self._places(participant)] = self.days.retained[self._rows[self._own[participant]]]
        return out

    def hours(self, participant: str) -> Float32[np.ndarray, "channel=19 hour"]:
        rows, places = self._rows[self._own[participant]], self._places(participant)
        out = np.full((N_CHANNELS, self.n_days(participant), HOURS_PER_DAY), np.nan, np.float32)
        for start in range(0, len(rows), _DAYS_AT_ONCE):
            part = slice(start, start + _DAYS_AT_ONCE)
            days = np.stack([clean.nan_to_zero(day) for day in self.days.batch(rows[part])])
            out[:, places[part]] = hourly.aggregate(days).swapaxes(0, 1)
        return out.reshape(N_CHANNELS, -1)

    def digest(self, participants: Sequence[str]) -> str:
        found = hashlib.sha256()
        for participant in participants:
            own = self._own[participant]
            rows = self._rows[own]
            found.update(participant.encode() + b"\0" + self._dates[own].astype("<i8").tobytes())
            for numbers in (self.days.nonwear_minutes[rows], self.days.variance[rows]):
                found.update(np.ascontiguousarray(numbers, "<f4").tobytes())
        return found.hexdigest()


class RootTrajectories(Trajectories):
    """Trajectories as an OpenMHC data root stores them. Pickling carries the path only."""

    def __init__(self, root: str | os.PathLike, *, participants: Sequence[str] | None = None):
        self.root, self._only = Path(root), None if participants is None else frozenset(participants)
        openmhc.read_marker(self.root)
        self._rows = openmhc_trajectories.TrajectoryRows(self.root)
        self._row = {
            user: row for row, user in enumerate(self._rows.users) if self._only is None or user in self._only
        }
        self.stored_order = tuple(self._row)
        self.participants = tuple(sorted(self._row))

    @functools.cached_property
    def _retained_dates(self) -> dict[str, tuple[str, ...]]:
        return openmhc_trajectories.read_retained_days(self.root)

    def n_days(self, participant: str) -> int:
        return self._rows.n_days(self._row[participant])

    def first_day(self, participant: str) -> dt.date:
        return self._rows.first_day(self._row[participant])

    def retained(self, participant: str) -> Bool[np.ndarray, " day"]:
        """The calendar days that `day_remain_mask.json` lists; those outside the trajectory have no place."""
        out = np.zeros(self.n_days(participant), bool)
        first = np.datetime64(self.first_day(participant), "D")
        dates = np.array(self._retained_dates.get(participant, ()), dtype="datetime64[D]")
        places = (dates - first).astype(np.int64)
        out[places[(places >= 0) & (places < len(out))]] = True
        return out

    def hours(self, participant: str) -> Float32[np.ndarray, "channel=19 hour"]:
        return np.ascontiguousarray(self._rows.values(self._row[participant]).T)

    def digest(self, participants: Sequence[str]) -> str:
        spans = [(user, self.n_days(user), str(self.first_day(user))) for user in participants]
        return hashlib.sha256(repr((self._rows.shards(), spans)).encode()).hexdigest()

    def __reduce__(self):
        return (_reopened, (self.root, self._only))


def _reopened(root: Path, participants: frozenset[str] | None) -> RootTrajectories:
    return RootTrajectories(root, participants=None if participants is None else tuple(participants))
