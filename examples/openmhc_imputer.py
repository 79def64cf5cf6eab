"""An imputer for the OpenMHC benchmark: the mean of what was measured within half an hour.

It follows the benchmark's protocol and imports nothing of wearjax, so it runs in the benchmark's own harness
as it stands. Here:

    wearjax evaluate imputation days/synth --out runs/mine --method examples/openmhc_imputer.py:LocalMean

or, in Python, `wearjax.evaluate_imputation(LocalMean(), data_dir="days/synth")`.
"""

import numpy as np

CONTINUOUS = slice(0, 7)  # steps, distance, flights, heart rate, energy; the other twelve channels are flags
HALF_WINDOW = 30  # minutes


class LocalMean:
    """Fills each hidden minute with the mean of what was measured within half an hour of it.

    Where nothing was measured so near, the level of the channel on that day stands in, and where the whole
    channel is hidden, the level of the channel over the batch; what is left stays NaN, which the benchmark
    replaces by a training statistic and counts.
    """

    name = "local_mean"

    def impute(self, data, observed_mask, target_mask, *, day_offsets=None):
        """Returns the data with values at the target cells.

        Args:
            data: (batch, 19, minutes) float32, one day or several in a row; NaN where missing or hidden.
            observed_mask: same shape, where the sensors measured, hidden cells included.
            target_mask: same shape, the hidden cells that must be filled.
            day_offsets: (batch, days), calendar days since the first of a window, -1 in padded slots; given
                for windows only, and not needed by this method.
        """
        known = observed_mask.astype(bool) & ~target_mask.astype(bool) & np.isfinite(data)
        values = np.where(known, data, 0.0)
        near = ratio(moving_sum(values), moving_sum(known))
        level = ratio(values.sum(axis=2, keepdims=True), known.sum(axis=2, keepdims=True))
        anywhere = ratio(values.sum(axis=(0, 2), keepdims=True), known.sum(axis=(0, 2), keepdims=True))
        fill = np.where(np.isfinite(near), near, np.where(np.isfinite(level), level, anywhere))
        fill[:, CONTINUOUS] = np.maximum(fill[:, CONTINUOUS], 0)  # no device reports a negative count
        return np.where(target_mask.astype(bool), fill, data).astype(np.float32)


def moving_sum(cells):
    """Sum over the half hours before and after each minute, shorter at both ends."""
    total = np.cumsum(cells, axis=2, dtype=np.float64)
    total = np.concatenate([np.zeros_like(total[..., :1]), total], axis=2)
    minute = np.arange(cells.shape[2])
    stop = np.minimum(minute + HALF_WINDOW + 1, cells.shape[2])
    start = np.maximum(minute - HALF_WINDOW, 0)
    return total[..., stop] - total[..., start]


def ratio(total, count):
    """The mean, NaN where nothing was counted."""
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
