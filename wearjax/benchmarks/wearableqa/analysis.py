"""What answers tell: accuracy by kind of question, paired differences, position bias, and whether data were needed.

Accuracies, Wilson intervals and the comparisons are those that WearableQA reports; resampling users and matching on
deciles of |ρ| are this project's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64

from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.errors import ConfigError
from wearjax.scores import bootstrap, intervals, proportion

STRONG = 0.65  # |ρ| from which a pair is in the strong band
DECILES = 10
DRAWS = 1000
AXES: dict[str, str] = {
    "type": "category", "group": "reasoning_group", "signal": "signal", "grounding": "grounding", "scope": "scope",
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """One question's facts and the letter that was given.

    Attributes:
        letter: None where the reply named no option; `failed` where there was no reply. Both count as wrong.
    """

    id: str
    user: str
    category: str
    reasoning_group: str
    signal: str
    grounding: str
    scope: str
    gold: str
    tag: str = ""
    rho: float | None = None
    letter: str | None = None
    failed: bool = False

    @property
    def correct(self) -> bool:
        return self.letter == self.gold


def answer(item: Item, letter: str | None, *, failed: bool = False) -> Answer:
    """An item with the letter that was given."""
    return Answer(
        item.id, item.user_id, item.category, item.reasoning_group, item.signal, item.grounding, item.scope,
        item.answer, item.tag, item.rho, letter, failed,
    )  # fmt: skip


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers among the questions of one kind, with Wilson's 95 % interval.

    Attributes:
        axis: `all`, or one of `AXES`; `value` is which kind.
        unparsed, failed: replies that named no option, and questions without a reply; among the wrong ones.
    """

    axis: str
    value: str
    n: int
    right: int
    accuracy: float
    low: float
    high: float
    unparsed: int
    failed: int


def accuracies(answers: Sequence[Answer]) -> list[Accuracy]:
    """Of all questions, then by type, group, signal, grounding and scope."""
    found = [_accuracy("all", "all", answers)]
    for axis, name in AXES.items():
        values = dict.fromkeys(getattr(a, name) for a in answers)
        found += [_accuracy(axis, v, [a for a in answers if getattr(a, name) == v]) for v in values]
    return found


def _accuracy(axis: str, value: str, answers: Sequence[Answer]) -> Accuracy:
    n, right = len(answers), sum(a.correct for a in answers)
    failed = sum(a.failed for a in answers)
    unparsed = sum(a.letter is None for a in answers) - failed
    low, high = proportion.wilson(right, n)
    return Accuracy(axis, value, n, right, right / n if n else math.nan, low, high, unparsed, failed)


@dataclass(frozen=True)
class Paired:
    """The same questions answered twice: second minus first, users resampled, and McNemar's exact p.

    Attributes:
        first_only, second_only: questions that only one side answered rightly.
    """

    axis: str
    value: str
    n: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    first_only: int
    second_only: int
    p: float


def paired(
    first: Sequence[Answer], second: Sequence[Answer], *, draws: int = DRAWS, seed: int = 42
) -> list[Paired]:
    """Of the questions that both have: all of them, then by signal, group and scope.

    Raises:
        ConfigError: they share no question, or a question has another answer on either side.
    """
    other = {a.id: a for a in second}
    pairs = [(a, other[a.id]) for a in first if a.id in other]
    if not pairs:
        raise ConfigError("the two runs share no question")
    for a, b in pairs:
        if a.gold != b.gold:
            raise ConfigError(f"question {a.id}: the two runs were made with different versions of it")
    kinds = [("all", "all")]
    for axis in ("signal", "group", "scope"):
        kinds += [(axis, value) for value in dict.fromkeys(getattr(a, AXES[axis]) for a, _ in pairs)]
    found = []
    for axis, value in kinds:
        chosen = [pair for pair in pairs if axis == "all" or getattr(pair[0], AXES[axis]) == value]
        found.append(_paired(axis, value, chosen, draws, seed))
    return found


def _paired(axis: str, value: str, pairs: Sequence[tuple[Answer, Answer]], draws: int, seed: int) -> Paired:
    right = np.array([(a.correct, b.correct) for a, b in pairs], np.float64)
    first, second = right.mean(axis=0).tolist()
    first_only = int(np.sum((right[:, 0] == 1) & (right[:, 1] == 0)))
    second_only = int(np.sum((right[:, 0] == 0) & (right[:, 1] == 1)))
    low, high = _interval(
        [a.user for a, _ in pairs], lambda weights: _mean(weights, right[:, 1] - right[:, 0]), draws, seed
    )
    return Paired(
        axis, value, len(pairs), first, second, second - first, low, high, first_only, second_only,
        proportion.mcnemar(first_only, second_only),
    )  # fmt: skip


def _interval(
    users: Sequence[str],
    statistic: Callable[[Float64[np.ndarray, "draw question"]], Float64[np.ndarray, " draw"]],
    draws: int,
    seed: int,
) -> tuple[float, float]:
    """Percentile interval of a statistic of questions weighted by how often their user was drawn."""
    if draws < 1:
        return math.nan, math.nan
    names, owner = np.unique(np.array(users), return_inverse=True)
    drawn = bootstrap.multiplicities(bootstrap.resample_matrix(seed, len(names), draws))
    return intervals.percentile(statistic(drawn[:, owner]))


