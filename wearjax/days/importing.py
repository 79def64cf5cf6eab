"""Imports a foreign archive into a day store: read, clean, split, count."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wearjax.day import Day
from wearjax.days import labels, splits
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError, SourceError, StoreError
from wearjax.sources import openmhc
from wearjax.sources.tally import Tally

FORMATS: dict[str, str] = {
    "apple-health": "wearjax.sources.apple_health",
    "fitbit": "wearjax.sources.fitbit",
    "actigraphy": "wearjax.sources.actigraphy",
    "openmhc": "wearjax.sources.openmhc",
}


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
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Imported:
    """Reads `path` with the importer `source` and writes a day store at `out`.

    Args:
        source: a key of `FORMATS`.
        overwrite: replace an existing store.
        progress: called with (done, total) in the reader's own unit.
        options: handed to the reader.

    Raises:
        ConfigError: unknown source. SourceError: unusable input. StoreError: `out` exists. None leaves a store.
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
    tally = Tally()
    days = reader.read_days(path, tally=tally, progress=progress, **options)
    provenance = {"source": source, "name": path.name, "options": {k: str(v) for k, v in options.items()}}
    known: dict[str, Any] = {}
    if source == "openmhc":  # the published root brings its own split and demographics
        openmhc.read_marker(path)  # first: another folder has no splits either
        known = {"split": splits.read_splits(path), "demographics": labels.read_demographics(path)}
    store = write_days(days, out, provenance=provenance, tally=tally, overwrite=overwrite, **known)
    return Imported(store, tally)


def write_days(
    days: Iterator[Day],
    out: str | os.PathLike,
    *,
    provenance: dict[str, Any],
    tally: Tally,
    overwrite: bool = False,
    split: splits.Splits | None = None,
    demographics: dict[str, dict] | None = None,
    seed: int = 42,
) -> DayStore:
    """Writes days as a store with splits by participant (made here unless given), demographics, and the tally."""
    with DayStoreWriter(out, provenance=provenance, overwrite=overwrite) as writer:
        participants = set()
        for day in days:
            participants.add(day.participant)
            writer.add(day)
        if not participants:
            reasons = ", ".join(f"{n} {m} {r}" for (m, r), n in tally.skipped.most_common(3))
            raise StoreError(
                f"{out}: the import found no day to keep" + (f" (skipped: {reasons})" if reasons else "")
            )
        if split is None and len(participants) >= splits.MIN_PARTICIPANTS:
            split = splits.make_splits(sorted(participants), seed=seed)
        if split is not None:
            writer.attach("splits.json", splits.to_json(split))
        else:
            tally.note(
                f"{len(participants)} participant(s): too few to split into train, validation and test"
            )
        if demographics:
            writer.attach("participants.json", json.dumps(demographics, indent=1) + "\n")
        provenance["import"] = tally.as_dict()
    return DayStore(out)
