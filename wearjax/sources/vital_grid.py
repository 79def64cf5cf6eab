"""Puts irregular samples on a surgery's regular rows: the last one of each step counts, 0 where there is none."""

from __future__ import annotations

import os

import numpy as np
from jaxtyping import Bool, Float, Float32

from wearjax.errors import SourceError
from wearjax.sources.tally import Tally
from wearjax.vitals import Variable

LONGEST_HOURS = 240  # a surgery that lasts longer is an error of its clock


def rows_of(seconds: float, *, step_seconds: float, where: str | os.PathLike) -> int:
    """Rows that a recording of so many seconds has. Raises SourceError naming the file of an impossible one."""
    if not 0 <= seconds <= LONGEST_HOURS * 3600:
        raise SourceError(f"{where}: lasts {seconds / 3600:.4g} hours, expected 0 to {LONGEST_HOURS}")
    return int(np.ceil(seconds / step_seconds))


def last_values(
    seconds: Float[np.ndarray, " sample"],
    values: Float[np.ndarray, " sample"],
    *,
    step_seconds: float,
    n_rows: int,
) -> Float32[np.ndarray, " row"]:
    """Row i holds the last finite sample in `[i, i + 1)` steps, or 0; samples outside the rows are left out."""
    keep = np.isfinite(values) & (seconds >= 0) & (seconds < n_rows * step_seconds)
    seconds, values = seconds[keep], values[keep]
    order = np.argsort(seconds, kind="stable")
    out = np.zeros(n_rows, np.float32)
    out[(seconds[order] / step_seconds).astype(np.int64)] = values[order]  # the last of equal rows stays
    return out


def plausible(
    values: Float[np.ndarray, " sample"], variable: Variable, *, tally: Tally
) -> Bool[np.ndarray, " sample"]:
    """Which values are finite and within the variable's range; counts those that are outside."""
    finite = np.isfinite(values)
    inside = finite & (values >= variable.low) & (values <= variable.high)
    tally.skip(
        variable.name, f"outside {variable.low:g} to {variable.high:g}", int(np.sum(finite) - np.sum(inside))
    )
    return inside
