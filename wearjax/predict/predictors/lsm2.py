"""LSM-2 as a predictor: the mean of a participant's day vectors under a linear probe."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64

from wearjax.channels import MINUTES_PER_DAY
from wearjax.convert import bundle as bundles
from wearjax.convert.bundle import Bundle
from wearjax.days.store import Days
from wearjax.errors import MethodError
from wearjax.models import lsm2
from wearjax.predict import vector_cache
from wearjax.predict.predictors import representation
from wearjax.predict.predictors.representation import RepresentationProbe
from wearjax.predict.pretrained import Pretrained
from wearjax.predict.protocols import EvalContext


class LSM2(RepresentationProbe):
    """Mean encoder output over the measured tokens of a day, mean over eligible days (OpenMHC, LSM-2 embedding).

    A day without a measured token has no vector and is skipped; a participant without any such day gets zeros.
    Day vectors are computed once for all tasks.

    Args:
        days: the store that the harness evaluates.
        bundle: a trained model of kind `lsm2` of single days.
        cache_dir: keeps the day vectors for later runs; None keeps them in memory.
        batch_size: days a call of the model.
        progress: called with (days embedded, days to embed).
        n_components, seed: of the probe.

    Raises:
        MethodError: another kind of model.
    """

    name = "lsm2"

    def __init__(
        self,
        days: Days,
        bundle: Bundle,
        *,
        cache_dir: str | os.PathLike | None = None,
        batch_size: int = 64,
        progress: Callable[[int, int], None] | None = None,
        n_components: int = representation.N_COMPONENTS,
        seed: int = 42,
    ):
        super().__init__(n_components=n_components, seed=seed)
        if bundle.kind != "lsm2" or bundle.config.minutes != MINUTES_PER_DAY:
            raise MethodError(
                f"LSM2: expected a bundle of kind 'lsm2' with {MINUTES_PER_DAY} minutes, got {bundle.kind!r} "
                f"with {getattr(bundle.config, 'minutes', None)}"
            )
        self._days, self._progress = days, progress
        self._model = Pretrained(bundle, batch_size=batch_size)
        self._patch = bundle.config.patch
        self._rows = representation.retained_rows(days)
        self._weights = weights_digest(bundle)
        self._cache = vector_cache.VectorCache(
            len(days),
            bundle.config.encoder_dim,
            self._day_vectors,
            folder=cache_folder(cache_dir, days, self.name, self._weights),
            rows_a_call=4 * batch_size,
        )

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "weights": self._weights}

    def participant_vectors(self, context: EvalContext) -> Float32[np.ndarray, "participant D"]:
        rows = [
            self._rows.at(user, dates) for user, dates in zip(context.user_ids, context.dates, strict=True)
        ]
        self._cache.ensure(np.concatenate([*rows, np.empty(0, np.int64)]), progress=self._progress)
        vectors = np.zeros((len(rows), self._cache.dim), np.float32)
        for place, own in enumerate(rows):
            vectors[place] = _mean_or_zeros(self._cache.rows(own))
        return vectors

    def _day_vectors(self, rows: Int64[np.ndarray, "day"]) -> Float32[np.ndarray, "day D"]:
        values = self._days.batch(rows)
        vectors = self._model.embed(values)
        masked = np.asarray(lsm2.inherited_mask(np.isnan(values), self._patch))
        vectors[np.all(masked, axis=1)] = np.nan
        return vectors


def _mean_or_zeros(vectors: Float32[np.ndarray, "day D"]) -> Float64[np.ndarray, "D"]:
    known = vectors[np.isfinite(vectors).all(axis=1)]
    return known.mean(axis=0, dtype=np.float64) if len(known) else np.zeros(vectors.shape[1])


def weights_digest(bundle: Bundle) -> str:
    """Changes with any weight or normalization of a model."""
    found = hashlib.sha256(f"{bundle.kind} {bundle.config} {bundle.stats.to_json()}".encode())
    for name, array in sorted(bundles.parameters(bundle.model).items()):
        found.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:24]


def cache_folder(cache_dir: str | os.PathLike | None, days: Days, name: str, weights: str) -> Path | None:
    """Where the vectors that a model gives of a store are kept."""
    if cache_dir is None:
        return None
    return Path(cache_dir) / f"{name}-{vector_cache.digest_of(days, {'model': name, 'weights': weights})}"
