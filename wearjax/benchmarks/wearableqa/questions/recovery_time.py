"""How long after its largest bad stretch was a signal back at its usual level?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import primitives_recovery, reads, windows  # noqa: F401  (adds after_event)
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Node
from wearjax.benchmarks.wearableqa.primitives_events import Direction
from wearjax.benchmarks.wearableqa.questions import options, usual, wording
from wearjax.daily_metrics import BY_KEY

NAME = "recovery_time"
METRICS = ("rhr", "hrv", "sleep_duration", "sleep_efficiency", "avg_stress_level")
THRESHOLD = 1.5  # usual spreads from the usual level
WITHIN = 0.5  # of it, once recovered
CLEAR, NEAR = 0.1, 0.05  # usual spreads that days keep from the first and from the second line
LEAD = 0.25  # by which the largest event exceeds the second
LEAST_DAYS, GAP, CONSECUTIVE = 2, 1, 2
_EDGES = (0, 2, 3, 4, 5, 6, 7, 10, 14)  # band 0 holds the −1 of events that do not end
_LAST = 10.0  # code of those, so that longer recoveries have larger codes
_TABLE = [[0, _LAST], *[[band, band] for band in range(1, 10)]]
OPTIONS = tuple(
    Option(text, (float(code),))
    for code, text in enumerate(
        (
            *(f"Back after {wording.days(n)}" for n in range(1, 7)),
            "Back after 7 to 9 days",
            "Back after 10 to 13 days",
            "Back after 14 days and up",
            "Not back by the last day",
        ),
        start=1,
    )
)


@functools.cache
def graph(metric: str) -> Graph:
    """The largest run of bad days, and the band of the days from its end to the first usual one."""
    direction = bad(metric)
    event = {"threshold": THRESHOLD, "direction": direction, "min_len": LEAST_DAYS, "gap": GAP}
    back = {"within": WITHIN, "consecutive": CONSECUTIVE}
    nodes = (
        *usual.NODES,
        Node("event", "event_largest", ("z",), event),
        Node("lead", "select", ("event",), {"columns": [3]}),
        Node("back", "days_to_return", ("z", "event"), back),
        Node("days", "select", ("back",), {"columns": [0]}),
        Node("gone", "select", ("back",), {"columns": [1]}),
        Node("after", "after_event", ("z", "event", "back"), {"consecutive": CONSECUTIVE}),
        Node("band", "band", ("days",), {"edges": list(_EDGES)}),
        Node("key", "table_lookup", ("band",), {"table": _TABLE}),
    )
    return Graph(usual.leaves(metric), nodes, "key")


def bad(metric: str) -> Direction:
    """The direction that is not favourable."""
    return "up" if BY_KEY[metric].better == "down" else "down"


def phrase(key: Key) -> str:
    return OPTIONS[int(key[0]) - 1].text


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Every metric with a bad direction and a bad stretch in the window."""
    known = usual.of(person, end)
    programs = {metric: graph(metric) for metric in METRICS if metric in known.metrics}
    found = reads.answers(list(programs.values()), person, end)
    for (metric, program), ((code,),) in zip(programs.items(), found, strict=True):
        if np.isfinite(code):
            gold = OPTIONS[int(code) - 1]
            yield Candidate(
                type=NAME,
                user=person.record.user,
                end=end,
                metrics=(metric,),
                stem=_stem(metric, end),
                graph=program,
                gold=gold,
                distractors=options.others(OPTIONS, gold),
                margins=_margins(metric),
                resample="baseline",  # a day of the event or of its end that is left out would delay the answer
                tolerance=1.0,  # by one class it may, when the day that ended the recovery is deleted
            )


@functools.cache
def _margins(metric: str) -> tuple[Margin, ...]:
    line = THRESHOLD if bad(metric) == "up" else -THRESHOLD
    return (
        Margin("lead", (0.0,), LEAD),
        Margin("gone", tuple(float(n) for n in range(1, windows.WINDOW)), 0.5),  # no day may be missing
        Margin("z", (line,), CLEAR),
        Margin("after", (-WITHIN, WITHIN), NEAR),
    )


def _stem(metric: str, end: int) -> str:
    where = "above" if bad(metric) == "up" else "below"
    return (
        f"Over {wording.window(end)}, take the largest stretch of {LEAST_DAYS} or more days on which "
        f"{wording.metric(metric)} was more than {THRESHOLD:g} usual spreads {where} its usual level (single other "
        "days do not end a stretch; the largest has the largest sum of distances). How long after its last day did the "
        f"first of {CONSECUTIVE} days in a row within {WITHIN:g} usual spreads of the usual level come? "
        f"{wording.baseline()}"
    )


TYPE = QuestionType(
    name=NAME,
    group="data",
    signal="single",
    grounding="population",
    scope="history",
    propose=propose,
    phrase=phrase,
)
