"""What to train for a model configuration: the module and its objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flax import nnx

from wearjax.days.normalization import NormalizationStats
from wearjax.models import registry
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


_OBJECTIVES = {"lsm2": MaskedReconstruction}


def task_of(model: Any) -> Task:
    """The task of a model configuration. Raises ConfigError for a class that has none."""
    architecture = registry.of(model)
    return Task(
        architecture.kind, lambda rngs: architecture.build(model, rngs=rngs), _OBJECTIVES[architecture.kind]
    )
