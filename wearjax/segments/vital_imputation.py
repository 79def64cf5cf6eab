"""Filling the gaps of one surgery, the alternative to a masked loss (VitalBench, ablation of imputation).

In a record 0 stands for a missing value. Sex keeps its zeros, which are a value there, and a column without any
value stays zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from wearjax.errors import ConfigError

NEIGHBOURS = 2

Record = Float[np.ndarray, "row variable"]


def impute(values: Record, method: str, *, keep: tuple[int, ...] = ()) -> Record:
    """A record with its gaps filled.

    Args:
        values: one surgery, 0 = missing.
        method: `mean` of the column, `linear` between neighbouring rows (the last value beyond the last, and NaN
            before the first), `ffill`, the last value (0 before the first), `knn`, the mean of the two nearest rows
            that have the variable, or `none`.
        keep: columns in which 0 is a value, sex; they stay as they are.

    Raises:
        ConfigError: another method, or `knn` without scikit-learn.
    """
    if method == "none":
        return values
    if method not in _METHODS:
        raise ConfigError(f"imputation: expected one of none, {', '.join(_METHODS)}, got {method!r}")
    filled = np.array(values, np.float64)
    columns = [i for i in range(values.shape[1]) if i not in keep and np.any(values[:, i])]
    if columns:
        gappy = filled[:, columns]
        gappy[gappy == 0] = np.nan
        filled[:, columns] = _METHODS[method](gappy)
    return filled.astype(values.dtype)


def _mean(gappy: Record) -> Record:
    return np.where(np.isnan(gappy), np.nanmean(gappy, axis=0), gappy)


def _linear(gappy: Record) -> Record:
    rows = np.arange(len(gappy))
    out = np.empty_like(gappy)
    for i, column in enumerate(gappy.T):
        known = np.flatnonzero(~np.isnan(column))
        out[:, i] = np.interp(rows, known, column[known], left=np.nan)
    return out


def _ffill(gappy: Record) -> Record:
    started = gappy.copy()
    started[0] = np.nan_to_num(started[0])
    rows = np.where(np.isnan(started), 0, np.arange(len(gappy))[:, None])
    return np.take_along_axis(started, np.maximum.accumulate(rows, axis=0), axis=0)


def _knn(gappy: Record) -> Record:
    try:
        from sklearn.impute import KNNImputer
    except ImportError:
        raise ConfigError(
            "imputation: knn needs scikit-learn; install it with: pip install 'wearjax[probes]'"
        ) from None
    return KNNImputer(n_neighbors=NEIGHBOURS).fit_transform(gappy)


_METHODS: dict[str, Callable[[Record], Record]] = {
    "mean": _mean,
    "linear": _linear,
    "ffill": _ffill,
    "knn": _knn,
}
