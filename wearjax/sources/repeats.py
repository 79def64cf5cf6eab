"""Finds exact repeats among millions of samples in bounded memory."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, UInt64

REMEMBERED_MAX = 1 << 24


class Repeats:
    """Remembers 64-bit digests of samples, 8 bytes each, in sorted runs whose sizes double.

    Two different samples share a digest with a chance of about n²/2⁶⁵ (one in a million for six million).
    Beyond `remembered_max` samples (128 MB; a 7 GB export) the oldest run is forgotten and counted.
    """

    def __init__(self, *, remembered_max: int = REMEMBERED_MAX):
        self._runs: list[np.ndarray] = []
        self._max = remembered_max
        self.forgotten = 0

    def seen(self, *columns: np.ndarray) -> Bool[np.ndarray, "sample"]:
        """True where all columns equal those of an earlier sample, here or in a former call."""
        keys = digest(*columns)
        order = np.argsort(keys, kind="stable")
        ranked = keys[order]
        again = np.zeros(len(keys), bool)
        again[order[1:]] = ranked[1:] == ranked[:-1]  # stable: the first of a group keeps False
        for run in self._runs:
            place = np.searchsorted(run, keys)
            again |= run[np.minimum(place, len(run) - 1)] == keys
        self._keep(np.sort(keys[~again]))
        return again

    def _keep(self, run: UInt64[np.ndarray, "new"]) -> None:
        if not len(run):
            return
        self._runs.append(run)
        while len(self._runs) > 1 and len(self._runs[-2]) <= min(2 * len(run), self._max // 2 - len(run)):
            last = self._runs.pop()
            merged = np.concatenate((self._runs.pop(), last))
            merged.sort(kind="stable")  # two sorted stretches: linear
            run = merged
            self._runs.append(run)
        while len(self._runs) > 1 and sum(map(len, self._runs)) > self._max:
            self.forgotten += len(self._runs.pop(0))


def digest(*columns: np.ndarray) -> UInt64[np.ndarray, "sample"]:
    """64-bit digest of each row by SplitMix64 mixing; columns are integers or float64, compared by bits."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        bits = np.ascontiguousarray(column)
        bits = bits.view(np.uint64) if bits.dtype.itemsize == 8 else bits.astype(np.int64).view(np.uint64)
        mixed = mixed + bits + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return mixed
