"""Batches as a Grain data source: element `step` is a whole batch, read in one call.

Asking for whole batches keeps Python out of the per-day path: the permutation is a NumPy gather and the
values are copied once, from the memory map into the batch. No JAX here, so that reading processes never touch
a device.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from jaxtyping import Int64

from wearjax.errors import ConfigError

Batch = dict[str, np.ndarray]


class EpochOrder:
    """An endless, index-addressed shuffle: epoch e visits every item once in the order drawn from (seed, e).

    Position p belongs to epoch p // n. Any range of positions can be asked for at any time.

    Args:
        groups: a whole number from 0 on for each item; those of a group stay together, groups and the items of each
            in random order.
    """

    def __init__(self, n: int, *, seed: int, groups: Int64[np.ndarray, "n"] | None = None):
        if n < 1:
            raise ConfigError("no example to draw batches from")
        self.n, self.seed, self._groups = n, seed, groups
        self._kept: dict[int, np.ndarray] = {}

    def _epoch(self, epoch: int) -> np.ndarray:
        if epoch not in self._kept:
            rng = np.random.default_rng([self.seed, epoch])
            order = rng.permutation(self.n)
            if self._groups is not None:
                place = rng.permutation(int(self._groups.max()) + 1)
                order = order[np.argsort(place[self._groups[order]], kind="stable")]
            # A batch touches neighbouring epochs only; more would be memory for nothing.
            self._kept = {e: o for e, o in self._kept.items() if e == epoch - 1} | {epoch: order}
        return self._kept[epoch]

    def positions(self, start: int, stop: int) -> Int64[np.ndarray, "count"]:
        """Items at the positions start..stop-1 of the endless order."""
        parts = []
        while start < stop:
            epoch, offset = divmod(start, self.n)
            part = self._epoch(epoch)[offset : offset + stop - start]
            parts.append(part)
            start += len(part)
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def __getstate__(self):
        return {"n": self.n, "seed": self.seed, "_groups": self._groups, "_kept": {}}


class Examples(Protocol):
    """What batches are drawn from. Picklable, and without JAX: reading processes hold a copy."""

    def __len__(self) -> int: ...

    def read(self, items: Int64[np.ndarray, "B"], positions: Int64[np.ndarray, "B"]) -> Batch:
        """A batch of the given examples.

        Args:
            positions: place of each in the endless order, so different every time an example comes up; what is
                random about an example may depend on it and on a seed only.
        """
        ...


class ShuffledBatches:
    """Random-access Grain source of shuffled batches of fixed size.

    Element s holds positions s·B .. (s+1)·B − 1 of the endless order, hence depends on (seed, s, B) only.
    With several processes each takes its contiguous rows, so that the global batch is the same for any
    process count.

    Args:
        batch_size: examples of the global batch.
        n_batches: number of batches until the source ends.
        groups: of each example; those of a group stay together in the order.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        n_batches: int,
        seed: int,
        groups: Int64[np.ndarray, "n"] | None = None,
        process_index: int = 0,
        process_count: int = 1,
    ):
        if batch_size % process_count:
            raise ConfigError(f"batch size {batch_size} does not divide by the {process_count} processes")
        self._examples = examples
        self._order = EpochOrder(len(examples), seed=seed, groups=groups)
        self._batch_size, self._n_batches = batch_size, n_batches
        self._local = batch_size // process_count
        self._first_row = process_index * self._local

    def __len__(self) -> int:
        return self._n_batches

    def __getitem__(self, step: int) -> Batch:
        start = int(step) * self._batch_size + self._first_row
        positions = np.arange(start, start + self._local)
        return self._examples.read(self._order.positions(start, start + self._local), positions)

    def __repr__(self) -> str:
        return f"ShuffledBatches({self._examples!r}, batch={self._batch_size})"
