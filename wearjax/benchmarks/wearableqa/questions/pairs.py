"""Pairs of signals in the window: which ones there are, and all their correlations at once to look for candidates."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import primitives, windows
from wearjax.benchmarks.wearableqa.candidate import Coupling, Person
from wearjax.benchmarks.wearableqa.graph import Leaf
from wearjax.benchmarks.wearableqa.primitives_pairs import LAGS
from wearjax.daily_metrics import INDEX, METRICS, N_METRICS, is_definitional

Pair = tuple[str, str]  # in the order of the table
Tag = Literal["definitional", "empirical"]
LEAST_LAGGED = windows.PAIRED_DAYS - max(LAGS) - 1  # days that a pair at a lag must share; one may be deleted


@dataclass(frozen=True, eq=False)
class Pairs:
    """The valid pairs of a person at an end date.

    Attributes:
        window: the 28 days of all metrics.
    """

    valid: tuple[Pair, ...]
    window: Float64[np.ndarray, "day metric=16"]

    def tagged(self, tag: Tag) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.valid if tag_of(pair) == tag)

    def sides(self, pairs: tuple[Pair, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Both metrics of some pairs, (pair, day) each."""
        columns = np.array([[INDEX[a], INDEX[b]] for a, b in pairs], np.int64).reshape(-1, 2)
        return self.window[:, columns[:, 0]].T, self.window[:, columns[:, 1]].T

    def lagged(
        self, pairs: tuple[Pair, ...], lags: tuple[int, ...] = LAGS
    ) -> Float64[np.ndarray, "pair lag"]:
        """ρ of some pairs at each lag, as their graphs compute it."""
        rows = [self._place[pair] for pair in pairs]
        return self._every[np.ix_(rows, [LAGS.index(lag) for lag in lags])]

    @functools.cached_property
    def _place(self) -> dict[Pair, int]:
        return {pair: i for i, pair in enumerate(self.valid)}

    @functools.cached_property
    def _every(self) -> Float64[np.ndarray, "pair lag"]:
        a, b = self.sides(self.valid)
        later = np.stack([_later(b, lag) for lag in LAGS], axis=1)
        return primitives.correlation(a[:, None], later, min_pairs=LEAST_LAGGED)


@functools.lru_cache(maxsize=windows.MAX_ENDS)  # three types look at the same pairs, one after the other
def of(person: Person, end: int) -> Pairs:
    """Valid metrics that share enough days, as a whole and in each half."""
    window = person.record.between(end + windows.WINDOW_RANGE[0], end)
    metrics = windows.valid_metrics(person.record, end)
    there = np.isfinite(window).astype(np.float64)
    first, second = (half.T @ half for half in (there[: windows.HALF], there[windows.HALF :]))
    enough = (first + second >= windows.PAIRED_DAYS) & (np.minimum(first, second) >= windows.HALF_DAYS)
    every = itertools.combinations(metrics, 2)
    return Pairs(tuple((a, b) for a, b in every if enough[INDEX[a], INDEX[b]]), window)


def tag_of(pair: Pair) -> Tag:
    """Whether a pair is tied by definition."""
    return "definitional" if is_definitional(*pair) else "empirical"


def code_of(pair: Pair) -> int:
    """The number by which answers name a pair."""
    return INDEX[pair[0]] * N_METRICS + INDEX[pair[1]]


def pair_of(code: int) -> Pair:
    """The pair of a number."""
    return METRICS[code // N_METRICS].key, METRICS[code % N_METRICS].key


def leaf(metric: str, lag: int = 0) -> Leaf:
    """The window, so many days later."""
    first, last = windows.WINDOW_RANGE
    return Leaf("series", metric, first + lag, last + lag, "window")


def searched(pairs: tuple[Pair, ...], lags: tuple[int, ...] = LAGS) -> tuple[Coupling, ...]:
    """Every coupling that a search over pairs and lags looks at."""
    return tuple((a, b, lag) for a, b in pairs for lag in lags)


def _later(x: Float64[np.ndarray, "pair day"], lag: int) -> Float64[np.ndarray, "pair day"]:
    out = np.full_like(x, np.nan)
    kept = np.arange(max(0, -lag), x.shape[1] - max(0, lag))
    out[:, kept] = x[:, kept + lag]
    return out
