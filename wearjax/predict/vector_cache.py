"""Vectors computed once and kept: in memory for every task of a run, on disk for the next run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from wearjax import npz, writing
from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError, StoreError

ROWS_A_FILE = 4096


def digest_of(days: Days, settings: Mapping[str, Any]) -> str:
    """Names what was computed from which days: participants, dates, wear and variance, and the given settings."""
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for column in (days.participants, days.dates):
        found.update("\n".join(map(str, column)).encode() + b"\0")
    for numbers in (days.nonwear_minutes, days.variance):
        found.update(np.ascontiguousarray(numbers, np.float32).tobytes())
    return found.hexdigest()[:24]


class VectorCache:
    """Vectors by row number, each computed when it is first asked for.

    On disk every few thousand rows are one file, which appears whole or not at all: an interrupted run continues
    where it stopped, and several runs may share a folder.

    Args:
        n_rows: how many rows there can be.
        dim: length of a vector.
        compute: rows to vectors; a row of NaN says that there is none, and is kept as such.
        folder: where to keep them, None for memory only; one for each digest.
        rows_a_call: most rows that `compute` gets at once.
    """

    def __init__(
        self,
        n_rows: int,
        dim: int,
        compute: Callable[[Int64[np.ndarray, "row"]], Float32[np.ndarray, "row D"]],
        *,
        folder: str | os.PathLike | None = None,
        rows_a_call: int = 256,
    ):
        if rows_a_call < 1:
            raise ConfigError(f"rows_a_call: must be at least 1, got {rows_a_call}")
        self._compute, self._rows_a_call = compute, rows_a_call
        self._folder = None if folder is None else Path(folder)
        self._vectors = np.empty((n_rows, dim), np.float32)
        self._known = np.zeros(n_rows, bool)
        if self._folder is not None and self._folder.exists():
            for file in sorted(self._folder.glob("rows-*.npz")):
                rows, vectors = self._read(file)
                self._vectors[rows], self._known[rows] = vectors, True

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._vectors.shape[1]

    @property
    def n_known(self) -> int:
        """Rows that need no computing any more."""
        return int(self._known.sum())

    def ensure(
        self, wanted: Int64[np.ndarray, "row"], *, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Computes those of the given rows that are not known; `progress` gets (rows computed, rows to compute).

        Raises MethodError when `compute` returns another shape; StoreError when the folder cannot be written.
        """
        missing = np.unique(wanted[~self._known[wanted]])
        for start in range(0, len(missing), ROWS_A_FILE):
            self._fill(missing[start : start + ROWS_A_FILE], start, len(missing), progress)

    def rows(self, wanted: Int64[np.ndarray, "row"]) -> Float32[np.ndarray, "row D"]:
        """The vectors of the given rows, computed where they are not known."""
        self.ensure(wanted)
        return self._vectors[wanted]

    def _fill(self, rows, before: int, total: int, progress) -> None:
        done = 0
        try:
            for start in range(0, len(rows), self._rows_a_call):
                part = rows[start : start + self._rows_a_call]
                vectors = np.asarray(self._compute(part), np.float32)
                if vectors.shape != (len(part), self.dim):
                    raise MethodError(f"expected {(len(part), self.dim)} vectors, got {vectors.shape}")
                self._vectors[part], self._known[part] = vectors, True
                done = start + len(part)
                if progress is not None:
                    progress(before + done, total)
        finally:  # what an interrupted run has computed is worth keeping
            if done and self._folder is not None:
                self._write(rows[:done])

    def _write(self, rows: Int64[np.ndarray, "row"]) -> None:
        assert self._folder is not None
        name = hashlib.sha256(rows.tobytes()).hexdigest()[:16]
        with writing.file(self._folder / f"rows-{name}.npz") as partial:
            np.savez(partial, rows=rows, vectors=self._vectors[rows])

    def _read(self, file: Path):
        n_rows, dim = self._vectors.shape
        try:
            stored = npz.load(file)
            rows, vectors = stored["rows"], stored["vectors"]
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{file}: not readable as vectors ({error}); remove it") from None
        inside = rows.dtype == np.int64 and rows.ndim == 1 and bool(np.all((rows >= 0) & (rows < n_rows)))
        if not inside or vectors.shape != (len(rows), dim) or vectors.dtype != np.float32:
            raise StoreError(f"{file}: expected float32 vectors of {dim} for rows below {n_rows}; remove it")
        return rows, vectors
