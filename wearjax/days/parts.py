"""An import in parts: each part of the people is read and written by itself, then the parts become one store.

Parts are day stores beside the target, written whole or not at all. An import that was interrupted goes on with the
parts that are there, and ends with the same bytes, wherever and in whatever order parts were written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wearjax import __version__, json_text, writing
from wearjax.day import Day
from wearjax.days.store import DayStoreWriter
from wearjax.engine import Engine
from wearjax.errors import SourceError, StoreError
from wearjax.sources.tally import Tally

STORE, TALLY, KEY = "store", "tally.json", "key"


class Divided(Protocol):
    """Recordings of many people, read a slice at a time; a pickle of it should be small."""

    def days(self, start: int, stop: int, *, tally: Tally) -> Iterator[Day]: ...


@dataclass(frozen=True)
class _Reading:
    """What the tasks of an import share."""

    source: Divided
    folder: Path


def read(
    source: Divided,
    slices: Sequence[tuple[int, int]],
    out: Path,
    *,
    facts: Any,
    engine: Engine,
    progress: Callable[[int, int], None] | None = None,
) -> Parts:
    """Reads and writes every part that is not there yet.

    Args:
        slices: arguments of `source.days`, one pair a part, in the order of participants.
        out: the store to come.
        facts: what the parts depend on; parts of other facts are thrown away.
        progress: called with (days read, days).

    Raises:
        SourceError, StoreError: of the source; these leave no parts. ConfigError: of the engine.
    """
    folder = _beside(out)
    key = hashlib.sha256(
        json.dumps([__version__, facts, slices], sort_keys=True, default=str).encode()
    ).hexdigest()
    _prepare(folder, key)
    parts = Parts(folder, len(slices))
    total, done = sum(stop - start for start, stop in slices), 0
    missing = [number for number in range(len(slices)) if not parts.tally_file(number).exists()]
    if progress:
        done = total - sum(stop - start for start, stop in (slices[n] for n in missing))
        progress(done, total)
    try:
        tasks = ((number, *slices[number]) for number in missing)
        for days in engine.map(_write, tasks, shared=_Reading(source, folder)):
            done += days
            if progress:
                progress(done, total)
    except (SourceError, StoreError):
        parts.remove()
        raise
    return parts


@contextlib.contextmanager
def alone(out: Path) -> Iterator[None]:
    """Holds the folder of the parts of `out`. Raises StoreError where another process reads into it."""
    folder = _beside(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from None
    with writing.alone(folder, out):
        yield


class Parts:
    """The parts of one import."""

    def __init__(self, folder: Path, count: int):
        self._folder, self._count = folder, count

    def tally_file(self, number: int) -> Path:
        """Stands when the part is whole."""
        return _place(self._folder, number) / TALLY

    def tally(self) -> Tally:
        """Counts of all parts."""
        found = Tally()
        for number in range(self._count):
            found.add(_tally_of(json_text.loads(self.tally_file(number).read_text())))
        return found

    def into(self, writer: DayStoreWriter) -> None:
        """Gives the days of all parts to a writer, in order."""
        for number in range(self._count):
            store = _place(self._folder, number) / STORE
            if store.exists():
                writer.take(store)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _prepare(folder: Path, key: str) -> None:
    file = folder / KEY
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (file.exists() and file.read_text() == key):
            _empty(folder)
        file.write_text(key)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from None


def _empty(folder: Path) -> None:
    """Removes what is inside; the folder itself stays, for whoever holds it."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def _beside(out: Path) -> Path:
    return out.with_name(f".{out.name}.parts")


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number // 1000:03d}" / f"{number % 1000:03d}"


def _write(reading: _Reading, task: tuple[int, int, int]) -> int:
    """Reads and writes one part; returns its days."""
    number, start, stop = task
    place = _place(reading.folder, number)
    attempt = place.with_name(
        f".{place.name}.partial-{uuid.uuid4().hex}"
    )  # two workers may have been given it
    attempt.mkdir(parents=True)
    tally = Tally()
    try:
        days = reading.source.days(start, stop, tally=tally)
        first = next(days, None)
        if first is not None:
            with DayStoreWriter(attempt / STORE, provenance={}) as writer:
                writer.add(first)
                writer.add_all(days)
        (attempt / TALLY).write_text(json.dumps(_plain(tally)))
        with contextlib.suppress(OSError):  # it stands already
            attempt.rename(place)
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    return stop - start


def _plain(tally: Tally) -> dict[str, Any]:
    return {
        "read": dict(tally.read),
        "used": dict(tally.used),
        "skipped": [[measure, reason, count] for (measure, reason), count in tally.skipped.items()],
        "notes": tally.notes,
        "partial": tally.partial,
    }


def _tally_of(plain: dict[str, Any]) -> Tally:
    return Tally(
        read=Counter(plain["read"]),
        used=Counter(plain["used"]),
        skipped=Counter({(measure, reason): count for measure, reason, count in plain["skipped"]}),
        notes=list(plain["notes"]),
        partial=plain["partial"],
    )
