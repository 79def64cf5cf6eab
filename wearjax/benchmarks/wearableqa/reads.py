"""Reads of a person's record for the leaves of a computation graph, and the check that an answer can be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import EXACT, Key, Person
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, evaluate, evaluate_many
from wearjax.daily_metrics import INDEX
from wearjax.errors import ConfigError

SEXES = {"female": 0.0, "f": 0.0, "male": 1.0, "m": 1.0}  # how the profile's sex reads as a number


def read(graph: Graph, person: Person, end: int) -> dict[str, Float64[np.ndarray, "1 n"]]:
    """What every leaf holds, NaN where nothing is known.

    Days outside the window are missing to leaves of group `window` (a lag pairs only days of the window), and days
    after the end date to all but those of group `future`.

    Args:
        end: days since 1970-01-01.

    Raises:
        ConfigError: a leaf that names no metric, statistic, entry of the profile or kind.
    """
    spans: dict[tuple[int, int], np.ndarray] = {}
    out = {}
    for name, leaf in graph.leaves.items():
        if leaf.kind == "series":
            span = (leaf.first, leaf.last)
            if span not in spans:
                spans[span] = person.record.between(end + leaf.first, end + leaf.last)
            out[name] = shown(leaf, spans[span][:, column(leaf)])[None]
        else:
            out[name] = np.array([[single(leaf, person, end)]])
    return out


def answers(programs: Sequence[Graph], person: Person, end: int) -> list[Float64[np.ndarray, "1 key"]]:
    """What each of many graphs of one program gives for a person and an end date."""
    return evaluate_many(programs, [read(each, person, end) for each in programs])


def shown(leaf: Leaf, days: Float64[np.ndarray, " day"]) -> Float64[np.ndarray, " day"]:
    """The days of a series leaf that it may see."""
    first, last = {"window": windows.WINDOW_RANGE, "future": (leaf.first, leaf.last)}.get(
        leaf.group, (leaf.first, 0)
    )
    if leaf.first >= first and leaf.last <= last:
        return days
    offset = np.arange(leaf.first, leaf.last + 1)
    return np.where((offset >= first) & (offset <= last), days, np.nan)


def same(
    found: Float64[np.ndarray, "variant key"], key: Key, *, within: float = 0.0
) -> Bool[np.ndarray, " variant"]:
    """Which rows are this answer, each number up to `within` away; an undefined one is no answer."""
    wanted = np.asarray(key, np.float64)
    if found.shape[1] != len(wanted):
        raise ConfigError(f"answer of {found.shape[1]} numbers compared with one of {len(wanted)}")
    room = within + EXACT * np.maximum(np.abs(wanted), 1.0)
    with np.errstate(invalid="ignore"):
        return np.logical_and.reduce(np.abs(found - wanted) <= room, axis=1)


def verify(graph: Graph, key: Key, person: Person, end: int) -> bool:
    """Whether the record still gives an item's stored answer.

    Args:
        end: the item's end date, days since 1970-01-01.
    """
    return bool(same(evaluate(graph, read(graph, person, end)), key).all())


def column(leaf: Leaf) -> int:
    """Where a series stands among the metrics. Raises ConfigError where there is none of its name."""
    if leaf.name not in INDEX:
        raise ConfigError(f"leaf {leaf.name!r}: no daily metric of this name")
    return INDEX[leaf.name]


def single(leaf: Leaf, person: Person, end: int) -> float:
    """A number that has no days."""
    found: float | None
    if leaf.kind == "cohort":
        found = person.cohort.statistic(leaf.name, leaf.statistic)
    elif leaf.kind == "peers":
        who = person.record.demographics
        found = person.cohort.statistic(leaf.name, leaf.statistic, age=who.age, sex=who.sex)
    elif leaf.kind == "blood":
        value = person.blood(end).get(leaf.name)
        found = None if value is None else value.value
    elif leaf.kind == "profile":
        found = _profile(leaf.name, person)
    else:
        raise ConfigError(f"leaf {leaf.name!r}: unknown kind {leaf.kind!r}")
    return np.nan if found is None else float(found)


def _profile(name: str, person: Person) -> float | None:
    demographics = person.record.demographics
    numbers: Mapping[str, float | None] = {
        "age": demographics.age,
        "bmi": demographics.bmi,
        "sex": SEXES.get((demographics.sex or "").lower()),
    }
    if name not in numbers:
        raise ConfigError(f"leaf {name!r}: the profile has the numbers {', '.join(numbers)}")
    return numbers[name]
