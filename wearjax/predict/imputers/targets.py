"""Steps around any imputer by a model: erasing what must not be read, cutting, and writing the targets."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float32, Shaped

from wearjax import channels
from wearjax.errors import MethodError

_LOWEST, _HIGHEST = (
    np.asarray([c.plausible[i] for c in channels.CHANNELS], np.float32)[:, None] for i in (0, 1)
)


def check_pieces(name: str, data: np.ndarray, minutes: int) -> None:
    """Raises MethodError unless `data` is (batch, 19, k · minutes)."""
    if np.ndim(data) != 3 or data.shape[1] != channels.N_CHANNELS or data.shape[2] % minutes:
        raise MethodError(f"{name}: expected (batch, 19, k·{minutes}) values, got {np.shape(data)}")


def check_masks(data: np.ndarray, observed: np.ndarray, target: np.ndarray) -> None:
    """Raises MethodError unless both masks have the shape of the data."""
    for name, mask in (("observed_mask", observed), ("target_mask", target)):
        if np.shape(mask) != data.shape:
            raise MethodError(f"{name}: expected the shape of the data {data.shape}, got {np.shape(mask)}")


def hidden(
    data: Float32[np.ndarray, "*any"], observed: Shaped[np.ndarray, "*any"], target: Bool[np.ndarray, "*any"]
) -> Float32[np.ndarray, "*any"]:
    """What may be read: observed and not a target; NaN elsewhere. Raises MethodError on another shape."""
    check_masks(data, observed, target)
    return np.where(np.asarray(observed, bool) & ~target, data, np.nan).astype(np.float32)


def cut(
    array: Shaped[np.ndarray, "batch channel k*minutes"], minutes: int
) -> Shaped[np.ndarray, "batch*k channel minutes"]:
    """Examples cut along time into pieces of so many minutes."""
    count, n_channels, time = array.shape
    by_piece = array.reshape(count, n_channels, time // minutes, minutes).swapaxes(1, 2)
    return by_piece.reshape(-1, n_channels, minutes)


def joined(
    pieces: Shaped[np.ndarray, "batch*k channel minutes"], time: int
) -> Shaped[np.ndarray, "batch channel time"]:
    """The inverse of `cut`."""
    _, n_channels, minutes = pieces.shape
    by_piece = pieces.reshape(-1, time // minutes, n_channels, minutes)
    return by_piece.swapaxes(1, 2).reshape(-1, n_channels, time)


def written(
    filled: Float32[np.ndarray, "*any channel time"],
    data: Float32[np.ndarray, "*any channel time"],
    target: Bool[np.ndarray, "*any channel time"],
    *,
    clip: bool = False,
) -> Float32[np.ndarray, "*any channel time"]:
    """`data` with the targets taken from `filled`; `clip` keeps them in their channel's plausible range."""
    if clip:
        filled = np.clip(filled, _LOWEST, _HIGHEST)
    return np.where(target, filled, data).astype(np.float32)
