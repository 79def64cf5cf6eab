"""Calls of a compiled function with batches of one size, so that it compiles once; NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from wearjax.errors import MethodError

Item = TypeVar("Item")


def in_batches(
    function: Callable[..., Any],
    items: Sequence[Item],
    read: Callable[[Item], tuple[np.ndarray, ...]],
    *,
    padding: tuple[np.ndarray, ...],
    batch_size: int,
) -> Iterator[tuple[Item, np.ndarray]]:
    """Each item with its row of the function's answer; only one batch is held at a time.

    Args:
        function: takes arrays (batch_size, ...) and returns one.
        read: the inputs of an item, shaped as `padding`.
        padding: the inputs of a row that fills up the last batch.
    """
    if batch_size < 1:
        raise MethodError(f"batch_size: must be at least 1, got {batch_size}")
    for start in range(0, len(items), batch_size):
        part = items[start : start + batch_size]
        inputs = tuple(np.repeat(row[None], batch_size, axis=0) for row in padding)
        for place, item in enumerate(part):
            for batch, row in zip(inputs, read(item), strict=True):
                batch[place] = row
        answers = np.asarray(function(*inputs))
        yield from zip(part, answers, strict=False)


def rows(
    function: Callable[..., Any], values: np.ndarray, *, out: np.ndarray, fill: float, batch_size: int
) -> np.ndarray:
    """The answers for all rows of an array, written into `out`."""
    found = in_batches(
        function, range(len(values)), lambda row: (values[row],),
        padding=(np.full(values.shape[1:], fill, np.float32),), batch_size=batch_size,
    )  # fmt: skip
    for row, answer in found:
        out[row] = answer
    return out


def vectors(
    function: Callable[..., Any], values: np.ndarray, *, wanted: tuple[int, int], size: int, batch_size: int
) -> np.ndarray:
    """One float32 vector of a size an example, from arrays with NaN where nothing was measured.

    Args:
        wanted: the shape of an example.

    Raises:
        MethodError: another shape.
    """
    if values.ndim != 3 or values.shape[1:] != wanted:
        raise MethodError(f"embed: expected (example, {wanted[0]}, {wanted[1]}) values, got {values.shape}")
    out = np.empty((len(values), size), np.float32)
    return rows(function, values, out=out, fill=np.nan, batch_size=batch_size)
