"""Which nine false options a question shows, and which questions stay, so that no answer is likelier than another.

WearableQA found options that only occurred with certain answers. Here an answer that recurs must be right in 10 ± 5 %
of the questions that show it, up to whole numbers, and a computed amount must be the lowest, second lowest, ... of its
options equally often. The procedure is this project's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from wearjax.benchmarks.wearableqa import option_disguise
from wearjax.benchmarks.wearableqa.candidate import Candidate, Option

FALSE_OPTIONS = 9
TEN = FALSE_OPTIONS + 1
LEAST_RATE, LARGEST_RATE = 0.05, 0.15
LENGTH_RATIO = 1.6
PROTECTED = 4  # of a candidate's distractors, the best, are shown if they can be
PASSES = 2


@dataclass(eq=False)
class Draft:
    """A question with its possible false options, the best first, and those chosen of them."""

    candidate: Candidate
    possible: tuple[Option, ...]
    chosen: tuple[Option, ...] = field(default=())
    rank: int | None = None  # of the gold among its options, for amounts

    @property
    def gold(self) -> str:
        return self.candidate.gold.text

    @property
    def shown(self) -> tuple[str, ...]:
        return (self.gold, *(option.text for option in self.chosen))


def drafted(candidate: Candidate) -> Draft | None:
    """A draft with the false options of about the gold's length; None where nine of them are not to be had.

    Of the ranges of length whose longest text is 1.6 times the shortest, the one that keeps most of the best.
    """
    golden = len(candidate.gold.text)
    every = candidate.distractors
    lengths = np.array([len(option.text) for option in every])
    best: tuple[Option, ...] = ()
    place: tuple[int, ...] = ()
    for shortest in sorted({golden, *lengths.tolist()}):
        if not shortest <= golden <= LENGTH_RATIO * shortest:
            continue
        kept = np.flatnonzero((lengths >= shortest) & (lengths <= LENGTH_RATIO * shortest))
        where = tuple(kept[:FALSE_OPTIONS].tolist())
        if len(kept) >= FALSE_OPTIONS and (not best or where < place):
            best, place = tuple(every[i] for i in kept), where
    return Draft(candidate, best) if best else None


def likeliest(drafts: Sequence[Draft]) -> dict[str, float]:
    """How often each text is the gold where it is possible at all."""
    golds = Counter(draft.gold for draft in drafts)
    possible = Counter(option.text for draft in drafts for option in draft.possible)
    return {text: golds[text] / (golds[text] + possible[text]) for text in {*golds, *possible}}


def choose(drafts: Sequence[Draft]) -> None:
    """Chooses the false options of each draft: the best, then those that lack most of nine uses for each as gold.

    Of a draft with a rank, as many below the gold as the rank says.
    """
    golds = Counter(draft.gold for draft in drafts)
    uses: Counter[str] = Counter()
    avoided: set[str] = set()
    for _ in range(PASSES):
        for draft in drafts:
            uses.subtract(option.text for option in draft.chosen)
            draft.chosen = _chosen(draft, golds, uses, avoided)
            uses.update(option.text for option in draft.chosen)
        avoided = {text for text in uses if golds[text] < _least(golds[text] + uses[text])}


def _chosen(draft: Draft, golds: Counter, uses: Counter, avoided: set[str]) -> tuple[Option, ...]:
    if len(draft.possible) == FALSE_OPTIONS:
        return draft.possible

    def order(place: int) -> tuple:
        text = draft.possible[place].text
        kept = place < PROTECTED and text not in avoided
        return (not kept, place if kept else 0, golds[text] == 0, uses[text] / max(golds[text], 1), place)

    places = sorted(range(len(draft.possible)), key=order)
    if draft.rank is None:
        chosen = places[:FALSE_OPTIONS]
    else:
        below = [place for place in places if _is_below(draft, place)][: draft.rank]
        above = [place for place in places if not _is_below(draft, place)][: FALSE_OPTIONS - draft.rank]
        chosen = below + above
    return tuple(draft.possible[place] for place in sorted(chosen))


def _is_below(draft: Draft, place: int) -> bool:
    return draft.possible[place].key[0] < draft.candidate.gold.key[0]


def even(drafts: Sequence[Draft]) -> list[Draft]:
    """Those that stay, so that each text is right in 5 to 15 % of the questions that show it.

    Drops, one after the other, a question of the most frequent answers, until no text is right too often or too seldom.
    """
    left = list(drafts)
    choose(left)
    while left:
        golds = Counter(draft.gold for draft in left)
        shown = Counter(text for draft in left for text in draft.shown)
        often = {text for text, n in golds.items() if n > _most(shown[text])}
        seldom = {text for text, n in shown.items() if golds[text] < _least(n)}
        if not often and not seldom:
            break
        dropped = _dropped(left, golds, shown, often, seldom)
        left = [draft for i, draft in enumerate(left) if i not in dropped]
        if any(len(draft.possible) > FALSE_OPTIONS for draft in left):
            choose(left)
    disguise(left)
    return left


def disguise(drafts: Sequence[Draft]) -> None:
    """Exchanges false options by which the gold stands out, as far as no text is then right too often or too seldom."""

    def allowed(golds: Counter, shown: Counter) -> option_disguise.Allowed:
        def may(old: str, new: str) -> bool:
            fewer, more = shown[old] - 1, shown[new] + 1
            return golds[old] <= _most(fewer) and golds[new] > 0 and golds[new] >= _least(more)

        return may

    option_disguise.spread_out(drafts, PROTECTED, allowed)


def _dropped(
    drafts: Sequence[Draft], golds: Counter, shown: Counter, often: set[str], seldom: set[str]
) -> set[int]:
    """One question for each text that is right too often; if none is, one for each that is right too seldom."""
    share = {text: golds[text] / shown[text] for text in golds}
    if often:
        last = {draft.gold: i for i, draft in enumerate(drafts)}
        return {last[text] for text in often}
    found = set()
    for text in sorted(seldom):
        showing = [i for i, draft in enumerate(drafts) if draft.gold != text and text in draft.shown]
        found.add(
            max(showing, key=lambda i: (sum(t in seldom for t in drafts[i].shown), share[drafts[i].gold], i))
        )
        if len(found) * 20 > len(drafts):  # enough for one round
            break
    return found


def _most(shown: int) -> int:
    return int(np.ceil(LARGEST_RATE * shown - 1e-9))


def _least(shown: int) -> int:
    return int(np.floor(LEAST_RATE * shown + 1e-9))


def is_amount(candidate: Candidate, *, numeric: bool) -> bool:
    """Whether options are single numbers, which have an order."""
    return numeric and len(candidate.gold.key) == 1


def rank(drafts: Sequence[Draft], rng: np.random.Generator) -> list[Draft]:
    """Chooses false amounts below and above the gold, so that it has every rank among its options equally often.

    Each question takes the rank that is rarest so far among those that its options allow, those with few of them
    first; what then is of too frequent a rank is dropped.
    """
    feasible = [_ranks(draft) for draft in drafts]
    order = sorted(rng.permutation(len(drafts)).tolist(), key=lambda i: len(feasible[i]))
    counts = np.zeros(TEN, int)
    for i in order:
        if not feasible[i]:
            continue
        wanted = np.array(feasible[i])
        rarest = wanted[counts[wanted] == counts[wanted].min()]
        drafts[i].rank = int(rng.choice(rarest))
        counts[drafts[i].rank] += 1
    left = [draft for draft in drafts if draft.rank is not None]
    while left:
        counts = np.bincount([draft.rank for draft in left if draft.rank is not None], minlength=TEN)
        if counts.max() <= _most(len(left)) and counts.min() >= _least(len(left)):
            break
        commonest = int(counts.argmax())
        left.pop(max(i for i, draft in enumerate(left) if draft.rank == commonest))
    choose(left)
    return left


def _ranks(draft: Draft) -> list[int]:
    below = sum(_is_below(draft, place) for place in range(len(draft.possible)))
    above = len(draft.possible) - below
    return [r for r in range(TEN) if r <= below and FALSE_OPTIONS - r <= above]


def rates(shown: Iterable[tuple[str, Sequence[str]]]) -> dict[str, tuple[int, int]]:
    """Of each text, how often it is right and how often it is shown; of (gold, options) pairs."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for gold, texts in shown:
        found[gold][0] += 1
        for text in texts:
            found[text][1] += 1
    return {text: (right, n) for text, (right, n) in sorted(found.items())}


def uneven(found: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Texts that are right too often or too seldom."""
    return {text: (g, n) for text, (g, n) in found.items() if not _least(n) <= g <= _most(n)}
