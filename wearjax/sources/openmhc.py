"""The OpenMHC data root: its version marker, split file, and the Arrow folders of user-days.

An Arrow folder is what the `datasets` library saves: `data-NNNNN-of-NNNNN.arrow` shards (IPC streams) beside
`state.json`. Shards are memory-mapped: opening reads no values, and a row is read when it is asked for.
"""

from __future__ import annotations

import datetime as dt
import functools
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
from jaxtyping import Float32

from wearjax import json_text
from wearjax.channels import CHANNELS, N_CHANNELS
from wearjax.day import SHAPE, Day
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import minute_grid
from wearjax.sources.tally import Tally

MARKER = "dataset_version.json"
SPLIT_FILES = {"xs": "sharable_users_seed42_2026_xs.json", "full": "sharable_users_seed42_2026.json"}
SPLITS = ("train", "validation", "test")
# Users of each split as published.
PUBLISHED_USERS = {
    "xs": {"train": 356, "validation": 59, "test": 178},
    "full": {"train": 7136, "validation": 1189, "test": 3569},
}
MINUTE_ROWS = Path("processed") / "daily_hf"
_SHARD = re.compile(r"data-(\d+)-of-(\d+)\.arrow")
_DATE_CHARACTERS = 10  # some dates carry a time part


@dataclass(frozen=True)
class Marker:
    """What `dataset_version.json` says; `daily_rows` is None where it does not say."""

    version: str
    n_users: int
    daily_rows: int | None


def read_marker(root: str | os.PathLike, *, version: str | None = None) -> Marker:
    """Reads and checks the marker. Raises SourceError when it is absent, damaged or of another `version`."""
    file = Path(root) / MARKER
    content = read_json(file)
    try:
        rows = content.get("daily_hf_rows")
        marker = Marker(str(content["version"]), int(content["n_users"]), None if rows is None else int(rows))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise SourceError(f"{file}: expected {{'version', 'n_users'[, 'daily_hf_rows']}}") from None
    if marker.version not in SPLIT_FILES:
        raise SourceError(f"{file}: version {marker.version!r}; known: {', '.join(SPLIT_FILES)}")
    if version is not None and version != marker.version:
        raise SourceError(f"{file}: the data are version {marker.version!r}, {version!r} was asked for")
    return marker


def read_splits(root: str | os.PathLike) -> dict[str, list[str]]:
    """User ids of `train`, `validation` and `test`.

    A root with other numbers of users than the published one of its version gets a line on standard error.

    Raises SourceError when a split is missing, two share a user, or the marker says another number of users.
    """
    marker = read_marker(root)
    file = Path(root) / "splits" / SPLIT_FILES[marker.version]
    content = read_json(file)
    if not isinstance(content, dict) or not all(isinstance(content.get(name), list) for name in SPLITS):
        raise SourceError(f"{file}: expected the lists {', '.join(SPLITS)}")
    found = {name: [str(user) for user in content[name]] for name in SPLITS}
    users = [user for name in SPLITS for user in found[name]]
    if len(set(users)) != len(users):
        twice = next(user for user, count in Counter(users).items() if count > 1)
        raise SourceError(f"{file}: user {twice} stands twice")
    if len(users) != marker.n_users:
        raise SourceError(f"{file}: {len(users)} users, {MARKER} says {marker.n_users}")
    if note := unlike_published(marker.version, len(users)):
        _say(note)
    return found


def unlike_published(version: str, n_users: int) -> str:
    """What to know of a root that has other users than the published one of its version; empty where it has not."""
    published = sum(PUBLISHED_USERS[version].values())
    if n_users == published:
        return ""
    return (
        f"OpenMHC data root: version {version!r} with {n_users:,} users, the published one has {published:,}; "
        "numbers are not comparable with published tables"
    )


@functools.cache
def _say(note: str) -> None:
    """Once in a process: the splits are read at many places."""
    logging.getLogger(__name__).warning(note)


def open_table(directory: str | os.PathLike) -> pa.Table:
    """Memory-maps all shards of an Arrow folder as one table, in shard order.

    Raises SourceError when the folder or a shard is missing, or a shard is no Arrow stream or file.
    """
    directory = Path(directory)
    files = _shards(directory)
    try:
        return pa.concat_tables([_open_shard(file) for file in files])
    except pa.ArrowException as error:
        raise SourceError(
            f"{directory}: the shards do not fit together ({str(error).splitlines()[0]})"
        ) from None


