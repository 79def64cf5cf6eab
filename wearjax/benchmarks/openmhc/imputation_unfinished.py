"""What an interrupted evaluation leaves behind: one file a method, beside where its results will stand.

Files are keyed by everything that decides the numbers of a method but the method itself: the days, the masks,
the settings of the pass. They vanish when the results are written.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wearjax import __version__, npz, writing
from wearjax.days.store import Days
from wearjax.errors import ConfigError

FOLDER = "unfinished"
RESULTS = "results.json"
SECONDS = 60.0  # between writes, and more where writing takes long
_SHARE = 0.05  # of the time, that writing may take


def prepare(out: Path, *, force: bool) -> None:
    """Looks whether an evaluation may be written into a folder; with `force`, clears it of an earlier one.

    Raises:
        ConfigError: results are there.
    """
    if force:
        (out / RESULTS).unlink(missing_ok=True)
        shutil.rmtree(out / FOLDER, ignore_errors=True)
    elif (out / RESULTS).exists():
        raise ConfigError(f"{out} already holds results; pass force=True (--force) to replace them")


def digest(settings: Mapping[str, Any], days: Days, *indices: np.ndarray) -> str:
    """Key of an evaluation: its settings, and the identity and per-channel variance of its days."""
    text = json.dumps({"wearjax": __version__, **settings}, sort_keys=True, default=str)
    key = hashlib.sha256(text.encode())
    for chosen in indices:
        for names in (days.participants[chosen], days.dates[chosen]):
            key.update("\n".join(map(str, names)).encode())
        key.update(np.ascontiguousarray(days.variance[chosen], dtype="<f4").tobytes())
    return key.hexdigest()


class Unfinished:
    """The records of the methods of one evaluation.

    Args:
        out: run folder of the evaluation.
        key: its digest.

    Raises:
        ConfigError: the folder holds an unfinished evaluation of another key.
    """

    def __init__(self, out: Path, key: str):
        self.folder = out / FOLDER
        self._key = self.folder / "key"
        self._last, self._took = time.monotonic(), 0.0
        if self._key.exists() and self._key.read_text() != key:
            raise ConfigError(
                f"{out}: holds an unfinished evaluation of other days or settings; "
                "pass force=True (--force) to start over, or choose another folder"
            )
        self._wanted = key

    def is_due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self._last > max(SECONDS, self._took / _SHARE)

    def write(self, method: str, record: Mapping[str, np.ndarray]) -> None:
        """Replaces the record of a method; an earlier one stays until the new one is whole."""
        start = time.monotonic()
        with writing.file(self._key) as partial:
            partial.write_text(self._wanted)
        with writing.file(self._file(method)) as partial, open(partial, "wb") as opened:
            np.savez(opened, **record)  # type: ignore[arg-type]
        self._last = time.monotonic()
        self._took = self._last - start

    def read(self, method: str) -> dict[str, np.ndarray] | None:
        """The record of a method, None if there is none.

        Raises:
            ConfigError: a file that is not readable.
        """
        file = self._file(method)
        if not file.exists():
            return None
        try:
            return npz.load(file)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file}: not readable ({error}); remove it, or pass --force") from None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, method: str) -> Path:
        return self.folder / f"{hashlib.sha256(method.encode()).hexdigest()[:16]}.npz"
