"""Who has which label, and on which days it holds: the lookup tables of the prediction tasks.

A lookup is a Parquet table with one row a retained user-day (or user-week) and one column a task. A cell holds
the label where the row is eligible for the task, else a sentinel: -1, NaN or null (OpenMHC data layer, label
lookups).
"""

from __future__ import annotations

import datetime as dt
import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Float64, Int64

from wearjax import checksum
from wearjax.errors import ConfigError, SourceError, StoreError, WearjaxError
from wearjax.sources import openmhc

Unit = Literal["day", "week"]
Window = Literal["full_history", "forward"]
UNITS, WINDOWS = ("day", "week"), ("full_history", "forward")
SENTINEL = -1
# The weekly lookup is published with the forward window only.
ROOT_FILES = {
    ("day", "full_history"): "daily_labels_lookup_full_history.parquet",
    ("day", "forward"): "daily_labels_lookup.parquet",
    ("week", "forward"): "weekly_labels_lookup_stride7_windowed.parquet",
}
STORE_FILES = {("day", "full_history"): "task_labels.parquet"}
_DATE_COLUMN = {"day": "date", "week": "week_start"}
_DATE_CHARACTERS = 10  # some dates carry a time part
_NOT_TASKS = frozenset({"user_id", "date", "week_start", "n_valid_days", "n_valid_hours"})


@dataclass(frozen=True, eq=False)
class Cohort:
    """The participants of one task.

    Attributes:
        users: ids, sorted.
        labels: one a user.
        dates: ISO dates of each user's eligible days (first days, for weeks), ascending.
    """

    users: tuple[str, ...]
    labels: Float64[np.ndarray, "user"]
    dates: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.users)


