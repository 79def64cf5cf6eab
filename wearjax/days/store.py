"""The day store: fixed-size days in memory-mapped shards, described by one Parquet index.

On disk: `store.json` (format, channel digest, counts, provenance), `index.parquet` (one row a day, sorted by
participant and date) and `shards/NNNNN.npy` (float32 `(days, 19, 1440)`). A store is written beside its target
and renamed into place, so that what carries its name is always whole.
"""

from __future__ import annotations

import abc
import contextlib
import datetime as dt
import functools
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Float32, Int

from wearjax import channels, errors, json_text, npz, writing
from wearjax.day import SHAPE, Day
from wearjax.days import clean
from wearjax.errors import StoreError

FORMAT = 1
DAYS_PER_SHARD = 512


class Days(abc.ABC):
    """Random access to days, whatever they are stored in.

    Attributes:
        path: where the days lie.
        participants: participant id of each day, in store order.
        dates: ISO local date of each day, as strings.
        nonwear_minutes: float32, one a day.
        variance: float32 `(days, 19)`, what the source stores, else the population variance of the measured values.
    """

    path: Path
    participants: np.ndarray
    dates: np.ndarray
    nonwear_minutes: np.ndarray
    variance: np.ndarray

    @abc.abstractmethod
    def values(self, index: int) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        """A fresh array of the day's cleaned values; NaN = not measured."""

    @abc.abstractmethod
    def source(self, index: int) -> str:
        """The importer that produced the day."""

    @functools.cached_property
    def retained(self) -> Bool[np.ndarray, "day"]:
        """Which days pass the wear-time and variance filters."""
        return clean.retained(self.nonwear_minutes, self.variance)

    def batch(
        self, indices: Sequence[int] | Int[np.ndarray, "batch"]
    ) -> Float32[np.ndarray, "batch channel=19 minute=1440"]:
        """The cleaned values of several days, stacked."""
        out = np.empty((len(indices), *SHAPE), np.float32)
        for row, index in enumerate(indices):
            out[row] = self.values(int(index))
        return out

    def __len__(self) -> int:
        return len(self.participants)

    def __getitem__(self, index: int) -> Day:
        if not -len(self) <= index < len(self):
            raise IndexError(f"day {index} of a store with {len(self)} days")
        index = index % len(self)
        return Day(
            self.values(index),
            str(self.participants[index]),
            dt.date.fromisoformat(str(self.dates[index])),
            float(self.nonwear_minutes[index]),
            self.source(index),
            self.variance[index],
        )


