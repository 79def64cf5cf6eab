"""The hourly trajectories of an OpenMHC data root: one row a user, all hours from the first to the last day."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float32

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.errors import SourceError
from wearjax.sources import openmhc

FOLDER = "hourly_trajectory"
INDEX_FOLDER = "forecasting_sample_index"
RETAINED_DAYS = "day_remain_mask.json"
_DATE_CHARACTERS = len("YYYY-MM-DD")


class TrajectoryRows:
    """Random access to the rows of `hourly_trajectory/`. Shards are memory-mapped; opening reads no values.

    Attributes:
        users: of each row, in stored order.

    Raises:
        SourceError: the folder is incomplete, a user has two rows, or its channels are others.
    """

    def __init__(self, root: str | os.PathLike):
        self.folder = Path(root) / FOLDER
        where = str(self.folder)
        self._table = openmhc.open_table(self.folder)
        self.users: tuple[str, ...] = tuple(map(str, openmhc.texts(self._table, "user_id", where=where)))
        if len(set(self.users)) != len(self.users):
            twice = next(user for user in self.users if self.users.count(user) > 1)
            raise SourceError(f"{where}: user {twice} has two rows")
        self._values = self._column("values")
        self._start = self._column("start_time" if "start_time" in self._table.column_names else "timestamps")
        openmhc.check_channels(self._table, where=where)

    def _column(self, name: str) -> pa.ChunkedArray:
        column = openmhc.sound_column(self._table, name, where=str(self.folder))
        if isinstance(
            column.type, pa.BaseExtensionType
        ):  # arrays of the `datasets` library, where it is loaded
            return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        return column

    def n_days(self, row: int) -> int:
        """Calendar days of a row. Raises SourceError when its hours are not whole days."""
        cells = self._cells(row)
        n_hours, rest = divmod(len(cells), N_CHANNELS)
        if rest or n_hours % HOURS_PER_DAY or not n_hours:
            raise SourceError(
                f"{self.folder}: user {self.users[row]} has {len(cells)} numbers; expected whole days of "
                f"{HOURS_PER_DAY} hours times {N_CHANNELS} channels"
            )
        return n_hours // HOURS_PER_DAY

    def first_day(self, row: int) -> dt.date:
        """Calendar day of the first hour."""
        cell = self._start[row]
        stored = cell.as_py() if not pa.types.is_list(cell.type) else cell[0].as_py()
        return _date(stored, f"{self.folder}: user {self.users[row]} starts at")

    def values(self, row: int) -> Float32[np.ndarray, "hour channel=19"]:
        """A fresh array of the stored hours, time-major; NaN where missing."""
        self.n_days(row)
        cells = self._cells(row).to_numpy(zero_copy_only=False)
        return np.array(cells, np.float32).reshape(-1, N_CHANNELS)

    def _cells(self, row: int) -> pa.Array:
        cells = self._values[row].values
        if cells is None:
            raise SourceError(f"{self.folder}: user {self.users[row]} has no values")
        while (
            pa.types.is_list(cells.type)
            or pa.types.is_large_list(cells.type)
            or (pa.types.is_fixed_size_list(cells.type))
        ):
            cells = cells.flatten()
        return cells

    def shards(self) -> tuple[tuple[str, int], ...]:
        """Name and size of the files, by which a copy of the data is told from another."""
        return tuple((file.name, file.stat().st_size) for file in sorted(self.folder.glob("*.arrow")))


def read_retained_days(root: str | os.PathLike) -> dict[str, tuple[str, ...]]:
    """ISO dates of the days of each user that pass the day filters (`day_remain_mask.json`).

    Raises SourceError when the file is missing or something else.
    """
    file = Path(root) / INDEX_FOLDER / RETAINED_DAYS
    content = openmhc.read_json(file)
    if not isinstance(content, dict) or not all(isinstance(days, list) for days in content.values()):
        raise SourceError(f"{file}: expected {{user: [dates]}}")
    return {
        str(user): tuple(_date(day, f"{file}: user {user}:").isoformat() for day in days)
        for user, days in content.items()
    }


def _date(stored: object, where: str) -> dt.date:
    """The calendar day of a stored date or time."""
    text = str(stored)
    try:
        return dt.date.fromisoformat(text[:_DATE_CHARACTERS])
    except ValueError:
        raise SourceError(f"{where} {text[:40]!r}, expected an ISO date") from None
