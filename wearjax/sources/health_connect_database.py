"""Opens the database of a Health Connect export and reads its tables in batches of numbers."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from wearjax.errors import SourceError
from wearjax.sources import archive as archives

_MAGIC = b"SQLite format 3\0"
_BATCH = 50_000
_ACTIVITY = 1  # category in the table of the user's own order of apps
_APP_NAME = re.compile(r"[\w.]{1,100}", re.ASCII)
# Device types of the platform. Scales and displays measure neither steps nor hearts.
PHONE, WORN = {2}, {1, 4, 5, 6, 7}


class Database:
    """An opened export. Tables and columns are found whatever their case or underscores."""

    def __init__(self, name: str, connection: sqlite3.Connection):
        self.name = name
        self._connection = connection
        self._tables: dict[str, str] = {}
        # Views and virtual tables would run what the file says.
        for table, made in self._all("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
            if not str(made or "").lstrip().upper().startswith("CREATE VIRTUAL"):
                self._tables[_plain(table)] = table
        self._columns: dict[str, dict[str, str]] = {}

    def has(self, table: str) -> bool:
        return _plain(table) in self._tables

    def count(self, table: str) -> int:
        """Rows of a table; 0 where there is no such table."""
        if not self.has(table):
            return 0
        return int(self._all(f"SELECT COUNT(*) FROM {self._quoted(table)}")[0][0])

    def numbers(
        self, table: str, columns: Sequence[str], *, parent: tuple[str, Sequence[str]] | None = None
    ) -> Iterator[Float64[np.ndarray, "row column"]]:
        """Batches of columns as numbers; NaN where a column is absent, empty or text.

        Args:
            parent: a table that the column `parent_key` points to, and its columns, which follow the table's own.
        """
        if not self.has(table) or (parent and not self.has(parent[0])):
            return
        chosen = [self._number(table, column, "t") for column in columns]
        source = f"{self._quoted(table)} t"
        if parent:
            chosen += [self._number(parent[0], column, "p") for column in parent[1]]
            keys = self._named(table, "parent_key"), self._named(parent[0], "row_id")
            if None in keys:
                raise SourceError(f"{self.name}: {table} without parent_key, or {parent[0]} without row_id")
            source += f' JOIN {self._quoted(parent[0])} p ON p."{keys[1]}" = t."{keys[0]}"'
        with self._refusals():
            cursor = self._connection.execute(f"SELECT {', '.join(chosen)} FROM {source}")
            while rows := cursor.fetchmany(_BATCH):
                yield np.array(rows, np.float64)

    def texts(self, table: str, columns: Sequence[str]) -> list[tuple]:
        """All rows of a small table; None where a column is absent."""
        if not self.has(table):
            return []
        names = [self._named(table, column) for column in columns]
        chosen = ", ".join("NULL" if name is None else f'"{name}"' for name in names)
        return self._all(f"SELECT {chosen} FROM {self._quoted(table)}")

    def apps(self) -> dict[int, str]:
        """Package names by number; what is no package name is withheld."""
        found = {}
        for number, package in self.texts("application_info_table", ("row_id", "package_name")):
            known = isinstance(package, str) and _APP_NAME.fullmatch(package)
            if isinstance(number, int):
                found[number] = package if known else f"app {number}"
        return found

    def own_order(self) -> list[int]:
        """Numbers of apps in the order that the user set for activity, first the preferred; often empty."""
        table = "health_data_category_priority_table"
        for category, order in self.texts(table, ("health_data_category", "app_id_priority_order")):
            if category == _ACTIVITY and isinstance(order, str):
                return [int(part) for part in order.split(",") if part.strip().isdecimal()]
        return []

    def device_kinds(self) -> dict[int, str]:
        """`"phone"`, `"worn"`, `"unknown"` or `"other"` by number of a device."""
        kinds = {}
        for number, kind in self.texts("device_info_table", ("row_id", "device_type")):
            unknown = not isinstance(kind, int) or kind == 0
            if isinstance(number, int):
                kinds[number] = (
                    "unknown"
                    if unknown
                    else "phone"
                    if kind in PHONE
                    else "worn"
                    if kind in WORN
                    else "other"
                )
        return kinds

    def _number(self, table: str, column: str, alias: str) -> str:
        name = self._named(table, column)
        if name is None:
            return "NULL"
        cell = f'{alias}."{name}"'
        return f"CASE WHEN typeof({cell}) IN ('integer', 'real') THEN {cell} END"

    def _named(self, table: str, column: str) -> str | None:
        key = _plain(table)
        if key not in self._columns:
            listed = self._all(f"PRAGMA table_info({self._quoted(table)})")
            self._columns[key] = {_plain(row[1]): row[1] for row in listed if '"' not in row[1]}
        return self._columns[key].get(_plain(column))

    def _quoted(self, table: str) -> str:
        return '"' + self._tables[_plain(table)].replace('"', '""') + '"'

    def _all(self, query: str) -> list[tuple]:
        with self._refusals():
            return self._connection.execute(query).fetchall()

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise _damaged(self.name, error) from None


@contextlib.contextmanager
def open_database(path: str | os.PathLike) -> Iterator[Database]:
    """Opens an export: the zip, a folder with the database, or the database itself. A zip's is copied aside meanwhile.

    Raises:
        SourceError: nothing there, no database inside, a damaged, encrypted or unsafe archive.
    """
    path = Path(path)
    try:
        with contextlib.ExitStack() as stack:
            file, name = _file(path, stack)
            address = f"{file.resolve().as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(address, uri=True)
            stack.callback(connection.close)
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            yield Database(name, connection)
    except FileNotFoundError:
        raise SourceError(f"{path}: no such file or folder") from None
    except sqlite3.Error as error:
        raise _damaged(str(path), error) from None


def _file(path: Path, stack: contextlib.ExitStack) -> tuple[Path, str]:
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
        if head == _MAGIC:
            return path, str(path)
        if head[:2] != b"PK":
            raise SourceError(
                f"{path}: neither a zip nor a SQLite database" + ("" if head else " (it is empty)")
            )
    archive = stack.enter_context(archives.open_archive(path))
    found = [m for m in archive.members if m.name.lower().endswith((".db", ".sqlite"))]
    archive.check(found)
    if not found:
        raise SourceError(
            f"{path}: no database among its {len(archive.members)} files (health_connect_export.db)"
        )
    member = max(found, key=lambda m: m.size)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wearjax-")))
    archive.copy(member, folder / "export.db")
    with (folder / "export.db").open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise SourceError(f"{path}: {archives.shown(member.name)} is not a SQLite database")
    return folder / "export.db", f"{path} ({archives.shown(member.name)})"


def _damaged(name: str, error: Exception) -> archives.DamagedError:
    # What SQLite says may quote the file, in bytes that are no text.
    said = "" if isinstance(error, UnicodeDecodeError) else f" ({' '.join(str(error).split())[:120]})"
    return archives.DamagedError(f"{name}: the database is damaged{said}")


def _plain(name: str) -> str:
    return str(name).replace("_", "").lower()
