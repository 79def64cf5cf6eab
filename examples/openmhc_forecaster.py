"""A forecaster for the OpenMHC benchmark: what this hour usually was, the latest weeks counting most.

It follows the benchmark's protocol and imports nothing of wearjax, so it runs in the benchmark's own harness
as it stands. Here:

    wearjax evaluate forecasting days/synth --out runs/mine --method examples/openmhc_forecaster.py:FadingMean

or, in Python, `wearjax.evaluate_forecasting(FadingMean(), data_dir="days/synth")`.
"""

import numpy as np

CONTINUOUS = slice(0, 7)  # steps, distance, flights, heart rate, energy; the other twelve channels are flags
HOURS = 24
HALF_LIFE = 7  # days after which a day counts half
BAND = 1.2816  # standard deviations from the middle of a normal distribution to its last tenth


class FadingMean:
    """Forecasts each hour by the fading mean of that hour of the day, a flag by its fading frequency.

    Hours without any earlier value stay NaN, which the benchmark replaces by seasonal naive and counts.
    """

    name = "fading_mean"
    quantile_levels = (0.1, 0.5, 0.9)

    def predict(self, history, horizon, *, index_days=None):
        """Returns the point forecast (19, horizon) and its quantiles (19, horizon, 3).

        Args:
            history: (19, hours) float32, all hours up to the origin; NaN where missing.
            horizon: hours to forecast, 24 or 48.
            index_days: day of the record at which the forecast starts; not needed by this method.
        """
        days = history.shape[1] // HOURS
        if not days:
            return None  # nothing to learn from: seasonal naive for all cells
        hours = history[:, -days * HOURS :].reshape(len(history), days, HOURS).astype(np.float64)
        known = np.isfinite(hours)
        weight = known * 0.5 ** (np.arange(days)[::-1] / HALF_LIFE)[:, None]
        mean = ratio((weight * np.where(known, hours, 0)).sum(axis=1), weight.sum(axis=1))
        spread = np.sqrt(
            ratio((weight * np.where(known, hours - mean[:, None], 0) ** 2).sum(axis=1), weight.sum(axis=1))
        )
        quantiles = np.stack([mean - BAND * spread, mean, mean + BAND * spread], axis=-1)
        quantiles[CONTINUOUS] = np.maximum(quantiles[CONTINUOUS], 0)  # no device reports a negative count
        hour = np.arange(horizon) % HOURS
        return mean[:, hour].astype(np.float32), quantiles[:, hour].astype(np.float32)


def ratio(total, weight):
    """The mean, NaN where nothing was weighed."""
    return np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
