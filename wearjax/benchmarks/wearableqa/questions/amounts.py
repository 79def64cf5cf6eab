"""False amounts around a true one, so many and so spaced that it can have any place among ten of them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

N = 9  # on each side at most, and altogether at least
SHARES = (0.08, 0.15, 0.25)  # by which an amount may be off, either way
LEAST_UNITS = 3  # rounding units between any two amounts
LEAST_GAP, LARGEST_GAP = 0.04, 0.12  # likewise, shares of the amount
ERRORS = 3.2  # standard errors between two amounts: resampled answers mostly stay nearest to the true one
_LOOSE = 1.3  # times the least gap, at most, between amounts of the ladder


@dataclass(frozen=True)
class Scale:
    """What amounts of a kind look like.

    Attributes:
        step: unit of rounding.
        low, high: what is plausible.
        error: standard error as a share of the true amount.
    """

    step: float
    low: float
    high: float
    error: float

    @functools.cached_property
    def share(self) -> float:
        """Least distance of two amounts, as a share of the smaller one."""
        wanted = ERRORS * self.error if np.isfinite(self.error) else LARGEST_GAP
        return min(max(wanted, LEAST_GAP), LARGEST_GAP)

    def gap(self, value: float) -> float:
        """Least distance of another amount from this one."""
        return max(LEAST_UNITS * self.step, self.share * value)

    def plausible(self, value: float) -> bool:
        return max(self.low, self.step / 2) <= value <= self.high

    def rounded(self, value: float) -> float:
        return float(np.floor(value / self.step + 0.5) * self.step)


def around(
    gold: float, lures: Iterable[float], scale: Scale, rng: np.random.Generator
) -> tuple[float, ...] | None:
    """Up to nine false amounts below the true one and nine above, by turns.

    On each side what one gets by a wrong computation comes first, then amounts that are off by fixed shares, then a
    ladder of uneven steps; a side ends where amounts are no longer plausible.

    Args:
        lures: results of wrong computations, the best first; NaN where there is none.

    Returns:
        None where there are not nine.
    """
    pool = [scale.rounded(each) for each in lures if np.isfinite(each)]
    pool += [scale.rounded(gold * (1 + side * share)) for share in SHARES for side in (-1, 1)]
    below = _side(gold, [each for each in pool if _end(gold, scale, -1) <= each < gold], scale, -1, rng)
    above = _side(gold, [each for each in pool if gold < each <= _end(gold, scale, 1)], scale, 1, rng)
    by_turns = [each for pair in itertools.zip_longest(below, above) for each in pair if each is not None]
    return tuple(by_turns) if len(by_turns) >= N else None


def _end(gold: float, scale: Scale, side: int) -> float:
    """How far a ladder of nine of the largest steps reaches."""
    value = gold
    for _ in range(N):
        value = _next(value, scale, side, _LOOSE)
    return value


def _next(value: float, scale: Scale, side: int, times: float) -> float:
    gap = times * scale.gap(value if side > 0 else value / (1 + scale.share))
    return value + side * gap


def _side(gold: float, pool: list[float], scale: Scale, side: int, rng: np.random.Generator) -> list[float]:
    """Amounts on one side of the true one."""
    chosen: list[float] = []
    for each in (*pool, *_ladder(gold, scale, side, rng)):
        if len(chosen) < N and scale.plausible(each) and all(_apart(each, x, scale) for x in (gold, *chosen)):
            chosen.append(each)
    while len(chosen) < N:  # beyond the outermost one
        outermost = max(chosen, key=lambda each: side * each) if chosen else gold
        each = scale.rounded(_next(outermost, scale, side, float(rng.uniform(1.0, _LOOSE))))
        each += side * scale.step * (not _apart(each, outermost, scale))
        if not scale.plausible(each):
            break
        chosen.append(each)
    return chosen


def _ladder(gold: float, scale: Scale, side: int, rng: np.random.Generator) -> Iterator[float]:
    value = gold
    for _ in range(N):
        value = _next(value, scale, side, float(rng.uniform(1.0, _LOOSE)))
        yield scale.rounded(value)


def _apart(a: float, b: float, scale: Scale) -> bool:
    return abs(a - b) >= scale.gap(min(a, b)) - 1e-6 * scale.step
