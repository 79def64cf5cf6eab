"""Forecasts of single series, kept on disk under a name for what they were made from.

A folder can be carried to another machine or environment: statsforecast need not be installed where all that is
asked for is known.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from wearjax import npz, writing
from wearjax.errors import StoreError
from wearjax.predict.forecasters import univariate_fits
from wearjax.predict.forecasters.univariate_fits import Outcome, Status, Task

RESULTS_A_FILE = 100
_STATUSES: tuple[Status, ...] = ("fitted", "failed", "timed_out")


def key_of(task: Task) -> str:
    """Names the forecast of a series: kind, options, horizon and all values. The time limit is no part of it."""
    settings = {
        "revision": univariate_fits.REVISION,
        "kind": task.kind,
        "horizon": task.horizon,
        "options": dict(task.options),
    }
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode() + b"\0")
    found.update(np.ascontiguousarray(task.series, "<f8").tobytes())
    return found.hexdigest()[:32]


class ForecastCache:
    """Outcomes by key, in files that appear whole or not at all; several runs may share a folder.

    A series that met a time limit is fitted again under a longer one.

    Args:
        folder: made when there is something to keep.

    Raises:
        StoreError: a file in the folder that is none of these.
    """

    def __init__(self, folder: str | os.PathLike):
        self._folder = Path(folder)
        self._known: dict[str, tuple[Outcome, float]] = {}
        self._new: dict[str, tuple[Outcome, float]] = {}
        for file in sorted(self._folder.glob("fits-*.npz")):
            self._read(file)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str, *, limit_s: float | None) -> Outcome | None:
        """The outcome, if it is known and would be the same under that limit."""
        outcome, limit = self._known.get(key, (None, math.inf))
        if outcome is not None and outcome.status == "timed_out" and limit < _seconds(limit_s):
            return None
        return outcome

    def add(self, key: str, outcome: Outcome, *, limit_s: float | None) -> None:
        """Keeps an outcome, on disk once there are some of them or at `flush`. Raises StoreError, see there."""
        self._known[key] = self._new[key] = (outcome, _seconds(limit_s))
        if len(self._new) >= RESULTS_A_FILE:
            self.flush()

    def flush(self) -> None:
        """Writes what is not on disk yet. Raises StoreError when the folder cannot be written."""
        by_horizon: dict[int, dict[str, tuple[Outcome, float]]] = {}
        for key, entry in sorted(self._new.items()):
            by_horizon.setdefault(entry[0].values.shape[1], {})[key] = entry
        for entries in by_horizon.values():
            self._write(entries)
        self._new.clear()

    def _write(self, entries: Mapping[str, tuple[Outcome, float]]) -> None:
        name = hashlib.sha256("".join(entries).encode()).hexdigest()[:16]
        outcomes = [outcome for outcome, _ in entries.values()]
        with writing.file(self._folder / f"fits-{name}.npz") as partial:
            np.savez(
                partial,
                keys=np.array(list(entries), "S32"),
                status=np.array([_STATUSES.index(outcome.status) for outcome in outcomes], np.int8),
                values=np.stack([outcome.values for outcome in outcomes]),
                limit_s=np.array([limit for _, limit in entries.values()], np.float64),
                statsforecast=np.array(_library_version()),
            )

    def _read(self, file: Path) -> None:
        try:
            stored = npz.load(file)
            keys, status, values = stored["keys"], stored["status"], stored["values"]
            limits = stored["limit_s"]
        except (OSError, ValueError, KeyError) as error:
            raise StoreError(f"{file}: not readable as forecasts ({error}); remove it") from None
        n, kinds = len(keys), len(_STATUSES)
        known = status.shape == limits.shape == (n,) and bool(np.all((status >= 0) & (status < kinds)))
        if not known or values.ndim != 3 or values.shape[:2] != (n, 3) or values.dtype != np.float32:
            raise StoreError(f"{file}: expected float32 forecasts (series, 3, horizon); remove it")
        for key, code, rows, limit in zip(keys.tolist(), status.tolist(), values, limits, strict=True):
            outcome = Outcome(_STATUSES[code], rows)
            before, limit_before = self._known.get(key.decode(), (None, -math.inf))
            # Of several runs, one that has a fit knows more than one that ran out of time, and a longer one more.
            more = outcome.status != "timed_out" or float(limit) > limit_before
            if before is None or (before.status == "timed_out" and more):
                self._known[key.decode()] = (outcome, float(limit))


def _seconds(limit_s: float | None) -> float:
    return math.inf if limit_s is None else limit_s


def _library_version() -> str:
    try:
        return importlib.metadata.version("statsforecast")
    except importlib.metadata.PackageNotFoundError:
        return ""
