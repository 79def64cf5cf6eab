"""What a pretrained forecaster reads of a history: its last hours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from wearjax.channels import N_CHANNELS
from wearjax.errors import MethodError
from wearjax.predict.predictors import series_probe

DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MEDIAN = DECILES.index(0.5)


def tails(
    histories: Sequence[Float32[np.ndarray, "19 _"]], *, length: int, name: str
) -> list[Float32[np.ndarray, "19 _"]]:
    """The last `length` hours of each history, or all of a shorter one; NaN = missing.

    Args:
        name: of the method, for the error.

    Raises:
        MethodError: a history without hours, or not of 19 channels.
    """
    cut = []
    for history in histories:
        hours = np.asarray(history)
        if hours.ndim != 2 or hours.shape[0] != N_CHANNELS or not hours.shape[1]:
            raise MethodError(f"{name}: expected a history ({N_CHANNELS}, hours), got {hours.shape}")
        cut.append(np.ascontiguousarray(hours[:, -length:], np.float32))
    return cut


def padded(
    histories: Sequence[Float32[np.ndarray, "19 _"]], *, length: int, name: str
) -> Float32[np.ndarray, "B 19 hour"]:
    """`tails` as one array, with NaN before what is shorter."""
    out = np.full((len(histories), N_CHANNELS, length), np.nan, np.float32)
    for row, tail in zip(out, tails(histories, length=length, name=name), strict=True):
        row[:, length - tail.shape[1] :] = tail
    return out


def check_horizon(horizon: int, *, name: str) -> None:
    """Raises MethodError that names the method where nothing is asked for."""
    if horizon < 1:
        raise MethodError(f"{name}: horizon of {horizon} hours; at least 1 is needed")


def compute_dtype(dtype: str | None, *, device: str) -> str:
    """The given compute type of PyTorch; None is bfloat16 on a GPU and float32 elsewhere. Raises ConfigError."""
    if dtype is None:
        return "bfloat16" if device.startswith("cuda") else "float32"
    return series_probe.checked_dtype(dtype)
