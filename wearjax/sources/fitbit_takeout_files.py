"""The files of a Fitbit account archive: which to read, and their rows as arrays.

Two generations hold the same measures: JSON in `Global Export Data` (also the old `user-site-export`), without a
zone, and CSV in `Physical Activity_GoogleData`, whose times name their instant.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from jaxtyping import Float64, Int64

from wearjax import plural
from wearjax.channels import LARGEST
from wearjax.errors import SourceError
from wearjax.sources.archive import Archive, DamagedError, Member, shown

UNREADABLE = np.iinfo(np.int64).min
_JSON_NAME = re.compile(
    r"(steps|distance|calories|heart_rate|sleep|exercise|altitude)-(\d{4}-\d\d-\d\d|\d+)( ?\(\d+\))?\.json",
    re.I,
)
_CSV_NAME = re.compile(r"(steps|distance|calories|heart_rate)_\d{4}-\d\d-\d\d( ?\(\d+\))?\.csv", re.I)
_CSV_COLUMNS = {"heart_rate": ("beats per minute", "bpm"), "steps": ("steps",), "distance": ("distance",),
                "calories": ("calories",)}  # fmt: skip
_WALL = re.compile(r"(\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII | re.I
)
_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Found:
    """The files to read, as (measure, member); `unused` counts the others."""

    json: list[tuple[str, Member]]
    csv: list[tuple[str, Member]]
    unused: int

    @property
    def members(self) -> list[Member]:
        return [member for _, member in (*self.json, *self.csv)]


class Rows(NamedTuple):
    """Rows of one file.

    Attributes:
        at: seconds since 1970: of UTC where `named`, else of the wall clock; `UNREADABLE` where there is no time.
        named: whether the row says its instant.
        value: NaN where it is not a number.
        confidence: of heart rates in JSON, else NaN.
        foreign: whether the row came from another app.
    """

    at: Int64[np.ndarray, "row"]
    named: np.ndarray
    value: Float64[np.ndarray, "row"]
    confidence: Float64[np.ndarray, "row"]
    foreign: np.ndarray


def find(archive: Archive) -> Found:
    """The files of known measures, wherever they lie.

    Raises SourceError where there is none.
    """
    found_json, found_csv = [], []
    for member in archive.members:
        if name := _JSON_NAME.fullmatch(member.base):
            found_json.append((name[1].lower(), member))
        elif name := _CSV_NAME.fullmatch(member.base):
            found_csv.append((name[1].lower(), member))
    found = Found(found_json, found_csv, len(archive.members) - len(found_json) - len(found_csv))
    archive.check(found.members)
    if not found.members:
        count = len(archive.members)
        raise SourceError(
            f"{archive.path}: no Fitbit file among {count:,} {plural.noun(count, 'file')} (expected "
            "steps-2024-01-31.json, heart_rate_2024-01-31.csv and the like)"
        )
    return found


def read_json(archive: Archive, member: Member) -> list[dict[str, Any]]:
    """The entries of a JSON file. Raises DamagedError where it is not a whole list of objects."""
    try:
        entries = json.loads(archive.read(member))
    except (ValueError, RecursionError):
        raise DamagedError(
            f"{archive.path} ({shown(member.name)}): not whole JSON; it may be cut short"
        ) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise DamagedError(f"{archive.path} ({shown(member.name)}): not a list of entries")
    return entries


def json_rows(measure: str, entries: Sequence[dict[str, Any]]) -> Rows:
    """Rows of `{"dateTime", "value"}` entries; heart rate values are objects of their own."""
    values = [entry.get("value") for entry in entries]
    confidence: list[Any] = [None] * len(values)
    if measure == "heart_rate":
        objects = [value if isinstance(value, dict) else {} for value in values]
        values = [value.get("bpm") for value in objects]
        confidence = [value.get("confidence") for value in objects]
    no = np.zeros(len(values), bool)
    return Rows(
        wall_seconds([entry.get("dateTime") for entry in entries]),
        no,
        numbers(values),
        numbers(confidence),
        no,
    )


def read_csv(archive: Archive, member: Member, measure: str) -> Rows:
    """Rows of a CSV file; none where it only says that there is no data.

    Raises SourceError for missing columns, DamagedError where it is no CSV.
    """
    name = f"{archive.path} ({shown(member.name)})"
    data = archive.read(member)
    if data.strip().lower() in (b"", b"no data"):
        return csv_rows([], [], None)
    try:
        table = pcsv.read_csv(
            io.BytesIO(data), convert_options=pcsv.ConvertOptions(column_types=_texts(data))
        )
        columns = {str(c).strip().lower(): c for c in table.column_names}
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DamagedError(f"{name}: not readable as CSV ({str(error).splitlines()[0][:100]})") from None
    value = next((columns[c] for c in _CSV_COLUMNS[measure] if c in columns), None)
    if "timestamp" not in columns or value is None:
        raise SourceError(f"{name}: no column timestamp or {_CSV_COLUMNS[measure][0]}")
    source = columns.get("data source")
    return csv_rows(
        table[columns["timestamp"]].to_pylist(),
        table[value].to_pylist(),
        None if source is None else table[source].to_pylist(),
    )


def _texts(data: bytes) -> dict[str, pa.DataType]:
    head = data[:4096].split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    return {column.strip("\r\n").strip('"'): pa.string() for column in head.split(",")}


def csv_rows(times: list, values: list, sources: list | None) -> Rows:
    """Rows of the columns of a CSV file; a source that ends in "Health Connect" is another app's."""
    at, named = instants(times)
    foreign = [str(s or "").strip().lower().endswith("health connect") for s in sources or [""] * len(times)]
    return Rows(at, named, numbers(values), np.full(len(times), np.nan), np.array(foreign, bool))


