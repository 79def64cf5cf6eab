"""Shows other false options where the right one stands out among its ten: by likeness to them, or by its number.

False options that change one part of an answer each have the answer in the middle between them, and whoever knows that
need not read the record. Here the answer is the most alike of its options, the second most alike, ... equally often, as
far as spare options allow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64, Int64

if TYPE_CHECKING:
    from wearjax.benchmarks.wearableqa.option_balance import Draft

TEN = 10
SWAPS = 5  # of a question
ROUNDING = 1e-9
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
WORD = re.compile(r"[A-Za-z]{2,}\d?|\d[\d,.]*")
Allowed = Callable[[str, str], bool]


def numbers(text: str) -> list[float]:
    """All numbers of a text, in its order."""
    return [float(found.replace(",", "")) for found in _NUMBER.findall(text)]


def first_numbers(texts: Sequence[str]) -> Float64[np.ndarray, " option"]:
    """The first number of each text, 0 where it has none."""
    return np.array([next(iter(numbers(text)), 0.0) for text in texts])


def likeness(texts: Sequence[str]) -> Float64[np.ndarray, "option option"]:
    """Share of words that two texts have in common, of those that either has."""
    words = [set(WORD.findall(text.lower())) for text in texts]
    return np.array([[len(a & b) / max(len(a | b), 1) for b in words] for a in words])


def spread_out(
    drafts: Sequence[Draft], protected: int, allowed: Callable[[Counter, Counter], Allowed]
) -> None:
    """Exchanges false options of each draft, one for one, until its gold has a rank that few golds have so far.

    Args:
        protected: so many of the possible options, the best, stay where they are shown.
        allowed: makes, of how often each text is gold and how often it is shown, the rule by which one text may give
            way to another.
    """
    golds = Counter(draft.gold for draft in drafts)
    shown = Counter(text for draft in drafts for text in draft.shown)
    may, taken = allowed(golds, shown), np.zeros((2, TEN))
    for draft in drafts:
        if len(draft.shown) == TEN:
            texts = _Texts([draft.gold, *(option.text for option in draft.possible)])
            before = [0, *(texts.every.index(option.text) for option in draft.chosen)]
            after = _exchanged(before, texts, protected, may, shown, taken)
            draft.chosen = tuple(draft.possible[i - 1] for i in sorted(after[1:]))
            taken += np.stack([share[0] for share in texts.ranks(np.array([after]))])


class _Texts:
    """The gold, then all its possible false options."""

    def __init__(self, every: list[str]):
        self.every = every
        self._alike, self._first = likeness(every), first_numbers(every)

    def ranks(self, sets: Int64[np.ndarray, "set ten"]) -> tuple[Float64[np.ndarray, "set ten"], ...]:
        """Which ranks the gold, the first of each set, has by likeness and by number; shared among equals."""
        alike = self._alike[sets[:, :, None], sets[:, None, :]].sum(axis=2)
        return tuple(_shares(values) for values in (alike, self._first[sets]))

    def cost(
        self, sets: Int64[np.ndarray, "set ten"], taken: Float64[np.ndarray, "2 ten"]
    ) -> Float64[np.ndarray, " set"]:
        """How common the gold's ranks are so far."""
        return np.sum([share @ row for share, row in zip(self.ranks(sets), taken, strict=True)], axis=0)


def _exchanged(
    chosen: list[int], texts: _Texts, protected: int, may: Allowed, shown: Counter, taken: np.ndarray
) -> list[int]:
    """The chosen texts after the exchanges that make the gold's ranks rarest; counts them as shown."""
    every, cost = texts.every, texts.cost(np.array([chosen]), taken)[0]
    for _ in range(SWAPS):
        swaps = [
            (place, new)
            for place, old in enumerate(chosen)
            for new in range(1, len(every))
            if old > protected and new not in chosen and may(every[old], every[new])
        ]
        if not swaps:
            break
        sets = np.tile(chosen, (len(swaps), 1))
        sets[np.arange(len(swaps)), [place for place, _ in swaps]] = [new for _, new in swaps]
        costs = texts.cost(sets, taken)
        best = int(costs.argmin())
        if costs[best] >= cost - ROUNDING:
            break
        cost, (place, new) = costs[best], swaps[best]
        shown.subtract([every[chosen[place]]])
        shown.update([every[new]])
        chosen = [*chosen[:place], new, *chosen[place + 1 :]]
    return chosen


def _shares(values: Float64[np.ndarray, "set ten"]) -> Float64[np.ndarray, "set ten"]:
    below = (values < values[:, :1] - ROUNDING).sum(axis=1)[:, None]
    through = (values <= values[:, :1] + ROUNDING).sum(axis=1)[:, None]
    rank = np.arange(values.shape[1])
    return ((rank >= below) & (rank < through)) / (through - below)
