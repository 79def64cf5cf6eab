"""Per-participant errors: the one table that every benchmark scores from.

Tasks are opaque labels here; a benchmark decides what they are and how they nest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from wearjax.errors import ConfigError

_HALF_OVERFLOW = 65520.0  # from here on float16 rounds to infinity


@dataclass(frozen=True, eq=False)
class SubgroupErrors:
    """Errors inside the subgroups of one attribute, e.g. `sex`.

    Attributes:
        values: names of the subgroups.
        errors: NaN where the participant has nothing in the subgroup. A participant may be in several.
    """

    values: tuple[str, ...]
    errors: Float[np.ndarray, "group method task participant"]


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Errors of several methods on the same tasks and participants; lower is better, NaN = no value.

    Attributes:
        errors: one error a participant, without any floor.
        subgroups: attribute name to the errors inside its subgroups; empty without demographics.
    """

    methods: tuple[str, ...]
    tasks: tuple[Any, ...]
    participants: tuple[str, ...]
    errors: Float[np.ndarray, "method task participant"]
    subgroups: Mapping[str, SubgroupErrors] = field(default_factory=dict)

    def __post_init__(self):
        shape = (len(self.methods), len(self.tasks), len(self.participants))
        if self.errors.shape != shape:
            raise ValueError(
                f"errors: shape {self.errors.shape}, expected (method, task, participant) = {shape}"
            )
        for name, group in self.subgroups.items():
            if group.errors.shape != (len(group.values), *shape):
                raise ValueError(
                    f"errors of {name}: shape {group.errors.shape}, expected {(len(group.values), *shape)}"
                )

    def method_index(self, method: str) -> int:
        """Raises ConfigError when the table has no such method."""
        if method not in self.methods:
            raise ConfigError(f"method {method!r} is not in the table (it has {', '.join(self.methods)})")
        return self.methods.index(method)


def half_precision(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Values as a pair file keeps them: rounded to float16, read back as float32; infinite beyond 65504.

    OpenMHC evaluation, imputation scoring: errors are of these rounded values.
    """
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def within_half_precision(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The values, infinite where `half_precision` would make them so; the same array where none is.

    An error of such a value is undefined: whoever wants to score all methods on the same cells must replace it.
    """
    beyond = np.abs(values) >= _HALF_OVERFLOW
    return np.where(beyond, np.float32(np.inf), values) if beyond.any() else values


def error_sums(
    truth: Float[np.ndarray, " cell"],
    prediction: Float[np.ndarray, " cell"],
    row: Int[np.ndarray, " cell"],
    n_rows: int,
) -> tuple[Int[np.ndarray, " row"], Float[np.ndarray, " row"], Float[np.ndarray, " row"]]:
    """Count, sum of absolute errors and sum of squared errors of the cells of each row, in float64."""
    with np.errstate(invalid="ignore"):  # two infinities that came from rounding have no difference
        difference = np.abs(prediction.astype(np.float64) - truth.astype(np.float64))
    count = np.bincount(row, minlength=n_rows)
    absolute = np.bincount(row, weights=difference, minlength=n_rows)
    squared = np.bincount(row, weights=difference * difference, minlength=n_rows)
    return count, absolute, squared
