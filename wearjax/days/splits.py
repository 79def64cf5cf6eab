"""Who trains, who validates, who tests: participants never cross a split."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from wearjax import json_text, writing
from wearjax.days.store import Days
from wearjax.errors import ConfigError, StoreError
from wearjax.sources import openmhc

FILE = "splits.json"
TRAIN_SHARE, VALIDATION_SHARE = 0.6, 0.1  # the rest tests; the shares of OpenMHC
MIN_PARTICIPANTS = 3
_ALIASES = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class Splits:
    """Participant ids of each split."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self):
        members = [*self.train, *self.validation, *self.test]
        if len(set(members)) != len(members):
            twice = next(m for m, count in Counter(members).items() if count > 1)
            raise StoreError(f"splits: {twice} stands twice")

    def of(self, split: str) -> tuple[str, ...]:
        """Participants of one split. Raises ConfigError on an unknown name; `val` is `validation`."""
        if split not in _ALIASES:
            raise ConfigError(f"split {split!r}; known: train, validation (val), test")
        return getattr(self, _ALIASES[split])

    def indices(self, days: Days, split: str, *, retained_only: bool = True) -> Int64[np.ndarray, "day"]:
        """Positions in `days` of one split's days, ascending; by default only days that pass both filters."""
        wanted = set(self.of(split))
        inside = np.fromiter((p in wanted for p in days.participants), bool, len(days))
        return np.flatnonzero(inside & days.retained if retained_only else inside).astype(np.int64)

    def unassigned(self, participants: Iterable[str]) -> tuple[str, ...]:
        """Those of `participants` that are in no split, sorted."""
        return tuple(sorted({str(p) for p in participants} - {*self.train, *self.validation, *self.test}))


def make_splits(participants: Iterable[str], *, seed: int = 42) -> Splits:
    """Divides participants 0.6 : 0.1 : 0.3 at random, each in exactly one split and no split empty.

    The result depends on the seed and the set of ids only, not on their order. Below three participants one
    split would be empty: ConfigError.
    """
    ids = sorted({str(p) for p in participants})
    if len(ids) < MIN_PARTICIPANTS:
        raise ConfigError(f"{len(ids)} participants: at least {MIN_PARTICIPANTS} are needed to split")
    mixed = [ids[i] for i in np.random.default_rng(seed).permutation(len(ids))]
    validation = max(1, round(VALIDATION_SHARE * len(ids)))
    train = min(round(TRAIN_SHARE * len(ids)), len(ids) - validation - 1)
    parts = mixed[:train], mixed[train : train + validation], mixed[train + validation :]
    return Splits(*(tuple(sorted(part)) for part in parts))


def read_splits(data_dir: str | os.PathLike) -> Splits:
    """Splits of a store (`splits.json`) or of an OpenMHC data root.

    Raises StoreError when a store has none or it is not readable; SourceError for a root's own file.
    """
    data_dir = Path(data_dir)
    if (data_dir / openmhc.MARKER).exists() and not (data_dir / FILE).exists():
        found = openmhc.read_splits(data_dir)
        return Splits(*(tuple(found[name]) for name in openmhc.SPLITS))
    file = data_dir / FILE
    try:
        return from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(
            f"{file}: no splits. An import divides its participants when there are at least {MIN_PARTICIPANTS}; "
            "a store of fewer can be imputed, but not trained on or scored"
        ) from None
    except StoreError as error:
        raise StoreError(f"{file}: {error}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: expected lists train, validation, test ({error!r})") from None


def write_splits(path: str | os.PathLike, splits: Splits) -> Path:
    """Writes a file, or `splits.json` into a folder; it appears whole or not at all. Returns the file."""
    path = Path(path)
    file = path / FILE if path.is_dir() else path
    with writing.file(file) as partial:
        partial.write_text(to_json(splits), encoding="utf-8")
    return file


def to_json(splits: Splits) -> str:
    return json.dumps({name: list(splits.of(name)) for name in openmhc.SPLITS}, indent=1) + "\n"


def from_json(text: str) -> Splits:
    content = json_text.loads(text)
    middle = content["validation"] if "validation" in content else content["val"]
    parts = (content["train"], middle, content["test"])
    if not all(isinstance(part, list) for part in parts):
        raise TypeError("a split is not a list")
    return Splits(*(tuple(str(p) for p in part) for part in parts))
