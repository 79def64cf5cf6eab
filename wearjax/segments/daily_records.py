"""The store of daily records: one table of all people's days, with profiles and blood panels.

On disk: `records.parquet` (user, date and the 16 metrics; a person's rows stand together, in one row group),
`people.json` (profile, blood panel and number of days of each person, in the order of the table) and `records.json`
(format, digests, counts, provenance). A store is written beside its target and renamed into place, so that what
carries its name is always whole.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import datetime as dt
import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wearjax import daily_metrics, errors, json_text, writing
from wearjax.daily_metrics import METRICS, N_METRICS
from wearjax.errors import SourceError, StoreError
from wearjax.segments.daily_cleaning import clean
from wearjax.segments.daily_from_minutes import of_days
from wearjax.sources.daily_record import BloodValue, DailyRecord, Demographics
from wearjax.sources.tally import Tally

__all__ = [
    "HeldRecords", "RecordStore", "Records", "clean", "of_days", "open_records", "write_records",
]  # fmt: skip

FORMAT = 1
FILE, TABLE, PEOPLE = "records.json", "records.parquet", "people.json"
ROWS_PER_GROUP = 16_384  # a row group ends with the person that reaches them
DISJOINT_FROM = 1_000  # people; from here on nobody is both asked about and part of the reference
ASKED_SHARE = 5  # one in so many is asked about, where the two are disjoint


class Records(abc.ABC):
    """Daily records by user."""

    @abc.abstractmethod
    def users(self) -> tuple[str, ...]:
        """Everybody, in ascending order."""

    @abc.abstractmethod
    def record(self, user: str) -> DailyRecord:
        """A person's cleaned record. Raises StoreError where there is none."""

    @property
    @abc.abstractmethod
    def digest(self) -> str:
        """SHA-256 of all that is stored, whatever the order in which it was written."""

    def cohort(self) -> tuple[str, ...]:
        """The people whose records make the reference; nobody of `asked` among them if there are 1,000 people."""
        asked = set(self.asked()) if len(self.users()) >= DISJOINT_FROM else set()
        return tuple(user for user in self.users() if user not in asked)

    def asked(self) -> tuple[str, ...]:
        """The people to ask questions about: everybody, or one fifth, chosen by a hash of the id, of 1,000 or more."""
        everybody = self.users()
        if len(everybody) < DISJOINT_FROM:
            return everybody
        ordered = sorted(everybody, key=lambda user: hashlib.sha256(user.encode()).digest())
        return tuple(sorted(ordered[: len(everybody) // ASKED_SHARE]))

    def __len__(self) -> int:
        return len(self.users())

    def __iter__(self) -> Iterator[DailyRecord]:
        return (self.record(user) for user in self.users())


class HeldRecords(Records):
    """Records in memory, cleaned.

    Attributes:
        counts: what cleaning took out.

    Raises:
        StoreError: a user came twice.
    """

    def __init__(self, records: Iterable[DailyRecord]):
        self.counts: Counter[tuple[str, str]] = Counter()
        self._records: dict[str, DailyRecord] = {}
        for record in records:
            if record.user in self._records:
                raise StoreError(f"user {record.user!r} came twice")
            self._records[record.user], taken = clean(record)
            self.counts.update(taken)

    def users(self) -> tuple[str, ...]:
        return tuple(sorted(self._records))

    def record(self, user: str) -> DailyRecord:
        if user not in self._records:
            raise StoreError(f"no user {user!r} among {len(self)} records")
        return self._records[user]

    @functools.cached_property
    def digest(self) -> str:
        return _joined(_digest(record) for record in self._records.values())


class RecordStore(Records):
    """An opened store. Reading is safe from several processes: pickling carries the path only.

    Attributes:
        path: the folder.
        meta: content of `records.json`, with the counts of what was left out.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.meta = _read_meta(self.path)
        self._people = _read_people(self.path, self.meta)
        self._table: pq.ParquetFile | None = None
        self._group: tuple[int, pa.Table | None] = (-1, None)

    def users(self) -> tuple[str, ...]:
        return self._users

    @functools.cached_property
    def _users(self) -> tuple[str, ...]:
        return tuple(sorted(self._people))

    @property
    def digest(self) -> str:
        return self.meta["digest"]

    def record(self, user: str) -> DailyRecord:
        if user not in self._people:
            raise StoreError(f"{self.path}: no user {user!r} among {len(self)}")
        known = self._people[user]
        rows = self._rows_of(known["group"]).slice(known["first"], known["days"])
        if set(rows["user"].unique().to_pylist()) != ({user} if known["days"] else set()):
            raise StoreError(f"{self.path / TABLE}: the rows of user {user!r} are not where {PEOPLE} says")
        values = np.stack([rows[m.key].to_numpy() for m in METRICS], axis=1).astype(np.float64)
        try:
            blood = {key: _blood(value) for key, value in known["blood"].items()}
        except (KeyError, TypeError, ValueError):
            raise StoreError(
                f"{self.path / PEOPLE}: the blood values of user {user!r} are not as written"
            ) from None
        dates = rows["date"].cast(pa.int32()).to_numpy().astype(np.int64)
        try:
            return DailyRecord(user, dates, values, _profile(known["demographics"]), blood)
        except SourceError as error:
            raise StoreError(f"{self.path / TABLE}: {error}") from None

    def _rows_of(self, group: int) -> pa.Table:
        """A row group; the last one read is kept, for people come in order more often than not."""
        if self._group[0] != group:
            file = self.path / TABLE
            try:
                self._table = self._table or _open_table(file)
                self._group = (group, self._table.read_row_group(group))
            except FileNotFoundError:
                raise StoreError(f"{file}: the table is missing") from None
            except (pa.ArrowException, OSError, IndexError) as error:
                raise StoreError(f"{file}: not a readable table ({errors.one_line(error)})") from None
        found = self._group[1]
        assert found is not None
        return found

    def __reduce__(self):
        return (RecordStore, (self.path,))


def open_records(path: str | os.PathLike) -> RecordStore:
    """Opens a store. Raises StoreError when it is missing, incomplete or of another format."""
    return RecordStore(path)


def write_records(
    path: str | os.PathLike,
    records: Iterable[DailyRecord],
    tally: Tally | None = None,
    *,
    provenance: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    total: int = 0,
) -> RecordStore:
    """Cleans and writes records, in the order in which they come, and opens the store.

    People without a single measured day are left out and counted.

    Args:
        tally: counts of what was read and left out; kept in the store. A reader may still fill it meanwhile.
        provenance: facts about the origin, kept in the store.
        overwrite: replace an existing store of records instead of refusing.
        progress: called with (people done, `total`).

    Raises:
        StoreError: the folder exists, no record came, or a user came twice.
    """
    path, tally = Path(path), Tally() if tally is None else tally
    if path.exists() and not (path / FILE).exists():
        raise StoreError(f"{path} exists and is not a store of daily records; refusing to replace it")
    if path.exists() and not overwrite:
        raise StoreError(f"{path} exists; pass --force (overwrite=True) to replace it")
    with writing.folder(path) as temporary:
        people, digests = _write_table(temporary / TABLE, records, tally, path, progress, total)
        if not people:
            reasons = ", ".join(f"{n} {m} {r}" for (m, r), n in tally.skipped.most_common(3))
            raise StoreError(
                f"{path}: no daily record to keep" + (f" (left out: {reasons})" if reasons else "")
            )
        meta = {
            "format": FORMAT,
            "metrics": daily_metrics.digest(),
            "digest": _joined(digests),
            "people": len(people),
            "days": sum(known["days"] for known in people.values()),
            "provenance": dict(provenance or {}),
            "import": tally.as_dict(),
        }
        with writing.told(path):
            _write_json(temporary / PEOPLE, people)
            _write_json(temporary / FILE, meta)
    return RecordStore(path)


def _write_table(
    file: Path,
    records: Iterable[DailyRecord],
    tally: Tally,
    path: Path,
    progress: Callable[[int, int], None] | None,
    total: int,
) -> tuple[dict[str, dict[str, Any]], list[bytes]]:
    """Streams the records; people's places and the digest of each."""
    people: dict[str, dict[str, Any]] = {}
    digests: list[bytes] = []
    schema = _schema()
    held: list[pa.Table] = []
    group, first, came = 0, 0, 0
    with _table_writer(file, schema, path / TABLE) as write:
        for record in records:
            if record.user in people:
                raise StoreError(f"{path}: user {record.user!r} came twice")
            cleaned, counts = clean(record)
            tally.skipped.update(counts)
            came += 1
            if len(cleaned.dates):
                people[record.user] = _person(cleaned, group, first)
                digests.append(_digest(cleaned))
                held.append(_rows(cleaned, schema))
                first += len(cleaned.dates)
            else:
                tally.skip("person", "no day with a measured metric")
            if first >= ROWS_PER_GROUP:
                write(held, first)
                held, group, first = [], group + 1, 0
            if progress:
                progress(came, max(total, came))
        if held:
            write(held, first)
    return people, digests


@contextlib.contextmanager
def _table_writer(
    file: Path, schema: pa.Schema, named: Path
) -> Iterator[Callable[[list[pa.Table], int], None]]:
    """Writes a row group a call. Raises StoreError naming the finished table where the disk does not take it."""

    def write(held: list[pa.Table], rows: int) -> None:
        with writing.told(named):
            writer.write_table(pa.concat_tables(held), row_group_size=rows)

    with writing.told(named):
        writer = pq.ParquetWriter(file, schema, compression="zstd")
    try:
        yield write
    finally:
        with writing.told(named):
            writer.close()


def _schema() -> pa.Schema:
    columns = [pa.field("user", pa.string()), pa.field("date", pa.date32())]
    return pa.schema(columns + [pa.field(m.key, pa.float64()) for m in METRICS])


def _rows(record: DailyRecord, schema: pa.Schema) -> pa.Table:
    columns = [
        pa.array([record.user] * len(record.dates), pa.string()),
        pa.array(record.dates.astype(np.int32), pa.int32()).cast(pa.date32()),
        *(pa.array(np.ascontiguousarray(record.values[:, i])) for i in range(N_METRICS)),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _person(record: DailyRecord, group: int, first: int) -> dict[str, Any]:
    return {
        "days": len(record.dates),
        "group": group,
        "first": first,
        "demographics": {k: v for k, v in dataclasses.asdict(record.demographics).items() if v is not None},
        "blood": {
            key: {"value": v.value, "unit": v.unit, "date": None if v.date is None else v.date.isoformat()}
            for key, v in sorted(record.blood.items())
        },
    }


def _blood(stored: Mapping[str, Any]) -> BloodValue:
    value = stored["value"]
    if type(value) not in (int, float) or value != value or not isinstance(stored["unit"], str):
        raise TypeError("value")
    date = stored["date"]
    return BloodValue(value, stored["unit"], None if date is None else dt.date.fromisoformat(date))


def _digest(record: DailyRecord) -> bytes:
    """SHA-256 of one record; every NaN counts alike."""
    known = _person(record, 0, 0)
    values = np.where(np.isnan(record.values), np.nan, record.values)
    hashed = hashlib.sha256(json.dumps([record.user, known], sort_keys=True).encode())
    hashed.update(np.ascontiguousarray(record.dates, "<i8").tobytes())
    hashed.update(np.ascontiguousarray(values, "<f8").tobytes())
    return hashed.digest()


def _joined(digests: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read_meta(path: Path) -> dict[str, Any]:
    file = path / FILE
    try:
        meta = json_text.loads(file.read_text(encoding="utf-8"))
        version, digest = meta["format"], meta["metrics"]
        if not _is_place(meta["people"]) or not isinstance(meta["digest"], str):
            raise TypeError("people is a count, digest a text")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{path}: not a store of daily records (no {FILE})") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StoreError(f"{file}: not readable as a store description ({error!r})") from None
    if version != FORMAT:
        raise StoreError(f"{file}: store format {version}, this version reads {FORMAT}")
    if digest != daily_metrics.digest():
        raise StoreError(f"{file}: written with another table of metrics; import the records again")
    return meta


def _profile(stored: Mapping[str, Any]) -> Demographics:
    """Raises TypeError on a value of another kind. NaN, which is read as missing, is None."""
    for name, value in stored.items():
        kinds = (int, float) if name in ("age", "bmi") else (str,)
        if value is not None and type(value) not in kinds:
            raise TypeError(f"{name} is {value!r:.40}")
    return Demographics(**{name: value for name, value in stored.items() if value == value})


def _is_place(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _open_table(file: Path) -> pq.ParquetFile:
    table = pq.ParquetFile(file)
    if not table.schema_arrow.equals(_schema()):
        raise StoreError(f"{file}: expected the columns user, date and the {N_METRICS} metrics")
    return table


def _read_people(path: Path, meta: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    file = path / PEOPLE
    try:
        people = json_text.loads(file.read_text(encoding="utf-8"))
        for known in people.values():
            _profile(known["demographics"])
            if not isinstance(known["blood"], dict):
                raise TypeError("blood is no object")
            if not all(_is_place(known[name]) for name in ("days", "group", "first")):
                raise ValueError("days, group and first are whole numbers from 0 on")
    except FileNotFoundError:
        raise StoreError(f"{file}: the list of people is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise StoreError(f"{file}: not readable as a list of people ({error!r})") from None
    if len(people) != meta["people"]:
        raise StoreError(f"{file}: {len(people)} people, {FILE} says {meta['people']}")
    return people
