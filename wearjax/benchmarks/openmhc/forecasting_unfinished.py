"""What an interrupted forecasting evaluation leaves behind: the sums of whole participants, method by method.

A folder beside where the results will stand: `key.json` names the settings and the data, `scale/` and two folders a
method (errors, example windows) hold parts, each a Parquet file of the participants that were new when it was
written. All of it vanishes when the results are written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wearjax import json_text, writing
from wearjax.benchmarks import result_files
from wearjax.errors import ConfigError

FOLDER = "unfinished"
SCALE, GALLERY = "\0scale", "\0gallery "  # no method is called so, or begins so
SECONDS = 60.0  # between writes, and more where writing takes long
_SHARE = 0.05  # of the time, that writing may take
_NOTE = b"wearjax"


class Unfinished:
    """The parts of one evaluation.

    Args:
        out: run folder of the evaluation.
        key: what its numbers depend on, but for the methods.

    Raises:
        ConfigError: the folder holds an unfinished evaluation of another key.
    """

    def __init__(self, out: Path, key: Mapping[str, Any]):
        self.folder = out / FOLDER
        self._key, self._wanted = self.folder / "key.json", result_files.plain(dict(key))
        self._last, self._took = time.monotonic(), 0.0
        if self._key.exists():
            _check(_read_json(self._key), self._wanted, self.folder)

    def is_due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._last > max(SECONDS, self._took / _SHARE)

    def write(self, name: str, table: pa.Table, note: Mapping[str, Any]) -> None:
        """Adds a part; it appears whole or not at all.

        Args:
            name: of a method, `SCALE`, or `GALLERY` and a method.
            note: plain values, kept beside the table.
        """
        start = time.monotonic()
        folder = self._folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not self._key.exists():
            result_files.write_json(self._key, self._wanted)
        file = folder / f"part-{len(list(folder.glob('part-*.parquet'))):05d}.parquet"
        noted = table.replace_schema_metadata({_NOTE: json.dumps(result_files.plain(dict(note))).encode()})
        with writing.file(file) as partial:
            pq.write_table(noted, partial, compression="zstd")
        self._last = time.monotonic()
        self._took = self._last - start

    def parts(self, name: str) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
        """Tables and notes in the order written.

        Raises:
            ConfigError: a file that is not readable.
        """
        for file in sorted(self._folder(name).glob("part-*.parquet")):
            try:
                table = pq.read_table(file)
                note = json_text.loads((table.schema.metadata or {})[_NOTE])
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                told = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise ConfigError(f"{file}: not readable ({told}); pass --force to start over") from None
            yield table, note

    def check_method(self, method: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raises ConfigError where parts of a method were made with other settings of it."""
        _check(was, now, self.folder, method=method)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self.folder / ("scale" if name == SCALE else hashlib.sha256(name.encode()).hexdigest()[:16])


def _read_json(file: Path) -> Any:
    try:
        return json_text.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: not readable ({error}); pass --force to start over") from None


def _check(found: Any, wanted: Mapping[str, Any], folder: Path, *, method: str | None = None) -> None:
    """Names the first setting that is another."""
    if found == wanted:
        return
    was = found if isinstance(found, dict) else {}
    key = next(k for k in (*wanted, *was) if was.get(k) != wanted.get(k))
    what = "an unfinished evaluation" if method is None else f"unfinished forecasts of {method!r}"
    raise ConfigError(
        f"{folder}: holds {what} with another {key} ({was.get(key)}, now {wanted.get(key)}); "
        "pass force=True (--force) to start over, or choose another folder"
    )
