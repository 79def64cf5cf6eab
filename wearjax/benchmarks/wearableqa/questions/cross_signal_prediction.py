"""A metric is hidden in the window: what did it do, as the person's other signals show?

What places the month in a class keeps a tenth of its band's width from the band's ends: the change of the month and
that of each half, from whichever limits the class has. A band without an end takes the width of the one below it. That
the other signals predict the class, and how well, decides whether the question is asked, not its answer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from wearjax import daily_metrics
from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import (
    Candidate,
    Hidden,
    Key,
    Margin,
    Person,
    QuestionType,
)
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf
from wearjax.benchmarks.wearableqa.primitives_change import (
    BANDS,
    ONE_HALF,
    SAME,
    SAME_HALF,
    STEADY_HALF,
    month_change,
)
from wearjax.benchmarks.wearableqa.questions import health, options, usual, wording

NAME = "cross_signal_prediction"
LEAST_FIT = 0.3  # R² on days left out
SIZE_MARGINS = (0.04, 0.05, 0.05)  # of a small, medium and large change
SAME_MARGIN, SAME_HALF_MARGIN = 0.04, 0.08
STEADY_MARGIN, ONE_HALF_MARGIN = 0.05, 0.055
TARGETS = (
    "steps", "rhr", "hrv", "sleep_duration", "sleep_efficiency", "deep_percentage", "rem_percentage", "bed_time_std",
    "avg_stress_level",
)  # fmt: skip
SIGNALS = (*TARGETS, "active_burn", "vo2_max")
CLASSES = (
    "Slightly above its usual level in both halves of the window",
    "Clearly above its usual level in both halves of the window",
    "Far above its usual level in both halves of the window",
    "Slightly below its usual level in both halves of the window",
    "Clearly below its usual level in both halves of the window",
    "Far below its usual level in both halves of the window",
    "About at its usual level in both halves of the window",
    "At its usual level first, well above it in the second half",
    "At its usual level first, well below it in the second half",
    "Well above its usual level first, back in the second half",
)
OPTIONS = options.numbered(CLASSES)
_EDGES = tuple(sign * edge for edge in BANDS for sign in (-1.0, 1.0))


@functools.cache
def hidden_with(metric: str) -> tuple[str, ...]:
    """A metric and all that would give it away, directly or through others."""
    found = [metric]
    for each in found:
        found += [partner for partner in daily_metrics.partners(each) if partner not in found]
    return tuple(found)


@functools.cache
def signals(metric: str) -> tuple[str, ...]:
    """What remains to be seen in the window."""
    return tuple(each for each in SIGNALS if each not in hidden_with(metric))


@functools.cache
def graph(metric: str) -> Graph:
    """The class of the hidden month, where a regression on the visible signals gives the same one."""
    sketch = health.Sketch()
    history = windows.HISTORY_RANGE
    sketch.window(metric)
    before = sketch.baseline(metric)
    past = sketch.leaf(f"{metric} past", Leaf("series", metric, *history, group="history"))
    earlier = [
        sketch.leaf(f"{each} past", Leaf("series", each, *history, group="history"))
        for each in signals(metric)
    ]
    # Read as it is in every variant: robust has to be the hidden answer, not the way to it.
    now = [
        sketch.leaf(f"{each} now", Leaf("series", each, *windows.WINDOW_RANGE)) for each in signals(metric)
    ]
    sketch.node("level", "median", before)
    sketch.node("spread", "scale", before)
    sketch.node("actual", "month_change", metric, "level", "spread")
    sketch.node("regression", "ridge_prediction", past, *earlier, *now)
    sketch.node("fit", "select", "regression", columns=[0])
    sketch.node("days", "select", "regression", columns=list(range(1, windows.WINDOW + 1)))
    sketch.node("expected", "month_change", "days", "level", "spread")
    for i, part in enumerate(("change", "first", "second"), start=1):
        sketch.node(part, "select", "actual", columns=[i])
    return sketch.graph(sketch.node("key", "predicted", "actual", "expected", "fit", least=LEAST_FIT))


def phrase(key: Key) -> str:
    return CLASSES[int(key[0])]


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Metrics whose month falls into a class that the other signals give away."""
    known = usual.of(person, end)
    for metric in TARGETS:
        if metric not in known.metrics:
            continue
        zero, one = np.zeros((1, 1)), np.ones((1, 1))
        change = month_change(known.window(metric)[None], zero, one)[0]
        if np.isnan(change[0]):
            continue
        made = graph(metric)
        key = health.answer(made, person, end)
        if key is None:
            continue
        yield Candidate(
            type=NAME,
            user=person.record.user,
            end=end,
            metrics=(metric,),
            stem=_stem(metric, end),
            graph=made,
            gold=OPTIONS[int(key[0])],
            distractors=options.others(OPTIONS, OPTIONS[int(key[0])]),
            margins=_margins(int(key[0])),
            resample="jitter",
            hidden=Hidden(window_metrics=hidden_with(metric)),
        )


def _margins(code: int) -> tuple[Margin, ...]:
    if code < 6:
        halves = [Margin(half, (-STEADY_HALF, STEADY_HALF), STEADY_MARGIN) for half in ("first", "second")]
        return (Margin("change", _EDGES, SIZE_MARGINS[code % 3]), *halves)
    if code == 6:
        halves = [Margin(half, (-SAME_HALF, SAME_HALF), SAME_HALF_MARGIN) for half in ("first", "second")]
        return (Margin("change", (-SAME, SAME), SAME_MARGIN), *halves)
    moved, calm = ("first", "second") if code == 9 else ("second", "first")
    return (
        Margin(moved, (-ONE_HALF, ONE_HALF), ONE_HALF_MARGIN),
        Margin(calm, (-STEADY_HALF, STEADY_HALF), STEADY_MARGIN),
    )


def _stem(metric: str, end: int) -> str:
    small, medium, large = BANDS
    return health.stem(
        f"{wording.capitalised(wording.metric(metric))} is withheld in {wording.window(end)}. Judging by the other "
        "signals and by how they went together before, where was its level?",
        wording.baseline(),
        f"Slightly is {small:g} to {medium:g} usual spreads from the usual level, clearly {medium:g} to {large:g}, far "
        f"more; about at it means within {SAME:g}. {wording.halves()}",
    )


TYPE = QuestionType(
    name=NAME,
    group="health",
    signal="cross",
    grounding="population",
    scope="history",
    propose=propose,
    phrase=phrase,
)
