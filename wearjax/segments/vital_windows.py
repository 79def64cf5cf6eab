"""From the record of a surgery to the windows of VitalBench: columns scaled, one window a row.

A window of case c ends at row i: the model sees the rows i-L+1 ... i, with zeros for rows before the first (a cold
start), and forecasts i+1 ... i+T. Windows are never stored, only the row each ends at: neighbours share all but one
row, and 2.7 million windows of 360 rows would not fit anywhere. (VitalBench, section "Preprocessing".)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from wearjax.errors import ConfigError

Record = Float[np.ndarray, "row variable"]


@dataclass(frozen=True, eq=False)
class Range:
    """Lowest and highest value of each variable."""

    low: Float64[np.ndarray, " variable"]
    high: Float64[np.ndarray, " variable"]

    @property
    def span(self) -> Float64[np.ndarray, " variable"]:
        """Units of the variable in one scaled unit; 1 for a constant."""
        width = self.high - self.low
        return np.where(width > 0, width, 1.0)


def case_range(values: Record) -> Range:
    """Extremes of a whole record: its missing entries count as zeros, NaN does not count."""
    known = ~np.isnan(values)
    none = ~known.any(axis=0)
    low = np.where(known, values, np.inf).min(axis=0).astype(np.float64)
    high = np.where(known, values, -np.inf).max(axis=0).astype(np.float64)
    return Range(np.where(none, 0.0, low), np.where(none, 0.0, high))


def observed_range(records: Iterable[Record], *, keep: tuple[int, ...] = ()) -> Range:
    """Extremes of the observed values of many records; 0 to 0 for a variable that nobody has.

    Args:
        keep: columns in which 0 is a value, sex.
    """
    lows, highs = [], []
    for values in records:
        observed = ~missing(values, keep)
        lows.append(np.where(observed, values, np.inf).min(axis=0))
        highs.append(np.where(observed, values, -np.inf).max(axis=0))
    if not lows:
        raise ConfigError("scaling: train_global needs at least one training case")
    low, high = np.min(lows, axis=0).astype(np.float64), np.max(highs, axis=0).astype(np.float64)
    none = np.isinf(low)
    return Range(np.where(none, 0.0, low), np.where(none, 0.0, high))


def missing(values: Record, keep: tuple[int, ...]) -> Bool[np.ndarray, "row variable"]:
    """True where a record has no value: NaN, and 0 outside of the columns `keep`."""
    empty = values == 0
    empty[:, list(keep)] = False
    return empty | np.isnan(values)


def scale(
    values: Record, *, scaling: str = "per_case", stats: Range | None = None, keep: tuple[int, ...] = ()
) -> Record:
    """Min-max scaled values, 0 where there is none.

    Args:
        values: one surgery, 0 = missing. NaN, which imputation may leave, is missing and no extreme.
        scaling: `per_case` treats the zeros of missing entries as values: they stay 0 only where 0 is the lowest,
            and otherwise the lowest value becomes 0, which a mask takes for missing. `train_global` keeps them 0.
        stats: extremes of the training values, or, for `per_case`, of the record that `values` was made from.
        keep: columns in which 0 is a value, sex; matters to `train_global`.

    Raises:
        ConfigError: another scaling, or `train_global` without extremes.
    """
    if scaling not in ("per_case", "train_global"):
        raise ConfigError(f"scaling: expected per_case or train_global, got {scaling!r}")
    if stats is None:
        if scaling == "train_global":
            raise ConfigError("scaling: train_global needs the extremes of the training values")
        stats = case_range(values)
    scaled = (values.astype(np.float64) - stats.low) / stats.span
    empty = np.isnan(values) if scaling == "per_case" else missing(values, keep)
    return np.where(empty, 0.0, scaled).astype(values.dtype)


def window_count(rows: Int64[np.ndarray, "*case"] | int, horizon: int) -> Int64[np.ndarray, "*case"]:
    """Windows of cases of so many rows: every row ends one that has all of its future."""
    return np.maximum(np.asarray(rows) - horizon, 0)


def cut(
    scaled: Record, at: Int64[np.ndarray, " window"], *, context: int, horizon: int
) -> tuple[Float[np.ndarray, "window context variable"], Float[np.ndarray, "window horizon variable"]]:
    """Input and future of the windows of a case that end at the rows `at`."""
    rows = np.asarray(at)[:, None] + np.arange(1 - context, 1)
    x = np.where((rows >= 0)[..., None], scaled[np.maximum(rows, 0)], 0).astype(scaled.dtype)
    return x, scaled[np.asarray(at)[:, None] + np.arange(1, horizon + 1)]


def downsample(values: Record, steps: int, *, rule: str = "last") -> Record:
    """One row for every `steps` rows: the last observed value or the mean of those observed, 0 where none is.

    An incomplete last group counts as one.

    Raises:
        ConfigError: another rule, or fewer than one step.
    """
    if rule not in ("last", "mean") or steps < 1:
        raise ConfigError(f"downsampling: expected last or mean of at least 1 step, got {rule!r} of {steps}")
    n_groups = -(-len(values) // steps)
    groups = np.zeros((n_groups * steps, values.shape[1]), values.dtype)
    groups[: len(values)] = values
    groups = groups.reshape(n_groups, steps, -1)
    observed = groups != 0
    if rule == "mean":
        total = groups.sum(axis=1, dtype=np.float64)
        return (total / np.maximum(observed.sum(axis=1), 1)).astype(values.dtype)
    last = steps - 1 - np.argmax(observed[:, ::-1], axis=1)
    return np.take_along_axis(groups, last[:, None], axis=1)[:, 0]
