"""Prepares a centre's surgeries: reads a source, applies the inclusion criteria, splits, writes the store."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wearjax.errors import ConfigError, SourceError
from wearjax.segments import vital_cases
from wearjax.segments.vital_cases import CaseStore
from wearjax.sources import reading, synthetic_surgery, vital_inclusion
from wearjax.sources import vital_cases as layout
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import CENTRES, Centre

# Source -> its reader, and the centres whose rows it can make. `csv` is the published layout.
READERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "csv": ("wearjax.sources.vital_cases", ("vitaldb", "mover")),
    "vitaldb-tables": ("wearjax.sources.vitaldb_tables", ("vitaldb",)),
    "vital-files": ("wearjax.sources.vital_file", ("vitaldb", "mover")),
    "beats": ("wearjax.sources.vital_beats", ("vitaldb", "mover")),
    "mover-tables": ("wearjax.sources.mover", ("mover",)),
}
RAW = ("vitaldb-tables", "mover-tables")  # not filtered yet: the published criteria apply by default
Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A finished preparation: the store, and what was read, used and left out on the way."""

    store: CaseStore
    tally: Tally


def prepare(
    source: str,
    path: str | os.PathLike,
    out: str | os.PathLike,
    *,
    centre: str,
    split: str | os.PathLike = "time",
    criteria: Criteria | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Prepared:
    """Reads `path` with the reader `source` and writes the surgeries at `out`.

    Args:
        source: a key of `READERS`.
        centre: `vitaldb` or `mover`: which variables and which step.
        split: `time`, `random42` or a JSON file with three lists of ids.
        criteria: inclusion criteria; None takes every surgery.
        options: handed to the reader.

    Raises:
        ConfigError: unknown source, centre or option. SourceError: unusable input. StoreError: `out` exists, or
            nothing is left. None leaves a store.
    """
    if source not in READERS:
        raise ConfigError(f"unknown source {source!r}; known: {', '.join(READERS)}")
    module, centres = READERS[source]
    if centre not in centres:
        raise ConfigError(f"{source} makes cases of {' and '.join(centres)}, not of {centre!r}")
    if not Path(path).exists():
        raise SourceError(f"{path}: no such file or folder")
    tally, rows = Tally(), CENTRES[centre]
    reader = importlib.import_module(module)
    read = reader.read_folder if source == "csv" else reader.read_cases
    for name in options:
        if name not in inspect.signature(read).parameters:
            raise ConfigError(f"the reader of {source} has no option {name!r}")
    if source == "csv":
        cases = _published(path, rows, criteria, tally, progress, **options)
    else:
        cases = read(path, rows, tally=tally, criteria=criteria, progress=progress, **options)
    if criteria is not None and criteria.all_targets:
        complete = dataclasses.replace(criteria, general_anaesthesia=False)
        cases = vital_inclusion.included(cases, rows, complete, tally=tally)
    provenance = {
        "source": source,
        "name": Path(path).name,
        "options": {k: str(v) for k, v in options.items()},
    }
    cases = reading.each(Path(path), cases)
    return _write(out, cases, rows, split, criteria, tally, provenance, overwrite)


def prepare_synthetic(
    cohort: synthetic_surgery.Cohort,
    out: str | os.PathLike,
    *,
    split: str | os.PathLike = "time",
    criteria: Criteria | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Writes the surgeries of an invented cohort at `out`; arguments and errors as for `prepare`."""
    tally = Tally()
    cases = synthetic_surgery.read_cases(cohort, tally=tally, progress=progress)
    if criteria is not None:
        cases = vital_inclusion.included(cases, cohort.centre, criteria, tally=tally)
    facts = {"cases": cohort.n_cases, "seed": cohort.seed, "coupling": cohort.coupling, "hours": cohort.hours}
    provenance = {"source": "synthetic", **facts, "gaps": cohort.gaps}
    return _write(out, cases, cohort.centre, split, criteria, tally, provenance, overwrite)


def describe(made: Prepared) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Tables for people: cases and rows of each split, what was recorded of each variable, what was left out."""
    store = made.store
    rows = np.diff(store.offsets)
    sizes = [{"cases of": "all", "cases": len(store), "rows": f"{int(rows.sum()):,}"}]
    for name in ("train", "validation", "test"):
        chosen = store.indices(name)
        sizes.append({"cases of": name, "cases": len(chosen), "rows": f"{int(rows[chosen].sum()):,}"})
    yield f"{store.centre.title}, one row every {store.centre.step_seconds} s", sizes
    share = store.recorded.sum(axis=0) / max(int(rows.sum()), 1)
    yield (
        "Recorded",
        [
            {"variable": v.name, "unit": v.unit, "role": v.role, "rows with a value": f"{100 * s:.1f} %"}
            for v, s in zip(store.centre.variables, share, strict=True)
        ],
    )
    if made.tally.skipped:
        skipped = sorted(made.tally.skipped.items())
        yield "Left out", [{"what": w, "why": why, "count": f"{n:,}"} for (w, why), n in skipped]


def _published(
    path: str | os.PathLike,
    centre: Centre,
    criteria: Criteria | None,
    tally: Tally,
    progress: Progress | None,
    **options: Any,
) -> Iterator[Case]:
    cases = layout.read_folder(path, centre, tally=tally, progress=progress, **options)
    if criteria is None:
        return cases
    tally.note("the published layout does not name the kind of anaesthesia: taken to be general")
    asked = dataclasses.replace(criteria, general_anaesthesia=False)
    return vital_inclusion.included(cases, centre, asked, tally=tally)


def _write(
    out: str | os.PathLike,
    cases: Iterator[Case],
    centre: Centre,
    split: str | os.PathLike,
    criteria: Criteria | None,
    tally: Tally,
    provenance: dict[str, Any],
    overwrite: bool,
) -> Prepared:
    provenance["criteria"] = dataclasses.asdict(criteria) if criteria else None
    store = vital_cases.write_cases(
        out, cases, centre, split=split, tally=tally, provenance=provenance, overwrite=overwrite
    )
    return Prepared(store, tally)
