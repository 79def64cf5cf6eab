"""Scaling of hours for forecasting: mean and spread of all channels, flags included (OpenMHC, forecasting models)."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float32

from wearjax import json_text
from wearjax.channels import N_CHANNELS
from wearjax.days.normalization import NormalizationStats


class HourlyScaler(NormalizationStats):
    """Statistics that scale every channel; those of minutes leave flags as they are."""

    def to_json(self) -> str:
        """The form of `NormalizationStats`, with all channels among those that are scaled."""
        return json.dumps(
            json_text.loads(super().to_json()) | {"channels": list(range(N_CHANNELS))}, indent=1
        )


def fit(parts: Iterable[Float32[np.ndarray, "19 hour"]]) -> HourlyScaler:
    """Mean and population spread of the measured hours of all parts together, NaN = missing.

    Sums run in float64, the squares about the mean. A channel that was never measured has mean 0, and one without
    spread std 1. There is no epsilon.
    """
    count, means, squares = (np.zeros(N_CHANNELS) for _ in range(3))
    for hours in parts:
        measured = np.isfinite(hours)
        values = np.where(measured, hours, 0).astype(np.float64)
        more = measured.sum(axis=1)
        own = values.sum(axis=1) / np.maximum(more, 1)
        spread = (np.where(measured, values - own[:, None], 0) ** 2).sum(axis=1)
        # Sums about two means become sums about the common one (Chan, Golub & LeVeque 1983, eq. 2.1).
        total, apart = np.maximum(count + more, 1), own - means
        squares += spread + apart**2 * count * more / total
        means += apart * more / total
        count += more
    stds = np.sqrt(squares / np.maximum(count, 1))
    return HourlyScaler(means, np.where(stds > 0, stds, 1.0), 0.0)
