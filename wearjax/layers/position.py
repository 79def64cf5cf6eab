"""Fixed sinusoidal position embeddings."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Float32

PERIOD = 10000.0


def sincos(positions: np.ndarray, dim: int, *, period: float = PERIOD) -> Float32[np.ndarray, "position dim"]:
    """Sines, then cosines, of every position (Vaswani et al. 2017, section 3.5, not interleaved).

    Frequency k of `dim / 2` is `period^(-k / (dim / 2))`. float32 arithmetic throughout, as in the published
    checkpoints: float64 angles differ in the fourth digit at large positions.
    """
    half = dim // 2
    frequencies = np.float32(period) ** (-np.arange(half, dtype=np.float32) / np.float32(half))
    angles = np.asarray(positions, np.float32)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@functools.lru_cache(maxsize=16)
def grid_sincos(
    n_rows: int, n_columns: int, dim: int, *, period: float = PERIOD
) -> Float32[np.ndarray, "token dim"]:
    """Embedding of a row-major grid: the first half of the features tells the row, the second the column.

    `dim` must be divisible by 4 (a sine and a cosine half for either coordinate).
    """
    if dim % 4:
        raise ValueError(
            f"dim: must be divisible by 4 for a two-dimensional sine/cosine embedding, got {dim}"
        )
    rows = sincos(np.arange(n_rows), dim // 2, period=period)
    columns = sincos(np.arange(n_columns), dim // 2, period=period)
    table = np.concatenate([np.repeat(rows, n_columns, axis=0), np.tile(columns, (n_rows, 1))], axis=1)
    table.flags.writeable = False  # shared by the cache
    return table
