"""Encoders of hourly series as predictors: one vector a participant from the last hours."""

from __future__ import annotations

import abc
import hashlib
import importlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from wearjax.days import hourly
from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import vector_cache
from wearjax.predict.predictors import representation
from wearjax.predict.predictors.representation import RepresentationProbe
from wearjax.predict.protocols import EvalContext
from wearjax.segments import hourly_series

BATCH_SIZE = 32
HUB = "hub:"


class SeriesProbe(RepresentationProbe):
    """Mean over the 19 channels of what a frozen encoder says of a participant's last hours.

    The series holds the retained days, whether eligible or not, up to the last of them; with the forward label window
    up to the last eligible one (`wearjax.segments.hourly_series`). A participant without an eligible day gets zeros.
    Vectors are computed once for all tasks.

    Subclasses call `_open` and implement `encode`.
    """

    def _open(
        self,
        days: Days,
        *,
        length: int,
        dim: int,
        weights: str,
        cache_dir: str | os.PathLike | None,
        batch_size: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        """Args: `length` in hours, `dim` of a vector, `weights` names the encoder with its settings."""
        if length < 1:
            raise ConfigError(f"{self.name}: context of {length} hours; at least 1 is needed")
        self._days, self._progress = days, progress
        self.length, self._weights = length, weights
        self._rows = representation.retained_rows(days)
        named = {"model": self.name, "weights": weights, "hours": length}
        folder = None
        if cache_dir is not None:
            folder = Path(cache_dir) / f"{self.name}-{vector_cache.digest_of(days, named)}"
        self._cache = vector_cache.VectorCache(
            len(days), dim, self._vectors_ending_on, folder=folder, rows_a_call=batch_size
        )

    @abc.abstractmethod
    def encode(
        self, values: Float32[np.ndarray, "B 19 hour"], observed: Bool[np.ndarray, "B 19 hour"]
    ) -> Float32[np.ndarray, "B 19 D"]:
        """One vector a channel; values are 0 where not observed."""

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "weights": self._weights, "hours": self.length}

    def participant_vectors(self, context: EvalContext) -> Float32[np.ndarray, "participant D"]:
        last = np.full(len(context.user_ids), -1, np.int64)
        for place, (user, dates) in enumerate(zip(context.user_ids, context.dates, strict=True)):
            eligible = self._rows.at(user, dates)
            if len(eligible):
                own = eligible if context.label_window == "forward" else self._rows.of(user)[0]
                last[place] = own[-1]
        known = last >= 0
        self._cache.ensure(last[known], progress=self._progress)
        vectors = np.zeros((len(last), self._cache.dim), np.float32)
        vectors[known] = self._cache.rows(last[known])
        return vectors

    def _vectors_ending_on(self, rows: Int64[np.ndarray, "day"]) -> Float32[np.ndarray, "day D"]:
        cut = [self._series(int(row)) for row in rows]
        values, observed = (np.stack(part) for part in zip(*cut, strict=True))
        encoded = np.asarray(self.encode(values, observed))
        if encoded.shape != (len(rows), values.shape[1], self._cache.dim):
            raise MethodError(
                f"{self.name}: expected {(len(rows), values.shape[1], self._cache.dim)} vectors from the "
                f"encoder, got {encoded.shape}"
            )
        return encoded.mean(axis=1, dtype=np.float64).astype(np.float32)

    def _series(self, last_row: int):
        rows, dates = self._rows.of(str(self._days.participants[last_row]))
        last = dates[int(np.flatnonzero(rows == last_row)[0])]
        inside = (dates <= last) & (dates >= hourly_series.first_day(int(last), length=self.length))
        hours = hourly.aggregate(self._days.batch(rows[inside]))
        iso = np.datetime_as_string(dates[inside].astype("datetime64[D]")).tolist()
        return hourly_series.series(hours, iso, length=self.length)


def package(module: str, *, of: str) -> Any:
    """A module of an optional package. Raises ConfigError that names the extra where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{of} needs the package {module.split('.')[0]!r} ({error}); install it with: "
            "pip install 'wearjax[foundation]'"
        ) from None


def tensors_digest(tensors: Iterable[tuple[str, Any]], settings: str) -> str:
    """Changes with any weight of a PyTorch model, or with the settings."""
    found = hashlib.sha256(settings.encode())
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        array = tensor.detach().cpu().to(dtype=_torch().float32).numpy()
        found.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:24]


def _torch() -> Any:
    return package("torch", of="the encoder")


def checkpoint_path(source: str | os.PathLike, *, of: str, files: list[str]) -> Path:
    """A checkpoint on disk. Only what is written `hub:owner/name` is fetched, from the Hugging Face hub.

    Args:
        files: patterns of the files to fetch.

    Raises:
        ConfigError: no such file or folder, or the hub's client is not installed.
    """
    if str(source).startswith(HUB):
        hub = package("huggingface_hub", of=of)
        return Path(hub.snapshot_download(str(source).removeprefix(HUB), allow_patterns=files))
    path = Path(source)
    if not path.exists():
        raise ConfigError(f"{path}: no such checkpoint; to fetch one from the hub, write {HUB}owner/name")
    return path


def chosen_device(device: str | None) -> str:
    """The given device of PyTorch; None takes a GPU where there is one."""
    return device or ("cuda" if _torch().cuda.is_available() else "cpu")


def checked_dtype(dtype: str) -> str:
    """The name of a compute type. Raises ConfigError on any but float32 and bfloat16."""
    if dtype not in ("float32", "bfloat16"):
        raise ConfigError(f"dtype {dtype!r}: expected float32 or bfloat16")
    return dtype
