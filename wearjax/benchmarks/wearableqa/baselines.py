"""Answers without a language model: by chance, by the commonest letter, from the options alone, and by computation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int64

from wearjax.benchmarks.wearableqa import option_classifier, solver
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.errors import ConfigError

NAMES = ("random", "majority", "options_only", "solver")


def letters(
    name: str, items: Sequence[Item], person: Callable[[str], Person] | None = None, *, seed: int = 0
) -> list[str | None]:
    """A baseline's letter for each question.

    Args:
        person: reads a user's record; the solver needs it.

    Raises:
        ConfigError: an unknown baseline, the solver without records, or too few users to learn from.
    """
    if name == "random":
        return list(random(items, seed=seed))
    if name == "majority":
        return list(majority(items))
    if name == "options_only":
        return list(options_only(items, seed=seed))
    if name == "solver":
        if person is None:
            raise ConfigError("baseline 'solver': needs the records")
        return [solver.answer(item, person(item.user_id)) for item in items]
    raise ConfigError(f"baseline {name!r}: expected one of {', '.join(NAMES)}")


def random(items: Sequence[Item], *, seed: int = 0) -> list[str]:
    """A letter drawn for each question, whatever the others are."""
    return [LETTERS[seed_of("random letter", item.id, seed) % len(LETTERS)] for item in items]


def majority(items: Sequence[Item]) -> list[str]:
    """The letter that is most often right among other users' questions of the group; the first of several.

    Raises:
        ConfigError: fewer than two users.
    """
    fold = _folds(items)
    right: Counter[tuple[str, str]] = Counter((item.reasoning_group, item.answer) for item in items)
    own: Counter[tuple[int, str, str]] = Counter(
        (int(f), item.reasoning_group, item.answer) for f, item in zip(fold, items, strict=True)
    )

    def usual(f: int, group: str) -> str:
        return max(LETTERS, key=lambda letter: right[group, letter] - own[f, group, letter])

    return [usual(int(f), item.reasoning_group) for f, item in zip(fold, items, strict=True)]


def _folds(items: Sequence[Item]) -> Int64[np.ndarray, " question"]:
    if len({item.user_id for item in items}) < 2:
        raise ConfigError(
            "questions of at least two users are needed to learn from some and be asked about others"
        )
    return option_classifier.folds(items)


def options_only(items: Sequence[Item], *, seed: int = 0) -> list[str]:
    """The option that looks likeliest to a classifier of each type that sees no data, trained on other users.

    Where no other user was asked about the type, any letter.

    Raises:
        ConfigError: scikit-learn is not installed, or there are fewer than two users.
    """
    _folds(items)
    of_type: dict[str, list[int]] = defaultdict(list)
    for i, item in enumerate(items):
        of_type[item.category].append(i)
    found = random(items, seed=seed)
    for members in of_type.values():
        scores = option_classifier.scores([items[i] for i in members], seed=seed)
        for i, row in zip(members, scores, strict=True):
            if np.ptp(row):
                found[i] = LETTERS[int(row.argmax())]
    return found
