"""A trained model as a person uses it: load a folder, impute or embed."""

from __future__ import annotations

import os
from functools import cached_property, partial

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float32, Shaped

from wearjax.convert import bundle as bundles
from wearjax.objectives import masked_reconstruction
from wearjax.predict.imputers.lsm2 import LSM2Imputer


class Pretrained:
    """A loaded model; it is itself an imputer.

    Attributes:
        bundle: configuration, module and normalization.
    """

    def __init__(self, bundle: bundles.Bundle, *, batch_size: int = 16):
        self.bundle = bundle
        self.name = bundle.kind
        self.batch_size = batch_size

    @cached_property
    def _imputer(self) -> LSM2Imputer:
        return LSM2Imputer(self.bundle, batch_size=self.batch_size)

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled; see `LSM2Imputer.impute`."""
        return self._imputer.impute(data, observed_mask, target_mask)

    @cached_property
    def _embed(self):
        graph, state = nnx.split(self.bundle.model)
        return partial(jax.jit(partial(_embed, graph, self.bundle.stats)), state)

    def embed(
        self, values: Float32[np.ndarray, "day channel=19 minute"]
    ) -> Float32[np.ndarray, "day feature"]:
        """One vector a day, the mean encoder output over its measured tokens; NaN = not measured."""
        out = np.empty((len(values), self.bundle.config.encoder_dim), np.float32)
        for start in range(0, len(values), self.batch_size):
            rows = values[start : start + self.batch_size]
            padded = np.full((self.batch_size, *values.shape[1:]), np.nan, np.float32)
            padded[: len(rows)] = rows
            out[start : start + len(rows)] = np.asarray(self._embed(padded))[: len(rows)]
        return out


def load_pretrained(path: str | os.PathLike, *, batch_size: int = 16) -> Pretrained:
    """Loads a trained model folder. Raises CheckpointError when it is not one."""
    return Pretrained(bundles.load_bundle(path), batch_size=batch_size)


def _embed(graph, stats, state, values):
    scaled, missing = masked_reconstruction.normalize(values, stats)
    return nnx.merge(graph, state).embed(scaled, missing)
