"""The 495 features of every participant of a store, extracted once, in parallel, and kept.

Features of OpenMHC's XGBoost method: daily behaviour, curves, dynamics, in this order. They see all retained days of a
participant, whatever the task, and the curve components are fitted on all participants of the store, whatever
their split: the published method does both, and it makes its scores transductive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from wearjax import engine as engines
from wearjax.days.store import Days
from wearjax.engine import Engine
from wearjax.predict import vector_cache
from wearjax.predict.features import curves, daily, day_block, dynamics
from wearjax.predict.features.curves import DaySums

NAMES: tuple[str, ...] = (*daily.NAMES, *curves.NAMES, *dynamics.NAMES)
DAYS_A_BLOCK = 32
PARTICIPANTS_A_FILE = 256
# Below this, starting processes costs more than it saves.
DAYS_IN_PROCESS = 20_000
DAYS_A_TASK = 256  # on an engine: a tenth of a second and some
_SETTINGS = {"features": "xgboost", "version": 1}
_OWN = len(daily.NAMES) + len(dynamics.NAMES)
PART_WIDTH = _OWN + curves.WIDTH

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features of the participants who have a retained day.

    Attributes:
        participants: ids, sorted.
        values: one row a participant, columns as `NAMES`; NaN where a feature is not defined.
    """

    participants: tuple[str, ...]
    values: Float64[np.ndarray, "participant 495"] = field(repr=False)

    def find(self, users: Sequence[str]) -> Int64[np.ndarray, "user"]:
        """The row of each user; -1 for a user without a retained day."""
        place = {participant: row for row, participant in enumerate(self.participants)}
        return np.array([place.get(user, -1) for user in users], np.int64)


def extract(
    days: Days,
    *,
    cache_dir: str | os.PathLike | None = None,
    n_jobs: int | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> FeatureTable:
    """Features of all participants of a store.

    Memory holds one participant's days in each process, a few at a time, and about 20 kB for each participant.

    Args:
        cache_dir: keeps what has been extracted; an interrupted run continues there.
        n_jobs: processes; by default one for a small store and one a core otherwise. Several start by importing
            the program's main module, which therefore must be guarded (`if __name__ == "__main__"`).
        engine: where participants are worked on, instead of in `n_jobs` processes; features do not depend on it.
        progress: called with (participants done, participants to do).

    Raises:
        ConfigError: `n_jobs` below 1, or a process died. StoreError: the cache cannot be read or written.
    """
    participants, positions = retained_positions(days)
    folder = None
    if cache_dir is not None:
        folder = Path(cache_dir) / f"xgboost-{vector_cache.digest_of(days, _SETTINGS)}"
    if engine is None and n_jobs is None and sum(map(len, positions)) > DAYS_IN_PROCESS:
        n_jobs = engines.cores()
    with engines.opened(engine, n_jobs) as where:
        parts = _Parts(days, positions, where, progress)
        cache = vector_cache.VectorCache(
            len(positions), PART_WIDTH, parts.compute, folder=folder, rows_a_call=PARTICIPANTS_A_FILE
        )
        parts.to_do = len(positions) - cache.n_known
        for start in range(0, len(positions), PARTICIPANTS_A_FILE):
            cache.ensure(np.arange(start, min(start + PARTICIPANTS_A_FILE, len(positions))))
    return FeatureTable(participants, assemble(cache.rows(np.arange(len(positions)))))


def retained_positions(days: Days) -> tuple[tuple[str, ...], list[Int64[np.ndarray, "_"]]]:
    """Participants with a retained day, sorted, and the positions of each one's retained days by date."""
    kept = np.flatnonzero(days.retained).astype(np.int64)
    owner, dates = days.participants[kept].astype(str), days.dates[kept].astype(str)
    order = np.lexsort((dates, owner))
    names, first = np.unique(owner[order], return_index=True)
    positions = np.split(kept[order], first[1:]) if len(names) else []
    return tuple(str(name) for name in names), positions


def participant_part(days: Days, positions: Int64[np.ndarray, "day"]) -> Float64[np.ndarray, "part"]:
    """What `assemble` needs of one participant, from positions of their days (at least one) by date."""
    tables, sums = [], DaySums()
    for start in range(0, len(positions), DAYS_A_BLOCK):
        block = day_block.read(days, positions[start : start + DAYS_A_BLOCK])
        tables.append(daily.of_block(block))
        sums.add(block)
    table = daily.joined(tables)
    return np.concatenate([daily.features(table), dynamics.features(table), sums.mean_day().part()])


def assemble(parts: Float64[np.ndarray, "participant part"]) -> Float64[np.ndarray, "participant 495"]:
    """Features in the order of `NAMES` from the parts of all participants of the cohort."""
    own = np.asarray(parts[:, :_OWN], np.float64)
    by_curve = curves.features(parts[:, _OWN:])
    return np.concatenate([own[:, : len(daily.NAMES)], by_curve, own[:, len(daily.NAMES) :]], axis=1)


class _Parts:
    """Computes parts of participants, on an engine or in this process, and tells how far it is."""

    def __init__(self, days: Days, positions: list[np.ndarray], engine: Engine, progress: Progress | None):
        self._days, self._positions, self._engine, self._progress = days, positions, engine, progress
        self._done = 0
        self.to_do = len(positions)

    def compute(self, rows: Int64[np.ndarray, "row"]) -> Float64[np.ndarray, "row part"]:
        out = np.empty((len(rows), PART_WIDTH))
        place = 0
        for found in self._engine.map(_parts_of, self._batches(rows), shared=self._days):
            for part in found:
                out[place] = part
                place += 1
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self.to_do)
        return out

    def _batches(self, rows: Int64[np.ndarray, "row"]) -> Iterator[list[np.ndarray]]:
        """Positions of some participants each: of one in this process, else enough to be worth a task."""
        least, batch = DAYS_A_TASK if self._engine.elsewhere else 1, []
        for row in rows:
            batch.append(self._positions[row])
            if sum(map(len, batch)) >= least:
                yield batch
                batch = []
        if batch:
            yield batch


def _parts_of(days: Days, positions: list[np.ndarray]) -> list[Float64[np.ndarray, "part"]]:
    return [participant_part(days, own) for own in positions]
