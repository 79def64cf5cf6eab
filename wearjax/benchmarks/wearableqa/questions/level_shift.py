"""When did a signal move to another level, in which direction and how far?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from wearjax.benchmarks.wearableqa import primitives_shapes, reads
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Node
from wearjax.benchmarks.wearableqa.questions import options, usual, wording
from wearjax.daily_metrics import INDEX

NAME = "level_shift"
BLOCKS = ((6, 10), (11, 15), (16, 20), (21, 25))  # of days on which the new level can begin
SIZES = (1.2, 2.0, 3.0)  # edges of the bands, usual spreads
LEAD = 0.4  # usual spreads over the largest shift that is four or more days away
_BANDS = ("1.2 to 2 usual spreads", "2 to 3 usual spreads", "3 or more usual spreads")
_NEAR = 0.1 * (SIZES[1] - SIZES[0])
_STARTS = [first for first, _ in BLOCKS[1:]]
MARGINS = (
    Margin("lead", (0.0,), LEAD),
    Margin("size", SIZES, _NEAR),
    Margin("day", tuple(start - 0.5 for start in _STARTS), 0.5),
)


@functools.cache
def graph(metric: str) -> Graph:
    """The largest shift between medians: block of days, direction and band of its size."""
    nodes = (
        *usual.NODES,
        Node("shift", "changepoint", ("z",)),
        Node("day", "select", ("shift",), {"columns": [0]}),
        Node("move", "select", ("shift",), {"columns": [1]}),
        Node("lead", "select", ("shift",), {"columns": [2]}),
        Node("size", "absolute", ("move",)),
        Node("block", "band", ("day",), {"edges": _STARTS}),
        Node("direction", "sign", ("move",)),
        Node("band", "band", ("size",), {"edges": list(SIZES)}),
        Node("key", "stack", ("block", "direction", "band")),
    )
    return Graph(usual.leaves(metric), nodes, "key")


def phrase(key: Key) -> str:
    first, last = BLOCKS[int(key[0])]
    return f"{'Up' if key[1] > 0 else 'Down'} by {_BANDS[int(key[2]) - 1]}, from day {first} to {last}"


OPTIONS: dict[Key, Option] = {
    key: Option(phrase(key), key)
    for key in itertools.product(map(float, range(len(BLOCKS))), (1.0, -1.0), map(float, (1, 2, 3)))
}


@functools.cache
def _distractors(key: Key) -> tuple[Option, ...]:
    """Each part changed on its own, then whatever hides which parts are right."""
    block, direction, band = key
    other_block = (block + 1.0) % len(BLOCKS)
    other_band = band + 1.0 if band < len(_BANDS) else band - 1.0
    first = [(other_block, direction, band), (block, -direction, band), (block, direction, other_band)]
    possible = OPTIONS.values()
    return options.balanced(OPTIONS[key], possible, first=[OPTIONS[each] for each in first], n=len(possible))


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Every metric whose largest shift is large enough; how far it leads is for the margins."""
    known = usual.of(person, end)
    programs = [graph(metric) for metric in known.metrics]
    found = reads.answers(programs, person, end)
    for metric, program, (row,) in zip(known.metrics, programs, found, strict=True):
        key = tuple(row.tolist())
        if key in OPTIONS:  # not one that is undefined or too small
            i = INDEX[metric]
            yield Candidate(
                type=NAME,
                user=person.record.user,
                end=end,
                metrics=(metric,),
                stem=_stem(metric, end, known.level[i], known.spread[i]),
                graph=program,
                gold=OPTIONS[key],
                distractors=_distractors(key),
                margins=MARGINS,
                resample="jitter",
            )


def _stem(metric: str, end: int, level: float, spread: float) -> str:
    first, last = primitives_shapes.BREAKS[0] + 1, primitives_shapes.BREAKS[-1] + 1
    return (
        f"Over {wording.window(end)}, find the day from {first} to {last} on which {wording.metric(metric)} began a "
        "new level: the one with the largest difference between the medians from that day on and before it. In which "
        f"direction and how far did it move, and when? {wording.known_baseline(metric, level, spread)}"
    )


TYPE = QuestionType(
    name=NAME,
    group="data",
    signal="single",
    grounding="population",
    scope="window",
    propose=propose,
    phrase=phrase,
)
