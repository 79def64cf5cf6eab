"""Perturbed records of a question: which days each of some sixty variants keeps, and what its leaves then read.

Counts follow WearableQA (30 resamples, every single day removed, the baseline varied); how days are drawn is this
project's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.benchmarks.wearableqa import reads, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Person, Resample
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.daily_metrics import INDEX
from wearjax.errors import ConfigError

RESAMPLES = 30
BLOCK = 4  # days
DROPPED = 3  # of 28 days, a tenth
LONGEST = max(windows.BASELINES)
VARIED = tuple(b for b in windows.BASELINES if b != windows.BASELINE)
MISSING = -1  # a row that no day fills


@dataclass(frozen=True, eq=False)
class Variants:
    """What each variant does to a record; the first changes nothing.

    Attributes:
        rows: days of the window, from 0, that stand in its 28 places; −1 for none.
        baseline_rows: likewise of the 112 days before the window.
        kind: per variant, `as_is`, `resample`, `deletion` or `baseline`.
    """

    rows: Int64[np.ndarray, "variant window"]
    baseline_rows: Int64[np.ndarray, "variant baseline"]
    kind: tuple[str, ...]

    def of_kind(self, kind: str) -> np.ndarray:
        return np.array([each == kind for each in self.kind])


def of(candidate: Candidate) -> Variants:
    """The variants of a candidate: of its window and baseline only where its graph reads one."""
    groups = {leaf.group for leaf in candidate.graph.leaves.values()}
    seed = seed_of(candidate.user, candidate.type, candidate.end, "resample")
    return _variants(seed, candidate.resample, "window" in groups, "baseline" in groups)


@functools.lru_cache(maxsize=64)
def _variants(seed: int, resample: Resample, window: bool, baseline: bool) -> Variants:
    day, before = np.arange(windows.WINDOW), np.arange(LONGEST)
    usual = np.where(before >= LONGEST - windows.BASELINE, before, MISSING)
    rows, earlier, kind = [day], [usual], ["as_is"]
    rng = np.random.default_rng(seed)
    if (window and resample in _DRAWS) or (baseline and resample == "baseline"):
        for _ in range(RESAMPLES):
            rows.append(_DRAWS[resample](rng) if resample in _DRAWS else day)
            earlier.append(_baseline(rng, usual) if resample == "baseline" else usual)
            kind.append("resample")
    if window:
        rows += [np.where(day == gone, MISSING, day) for gone in day]
        earlier += [usual] * windows.WINDOW
        kind += ["deletion"] * windows.WINDOW
    if baseline:
        rows += [day] * len(VARIED)
        earlier += [np.where(before >= LONGEST - b, before, MISSING) for b in VARIED]
        kind += ["baseline"] * len(VARIED)
    return Variants(np.array(rows), np.array(earlier), tuple(kind))


def _days(rng: np.random.Generator) -> Int64[np.ndarray, "window"]:
    """With replacement; each half within itself, so that answers about halves keep their meaning."""
    first = rng.integers(0, windows.HALF, windows.HALF)
    second = rng.integers(windows.HALF, windows.WINDOW, windows.WINDOW - windows.HALF)
    return np.concatenate([first, second])


def _blocks(rng: np.random.Generator) -> Int64[np.ndarray, "window"]:
    """Blocks of days in a row, laid out in their order in time."""
    starts = np.sort(rng.integers(0, windows.WINDOW - BLOCK + 1, windows.WINDOW // BLOCK))
    return (starts[:, None] + np.arange(BLOCK)).ravel()


def _jitter(rng: np.random.Generator) -> Int64[np.ndarray, "window"]:
    rows = np.arange(windows.WINDOW)
    rows[rng.choice(windows.WINDOW, DROPPED, replace=False)] = MISSING
    return rows


def _baseline(rng: np.random.Generator, usual: np.ndarray) -> Int64[np.ndarray, "baseline"]:
    drawn = rng.integers(LONGEST - windows.BASELINE, LONGEST, LONGEST)
    return np.where(usual == MISSING, MISSING, drawn)


_DRAWS = {"days": _days, "blocks": _blocks, "jitter": _jitter}


def read(
    graph: Graph, person: Person, end: int, variants: Variants
) -> dict[str, Float64[np.ndarray, "variant n"]]:
    """What every leaf reads in every variant; leaves that no variant touches keep a single row.

    A variant whose baseline holds too few measured days reads none of it, so that its answer is undefined.

    Raises:
        ConfigError: a leaf of the window or baseline over other days than theirs.
    """
    values: dict[str, np.ndarray] = dict(reads.read(graph, person, end))
    for name, leaf in graph.leaves.items():
        if leaf.kind == "series" and leaf.group == "window":
            values[name] = _window(leaf, person, end, variants)
        elif leaf.kind == "series" and leaf.group == "baseline":
            values[name] = _varied(leaf, person, end, variants)
    return values


def _window(leaf: Leaf, person: Person, end: int, variants: Variants) -> Float64[np.ndarray, "variant n"]:
    first, last = windows.WINDOW_RANGE
    whole = leaf.days == windows.WINDOW  # at some lag: row i is day i of the leaf
    if not whole and not (first <= leaf.first and leaf.last <= last):
        raise ConfigError(f"leaf {leaf.name}: of group window, over days {leaf.first} to {leaf.last}")
    over = leaf if whole else Leaf("series", leaf.name, first, last, "window")
    days = person.record.between(end + over.first, end + over.last)[:, INDEX[leaf.name]]
    rows = _taken(reads.shown(over, days), variants.rows)
    return rows if whole else rows[:, leaf.first - first : leaf.last - first + 1]


def _varied(
    leaf: Leaf, person: Person, end: int, variants: Variants
) -> Float64[np.ndarray, "variant baseline"]:
    if (leaf.first, leaf.last) != windows.baseline_range():
        raise ConfigError(f"leaf {leaf.name}: of group baseline, over days {leaf.first} to {leaf.last}")
    first, last = windows.baseline_range(LONGEST)
    days = person.record.between(end + first, end + last)[:, INDEX[leaf.name]]
    rows = _taken(days, variants.baseline_rows)
    wanted = (variants.baseline_rows != MISSING).sum(axis=1)
    enough = np.isfinite(rows).sum(axis=1) >= windows.BASELINE_SHARE * wanted
    enough |= variants.of_kind("resample")  # drawn from a baseline that the question itself rests on
    return np.where(enough[:, None], rows, np.nan)


def _taken(days: Float64[np.ndarray, " day"], rows: Int64[np.ndarray, "variant place"]) -> np.ndarray:
    return np.append(days, np.nan)[rows]  # −1 is the NaN at the end
