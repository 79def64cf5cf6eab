"""What to train for a model configuration: the module and its objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flax import nnx

from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError
from wearjax.models import lsm2
from wearjax.objectives.masked_reconstruction import MaskedReconstruction


@dataclass(frozen=True)
class Task:
    """A model to build and an objective to minimise; the loop knows no more of either.

    Attributes:
        kind: name of the model in a bundle.
        build: makes the module from random streams.
        objective: makes the `step.Objective` from the statistics of the train days.
    """

    kind: str
    build: Callable[[nnx.Rngs], nnx.Module]
    objective: Callable[[NormalizationStats], Any]


def task_of(model: Any) -> Task:
    """The task of a model configuration. Raises ConfigError for a class that has none."""
    if isinstance(model, lsm2.LSM2Config):
        return Task("lsm2", lambda rngs: lsm2.LSM2(model, rngs=rngs), MaskedReconstruction)
    raise ConfigError(f"model: nothing is known about training a {type(model).__name__}")
