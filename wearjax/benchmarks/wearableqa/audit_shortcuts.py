"""Audits of what can be guessed without the data: by classifiers of the options, by the stem, and by simple rules.

Classifiers are trained on four fifths of the people and tried on the others, so that no question is guessed from
another one about the same person.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import option_classifier
from wearjax.benchmarks.wearableqa.audits import ALL, Finding, at_most, by_chance
from wearjax.benchmarks.wearableqa.candidate import QuestionType
from wearjax.benchmarks.wearableqa.item import Item
from wearjax.benchmarks.wearableqa.option_classifier import TEN, Tokens
from wearjax.errors import ConfigError

LEAST_ITEMS, LEAST_USERS = 20, 5  # to train on
PRIOR_KNOWLEDGE = 0.05  # what a stem may add
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
        found += classified(OPTIONS, of_type, option_classifier.options_alone, 0.0, seed=seed)
        found += classified(STEM, of_type, option_classifier.with_stem, PRIOR_KNOWLEDGE, seed=seed)
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


def _share(scores: Float64[np.ndarray, "option"], gold: int) -> float:
    """1 where the gold scores highest, a share of it where several do."""
    best = scores >= scores.max() - 1e-12
    return float(best[gold]) / float(best.sum())


def usual(items: Sequence[Item]) -> Float64[np.ndarray, "item"]:
    """Chance of the gold when one chooses what is right most often, of its appearances, for other people."""
    fold = option_classifier.folds(items)
    out = np.zeros(len(items))
    for k in range(option_classifier.FOLDS):
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
        scored = option_classifier.scores(members, tokens, seed=seed)
        guessed = np.array([_share(row, i.gold) for row, i in zip(scored, members, strict=True)])
        definitional = np.array([item.tag == "definitional" for item in members])
        tied.append(guessed[definitional])
        hits[name] = guessed[~definitional] if extra else guessed
    found = _findings(audit, hits, extra) + found
    by_definition = np.concatenate(tied) if tied else np.empty(0)
    if len(by_definition):
        found.append(Finding(audit, DEFINITIONAL, len(by_definition), float(by_definition.mean())))
    return found
