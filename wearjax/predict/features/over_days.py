"""Order statistics of a participant's days, with the conventions of the table library of the benchmark's features.

In a daily column NaN is a day without the value: it is left out. Plus infinity is a day on which the channel was
not measured: it counts, and ranks behind every number, as Polars ranks NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Ordered:
    """Rows in ascending order, NaN at their ends.

    Attributes:
        values: the sorted rows.
        count: how many entries of each row are not NaN.
    """

    values: Float[np.ndarray, "*row n"]
    count: Int64[np.ndarray, "*row"]

    def quantile(self, q: float) -> Float64[np.ndarray, "*row"]:
        """The entry at rank q (count - 1), halves rounded up ("nearest"); NaN in an empty row."""
        return self._at(np.floor(q * (self.count - 1) + 0.5).astype(np.int64))

    def median(self) -> Float64[np.ndarray, "*row"]:
        """The middle entry, or the mean of the middle two; NaN in an empty row."""
        return (self._at((self.count - 1) // 2) + self._at(self.count // 2)) / 2

    def largest(self) -> Float64[np.ndarray, "*row"]:
        """The last entry; NaN in an empty row."""
        return self._at(self.count - 1)

    def _at(self, rank: Int64[np.ndarray, "*row"]) -> Float64[np.ndarray, "*row"]:
        found = np.take_along_axis(self.values, np.clip(rank, 0, None)[..., None], axis=-1)[..., 0]
        return found.astype(np.float64)


def ordered(values: Float[np.ndarray, "*row n"]) -> Ordered:
    """Sorts each row; rows need at least one place."""
    return Ordered(np.sort(values, axis=-1), np.asarray(np.sum(~np.isnan(values), axis=-1), np.int64))


def not_measured_last(values: Float64[np.ndarray, "*day"]) -> Float64[np.ndarray, "*day"]:
    """Turns the NaN of days without the channel into plus infinity, so that they rank last instead of nowhere."""
    return np.where(np.isnan(values), np.inf, values)


class OverDays:
    """Statistics over days of every column of a daily table; each is NaN where it has no finite value.

    Args:
        table: daily columns of one length.
        chosen: which days count; all by default.
    """

    def __init__(
        self, table: Mapping[str, Float64[np.ndarray, "day"]], chosen: Bool[np.ndarray, "day"] | None = None
    ):
        self._place = {name: place for place, name in enumerate(table)}
        columns = np.stack([np.asarray(column, np.float64) for column in table.values()])
        self._columns = columns if chosen is None else columns[:, chosen]
        if not self._columns.shape[1]:
            self._columns = np.full((len(table), 1), np.nan)
        self._ordered = ordered(self._columns)
        self._median = self._ordered.median()
        self._quantiles: dict[float, np.ndarray] = {}

    def column(self, name: str) -> Float64[np.ndarray, "day"]:
        return self._columns[self._place[name]]

    def median(self, name: str) -> float:
        return float(self._median[self._place[name]])

    def quantile(self, name: str, q: float) -> float:
        if q not in self._quantiles:
            self._quantiles[q] = self._ordered.quantile(q)
        return float(self._quantiles[q][self._place[name]])

    def iqr(self, name: str) -> float:
        return self.quantile(name, 0.75) - self.quantile(name, 0.25)

    def mean(self, name: str) -> float:
        """Mean of the days that have a value; NaN without any, or where a day was not measured."""
        count = int(self._ordered.count[self._place[name]])
        return float(np.nansum(self.column(name))) / count if count else NAN

    def four(self, name: str) -> dict[str, float]:
        """`{name}_p5`, `_p50`, `_p95` and `_iqr`."""
        return {
            f"{name}_p5": self.quantile(name, 0.05),
            f"{name}_p50": self.median(name),
            f"{name}_p95": self.quantile(name, 0.95),
            f"{name}_iqr": self.iqr(name),
        }

    def two(self, name: str) -> dict[str, float]:
        """`{name}_p50` and `{name}_iqr`."""
        return {f"{name}_p50": self.median(name), f"{name}_iqr": self.iqr(name)}


def ratio(top: float, bottom: float) -> float:
    """`top / bottom`; NaN where the bottom is zero or either was not measured."""
    return top / bottom if bottom and np.isfinite(top) and np.isfinite(bottom) else NAN


def finite(values: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    """Infinities become NaN: what trees read as missing."""
    return np.where(np.isfinite(values), values, np.nan)
