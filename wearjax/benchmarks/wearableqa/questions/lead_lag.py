"""Which of two signals moves first, by how many days, and in which direction does the other follow?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import primitives_pairs, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Node
from wearjax.benchmarks.wearableqa.primitives_pairs import LAGS
from wearjax.benchmarks.wearableqa.questions import options, pairs, wording

NAME = "lead_lag"
LEAST_RHO = 0.5
CLEAR = 0.04  # of it
PROPOSED_RHO, PROPOSED_LEAD = 0.45, 0.10  # what the effect gate is asked about: some way below its own limits
_HALF_PAIRS = windows.HALF_DAYS - 3  # at a lag of three days


@functools.cache
def graph(a: str, b: str) -> Graph:
    """ρ at every lag, of the window and of its halves; where it is largest, and whether both halves say the same."""
    later = [f"b{lag:+d}" for lag in LAGS]
    nodes = [Node("rho", "lagged_spearman", ("a", *later), {"min_pairs": pairs.LEAST_LAGGED})]
    for i, half in enumerate(("first", "second")):
        nodes += [Node(f"{x} {half}", "half", (x,), {"which": i}) for x in ("a", *later)]
        inputs = tuple(f"{x} {half}" for x in ("a", *later))
        nodes.append(Node(f"rho {half}", "lagged_spearman", inputs, {"min_pairs": _HALF_PAIRS}))
    for part in ("", " first", " second"):
        nodes.append(Node(f"peak{part}", "peak_lag", (f"rho{part}",), {"lags": list(LAGS)}))
        nodes.append(Node(f"answer{part}", "select", (f"peak{part}",), {"columns": [0, 1]}))
    nodes += [
        Node("size", "select", ("peak",), {"columns": [2]}),
        Node("ahead", "select", ("peak",), {"columns": [3]}),
        Node("kept", "all_alike", ("answer", "answer first", "answer second")),
        Node("lead", "stack", ("ahead", "kept")),  # the effect gate wants both
    ]
    leaves = {"a": pairs.leaf(a), **{name: pairs.leaf(b, lag) for name, lag in zip(later, LAGS, strict=True)}}
    return Graph(leaves, tuple(nodes), "answer")


def phrase(key: Key) -> str:
    lag, way = int(key[0]), "the same way" if key[1] > 0 else "opposite ways"
    if lag == 0:
        return f"Both move on the same day, {way}"
    who = "first leads the second" if lag > 0 else "second leads the first"
    return f"The {who} by {wording.days(abs(lag))}, {way}"


OPTIONS: dict[Key, Option] = {
    key: Option(phrase(key), key) for key in itertools.product([float(lag) for lag in LAGS], (1.0, -1.0))
}


@functools.cache
def _distractors(key: Key) -> tuple[Option, ...]:
    """The other order, the opposite sign and the neighbouring lags, then whatever hides which parts are right."""
    lag, sign = key
    first = [(-lag, sign), (lag, -sign), (lag - 1, sign), (lag + 1, sign)]
    return options.balanced(
        OPTIONS[key],
        OPTIONS.values(),
        first=[OPTIONS[each] for each in first if each in OPTIONS and each != key],
        n=options.SPARE,
    )


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Pairs not tied by definition with a lag that stands out."""
    known = pairs.of(person, end)
    empirical = known.tagged("empirical")
    if not empirical:
        return
    rho = known.lagged(empirical)
    peaks = primitives_pairs.peak_lag(rho, lags=LAGS)
    with np.errstate(invalid="ignore"):
        notable = (peaks[:, 2] >= PROPOSED_RHO) & (peaks[:, 3] >= PROPOSED_LEAD)
    for i in np.flatnonzero(notable):
        a, b = empirical[i]
        lag, sign = peaks[i, :2].tolist()
        yield Candidate(
            type=NAME,
            user=person.record.user,
            end=end,
            metrics=(a, b),
            stem=_stem((a, b), end),
            graph=graph(a, b),
            gold=OPTIONS[lag, sign],
            distractors=_distractors((lag, sign)),
            margins=(Margin("size", (LEAST_RHO,), CLEAR),),
            coupling=(a, b, int(lag)),
            searched=pairs.searched(((a, b),)),
            lead="lead",
            tag="empirical",
            rho=float(sign * peaks[i, 2]),
        )


def looked(person: Person, end: int) -> int:
    """Every valid pair that is not tied by definition."""
    return len(pairs.of(person, end).tagged("empirical"))


def _stem(pair: pairs.Pair, end: int) -> str:
    first, second = map(wording.metric, pair)
    return (
        f"Over {wording.window(end)}, compare {first} (the first signal) with {second} (the second) at shifts of up to "
        f"{max(LAGS)} days either way, by Spearman's rank correlation over the days of this window with both. At which "
        "shift is it largest in size, and with which sign?"
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
