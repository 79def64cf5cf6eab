"""Imports a foreign archive into a day store: read, clean, split, count."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wearjax import engine as engines
from wearjax import plural, writing
from wearjax.channels import NAMES
from wearjax.day import Day
from wearjax.days import clean, labels, parts, splits, task_labels
from wearjax.days.store import DAYS_PER_SHARD, DayStore, DayStoreWriter, refuse
from wearjax.engine import Engine
from wearjax.errors import ConfigError, SourceError, StoreError
from wearjax.sources import minute_grid, openmhc, reading
from wearjax.sources.tally import Tally

FORMATS: dict[str, str] = {
    "apple-health": "wearjax.sources.apple_health",
    "fitbit": "wearjax.sources.fitbit",
    "fitbit-takeout": "wearjax.sources.fitbit_takeout",
    "health-connect": "wearjax.sources.health_connect",
    "actigraphy": "wearjax.sources.actigraphy",
    "openmhc": "wearjax.sources.openmhc",
}
# What an imported root is not: masks and time points follow the order of its rows.
_ROOT_NOTE = (
    "published benchmarks belong on the OpenMHC root itself, which every verb opens directly: the days of a store are "
    "sorted, so masks and forecast points are drawn anew"
)


@dataclass(frozen=True)
class Imported:
    """A finished import: the store, and what was read, used and skipped on the way."""

    store: DayStore
    tally: Tally


def import_days(
    source: str,
    path: str | os.PathLike,
    out: str | os.PathLike,
    *,
    overwrite: bool = False,
    engine: str | Engine | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Imported:
    """Reads `path` with the importer `source` and writes a day store at `out`.

    An OpenMHC root is read in parts: an interrupted import goes on where it stopped, and `engine` reads parts side by
    side, with the same bytes in the end.

    Args:
        source: a key of `FORMATS`.
        path: what the reader reads, a file or a folder.
        out: folder of the new store.
        overwrite: replace an existing store.
        engine: where parts are read, see `wearjax.engine.Engine`; for OpenMHC roots only.
        jobs: processes or workers of the engine.
        progress: called with (done, total) in the reader's own unit.
        **options: handed to the reader.

    Raises:
        ConfigError: unknown source, or an impossible participant id. SourceError: unusable input, or no day in it.
            StoreError: `out` exists. None leaves a store.
    """
    if source not in FORMATS:
        raise ConfigError(f"unknown source {source!r}; known: {', '.join(FORMATS)}")
    path = Path(path)
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    reader = importlib.import_module(FORMATS[source])
    accepted = inspect.signature(reader.read_days).parameters
    for name in options:
        if name not in accepted:
            raise ConfigError(f"the {source} importer has no option {name!r}")
    if "participant" in options:
        _check_id(options["participant"])
    # Not the name of the file: it may be a person's.
    provenance = {"source": source, "options": {k: str(v) for k, v in options.items()}}
    if source == "openmhc":
        with engines.opened(engine, jobs) as where:
            return _import_root(
                path,
                Path(out),
                options,
                provenance=provenance,
                overwrite=overwrite,
                engine=where,
                progress=progress,
            )
    if engine is not None or jobs is not None:
        raise ConfigError(
            f"--engine, --jobs: {source} is read in one piece; an OpenMHC root is read in parts"
        )
    tally = Tally()
    days = reading.each(path, reader.read_days(path, tally=tally, progress=progress, **options))
    if options.get("absent") != "missing":
        tally.note(minute_grid.ABSENT_NOTE)
    store = write_days(days, out, provenance=provenance, tally=tally, overwrite=overwrite, origin=path)
    return Imported(store, tally)


def _import_root(
    path: Path,
    out: Path,
    options: dict[str, Any],
    *,
    provenance: dict[str, Any],
    overwrite: bool,
    engine: Engine,
    progress: Callable[[int, int], None] | None,
) -> Imported:
    """An OpenMHC root, in parts of a shard; it brings its own split, demographics and task labels."""
    openmhc.check_absent(options.get("absent", "zero-when-recording"))
    refuse(out, overwrite=overwrite)
    source = openmhc.UserDays(path, version=options.get("version"))
    split, people, lookup = splits.read_splits(path), labels.read_demographics(path), _lookup(path)
    facts = [provenance, str(path.resolve()), source.files()]
    slices = source.slices(DAYS_PER_SHARD)
    with parts.alone(out):
        made = parts.read(source, slices, out, facts=facts, engine=engine, progress=progress)
        tally = made.tally()
        tally.note(_ROOT_NOTE)
        if note := openmhc.unlike_published(source.marker.version, source.marker.n_users):
            tally.note(note)
        with DayStoreWriter(out, provenance=provenance, overwrite=overwrite) as writer:
            made.into(writer)
            _attach(writer, split, people)
            if lookup is not None:
                writer.then(lambda store: _copy(lookup, store.path / task_labels.STORE_FILES[_LOOKUP]))
            provenance["import"] = tally.as_dict()
        made.remove()
    return Imported(DayStore(out), tally)


_LOOKUP: tuple[task_labels.Unit, task_labels.Window] = ("day", "full_history")


def _lookup(root: Path) -> Path | None:
    """The label lookup of the benchmark, if the root has it. Raises SourceError when it is not readable as one."""
    file = root / "processed" / task_labels.ROOT_FILES[_LOOKUP]
    return task_labels.read_lookup(root).path if file.exists() else None


def _copy(file: Path, target: Path) -> None:
    with writing.told(target):
        shutil.copyfile(file, target)


def write_days(
    days: Iterator[Day],
    out: str | os.PathLike,
    *,
    provenance: dict[str, Any],
    tally: Tally,
    overwrite: bool = False,
    split: splits.Splits | None = None,
    demographics: dict[str, dict] | None = None,
    then: Callable[[DayStore], object] | None = None,
    seed: int = 42,
    origin: Path | None = None,
) -> DayStore:
    """Writes days as a store with splits by participant (made here unless given), demographics, and the tally.

    Args:
        then: called with the written days before the store takes its name, to lay files of its own beside them.
        origin: file or folder that the days were read from, for messages.
    """
    with DayStoreWriter(out, provenance=provenance, overwrite=overwrite) as writer:
        participants = set()
        for day in days:
            if day.participant not in participants:
                _check_id(day.participant)
                participants.add(day.participant)
            tally.implausible.update(_implausible(day))
            writer.add(day)
        if not participants:
            reasons = ", ".join(f"{n:,} {m} ({r})" for (m, r), n in tally.skipped.most_common(3))
            if origin is None:
                raise StoreError(f"{out}: no day to write" + (f"; left out: {reasons}" if reasons else ""))
            found = (
                f"of what it holds, none could be used; left out: {reasons}" if reasons else "no record in it"
            )
            raise SourceError(f"{origin}: no day of recordings found: {found}")
        if split is None and len(participants) >= splits.MIN_PARTICIPANTS:
            split = splits.make_splits(sorted(participants), seed=seed)
        if split is None:
            tally.note(
                f"{len(participants)} {plural.noun(len(participants), 'participant')}: "
                "too few to split into train, validation and test"
            )
        _note_implausible(tally)
        _attach(writer, split, demographics)
        if then is not None:
            writer.then(then)
        provenance["import"] = tally.as_dict()
    return DayStore(out)


def _check_id(participant: str) -> None:
    """Raises ConfigError for an id that could not name a file: ids do, in what is made of a store."""
    if participant in ("", ".", "..") or not participant.isprintable() or set(participant) & set("/\\"):
        raise ConfigError(
            f"participant {participant!r}: expected printable characters without slashes or backslashes"
        )


def _implausible(day: Day) -> dict[str, int]:
    """Minutes outside the plausible range, by channel."""
    counts = clean.implausible(day.values).sum(axis=1)
    return {NAMES[c]: int(counts[c]) for c in np.flatnonzero(counts)}


def _note_implausible(tally: Tally) -> None:
    for row in tally.implausible_rows():
        minutes = f"{row['minutes']} {'minute' if row['minutes'] == '1' else 'minutes'}"
        tally.note(f"{row['channel']}: {minutes} outside {row['plausible']} {row['unit']}, kept as recorded")


def _attach(
    writer: DayStoreWriter, split: splits.Splits | None, demographics: dict[str, dict] | None
) -> None:
    if split is not None:
        writer.attach("splits.json", splits.to_json(split))
    if demographics:
        writer.attach("participants.json", json.dumps(demographics, indent=1) + "\n")
