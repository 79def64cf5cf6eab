"""Reads columns of hospital tables: CSV, plain or gzipped, with whatever the export writes for "no value"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from jaxtyping import Float

from wearjax.channels import LARGEST
from wearjax.errors import SourceError
from wearjax.sources import csv_table

NO_VALUE = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "\\N", "-", "--"]
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
# What stands behind the second in some exports; times are read as the local wall clock.
_BELOW_SECOND = r"(\.\d+)?(Z|[+-]\d\d:?\d\d)?$"
_SEXES = {"m": 1.0, "male": 1.0, "f": 0.0, "female": 0.0}


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of one file by their lower-case names.

    Attributes:
        text: strings, null where the cell has no value.
        numbers: float64, NaN where the cell has no value.
        not_numbers: how many cells of a number column hold something else, or what nothing measures; NaN as well.
    """

    text: dict[str, pa.Array]
    numbers: dict[str, Float[np.ndarray, " row"]]
    not_numbers: dict[str, int]


def read(file: Path, *, text: Sequence[str] = (), numbers: Sequence[str] = ()) -> Columns:
    """Reads the named columns (lower case).

    Raises:
        SourceError: a column is missing, or the file is not readable as CSV.
    """
    names = csv_table.header(file)
    absent = [name for name in (*text, *numbers) if name not in names]
    if absent:
        raise SourceError(f"{file}: no column {', '.join(absent)}; found {', '.join(names[:12])}")
    wanted = {name: pa.string() for name in text} | {name: pa.float64() for name in numbers}
    bad: dict[str, int] = {}
    try:
        try:
            table = _table(file, names, wanted)
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
            table, bad = _lenient(_table(file, names, dict.fromkeys(wanted, pa.string())), numbers)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise SourceError(f"{file}: {csv_table.said(error, names)}") from None
    found = {name: table[name].to_numpy() for name in numbers}
    for name, column in found.items():
        absurd = np.abs(column) > LARGEST
        if absurd.any():
            found[name] = np.where(absurd, np.nan, column)
            bad[name] = bad.get(name, 0) + int(absurd.sum())
    return Columns({name: table[name].combine_chunks() for name in text}, found, bad)


def _table(file: Path, names: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    options = pcsv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=NO_VALUE, strings_can_be_null=True
    )
    with pa.input_stream(str(file), compression="detect") as stream:
        try:
            return pcsv.read_csv(
                stream,
                read_options=pcsv.ReadOptions(column_names=names, skip_rows=1),
                convert_options=options,
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV file" not in str(error):
                raise
            return pa.table({name: pa.array([], kind) for name, kind in types.items()})


def _lenient(table: pa.Table, numbers: Sequence[str]) -> tuple[pa.Table, dict[str, int]]:
    """Number columns from text cell by cell; what is not a number becomes null and is counted."""
    bad = {}
    for name in numbers:
        cells = table[name]
        number = pc.match_substring_regex(cells, _NUMBER)
        bad[name] = int(pc.sum(pc.invert(number)).as_py() or 0)
        values = pc.cast(pc.utf8_trim_whitespace(pc.if_else(number, cells, None)), pa.float64())
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table, {name: count for name, count in bad.items() if count}


def times(column: pa.Array, *, where: str) -> np.ndarray:
    """`datetime64[s]` of the wall clock, NaT where blank.

    Raises SourceError naming the first text in none of the known styles (ISO 8601, US month-first).
    """
    column = pc.replace_substring_regex(column, _BELOW_SECOND, "")
    column = pc.replace_substring_regex(column, r"^(\d{4}-\d\d-\d\d)$", r"\1 00:00:00")
    try:
        found = pc.cast(column, pa.timestamp("s"))
        return found.to_numpy(zero_copy_only=False).astype("datetime64[s]")
    except pa.ArrowInvalid:
        pass
    seconds, _ = csv_table.local_seconds(pc.fill_null(column, "1970-01-01 00:00:00"), where=where)
    found = np.array(seconds).astype("datetime64[s]")
    found[pc.is_null(column).to_numpy(zero_copy_only=False)] = np.datetime64("NaT")
    return found


def sexes(column: pa.Array) -> Float[np.ndarray, " row"]:
    """Sex as a number: 1 male, 0 female, a number as it stands, NaN for anything else."""
    number = {cell: _sex(cell) for cell in pc.unique(column).to_pylist()}
    return np.fromiter((number[cell] for cell in column.to_pylist()), np.float64, len(column))


def _sex(cell: str | None) -> float:
    word = (cell or "").strip().casefold()
    if word in _SEXES:
        return _SEXES[word]
    try:
        number = float(word)
    except ValueError:
        return float("nan")
    return number if abs(number) <= LARGEST else float("nan")