class DayStore(Days):
    """An opened day store. Reading is safe from several processes: pickling carries the path only."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.meta = _read_meta(self.path)
        table = _read_index(self.path, self.meta)
        self.participants = _texts(table["participant"])
        self.dates = _texts(table["date"])
        self.nonwear_minutes = table["nonwear_minutes"].to_numpy()
        flat = table["variance"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        self.variance = flat.reshape(-1, channels.N_CHANNELS).astype(np.float32)
        self._sources = _texts(table["source"])
        self._shard = table["shard"].to_numpy()
        self._row = table["row"].to_numpy()
        rows = np.bincount(self._shard, minlength=self.meta["shards"])
        self._maps = [self._open_shard(i, int(rows[i])) for i in range(self.meta["shards"])]

    def _open_shard(self, number: int, wanted: int) -> np.ndarray:
        file = self.path / "shards" / f"{number:05d}.npy"
        try:
            shard = npz.mapped(file)
        except FileNotFoundError:
            raise StoreError(f"{file}: shard is missing ({self.meta['shards']} expected)") from None
        except ValueError as error:
            raise StoreError(f"{file}: not a readable shard ({error})") from None
        if shard.shape != (wanted, *SHAPE) or shard.dtype != np.float32:
            raise StoreError(
                f"{file}: expected float32 {(wanted, *SHAPE)}, found {shard.dtype} {shard.shape}"
            )
        return shard

    def values(self, index: int) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        return np.array(self._maps[self._shard[index]][self._row[index]])

    def source(self, index: int) -> str:
        return self._sources[index]

    def damaged(self, *, progress: Callable[[int, int], None] | None = None) -> list[Path]:
        """Shards whose bytes are not those that were written; stores of before there were digests have none.

        Opening a store finds what is missing or cut short, not a changed number: that takes reading everything.
        """
        digests, found = self.meta.get("sha256", []), []
        for number, digest in enumerate(digests):
            file = self.path / "shards" / f"{number:05d}.npy"
            if digest is not None and _digest(file) != digest:
                found.append(file)
            if progress:
                progress(number + 1, len(digests))
        return found

    def __reduce__(self):
        return (DayStore, (self.path,))


class DayStoreWriter:
    """Writes a store; use as a context manager. Nothing appears at `path` unless the block ends cleanly.

    Args:
        path: the folder to make.
        provenance: facts about the origin, kept in `store.json`; read at the end of the block, so a reader may
            still fill it while days are added.
        overwrite: replace an existing store instead of refusing.
        cleaned: the values are final (e.g. imputed): do not apply the zero-to-missing rule again.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        provenance: dict[str, Any],
        overwrite: bool = False,
        cleaned: bool = False,
        days_per_shard: int = DAYS_PER_SHARD,
    ):
        self.path = Path(path)
        refuse(self.path, overwrite=overwrite)
        self._provenance = provenance
        self._cleaned = cleaned
        self._per_shard = days_per_shard
        self._rows: list[tuple] = []  # of the shard to come
        self._tables: list[pa.Table] = []  # of the shards that are written
        self._seen: set[tuple[str, dt.date]] = set()
        self._pending: list[np.ndarray] = []
        self._shards = 0
        self._digests: list[str | None] = []  # of the shards that are written
        self._finish: list[Callable[[DayStore], object]] = []
        self._whole = writing.folder(self.path)

    def __enter__(self) -> DayStoreWriter:
        self._temporary = self._whole.__enter__()
        (self._temporary / "shards").mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._whole.__exit__(kind, error, trace)
            return
        with contextlib.ExitStack() as stack:
            stack.push(self._whole)
            self._commit()

    def add(self, day: Day) -> None:
        """Cleans and appends a day, with the variance that it brings or else that of its cleaned values.

        Raises StoreError when the participant already has that date.
        """
        key = (day.participant, day.date)
        if key in self._seen:
            raise StoreError(f"{self.path}: participant {day.participant} has two days dated {day.date}")
        self._seen.add(key)
        values = day.values if self._cleaned else clean.zero_to_nan(day.values)
        variance = (
            clean.channel_variance(values) if day.variance is None else np.asarray(day.variance, np.float32)
        )
        self._rows.append(
            (
                day.participant, day.date, np.float32(day.nonwear_minutes), variance,
                day.source, self._shards, len(self._pending),
            )
        )  # fmt: skip
        self._pending.append(values)
        if len(self._pending) == self._per_shard:
            self._flush()

    def then(self, finish: Callable[[DayStore], object]) -> None:
        """What is made of the written days before the store takes its name; gets the store at its first place."""
        self._finish.append(finish)

    def attach(self, name: str, text: str) -> None:
        """Adds a small file that belongs to the store, e.g. `splits.json`."""
        with writing.told(self.path / name):
            (self._temporary / name).write_text(text, encoding="utf-8")

    def add_all(self, days: Iterable[Day]) -> None:
        for day in days:
            self.add(day)

    def _flush(self) -> None:
        file = self._shard_file(self._shards)
        with writing.told(self.path / "shards" / file.name):
            np.save(file, np.stack(self._pending))
            self._digests.append(_digest(file))
        self._tables.append(_index_table(self._rows))
        self._rows, self._pending = [], []
        self._shards += 1

    def _shard_file(self, number: int) -> Path:
        return self._temporary / "shards" / f"{number:05d}.npy"

    def take(self, part: str | os.PathLike) -> None:
        """Adds the days of another store without copying them where the file system knows links; it stays as it is.

        Raises StoreError when it is no whole store. A date that a participant has twice is found at the end.
        """
        if self._pending:
            self._flush()
        part = Path(part)
        meta = _read_meta(part)
        table = _read_index(part, meta)
        with writing.told(self.path):
            for number in range(meta["shards"]):
                _link(part / "shards" / f"{number:05d}.npy", self._shard_file(self._shards + number))
        column = table.column_names.index("shard")
        shard = pc.add(table["shard"], pa.scalar(self._shards, pa.int32()))
        self._tables.append(table.set_column(column, "shard", shard))
        self._shards += meta["shards"]
        self._digests += meta.get("sha256", [None] * meta["shards"])

    def _commit(self) -> None:
        if self._pending:
            self._flush()
        if not self._tables:
            raise StoreError(f"{self.path}: no day to write")
        table = pa.concat_tables(self._tables).sort_by([("participant", "ascending"), ("date", "ascending")])
        table = table.combine_chunks()
        _refuse_twice(table, self.path)
        with writing.told(self.path / "index.parquet"):
            pq.write_table(table, self._temporary / "index.parquet", compression="zstd")
        meta = {
            "format": FORMAT,
            "channels": channels.digest(),
            "days": table.num_rows,
            "retained_days": pc.sum(table["retained"]).as_py(),
            "participants": pc.count_distinct(table["participant"]).as_py(),
            "shards": self._shards,
            "sha256": self._digests,
            "provenance": self._provenance,
        }
        with writing.told(self.path / "store.json"):
            (self._temporary / "store.json").write_text(json.dumps(meta, indent=1) + "\n")
        for finish in self._finish:
            finish(DayStore(self._temporary))


