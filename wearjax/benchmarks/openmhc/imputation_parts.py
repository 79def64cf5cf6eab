"""What an imputation evaluation keeps: a file of arrays a method, and the training statistics that all share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wearjax import npz, writing
from wearjax.benchmarks.openmhc import parts
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict.imputers.fallback import FallbackStatistics

_STATISTICS = "\0statistics"  # no method is called so


def digest_of(days: Days, *indices: np.ndarray) -> str:
    """Of some days: their identity, and the variance of their channels."""
    key = hashlib.sha256()
    for chosen in indices:
        for names in (days.participants[chosen], days.dates[chosen]):
            key.update("\n".join(map(str, names)).encode())
        key.update(np.ascontiguousarray(days.variance[chosen], dtype="<f4").tobytes())
    return key.hexdigest()[:16]


def digest_of_people(people: Mapping[str, Any]) -> str:
    """Of the demographics that make subgroups."""
    return hashlib.sha256(json.dumps(people, sort_keys=True, default=str).encode()).hexdigest()[:16]


class ImputationParts(parts.Parts):
    """The records of the methods of one evaluation."""

    def write(self, method: str, record: Mapping[str, np.ndarray]) -> None:
        """Replaces the record of a method; an earlier one stays until the new one is whole."""
        start = self._begin()
        with writing.file(self._file(method)) as partial, open(partial, "wb") as opened:
            np.savez(opened, **record)  # type: ignore[arg-type]
        self._end(start)

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

    def statistics(self, fit: Callable[[], FallbackStatistics]) -> FallbackStatistics:
        """The training statistics: those that are kept, else fitted and kept."""
        kept = self.read(_STATISTICS)
        if kept is not None:
            return FallbackStatistics(kept["stds"], kept["fill"])
        made = fit()
        self.write(_STATISTICS, vars(made))
        return made

    def _file(self, method: str) -> Path:
        return self.folder / f"{self._name(method)}.npz"
