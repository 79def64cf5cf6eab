"""Which scores may stand beside each other: those of methods that were scored on the same tasks and participants.

A mean over tasks says nothing good about a method where the tasks that it failed are left out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from wearjax import plural
from wearjax.channels import CATEGORIES, CHANNELS
from wearjax.segments.masks import SEMANTIC, STRUCTURAL

FEW = 10
_LEAVES = ("task:", "channel_")
_COLLAPSED = "cat_collapsed:"

_Line = TypeVar("_Line")
Lacking = Mapping[str, Mapping[str, tuple[str, ...]]]


def lacking(
    scores: Iterable[Any], *, baseline: str, methods: Iterable[str] = ()
) -> dict[str, dict[str, tuple[str, ...]]]:
    """By method, the scopes in which it has less than another method, and the tasks that it lacks there.

    A task is lacking where another method has a skill or rank in it and this one has none, or one of fewer
    participants. Works on score lines of any track.

    Args:
        scores: lines with `method`, `metric`, `scope` and, where known, `n_participants`.
        baseline: its skill is no measure: against itself it has one where nobody else can.
        methods: further ones, which may have no line at all.
    """
    people: dict[str, dict[str, dict[str, int]]] = {}
    for score in scores:
        if score.metric == "rank" or (score.metric == "skill" and score.method != baseline):
            by_scope = people.setdefault(score.metric, {}).setdefault(score.method, {})
            by_scope[score.scope] = getattr(score, "n_participants", 0)
    found: dict[str, dict[str, list[str]]] = {}
    for metric, by_method in people.items():
        for method in methods:
            if metric == "rank" or method != baseline:
                by_method.setdefault(method, {})
        for leaf in dict.fromkeys(scope for own in by_method.values() for scope in own if is_leaf(scope)):
            most = max(own.get(leaf, -1) for own in by_method.values())
            for method, own in by_method.items():
                if own.get(leaf, -1) < most:
                    for scope in scopes_of(leaf):
                        tasks = found.setdefault(method, {}).setdefault(scope, [])
                        if leaf not in tasks:
                            tasks.append(leaf)
    return {m: {s: tuple(tasks) for s, tasks in by_scope.items()} for m, by_scope in found.items()}


def comparable(scores: Iterable[_Line], found: Lacking, *, baseline: str) -> list[_Line]:
    """The score lines without those of scopes in which a method lacks something.

    Fair skill and the skill inside subgroups are of all tasks together. The baseline keeps its skill, 0 by definition.
    """

    def is_whole(score: Any) -> bool:
        if score.method == baseline and score.metric != "rank":
            return True
        scope = score.scope if score.metric in ("skill", "rank") else "overall"
        return scope not in found.get(score.method, {})

    return [score for score in scores if is_whole(score)]


def is_leaf(scope: str) -> bool:
    """Whether a scope is a single task or channel."""
    return scope.startswith(_LEAVES)


def scopes_of(leaf: str) -> tuple[str, ...]:
    """The scopes that a task or channel is part of, itself the last."""
    if leaf.startswith("channel_"):
        category = CHANNELS[int(leaf.removeprefix("channel_"))].category
        return ("overall", category.replace("workouts", "workout"), leaf)
    _, group, name = leaf.split(":", 2)
    if group in SEMANTIC:
        return ("overall", "semantic", group, leaf)
    if group in STRUCTURAL:
        return ("overall", group, f"cat:{_category(name)}", leaf)
    return ("overall", group, leaf)


def _category(name: str) -> str:
    name = name.removeprefix(_COLLAPSED)
    return name if name in CATEGORIES else CHANNELS[int(name.removeprefix("ch_"))].category


def told(found: Lacking) -> list[str]:
    """A line for each method that lacks a task: which, and what that costs it."""
    return [
        f"{method}: no score, or one of fewer participants, in {_listed(by_scope.get('overall', ()))}; it has no "
        "skill, rank or best mark wherever these count"
        for method, by_scope in found.items()
    ]


def _listed(leaves: tuple[str, ...], limit: int = 8) -> str:
    names = [leaf.rpartition(":")[2] if leaf.count(":") == 2 else leaf for leaf in leaves]
    groups = [leaf.split(":")[1] if leaf.count(":") == 2 else "" for leaf in leaves]
    if any(group in (*SEMANTIC, *STRUCTURAL) for group in groups):
        names = [f"{group} {name}" for group, name in zip(groups, names, strict=True)]
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def few_participants(n: int) -> str | None:
    """What a reader must know where hardly anybody was scored; None from ten participants on."""
    if n >= FEW:
        return None
    scored = f"only {n} {plural.noun(n, 'participant')} {'was' if n == 1 else 'were'} scored"
    if n == 1:
        return f"{scored}: intervals are not available, and skills and ranks mean little"
    return f"{scored}: intervals, skills and ranks mean little below about {FEW}"
