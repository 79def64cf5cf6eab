"""How long the gaps of a recording are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int64


def run_lengths(missing: Bool[np.ndarray, "*row time"]) -> Int64[np.ndarray, "*row time"]:
    """Of each missing cell the length of its unbroken gap along time; 0 where a cell is there."""
    rows = missing.reshape(-1, missing.shape[-1])
    out = np.zeros(rows.shape, np.int64)
    edges = np.zeros((len(rows), rows.shape[1] + 2), np.int8)
    edges[:, 1:-1] = rows
    change = np.diff(edges, axis=1)
    (row, start), stop = np.nonzero(change == 1), np.nonzero(change == -1)[1]
    for r, a, b in zip(row.tolist(), start.tolist(), stop.tolist(), strict=True):
        out[r, a:b] = b - a
    return out.reshape(missing.shape)
