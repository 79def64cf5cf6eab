"""Fairness: how unequal a method's errors are across subgroups, relative to the baseline's inequality."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from jaxtyping import Bool, Float

from wearjax.scores import skill

UNKNOWN = "unknown"
AGE_STARTS = (18, 30, 40, 50, 60)
SEXES = ("female", "male")
_ROUNDING = 16 * np.finfo(np.float64).eps


def age_labels(starts: Sequence[int] = AGE_STARTS) -> tuple[str, ...]:
    """Names of the age groups, e.g. `18-29`; the last is open, e.g. `60+`."""
    closed = [f"{low}-{high - 1}" for low, high in pairwise(starts)]
    return (*closed, f"{starts[-1]}+")


def age_group(age: float | None, *, starts: Sequence[int] = AGE_STARTS, minors_in_first: bool = False) -> str:
    """Age group of an age in years; `unknown` where the age is missing, not finite or below the first group.

    Args:
        minors_in_first: count ages below the first start to the first group (the prediction track's rule).
    """
    if age is None or not np.isfinite(age):
        return UNKNOWN
    position = int(np.searchsorted(starts, age, side="right")) - 1
    if position < 0:
        return age_labels(starts)[0] if minors_in_first else UNKNOWN
    return age_labels(starts)[position]


def disparities(
    errors: Float[np.ndarray, "group ..."], baseline: Float[np.ndarray, "group ..."]
) -> tuple[Float[np.ndarray, "*outer"], Float[np.ndarray, "*outer"]]:
    """Mean absolute difference of the errors of two subgroups, of a method and of the baseline.

    Over the pairs of those subgroups for which both have a value; NaN with fewer than two (OpenMHC
    evaluation, shared operators).
    """
    present = np.isfinite(errors) & np.isfinite(baseline)
    own = np.zeros(present.shape[1:])
    other = np.zeros(present.shape[1:])
    pairs = np.zeros(present.shape[1:])
    for first, second in combinations(range(len(errors)), 2):
        both = present[first] & present[second]
        own += np.where(both, np.abs(errors[first] - errors[second]), 0.0)
        other += np.where(both, np.abs(baseline[first] - baseline[second]), 0.0)
        pairs += both
    undefined = np.full(pairs.shape, np.nan)
    return (
        np.divide(own, pairs, out=undefined.copy(), where=pairs > 0),
        np.divide(other, pairs, out=undefined, where=pairs > 0),
    )


def log_disparity_ratios(
    errors: Float[np.ndarray, "group ..."], baseline: Float[np.ndarray, "group ..."]
) -> Float[np.ndarray, "*outer"]:
    """Clipped log of the method's disparity over the baseline's; NaN where the baseline has none.

    A disparity within the rounding of the errors is none: two equal means may differ in their last bit.
    """
    own, other = disparities(errors, baseline)
    largest = np.where(np.isfinite(baseline), np.abs(baseline), 0.0).max(axis=0, initial=0.0)
    return skill.paired_log_ratios(own, np.where(other > _ROUNDING * largest, other, 0.0))


def over_attributes(
    skills: Float[np.ndarray, "attribute ..."], required: Bool[np.ndarray, " attribute"]
) -> Float[np.ndarray, "*outer"]:
    """Arithmetic mean over the required attributes; NaN where one of them is missing or none is required."""
    if not required.any():
        return np.full(skills.shape[1:], np.nan)
    return skills[required].mean(axis=0)
