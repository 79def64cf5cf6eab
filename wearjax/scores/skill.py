"""Skill against a baseline: paired, clipped error ratios, combined by nested geometric means.

OpenMHC evaluation, shared operators: the ratio of a task is the geometric mean over participants of their
clipped ratios; the skill of a set of tasks is one minus the (nested) geometric mean of the tasks' ratios.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

RATIO_MIN = 0.01
RATIO_MAX = 100.0
BINARY_FLOOR = 0.005


def clip_log(ratio: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Logarithm of ratios clipped to [0.01, 100]; NaN stays NaN."""
    return np.log(np.clip(ratio, RATIO_MIN, RATIO_MAX))


def floored(
    errors: Float[np.ndarray, "*outer task participant"], tasks: Bool[np.ndarray, " task"]
) -> Float[np.ndarray, "*outer task participant"]:
    """A copy in which the errors of the marked tasks are at least 0.005."""
    floor = np.where(tasks, BINARY_FLOOR, -np.inf)[:, None]
    return np.maximum(errors, floor)  # maximum keeps NaN


def paired_log_ratios(
    errors: Float[np.ndarray, "*outer"], baseline: Float[np.ndarray, "*outer_or_one"]
) -> Float[np.ndarray, "*outer"]:
    """Clipped log of error over baseline error, pair by pair.

    NaN where either is not finite or the baseline error is not positive: such a pair does not exist.
    """
    usable = np.isfinite(errors) & np.isfinite(baseline) & (baseline > 0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(usable, errors / baseline, np.nan)
    return clip_log(ratio)


def group_mean(
    values: Float[np.ndarray, "*outer member"], membership: Bool[np.ndarray, "member group"]
) -> Float[np.ndarray, "*outer group"]:
    """Mean over the members of each group, NaN ignored; NaN where a group has no value.

    Chained, this gives every nested mean; with arithmetic values it is the domain-balanced mean.
    """
    finite = np.isfinite(values)
    weight = membership.astype(np.float64)
    count = finite.astype(np.float64) @ weight
    total = np.where(finite, values, 0.0) @ weight
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def group_count(
    values: Float[np.ndarray, "*outer member"], membership: Bool[np.ndarray, "member group"]
) -> Int[np.ndarray, "*outer group"]:
    """Number of finite members of each group."""
    return np.isfinite(values).astype(np.int64) @ membership.astype(np.int64)


def from_log_ratio(log_ratio: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Skill, one minus the ratio: 1 is perfect, 0 equals the baseline."""
    return 1.0 - np.exp(log_ratio)