def refuse(path: Path, *, overwrite: bool) -> None:
    """Raises StoreError where a store may not be written."""
    if path.exists() and not overwrite:
        raise StoreError(f"{path} exists; pass --force (overwrite=True) to replace it")
    if overwrite and path.exists() and not (path / "store.json").exists():
        raise StoreError(f"{path} exists and is not a day store; refusing to replace it")


def _index_table(rows: list[tuple]) -> pa.Table:
    participant, date, nonwear, variance, source, shard, row = zip(*rows, strict=True)
    flat = pa.array(np.concatenate(variance))
    return pa.table(
        {
            "participant": pa.array(participant, pa.string()),
            "date": pa.array(date, pa.date32()),
            "nonwear_minutes": pa.array(nonwear, pa.float32()),
            "variance": pa.FixedSizeListArray.from_arrays(flat, channels.N_CHANNELS),
            "retained": pa.array(clean.retained(np.asarray(nonwear), np.stack(variance))),
            "source": pa.array(source, pa.string()),
            "shard": pa.array(shard, pa.int32()),
            "row": pa.array(row, pa.int32()),
        }
    )


def _texts(column: pa.ChunkedArray) -> np.ndarray:
    """Words, and dates in ISO form, as an object array; equal ones are one object."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(coded.dictionary.to_pylist(), dtype=object)[coded.indices.to_numpy()]


def _refuse_twice(table: pa.Table, path: Path) -> None:
    people, dates = table["participant"], table["date"]
    if table.num_rows < 2:
        return
    twice = pc.and_(pc.equal(people[1:], people[:-1]), pc.equal(dates[1:], dates[:-1]))
    if (row := pc.index(twice, True).as_py()) >= 0:
        raise StoreError(f"{path}: participant {people[row].as_py()} has two days dated {dates[row].as_py()}")


def _digest(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except FileNotFoundError:
        raise StoreError(f"{file}: shard is missing") from None
    except OSError:  # another file system, or one without links
        shutil.copyfile(file, target)


def _read_meta(path: Path) -> dict[str, Any]:
    file = path / "store.json"
    try:
        meta = json_text.loads(file.read_text())
        version, digest = meta["format"], meta["channels"]
        facts = meta.get("provenance", {})
        if not isinstance(facts, dict) or not isinstance(facts.get("import", {}), dict):
            raise TypeError("provenance")
        if any(type(meta[name]) is not int or meta[name] < 0 for name in ("days", "shards")):
            raise TypeError("days and shards must be counts")
        if not isinstance(meta.get("sha256", []), list) or len(meta.get("sha256", [])) not in (
            0,
            meta["shards"],
        ):
            raise TypeError("sha256 must have a digest a shard")
    except FileNotFoundError:
        raise StoreError(f"{path}: not a day store (no store.json)") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StoreError(f"{file}: not readable as a store description ({error})") from None
    if version != FORMAT:
        raise StoreError(f"{file}: store format {version}, this version reads {FORMAT}")
    if digest != channels.digest():
        raise StoreError(f"{file}: written with another channel table; import the recordings again")
    return meta


def _check_index(file: Path, table: pa.Table, meta: dict[str, Any]) -> None:
    """Raises StoreError where the columns are not those of an index, or point outside the shards."""
    wanted = _index_table(
        [("", dt.date(2000, 1, 1), np.float32(0), np.zeros(channels.N_CHANNELS, np.float32), "", 0, 0)]
    ).schema
    for field in wanted:
        place = table.schema.get_field_index(field.name)
        if place < 0 or table.schema.field(place).type != field.type or table.column(place).null_count:
            raise StoreError(f"{file}: expected a column {field.name} of {field.type}, filled in every row")
    shard, row = table["shard"].to_numpy(), table["row"].to_numpy()
    if table.num_rows and (shard.min() < 0 or row.min() < 0 or shard.max() >= meta["shards"]):
        raise StoreError(f"{file}: days in shards that are not among the {meta['shards']} of the store")
    rows = np.bincount(shard, minlength=meta["shards"])
    if table.num_rows and np.any(row >= rows[shard]):
        raise StoreError(f"{file}: days in rows that their shard does not have")


def _read_index(path: Path, meta: dict[str, Any]) -> pa.Table:
    file = path / "index.parquet"
    try:
        table = pq.read_table(file)
    except FileNotFoundError:
        raise StoreError(f"{file}: index is missing") from None
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{file}: not a readable index ({errors.one_line(error)})") from None
    _check_index(file, table, meta)
    if table.num_rows != meta["days"]:
        raise StoreError(f"{file}: {table.num_rows} rows, store.json says {meta['days']} days")
    return table
