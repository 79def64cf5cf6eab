"""What an evaluation keeps of each method in its run folder: read again, nothing has to be asked a second time.

A folder beside the results: `key.json` names the settings and the data, one or more files a method hold what is
complete of it. They are written now and then, at the end and at Ctrl-C; the same call goes on from them, and once
everything is there it only makes the scores anew.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wearjax import json_text
from wearjax.benchmarks import result_files
from wearjax.errors import ConfigError

FOLDER = "parts"
RESULTS = "results.json"
SECONDS = 60.0  # between writes, and more where writing takes long
_SHARE = 0.05  # of the time, that writing may take


class Parts:
    """The parts of one evaluation; a track says what they hold.

    Args:
        out: run folder of the evaluation.
        key: what its numbers depend on, but for the methods.

    Raises:
        ConfigError: the folder holds an evaluation of another key, or results whose parts are not there.
    """

    def __init__(self, out: Path, key: Mapping[str, Any]):
        self.folder = out / FOLDER
        self._key, self._wanted = self.folder / "key.json", result_files.plain(dict(key))
        self._last, self._took = time.monotonic(), 0.0
        self._what = "a finished evaluation" if (out / RESULTS).exists() else "an unfinished evaluation"
        if self._key.exists():
            self._check(_read(self._key), self._wanted, self._what)
        else:
            check_free(out)

    def is_due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._last > max(SECONDS, self._took / _SHARE)

    def _begin(self) -> float:
        """Before a write: the key comes first. Returns when it began."""
        start = time.monotonic()
        if not self._key.exists():
            result_files.write_json(self._key, self._wanted)
        return start

    def _end(self, start: float) -> None:
        """After a write that began at `start`."""
        self._last = time.monotonic()
        self._took = self._last - start

    def check_method(self, method: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raises ConfigError where parts of a method were made with other settings of it."""
        self._check(was, now, f"answers of {method!r}")

    def _check(self, found: Any, wanted: Mapping[str, Any], what: str) -> None:
        """Names the first setting that is another."""
        if found == wanted:
            return
        was = found if isinstance(found, dict) else {}
        key = next(k for k in (*wanted, *was) if was.get(k) != wanted.get(k))
        raise ConfigError(
            f"{self.folder}: holds {what} with another {key} ({was.get(key)}, now {wanted.get(key)}); "
            "pass force=True (--force) to start over, or choose another folder"
        )

    @staticmethod
    def _name(method: str) -> str:
        """Of its files, whatever characters it has."""
        return hashlib.sha256(method.encode()).hexdigest()[:16]


def check_free(out: Path) -> None:
    """Raises ConfigError where results stand that cannot be read again."""
    if (out / RESULTS).exists() and not (out / FOLDER / "key.json").exists():
        raise ConfigError(f"{out} already holds results; pass force=True (--force) to replace them")


def clear(out: Path) -> None:
    """Removes what an earlier evaluation left in a folder."""
    (out / RESULTS).unlink(missing_ok=True)
    shutil.rmtree(out / FOLDER, ignore_errors=True)


def _read(file: Path) -> Any:
    try:
        return json_text.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: not readable ({error}); pass --force to start over") from None
