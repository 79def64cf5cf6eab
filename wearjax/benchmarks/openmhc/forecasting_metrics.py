"""Metrics of forecasts: quantile loss of cells, areas and F1 of flags, and the table of everybody's metrics.

OpenMHC evaluation, forecasting track.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from wearjax import channels
from wearjax.channels import N_CHANNELS
from wearjax.scores import classification

CONTINUOUS_METRICS = ("mae", "mse", "mase", "mase_all", "ql", "sql")
BINARY_METRICS = ("auroc", "auprc", "f1")
SCORED = {"continuous": "mae", "binary": "auroc"}
THRESHOLD = 0.5


def quantile_loss(
    target: Float[np.ndarray, "*cell"],
    quantiles: Float[np.ndarray, "*cell level"],
    levels: Sequence[float],
) -> Float64[np.ndarray, "*cell"]:
    """Pinball loss of each cell, mean over the levels with a finite term; NaN without any.

    A value equal to the quantile counts as covered.
    """
    total, count = np.zeros(target.shape), np.zeros(target.shape)
    for i, level in enumerate(levels):
        guess = quantiles[..., i].astype(np.float64)
        term = (level - (target <= guess)) * (target - guess)
        finite = np.isfinite(term)
        total += np.where(finite, term, 0.0)
        count += finite
    return np.divide(total, count, out=np.full(target.shape, np.nan), where=count > 0)


def _flags(target: np.ndarray, score: np.ndarray) -> Bool[np.ndarray, "*cell"]:
    return ((target == 0.0) | (target == 1.0)) & np.isfinite(score)


def f1(labels: Bool[np.ndarray, " cell"], scores: Float[np.ndarray, " cell"]) -> float:
    """F1 of `scores >= 0.5`; NaN without a positive."""
    if not labels.any():
        return float("nan")
    flagged = scores >= THRESHOLD
    hits = np.count_nonzero(flagged & labels)
    return 2.0 * hits / (np.count_nonzero(flagged) + np.count_nonzero(labels))


def pooled(
    target: Float[np.ndarray, "window horizon"], score: Float[np.ndarray, "window horizon"]
) -> dict[str, float]:
    """AUROC (both classes needed), AUPRC and F1 (a positive needed) of all cells whose target is 0 or 1."""
    usable = _flags(target, score)
    labels, scores = target[usable] == 1.0, score[usable]
    return {
        "auroc": classification.roc_auc(labels, scores),
        "auprc": classification.average_precision(labels, scores),
        "f1": f1(labels, scores),
    }


def of_windows(
    target: Float[np.ndarray, "window horizon"], score: Float[np.ndarray, "window horizon"]
) -> dict[str, Float64[np.ndarray, " positive_window"]]:
    """As `pooled`, of every window by itself; windows without a positive, which have none, are left out."""
    usable = _flags(target, score)
    rows = (usable & (target == 1.0)).any(axis=1)
    usable, score = usable[rows], score[rows].astype(np.float64)
    on = usable & (target[rows] == 1.0)
    off = usable & ~on
    # Of each cell i (last but one axis): the usable cells j that score at least as high.
    not_below = (score[:, None, :] >= score[:, :, None]) & usable[:, None, :]
    level = (score[:, None, :] == score[:, :, None]) & usable[:, None, :]
    n_on, n_off = on.sum(axis=1), off.sum(axis=1)
    above = (not_below & off[:, None, :]).sum(axis=2) - 0.5 * (level & off[:, None, :]).sum(axis=2)
    beaten = np.where(on, n_off[:, None] - above, 0.0).sum(axis=1)
    hits = (not_below & on[:, None, :]).sum(axis=2)
    precision = np.where(on, hits / np.maximum(not_below.sum(axis=2), 1), 0.0).sum(axis=1)
    flagged = usable & (score >= THRESHOLD)
    undefined = np.full(len(score), np.nan)
    return {
        "auroc": np.divide(beaten, n_on * n_off, out=undefined, where=n_off > 0),
        "auprc": precision / np.maximum(n_on, 1),
        "f1": 2.0 * (flagged & on).sum(axis=1) / np.maximum(flagged.sum(axis=1) + n_on, 1),
    }


@dataclass(frozen=True, eq=False)
class UserMetrics:
    """Metrics of every method, channel and participant; NaN where one has none.

    Attributes:
        windows: evaluated windows of each participant.
        values: metric name to its value: over all of a participant's cells together.
        n_values: metric name to the number of cells behind it (1 for a flag's metrics).
        substituted, asked: cells that seasonal naive filled in, and all cells, of each channel.
        by_window: method, then `ch_<i>`, then metric: mean over windows of each window's mean.
    """

    methods: tuple[str, ...]
    participants: tuple[str, ...]
    windows: Int64[np.ndarray, " participant"]
    values: dict[str, Float64[np.ndarray, "method channel=19 participant"]] = field(default_factory=dict)
    n_values: dict[str, Int64[np.ndarray, "method channel=19 participant"]] = field(default_factory=dict)
    substituted: Int64[np.ndarray, "method channel=19"] = field(default_factory=lambda: np.zeros(0, np.int64))
    asked: Int64[np.ndarray, "method channel=19"] = field(default_factory=lambda: np.zeros(0, np.int64))
    by_window: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)

    def __post_init__(self):
        shape = (len(self.methods), N_CHANNELS, len(self.participants))
        for name in (*CONTINUOUS_METRICS, *BINARY_METRICS):
            self.values.setdefault(name, np.full(shape, np.nan))
            self.n_values.setdefault(name, np.zeros(shape, np.int64))
        for name in ("substituted", "asked"):
            if not getattr(self, name).size:
                object.__setattr__(self, name, np.zeros(shape[:2], np.int64))

    @property
    def scored(self) -> Float64[np.ndarray, "method channel=19 participant"]:
        """The metric that each channel is scored by: mean absolute error, or the area under the ROC curve."""
        is_flag = np.isin(np.arange(N_CHANNELS), channels.BINARY)[:, None]
        return np.where(is_flag, self.values["auroc"], self.values["mae"])

    def fallback_rate(self, method: str) -> float:
        """Share of substituted cells over all channels and windows."""
        m = self.methods.index(method)
        asked = int(self.asked[m].sum())
        return float(self.substituted[m].sum()) / asked if asked else 0.0

    def fallback_rates(self, method: str) -> dict[str, float]:
        """Share of each channel in which there was any: `ch_<i>`."""
        m = self.methods.index(method)
        pairs = zip(self.substituted[m].tolist(), self.asked[m].tolist(), strict=True)
        return {f"ch_{c}": n / asked for c, (n, asked) in enumerate(pairs) if n}
