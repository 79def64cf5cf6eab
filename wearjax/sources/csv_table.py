"""Reads the columns that an importer needs from a CSV file, plain or gzipped, in batches."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
from jaxtyping import Int64

from wearjax.errors import SourceError

# (format, whether it names the second). US month-first order; a spreadsheet re-save drops AM/PM and seconds.
_STYLES = (
    ("%m/%d/%Y %I:%M:%S %p", True),
    ("%m/%d/%Y %H:%M", False),
    ("%m/%d/%Y %H:%M:%S", True),
    ("%Y-%m-%d %H:%M:%S", True),
    ("%Y-%m-%dT%H:%M:%S", True),
    ("%m/%d/%Y", False),
    ("%m/%d/%y %H:%M", False),
    ("%Y-%m-%d %H:%M", False),
)
_EARLIEST = int(dt.datetime(1800, 1, 1, tzinfo=dt.UTC).timestamp())  # "%Y" also takes "16" for the year 16
_LATEST = int(dt.datetime(2300, 1, 1, tzinfo=dt.UTC).timestamp())
_BLOCK_BYTES = 8 << 20
_COLUMN_NUMBER = re.compile(r"In CSV column #(\d+)")  # from 0, in messages of the reader


def header(file: Path) -> list[str]:
    """Column names of the first line, lower case. Raises SourceError when it cannot be read as text."""
    try:
        with _stream(pa.OSFile(str(file)), file) as stream:
            line = stream.read(1 << 16).decode("utf-8-sig").split("\n", 1)[0]
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException) as error:
        raise SourceError(f"{file}: not readable as CSV text ({error})") from None
    return [name.strip().strip('"').strip().lower() for name in line.rstrip("\r").split(",")]


def batches(
    file: Path, *, text: Sequence[str], numbers: Sequence[str], done: Callable[[int], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the named columns (lower case), `text` as strings and `numbers` as float64 with null for blanks.

    Args:
        done: called after each batch with the bytes of the file read so far.

    Raises:
        SourceError: a column is missing, a cell is not a number, or the file is damaged.
    """
    names = header(file)
    missing = [c for c in (*text, *numbers) if c not in names]
    if missing:
        raise SourceError(f"{file}: no column {missing[0]!r}; found {', '.join(names[:8])}")
    raw = pa.OSFile(str(file))
    read = pcsv.ReadOptions(column_names=names, skip_rows=1, block_size=_BLOCK_BYTES)
    types = {c: pa.string() for c in text} | {c: pa.float64() for c in numbers}
    convert = pcsv.ConvertOptions(column_types=types, include_columns=[*text, *numbers])
    try:
        with pcsv.open_csv(_stream(raw, file), read_options=read, convert_options=convert) as reader:
            for batch in reader:
                yield batch
                if done:
                    done(raw.tell())
    except (pa.ArrowException, OSError, EOFError) as error:
        if "Empty CSV file" in str(error):  # a header and no row
            return
        raise SourceError(f"{file}: {said(error, names)}") from None


def said(error: Exception, names: Sequence[str]) -> str:
    """The first line of what the reader found wrong, with the name of the column that it tells by its number."""
    line = (str(error).splitlines() or [""])[0]
    return _COLUMN_NUMBER.sub(
        lambda found: f"column {names[int(found[1])]!r}" if int(found[1]) < len(names) else found[0], line
    )


def floats(column: pa.Array) -> np.ndarray:
    """A float64 copy; NaN where blank."""
    return column.to_numpy(zero_copy_only=False).astype(np.float64)


def local_seconds(column: pa.Array, *, where: str) -> tuple[Int64[np.ndarray, "row"], bool]:
    """Seconds of the local wall clock since 1970-01-01 00:00, and whether every time names its second.

    Raises SourceError naming the first text that is in none of the known styles: guessing a day-first order
    would move records by months.
    """
    found, exact = None, True
    for style, names_second in _STYLES:
        parsed = pc.cast(pc.strptime(column, format=style, unit="s", error_is_null=True), pa.int64())
        inside = pc.and_(pc.greater_equal(parsed, _EARLIEST), pc.less(parsed, _LATEST))
        parsed = pc.if_else(inside, parsed, None)
        before = len(column) if found is None else found.null_count
        found = parsed if found is None else pc.coalesce(found, parsed)
        exact &= names_second or found.null_count == before
        if not found.null_count:
            return found.to_numpy(zero_copy_only=False), exact
    bad = column.filter(pc.is_null(found))[0].as_py()
    raise SourceError(f"{where}: time {bad!r} is not month/day/year hour:minute[:second AM]")


def count_rows(file: Path) -> int:
    """Lines after the header that hold anything."""
    try:
        with _stream(pa.OSFile(str(file)), file) as stream:
            lines, last = 0, b"\n"
            while block := stream.read(_BLOCK_BYTES):
                lines += block.count(b"\n")
                last = block[-1:]
    except (OSError, EOFError, pa.ArrowException) as error:
        raise SourceError(f"{file}: not readable ({error})") from None
    return max(lines + (last != b"\n") - 1, 0)


def _stream(raw: pa.NativeFile, file: Path) -> pa.NativeFile:
    return pa.CompressedInputStream(raw, "gzip") if file.name.lower().endswith(".gz") else raw
