"""An OpenMHC data root opened as days, without conversion."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from wearjax.days import clean
from wearjax.days.store import Days
from wearjax.sources import openmhc


class OpenMHCDays(Days):
    """The minute user-days of a data root, in the order of its rows.

    Values are stored zero-filled, so each read applies the zero-to-missing rule. Wear and variance are the
    stored ones, on which the benchmark's day filters are defined. Reading is safe from several processes:
    pickling carries the path only.

    Raises SourceError when the root is incomplete or contradicts its marker.
    """

    def __init__(self, path: str | os.PathLike, *, version: str | None = None):
        self.path = Path(path)
        self.marker = openmhc.read_marker(self.path, version=version)
        where = str(self.path / openmhc.MINUTE_ROWS)
        table = openmhc.open_minute_rows(self.path)
        self._rows = openmhc.Rows(table, where=where)
        self.participants = openmhc.texts(table, "user_id", where=where)
        self.dates = openmhc.texts(table, "date", where=where, characters=len("YYYY-MM-DD"))
        self.nonwear_minutes = openmhc.nonwear_minutes(table, where=where)
        self.variance = openmhc.channel_variance(table, where=where)

    def values(self, index: int) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        return clean.zero_to_nan(self._rows[int(index) % len(self)])

    def source(self, index: int) -> str:
        return "openmhc"

    def __reduce__(self):
        return (OpenMHCDays, (self.path,))