class TaskLabels:
    """An opened lookup; the column of a task is read when it is first asked for.

    Attributes:
        path: the Parquet file.
        unit: what a row is.
        window: until when the days after a label are eligible.
        tasks: names of the task columns, in file order.
        other_columns: columns that are neither keys nor numbers, and are not read.

    Raises:
        WearjaxError (SourceError or StoreError): the file is missing, unreadable or lacks a key column.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        unit: Unit = "day",
        window: Window = "full_history",
        error: type[WearjaxError] = StoreError,
    ):
        self.path, self.unit, self.window, self._error = Path(path), unit, window, error
        schema = self._read_schema()
        keys = ("user_id", _DATE_COLUMN[unit])
        if lacking := [name for name in keys if name not in schema.names]:
            raise error(
                f"{path}: no column {lacking[0]!r}; a label lookup has {keys[0]}, {keys[1]} and the tasks"
            )
        rest = [field for field in schema if field.name not in _NOT_TASKS]
        self.tasks = tuple(field.name for field in rest if _is_number(field.type))
        self.other_columns = tuple(field.name for field in rest if not _is_number(field.type))
        table = self._read(list(keys))
        self._users, self._user_of_row = _coded(self._texts(table, keys[0]))
        dates = pc.utf8_slice_codeunits(self._texts(table, keys[1]), 0, _DATE_CHARACTERS)
        self._dates, self._date_of_row = _coded(dates)
        self._check_dates()
        self._code_of = {user: code for code, user in enumerate(self._users)}
        # A task's rows serve its train and its test cohort; all tasks of a large root would not fit in memory.
        self._eligible_rows = functools.lru_cache(maxsize=1)(self._read_eligible_rows)
        self._first_values = functools.cache(self._read_first_values)

    def __len__(self) -> int:
        return len(self._user_of_row)

    def __repr__(self) -> str:
        return f"TaskLabels({self.path}, rows={len(self)}, users={len(self._users)}, tasks={len(self.tasks)})"

    @functools.cached_property
    def digest(self) -> str:
        """Changes with any byte of the file."""
        return checksum.sha256(self.path)[:24]

    @property
    def users(self) -> tuple[str, ...]:
        """Everybody with a row, sorted."""
        return tuple(self._users)

    def cohort(self, task: str, participants: Iterable[str]) -> Cohort:
        """Those of `participants` with an eligible row, each with the label of the first such row in file order.

        Raises ConfigError on an unknown task.
        """
        rows, values = self._eligible_rows(task)
        wanted = np.zeros(len(self._users), bool)
        wanted[[self._code_of[str(p)] for p in participants if str(p) in self._code_of]] = True
        inside = wanted[self._user_of_row[rows]]
        rows, values = rows[inside], values[inside]
        codes, first = np.unique(self._user_of_row[rows], return_index=True)
        order = np.lexsort((self._date_of_row[rows], self._user_of_row[rows]))
        owner, date = self._user_of_row[rows][order], self._date_of_row[rows][order]
        start = np.searchsorted(owner, codes, side="left")
        stop = np.searchsorted(owner, codes, side="right")
        dates = tuple(
            tuple(dict.fromkeys(self._dates[k] for k in date[a:b])) for a, b in zip(start, stop, strict=True)
        )
        return Cohort(tuple(self._users[code] for code in codes), values[first], dates)

    def first_value(self, task: str, user: str) -> float | None:
        """The label of a user's first eligible row; None where there is none. ConfigError: unknown task."""
        return self._first_values(task).get(str(user))

    def _read_first_values(self, task: str) -> dict[str, float]:
        rows, values = self._eligible_rows(task)
        codes, first = np.unique(self._user_of_row[rows], return_index=True)
        return {self._users[c]: float(v) for c, v in zip(codes, values[first], strict=True)}

    def _read_eligible_rows(self, task: str) -> tuple[Int64[np.ndarray, "row"], Float64[np.ndarray, "row"]]:
        """Rows that hold a label of the task, and the labels."""
        if task not in self.tasks:
            raise ConfigError(f"{self.path}: no labels of task {task!r}")
        column = self._read([task]).column(task)
        values = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
        rows = np.flatnonzero(is_label(values)).astype(np.int64)
        return rows, values[rows]

    def _read_schema(self) -> pa.Schema:
        try:
            return pq.read_schema(self.path)
        except FileNotFoundError:
            raise self._error(f"{self.path}: no label lookup; prediction tasks need one") from None
        except (pa.ArrowException, OSError) as error:
            raise self._error(f"{self.path}: not a readable label lookup ({_line(error)})") from None

    def _read(self, columns: list[str]) -> pa.Table:
        try:
            return pq.read_table(self.path, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise self._error(f"{self.path}: not a readable label lookup ({_line(error)})") from None

    def _check_dates(self) -> None:
        for date in self._dates:
            try:
                if dt.date.fromisoformat(date).isoformat() != date:
                    raise ValueError(date)
            except ValueError:
                raise self._error(f"{self.path}: date {date!r}; expected ISO dates like 2020-01-31") from None

    def _texts(self, table: pa.Table, column: str) -> pa.Array:
        cells = table.column(column).cast(pa.string()).combine_chunks()
        if cells.null_count:
            raise self._error(f"{self.path}: {column!r} has {cells.null_count} empty cells")
        return cells


def read_lookup(
    data_dir: str | os.PathLike, *, unit: Unit = "day", window: Window = "full_history"
) -> TaskLabels:
    """Opens the label lookup of an OpenMHC data root (`processed/`) or of a day store (beside `store.json`).

    Args:
        unit: rows are days or weeks.
        window: `full_history` is the benchmark's; `forward` ends some weeks after the label (an ablation).

    Raises:
        ConfigError: an unknown unit or window. SourceError (a root) or StoreError (a store): no such lookup, or
        not readable as one.
    """
    if unit not in UNITS or window not in WINDOWS:
        raise ConfigError(
            f"unit {unit!r}, window {window!r}: expected {' or '.join(UNITS)}, and {' or '.join(WINDOWS)}"
        )
    data_dir = Path(data_dir)
    is_root = (data_dir / openmhc.MARKER).exists()
    files, error = (ROOT_FILES, SourceError) if is_root else (STORE_FILES, StoreError)
    if (unit, window) not in files:
        known = ", ".join(f"{u} {w}" for u, w in files)
        raise error(f"{data_dir}: no {unit} lookup with window {window!r} there; it has {known}")
    folder = data_dir / "processed" if is_root else data_dir
    return TaskLabels(folder / files[unit, window], unit=unit, window=window, error=error)


def is_label(values: Float64[np.ndarray, "*row"]) -> Bool[np.ndarray, "*row"]:
    """True where a cell is no sentinel."""
    return ~(np.isnan(values) | (values == SENTINEL))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _coded(cells: pa.Array) -> tuple[list[str], np.ndarray]:
    """Distinct texts in ascending order, and the place of each row's text among them."""
    coded = cells.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    order = sorted(range(len(texts)), key=texts.__getitem__)
    place = np.empty(len(texts), np.int64)
    place[order] = np.arange(len(texts))
    return [texts[i] for i in order], place[coded.indices.to_numpy()]


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
