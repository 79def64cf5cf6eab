"""Which of ten shapes did a signal take over the window?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import primitives_shapes, reads
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Node
from wearjax.benchmarks.wearableqa.questions import options, usual, wording
from wearjax.daily_metrics import INDEX

NAME = "trend_shape"
LEAD = 6.0  # of the best fit's score over the second
TEXTS = {
    "flat": "Stayed level throughout",
    "steady_rise": "Rose steadily throughout",
    "steady_fall": "Fell steadily throughout",
    "peak": "Rose, then fell back again",
    "trough": "Fell, then rose back again",
    "step_up": "Stepped up to a new level",
    "step_down": "Stepped down to a new level",
    "rise_then_plateau": "Rose, then held its level",
    "fall_then_plateau": "Fell, then held its level",
    "weekly": "Swung in a weekly rhythm",
}
OPTIONS = tuple(Option(TEXTS[shape], (float(i),)) for i, shape in enumerate(primitives_shapes.SHAPES))
_EDGES = (primitives_shapes.FLAT_BELOW, primitives_shapes.MOVES_FROM)
MARGINS = (Margin("lead", (0.0,), LEAD), Margin("range", _EDGES, 0.1 * (_EDGES[1] - _EDGES[0])))


@functools.cache
def graph(metric: str) -> Graph:
    """The window smoothed over three days, in usual spreads, and the template that fits it best."""
    nodes = (
        usual.LEVEL,
        usual.SPREAD,
        Node("smooth", "rolling_median", ("w",), {"width": 3, "least": 2}),
        Node("z", "robust_z", ("smooth", "level", "spread")),
        Node("fit", "shape_class", ("z",)),
        Node("key", "select", ("fit",), {"columns": [0]}),
        Node("lead", "select", ("fit",), {"columns": [1]}),
        Node("range", "select", ("fit",), {"columns": [2]}),
    )
    return Graph(usual.leaves(metric), nodes, "key")


def phrase(key: Key) -> str:
    return OPTIONS[int(key[0])].text


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Every metric whose best template is a shape at all."""
    known = usual.of(person, end)
    programs = [graph(metric) for metric in known.metrics]
    found = reads.answers(programs, person, end)
    for metric, program, ((code,),) in zip(known.metrics, programs, found, strict=True):
        if np.isfinite(code):
            gold = OPTIONS[int(code)]
            i = INDEX[metric]
            yield Candidate(
                type=NAME,
                user=person.record.user,
                end=end,
                metrics=(metric,),
                stem=_stem(metric, end, known.level[i], known.spread[i]),
                graph=program,
                gold=gold,
                distractors=options.others(OPTIONS, gold),
                margins=MARGINS,
                resample="jitter",
            )


def _stem(metric: str, end: int, level: float, spread: float) -> str:
    return (
        f"Over {wording.window(end)}, what course did {wording.metric(metric)} take? Smooth it by the median of each "
        "day and its two neighbours and choose the shape that fits best. "
        f"{wording.known_baseline(metric, level, spread)} A shape that moves by less than "
        f"{primitives_shapes.FLAT_BELOW:g} usual spreads counts as level."
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
