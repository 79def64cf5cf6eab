"""Series for PyPOTS models, read from a store as they are needed.

PyPOTS takes whole data sets in memory, or as an HDF5 copy. Its models take dictionaries of tensors, so batches are made
here straight from the memory-mapped days: nothing is copied, and memory holds one batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64

from wearjax.batches.source import EpochOrder, Examples
from wearjax.channels import N_CHANNELS
from wearjax.days import normalization
from wearjax.days.normalization import NormalizationStats
from wearjax.predict.imputers.pypots_models import Settings
from wearjax.segments import masks

VALIDATION_PATCH = 10  # minutes
VALIDATION_RATIO = 0.2  # share of the observed cells that validation hides
VALIDATION_SEED = 42
_MASK_STREAM = 0x6D61736B  # the order of the series is drawn from (seed, epoch) alone


class Series:
    """The series that examples are cut into: `n_steps` minutes by 19 channels, z-scores, NaN = missing.

    Args:
        examples: days, or windows of seven days.
        minutes: length of an example.
    """

    def __init__(self, examples: Examples, stats: NormalizationStats, *, n_steps: int, minutes: int):
        self._examples, self._stats = examples, stats
        self._n_steps = n_steps
        self._each = minutes // n_steps

    def __len__(self) -> int:
        return len(self._examples) * self._each

    def read(self, items: Int64[np.ndarray, "S"]) -> Float32[np.ndarray, "S T C"]:
        example, piece = np.divmod(np.asarray(items, np.int64), self._each)
        values = self._examples.read(example, example)["values"]
        apart = values.reshape(len(values), N_CHANNELS, self._each, self._n_steps)
        return time_first(apart[np.arange(len(values)), :, piece], self._stats)


def time_first(
    values: Float32[np.ndarray, "S C T"], stats: NormalizationStats
) -> Float32[np.ndarray, "S T C"]:
    """z-scores of the continuous channels, with time before channels; NaN stays."""
    return np.ascontiguousarray(normalization.normalize(values, stats).swapaxes(1, 2))


def training_batches(
    series: Series, settings: Settings, *, epoch: int, batch_size: int, seed: int
) -> Iterator[tuple[Float32[np.ndarray, "S T C"], Bool[np.ndarray, "S T C"]]]:
    """One pass in random order: values, and the observed cells that are hidden. Both follow from seed and epoch.

    Args:
        epoch: from 0.
    """
    order = EpochOrder(len(series), seed=seed).positions(epoch * len(series), (epoch + 1) * len(series))
    rng = np.random.default_rng([seed, epoch, _MASK_STREAM])
    for start in range(0, len(order), batch_size):
        values = series.read(order[start : start + batch_size])
        drawn = rng.random(values.shape, np.float32) < settings.hidden_share
        yield values, drawn & ~np.isnan(values)


def validation_batches(
    series: Series, *, batch_size: int
) -> Iterator[tuple[Float32[np.ndarray, "S T C"], Bool[np.ndarray, "S T C"]]]:
    """One pass in order: values, and the hidden cells, in patches of ten minutes; every pass is the same.

    The masks are the benchmark's random noise (10-minute patches, 20 % of the observed cells) from one generator that
    goes through the series in order.
    """
    rng = np.random.default_rng(VALIDATION_SEED)
    for start in range(0, len(series), batch_size):
        values = series.read(np.arange(start, min(start + batch_size, len(series))))
        hidden = np.zeros(values.shape, bool)
        for row, one in enumerate(values):
            mask, _ = masks.make_mask(
                "random_noise", one.T, ~np.isnan(one.T), rng,
                patch_size=VALIDATION_PATCH, mask_ratio=VALIDATION_RATIO,
            )  # fmt: skip
            hidden[row] = mask.T
        yield values, hidden


def inputs(
    settings: Settings,
    values: Float32[np.ndarray, "S T C"],
    hidden: Bool[np.ndarray, "S T C"],
    *,
    device: str,
) -> dict[str, Any]:
    """What a PyPOTS model takes: values and mask of what it may see, and of what is to be told.

    Neither holds a NaN: missing values are 0 and their masks say so.
    """
    observed = ~np.isnan(values)
    visible = observed & ~hidden
    known = np.where(visible, values, np.float32(0))
    send = lambda array: _tensor(array, device)  # noqa: E731
    told = {"X_ori": send(np.where(observed, values, np.float32(0))), "indicating_mask": send(hidden)}
    if settings.kind != "brits":
        return {"X": send(known), "missing_mask": send(visible), **told}
    ways = {"forward": slice(None), "backward": slice(None, None, -1)}
    return {
        way: {
            "X": send(known[:, step]),
            "missing_mask": send(visible[:, step]),
            "deltas": send(time_gaps(visible[:, step])),
        }
        for way, step in ways.items()
    } | told


def time_gaps(observed: Bool[np.ndarray, "S T C"]) -> Float32[np.ndarray, "S T C"]:
    """Steps since each channel was last observed before a step; 0 at the first (δ of Che et al. 2018)."""
    steps = np.arange(observed.shape[1])[:, None]
    last = np.maximum.accumulate(np.where(observed, steps, 0), axis=1)
    return (steps - np.concatenate([last[:, :1] * 0, last[:, :-1]], axis=1)).astype(np.float32)


def _tensor(array: np.ndarray, device: str) -> Any:
    torch = importlib.import_module("torch")
    return torch.from_numpy(np.ascontiguousarray(array, np.float32)).to(device)
