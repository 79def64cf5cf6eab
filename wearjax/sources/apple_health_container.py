"""Opens what people have of an Apple Health export: the zip, its folder, the bare XML or a gzip of it.

The main document is found by its first kilobytes, since its name follows the phone's language. Nothing is
unpacked to disk; a container that lies about itself is refused with one line.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from wearjax.errors import SourceError
from wearjax.sources import archive as archives
from wearjax.sources.archive import DamagedError
from wearjax.sources.tally import Tally

_SNIFFED_BYTES = 16 << 10
_CHUNK_BYTES = 256 << 10
_ROOT = re.compile(rb"<!DOCTYPE\s+HealthData[\s\[>]|<HealthData[\s/>]")


@dataclass(frozen=True)
class Export:
    """An opened export.

    Attributes:
        name: the file, and the member in it, for messages.
        chunks: the XML's bytes; raises DamagedError at a break in the container.
        done: how much was read so far, in the unit of `total`.
        total: bytes of XML, or of the compressed file for a gzip.
    """

    name: str
    chunks: Iterator[bytes]
    done: Callable[[], int]
    total: int


@contextlib.contextmanager
def open_export(path: str | os.PathLike, *, tally: Tally) -> Iterator[Export]:
    """Finds and opens the HealthData document under `path`.

    Raises:
        SourceError: nothing there, empty, encrypted, unsafe member names, or no HealthData document inside.
    """
    path = Path(path)
    try:
        with contextlib.ExitStack() as stack:
            yield _open(path, stack, tally)
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None


def _open(path: Path, stack: contextlib.ExitStack, tally: Tally) -> Export:
    if path.is_dir():
        path = _document_in(path, tally)
    size = path.stat().st_size
    if not size:
        raise SourceError(f"{path}: the file is empty; export or copy it again")
    file = stack.enter_context(path.open("rb"))
    head = file.read(_SNIFFED_BYTES)
    file.seek(0)
    if head.startswith(b"PK"):
        return _open_zip(path, stack, tally)
    if head.startswith(b"\x1f\x8b"):
        unpacked = stack.enter_context(gzip.GzipFile(fileobj=file))
        with _damage_named(path):
            if not _ROOT.search(unpacked.read(_SNIFFED_BYTES)):
                raise SourceError(f"{path}: the gzip holds no HealthData document")
            unpacked.seek(0)
        return Export(str(path), _read(unpacked.read, str(path), file.tell), file.tell, size)
    if not _ROOT.search(head):
        raise SourceError(
            f"{path}: not an Apple Health export (zip, folder, XML or gzip with a HealthData document)"
        )
    return Export(str(path), _read(file.read, str(path), file.tell), file.tell, size)


def _document_in(folder: Path, tally: Tally) -> Path:
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != "__MACOSX")
        for name in names:
            file = Path(place, name)
            if file.is_file() and not file.is_symlink():
                with file.open("rb") as stream:
                    if _ROOT.search(stream.read(_SNIFFED_BYTES)):
                        found.append(file)
    if not found:
        zips = sorted(file for file in folder.glob("*.zip") if file.is_file())
        give = (
            f"it holds {zips[0].name}: give {zips[0]}" if zips else "give export.zip or the unpacked export"
        )
        raise SourceError(f"{folder}: no HealthData document in the folder ({give})")
    return _largest(found, lambda file: file.stat().st_size, tally)


def _open_zip(path: Path, stack: contextlib.ExitStack, tally: Tally) -> Export:
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        raise SourceError(
            f"{path}: the zip is cut short or corrupt (no readable directory); copy it again"
        ) from None
    for member in archive.infolist():
        if archives.is_unsafe(member.filename):
            raise SourceError(
                f"{path}: unsafe member name {archives.shown(member.filename)} in the zip; refused"
            )
    members = [m for m in archive.infolist() if not m.is_dir()]
    if not members:
        raise SourceError(f"{path}: the zip holds no files; export it again")
    found = [m for m in members if "__MACOSX" not in m.filename.split("/") and _is_document(archive, m, path)]
    if not found:
        raise SourceError(f"{path}: no HealthData document among the zip's {len(members)} files")
    member = _largest(found, lambda m: m.file_size, tally)
    archives.refuse_bomb(str(path), member.file_size, member.compress_size)
    name = f"{path} ({archives.shown(member.filename)})"
    stream = stack.enter_context(archive.open(member))
    return Export(name, _read(stream.read, name, None), stream.tell, member.file_size)


def _is_document(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bool:
    if member.flag_bits & 1:
        raise SourceError(f"{path}: the zip is encrypted; give it unencrypted")
    if not member.file_size:
        return False
    try:
        with archive.open(member) as stream:
            return _ROOT.search(stream.read(_SNIFFED_BYTES)) is not None
    except NotImplementedError:
        raise SourceError(f"{path}: the zip uses a compression that cannot be read; pack it again") from None
    except archives.DAMAGE:
        if member.filename.lower().endswith(".xml"):
            raise SourceError(
                f"{path}: the zip is corrupt ({archives.shown(member.filename)} does not unpack)"
            ) from None
        return False  # a damaged route or picture is not what is sought


def _largest(found: list, size: Callable, tally: Tally):
    if len(found) > 1:
        tally.note(f"{len(found)} HealthData documents found; the largest was read")
    return max(found, key=size)


def _read(read: Callable[[int], bytes], name: str, packed: Callable[[], int] | None) -> Iterator[bytes]:
    """Chunks as `read` gives them; `packed` (compressed bytes so far) guards where no size is declared."""
    unpacked = 0
    with _damage_named(name):
        while chunk := read(_CHUNK_BYTES):
            unpacked += len(chunk)
            if packed:
                archives.refuse_bomb(name, unpacked, packed())
            yield chunk


@contextlib.contextmanager
def _damage_named(name: object) -> Iterator[None]:
    try:
        yield
    except archives.DAMAGE:
        raise DamagedError(f"{name}: the compressed data is cut short or corrupt") from None