class Rows:
    """Row access to the minute (or hourly) arrays of an opened table, decoding one row at a time.

    `values` may be nested lists, fixed-size lists or one flat list of channel times minute numbers.
    """

    def __init__(
        self, table: pa.Table, *, column: str = "values", shape: tuple[int, ...] = SHAPE, where: str = ""
    ):
        self._chunks = [_storage(chunk) for chunk in _stored(table, column, where).chunks]
        self._sound = [False] * len(self._chunks)
        self._ends = np.cumsum([len(chunk) for chunk in self._chunks])
        self._shape, self._where, self._column = shape, where, column

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, row: int) -> Float32[np.ndarray, "..."]:
        """A fresh array of one row; null cells are NaN. Raises SourceError when the row has another shape."""
        chunk = int(np.searchsorted(self._ends, row, side="right"))
        before = int(self._ends[chunk - 1]) if chunk else 0
        if not self._sound[chunk]:  # on the first access: all of them together would read every page
            _validate(self._chunks[chunk], f"{self._where}: {self._column!r}")
            self._sound[chunk] = True
        cells = self._chunks[chunk].slice(row - before, 1)
        while _is_list(cells.type):
            cells = _storage(cells.flatten())
        if len(cells) != int(np.prod(self._shape)):
            raise SourceError(
                f"{self._where}: {self._column!r} of row {row} has {len(cells)} numbers, not {self._shape}"
            )
        return np.array(cells.to_numpy(zero_copy_only=False), np.float32).reshape(self._shape)


def sound_column(table: pa.Table, column: str, *, where: str) -> pa.ChunkedArray:
    """A column whose cells can be read. Reads its offsets and null marks, and text, but no numbers.

    Raises SourceError where it is missing, or its offsets point outside its data, at which Arrow would abort.
    """
    cells = _stored(table, column, where)
    _validate(cells, f"{where}: {column!r}")
    return cells


def texts(table: pa.Table, column: str, *, where: str, characters: int | None = None) -> np.ndarray:
    """A string column as an object array; equal strings are one object. SourceError where it is missing."""
    coded = sound_column(table, column, where=where).cast(pa.string()).combine_chunks().dictionary_encode()
    if coded.null_count:
        raise SourceError(f"{where}: {column!r} has {coded.null_count} empty cells")
    words = np.asarray([word[:characters] for word in coded.dictionary.to_pylist()], dtype=object)
    return words[coded.indices.to_numpy()] if len(words) else np.empty(0, dtype=object)


def nonwear_minutes(table: pa.Table, *, where: str) -> Float32[np.ndarray, "day"]:
    """The stored estimate per day; NaN where empty."""
    minutes = sound_column(table, "total_nonwear_minutes", where=where).cast(pa.float32())
    return np.asarray(minutes.to_numpy(), np.float32)


def channel_variance(table: pa.Table, *, where: str) -> Float32[np.ndarray, "day channel=19"]:
    """The stored within-day variance per day and channel; NaN where there was none."""
    cells = sound_column(table, "channel_variance", where=where)
    flat = [
        np.asarray(_flat(_storage(chunk)).to_numpy(zero_copy_only=False), np.float32)
        for chunk in cells.chunks
    ]
    out = np.concatenate(flat) if flat else np.empty(0, np.float32)
    if len(out) != len(cells) * N_CHANNELS:
        raise SourceError(f"{where}: 'channel_variance' has rows of other than {N_CHANNELS} numbers")
    return out.reshape(-1, N_CHANNELS)


def open_minute_rows(root: str | os.PathLike) -> pa.Table:
    """The table of minute user-days, checked against the marker and the channel order of the library."""
    marker = read_marker(root)
    directory = Path(root) / MINUTE_ROWS
    table = open_table(directory)
    if marker.daily_rows is not None and marker.daily_rows != table.num_rows:
        raise SourceError(f"{directory}: {table.num_rows} rows, {MARKER} says {marker.daily_rows}")
    check_channels(table, where=str(directory))
    return table


def check_channels(table: pa.Table, *, where: str) -> None:
    """Raises SourceError where a table names its channels, and they are others or in another order than here."""
    names = wanted = [*(channel.source_name for channel in CHANNELS), "nothing"]
    if "channel_names" in table.column_names and table.num_rows:
        told = sound_column(table.slice(0, 1), "channel_names", where=where)[0].as_py()
        names = wanted if told is None else [*told, "nothing"]
    if wrong := [(a, b) for a, b in zip(names, wanted, strict=False) if a != b]:
        raise SourceError(f"{where}: channel {wrong[0][0]!r} stands where {wrong[0][1]!r} is expected")


