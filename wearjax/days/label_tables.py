"""Writes the label lookup of a day store: one row a retained day, one column a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64

from wearjax import writing
from wearjax.days import hourly
from wearjax.days.store import Days
from wearjax.days.task_labels import SENTINEL, STORE_FILES
from wearjax.errors import ConfigError, StoreError
from wearjax.sources.synthetic_labels import Label
from wearjax.tasks import TASKS, Task

_DAYS_AT_ONCE = 64


@dataclass(frozen=True)
class LabelTable:
    """A written lookup.

    Attributes:
        labelled: participants with a valid label, by task.
        unplaced: participants whose label has no retained day within its validity, by task.
        unknown: participants with labels but without days.
    """

    path: Path
    labelled: dict[str, int]
    unplaced: dict[str, int]
    unknown: tuple[str, ...]


def write_task_labels(
    days: Days,
    labels: Mapping[str, Mapping[str, Label]],
    *,
    tasks: Mapping[str, Task] = TASKS,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LabelTable:
    """Writes `task_labels.parquet` beside the store's other files; it appears whole or not at all.

    A label is dated within its participant's recorded time. It is valid if a retained day lies within its validity
    window; then all retained days of the participant are eligible for it (OpenMHC's full history, which has no cap).
    The other cells hold -1 (whole numbers) or NaN.

    Args:
        days: an opened store.
        labels: by participant and task.
        tasks: by code; every one becomes a column, of its kind and validity.
        progress: called with (days read, retained days).

    Raises:
        StoreError: not a day store, or the table exists and `overwrite` is off. ConfigError: a label of a task
        that is not among `tasks`.
    """
    path = days.path / STORE_FILES["day", "full_history"]
    if not (days.path / "store.json").exists():
        raise StoreError(f"{days.path}: not a day store; labels are written beside store.json")
    if path.exists() and not overwrite:
        raise StoreError(f"{path} exists; pass overwrite=True to replace it")
    for participant, own in labels.items():
        if strange := [code for code in own if code not in tasks]:
            raise ConfigError(
                f"{participant}: a label of task {strange[0]!r}, which is not among the tasks written"
            )
    rows = np.flatnonzero(days.retained).astype(np.int64)
    rows = rows[np.lexsort((days.dates[rows].astype(str), days.participants[rows].astype(str)))]
    columns, unplaced = _columns(days, rows, labels, tasks)
    table = pa.table(
        {
            "user_id": pa.array(days.participants[rows].astype(str)),
            "date": pa.array(days.dates[rows].astype(str)),
            "n_valid_hours": pa.array(_valid_hours(days, rows, progress)),
            **columns,
        }
    )
    with writing.file(path) as partial:
        pq.write_table(table, partial, compression="zstd")
    known = set(map(str, days.participants))
    given = {
        code: sum(code in own for participant, own in labels.items() if participant in known)
        for code in tasks
    }
    labelled = {code: given[code] - unplaced[code] for code in tasks}
    return LabelTable(path, labelled, unplaced, tuple(sorted(set(labels) - known)))


def _columns(days, rows, labels, tasks):
    """The cells of each task, and how many labels have no day to stand on."""
    date = days.dates.astype("datetime64[D]").astype(np.int64)
    row_of = np.full(len(days), -1)
    row_of[rows] = np.arange(len(rows))
    cells: dict[str, np.ndarray] = {
        code: np.full(len(rows), _absent(task), _dtype(task)) for code, task in tasks.items()
    }
    unplaced = dict.fromkeys(tasks, 0)
    for participant, own in _by_participant(days):
        first, last = date[own].min(), date[own].max()
        retained = row_of[own] >= 0
        for code, label in labels.get(participant, {}).items():
            limit = tasks[code].validity_days
            away = np.abs(date[own] - (first + round(label.moment * (last - first))))
            if np.any(retained & (True if limit is None else away <= limit)):
                cells[code][row_of[own][retained]] = label.value
            else:
                unplaced[code] += 1
    return {code: pa.array(column) for code, column in cells.items()}, unplaced


def _by_participant(days: Days) -> Iterator[tuple[str, Int64[np.ndarray, " day"]]]:
    """Each participant and the positions of the days."""
    ids, owner = np.unique(days.participants.astype(str), return_inverse=True)
    order = np.argsort(owner, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(owner))[:-1])
    return zip(map(str, ids), parts, strict=True)


def _absent(task: Task) -> float:
    return np.nan if task.kind == "regression" else SENTINEL


def _dtype(task: Task) -> type:
    return np.float64 if task.kind == "regression" else np.int32


def _valid_hours(days: Days, rows: Int64[np.ndarray, "row"], progress) -> Int64[np.ndarray, "row"]:
    found = np.empty(len(rows), np.int32)
    for start in range(0, len(rows), _DAYS_AT_ONCE):
        part = slice(start, start + _DAYS_AT_ONCE)
        found[part] = hourly.valid_hours(hourly.aggregate(days.batch(rows[part])))
        if progress is not None:
            progress(min(start + _DAYS_AT_ONCE, len(rows)), len(rows))
    return found
