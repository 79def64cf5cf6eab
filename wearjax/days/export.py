"""Days as ArrayRecord files, Grain's own format, for training from object storage.

A folder: `export.json` (format, channel digest, files), `index.parquet` (one row a day in record order) and
`days-NNNNN-of-NNNNN.arrayrecord`. A record is a day: the bytes of its float32 `(19, 1440)` array, C order.
Groups hold a single record, so that a day can be read at random. Splits and demographics travel along.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32

from wearjax import channels, json_text, writing
from wearjax.day import SHAPE
from wearjax.days import labels, splits
from wearjax.days.store import Days
from wearjax.errors import StoreError

DESCRIPTION = "export.json"
FORMAT = 1
DAYS_PER_FILE = 4096
_DAY_BYTES = 4 * channels.N_CHANNELS * channels.MINUTES_PER_DAY


def export_days(
    days: Days,
    path: str | os.PathLike,
    *,
    overwrite: bool = False,
    days_per_file: int = DAYS_PER_FILE,
    progress: Callable[[int, int], None] | None = None,
) -> ExportedDays:
    """Writes all days, bit for bit, as an ArrayRecord folder that appears whole or not at all.

    Raises StoreError when `path` exists (or, with `overwrite`, is no export) or there is no day.
    """
    path = Path(path)
    if path.exists() and not (path / DESCRIPTION).exists():
        raise StoreError(f"{path} exists and is not an export of days; refusing to replace it")
    if path.exists() and not overwrite:
        raise StoreError(f"{path} exists; pass --force (overwrite=True) to replace it")
    if not len(days):
        raise StoreError(f"{path}: no day to write")
    with writing.folder(path) as partial, writing.told(path):
        files = _write_records(days, partial, days_per_file, progress)
        pq.write_table(_index_table(days), partial / "index.parquet", compression="zstd")
        _write_companions(days, partial)
        about = {"format": FORMAT, "channels": channels.digest(), "days": len(days), "files": files}
        (partial / DESCRIPTION).write_text(json.dumps(about, indent=1) + "\n")
    return ExportedDays(path)


class ExportedDays(Days):
    """Days of an ArrayRecord folder. Files are opened on first use; pickling carries the path only.

    Raises StoreError when the folder is incomplete, of another format or made with another channel table.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        about = _read_description(self.path)
        self._files = [(self.path / entry["name"], int(entry["days"])) for entry in about["files"]]
        for file, _ in self._files:
            if not file.exists():
                raise StoreError(f"{file}: file is missing ({len(self._files)} expected)")
        table = _read_index(self.path / "index.parquet", about["days"])
        self.participants = np.asarray(table["participant"].to_pylist(), dtype=object)
        self.dates = np.asarray(table["date"].to_pylist(), dtype=object)
        self.nonwear_minutes = table["nonwear_minutes"].to_numpy()
        flat = table["variance"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        self.variance = flat.reshape(-1, channels.N_CHANNELS).astype(np.float32)
        self._sources = table["source"].to_pylist()
        self._ends = np.cumsum([count for _, count in self._files])
        self._readers: dict[int, object] = {}

    def values(self, index: int) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        index = int(index) % len(self)
        number = int(np.searchsorted(self._ends, index, side="right"))
        first = int(self._ends[number - 1]) if number else 0
        try:
            (record,) = self._reader(number).read([index - first])
        except (RuntimeError, ValueError, OSError) as error:
            raise StoreError(
                f"{self._files[number][0]}: record {index - first} not readable ({error})"
            ) from None
        if len(record) != _DAY_BYTES:
            raise StoreError(
                f"{self._files[number][0]}: record of {len(record)} bytes, expected {_DAY_BYTES}"
            )
        return np.frombuffer(record, "<f4").reshape(SHAPE).astype(np.float32)

    def source(self, index: int) -> str:
        return self._sources[index]

    def _reader(self, number: int):
        if number not in self._readers:
            from array_record.python import array_record_module

            file, count = self._files[number]
            try:
                reader = array_record_module.ArrayRecordReader(str(file), "readahead_buffer_size:0")
                found = reader.num_records()
                if not reader.ok():
                    raise ValueError("damaged or cut short")
            except (RuntimeError, ValueError, OSError) as error:
                raise StoreError(f"{file}: not a readable ArrayRecord file ({error})") from None
            if found != count:
                raise StoreError(f"{file}: {found} records, {DESCRIPTION} says {count}")
            self._readers[number] = reader
        return self._readers[number]

    def __reduce__(self):
        return (ExportedDays, (self.path,))


def _write_records(days: Days, folder: Path, days_per_file: int, progress) -> list[dict]:
    from array_record.python import array_record_module

    count = -(-len(days) // days_per_file)
    files = []
    for number in range(count):
        name = f"days-{number:05d}-of-{count:05d}.arrayrecord"
        span = range(number * days_per_file, min((number + 1) * days_per_file, len(days)))
        writer = array_record_module.ArrayRecordWriter(str(folder / name), "group_size:1")
        for index in span:
            writer.write(days.values(index).astype("<f4").tobytes())
            if progress:
                progress(index + 1, len(days))
        writer.close()
        files.append({"name": name, "days": len(span)})
    return files


def _index_table(days: Days) -> pa.Table:
    variance = pa.array(np.asarray(days.variance, np.float32).ravel())
    return pa.table(
        {
            "participant": pa.array([str(p) for p in days.participants], pa.string()),
            "date": pa.array([str(d) for d in days.dates], pa.string()),
            "nonwear_minutes": pa.array(np.asarray(days.nonwear_minutes, np.float32)),
            "variance": pa.FixedSizeListArray.from_arrays(variance, channels.N_CHANNELS),
            "source": pa.array([days.source(i) for i in range(len(days))], pa.string()),
        }
    )


def _write_companions(days: Days, folder: Path) -> None:
    known = labels.read_demographics(days.path)
    if known:
        (folder / labels.FILE).write_text(json.dumps(known, indent=1) + "\n")
    try:
        splits.write_splits(folder, splits.read_splits(days.path))
    except StoreError:
        return  # a store without splits: there is nothing to carry


def _read_description(path: Path) -> dict:
    file = path / DESCRIPTION
    try:
        about = json_text.loads(file.read_text())
        version, digest, _, _ = about["format"], about["channels"], about["days"], about["files"]
    except FileNotFoundError:
        raise StoreError(f"{path}: not an export of days (no {DESCRIPTION})") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: not readable as a description of days ({error})") from None
    if version != FORMAT or digest != channels.digest():
        raise StoreError(f"{file}: format {version} or another channel table; export the store again")
    return about


def _read_index(file: Path, count: int) -> pa.Table:
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{file}: not a readable index ({error})") from None
    if table.num_rows != count:
        raise StoreError(f"{file}: {table.num_rows} rows, {DESCRIPTION} says {count} days")
    return table
