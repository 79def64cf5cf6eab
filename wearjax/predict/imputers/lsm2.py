"""Imputation by a trained LSM-2: every token is encoded, hidden ones are predicted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Float32, Int, Shaped

from wearjax import channels
from wearjax.convert.bundle import Bundle
from wearjax.errors import MethodError
from wearjax.objectives import masked_reconstruction
from wearjax.predict.imputers import series, targets, trained
from wearjax.predict.imputers.trained import TrainedImputer
from wearjax.segments import seven_days


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
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled: stored units of continuous channels, probabilities of flags.

        Values under the target mask are erased first, whatever the caller left there. Windows shorter than
        the model's are padded with missing days on the left.

        Args:
            day_offsets: calendar days since the window's first real day, -1 in padded slots, whose values are
                not read; None is one day after the other.

        Raises:
            MethodError: the time axis is not a whole number of days, or more days than the model takes, or
                offsets of another shape.
        """
        config = self.bundle.config
        count, n_channels, time = data.shape
        n_days, rest = divmod(time, config.minutes)
        if n_channels != channels.N_CHANNELS or rest or not 1 <= n_days <= config.n_days:
            raise MethodError(
                f"LSM2SparseImputer: expected (batch, 19, k·{config.minutes}) values of at most "
                f"{config.n_days} days, got {data.shape}"
            )
        offsets = _offsets(day_offsets, count, n_days)
        target = np.asarray(target_mask, bool)
        hidden = targets.hidden(data, observed_mask, target)
        padded = np.repeat(offsets < 0, config.minutes, axis=1)
        hidden = np.where(padded[:, None], np.float32(np.nan), hidden)
        before = [(0, 0), (config.n_days - n_days, 0)]
        offsets = np.pad(offsets, before, constant_values=seven_days.PADDING)
        before = [(0, 0), (0, 0), (config.n_days * config.minutes - time, 0)]
        windows = np.pad(hidden, before, constant_values=np.nan)
        filled = trained.fill(
            self._reconstruct, (windows, offsets, np.ones(count, bool)),
            (np.nan, seven_days.PADDING, False), target=target, batch_size=self.batch_size,
        )  # fmt: skip
        return targets.written(filled[..., filled.shape[-1] - time :], data, target, clip=self.clip)


def _offsets(day_offsets: np.ndarray | None, count: int, n_days: int) -> Int[np.ndarray, "batch day"]:
    if day_offsets is None:
        return np.tile(np.arange(n_days, dtype=np.int32), (count, 1))
    offsets = np.asarray(day_offsets)
    if offsets.shape != (count, n_days) or offsets.dtype.kind not in "iu":
        raise MethodError(
            f"LSM2SparseImputer: expected whole day_offsets of shape {(count, n_days)}, "
            f"got {offsets.dtype} {offsets.shape}"
        )
    return offsets.astype(np.int32)


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
    real: Bool[Array, "B"],
) -> Float[Array, "B C day*M"]:
    scaled, missing = masked_reconstruction.normalize(values, stats)
    model = nnx.merge(graph, state)

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