def _mean(weights: Float[np.ndarray, "draw question"], values: Float[np.ndarray, " question"]) -> np.ndarray:
    total = weights.sum(axis=1)
    return np.divide(weights @ values, total, out=np.full(len(weights), np.nan), where=total > 0)


@dataclass(frozen=True)
class Positions:
    """How a model's letters are spread.

    Attributes:
        n: replies that name an option.
        shares: of each letter among these; `gold` of each letter among the right answers of all questions.
        largest: the letter chosen most often, and its share.
        entropy_bits: of the shares; log2(10) = 3.32 where all are equal.
        chi_squared, p: against the spread of the right answers.
        accuracy: of the questions whose right answer stands at each letter; NaN where there is none.
    """

    n: int
    shares: dict[str, float]
    gold: dict[str, float]
    largest: str
    largest_share: float
    entropy_bits: float
    chi_squared: float
    p: float
    accuracy: dict[str, float]

    @property
    def against_gold(self) -> str:
        """The test against the spread of the right answers, in words."""
        if not math.isfinite(self.chi_squared):
            return "χ² against the right answers not computed, since some letters are never right here"
        return f"χ² {self.chi_squared:.1f} against the spread of the right answers (p {self.p:.3g})"


def positions(answers: Sequence[Answer]) -> Positions:
    """Position bias over the replies that name an option."""
    read = [a for a in answers if a.letter is not None]
    chosen = np.array([sum(a.letter == c for a in read) for c in LETTERS], np.int64)
    gold = np.array([sum(a.gold == c for a in answers) for c in LETTERS], np.int64)
    n = len(read)
    statistic, p = proportion.chi_squared(chosen, gold.astype(np.float64))
    at = int(np.argmax(chosen))
    by_gold = {c: [a.correct for a in answers if a.gold == c] for c in LETTERS}
    return Positions(
        n=n,
        shares={c: _share(int(k), n) for c, k in zip(LETTERS, chosen, strict=True)},
        gold={c: _share(int(k), len(answers)) for c, k in zip(LETTERS, gold, strict=True)},
        largest=LETTERS[at] if n else "",
        largest_share=_share(int(chosen[at]), n),
        entropy_bits=proportion.entropy_bits(chosen),
        chi_squared=statistic,
        p=p,
        accuracy={c: _share(sum(right), len(right)) for c, right in by_gold.items()},
    )


def _share(hits: int, n: int) -> float:
    return hits / n if n else math.nan


@dataclass(frozen=True)
class DefinitionalGap:
    """Accuracy on pairs tied by definition minus that on empirical pairs, both of |ρ| ≥ 0.65.

    Attributes:
        difference: as they are; `matched` within deciles of |ρ| that have both, weighted by the smaller number.
        low, high: 95 % of the matched difference, users resampled.
        deciles: how many have both.
    """

    definitional: Accuracy
    empirical: Accuracy
    difference: float
    matched: float
    low: float
    high: float
    deciles: int


def definitional_gap(
    answers: Sequence[Answer], *, draws: int = DRAWS, seed: int = 42
) -> DefinitionalGap | None:
    """None where one of the two has no question in the strong band."""
    strong = [a for a in answers if a.tag and a.rho is not None and abs(a.rho) >= STRONG]
    sides = {tag: [a for a in strong if a.tag == tag] for tag in ("definitional", "empirical")}
    if not all(sides.values()):
        return None
    first, second = (_accuracy("tag", tag, chosen) for tag, chosen in sides.items())
    size = np.array([abs(a.rho or 0.0) for a in strong])
    edges = np.quantile(size, np.linspace(0, 1, DECILES + 1)[1:-1])
    decile = np.searchsorted(edges, size, side="right")
    right = np.array([a.correct for a in strong], np.float64)
    tied = np.array([a.tag == "definitional" for a in strong])
    once = np.ones((1, len(strong)))
    low, high = _interval([a.user for a in strong], lambda w: _matched(w, right, tied, decile), draws, seed)
    both = sum(len({*tied[decile == d].tolist()}) == 2 for d in range(DECILES))
    matched = float(_matched(once, right, tied, decile)[0])
    return DefinitionalGap(first, second, first.accuracy - second.accuracy, matched, low, high, both)


def _matched(
    weights: Float64[np.ndarray, "draw question"],
    right: Float64[np.ndarray, " question"],
    tied: Bool[np.ndarray, " question"],
    decile: np.ndarray,
) -> Float64[np.ndarray, " draw"]:
    total, weight = np.zeros(len(weights)), np.zeros(len(weights))
    for d in range(DECILES):
        here = decile == d
        n = [weights[:, here & side].sum(axis=1) for side in (tied, ~tied)]
        share = [_mean(weights[:, here & side], right[here & side]) for side in (tied, ~tied)]
        least = np.minimum(*n)
        total += np.where(least > 0, least * (share[0] - share[1]), 0.0)
        weight += least
    return np.divide(total, weight, out=np.full(len(weights), np.nan), where=weight > 0)
