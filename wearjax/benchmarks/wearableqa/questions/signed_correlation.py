"""How are two signals of the same day related: how strongly, in which direction, and in both halves alike?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import primitives, windows
from wearjax.benchmarks.wearableqa.candidate import (
    Candidate,
    Key,
    Margin,
    Option,
    Person,
    QuestionType,
    Resample,
)
from wearjax.benchmarks.wearableqa.graph import Graph, Node
from wearjax.benchmarks.wearableqa.primitives_pairs import (
    HALF_NONE,
    HALF_STRONG,
    KINDS,
    MODERATE,
    NONE_BELOW,
    NOT_NONE,
    STRONG,
    TURNING,
    WEAK,
    relation_kind,
)
from wearjax.benchmarks.wearableqa.questions import options, pairs, wording

NAME = "signed_correlation"
CLEAR = 0.04  # of every ρ from every edge
OF_A_KIND = 4  # pairs of a kind proposed at an end date
TEXTS = {
    "strong_positive": "Strong and positive, steady over both halves",
    "moderate_positive": "Moderate and positive, steady over both halves",
    "weak_positive": "Weak and positive, steady over both halves",
    "strong_negative": "Strong and negative, steady over both halves",
    "moderate_negative": "Moderate and negative, steady over both halves",
    "weak_negative": "Weak and negative, steady over both halves",
    "none": "Close to none overall and within both halves",
    "positive_then_negative": "Positive in the first half, negative in the second",
    "negative_then_positive": "Negative in the first half, positive in the second",
    "one_half": "Strong in one half only, close to none in the other",
}
OPTIONS = tuple(Option(TEXTS[kind], (float(i),)) for i, kind in enumerate(KINDS))
_STEADY = (
    Margin("size", (WEAK, MODERATE, STRONG), CLEAR),
    Margin("halves", (0.0,), CLEAR),
)
_NONE = NOT_NONE - NONE_BELOW + CLEAR
_TURNING = (Margin("sizes", (TURNING,), CLEAR),)
_MARGINS = {
    "none": (Margin("size", (NOT_NONE,), _NONE), Margin("sizes", (NOT_NONE,), _NONE)),
    "positive_then_negative": _TURNING,
    "negative_then_positive": _TURNING,
    "one_half": (Margin("sizes", (HALF_NONE, HALF_STRONG), CLEAR),),
}
_CLAIMS = ("strong_positive", "moderate_positive", "strong_negative", "moderate_negative")
# Days drawn with replacement move ρ by about 1/√n, 0.19 over the window and 0.27 over a half. That is more than the
# other kinds are wide: for them a tenth of the days is dropped.
_DRAWN = ("strong_positive", "strong_negative", "positive_then_negative", "negative_then_positive")


@functools.cache
def graph(a: str, b: str) -> Graph:
    """ρ of the window and of its halves, and the kind of relation that they make."""
    nodes = (
        Node("rho", "spearman", ("a", "b"), {"min_pairs": windows.HALF_DAYS}),
        *(Node(f"{x}{i + 1}", "half", (x,), {"which": i}) for x in ("a", "b") for i in (0, 1)),
        *(Node(f"rho{i}", "spearman", (f"a{i}", f"b{i}"), {"min_pairs": _HALF_PAIRS}) for i in (1, 2)),
        Node("size", "absolute", ("rho",)),
        Node("halves", "stack", ("rho1", "rho2")),
        Node("sizes", "absolute", ("halves",)),
        Node("key", "relation_kind", ("rho", "rho1", "rho2")),
    )
    return Graph({"a": pairs.leaf(a), "b": pairs.leaf(b)}, nodes, "key")


_HALF_PAIRS = windows.HALF_DAYS - 3  # a valid half from which a deletion or a jitter took days


def phrase(key: Key) -> str:
    return OPTIONS[int(key[0])].text


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Pairs whose relation is of some kind: all that claim a relation, of each other kind the few clearest."""
    known = pairs.of(person, end)
    found = _quantities(known)
    kinds = found["kind"][:, 0]
    for code, kind in enumerate(KINDS):
        alike = np.flatnonzero(kinds == code)
        if kind not in _CLAIMS:
            clear = np.argsort(-_clearance(_MARGINS.get(kind, _STEADY), found)[alike], kind="stable")
            alike = alike[clear][:OF_A_KIND]
        for i in alike:
            yield _candidate(person.record.user, end, known.valid[i], code, float(found["rho"][i, 0]))


def looked(person: Person, end: int) -> int:
    """Every valid pair."""
    return len(pairs.of(person, end).valid)


def _quantities(known: pairs.Pairs) -> dict[str, Float64[np.ndarray, "pair n"]]:
    """Of every valid pair what the graph computes: ρ, the margins' nodes, and the kind (NaN where none fits)."""
    a, b = known.sides(known.valid)
    spans = (slice(None), slice(None, windows.HALF), slice(windows.HALF, None))
    least = (windows.HALF_DAYS, _HALF_PAIRS, _HALF_PAIRS)
    rho, first, second = (
        primitives.correlation(a[:, span], b[:, span], min_pairs=n)[:, None]
        for span, n in zip(spans, least, strict=True)
    )
    halves = np.concatenate([first, second], axis=1)
    kind = relation_kind(rho, first, second)
    return {"rho": rho, "size": np.abs(rho), "halves": halves, "sizes": np.abs(halves), "kind": kind}


def _clearance(margins: tuple[Margin, ...], found: dict[str, np.ndarray]) -> Float64[np.ndarray, " pair"]:
    """How far each pair stays from the edges of a kind."""
    distances = [
        np.abs(found[margin.node][..., None] - np.asarray(margin.boundaries)).min(axis=(1, 2))
        for margin in margins
    ]
    return np.min(distances, axis=0)


def _candidate(user: str, end: int, pair: pairs.Pair, code: int, rho: float) -> Candidate:
    kind, gold = KINDS[code], OPTIONS[code]
    resample: Resample = "days" if kind in _DRAWN else "jitter"
    return Candidate(
        type=NAME,
        user=user,
        end=end,
        metrics=pair,
        stem=_stem(pair, end),
        graph=graph(*pair),
        gold=gold,
        distractors=options.others(OPTIONS, gold),
        margins=_MARGINS.get(kind, _STEADY),
        coupling=(*pair, 0) if kind in _CLAIMS else None,
        resample=resample,
        tag=pairs.tag_of(pair),
        rho=rho,
    )


def _stem(pair: pairs.Pair, end: int) -> str:
    return (
        f"Over {wording.window(end)}, how are {wording.metrics(pair)} of the same day related, by Spearman's rank "
        f"correlation over the days with both? Strong is {STRONG:g} and more in size, moderate {MODERATE:g} and more, "
        f"weak {WEAK:g} and more; close to none is below {NONE_BELOW:g} everywhere; steady has the same sign in both "
        f"halves; of opposite signs, both halves have {TURNING:g} and more. Strong in one half only means "
        f"{HALF_STRONG:g} and more against less than {HALF_NONE:g}, and goes before all else. {wording.halves()}"
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
