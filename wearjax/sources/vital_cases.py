"""Surgeries in the published layout of VitalBench: one wide CSV per surgery, one row per time step.

A file has a `date` column and one column per variable, in any order; 0 or an empty cell is a missing value, and
static values are repeated on every row (VitalBench, section 2). Column names are matched without regard to case
and punctuation, and by the aliases of the variable table.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from jaxtyping import Float32

from wearjax import vitals
from wearjax.errors import SourceError
from wearjax.sources import csv_table, vital_csv
from wearjax.sources.tally import Tally
from wearjax.vitals import Centre

DATE_NAMES = ("date", "datetime", "timestamp", "time")
_SUFFIXES = (".csv", ".csv.gz")
_NAMED_IN_NOTES = 5
_NOT_READABLE = "file not readable"


@dataclass(frozen=True, eq=False)
class Case:
    """One surgery on a regular grid.

    Attributes:
        id: pseudonymous case id.
        start: wall-clock time of the first row, where the source has one.
        values: rows and the centre's variables in its order; 0 = missing (see `Variable.zero_is_value`).
        surgery_hours: length of the surgery; None where only the recording is known.
        general_anaesthesia: None where the source does not say.
    """

    id: str
    start: dt.datetime | None
    values: Float32[np.ndarray, "row variable"] = field(repr=False)
    surgery_hours: float | None = None
    general_anaesthesia: bool | None = None


def read_csv(path: str | os.PathLike, centre: Centre, *, tally: Tally | None = None) -> Case:
    """Reads one surgery.

    Raises SourceError naming the file when it is not CSV, has no row, or lacks the date or a variable's column.
    """
    file = Path(path)
    tally = Tally() if tally is None else tally
    date, columns = _find_columns(file, centre, tally)
    sex = next((name for name, i in columns.items() if centre.variables[i].name == "Gender"), None)
    text = [name for name in (date, sex) if name]
    found = vital_csv.read(file, text=text, numbers=[name for name in columns if name != sex])
    n_rows = len(found.text[date])
    if not n_rows:
        raise SourceError(f"{file}: a header and no row")
    values = np.zeros((n_rows, centre.n_variables), np.float32)
    for name, position in columns.items():
        column = vital_csv.sexes(found.text[name]) if name == sex else found.numbers[name]
        values[:, position] = np.where(np.isfinite(column), column, 0)
    for name, count in found.not_numbers.items():
        tally.skip(centre.names[columns[name]], "not a number", count)
    count_values(values, centre, tally)
    return Case(_case_id(file), _start(found.text[date], file, centre, tally), values)


def read_folder(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    order: Literal["name", "directory"] = "name",
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Case]:
    """Yields the surgeries of a folder; a file that cannot be read is skipped, counted and named.

    Args:
        order: by file name, the same everywhere; or as the file system lists them, which is what the reference
            implementation splits at random.
        progress: called with (files done, files in total).

    Raises:
        SourceError: no CSV in the folder, or a file lacks a column that the centre needs.
    """
    folder = Path(path)
    files = _files(folder, order, tally)
    for done, file in enumerate(files, start=1):
        try:
            case = read_csv(file, centre, tally=tally)
        except _MissingColumns:
            raise
        except SourceError as error:
            skip_file(error, tally)
        else:
            yield case
        if progress:
            progress(done, len(files))


def write_csv(case: Case, folder: str | os.PathLike, centre: Centre) -> Path:
    """Writes a surgery in the published layout; returns the file."""
    start = np.datetime64(case.start or dt.datetime(2000, 1, 1), "s")
    date = start + np.arange(len(case.values)) * np.timedelta64(centre.step_seconds, "s")
    columns = {"date": pa.array(np.datetime_as_string(date).astype(object)).cast(pa.string())}
    columns |= {name: pa.array(case.values[:, i]) for i, name in enumerate(centre.names)}
    file = Path(folder) / f"{case.id}.csv"
    pcsv.write_csv(pa.table(columns), file)
    return file


def count_values(values: Float32[np.ndarray, "row variable"], centre: Centre, tally: Tally) -> None:
    """Adds the rows read and the values present to the counts."""
    tally.read["rows"] += len(values)
    tally.read["cases"] += 1
    for name, count in zip(centre.names, np.count_nonzero(values, axis=0), strict=True):
        tally.used[name] += int(count)


def skip_file(error: SourceError, tally: Tally) -> None:
    """Counts a case whose file cannot be read; the notes name the first few."""
    tally.skip("case", _NOT_READABLE)
    if tally.skipped["case", _NOT_READABLE] <= _NAMED_IN_NOTES:
        tally.note(f"skipped: {error}")


class _MissingColumns(SourceError):
    """The layout is wrong, and so it is in every other file."""


def _find_columns(file: Path, centre: Centre, tally: Tally) -> tuple[str, dict[str, int]]:
    """Name of the date column, and the position of each column that is used; lower-case names."""
    names = csv_table.header(file)
    date = next((name for name in DATE_NAMES if name in names), None)
    columns: dict[str, int] = {}
    for name in dict.fromkeys(names):
        position = centre.find(name)
        if position is None:
            if name and name != date:
                tally.skip(f"column {name}", "not a variable of VitalBench")
        elif position in columns.values():
            twice = next(other for other, p in columns.items() if p == position)
            raise _MissingColumns(f"{file}: columns {twice!r} and {name!r} are both {centre.names[position]}")
        else:
            columns[name] = position
    absent = vitals.missing(names, centre)
    if date is None or absent:
        lacking = ", ".join((["date"] if date is None else []) + absent)
        raise _MissingColumns(f"{file}: lacks column {lacking} ({centre.title} has {centre.n_variables})")
    return date, columns


def _start(column: pa.Array, file: Path, centre: Centre, tally: Tally) -> dt.datetime | None:
    """First time of the date column; says when the rows do not follow each other by the centre's step."""
    try:
        clock = vital_csv.times(column, where=str(file))
    except SourceError:
        tally.skip("date", "not a time")
        return None
    steps = np.diff(clock[~np.isnat(clock)]).astype(np.int64)
    if len(steps) and np.median(steps) != centre.step_seconds:
        tally.skip("date", f"rows {np.median(steps):g} s apart, {centre.step_seconds} expected (case kept)")
    if np.any(steps <= 0):
        tally.skip("date", "rows not in the order of time (case kept as it is)")
    return None if np.isnat(clock[0]) else clock[0].item()


def _files(folder: Path, order: str, tally: Tally) -> list[Path]:
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder of CSV files")
    listed = [name for name in os.listdir(folder) if not name.startswith(".")]
    wanted = [name for name in listed if name.lower().endswith(_SUFFIXES)]
    tally.skip("file", "not CSV", len(listed) - len(wanted))
    if not wanted:
        raise SourceError(f"{folder}: no CSV file (one per surgery expected)")
    return [folder / name for name in (sorted(wanted) if order == "name" else wanted)]


def _case_id(file: Path) -> str:
    return file.name[: -len(next(s for s in reversed(_SUFFIXES) if file.name.lower().endswith(s)))]
