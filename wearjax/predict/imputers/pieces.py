"""What an imputer by a compiled model does on the host: reads days or windows, hides, pads, writes the targets.

Only one batch is copied at a time, so arrays may be memory-mapped and of any length. NumPy alone, for trained models
and for exported ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float32, Int, Shaped

from wearjax.channels import N_CHANNELS
from wearjax.errors import MethodError
from wearjax.predict import batched
from wearjax.predict.imputers import targets

PADDING = -1  # offset of a slot without a day


def impute_pieces(
    called: str,
    reconstruct: Callable[..., Any],
    data: Float32[np.ndarray, "batch channel=19 time"],
    observed: Shaped[np.ndarray, "batch channel=19 time"],
    target: Shaped[np.ndarray, "batch channel=19 time"],
    *,
    minutes: int,
    batch_size: int,
    clip: bool = False,
    out: np.ndarray | None = None,
) -> Float32[np.ndarray, "batch channel=19 time"]:
    """`data` with the target cells filled, piece by piece of `minutes`; those without targets are not computed.

    Args:
        reconstruct: a batch of pieces, NaN = hidden, to all their cells.
        out: where to write, which may be `data`; None makes an array.

    Raises:
        MethodError: the time axis is not a whole number of pieces, or masks or `out` of another shape.
    """
    targets.check_pieces(called, data, minutes)
    targets.check_masks(data, observed, target)
    out = _begun(data, out)

    def at(piece: tuple[int, int]) -> tuple[int, slice, slice]:
        return piece[0], slice(None), slice(piece[1] * minutes, (piece[1] + 1) * minutes)

    def read(piece: tuple[int, int]) -> tuple[np.ndarray, ...]:
        where = at(piece)
        return (targets.hidden(data[where], observed[where], np.asarray(target[where], bool)),)

    found = batched.in_batches(
        reconstruct, _with_targets(target, minutes), read,
        padding=(np.full((N_CHANNELS, minutes), np.nan, np.float32),), batch_size=batch_size,
    )  # fmt: skip
    for piece, filled in found:
        where = at(piece)
        out[where] = targets.written(filled, data[where], np.asarray(target[where], bool), clip=clip)
    return out


def impute_windows(
    called: str,
    reconstruct: Callable[..., Any],
    data: Float32[np.ndarray, "batch channel=19 time"],
    observed: Shaped[np.ndarray, "batch channel=19 time"],
    target: Shaped[np.ndarray, "batch channel=19 time"],
    *,
    minutes: int,
    n_days: int,
    day_offsets: Int[np.ndarray, "batch day"] | None = None,
    batch_size: int,
    clip: bool = False,
    out: np.ndarray | None = None,
) -> Float32[np.ndarray, "batch channel=19 time"]:
    """`data` with the target cells filled; the days of a window are imputed together.

    Windows of fewer than `n_days` are padded with missing days on the left.

    Args:
        reconstruct: windows (window, 19, n_days · minutes) and their offsets (window, n_days) to all their cells.
        day_offsets: calendar days since the window's first real day, -1 in padded slots, whose values are not
            read; None is one day after the other.
        out: as for `impute_pieces`.

    Raises:
        MethodError: the time axis is not a whole number of days, or more than `n_days`, or masks, offsets or `out` of
            another shape.
    """
    given, rest = divmod(data.shape[-1], minutes)
    if data.ndim != 3 or data.shape[1] != N_CHANNELS or rest or not 1 <= given <= n_days:
        raise MethodError(
            f"{called}: expected (batch, {N_CHANNELS}, k·{minutes}) values of at most {n_days} days, "
            f"got {data.shape}"
        )
    targets.check_masks(data, observed, target)
    offsets = _offsets(called, day_offsets, len(data), given)
    out = _begun(data, out)
    time = data.shape[2]
    empty = np.full((N_CHANNELS, n_days * minutes), np.nan, np.float32)
    no_days = np.full(n_days, PADDING, np.int32)

    def read(row: int) -> tuple[np.ndarray, ...]:
        window, at = empty.copy(), no_days.copy()
        hidden = targets.hidden(data[row], observed[row], np.asarray(target[row], bool))
        padded = np.repeat(offsets[row] < 0, minutes)
        window[:, window.shape[1] - time :] = np.where(padded, np.float32(np.nan), hidden)
        at[n_days - given :] = offsets[row]
        return window, at

    wanted = [row for row, _ in _with_targets(target, time)]
    found = batched.in_batches(reconstruct, wanted, read, padding=(empty, no_days), batch_size=batch_size)
    for row, filled in found:
        chosen = np.asarray(target[row], bool)
        out[row] = targets.written(filled[:, filled.shape[1] - time :], data[row], chosen, clip=clip)
    return out


def single(data: np.ndarray, minutes: int) -> bool:
    """Whether a model of so many minutes reads the data as one example."""
    return len(data) == 1 and data.shape[-1] <= minutes


def _begun(data: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Where the result is written, with the values that stay."""
    if out is None:
        return np.array(data, np.float32)
    if out.shape != data.shape or out.dtype != np.float32:
        raise MethodError(f"out: expected float32 {data.shape}, got {out.dtype} {out.shape}")
    if out is not data:
        for row, values in enumerate(data):  # not at once: both may be files
            out[row] = values
    return out


def _with_targets(target: np.ndarray, minutes: int) -> list[tuple[int, int]]:
    """Example and place of the pieces that have targets."""
    return [
        (row, int(place))
        for row, mask in enumerate(target)
        for place in np.flatnonzero(np.asarray(mask, bool).any(axis=0).reshape(-1, minutes).any(axis=1))
    ]


def _offsets(
    called: str, day_offsets: np.ndarray | None, count: int, n_days: int
) -> Int[np.ndarray, "batch day"]:
    if day_offsets is None:
        return np.tile(np.arange(n_days, dtype=np.int32), (count, 1))
    offsets = np.asarray(day_offsets)
    if offsets.shape != (count, n_days) or offsets.dtype.kind not in "iu":
        raise MethodError(
            f"{called}: expected whole day_offsets of shape {(count, n_days)}, "
            f"got {offsets.dtype} {offsets.shape}"
        )
    return offsets.astype(np.int32)
