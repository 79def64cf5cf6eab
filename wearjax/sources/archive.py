"""Opens an archive that people download (a zip or its unpacked folder) and refuses what no honest one holds.

Nothing is unpacked by the names inside: members are read by the names that a reader looks for, one at a time.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wearjax.errors import SourceError

RATIO_MAX = 250  # health exports deflate 5 to 40 times
RATIO_CHECKED_FROM = 64 << 20
FILES_MAX = 200_000
FILE_BYTES_MAX = 256 << 20  # of a file that is read into memory whole; real ones stay below 10 MB
# What reading a damaged member raises, its header with a name in no text encoding or of another compression included.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile, struct.error, UnicodeDecodeError,
)  # fmt: skip
_NESTED = (".zip", ".tgz", ".tar", ".gz", ".7z", ".rar")
_CHUNK_BYTES = 1 << 20


class DamagedError(SourceError):
    """The file breaks off or is corrupt; what came before the break was readable."""


@dataclass(frozen=True)
class Member:
    """A file of an archive.

    Attributes:
        name: its path inside the archive, with slashes.
        size: bytes once unpacked.
    """

    name: str
    size: int
    _where: zipfile.ZipInfo | Path = field(repr=False)

    @property
    def base(self) -> str:
        return self.name.rsplit("/", 1)[-1]


class Archive:
    """An opened archive; use `open_archive`."""

    def __init__(self, path: Path, members: list[Member], zipped: zipfile.ZipFile | None):
        self.path = path
        self.members = members
        self._zip = zipped

    def check(self, wanted: list[Member]) -> None:
        """Refuses, before anything is read, a zip whose wanted members are encrypted or unpack past belief.

        Raises SourceError; also where nothing is wanted but the archive holds another archive.
        """
        if not wanted:
            nested = [m for m in self.members if m.name.lower().endswith(_NESTED)]
            if nested and isinstance(where := nested[0]._where, Path):
                raise SourceError(f"{self.path}: nothing readable in the folder but an archive; give {where}")
            if nested:
                raise SourceError(
                    f"{self.path}: holds another archive ({shown(nested[0].base)}) and nothing readable beside it; "
                    "unpack it and give what is inside"
                )
        if self._zip is None:
            return
        packed = 0
        for member in wanted:
            info = member._where
            assert isinstance(info, zipfile.ZipInfo)
            if info.flag_bits & 1:
                raise SourceError(f"{self.path}: the zip is encrypted; give it unencrypted")
            refuse_bomb(f"{self.path} ({shown(member.name)})", info.file_size, info.compress_size)
            packed += info.compress_size
        # Members may share their packed bytes: what they unpack to is also held against the file itself.
        refuse_bomb(str(self.path), sum(m.size for m in wanted), min(packed, self.path.stat().st_size))

    def read(self, member: Member) -> bytes:
        """The whole member. Raises SourceError where it is too large for one, DamagedError where it is corrupt."""
        if member.size > FILE_BYTES_MAX:
            raise SourceError(
                f"{self.path}: {shown(member.name)} has {member.size >> 20:,} MB, no such file of an export has "
                f"more than {FILE_BYTES_MAX >> 20}; refused"
            )
        with self._open(member) as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) != member.size:
            raise DamagedError(f"{self.path} ({shown(member.name)}): the file is cut short or changing")
        return data

    def copy(self, member: Member, target: Path) -> None:
        """Writes the member to the file `target`, for readers that need a file. Raises as `read`."""
        free = shutil.disk_usage(target.parent).free
        if member.size > free:
            raise SourceError(
                f"{self.path}: {shown(member.name)} needs {member.size >> 20:,} MB in {target.parent}, "
                f"{free >> 20:,} are free"
            )
        written = 0
        with self._open(member) as stream, target.open("wb") as out:
            while chunk := stream.read(_CHUNK_BYTES):
                written += out.write(chunk)
        if written != member.size:
            raise DamagedError(f"{self.path} ({shown(member.name)}): the file is cut short or changing")

    @contextlib.contextmanager
    def _open(self, member: Member) -> Iterator:
        name = f"{self.path} ({shown(member.name)})"
        try:
            with contextlib.ExitStack() as stack:
                if self._zip is None:
                    assert isinstance(member._where, Path)
                    yield stack.enter_context(member._where.open("rb"))
                else:
                    assert isinstance(member._where, zipfile.ZipInfo)
                    yield stack.enter_context(self._zip.open(member._where))
        except NotImplementedError:
            raise SourceError(f"{name}: a compression that cannot be read; pack it again") from None
        except RuntimeError:  # zipfile's word for a password
            raise SourceError(f"{self.path}: the zip is encrypted; give it unencrypted") from None
        except DAMAGE:
            raise DamagedError(f"{name}: the compressed data is cut short or corrupt") from None


@contextlib.contextmanager
def open_archive(path: str | os.PathLike) -> Iterator[Archive]:
    """Opens a zip or a folder; links, `__MACOSX` and other systems' leavings are not among the members.

    Raises:
        SourceError: nothing there, empty, not a zip, too many files, or member names that point outside.
    """
    path = Path(path)
    try:
        if path.is_dir():
            yield Archive(path, _files_in(path), None)
            return
        if not path.stat().st_size:
            raise SourceError(f"{path}: the file is empty; export or copy it again")
        with _opened_zip(path) as zipped:
            yield Archive(path, _members_of(path, zipped), zipped)
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None


def _opened_zip(path: Path) -> zipfile.ZipFile:
    with path.open("rb") as file:
        if not file.read(2) == b"PK":
            raise SourceError(f"{path}: neither a zip nor a folder")
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        raise SourceError(
            f"{path}: the zip is cut short or corrupt (no readable directory); copy it again"
        ) from None


def _members_of(path: Path, zipped: zipfile.ZipFile) -> list[Member]:
    infos = zipped.infolist()
    _few(path, len(infos))
    found = []
    for info in infos:
        if is_unsafe(info.filename):
            raise SourceError(f"{path}: unsafe member name {shown(info.filename)} in the zip; refused")
        if not info.is_dir() and _is_kept(info.filename):
            found.append(Member(info.filename.replace("\\", "/"), info.file_size, info))
    if not found:
        raise SourceError(f"{path}: the zip holds no files; export it again")
    return sorted(found, key=lambda m: m.name)


def _files_in(folder: Path) -> list[Member]:
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(folders)
        for name in names:
            file = Path(place, name)
            relative = file.relative_to(folder).as_posix()
            if _is_kept(relative) and file.is_file() and not file.is_symlink():
                found.append(Member(relative, file.stat().st_size, file))
        _few(folder, len(found))
    return sorted(found, key=lambda m: m.name)


def _few(path: Path, count: int) -> None:
    if count > FILES_MAX:
        raise SourceError(f"{path}: {count:,} files; no export has more than {FILES_MAX:,}; refused")


def _is_kept(name: str) -> bool:
    parts = re.split(r"[/\\]", name)
    return "__MACOSX" not in parts and not parts[-1].startswith("._")


def is_unsafe(name: str) -> bool:
    """Whether a member's name is none, or would lead out of a folder it is unpacked in."""
    parts = re.split(r"[/\\]", name)
    return (
        not name
        or ".." in parts
        or name.startswith(("/", "\\"))
        or re.match(r"[A-Za-z]:", name) is not None
        or "\0" in name
    )


def refuse_bomb(name: str, unpacked: int, packed: int) -> None:
    """Raises SourceError where a large file unpacks to more than `RATIO_MAX` times its size."""
    if unpacked > RATIO_CHECKED_FROM and unpacked > RATIO_MAX * max(packed, 1):
        raise SourceError(
            f"{name}: unpacks to {unpacked // max(packed, 1)} times its size, no health export does "
            f"(limit {RATIO_MAX}); refused"
        )


def shown(name: str) -> str:
    """A member's name for a message."""
    return repr(name if len(name) <= 60 else name[:57] + "...")
