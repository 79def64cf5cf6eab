"""Imputation by a trained LSM-2: every token is encoded, hidden ones are predicted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Float32, Int, Shaped

from wearjax.convert.bundle import Bundle
from wearjax.errors import MethodError
from wearjax.objectives import masked_reconstruction
from wearjax.predict.imputers import pieces, series
from wearjax.predict.imputers.trained import TrainedImputer


class LSM2Imputer(TrainedImputer):
    """Satisfies the imputer contract for models of single days and of whole weeks.

    Windows of several days are imputed day by day by a daily model, and whole by a weekly one. Flags are
    probabilities.

    Args:
        bundle: a trained model of kind `lsm2`.
        batch_size: examples a call of the model; the last call is padded, so that it compiles once.
        clip: keep continuous values inside the plausible range of their channel (no negative steps). The
            published evaluation does not, so this is off by default.
    """

    name = "lsm2"

    def __init__(self, bundle: Bundle, *, batch_size: int = 16, clip: bool = False):
        super().__init__(bundle, _reconstruct, batch_size, clip)


class LSM2SparseImputer(TrainedImputer):
    """Satisfies the imputer contract; the days of a window are imputed together.

    Args:
        bundle: a trained model of kind `lsm2_sparse`.
        batch_size: windows handed to the device together; it takes them one after another.
        clip: as for `LSM2Imputer`.
    """

    name = "lsm2_sparse"

    def __init__(self, bundle: Bundle, *, batch_size: int = 16, clip: bool = False):
        super().__init__(bundle, _reconstruct_window, batch_size, clip)

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
        *,
        day_offsets: Int[np.ndarray, "batch day"] | None = None,
        out: np.ndarray | None = None,
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled: stored units of continuous channels, probabilities of flags.

        Values under the target mask are erased first, whatever the caller left there. Windows shorter than
        the model's are padded with missing days on the left.

        Args:
            day_offsets: calendar days since the window's first real day, -1 in padded slots, whose values are
                not read; None is one day after the other.
            out: as for `TrainedImputer.impute`.

        Raises:
            MethodError: the time axis is not a whole number of days, or more days than the model takes, or masks or
                offsets of another shape.
        """
        config = self.bundle.config
        return pieces.impute_windows(
            type(self).__name__, self._reconstruct, data, observed_mask, target_mask,
            minutes=config.minutes, n_days=config.n_days, day_offsets=day_offsets,
            batch_size=self.batch_size, clip=self.clip, out=out,
        )  # fmt: skip


def _reconstruct(graph, stats, state, values: Float[Array, "B C M"]) -> Float[Array, "B C M"]:
    scaled, missing = masked_reconstruction.normalize(values, stats)
    predicted = nnx.merge(graph, state).reconstruct(scaled, missing)
    return masked_reconstruction.denormalize(predicted.astype(jnp.float32), stats)


def _reconstruct_window(
    graph,
    stats,
    state,
    values: Float[Array, "B C day*M"],
    offsets: Int[Array, "B day"],
) -> Float[Array, "B C day*M"]:
    scaled, missing = masked_reconstruction.normalize(values, stats)
    model = nnx.merge(graph, state)
    real = (offsets >= 0).any(axis=1)  # false for what fills up a batch

    def one(args):
        scaled, missing, offsets, real = args
        run = lambda: model.reconstruct(scaled[None], missing[None], day_offsets=offsets[None])[0]  # noqa: E731
        return jax.lax.cond(real, run, lambda: jnp.zeros_like(scaled))

    # One after another: seven days fill a device, and together the windows would take many times the memory.
    predicted = jax.lax.map(one, (scaled, missing, offsets, real))
    return masked_reconstruction.denormalize(predicted.astype(jnp.float32), stats)


def imputer_of(bundle: Bundle, *, batch_size: int = 16, clip: bool = False) -> TrainedImputer:
    """The imputer of a trained model. Raises MethodError for a kind that cannot impute."""
    kinds = {
        imputer.name: imputer
        for imputer in (LSM2Imputer, LSM2SparseImputer, series.DLinearImputer, series.BRITSImputer)
    }
    if bundle.kind not in kinds:
        raise MethodError(
            f"a model of kind {bundle.kind!r} cannot impute; kinds that can: {', '.join(kinds)}"
        )
    return kinds[bundle.kind](bundle, batch_size=batch_size, clip=clip)
