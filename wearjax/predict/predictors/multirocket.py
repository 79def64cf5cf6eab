"""MultiRocket as a predictor: the mean of a participant's day features under a linear probe."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import splits
from wearjax.days.normalization import STD_MIN
from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.models import multirocket
from wearjax.predict import inputs, vector_cache
from wearjax.predict.predictors import representation
from wearjax.predict.predictors.representation import RepresentationProbe
from wearjax.predict.protocols import EvalContext

_DAYS_AT_ONCE = 1024
_PARTICIPANTS_A_CALL = 16


class MultiRocket(RepresentationProbe):
    """Random convolutions of z-scored hours, mean over all retained days of a participant, whatever the task.

    All 19 channels are scaled by the hours of the training days, missing hours are 0, and the training days set the
    thresholds (OpenMHC, MultiRocket baseline). Means are rounded to half precision, as the published ones were
    stored; what that cannot hold becomes 0.

    Args:
        days: the day set, with splits beside it, or days by participant that others read too.
        data_dir: where the splits lie; default is the path of the days.
        config: of the transform.
        batch_size: days a call of the transform.
        cache_dir: keeps the participants' vectors for later runs.
        progress: called with (participants done, participants to do) of those that a task adds.
        n_components, seed: of the probe.

    Raises:
        StoreError, SourceError: no splits.
    """

    name = "multirocket"

    def __init__(
        self,
        days: Days | inputs.ParticipantDays,
        data_dir: str | os.PathLike | None = None,
        *,
        config: multirocket.MultiRocketConfig | None = None,
        batch_size: int = 256,
        cache_dir: str | os.PathLike | None = None,
        progress: Callable[[int, int], None] | None = None,
        n_components: int = representation.N_COMPONENTS,
        seed: int = 42,
    ):
        super().__init__(n_components=n_components, seed=seed)
        if batch_size < 1:
            raise ConfigError(f"batch_size: must be at least 1, got {batch_size}")
        self._source = days if isinstance(days, inputs.ParticipantDays) else inputs.ParticipantDays(days)
        self._days, self._config = self._source.days, config or multirocket.MultiRocketConfig()
        self._batch_size, self._progress = batch_size, progress
        self._folder = None if cache_dir is None else Path(cache_dir)
        self._members = splits.read_splits(self._days.path if data_dir is None else data_dir)
        self._rows = representation.retained_rows(self._days)
        self._place = {user: place for place, user in enumerate(self._source.users)}

    @property
    def settings(self) -> dict[str, Any]:
        config = self._config
        return {
            **super().settings, "n_kernels": config.n_kernels, "max_dilations": config.max_dilations,
            "kernel_seed": config.seed,
        }  # fmt: skip

    def participant_vectors(self, context: EvalContext) -> Float32[np.ndarray, "participant D"]:
        places = np.array([self._place.get(user, -1) for user in context.user_ids], np.int64)
        known = places >= 0
        vectors = np.full((len(places), self._transform.kernels.n_features), np.nan, np.float32)
        if known.any():
            self._cache.ensure(places[known], progress=self._progress)
            vectors[known] = self._cache.rows(places[known])
        return vectors

    @cached_property
    def _training_days(self) -> Int64[np.ndarray, "day"]:
        indices = self._members.indices(self._days, "train")
        if not len(indices):
            raise MethodError(f"{self.name}: {self._days.path} has no retained day of a training participant")
        return indices

    @cached_property
    def _scale(self) -> tuple[Float64[np.ndarray, "channel 1"], Float64[np.ndarray, "channel 1"]]:
        """Mean and spread of the measured hours of each channel over the training days; a flat one keeps spread 1."""
        count, total, squares = (np.zeros(N_CHANNELS) for _ in range(3))
        for start in range(0, len(self._training_days), _DAYS_AT_ONCE):
            hours = self._source.hours(self._training_days[start : start + _DAYS_AT_ONCE]).astype(np.float64)
            measured = np.isfinite(hours)
            values = np.where(measured, hours, 0.0)
            count += measured.sum(axis=(0, 2))
            total += values.sum(axis=(0, 2))
            squares += np.square(values).sum(axis=(0, 2))
        mean = total / np.maximum(count, 1)
        spread = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0))
        return mean[:, None], np.where(spread > STD_MIN, spread, 1.0)[:, None]

    def _scaled(self, indices: Int64[np.ndarray, "day"]) -> Float32[np.ndarray, "day channel hour"]:
        mean, spread = self._scale
        scaled = (self._source.hours(indices) - mean) / spread
        return np.where(np.isnan(scaled), 0.0, scaled).astype(np.float32)

    @cached_property
    def _transform(self) -> multirocket.Transform:
        training = self._training_days
        kernels = multirocket.fit(
            lambda rows: self._scaled(training[rows]), len(training),
            shape=(N_CHANNELS, HOURS_PER_DAY), config=self._config,
        )  # fmt: skip
        return multirocket.Transform(kernels)

    @cached_property
    def _cache(self) -> vector_cache.VectorCache:
        kernels = self._transform.kernels
        folder = None
        if self._folder is not None:
            scale = [array.tolist() for array in self._scale]
            digest = vector_cache.digest_of(self._days, {"kernels": kernels.digest(), "scale": scale})
            folder = self._folder / f"{self.name}-{digest}"
        return vector_cache.VectorCache(
            len(self._place), kernels.n_features, self._means, folder=folder, rows_a_call=_PARTICIPANTS_A_CALL
        )

    def _means(self, places: Int64[np.ndarray, "participant"]) -> Float32[np.ndarray, "participant D"]:
        """Mean features of some participants; of their days only a batch is held at a time."""
        users = self._source.users
        own = [self._rows.of(users[place])[0] for place in places]
        days, counts = np.concatenate(own), np.array(list(map(len, own)))
        owners = np.repeat(np.arange(len(places)), counts)
        total = np.zeros((len(places), self._transform.kernels.n_features))
        for start in range(0, len(days), self._batch_size):
            part = days[start : start + self._batch_size]
            series = np.zeros((self._batch_size, N_CHANNELS, HOURS_PER_DAY), np.float32)
            owner = np.full(self._batch_size, -1, np.int32)  # filled up, so that it compiles once
            series[: len(part)] = self._scaled(part)
            owner[: len(part)] = owners[start : start + len(part)]
            total += np.asarray(self._transform.sums(series, owner, _PARTICIPANTS_A_CALL))[: len(places)]
        with np.errstate(over="ignore"):
            means = (total / counts[:, None]).astype(np.float16).astype(np.float32)
        return np.where(np.isfinite(means), means, np.float32(0))
