"""Iterating batches with Grain: read ahead in a thread or in processes, start at any step."""

from __future__ import annotations

from collections.abc import Iterator

import grain
import numpy as np
from jaxtyping import Int64

from wearjax.batches import source
from wearjax.batches.source import Batch


class Loader:
    """Iterator over `ShuffledBatches` from a given step; close it (or use `with`) to end its threads.

    The batch of a step depends on nothing but the seed, the batch size and the step: not on workers,
    read-ahead or where iteration began. So the position to save is one number, step × batch size.

    Args:
        start: step of the first batch.
        workers: reading processes; 0 reads in a thread, which is enough for a memory-mapped store. A script
            that uses processes needs the `if __name__ == "__main__"` guard, since workers import it.
        read_ahead: batches kept ready (per reading process).
    """

    def __init__(
        self, batches: source.ShuffledBatches, *, start: int = 0, workers: int = 0, read_ahead: int = 2
    ):
        dataset = grain.MapDataset.source(batches)[start:]
        threaded = grain.ReadOptions(num_threads=1, prefetch_buffer_size=read_ahead)
        if workers:
            _parse_absl_flags()
            iterable = dataset.to_iter_dataset(
                grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
            ).mp_prefetch(
                grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=read_ahead)
            )
        else:
            iterable = dataset.to_iter_dataset(threaded)
        self._iterator: Iterator[Batch] = iter(iterable)
        self._shared_memory = workers > 0

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = next(self._iterator)
        if not self._shared_memory:
            return batch
        # Grain frees shared memory with its array object, and JAX may alias what it is given.
        return {name: np.array(rows) for name, rows in batch.items()}

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Ends reading threads and processes."""
        iterator, self._iterator = self._iterator, iter(())
        if hasattr(iterator, "close"):  # a closed loader holds a plain, empty iterator
            iterator.close()


def fixed_subset(
    indices: Int64[np.ndarray, "example"], *, size: int, seed: int
) -> Int64[np.ndarray, "chosen"]:
    """The same `size` of the given examples for a seed, in their order; all of them when there are fewer."""
    if size >= len(indices):
        return np.asarray(indices, np.int64)
    chosen = np.random.default_rng(seed).choice(len(indices), size=size, replace=False)
    return np.asarray(indices, np.int64)[np.sort(chosen)]


def in_order(
    examples: source.Examples,
    items: Int64[np.ndarray, "example"],
    *,
    batch_size: int,
    process_index: int = 0,
    process_count: int = 1,
) -> Iterator[Batch]:
    """Whole batches in the given order; a last, shorter batch is left out to keep shapes fixed."""
    local = batch_size // process_count
    for start in range(0, len(items) - batch_size + 1, batch_size):
        first = start + process_index * local
        yield examples.read(items[first : first + local], np.arange(first, first + local))


def _parse_absl_flags() -> None:
    # Grain's workers read absl flags, which only an absl main() would have parsed.
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
