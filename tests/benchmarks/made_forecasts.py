"""Small forecasts of a few participants, for the tests of the forecasting scores."""

from __future__ import annotations

import numpy as np

from wearjax.benchmarks.openmhc.forecasting_errors import ErrorTable, ParticipantForecasts
from wearjax.benchmarks.openmhc.forecasting_metrics import UserMetrics
from wearjax.benchmarks.openmhc.forecasting_scale import SeasonalScale
from wearjax.channels import BINARY, N_CHANNELS

NOISE = {"seasonal_naive": 3.0, "good": 1.0, "poor": 6.0}
DEMOGRAPHICS = {f"p{i}": {"birth_year": 1955 + 9 * i, "sex": ("male", "female")[i % 2]} for i in range(10)}


def record(seed: int, n_days: int = 8) -> np.ndarray:
    """Hours of a participant: continuous channels and flags, some of them missing."""
    rng = np.random.default_rng(seed)
    values = (10 + 5 * rng.normal(size=(N_CHANNELS, 24 * n_days))).astype(np.float32)
    values[list(BINARY)] = rng.random((len(BINARY), values.shape[1])) < 0.3
    values[rng.random(values.shape) < 0.1] = np.nan
    values[17] = np.nan  # a channel that nobody has
    return values


def forecasts(
    participant: str,
    values: np.ndarray,
    noise: float,
    *,
    origins=(48, 96, 120),
    horizon: int = 24,
    quantiles: bool = False,
    seed: int = 0,
) -> ParticipantForecasts:
    """The truth with noise, and no hole."""
    rng = np.random.default_rng([seed, len(participant), *participant.encode()])
    target = np.stack([values[:, o : o + horizon] for o in origins])
    scale = np.where(np.isin(np.arange(N_CHANNELS), BINARY), 0.1, 1.0)[:, None]
    point = np.nan_to_num(target, nan=5.0) + scale * noise * rng.normal(size=target.shape)
    levels = (0.1, 0.5, 0.9)
    spread = np.array([-1.0, 0.0, 1.0]) * noise
    return ParticipantForecasts(
        participant=participant,
        origins=np.array(origins, np.int64),
        target=target,
        point=point.astype(np.float32),
        quantiles=(point[..., None] + spread).astype(np.float32) if quantiles else None,
        levels=levels if quantiles else (),
        substituted=np.arange(N_CHANNELS) % 3,
    )


def user_metrics(n: int = 5, methods=tuple(NOISE)) -> UserMetrics:
    """Metrics of some methods and participants `p0`, `p1`, …"""
    table, scale = ErrorTable(), SeasonalScale()
    for i in range(n):
        values = record(i)
        scale.add(f"p{i}", values, (48, 96, 120), 24)
        for m, method in enumerate(methods):
            table.add(method, forecasts(f"p{i}", values, NOISE[method], seed=m))
    return table.finish(scale)
