"""Imputation by the Flax models of series, DLinear and BRITS."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from wearjax.convert.bundle import Bundle
from wearjax.objectives import masked_imputation, masked_reconstruction
from wearjax.predict.imputers.trained import TrainedImputer


class SeriesImputer(TrainedImputer):
    """Satisfies the imputer contract; days or windows are cut into series of the model's length.

    Flags are as the model estimates them, not cut to 0..1.

    Args:
        bundle: a trained model of kind `dlinear` or `brits`.
        batch_size: series a call of the model; the last call is padded, so that it compiles once.
        clip: keep continuous values inside the plausible range of their channel. The published evaluation does
            not, so this is off by default.
    """

    def __init__(self, bundle: Bundle, *, batch_size: int = 32, clip: bool = False):
        super().__init__(bundle, _reconstruct, batch_size, clip)


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