class UserDays:
    """The user-days of a data root as stored (zero-filled), sorted by user and date, read a slice at a time.

    Pickling carries the path only.

    Raises SourceError when the root is incomplete or contradicts its marker.
    """

    def __init__(self, path: str | os.PathLike, *, version: str | None = None):
        self.path, self._where = Path(path), str(Path(path) / MINUTE_ROWS)
        self.marker = read_marker(path, version=version)
        table = open_minute_rows(path)
        self._rows = Rows(table, where=self._where)
        self._users = texts(table, "user_id", where=self._where)
        self._dates = texts(table, "date", where=self._where, characters=_DATE_CHARACTERS)
        self._nonwear = nonwear_minutes(table, where=self._where)
        self._order = np.lexsort((_ranks(self._dates), _ranks(self._users)))
        self._variance_of = functools.cache(lambda: channel_variance(table, where=self._where))

    def __len__(self) -> int:
        return len(self._order)

    def __reduce__(self):
        return (UserDays, (self.path,))

    def files(self) -> list[tuple[str, int, int]]:
        """Name, size and time of the shards: with other files, other days."""
        found = [(file.name, file.stat()) for file in _shards(self.path / MINUTE_ROWS)]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]

    def slices(self, n_days: int) -> list[tuple[int, int]]:
        """Cuts the sorted days between users, into slices of at most so many days where no user has more."""
        users = self._users[self._order]
        ends = [*(np.flatnonzero(users[1:] != users[:-1]) + 1).tolist(), len(users)]
        found, start, before = [], 0, 0
        for end in ends:
            if end - start > n_days and before > start:
                found.append((start, before))
                start = before
            before = end
        return [*found, (start, before)] if before > start else found

    def days(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        tally: Tally,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[Day]:
        """The days of a slice, each user and date once; `progress` gets (rows done, rows)."""
        chosen = self._order[start:stop]
        before = None
        for done, row in enumerate(chosen):
            tally.read["user-days"] += 1
            key = self._users[row], self._dates[row]
            if key == before:
                tally.skip("user-days", "second row of the same user and date")
            else:
                tally.used["days"] += 1
                date = _date(key[1], self._where)
                values, nonwear = self._rows[int(row)], float(self._nonwear[row])
                yield Day(values, str(key[0]), date, nonwear, "openmhc", self._variance_of()[row])
            before = key
            if progress:
                progress(done + 1, len(chosen))


def read_days(
    path: str | os.PathLike,
    *,
    tally: Tally,
    absent: str = "zero-when-recording",
    version: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Day]:
    """Days of an OpenMHC data root as stored (zero-filled), by user and date.

    Args:
        absent: only `"zero-when-recording"`, which is how the data are stored.
        version: refuse data of another version (`"xs"` or `"full"`).
        progress: called with (rows done, rows).

    Raises:
        SourceError: the root is incomplete or contradicts its marker. ConfigError: an impossible `absent`.
    """
    check_absent(absent)
    yield from UserDays(path, version=version).days(tally=tally, progress=progress)


def check_absent(absent: str) -> None:
    """Raises ConfigError for a treatment of missing minutes that the data do not allow."""
    minute_grid.check_absent(absent)
    if absent != "zero-when-recording":
        raise ConfigError(
            f"absent={absent!r}: OpenMHC days are stored zero-filled, what was missing is not known"
        )


def read_json(file: Path) -> Any:
    """Parses a JSON file of the root. Raises SourceError naming the file."""
    try:
        return json_text.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SourceError(f"{file}: not found; expected in an OpenMHC data root") from None
    except (OSError, ValueError) as error:
        raise SourceError(f"{file}: not readable as JSON ({error})") from None


def _ranks(words: np.ndarray) -> np.ndarray:
    """The place of each word among the sorted ones."""
    place = {word: rank for rank, word in enumerate(sorted(set(words)))}
    return np.fromiter((place[word] for word in words), np.int32, len(words))


def _date(text: str, where: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise SourceError(f"{where}: date {text!r}, expected YYYY-MM-DD") from None


def _shards(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise SourceError(f"{directory}: no such folder; expected Arrow shards data-*.arrow in it")
    files = sorted(directory.glob("data-*.arrow"))
    if not files:
        raise SourceError(f"{directory}: no data-*.arrow shard")
    wanted = {file.name for file in files}
    if (directory / "state.json").exists():
        state = read_json(directory / "state.json")
        try:
            listed = {str(entry["filename"]) for entry in state.get("_data_files", [])}
        except (AttributeError, KeyError, TypeError):
            raise SourceError(
                f"{directory / 'state.json'}: expected {{'_data_files': [{{'filename'}}]}}"
            ) from None
        wanted = listed or wanted
    elif match := _SHARD.fullmatch(files[0].name):
        count, width = int(match[2]), len(match[1])
        wanted = {f"data-{i:0{width}d}-of-{match[2]}.arrow" for i in range(count)}
    if lacking := sorted(wanted - {file.name for file in files}):
        raise SourceError(f"{directory}: shard {lacking[0]} is missing")
    return [directory / name for name in sorted(wanted)]


def _open_shard(file: Path) -> pa.Table:
    try:
        mapped = pa.memory_map(str(file))
        head = mapped.read(6)
        mapped.seek(0)
        reader = ipc.open_file(mapped) if head == b"ARROW1" else ipc.open_stream(mapped)
        return reader.read_all()
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        raise SourceError(f"{file}: not a whole Arrow shard ({error})") from None


def _stored(table: pa.Table, column: str, where: str) -> pa.ChunkedArray:
    if column not in table.column_names:
        raise SourceError(f"{where}: no column {column!r}; found {', '.join(table.column_names)}")
    return table.column(column)


def _validate(cells: pa.Array | pa.ChunkedArray, where: str) -> None:
    try:
        cells.validate(full=True)
    except pa.ArrowException as error:
        raise SourceError(f"{where}: damaged ({str(error).splitlines()[0]})") from None


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _flat(array: pa.Array) -> pa.Array:
    while _is_list(array.type):
        array = _storage(array.flatten())
    return array
