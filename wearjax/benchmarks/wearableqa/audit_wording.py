"""Audits of what is written: letters, options that are right too often or too seldom, doublets, lengths, safety."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from wearjax.benchmarks.wearableqa import option_balance, safety
from wearjax.benchmarks.wearableqa.audits import ALL, Finding, at_least, at_most
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.item import LETTERS, Item

LEAST_P = 0.05


def run(built: Dataset) -> tuple[list[Finding], dict[str, list[str]]]:
    """Findings, and what is wrong with single questions."""
    items = built.items
    found = letters(items) + rates(items)
    words = Counter((item.stem, *item.choices) for item in items)
    doublets = sum(n - 1 for n in words.values())
    found.append(at_most("questions that occur twice", ALL, len(items), doublets, 0))
    faults: dict[str, list[str]] = defaultdict(list)
    longest = 0.0
    for item in items:
        lengths = [len(text) for text in item.choices]
        ratio = max(lengths) / max(min(lengths), 1)
        longest = max(longest, ratio)
        if ratio > option_balance.LENGTH_RATIO:
            faults[item.id].append(f"longest option is {ratio:.2f} times the shortest")
        if len(set(item.choices)) < len(item.choices):
            faults[item.id].append("an option occurs twice")
        faults[item.id] += safety.problems(item.reasoning_group, item.stem, item.choices)
    found.append(at_most("longest to shortest option", ALL, len(items), longest, option_balance.LENGTH_RATIO))
    unsafe = sum(any(safety.problems(i.reasoning_group, i.stem, i.choices)) for i in items)
    found.append(at_most("questions with forbidden wording", ALL, len(items), unsafe, 0))
    return found, {name: reasons for name, reasons in faults.items() if reasons}


def letters(items: Sequence[Item]) -> list[Finding]:
    """χ² of the gold letters of each reasoning group against equal shares, and how far their counts differ."""
    from scipy import stats

    found = []
    for group in ("data", "health"):
        counts = np.array([sum(i.answer == c for i in items if i.reasoning_group == group) for c in LETTERS])
        n = int(counts.sum())
        if n:
            p = float(stats.chisquare(counts).pvalue)
            found.append(at_least("p of equal letters", group, n, p, LEAST_P))
            found.append(Finding("difference of letter counts", group, n, float(np.ptp(counts))))
    return found


def rates(items: Sequence[Item]) -> list[Finding]:
    """How many answers of each type that recur are right in less than 5 % or more than 15 % of their questions."""
    of_type: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        of_type[item.category].append(item)
    out = []
    for name, members in of_type.items():
        if len(members[0].keys[0]) == 1 and not _recurs(members):
            continue  # amounts, which are all different
        found = option_balance.rates((i.choices[i.gold], i.choices) for i in members)
        wrong = option_balance.uneven(found)
        worst = max(wrong, key=lambda text: wrong[text][1], default="")
        note = f"{worst!r} is right {wrong[worst][0]} times of {wrong[worst][1]}" if worst else ""
        out.append(at_most("answers right too often or seldom", name, len(members), len(wrong), 0, note))
    return out


def _recurs(items: Sequence[Item]) -> bool:
    """Whether answers are of a fixed list."""
    texts = {text for item in items for text in item.choices}
    return len(texts) <= 3 * len(LETTERS) and len(items) > 3
