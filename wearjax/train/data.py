"""The days of a run: which are trained on, which validate, and how their values are normalised."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from wearjax.days import normalization, splits
from wearjax.days.open import open_days
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.train.config import DataConfig


@dataclass(frozen=True)
class TrainingDays:
    """Store indices of the days that a run uses."""

    days: Days
    train: Int64[np.ndarray, "train"]
    validation: Int64[np.ndarray, "validation"]

    def fit_normalization(self) -> normalization.NormalizationStats:
        """Statistics of the train days."""
        return normalization.fit(self.days, self.train)

    def digest(self) -> str:
        """Changes when a run would see other days, or in another order."""
        digest = hashlib.sha256()
        for indices in (self.train, self.validation):
            for index in indices:
                digest.update(f"{self.days.participants[index]} {self.days.dates[index]}\n".encode())
            digest.update(b"\n")
        return digest.hexdigest()[:16]


def open_training_days(data_dir: str | os.PathLike | None, config: DataConfig) -> TrainingDays:
    """Opens a store, takes its train and validation days. Raises ConfigError if none can be trained on."""
    if data_dir is None:
        raise ConfigError("no data: give the store with --data, or set data.path in the configuration")
    days, split = open_days(data_dir), splits.read_splits(data_dir)
    train = split.indices(days, "train", retained_only=config.retained_only)[: config.max_train_days]
    validation = split.indices(days, "validation", retained_only=config.retained_only)
    if not len(train):
        kept = " that passes the wear-time and variance filters" if config.retained_only else ""
        raise ConfigError(f"{data_dir}: no day in the train split{kept}")
    return TrainingDays(days, train, validation)
