"""Writes files and folders that appear whole or not at all: beside their place, then renamed into it.

What a killed process left beside a place is taken away by the next one that writes there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
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
def folder(
    path: str | os.PathLike, *, replace: bool = True, error: type[WearjaxError] = StoreError
) -> Iterator[Path]:
    """An empty folder to fill; it takes the place of `path` when the block ends without an error.

    What stands at `path` stays until the new folder is whole. Raises `error` naming `path` where the folder cannot be
    made or renamed, or where another one is being written there; `told` does the same for what is written into it.

    Args:
        replace: False raises `error` at the end, too, if `path` is there by then.
    """
    path = Path(path)
    partial = _beside(path)
    with told(path, error=error):
        _clear_left(path)
        for other in _left(path):
            with alone(other, path, error=error):
                pass  # what a killed process left, or nobody can tell
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    try:
        with alone(partial, path, error=error):
            yield partial
            with told(path, error=error):
                _put(partial, path, replace=replace, error=error)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def alone(folder: Path, path: str | os.PathLike, *, error: type[WearjaxError] = StoreError) -> Iterator[None]:
    """Holds a folder in which `path` is being written; the lock ends with the block, or with the process.

    Raises `error` where it is held already. A file system without locks keeps nobody out.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # gone meanwhile, or another user's
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error(
                f"{path} is being written by another process; wait for it, or name another place"
            ) from None
        except OSError:
            pass
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also of forked processes that still hold it
        os.close(descriptor)


def _put(folder: Path, path: Path, *, replace: bool, error: type[WearjaxError]) -> None:
    """Renames a finished folder to `path`, in place of what is there.

    The old one is moved aside first: a process killed here leaves the old folder, the new one, or (between two
    renames) none, never a part of one.
    """
    if not path.exists() or not replace:
        try:
            folder.rename(path)
        except OSError as found:
            if found.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise error(f"{path} was written by another process meanwhile; it stays as it is") from None
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
    for left in _left(path):
        found = _LEFT.search(left.name)
        assert found is not None
        host, process, _ = found.groups()
        if host == _HOST and not _lives(int(process)):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def _left(path: Path) -> list[Path]:
    """What processes of any machine have begun, or left, beside `path`."""
    start = f".{path.name}.partial-"
    if not path.parent.is_dir():
        return []
    return [
        left
        for left in path.parent.iterdir()
        if left.name.startswith(start) and _LEFT.fullmatch(left.name[len(start) - len(".partial-") :])
    ]


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
