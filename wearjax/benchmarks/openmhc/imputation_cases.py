"""The cases of the imputation benchmark: days, or windows of days, in groups of whole participants."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from wearjax.channels import MINUTES_PER_DAY, N_CHANNELS
from wearjax.days.store import Days
from wearjax.errors import StoreError
from wearjax.scores import fairness
from wearjax.segments import mask_cache, masks, seven_days
from wearjax.segments.mask_cache import MaskSet

ATTRIBUTES = {
    "age_group": (*fairness.age_labels(), fairness.UNKNOWN),
    "sex": (*fairness.SEXES, fairness.UNKNOWN),
}


@dataclass(frozen=True, eq=False)
class Batch:
    """Windows that a method sees at once; a window is one day, or several joined along time.

    Attributes:
        windows: split-local positions of the days, -1 in padded slots.
        values: NaN = not measured or padded.
        day_offsets: calendar days since the window's first real day, -1 in padded slots.
        sample_indices: split-local position of each window's first real day.
        user_ids, dates: of the same day.
    """

    windows: Int64[np.ndarray, "window n_days"]
    values: Float32[np.ndarray, "window channel=19 time"]
    day_offsets: Int64[np.ndarray, "window n_days"]
    sample_indices: Int64[np.ndarray, " window"]
    user_ids: list[str]
    dates: list[str]

    def metadata(self, rows: Int64[np.ndarray, " chosen"]) -> dict[str, Any]:
        """The optional keywords of an imputer for some of the windows."""
        named: dict[str, Any] = {
            "sample_indices": self.sample_indices[rows],
            "user_ids": [self.user_ids[i] for i in rows],
            "dates": [self.dates[i] for i in rows],
        }
        if self.windows.shape[1] > 1:
            named["day_offsets"] = self.day_offsets[rows]
        return named


class Cases:
    """The evaluated days of a split.

    Args:
        indices: store index of the day at each split-local position.
        n_days: days in a window.
        max_samples: keep that many windows, drawn without replacement by `default_rng(seed)`; positions, and
            with them the masks, stay those of the whole split.
        demographics: birth year and sex of each participant; empty for none.

    Attributes:
        evaluated: split-local positions of the days, ascending.
    """

    def __init__(
        self,
        days: Days,
        indices: Int64[np.ndarray, " position"],
        *,
        n_days: int,
        max_samples: int | None,
        seed: int,
        demographics: Mapping[str, Mapping[str, Any]],
    ):
        self.days, self.indices, self.n_days = days, indices, n_days
        owners = [str(days.participants[i]) for i in indices]
        self._dates = [str(days.dates[i]) for i in indices]
        if n_days == 1:
            windows, offsets = np.arange(len(indices))[:, None], np.zeros((len(indices), 1), np.int64)
        else:
            windows, offsets = seven_days.windows(owners, self._dates, n_days=n_days)
        if max_samples is not None and max_samples < len(windows):
            chosen = np.sort(np.random.default_rng(seed).choice(len(windows), max_samples, replace=False))
            windows, offsets = windows[chosen], offsets[chosen]
        # Participants are drawn in the order of the listed days, of which windows are only another grouping.
        evaluated = np.sort(windows[windows != seven_days.PADDING])
        self.participants = tuple(dict.fromkeys(owners[i] for i in evaluated))
        number = {name: i for i, name in enumerate(self.participants)}
        # Participant of each position; -1 for those that are not evaluated.
        self.participant_of = np.array([number.get(name, -1) for name in owners], np.int64)
        first = seven_days.first_positions(windows)
        order = np.lexsort((first, self.participant_of[first]))
        self._windows, self._offsets = windows[order], offsets[order]
        self.evaluated = evaluated
        self.n_evaluated = len(evaluated)
        self.subgroups = self._subgroups(owners, demographics)

    def _subgroups(self, owners: Sequence[str], demographics: Mapping[str, Mapping]) -> dict[str, np.ndarray]:
        """Subgroup of each position by attribute; age is counted in calendar years of the day."""
        if not demographics:
            return {}
        age_group, sex = [], []
        for owner, date in zip(owners, self._dates, strict=True):
            known = demographics.get(owner, {})
            born = known.get("birth_year")
            age = None if born is None else dt.date.fromisoformat(date).year - born
            age_group.append(ATTRIBUTES["age_group"].index(fairness.age_group(age)))
            named = known.get("sex")
            sex.append(ATTRIBUTES["sex"].index(named if named in fairness.SEXES else fairness.UNKNOWN))
        return {"age_group": np.array(age_group, np.int64), "sex": np.array(sex, np.int64)}

    def values_at(self, position: int) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        """Cleaned values of the day at a split-local position."""
        return self.days.values(int(self.indices[position]))

    def date_at(self, position: int) -> str:
        return self._dates[position]

    def groups(self, batch_days: int, *, whole_participants: bool) -> Iterator[list[np.ndarray]]:
        """Batches, as rows of windows, grouped so that each group completes its participants.

        Args:
            batch_days: most days in a batch.
            whole_participants: let a batch grow rather than split a participant.
        """
        owner = self.participant_of[seven_days.first_positions(self._windows)]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(owner)) + 1, [len(owner)]])
        most = max(1, batch_days // self.n_days)
        begin = 0
        for end, following in zip(starts[1:], (*starts[2:], np.inf), strict=True):
            if following - begin <= most:
                continue
            rows = np.arange(begin, end)
            yield [rows] if whole_participants else [rows[i : i + most] for i in range(0, len(rows), most)]
            begin = end

    def people_of(self, group: Sequence[np.ndarray]) -> slice:
        """Positions of the participants of a group."""
        rows = np.concatenate(group)
        owners = self.participant_of[seven_days.first_positions(self._windows[rows])]
        return slice(int(owners.min()), int(owners.max()) + 1)

    def count_days(self, rows: np.ndarray) -> int:
        """Days in some windows."""
        return int(np.count_nonzero(self._windows[rows] != seven_days.PADDING))

    def batch(self, rows: np.ndarray) -> Batch:
        """Reads the days of some windows."""
        windows = self._windows[rows]
        values = np.full((len(rows), N_CHANNELS, self.n_days, MINUTES_PER_DAY), np.nan, np.float32)
        for w, slot in zip(*np.nonzero(windows != seven_days.PADDING), strict=True):
            values[w, :, slot] = self.values_at(windows[w, slot])
        first = seven_days.first_positions(windows)
        return Batch(
            windows,
            values.reshape(len(rows), N_CHANNELS, -1),
            self._offsets[rows],
            first,
            [self.participants[self.participant_of[i]] for i in first],
            [self._dates[i] for i in first],
        )


def _read(file: Path, n: int) -> MaskSet:
    found = MaskSet.load(file)
    if found.shape != (N_CHANNELS, MINUTES_PER_DAY):
        raise StoreError(f"{file}: masks of {found.shape}, days have {(N_CHANNELS, MINUTES_PER_DAY)}")
    if len(found) and found.indices[-1] >= n:
        raise StoreError(
            f"{file}: has a mask for day {found.indices[-1]} of the split, which has {n} days: masks of other data"
        )
    return found


class Masks:
    """Masks of the evaluated days: read from a published folder, or drawn day by day from their seeds.

    Args:
        folder: `<folder>/<split>/<scenario>.npz` files; None draws them.
        n: days of the split.

    Raises:
        StoreError: a mask file is missing or not readable, or has a mask of a day that the split does not have.
    """

    def __init__(self, scenarios: Sequence[str], split: str, *, folder: Path | None, mask_seed: int, n: int):
        self._seeds = {s: mask_cache.scenario_seed(s, split, mask_seed) for s in scenarios}
        self._sets = None
        if folder is not None:
            self._sets = {s: _read(mask_cache.cache_path(folder, split, s), n) for s in scenarios}

    def of_batch(
        self, scenario: str, batch: Batch
    ) -> tuple[Bool[np.ndarray, "window channel=19 time"], Bool[np.ndarray, "window n_days"]]:
        """Cells to hide, and which days have a mask at all (one of these may still hide nothing)."""
        n_windows, n_days = batch.windows.shape
        target = np.zeros((n_windows, N_CHANNELS, n_days, MINUTES_PER_DAY), bool)
        applicable = np.zeros((n_windows, n_days), bool)
        values = batch.values.reshape(target.shape)
        for w, slot in zip(*np.nonzero(batch.windows != seven_days.PADDING), strict=True):
            mask = self._mask(scenario, int(batch.windows[w, slot]), values[w, :, slot])
            if mask is not None:
                target[w, :, slot], applicable[w, slot] = mask, True
        return target.reshape(n_windows, N_CHANNELS, -1), applicable

    def _mask(self, scenario: str, position: int, values: np.ndarray) -> np.ndarray | None:
        if self._sets is not None:
            return self._sets[scenario].mask(position)
        rng = (
            np.random.default_rng(self._seeds[scenario] + position) if scenario in masks.STRUCTURAL else None
        )
        mask, applicable = masks.make_mask(scenario, values, ~np.isnan(values), rng)
        return mask if applicable else None
