"""The scale of the scaled forecasting errors: how far each channel moves from one day to the next.

OpenMHC evaluation, forecasting track.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Float64

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.errors import StoreError


class SeasonalScale:
    """Mean absolute difference to the value 24 hours before, over all evaluated target cells of a run.

    Adding a participant again replaces what was known of them, so the order and an interruption do not matter.
    """

    def __init__(self):
        self._sums: dict[str, np.ndarray] = {}

    def add(
        self,
        participant: str,
        values: Float[np.ndarray, "channel=19 hour"],
        origins: Iterable[int],
        horizon: int,
    ) -> None:
        """Takes the target cells of a participant's windows.

        Args:
            values: the whole trajectory, NaN = missing.
            origins: hour at which each window starts. An hour in two windows counts twice.
        """
        hours = (np.asarray(list(origins), np.int64)[:, None] + np.arange(horizon)).ravel()
        hours = hours[(hours >= HOURS_PER_DAY) & (hours < values.shape[1])]
        step = np.abs(values[:, hours].astype(np.float64) - values[:, hours - HOURS_PER_DAY])
        finite = np.isfinite(step)
        # A cell's bin: its channel and hour of day. Small matrix products would start threads that fight for cores.
        bins = (np.arange(N_CHANNELS)[:, None] * HOURS_PER_DAY + hours % HOURS_PER_DAY)[finite]
        size = N_CHANNELS * HOURS_PER_DAY
        sums = [np.bincount(bins, weights, size) for weights in (step[finite], None)]
        self._sums[participant] = np.array(sums, np.float64).reshape(2, N_CHANNELS, HOURS_PER_DAY)

    def merge(self, other: SeasonalScale) -> None:
        """Takes up the participants of another."""
        self._sums.update(other._sums)

    def hourly(self) -> Float64[np.ndarray, "channel=19 hour=24"]:
        """By hour of day; NaN where it is zero or nothing was measured."""
        return _positive(*self._total())

    def whole(self) -> Float64[np.ndarray, "channel=19"]:
        """Over all hours; NaN where it is zero or nothing was measured."""
        return _positive(*self._total().sum(axis=-1))

    def _total(self) -> np.ndarray:
        total = np.zeros((2, N_CHANNELS, HOURS_PER_DAY))
        for participant in sorted(self._sums):  # the last bit must not depend on the order of arrival
            total += self._sums[participant]
        return total

    def record(self) -> pa.Table:
        """What was added, to go on with later."""
        return table_of(self._sums)

    def restore(self, table: pa.Table) -> None:
        """Takes up a record. Raises StoreError if it is none."""
        self._sums.update(arrays_of(table, (2, N_CHANNELS, HOURS_PER_DAY)))


def _positive(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    scale = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
    return np.where(scale > 0, scale, np.nan)


def table_of(arrays: Mapping[str, np.ndarray]) -> pa.Table:
    """Arrays of participants as a table for Parquet, to the last bit."""
    values = np.stack([a.ravel() for a in arrays.values()]) if arrays else np.zeros((0, 1))
    flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"participant": pa.array(list(arrays), pa.string()), "sums": flat})


def arrays_of(table: pa.Table, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The arrays in a table of `table_of`. Raises StoreError if it is none of this shape."""
    try:
        people = table["participant"].to_pylist()
        if not people:
            return {}
        sums = table["sums"].combine_chunks().flatten().to_numpy().reshape(len(people), *shape)
    except (KeyError, ValueError, AttributeError, pa.ArrowException) as error:
        raise StoreError(f"not a record of forecast sums ({' '.join(str(error).split())[:120]})") from None
    return dict(zip(people, sums, strict=True))
