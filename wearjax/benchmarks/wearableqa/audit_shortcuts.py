"""Audits of what can be guessed without the data: by classifiers of the options, by the stem, and by simple rules.

Classifiers are trained on four fifths of the people and tried on the others, so that no question is guessed from
another one about the same person.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.benchmarks.wearableqa.audits import ALL, Finding, at_most, by_chance
from wearjax.benchmarks.wearableqa.candidate import QuestionType
from wearjax.benchmarks.wearableqa.item import LETTERS, Item
from wearjax.errors import ConfigError

FOLDS = 5
LEAST_ITEMS, LEAST_USERS = 20, 5  # to train on
PRIOR_KNOWLEDGE = 0.05  # what a stem may add
TEN = len(LETTERS)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z]{2,}\d?|\d[\d,.]*")
OPTIONS, STEM = "options alone, classifier", "stem and options, classifier"
DEFINITIONAL = "definitional pairs"


def run(items: Sequence[Item], types: Mapping[str, QuestionType], *, seed: int = 0) -> list[Finding]:
    """Simple rules, and classifiers where scikit-learn is installed."""
    of_type: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        of_type[item.category].append(item)
    found = []
    amounts = {name: members for name, members in of_type.items() if types[name].numeric}
    for rule, guess, asked in (
        ("most frequent answer", usual, of_type),
        ("longest option", longest, of_type),
        ("middle amount", middle, amounts),
    ):
        found += _findings(rule, {name: guess(members) for name, members in asked.items()}, 0.0)
    try:
        found += classified(OPTIONS, of_type, _options_alone, 0.0, seed=seed)
        found += classified(STEM, of_type, _with_stem, PRIOR_KNOWLEDGE, seed=seed)
    except ConfigError as error:
        return [*found, *(Finding(name, ALL, len(items), None, note=str(error)) for name in (OPTIONS, STEM))]
    return found


def _findings(audit: str, hits: Mapping[str, np.ndarray], extra: float) -> list[Finding]:
    """The share of right guesses of each type and of all."""
    every = {name: values for name, values in hits.items() if len(values)}
    if len(every) > 1:
        every = {**every, ALL: np.concatenate(list(every.values()))}
    return [
        at_most(audit, name, len(values), float(values.mean()), by_chance(len(values)) + extra)
        for name, values in every.items()
    ]


def folds(items: Sequence[Item]) -> Int64[np.ndarray, "item"]:
    """The fifth to which each question's person belongs."""
    users = sorted({i.user_id for i in items}, key=lambda user: hashlib.sha256(user.encode()).digest())
    place = {user: i % FOLDS for i, user in enumerate(users)}
    return np.array([place[i.user_id] for i in items], np.int64)


def _share(scores: Float64[np.ndarray, "option"], gold: int) -> float:
    """1 where the gold scores highest, a share of it where several do."""
    best = scores >= scores.max() - 1e-12
    return float(best[gold]) / float(best.sum())


def usual(items: Sequence[Item]) -> Float64[np.ndarray, "item"]:
    """Chance of the gold when one chooses what is right most often, of its appearances, for other people."""
    fold = folds(items)
    out = np.zeros(len(items))
    for k in range(FOLDS):
        right: Counter[str] = Counter()
        shown: Counter[str] = Counter()
        for item, at in zip(items, fold, strict=True):
            if at != k:
                right[item.choices[item.gold]] += 1
                shown.update(item.choices)
        for i in np.flatnonzero(fold == k).tolist():
            rate = np.array([(right[text] + 1) / (shown[text] + TEN) for text in items[i].choices])
            out[i] = _share(rate, items[i].gold)
    return out


def longest(items: Sequence[Item]) -> Float64[np.ndarray, "item"]:
    """Chance of the gold when one chooses the longest text."""
    return np.array([_share(np.array([len(t) for t in i.choices], float), i.gold) for i in items])


