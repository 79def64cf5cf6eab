"""Audits of questions against records: made again, solved, and asked about somebody else's days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wearjax.benchmarks.wearableqa import gates, reads, solver
from wearjax.benchmarks.wearableqa.audits import ALL, Finding, at_least
from wearjax.benchmarks.wearableqa.candidate import Person, QuestionType
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.graph import evaluate
from wearjax.benchmarks.wearableqa.item import Item
from wearjax.benchmarks.wearableqa.panel import Panel

CHANGED_AT_LEAST = 0.70
TRIED = 20  # others of whom one must have an answer


def run(
    built: Dataset,
    types: Mapping[str, QuestionType],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Finding], dict[str, list[str]]]:
    """Findings, and what is wrong with single questions."""
    people = {user: built.person(user) for user in sorted({item.user_id for item in built.items})}
    panel = Panel(list(people.values()))
    faults: dict[str, list[str]] = defaultdict(list)
    changed: dict[str, list[bool]] = defaultdict(list)
    alike = solved = single = 0
    for done, item in enumerate(built.items, 1):
        person = people[item.user_id]
        (key,) = evaluate(item.graph, reads.read(item.graph, person, item.end)).tolist()
        again = reads.verify(item.graph, item.keys[item.gold], person, item.end)
        right = solver.answer(item, person) == item.answer
        only = gates.unique(types[item.category], item.candidate(), tuple(key))
        alike, solved, single = alike + again, solved + right, single + only
        for good, fault in (
            (again, "the record gives another answer"),
            (right, "the reference solver answers otherwise"),
            (only, "not exactly one option holds"),
        ):
            if not good:
                faults[item.id].append(fault)
        if item.reasoning_group == "data":
            swapped = _swapped(item, types[item.category], panel)
            if swapped is not None:
                changed[item.category].append(swapped)
        if progress:
            progress(done, len(built.items))
    n = len(built.items)
    found = [
        at_least("answers that can be made again", ALL, n, alike / max(n, 1), 1.0),
        at_least("answers of the reference solver", ALL, n, solved / max(n, 1), 1.0),
        at_least("questions with one true option", ALL, n, single / max(n, 1), 1.0),
    ]
    return found + _changes(changed), dict(faults)


def _changes(changed: Mapping[str, Sequence[bool]]) -> list[Finding]:
    name = "answer changes with another person's days"
    every = [one for of_type in changed.values() for one in of_type]
    if not every:
        return []
    return [at_least(name, "data", len(every), float(np.mean(every)), CHANGED_AT_LEAST)] + [
        Finding(name, kind, len(of_type), float(np.mean(of_type))) for kind, of_type in changed.items()
    ]


def _swapped(item: Item, question_type: QuestionType, panel: Panel) -> bool | None:
    """Whether the first other person who has an answer has another one; None where nobody has any."""
    weekday = item.end % panel.ends.shape[1] if len(panel.ends) else 0
    for other in panel.order(item.user_id, item.category, item.end)[:TRIED]:
        end = int(panel.ends[other, weekday])
        if end < 0:
            continue
        person: Person = panel.people[other]
        key = evaluate(item.graph, reads.read(item.graph, person, end))
        if np.isfinite(key).all():
            return not bool(gates.chosen(question_type, item.candidate(), key)[0])
    return None
