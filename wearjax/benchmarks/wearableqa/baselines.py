"""Answers without a language model: by chance, by the commonest letter, from the options alone, and by computation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.benchmarks.wearableqa import audit_shortcuts, solver
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.errors import ConfigError

NAMES = ("random", "majority", "options_only", "solver")
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")


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
    return audit_shortcuts.folds(items)


def options_only(items: Sequence[Item], *, stems: bool = False, seed: int = 0) -> list[str]:
    """A classifier that sees no data: characters of the options, their lengths, places and the order of their numbers.

    Logistic regression on whether an option is the right one, learned on other users' questions; the option with the
    highest probability is chosen.

    Args:
        stems: it may read the question too.

    Raises:
        ConfigError: scikit-learn is not installed, or there are fewer than two users.
    """
    from scipy import sparse

    from wearjax.predict import probes

    text, linear = probes.import_sklearn("feature_extraction.text"), probes.import_sklearn("linear_model")
    fold = _folds(items)
    texts = [[_seen(item, choice, stems) for choice in item.choices] for item in items]
    shape = np.stack([_shape(item) for item in items])
    gold = np.array([item.gold for item in items])
    found = np.zeros(len(items), np.int64)
    for held_out in np.unique(fold):
        learn, ask = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        words = text.TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=2, sublinear_tf=True)
        learned = words.fit_transform([seen for i in learn for seen in texts[i]])
        asked = words.transform([seen for i in ask for seen in texts[i]])
        x = sparse.hstack([learned, shape[learn].reshape(-1, shape.shape[2])]).tocsr()
        y = (np.arange(len(LETTERS)) == gold[learn][:, None]).ravel()
        model = linear.LogisticRegression(solver="liblinear", random_state=seed).fit(x, y)
        z = sparse.hstack([asked, shape[ask].reshape(-1, shape.shape[2])]).tocsr()
        found[ask] = model.decision_function(z).reshape(len(ask), len(LETTERS)).argmax(axis=1)
    return [LETTERS[i] for i in found]


def _seen(item: Item, text: str, stems: bool) -> str:
    """What the classifier reads of an option: types have options of their own."""
    return f"{item.category} {item.stem} {text}" if stems else f"{item.category} {text}"


def _shape(item: Item) -> Float64[np.ndarray, "option feature"]:
    """Length and its rank, place, and value rank of the first number, each between 0 and 1."""
    n = len(LETTERS)
    length = np.array([len(text) for text in item.choices], np.float64)
    first = [_NUMBER.search(text) for text in item.choices]
    value = np.array([float(m.group().replace(",", "").replace("−", "-")) if m else np.nan for m in first])
    rank = _rank(value) if np.isfinite(value).all() else np.full(n, 0.5)
    middle = 1 - 2 * np.abs(rank - 0.5)
    long = _rank(length)
    return np.column_stack([length / length.max(), long, 1 - 2 * np.abs(long - 0.5), rank, middle, np.eye(n)])


def _rank(values: np.ndarray) -> np.ndarray:
    """Share of the options below, ties in the middle of their share."""
    below = (values[None] < values[:, None]).sum(axis=1)
    through = (values[None] <= values[:, None]).sum(axis=1)
    return (below + through - 1) / (2 * (len(values) - 1))
