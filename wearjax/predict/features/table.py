"""The 495 features of every participant of a store, extracted once, in parallel, and kept.

Features of OpenMHC's XGBoost method: daily behaviour, curves, dynamics, in this order. They see all retained days of a
participant, whatever the task, and the curve components are fitted on all participants of the store, whatever
their split: the published method does both, and it makes its scores transductive.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict import vector_cache
from wearjax.predict.features import curves, daily, day_block, dynamics
from wearjax.predict.features.curves import DaySums

NAMES: tuple[str, ...] = (*daily.NAMES, *curves.NAMES, *dynamics.NAMES)
DAYS_A_BLOCK = 32
PARTICIPANTS_A_FILE = 256
# Below this, starting processes costs more than it saves.
DAYS_IN_PROCESS = 20_000
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
    progress: Progress | None = None,
) -> FeatureTable:
    """Features of all participants of a store.

    Memory holds one participant's days in each process, a few at a time, and about 20 kB for each participant.

    Args:
        cache_dir: keeps what has been extracted; an interrupted run continues there.
        n_jobs: processes; by default one for a small store and one a core otherwise. Several start by importing
            the program's main module, which therefore must be guarded (`if __name__ == "__main__"`).
        progress: called with (participants done, participants to do).

    Raises:
        ConfigError: `n_jobs` below 1, or a process died. StoreError: the cache cannot be read or written.
    """
    participants, positions = retained_positions(days)
    if n_jobs is not None and n_jobs < 1:
        raise ConfigError(f"n_jobs: must be at least 1, got {n_jobs}")
    folder = None
    if cache_dir is not None:
        folder = Path(cache_dir) / f"xgboost-{vector_cache.digest_of(days, _SETTINGS)}"
    total = sum(len(own) for own in positions)
    processes = min(n_jobs or _default_jobs(total), max(len(positions), 1))
    with _Parts(days, positions, processes, progress) as parts:
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


def _default_jobs(n_days: int) -> int:
    return 1 if n_days <= DAYS_IN_PROCESS else len(os.sched_getaffinity(0))


class _Parts:
    """Computes parts of participants, in this process or in others, which live until the block ends."""

    def __init__(self, days: Days, positions: list[np.ndarray], processes: int, progress: Progress | None):
        self._days, self._positions, self._progress = days, positions, progress
        self._pool: ProcessPoolExecutor | None = None
        self._processes = processes
        self._done = 0
        self.to_do = len(positions)

    def __enter__(self) -> _Parts:
        if self._processes > 1:
            # Not by forking: this process may hold threads of JAX.
            self._pool = ProcessPoolExecutor(
                self._processes,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_open_in_worker,
                initargs=(self._days,),
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def compute(self, rows: Int64[np.ndarray, "row"]) -> Float64[np.ndarray, "row part"]:
        out = np.empty((len(rows), PART_WIDTH))
        for place, part in enumerate(self._each([self._positions[row] for row in rows])):
            out[place] = part
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self.to_do)
        return out

    def _each(self, positions: list[np.ndarray]) -> Iterator[np.ndarray]:
        if self._pool is None:
            yield from (participant_part(self._days, own) for own in positions)
            return
        try:
            yield from self._pool.map(_part_in_worker, positions)
        except BrokenProcessPool:
            raise ConfigError(
                f"n_jobs={self._processes}: a process of the feature extraction died; guard the main module "
                '(if __name__ == "__main__"), give more memory, or use n_jobs=1'
            ) from None


_worker: dict[str, Days] = {}


def _open_in_worker(days: Days) -> None:
    """Runs once in each process: a store is opened there, not sent with every participant."""
    _worker["days"] = days


def _part_in_worker(positions: Int64[np.ndarray, "day"]) -> Float64[np.ndarray, "part"]:
    return participant_part(_worker["days"], positions)
