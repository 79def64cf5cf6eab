"""What every reader of recordings has in common when the machine gives no bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from wearjax.errors import SourceError

T = TypeVar("T")


@contextlib.contextmanager
def from_disk(path: Path) -> Iterator[None]:
    """Raises SourceError where the system refuses a file: no right to read it, a link to itself, a broken disk."""
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else path
        raise SourceError(f"{name}: cannot be read: {error.strerror or error}") from None


def each(path: Path, items: Iterable[T]) -> Iterator[T]:
    """Yields what a reader of `path` yields, under `from_disk`."""
    with from_disk(path):
        found = iter(items)
    while True:
        with from_disk(path):
            try:
                item = next(found)
            except StopIteration:
                return
        yield item
