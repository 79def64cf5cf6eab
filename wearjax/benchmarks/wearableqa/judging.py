"""Judges people side by side in processes that write what is left of each into a file of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from wearjax import engine
from wearjax.benchmarks.wearableqa import dataset, gates, parts, registry, windows
from wearjax.benchmarks.wearableqa.candidate import Person, QuestionType
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.panel import LARGEST, Panel
from wearjax.errors import ConfigError
from wearjax.segments.daily_records import Records, RecordStore


class Judge:
    """All types' questions about any person of a store."""

    def __init__(self, store: Records, cohort: CohortReference, types: Sequence[QuestionType]):
        self._store, self._cohort, self._types = store, cohort, tuple(types)
        self._panel = Panel([self._person(user) for user in _compared(store.cohort())])

    def write(self, user: str, file: Path) -> None:
        """Judges a person and writes the file."""
        person = self._person(user)
        ends = list(windows.end_dates(person.record))
        judged = [gates.judge_person(each, person, ends, self._panel) for each in self._types]
        parts.write(file, user, judged)

    def _person(self, user: str) -> Person:
        return Person(self._store.record(user), self._cohort)


def _compared(users: Sequence[str]) -> list[str]:
    """Of more people than a panel takes, as many, by a hash of the id."""
    ordered = sorted(users, key=lambda user: hashlib.sha256(f"panel {user}".encode()).digest())
    return sorted(ordered[:LARGEST])


def write_all(
    store: RecordStore,
    cohort: CohortReference,
    types: Sequence[QuestionType],
    files: Sequence[tuple[str, Path]],
    *,
    cohort_file: Path,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Judges each person of whom there is no file yet.

    Args:
        files: people and where their file goes.
        cohort_file: the same reference, for other processes.
        jobs: processes; None takes one a core. Several start by importing the program's main module, which therefore
            must be guarded (`if __name__ == "__main__"`).
        progress: called with (people done, people).

    Raises:
        ConfigError: `jobs` below 1, types that other processes cannot import, or a process died.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(f"jobs: must be at least 1, got {jobs}")
    missing = [(user, file) for user, file in files if not file.exists()]
    done = len(files) - len(missing)
    processes = min(engine.cores() if jobs is None else jobs, len(missing))
    if progress:
        progress(done, len(files))
    if processes <= 1:
        finished = _here(store, cohort, types, missing)
    else:
        finished = _elsewhere(store.path, cohort_file, types, missing, processes)
    for _ in finished:
        done += 1
        if progress:
            progress(done, len(files))


def _here(store, cohort, types, missing) -> Iterator[None]:
    """Judges in this process."""
    judge = Judge(store, cohort, types) if missing else None
    for user, file in missing:
        assert judge is not None
        judge.write(user, file)
        yield None


def _elsewhere(
    store: Path,
    cohort: Path,
    types: Sequence[QuestionType],
    missing: Sequence[tuple[str, Path]],
    processes: int,
) -> Iterator[None]:
    names = [each.name for each in types]
    if any(registry.TYPES.get(each.name) is not each for each in types):
        raise ConfigError("jobs: question types that are not the library's own need jobs=1")
    with engine.one_thread_each():
        pool = engine.start_processes(processes, _start, store, cohort, names)
        waiting, running = iter(missing), set()
        try:
            while True:
                for user, file in waiting:
                    running.add(pool.submit(_write, user, file))
                    if len(running) >= 2 * processes:
                        break
                if not running:
                    break
                ready, running = wait(running, return_when=FIRST_COMPLETED)
                for each in ready:
                    yield each.result()
        except BrokenProcessPool:
            raise ConfigError(
                f'jobs={processes}: a process died; guard the main module (if __name__ == "__main__"), give more '
                "memory, or use jobs=1"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


_JUDGE: Judge | None = None


def _start(store: Path, cohort: Path, names: Sequence[str]) -> None:
    """Runs once in each process."""
    global _JUDGE
    _JUDGE = Judge(RecordStore(store), dataset.read_cohort(cohort), registry.chosen(names))


def _write(user: str, file: Path) -> None:
    assert _JUDGE is not None
    _JUDGE.write(user, file)
