"""Which pair of signals is most strongly related?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import primitives_pairs
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node
from wearjax.benchmarks.wearableqa.primitives_pairs import LAGS
from wearjax.benchmarks.wearableqa.questions import options, pairs, wording
from wearjax.benchmarks.wearableqa.questions.pairs import Pair, Tag
from wearjax.benchmarks.wearableqa.seeds import seed_of

NAME = "strongest_pair"
LEAST_METRICS = 6
LEAST_RHO = 0.5
CLEAR = 0.04  # of it
PROPOSED_RHO, PROPOSED_LEAD = 0.45, 0.10  # what the effect gate is asked about: some way below its own limits
RUNNERS_UP = 3
SAME_DAY = (0,)  # of the easier variant
TAGS: tuple[Tag, ...] = ("definitional", "empirical")


@functools.lru_cache(maxsize=512)
def graph(among: tuple[Pair, ...], lags: tuple[int, ...]) -> Graph:
    """ρ of each pair at each lag; code and sign of the pair whose best |ρ| is the largest."""
    leaves: dict[str, Leaf] = {a: pairs.leaf(a) for a, _ in among}
    leaves |= {f"{b}{lag:+d}": pairs.leaf(b, lag) for _, b in among for lag in lags}
    nodes = [
        Node(
            f"{a}~{b}",
            "lagged_spearman",
            (a, *(f"{b}{lag:+d}" for lag in lags)),
            {"min_pairs": pairs.LEAST_LAGGED},
        )
        for a, b in among
    ]
    names = tuple(node.id for node in nodes)
    codes = [pairs.code_of(pair) for pair in among]
    nodes += [
        Node("best", "strongest", names, {"codes": codes}),
        Node("key", "select", ("best",), {"columns": [0, 1]}),
        Node("size", "select", ("best",), {"columns": [2]}),
        Node("lead", "select", ("best",), {"columns": [3]}),
    ]
    return Graph(leaves, tuple(nodes), "key")


def phrase(key: Key) -> str:
    pair = pairs.pair_of(int(key[0]))
    return wording.capitalised(f"{wording.metrics(pair)} ({'positive' if key[1] > 0 else 'negative'})")


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """The winner of the pairs tied by definition, and of all others; at any lag, or on the same day."""
    known = pairs.of(person, end)
    for tag, among in _askable(known):
        drawn = seed_of(person.record.user, NAME, end, f"lags {tag}") % 2
        lags = (LAGS, SAME_DAY)[drawn]
        peaks = primitives_pairs.peak_lag(known.lagged(among, lags), lags=lags)
        order = np.argsort(-np.where(np.isnan(peaks[:, 2]), -1.0, peaks[:, 2]), kind="stable")
        best, second = peaks[order[0], 2], peaks[order[1], 2]
        if best >= PROPOSED_RHO and best - second >= PROPOSED_LEAD:
            found = _candidate(person.record.user, end, tag, among, lags, peaks, order)
            if len(found.distractors) >= options.DISTRACTORS:
                yield found


def looked(person: Person, end: int) -> int:
    """Every search that has enough pairs."""
    return len(_askable(pairs.of(person, end)))


def _askable(known: pairs.Pairs) -> list[tuple[Tag, tuple[Pair, ...]]]:
    """Pairs of each tag, where there are enough for ten options; those tied by definition come with both signs."""
    if len({metric for pair in known.valid for metric in pair}) < LEAST_METRICS:
        return []
    n = options.DISTRACTORS + 1
    least = {"definitional": -(-n // 2), "empirical": n}
    found = [(tag, known.tagged(tag)) for tag in TAGS]
    return [(tag, among) for tag, among in found if len(among) >= least[tag]]


def _candidate(
    user: str,
    end: int,
    tag: Tag,
    among: tuple[Pair, ...],
    lags: tuple[int, ...],
    peaks: np.ndarray,
    order: np.ndarray,
) -> Candidate:
    winner = among[order[0]]
    lag, sign, size = peaks[order[0], :3].tolist()
    every = [_option(among[i], peaks[i, 1]) for i in order if np.isfinite(peaks[i, 1])]
    rng = np.random.default_rng(seed_of(user, NAME, end, f"options {tag} {len(lags)}"))
    if tag == "definitional":
        first, rest = [], [_option(*each) for each in itertools.product(among, (1.0, -1.0))]
    else:
        first, rest = every[1 : 1 + RUNNERS_UP], every[1 + RUNNERS_UP :]
    shuffled = [rest[i] for i in rng.permutation(len(rest))]
    return Candidate(
        type=NAME,
        user=user,
        end=end,
        metrics=winner,
        stem=_stem(end, lags),
        graph=graph(among, lags),
        gold=every[0],
        distractors=options.balanced(every[0], shuffled, first=first, n=options.SPARE, attributes=_parts),
        margins=(Margin("size", (LEAST_RHO,), CLEAR),),
        coupling=(*winner, int(lag)),
        searched=pairs.searched(among, lags),
        lead="lead",
        tag=tag,
        rho=sign * size,
    )


def _option(pair: Pair, sign: float) -> Option:
    key = (float(pairs.code_of(pair)), float(sign))
    return Option(phrase(key), key)


def _parts(key: Key) -> tuple[str, str, float]:
    return (*pairs.pair_of(int(key[0])), key[1])


def _stem(end: int, lags: tuple[int, ...]) -> str:
    how = (
        f"each at its best shift of up to {max(LAGS)} days either way, over the days of this window with both"
        if len(lags) > 1
        else "over the days with both"
    )
    return (
        f"Over {wording.window(end)}, which of these pairs of signals has the largest Spearman's rank correlation in "
        f"size, {how}? Its sign stands in brackets."
    )


TYPE = QuestionType(
    name=NAME,
    group="data",
    signal="cross",
    grounding="population",
    scope="window",
    coupling=True,
    propose=propose,
    phrase=phrase,
    looked=looked,
)
