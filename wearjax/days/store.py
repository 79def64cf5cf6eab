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
import json
import operator
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Float32, Int

from wearjax import channels, checksum, npz, plural, writing
from wearjax.day import SHAPE, Day
from wearjax.days import clean, store_index
from wearjax.errors import StoreError

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

    def __repr__(self) -> str:
        n, name = len(self), type(self).__name__
        if not n:
            return f"{name}({str(self.path)!r}: no day)"
        people = len(set(self.participants))
        return (
            f"{name}({str(self.path)!r}: {n:,} {plural.noun(n, 'day')} of {people:,} "
            f"{plural.noun(people, 'participant')}, {min(self.dates)} to {max(self.dates)})"
        )

    @overload
    def __getitem__(self, index: int | np.integer, /) -> Day: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray, /) -> list[Day]: ...

    def __getitem__(self, index: Any, /) -> Day | list[Day]:
        """A day; of a slice, of several indices or of a mask the list of them, each read now."""
        if isinstance(index, slice):
            return [self._day(i) for i in range(*index.indices(len(self)))]
        if isinstance(index, list | tuple | np.ndarray) and np.ndim(index) == 1:
            chosen = np.asarray(index)
            if chosen.dtype == bool:
                if len(chosen) != len(self):
                    raise IndexError(f"a mask of {len(chosen)} for a store with {len(self)} days")
                chosen = np.flatnonzero(chosen)
            return [self._day(i) for i in chosen]
        return self._day(index)

    def _day(self, number: Any) -> Day:
        try:
            index = operator.index(number)
        except TypeError:
            raise TypeError(
                f"{number!r} is no day of a store: expected a whole number, a slice, a list of numbers or a mask"
            ) from None
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
        self.meta = store_index.read_meta(self.path)
        table = store_index.read(self.path, self.meta)
        self.participants = store_index.texts(table["participant"])
        self.dates = store_index.texts(table["date"])
        self.nonwear_minutes = table["nonwear_minutes"].to_numpy()
        flat = table["variance"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        self.variance = flat.reshape(-1, channels.N_CHANNELS).astype(np.float32)
        self._sources = store_index.texts(table["source"])
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
            if digest is not None and checksum.sha256(file) != digest:
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
        self._whole = writing.folder(self.path, replace=overwrite)

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

        Raises StoreError when the participant already has that date, or a value is infinite.
        """
        key = (day.participant, day.date)
        if key in self._seen:
            raise StoreError(f"{self.path}: participant {day.participant} has two days dated {day.date}")
        if (endless := np.isinf(day.values).any(axis=1)).any():
            name = channels.NAMES[int(np.argmax(endless))]
            raise StoreError(
                f"{self.path}: participant {day.participant}, {day.date}: {name} holds an infinite value; "
                "what was not measured is NaN"
            )
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
            self._digests.append(checksum.sha256(file))
        self._tables.append(store_index.table_of(self._rows))
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
        meta = store_index.read_meta(part)
        table = store_index.read(part, meta)
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
        store_index.refuse_twice(table, self.path)
        with writing.told(self.path / "index.parquet"):
            pq.write_table(table, self._temporary / "index.parquet", compression="zstd")
        meta = {
            "format": store_index.FORMAT,
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
    path = Path(path)
    for parent in path.resolve().parents:
        if (parent / "store.json").exists():
            raise StoreError(f"{path} lies inside the day store {parent}; name a place outside it")
    if not path.exists():
        return
    if not (path / "store.json").exists():
        raise StoreError(f"{path} exists and is not a day store; refusing to replace it")
    if not overwrite:
        raise StoreError(f"{path} exists; pass --force (overwrite=True) to replace it")


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except FileNotFoundError:
        raise StoreError(f"{file}: shard is missing") from None
    except OSError:  # another file system, or one without links
        shutil.copyfile(file, target)
