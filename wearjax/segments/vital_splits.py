"""Which surgeries train, validate and test in VitalBench: by time, at random, or from a list.

Sizes are those of the benchmark (section 4): `⌊0.7 n⌋` train, a third of the rest, rounded down, validates, and
what remains tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wearjax.days import splits
from wearjax.days.splits import Splits
from wearjax.errors import ConfigError, StoreError
from wearjax.sources.tally import Tally

RULES = ("time", "random42")
RANDOM_SEED = 42


def sizes(n: int) -> tuple[int, int, int]:
    """Numbers of surgeries that train, validate and test."""
    train = 7 * n // 10
    validation = (n - train) // 3
    return train, validation, n - train - validation


def make(
    ids: Sequence[str],
    starts: np.ndarray,
    rule: str | os.PathLike,
    *,
    tally: Tally,
) -> Splits:
    """Divides surgeries; each list keeps the order in which the rule takes them.

    Args:
        ids: in the order in which they lie in the store.
        starts: `datetime64`, NaT where unknown.
        rule: `time`, `random42`, or a JSON file with the lists `train`, `validation` (or `val`) and `test`.

    Raises:
        ConfigError: unknown rule. StoreError: the file is not readable as lists, or has no surgery of the store.
    """
    check(rule)
    if rule == "time":
        return by_time(ids, starts, tally=tally)
    if rule == "random42":
        return at_random(ids, seed=RANDOM_SEED)
    return from_file(Path(rule), ids, tally=tally)


def check(rule: str | os.PathLike) -> None:
    """Raises ConfigError when the rule is neither known nor a file."""
    if rule not in RULES and not Path(rule).is_file():
        raise ConfigError(
            f"split {str(rule)!r}: expected {', '.join(RULES)} or a JSON file with lists train, validation, test"
        )


def by_time(ids: Sequence[str], starts: np.ndarray, *, tally: Tally) -> Splits:
    """The earliest surgeries train and the latest test; ties and unknown starts go by id, unknown ones last.

    Numbers within ids compare as numbers: case 9 comes before case 10.
    """
    by_id = sorted(range(len(ids)), key=lambda i: _natural(ids[i]))
    rank = np.empty(len(ids), np.int64)
    rank[by_id] = np.arange(len(ids))
    unknown = np.isnat(starts)
    if unknown.any():
        tally.note(
            f"{int(unknown.sum())} of {len(ids)} cases have no start: they are ordered by case id, after the rest"
        )
    order = np.lexsort((rank, np.where(unknown, np.datetime64(0, "s"), starts), unknown))
    return _cut([ids[i] for i in order])


def at_random(ids: Sequence[str], *, seed: int) -> Splits:
    """The reference implementation's split: scikit-learn's `train_test_split` twice with one seed.

    First 70 % against the rest, then the rest into one third that validates and two thirds that test. A split of
    scikit-learn permutes all indices with `RandomState(seed)`, takes the second part from the front and the first
    part behind it.
    """
    train, validation, _ = sizes(len(ids))
    first, rest = _halves(list(ids), train, seed)
    middle, last = _halves(rest, validation, seed)
    return Splits(tuple(first), tuple(middle), tuple(last))


def from_file(file: Path, ids: Sequence[str], *, tally: Tally) -> Splits:
    """Reads lists of ids. Ids that the store lacks, and surgeries in no list, are counted and left out."""
    try:
        listed = splits.from_json(file.read_text(encoding="utf-8"))
    except StoreError as error:
        raise StoreError(f"{file}: {error}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{file}: expected lists train, validation, test of case ids ({error!r})") from None
    known = set(ids)
    parts = [tuple(i for i in part if i in known) for part in (listed.train, listed.validation, listed.test)]
    n_listed = len(listed.train) + len(listed.validation) + len(listed.test)
    n_used = sum(map(len, parts))
    if not n_used:
        raise StoreError(
            f"{file}: none of its {n_listed} case ids is among the cases (the first case is {ids[0]!r})"
        )
    tally.skip("split", "listed, but not among the cases", n_listed - n_used)
    tally.skip("split", "case in none of the lists", len(ids) - n_used)
    return Splits(*parts)


def _cut(ordered: list[str]) -> Splits:
    train, validation, _ = sizes(len(ordered))
    return Splits(
        tuple(ordered[:train]),
        tuple(ordered[train : train + validation]),
        tuple(ordered[train + validation :]),
    )


def _halves(items: list[str], n_first: int, seed: int) -> tuple[list[str], list[str]]:
    order = np.random.RandomState(seed).permutation(len(items))
    n_second = len(items) - n_first
    return [items[i] for i in order[n_second:]], [items[i] for i in order[:n_second]]


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key in which runs of digits compare as numbers."""
    return [
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part
    ]
