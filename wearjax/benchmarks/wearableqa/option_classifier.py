"""A classifier that sees no data: which of ten options looks right by its wording, place, length and numbers.

Trained on four fifths of the people and asked about the others, so that no question is guessed from another one about
the same person. Audits want it to fail; as a baseline it says how far options alone lead.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.benchmarks.wearableqa import option_disguise
from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.benchmarks.wearableqa.option_disguise import WORD

FOLDS = 5
LEAST_QUESTIONS = 2  # of others, to train on
TEN = len(LETTERS)
Tokens = Callable[[Item, int, frozenset[str]], list[str]]


def folds(items: Sequence[Item]) -> Int64[np.ndarray, "item"]:
    """The fifth to which each question's person belongs."""
    users = sorted({i.user_id for i in items}, key=lambda user: hashlib.sha256(user.encode()).digest())
    place = {user: i % FOLDS for i, user in enumerate(users)}
    return np.array([place[i.user_id] for i in items], np.int64)


def options_alone(item: Item, place: int, common: frozenset[str]) -> list[str]:
    del common
    text = f" {item.choices[place].lower()} "
    return [text, *(text[i : i + n] for n in (2, 3, 4) for i in range(len(text) - n + 1))]


def with_stem(item: Item, place: int, common: frozenset[str]) -> list[str]:
    """The option, and each of its words with each of the stem's that others do not have."""
    option = item.choices[place].lower()
    words = list(dict.fromkeys(WORD.findall(option)))
    stem = [
        w for w in dict.fromkeys(WORD.findall(item.stem.lower())) if w not in common and not w[0].isdigit()
    ]
    crossed = [f"{a}|{b}" for a in stem for b in words]
    return [*options_alone(item, place, common), *crossed, f"{'+'.join(item.metrics)}|{option}"]


def scores(
    items: Sequence[Item], tokens: Tokens = options_alone, *, seed: int = 0
) -> Float64[np.ndarray, "item option"]:
    """How likely each option looks to a classifier that was trained on other people's questions.

    Zero throughout where fewer than two others were asked.

    Args:
        items: of one type; types have options of their own.
        tokens: what is read of an option.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    from wearjax.predict import probes

    text, linear = probes.import_sklearn("feature_extraction.text"), probes.import_sklearn("linear_model")
    from scipy import sparse

    common = _common(items)
    rows = [tokens(item, place, common) for item in items for place in range(TEN)]
    numbers = np.concatenate([_features(item) for item in items])
    gold = np.array([place == item.gold for item in items for place in range(TEN)])
    fold = np.repeat(folds(items), TEN)
    out = np.zeros((len(items), TEN))
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if not len(test) or len(train) < LEAST_QUESTIONS * TEN:
            continue
        words: Any = text.TfidfVectorizer(analyzer=_as_they_are, min_df=2, sublinear_tf=True)
        spread = numbers[train].std(axis=0)
        scaled = (numbers - numbers[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        seen = sparse.hstack([words.fit_transform([rows[i] for i in train]), scaled[train]]).tocsr()
        new = sparse.hstack([words.transform([rows[i] for i in test]), scaled[test]]).tocsr()
        model = linear.LogisticRegression(
            C=1.0, class_weight="balanced", solver="liblinear", random_state=seed, max_iter=200
        )
        out[test[::TEN] // TEN] = model.fit(seen, gold[train]).decision_function(new).reshape(-1, TEN)
    return out


def _as_they_are(tokens: list[str]) -> list[str]:
    return tokens


def _common(items: Sequence[Item]) -> frozenset[str]:
    """Words that most stems of a type share, which tell nothing."""
    seen = Counter(word for item in items for word in set(WORD.findall(item.stem.lower())))
    return frozenset(word for word, n in seen.items() if n > 0.9 * len(items))


def _features(item: Item) -> Float64[np.ndarray, "option feature"]:
    """Position, length, rank of the first number, likeness to the other options, and numbers that the stem has too."""
    lengths = np.array([len(text) for text in item.choices], float)
    first = option_disguise.first_numbers(item.choices)
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    alike = option_disguise.likeness(item.choices)
    stem = set(option_disguise.numbers(item.stem))
    told = np.array([sum(n in stem for n in option_disguise.numbers(text)) for text in item.choices], float)
    ranked = bool(np.ptp(first))
    return np.column_stack(
        [
            np.eye(TEN),
            np.eye(TEN)[rank] * ranked,
            np.abs(rank - 4.5) * ranked,
            lengths - lengths.mean(),
            np.argsort(np.argsort(lengths, kind="stable"), kind="stable"),
            alike.mean(axis=1) - alike.mean(),
            alike.sum(axis=1) - 1 - np.max(alike - np.eye(TEN), axis=1),
            told - told.mean(),
        ]
    )
