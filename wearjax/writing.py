"""Writes files and folders that appear whole or not at all: beside their place, then renamed into it.

What a killed process left beside a place is taken away by the next one that writes there.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from wearjax.errors import StoreError, WearjaxError

_HOST = re.sub(r"\W", "", platform.node())[:40] or "host"
_LEFT = re.compile(r"\.partial-(\w+)-(\d+)(\.\w+)?$")


@contextlib.contextmanager
def file(path: str | os.PathLike, *, error: type[WearjaxError] = StoreError) -> Iterator[Path]:
    """A file to write, with the suffix of `path`; it takes the name `path` when the block ends without an error.

    The folder of `path` is made. Raises `error` naming `path` where it cannot be written.
    """
    path = Path(path)
    partial = _beside(path, path.suffix)
    made = [parent for parent in path.parents if not parent.exists()]
    with told(path, error=error):
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_left(path)
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
            _remove_empty(made)


@contextlib.contextmanager
def folder(path: str | os.PathLike, *, error: type[WearjaxError] = StoreError) -> Iterator[Path]:
    """An empty folder to fill; it takes the place of `path` when the block ends without an error.

    What stands at `path` stays until the new folder is whole. Raises `error` naming `path` where the folder cannot be
    made or renamed; `told` does the same for what is written into it.
    """
    path = Path(path)
    partial = _beside(path)
    with told(path, error=error):
        _clear_left(path)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    try:
        yield partial
        with told(path, error=error):
            _put(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _put(folder: Path, path: Path) -> None:
    """Renames a finished folder to `path`, in place of what is there.

    The old one is moved aside first: a process killed here leaves the old folder, the new one, or (between two
    renames) none, never a part of one.
    """
    if not path.exists():
        folder.rename(path)
        return
    old = _beside(path, ".old")
    shutil.rmtree(old, ignore_errors=True)
    path.rename(old)
    folder.rename(path)
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def told(path: str | os.PathLike, *, error: type[WearjaxError] = StoreError) -> Iterator[None]:
    """Raises `error` naming the file instead of an OSError without a line for people (disk full, not allowed, …)."""
    try:
        yield
    except OSError as found:
        # NumPy says only how much of an array it could write.
        reason = found.strerror or f"{found}; is the disk full?"
        named = found.filename if isinstance(found.filename, str) else None
        where = f" ({named})" if named and Path(named).name != Path(path).name else ""
        raise error(f"{path}: cannot be written: {reason}{where}") from found


def _beside(path: Path, suffix: str = "") -> Path:
    return path.with_name(f".{path.name}.partial-{_HOST}-{os.getpid()}{suffix}")


def _clear_left(path: Path) -> None:
    """Removes what processes of this machine that are no more left beside `path`."""
    start = f".{path.name}.partial-"
    for left in path.parent.iterdir() if path.parent.is_dir() else ():
        if left.name.startswith(start) and (
            found := _LEFT.search(left.name[len(start) - len(".partial-") :])
        ):
            host, process, _ = found.groups()
            if host == _HOST and not _lives(int(process)):
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def _remove_empty(folders: list[Path]) -> None:
    """Folders that were made for a file that did not come, the inner one first."""
    for made in folders:
        try:
            made.rmdir()
        except OSError:
            return


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # another user's
    return True
