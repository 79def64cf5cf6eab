"""Which channels of a surgery a model sees and is scored on in VitalBench's incomplete track.

A draw keeps a random number of covariates and of targets, never all of either and at least one target (VitalBench,
section "Tracks"). Order and generator of the draws are those of the released code, NumPy's legacy stream, so that
the same cases lose the same channels.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int64

from wearjax.errors import ConfigError
from wearjax.segments.vital_settings import SEED


class ChannelDraws:
    """A stream of draws of kept channels.

    Channels are numbered as a model sees them: covariates first, then targets.
    """

    def __init__(self, n_covariates: int, n_targets: int, *, seed: int = SEED):
        if n_covariates < 1 or n_targets < 2:
            raise ConfigError(
                f"channels: a draw needs a covariate and two targets, got {n_covariates} and {n_targets}"
            )
        self.n_covariates, self.n_targets = n_covariates, n_targets
        self._stream = np.random.RandomState(seed)

    def draw(self) -> Int64[np.ndarray, " kept"]:
        """The next kept channels, ascending."""
        covariates = self._subset(0, self.n_covariates)
        return np.concatenate((covariates, self.n_covariates + self._subset(1, self.n_targets)))

    def _subset(self, least: int, total: int) -> Int64[np.ndarray, " kept"]:
        size = self._stream.randint(least, total)  # the upper end is exclusive: never all
        return np.sort(self._stream.permutation(total)[:size]).astype(np.int64)


def of_cases(
    n_covariates: int, n_targets: int, n_cases: int, *, seed: int = SEED
) -> list[Int64[np.ndarray, " kept"]]:
    """Kept channels of each validation or test case, in the order of the split's list."""
    draws = ChannelDraws(n_covariates, n_targets, seed=seed)
    return [draws.draw() for _ in range(n_cases)]


def of_batches(
    n_covariates: int, n_targets: int, first: int, count: int, *, seed: int = SEED
) -> list[Int64[np.ndarray, " kept"]]:
    """Kept channels of `count` training batches of a run, from batch `first` of all its epochs on.

    The released code spends one draw before the first batch.
    """
    draws = ChannelDraws(n_covariates, n_targets, seed=seed)
    for _ in range(first + 1):
        draws.draw()
    return [draws.draw() for _ in range(count)]


def complete(n_channels: int, n_cases: int) -> list[Int64[np.ndarray, " kept"]]:
    """All channels for every case."""
    return [np.arange(n_channels, dtype=np.int64)] * n_cases


def last_targets_of_training(n_covariates: int, n_targets: int, *, seed: int = SEED) -> int:
    """How many of the last targets the released code trains on in the complete track."""
    return int((ChannelDraws(n_covariates, n_targets, seed=seed).draw() >= n_covariates).sum())


def last_targets_of_cases(
    n_covariates: int, n_targets: int, n_cases: int, *, seed: int = SEED
) -> Int64[np.ndarray, " case"]:
    """How many of the last targets the released code scores each case on in the complete track."""
    kept = of_cases(n_covariates, n_targets, n_cases, seed=seed)
    return np.array([(channels >= n_covariates).sum() for channels in kept], np.int64)


def scored(n_channels: int, n_last: int) -> Bool[np.ndarray, " channel"]:
    """True for the last channels."""
    return np.arange(n_channels) >= n_channels - n_last
