"""Imputers by a bundle: its forward pass compiled, and called with batches of one size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float32, Shaped

from wearjax.convert.bundle import Bundle
from wearjax.errors import MethodError
from wearjax.predict.imputers import pieces


class TrainedImputer:
    """A bundle of the kind of `name`, and its forward pass compiled."""

    on_accelerator = True
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
        *,
        out: np.ndarray | None = None,
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled, in stored units; flags as the model gives them.

        Values under the target mask are erased first, whatever the caller left there. Pieces of the length of the
        model's examples are imputed each on its own.

        Args:
            out: float32 array to write into, memory-mapped or `data` itself; None makes one. Beside the caller's arrays
                only one batch is held.

        Raises:
            MethodError: the time axis is not a whole number of the model's examples, or masks of another shape.
        """
        return pieces.impute_pieces(
            type(self).__name__, self._reconstruct, data, observed_mask, target_mask,
            minutes=self.bundle.config.minutes, batch_size=self.batch_size, clip=self.clip, out=out,
        )  # fmt: skip
