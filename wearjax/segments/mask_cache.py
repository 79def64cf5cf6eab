"""The masks of a whole split and scenario: derived from seeds, kept and exchanged in the published npz form.

A file `<folder>/<split>/<scenario>.npz` holds `indices` (int64, split-local positions of the days to which
the scenario applies), `masks_packed` (uint8, each `(19, 1440)` mask as 3420 bytes in row order, most
significant bit first) and `shape` (days, 19, 1440).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from wearjax import npz, writing
from wearjax.channels import MINUTES_PER_DAY, N_CHANNELS
from wearjax.errors import StoreError
from wearjax.segments import masks

MASK_SEED = 42
# Names that seeds and files carry, by what people call the split.
SPLIT_NAMES = {"validation": "val", "val": "val", "test": "test", "train": "train"}

ValuesAt = Callable[[int], Float32[np.ndarray, "channel=19 minute"]]


def split_name(split: str) -> str:
    """The name of a split in seeds and file names; `validation` is `val`."""
    return SPLIT_NAMES.get(split, split)


def scenario_seed(scenario: str, split: str, mask_seed: int = MASK_SEED) -> int:
    """Seed of a scenario in a split; the day at split-local position i draws from `default_rng(seed + i)`.

    `mask_seed` plus two offsets hashed from the names (OpenMHC evaluation, seeding of the masks).
    """
    return mask_seed + _md5(split_name(split)) % 1000 + _md5(scenario) % 10000


def _md5(text: str) -> int:
    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16)


def cache_path(folder: str | os.PathLike, split: str, scenario: str) -> Path:
    """Where the masks of a scenario lie in a folder of masks."""
    return Path(folder) / split_name(split) / f"{scenario}.npz"


@dataclass(frozen=True, eq=False)
class MaskSet:
    """The masks of one scenario over the days of one split.

    Attributes:
        indices: ascending split-local positions of the days that have a mask.
        packed: their masks, bit-packed, one row a day.
        shape: channels and minutes of a mask.
    """

    indices: Int64[np.ndarray, " applicable"]
    packed: UInt8[np.ndarray, "applicable bytes"] = field(repr=False)
    shape: tuple[int, int]

    @classmethod
    def generate(
        cls,
        values_at: ValuesAt,
        n: int,
        scenario: str,
        split: str,
        mask_seed: int = MASK_SEED,
    ) -> MaskSet:
        """Masks of one scenario; see `generate`, which reads each day once for several."""
        return generate(values_at, n, (scenario,), split, mask_seed)[scenario]

    @classmethod
    def load(cls, path: str | os.PathLike) -> MaskSet:
        """Reads a published mask file.

        Raises:
            StoreError: the file is missing, unreadable, or its arrays do not fit together.
        """
        path = Path(path)
        try:
            arrays = npz.load(path)
            indices, packed, shape = (arrays[name] for name in ("indices", "masks_packed", "shape"))
        except FileNotFoundError:
            raise StoreError(f"{path}: mask file is missing") from None
        except KeyError as error:
            raise StoreError(f"{path}: not a mask file, array {error} is missing") from None
        except (ValueError, OSError) as error:
            raise StoreError(f"{path}: not a readable mask file ({error})") from None
        return cls(*_checked(path, indices, packed, shape))

    def save(self, path: str | os.PathLike) -> None:
        """Writes the published form; the file appears whole or not at all."""
        shape = np.array((len(self), *self.shape), np.int64)
        with writing.file(path) as partial, open(partial, "wb") as file:
            np.savez_compressed(file, indices=self.indices, masks_packed=self.packed.ravel(), shape=shape)

    def mask(self, position: int) -> Bool[np.ndarray, "channel minute"] | None:
        """The mask of the day at a split-local position, or None where the scenario does not apply."""
        row = int(np.searchsorted(self.indices, position))
        if row == len(self.indices) or self.indices[row] != position:
            return None
        bits = np.unpackbits(self.packed[row], count=self.shape[0] * self.shape[1])
        return bits.reshape(self.shape).view(bool)

    def __len__(self) -> int:
        return len(self.indices)


def generate(
    values_at: ValuesAt,
    n: int,
    scenarios: Iterable[str],
    split: str,
    mask_seed: int = MASK_SEED,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, MaskSet]:
    """Masks of several scenarios over a split, reading each day once.

    Args:
        values_at: cleaned values of the day at a split-local position, NaN = not measured.
        n: days in the split.
        scenarios: names out of `masks.SCENARIOS`.
        split: `validation` (or `val`) or `test`; part of the seed.
        mask_seed: the benchmark's masks use 42.
        progress: called with days done and days in all.

    Raises:
        ConfigError: a scenario is unknown or a day does not have 19 channels.
        StoreError: days of different lengths.
    """
    names = tuple(scenarios)
    seeds = {name: scenario_seed(name, split, mask_seed) for name in names}
    rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
    indices: dict[str, list[int]] = {name: [] for name in names}
    shape: tuple[int, int] | None = None
    for position in range(n):
        values = values_at(position)
        shape = shape or values.shape
        if values.shape != shape:
            raise StoreError(f"{split} day {position}: shape {values.shape}, the days before have {shape}")
        observed = ~np.isnan(values)
        for name in names:
            # Seeding a generator costs more than a semantic mask, which draws nothing.
            rng = np.random.default_rng(seeds[name] + position) if name in masks.STRUCTURAL else None
            mask, applicable = masks.make_mask(name, values, observed, rng)
            if applicable:
                indices[name].append(position)
                rows[name].append(np.packbits(mask))
        if progress:
            progress(position + 1, n)
    return {
        name: _stacked(indices[name], rows[name], shape or (N_CHANNELS, MINUTES_PER_DAY)) for name in names
    }


def _stacked(indices: list[int], rows: list[np.ndarray], shape: tuple[int, int]) -> MaskSet:
    n_bytes = -(-shape[0] * shape[1] // 8)
    packed = np.stack(rows) if rows else np.zeros((0, n_bytes), np.uint8)
    return MaskSet(np.array(indices, np.int64), packed, shape)


def _checked(
    path: Path, indices: np.ndarray, packed: np.ndarray, shape: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """The arrays of a mask file as a MaskSet holds them, in ascending order of position."""
    if shape.shape != (3,) or shape[1] != N_CHANNELS or shape[2] < 1:
        raise StoreError(f"{path}: shape must be (days, {N_CHANNELS}, minutes), found {shape.tolist()}")
    n, n_channels, n_minutes = (int(size) for size in shape)
    if indices.shape != (n,) or indices.dtype.kind not in "iu":
        raise StoreError(f"{path}: indices must be {n} integers, found {indices.dtype} {indices.shape}")
    n_bytes = -(-n_channels * n_minutes // 8)
    if packed.dtype != np.uint8 or packed.size != n * n_bytes:
        raise StoreError(
            f"{path}: masks_packed must hold {n} x {n_bytes} bytes, found {packed.dtype} {packed.shape}"
        )
    order = np.argsort(indices, kind="stable")
    indices, packed = indices.astype(np.int64)[order], packed.reshape(n, n_bytes)
    if n and (indices[0] < 0 or np.any(np.diff(indices) == 0)):
        raise StoreError(f"{path}: indices must be distinct positions from 0")
    in_order = bool(np.all(order[:-1] < order[1:]))
    return indices, packed if in_order else packed[order], (n_channels, n_minutes)