def wall_seconds(texts: Sequence[Any]) -> Int64[np.ndarray, "row"]:
    """Wall-clock seconds of `MM/DD/YY HH:MM[:SS]`; `UNREADABLE` for another form."""
    known: dict[str, int] = {}  # a day's rows share their date
    out = np.full(len(texts), UNREADABLE, np.int64)
    for i, text in enumerate(texts):
        found = _WALL.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            continue
        date, hour, minute, second = text[:8], int(found[4]), int(found[5]), int(found[6] or 0)
        if date not in known:
            known[date] = _day(2000 + int(found[3]), int(found[1]), int(found[2]))
        if known[date] != UNREADABLE and hour < 24 and minute < 60 and second < 60:
            out[i] = known[date] + hour * 3600 + minute * 60 + second
    return out


def instants(texts: Sequence[Any]) -> tuple[Int64[np.ndarray, "row"], np.ndarray]:
    """Seconds of ISO times, and which of them name their offset from UTC; a day alone is `UNREADABLE`."""
    known: dict[str, int] = {}
    out, named = np.full(len(texts), UNREADABLE, np.int64), np.zeros(len(texts), bool)
    for i, text in enumerate(texts):
        found = _ISO.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            continue
        date = text.strip()[:10]
        if date not in known:
            known[date] = _day(int(found[1]), int(found[2]), int(found[3]))
        hour, minute, second = int(found[4]), int(found[5]), int(found[6] or 0)
        if known[date] != UNREADABLE and hour < 24 and minute < 60 and second < 60:
            out[i] = known[date] + hour * 3600 + minute * 60 + second - _offset(found[7])
            named[i] = found[7] is not None
    return out, named


def _day(year: int, month: int, day: int) -> int:
    try:
        return int((dt.datetime(year, month, day) - _EPOCH).total_seconds())
    except ValueError:
        return UNREADABLE


def _offset(text: str | None) -> int:
    if text is None or text in "Zz":
        return 0
    east = int(text[1:3]) * 3600 + int(text[-2:]) * 60
    return -east if text[0] == "-" else east


def numbers(values: Sequence[Any]) -> Float64[np.ndarray, "row"]:
    """Floats of numbers and of texts that hold one; NaN for all else, and for what no device measures."""
    out = np.full(len(values), np.nan)
    for i, value in enumerate(values):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            try:
                out[i] = float(value)
            except (ValueError, OverflowError):
                continue
    out[~(np.abs(out) <= LARGEST)] = np.nan
    return out
