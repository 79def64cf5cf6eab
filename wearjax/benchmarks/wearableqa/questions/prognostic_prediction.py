"""What will a metric do in the 28 days after the record, judging by what followed in the person's own past?

One list of eleven classes: seven of direction and size, and four of a half that is worse or better alone. Seven classes
of change or three of an event would not make the ten options that every question has, and options of two kinds in turn
would leave both lists short of them.

What places the month in a class keeps a tenth of its band's width from the band's ends: its change and that of each
half, from whichever limits the class has (the month's change places no half that stands out alone). A band without an
end takes the width of the one below it. How many earlier months agree decides whether the question is asked, not its
answer.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from wearjax.benchmarks.wearableqa import primitives_change, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf
from wearjax.benchmarks.wearableqa.primitives_change import (
    NEXT_BANDS,
    NEXT_CALM,
    NEXT_EVENT,
    NEXT_HALF,
    NEXT_REST,
    NEXT_SAME,
    RAISED,
    USUAL,
)
from wearjax.benchmarks.wearableqa.questions import health, options, wording
from wearjax.daily_metrics import BY_KEY, INDEX

NAME = "prognostic_prediction"
LEAST_CASES, LEAST_SHARE = 3, 0.8  # of earlier months in the same state, and of those with the same outcome
STATE_MARGIN, CHANGE_MARGIN, SAME_MARGIN = 0.1, 0.05, 0.08
# Of a half: of a steady month, of an unchanged one, and of one that stands out alone.
STEADY_MARGIN, CALM_MARGIN, EVENT_MARGIN = 0.06, 0.1, 0.04
ALONE_MARGIN = 0.1  # of how clearly a half stands out
STATES = ("low", "usual", "high")
SIGNS = (
    "steps", "rhr", "hrv", "vo2_max", "sleep_duration", "sleep_efficiency", "deep_percentage", "rem_percentage",
    "bed_time_std", "avg_stress_level",
)  # fmt: skip
TARGETS = tuple(key for key in SIGNS if BY_KEY[key].better)
CLASSES = (
    "A slightly higher level in both halves of these 28 days",
    "A clearly higher level in both halves of these 28 days",
    "A far higher level in both halves of these 28 days",
    "A slightly lower level in both halves of these 28 days",
    "A clearly lower level in both halves of these 28 days",
    "A far lower level in both halves of these 28 days",
    "The same level as now in both halves of these 28 days",
    "A worse first half, and the same level as now after it",
    "The same level as now, followed by a worse second half",
    "The same level as now, followed by a better second half",
    "A better first half, and the same level as now after it",
)
BRIEF = (7, 10)
UNCHANGED = 6  # the last class that the change of the whole month decides
FIRST_ALONE = (7, 10)  # the others that the halves decide are of the second
OPTIONS = options.numbered(CLASSES)
_EDGES = tuple(sign * edge for edge in NEXT_BANDS for sign in (-1.0, 1.0))


def bad(metric: str) -> int:
    """The unfavourable direction."""
    return -1 if BY_KEY[metric].better == "up" else 1


@functools.cache
def graph(sign: str, target: str) -> Graph:
    """The outcome of the month to come, where enough earlier months of the pattern of `sign` had the same one."""
    sketch = health.Sketch()
    for metric in dict.fromkeys((sign, target)):
        past = sketch.leaf(f"{metric} past", Leaf("series", metric, *windows.HISTORY_RANGE, group="history"))
        sketch.node(f"{metric} all", "stack", past, sketch.window(metric))
        sketch.node(f"{metric} spread", "daily_spread", f"{metric} all")
    to_come = sketch.leaf("to come", Leaf("series", target, *windows.FUTURE, group="future"))
    sketch.node("pattern", "month_pattern", f"{sign} all", f"{sign} spread")
    sketch.node("distance", "select", "pattern", columns=[1, 2])
    sketch.node("outcome", "next_month", target, to_come, f"{target} spread", bad=bad(target))
    sketch.node("change", "select", "outcome", columns=[1])
    sketch.node("halves", "next_halves", target, to_come, f"{target} spread")
    for i, part in enumerate(("first", "second", "alone")):
        sketch.node(part, "select", "halves", columns=[i])
    sketch.node(
        "expected",
        "announced",
        f"{sign} all",
        f"{target} all",
        f"{sign} spread",
        f"{target} spread",
        bad=bad(target),
    )
    return sketch.graph(
        sketch.node("key", "foreseen", "outcome", "expected", least=LEAST_CASES, share=LEAST_SHARE)
    )


def phrase(key: Key) -> str:
    return CLASSES[int(key[0])]


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """For each metric whose next month the past announces, the sign that did so most often."""
    days = person.record.between(end + windows.HISTORY_RANGE[0], end).T
    after = person.record.between(end + windows.FUTURE[0], end + windows.FUTURE[1]).T
    valid = [key for key in SIGNS if windows.valid_window(days[INDEX[key], -windows.WINDOW :], key)]
    targets = [key for key in TARGETS if key in valid and windows.valid_window(after[INDEX[key]], key)]
    if not targets:
        return
    spread = primitives_change.daily_spread(days)[:, 0]
    patterns = primitives_change.month_patterns(days, spread)
    now = patterns[:, 0]
    unusual = [key for key in valid if np.isfinite(now[INDEX[key]]) and now[INDEX[key]] != USUAL]
    if not unusual:
        return
    rows = [INDEX[key] for key in unusual]
    for target in targets:
        i = INDEX[target]
        past = primitives_change.past_outcomes(days[[i]], spread[[i]], bad=bad(target))
        found = primitives_change.counted(patterns[rows], *(np.repeat(x, len(rows), axis=0) for x in past))
        latest = days[i, -windows.HALF :]
        actual, _ = primitives_change.outcome(latest, after[i], spread[i], bad=bad(target))
        fine = (found[:, 0] >= LEAST_CASES) & (found[:, 1] >= LEAST_SHARE - 1e-9) & (found[:, 2] == actual)
        if not fine.any():
            continue
        best = int(np.argmax(np.where(fine, found[:, 0] * found[:, 1], -1.0)))
        yield _candidate(person, end, unusual[best], target, int(actual), int(now[rows[best]]))


def _candidate(person: Person, end: int, sign: str, target: str, code: int, pattern: int) -> Candidate:
    return Candidate(
        type=NAME,
        user=person.record.user,
        end=end,
        metrics=(target,) if sign == target else (sign, target),
        stem=_stem(sign, target, pattern, end),
        graph=graph(sign, target),
        gold=OPTIONS[code],
        distractors=_distractors(code, person, end),
        margins=(Margin("distance", (-RAISED, RAISED), STATE_MARGIN), *_margins(code)),
        resample="jitter",
    )


def _margins(code: int) -> tuple[Margin, ...]:
    alone = Margin("alone", (0.0,), ALONE_MARGIN)
    if code > UNCHANGED:
        half = "first" if code in FIRST_ALONE else "second"
        return (Margin(half, (-NEXT_EVENT, NEXT_EVENT), EVENT_MARGIN), alone)
    if code == UNCHANGED:
        edge, width, least, close = NEXT_SAME, SAME_MARGIN, NEXT_CALM, CALM_MARGIN
        limits: tuple[float, ...] = (-edge, edge)
    else:
        limits, width, least, close = _EDGES, CHANGE_MARGIN, NEXT_HALF, STEADY_MARGIN
    halves = [Margin(half, (-least, least), close) for half in ("first", "second")]
    return (Margin("change", limits, width), *halves, alone)


def _distractors(code: int, person: Person, end: int) -> tuple[Option, ...]:
    """Other changes that hold all month first: a half that is worse or better alone and then over is seldom true."""
    order = health.rng(person, NAME, end).permutation(len(OPTIONS)).tolist()
    order.sort(key=lambda other: other in BRIEF)
    return tuple(OPTIONS[other] for other in order if other != code)


def _stem(sign: str, target: str, pattern: int, end: int) -> str:
    small, medium, large = NEXT_BANDS
    first, second = STATES[pattern // 3], STATES[pattern % 3]
    course = (
        f"{first} in both halves"
        if first == second
        else f"{first} in the first half and {second} in the second"
    )
    return health.stem(
        f"Over {wording.window(end)}, {wording.metric(sign)} was {course}, for this person.",
        f"Judging by what {wording.metric(target)} did after earlier months of that kind, what does it do in the "
        "28 days after the record ends, compared with the latest 14 days?",
        f"Low and high are medians more than {RAISED:g} spreads from the median of all days shown; a spread is 1.4826 "
        "times the median absolute change from day to day, divided by the square root of two.",
        f"Slightly is {small:g} to {medium:g} spreads away, clearly {medium:g} to {large:g}, far more; the same level "
        f"is within {NEXT_SAME:g}, and a half that is worse or better alone is so by {NEXT_EVENT:g} or more, "
        f"the other half within {NEXT_REST:g}.",
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
