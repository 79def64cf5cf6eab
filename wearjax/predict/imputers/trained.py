"""Imputers by a bundle: its forward pass compiled, and called with batches of one size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float32, Shaped

from wearjax.convert.bundle import Bundle
from wearjax.errors import MethodError
from wearjax.predict.imputers import targets


class TrainedImputer:
    """A bundle of the kind of `name`, and its forward pass compiled."""

    name: str

    def __init__(self, bundle: Bundle, reconstruct: Callable[..., Array], batch_size: int, clip: bool):
        if batch_size < 1:
            raise MethodError(f"batch_size: must be at least 1, got {batch_size}")
        if bundle.kind != self.name:
            raise MethodError(
                f"{type(self).__name__}: expected a bundle of kind {self.name!r}, got {bundle.kind!r}"
            )
        self.bundle = bundle
        self.batch_size = batch_size
        self.clip = clip
        graph, state = nnx.split(bundle.model)
        self._reconstruct = partial(jax.jit(partial(reconstruct, graph, bundle.stats)), state)

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled, in stored units; flags as the model gives them.

        Values under the target mask are erased first, whatever the caller left there. Pieces of the length of the
        model's examples are imputed each on its own.

        Raises:
            MethodError: the time axis is not a whole number of the model's examples.
        """
        minutes = self.bundle.config.minutes
        targets.check_pieces(type(self).__name__, data, minutes)
        target = np.asarray(target_mask, bool)
        pieces = targets.cut(targets.hidden(data, observed_mask, target), minutes)
        filled = fill(
            self._reconstruct, (pieces,), (np.nan,),
            target=targets.cut(target, minutes), batch_size=self.batch_size,
        )  # fmt: skip
        return targets.written(targets.joined(filled, data.shape[2]), data, target, clip=self.clip)


def fill(
    reconstruct: Callable[..., Array],
    inputs: tuple[np.ndarray, ...],
    padding: tuple[float, ...],
    *,
    target: Bool[np.ndarray, "example channel time"],
    batch_size: int,
) -> np.ndarray:
    """The first input with the examples that have targets reconstructed, in calls of one size, padded."""
    filled = np.array(inputs[0])
    rows_wanted = np.flatnonzero(target.any(axis=(1, 2)))
    for start in range(0, len(rows_wanted), batch_size):
        rows = rows_wanted[start : start + batch_size]
        batch = [
            np.full((batch_size, *x.shape[1:]), value, x.dtype)
            for x, value in zip(inputs, padding, strict=True)
        ]
        for padded, x in zip(batch, inputs, strict=True):
            padded[: len(rows)] = x[rows]
        filled[rows] = np.asarray(reconstruct(*batch))[: len(rows)]
    return filled