def middle(items: Sequence[Item]) -> Float64[np.ndarray, "item"]:
    """Chance of the gold when one chooses one of the two middle amounts."""
    amounts = [i for i in items if len(i.keys[0]) == 1]
    ranks = [np.argsort(np.argsort([key[0] for key in i.keys]))[i.gold] for i in amounts]
    return np.array([0.5 if rank in (TEN // 2 - 1, TEN // 2) else 0.0 for rank in ranks])


Tokens = Callable[[Item, int, frozenset[str]], list[str]]


def classified(
    audit: str, of_type: Mapping[str, Sequence[Item]], tokens: Tokens, extra: float, *, seed: int
) -> list[Finding]:
    """Accuracy of a classifier of each type on people that it was not trained on.

    What a classifier may know of stems, people know of pairs that are tied by definition: those are reported by
    themselves and not limited.
    """
    hits, found, tied = {}, [], []
    for name, members in of_type.items():
        users = len({item.user_id for item in members})
        if len(members) < LEAST_ITEMS or users < LEAST_USERS:
            note = f"needs {LEAST_ITEMS} questions about {LEAST_USERS} people to train on"
            found.append(Finding(audit, name, len(members), None, note=note))
            continue
        guessed = _guessed(members, tokens, seed)
        definitional = np.array([item.tag == "definitional" for item in members])
        tied.append(guessed[definitional])
        hits[name] = guessed[~definitional] if extra else guessed
    found = _findings(audit, hits, extra) + found
    by_definition = np.concatenate(tied) if tied else np.empty(0)
    if len(by_definition):
        found.append(Finding(audit, DEFINITIONAL, len(by_definition), float(by_definition.mean())))
    return found


def _guessed(items: Sequence[Item], tokens: Tokens, seed: int) -> Float64[np.ndarray, "item"]:
    """Chance of the gold when the option that the classifier scores highest is chosen."""
    from wearjax.predict import probes

    text, linear = probes.import_sklearn("feature_extraction.text"), probes.import_sklearn("linear_model")
    from scipy import sparse

    common = _common(items)
    rows = [tokens(item, place, common) for item in items for place in range(TEN)]
    numbers = np.concatenate([_features(item) for item in items])
    gold = np.array([place == item.gold for item in items for place in range(TEN)])
    fold = np.repeat(folds(items), TEN)
    out = np.zeros(len(items))
    for k in range(FOLDS):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        if not len(test) or not len(train):
            continue
        words: Any = text.TfidfVectorizer(analyzer=_as_they_are, min_df=2, sublinear_tf=True)
        spread = numbers[train].std(axis=0)
        scaled = (numbers - numbers[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        seen = sparse.hstack([words.fit_transform([rows[i] for i in train]), scaled[train]]).tocsr()
        new = sparse.hstack([words.transform([rows[i] for i in test]), scaled[test]]).tocsr()
        model = linear.LogisticRegression(
            C=1.0, class_weight="balanced", solver="liblinear", random_state=seed, max_iter=200
        )
        scores = model.fit(seen, gold[train]).decision_function(new).reshape(-1, TEN)
        for i, row in zip(test[::TEN] // TEN, scores, strict=True):
            out[i] = _share(row, items[i].gold)
    return out


def _as_they_are(tokens: list[str]) -> list[str]:
    return tokens


def _common(items: Sequence[Item]) -> frozenset[str]:
    """Words that most stems of a type share, which tell nothing."""
    seen = Counter(word for item in items for word in set(_WORD.findall(item.stem.lower())))
    return frozenset(word for word, n in seen.items() if n > 0.9 * len(items))


def _options_alone(item: Item, place: int, common: frozenset[str]) -> list[str]:
    del common
    text = f" {item.choices[place].lower()} "
    return [text, *(text[i : i + n] for n in (2, 3, 4) for i in range(len(text) - n + 1))]


def _with_stem(item: Item, place: int, common: frozenset[str]) -> list[str]:
    """The option, and each of its words with each of the stem's that others do not have."""
    option = item.choices[place].lower()
    words = list(dict.fromkeys(_WORD.findall(option)))
    stem = [
        w for w in dict.fromkeys(_WORD.findall(item.stem.lower())) if w not in common and not w[0].isdigit()
    ]
    crossed = [f"{a}|{b}" for a in stem for b in words]
    return [*_options_alone(item, place, common), *crossed, f"{'+'.join(item.metrics)}|{option}"]


def _features(item: Item) -> Float64[np.ndarray, "option feature"]:
    """Position, length, rank of the first number, likeness to the other options, and numbers that the stem has too."""
    lengths = np.array([len(text) for text in item.choices], float)
    numbers = [[float(n.replace(",", "")) for n in _NUMBER.findall(text)] for text in item.choices]
    first = np.array([found[0] if found else 0.0 for found in numbers])
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    words = [set(_WORD.findall(text.lower())) for text in item.choices]
    alike = np.array([[len(a & b) / max(len(a | b), 1) for b in words] for a in words])
    stem = set(_NUMBER.findall(item.stem))
    told = np.array([sum(n in stem for n in _NUMBER.findall(text)) for text in item.choices], float)
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
