"""On how many days of each half of the window was a signal unusually high, or low?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import primitives_events, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Key, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.graph import Graph, Node
from wearjax.benchmarks.wearableqa.primitives_events import Direction
from wearjax.benchmarks.wearableqa.questions import options, usual, wording
from wearjax.benchmarks.wearableqa.seeds import seed_of

NAME = "excursion_count"
THRESHOLD = 1.5  # usual spreads from the usual level
OTHER_THRESHOLDS = (1.0, 2.0)
LEAST_DAYS = 3
CLEAR = 0.1  # usual spreads that every day keeps from the line
DIRECTIONS: tuple[Direction, ...] = ("up", "down")
_OTHER: dict[Direction, Direction] = {"up": "down", "down": "up"}


@functools.cache
def graph(metric: str, direction: Direction) -> Graph:
    """Days of each half that lie beyond the line."""
    count = Node("key", "excursion_count", ("z",), {"threshold": THRESHOLD, "direction": direction})
    return Graph(usual.leaves(metric), (*usual.NODES, count), "key")


def phrase(key: Key) -> str:
    return f"{key[0]:.0f} in the first half, {key[1]:.0f} in the second half"


def propose(person: Person, end: int) -> Iterator[Candidate]:
    """Every metric and direction with three days or more beyond the line."""
    known = usual.of(person, end)
    for metric in known.metrics:
        for direction in DIRECTIONS:
            gold = _counts(known.window(metric), THRESHOLD, direction)
            if sum(gold) < LEAST_DAYS:
                continue
            pool = _pool(gold, known.window(metric), known.previous(metric), direction)
            seed = seed_of(person.record.user, NAME, end, f"options {metric} {direction}")
            distractors = _distractors(gold, pool, np.random.default_rng(seed))
            if len(distractors) < options.DISTRACTORS:
                continue
            line = THRESHOLD if direction == "up" else -THRESHOLD
            yield Candidate(
                type=NAME,
                user=person.record.user,
                end=end,
                metrics=(metric,),
                stem=_stem(metric, direction, end),
                graph=graph(metric, direction),
                gold=Option(phrase(gold), gold),
                distractors=distractors,
                margins=(Margin("z", (line,), CLEAR),),
                resample="baseline",  # any day of the window that is left out may be one of those counted
                tolerance=1.0,
            )


def _counts(z: Float64[np.ndarray, "window"], threshold: float, direction: Direction) -> Key:
    found = primitives_events.excursion_count(z[None], threshold=threshold, direction=direction)[0]
    return tuple(found.tolist())


def _pool(gold: Key, z: np.ndarray, previous: np.ndarray, direction: Direction) -> list[Key]:
    """What one gets with the other direction, another line or other days, or with the halves taken wrongly."""
    total = int(sum(gold))
    splits = [(float(k), float(total - k)) for k in range(total + 1)]
    return [
        _counts(z, THRESHOLD, _OTHER[direction]),
        _counts(previous, THRESHOLD, direction),
        *(_counts(z, threshold, direction) for threshold in OTHER_THRESHOLDS),
        (gold[1], gold[0]),
        *splits,
    ]


def _distractors(gold: Key, pool: list[Key], rng: np.random.Generator) -> tuple[Option, ...]:
    """Wrong computations first, then neighbours of the gold and of the wrong ones alike; all with enough days."""
    near = [_moved(key, rng) for key in (gold, *pool[:5], gold, *pool[:5])]
    far = [(float(a), float(b)) for a, b in rng.integers(0, 7, (12, 2))]
    every = [*pool[:5], *near, *pool[5:], *far]
    possible = [key for key in every if min(key) >= 0 and max(key) <= windows.HALF and sum(key) >= LEAST_DAYS]
    return options.balanced(
        Option(phrase(gold), gold),
        [Option(phrase(key), key) for key in dict.fromkeys(possible)],
        n=options.SPARE,
    )


def _moved(key: Key, rng: np.random.Generator) -> Key:
    """One of the two counts, one or two days more or fewer."""
    by, side = float(rng.choice([-2, -1, 1, 2])), int(rng.integers(2))
    return (key[0] + by, key[1]) if side == 0 else (key[0], key[1] + by)


def _stem(metric: str, direction: Direction, end: int) -> str:
    where = "above" if direction == "up" else "below"
    return (
        f"Over {wording.window(end)}, on how many days was {wording.metric(metric)} more than {THRESHOLD:g} usual "
        f"spreads {where} its usual level? {wording.baseline()} {wording.halves()}"
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
