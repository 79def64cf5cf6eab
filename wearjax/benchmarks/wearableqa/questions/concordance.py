"""Do two signals that are expected to go together do so, against what is usual for the person?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import relations, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.primitives_health import NOT_ENOUGH
from wearjax.benchmarks.wearableqa.questions import health, usual, wording
from wearjax.benchmarks.wearableqa.relations import Relation
from wearjax.daily_metrics import BY_KEY, INDEX

NAME = "concordance"
MOVED, MARGIN = 0.5, 0.1  # usual spreads
CLEARLY_TOO_FEW = windows.PAIRED_DAYS - 2  # common days
STATES = ("worse", "unchanged", "better")
TOO_FEW: Key = (NOT_ENOUGH, NOT_ENOUGH)


@functools.cache
def graph(a: str, b: str) -> Graph:
    """The state of both signals, 0 worse, 1 unchanged, 2 better than usual; −1 twice with too few common days."""
    sketch = health.Sketch()
    states = []
    for name, metric in (("a", a), ("b", b)):
        window, before = sketch.window(metric), sketch.baseline(metric)
        now = sketch.node(f"{name} now", "median", window)
        level = sketch.node(f"{name} level", "median", before)
        spread = sketch.node(f"{name} spread", "scale", before)
        moved = sketch.node(f"{name} moved", "robust_z", now, level, spread)
        if BY_KEY[metric].better == "down":
            moved = sketch.node(
                f"{name} favour", "difference", sketch.node("0", "constant", value=0.0), moved
            )
        states.append(sketch.node(f"{name} state", "band", moved, edges=[-MOVED, MOVED]))
    sketch.node("common", "common_days", a, b)
    return sketch.graph(sketch.node("key", "joint_state", "common", *states, least=windows.PAIRED_DAYS))


def phrase(key: Key) -> str:
    if key == TOO_FEW:
        return "Too few common days: whether the two signals agree is open"
    first, second = (STATES[int(code)] for code in key)
    if 1.0 in key:
        verdict = "neither moved" if key[0] == key[1] else "only one moved"
    else:
        verdict = "as expected" if key[0] == key[1] else "not as expected"
    return f"First signal {first}, second signal {second}: {verdict}"


KEYS: tuple[Key, ...] = (*((float(i), float(j)) for i in range(3) for j in range(3)), TOO_FEW)
OPTIONS: dict[Key, Option] = {key: Option(phrase(key), key) for key in KEYS}


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """The pairs of which a relation is on record."""
    known = usual.of(person, end)
    for relation in relations.of_daily_metrics():
        a, b = relation.a, relation.b
        both = [
            person.record.between(end + windows.WINDOW_RANGE[0], end)[:, INDEX[metric]] for metric in (a, b)
        ]
        before = [windows.days_of(person.record, metric, end, windows.baseline_range()) for metric in (a, b)]
        if not all(windows.valid_baseline(days) for days in before):
            continue
        common = int((np.isfinite(both[0]) & np.isfinite(both[1])).sum())
        few = common <= CLEARLY_TOO_FEW and all(np.isfinite(days).any() for days in both)
        full = a in known.metrics and b in known.metrics and windows.valid_pair(*both)
        if few or full:
            yield from _candidate(person, end, relation)


def _candidate(person: Person, end: int, relation: Relation) -> Iterator[Candidate]:
    made = graph(relation.a, relation.b)
    key = health.answer(made, person, end)
    if key is None:
        return
    margins = tuple(Margin(f"{name} moved", (-MOVED, MOVED), MARGIN) for name in ("a", "b"))
    yield Candidate(
        type=NAME,
        user=person.record.user,
        end=end,
        metrics=(relation.a, relation.b),
        stem=_stem(relation, end),
        graph=made,
        gold=OPTIONS[key],
        distractors=tuple(option for option in OPTIONS.values() if option.key != key),
        margins=() if key == TOO_FEW else margins,
        resample="jitter" if key == TOO_FEW else "days",
        relation=relation.id,
    )


def _stem(relation: Relation, end: int) -> str:
    first, second = (wording.metric(metric) for metric in (relation.a, relation.b))
    return health.stem(
        f"Compare the medians of {first} (the first signal) and {second} (the second) over {wording.window(end)} with "
        "what is usual for this person.",
        wording.baseline(),
        f"Better and worse are more than {MOVED:g} usual spreads in the favourable or unfavourable direction. The two "
        f"are expected to change for the better or worse together; with fewer than {windows.PAIRED_DAYS} days on which "
        "both were measured, that stays open. What do they do?",
    )


TYPE = QuestionType(
    name=NAME,
    group="health",
    signal="cross",
    grounding="literature",
    scope="history",
    propose=propose,
    phrase=phrase,
)
