"""A metric in usual spreads from the usual level, where questions of course, excursion, recovery and shift start."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import primitives, windows
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.graph import Leaf, Node
from wearjax.daily_metrics import INDEX

LEVEL = Node("level", "median", ("b",))
SPREAD = Node("spread", "scale", ("b",))
NODES = (LEVEL, SPREAD, Node("z", "robust_z", ("w", "level", "spread")))


def leaves(metric: str) -> dict[str, Leaf]:
    """The window `w` and the baseline `b` of a metric."""
    return {
        "w": Leaf("series", metric, *windows.WINDOW_RANGE, group="window"),
        "b": Leaf("series", metric, *windows.baseline_range(), group="baseline"),
    }


@dataclass(frozen=True, eq=False)
class Usual:
    """All metrics of a person at an end date.

    Attributes:
        metrics: those with a valid window, a valid baseline and a spread.
        z: (metric of the table, 112 days up to the end date), in usual spreads from the usual level.
        level, spread: of every metric of the table, in its unit.
    """

    metrics: tuple[str, ...]
    z: Float64[np.ndarray, "metric=16 day"]
    level: Float64[np.ndarray, "metric=16"]
    spread: Float64[np.ndarray, "metric=16"]

    def window(self, metric: str) -> Float64[np.ndarray, "window"]:
        return self.z[INDEX[metric], -windows.WINDOW :]

    def previous(self, metric: str) -> Float64[np.ndarray, "window"]:
        """The window before."""
        return self.z[INDEX[metric], -2 * windows.WINDOW : -windows.WINDOW]


@functools.lru_cache(maxsize=windows.MAX_ENDS)  # many types start here, one after the other
def of(person: Person, end: int) -> Usual:
    """Computed by the graphs' own primitives, so that both agree to the last bit."""
    days = person.record.between(end + windows.baseline_range()[0], end).T
    before = days[:, : -windows.WINDOW]
    level, spread = primitives.median(before), primitives.scale(before)
    enough = np.isfinite(before).mean(axis=1) >= windows.BASELINE_SHARE
    usable = enough & np.isfinite(spread[:, 0])
    metrics = tuple(key for key in windows.valid_metrics(person.record, end) if usable[INDEX[key]])
    return Usual(metrics, primitives.robust_z(days, level, spread), level[:, 0], spread[:, 0])
