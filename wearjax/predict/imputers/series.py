"""Imputation by the Flax models of series, DLinear and BRITS."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Float32, Shaped

from wearjax.convert.bundle import Bundle
from wearjax.objectives import masked_imputation, masked_reconstruction
from wearjax.predict.imputers.trained import TrainedImputer


class SeriesImputer(TrainedImputer):
    """Satisfies the imputer contract; days or windows are cut into series of the model's length.

    Args:
        bundle: a trained model of kind `dlinear` or `brits`.
        batch_size: series a call of the model; the last call is padded, so that it compiles once.
        clip: keep continuous values inside the plausible range of their channel. The published evaluation does
            not, so this is off by default.
    """

    def __init__(self, bundle: Bundle, *, batch_size: int = 32, clip: bool = False):
        super().__init__(bundle, _reconstruct, batch_size, clip)

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled, in stored units; flags as the model estimates them, not cut to 0..1.

        Values under the target mask are erased first, whatever the caller left there.

        Raises:
            MethodError: the time axis is not a whole number of the model's series.
        """
        return self._impute_pieces(data, observed_mask, target_mask)


class DLinearImputer(SeriesImputer):
    """See `SeriesImputer`."""

    name = "dlinear"


class BRITSImputer(SeriesImputer):
    """See `SeriesImputer`."""

    name = "brits"


def _reconstruct(graph, stats, state, values: Float[Array, "B C M"]) -> Float[Array, "B C M"]:
    scaled, observed = masked_imputation.series_of(values, stats, values.shape[-1])
    found = nnx.merge(graph, state).reconstruct(scaled, observed.astype(jnp.float32))
    return masked_reconstruction.denormalize(masked_imputation.from_series(found, 1), stats)
