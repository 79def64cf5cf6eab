"""Other people's windows: what a pattern has to differ from before it counts as this person's own.

A person's metric correlates with the same weekdays of somebody else's by calendar and chance alone. The comparison with
200 others is WearableQA's; taking ranks on each series' own days, so that all others are one matrix product, is this
project's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64

from wearjax.benchmarks.wearableqa import primitives, reads, windows
from wearjax.benchmarks.wearableqa.candidate import Coupling, Person
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, evaluate
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.daily_metrics import INDEX, N_METRICS

OTHERS = 200
LARGEST = 2 * OTHERS  # people of a panel; each question draws its own 200 of them
WEEK = 7
SEARCH_SHARE = 0.8  # of a search's couplings that another person must have, to be searched too
KEPT_ANSWERS = 4096
EARLIEST, LATEST = windows.HISTORY_RANGE[0], windows.FUTURE[1]


class Panel:
    """People to compare with, each with one window for every day of the week on which a window can end.

    Args:
        people: everybody; a panel of 400 is drawn from more. Their order does not matter.
    """

    def __init__(self, people: Sequence[Person]):
        ordered = sorted(people, key=lambda person: person.record.user)
        if len(ordered) > LARGEST:
            rng = np.random.default_rng(seed_of("panel", len(ordered)))
            ordered = [ordered[i] for i in np.sort(rng.choice(len(ordered), LARGEST, replace=False))]
        self.people = tuple(ordered)
        self.users = tuple(person.record.user for person in ordered)
        ends = [_aligned_ends(person) for person in ordered]
        self.ends: Int64[np.ndarray, "person weekday"] = np.array(ends, np.int64).reshape(-1, WEEK)
        self._answers: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}
        self._latest: tuple[int, np.ndarray] = (-1, np.empty(0))

    def order(self, user: str, type_name: str, end: int) -> Int64[np.ndarray, "other"]:
        """All others, in the order in which a question asks them."""
        others = np.array([i for i, other in enumerate(self.users) if other != user], np.int64)
        return np.random.default_rng(seed_of(user, type_name, end, "others")).permutation(others)

    def correlations(
        self, window: Float64[np.ndarray, "day metric=16"], end: int, couplings: Sequence[Coupling]
    ) -> tuple[Float64[np.ndarray, "coupling"], Float64[np.ndarray, "coupling person"]]:
        """|ρ| of a person's own couplings, and of the first metric with everybody else's second one.

        Ranks are taken over each series' measured days and correlated over the common ones: Spearman's ρ where nothing
        is missing. NaN with too few common days.

        Args:
            window: the person's 28 days.
            end: days since 1970-01-01; others' windows end on the same weekday.
        """
        own, there = _ranked(window.T)
        ranks, measured = self._ranks(int(end % WEEK))
        found = np.full(len(couplings), np.nan)
        null = np.full((len(couplings), len(self.people)), np.nan)
        by_second: dict[str, list[int]] = {}
        for i, (_, b, _) in enumerate(couplings):
            by_second.setdefault(b, []).append(i)
        for b, rows in by_second.items():
            firsts = [(INDEX[couplings[i][0]], couplings[i][2]) for i in rows]
            x = np.stack([_later(own[a], lag) for a, lag in firsts])
            known = np.stack([_later(there[a], lag) for a, lag in firsts])
            least = windows.PAIRED_DAYS - np.abs([[lag] for _, lag in firsts])
            column = INDEX[b]
            found[rows] = _correlated(x, known, own[[column]], there[[column]], least)[:, 0]
            null[rows] = _correlated(x, known, ranks[column], measured[column], least)
        return np.abs(found), np.abs(null)

    def answers(
        self, graph: Graph, end: int
    ) -> tuple[Float64[np.ndarray, "person key"], Bool[np.ndarray, "person"]]:
        """Everybody's answer to a question, and whether they have anything for it to read.

        Args:
            end: of the question; others' windows end on the same weekday.
        """
        weekday = int(end % WEEK)
        name = (graph.digest(), weekday)
        if name not in self._answers:
            if len(self._answers) >= KEPT_ANSWERS:
                self._answers.clear()
            values = {leaf: self._read(each, weekday) for leaf, each in graph.leaves.items()}
            readable = self.ends[:, weekday] >= 0
            for rows in values.values():
                readable &= np.isfinite(rows).any(axis=1)
            found = np.zeros((0, 1))
            if readable.any():
                found = evaluate(graph, {leaf: rows[readable] for leaf, rows in values.items()})
            keys = np.full((len(self.people), found.shape[1]), np.nan)
            keys[readable] = found
            self._answers[name] = keys, readable
        return self._answers[name]

    def _read(self, leaf: Leaf, weekday: int) -> Float64[np.ndarray, "person n"]:
        """What a leaf holds for everybody, as `reads.read` has it for one."""
        if leaf.kind == "series":
            days = self._days(weekday)[reads.column(leaf)]
            return reads.shown(leaf, days[:, leaf.first - EARLIEST : leaf.last - EARLIEST + 1])
        ends = self.ends[:, weekday].tolist()
        found = [reads.single(leaf, person, end) for person, end in zip(self.people, ends, strict=True)]
        return np.array(found, np.float64)[:, None]

    def _days(self, weekday: int) -> Float64[np.ndarray, "metric=16 person day"]:
        """All days that a question can read; of the weekday asked for last only, for they are many."""
        if self._latest[0] != weekday:
            days = np.full((len(self.people), LATEST - EARLIEST + 1, N_METRICS), np.nan)
            for row, person, end in zip(days, self.people, self.ends[:, weekday].tolist(), strict=True):
                if end >= 0:
                    row[:] = person.record.between(end + EARLIEST, end + LATEST)
            self._latest = weekday, np.ascontiguousarray(np.moveaxis(days, 2, 0))
        return self._latest[1]

    @functools.cache  # noqa: B019  (seven entries, and panels live as long as a build)
    def _ranks(self, weekday: int):
        """Ranks of everybody's windows and where they are measured, (metric, person, day) each."""
        window = np.full((len(self.people), windows.WINDOW, N_METRICS), np.nan)
        for row, person, end in zip(window, self.people, self.ends[:, weekday], strict=True):
            if end >= 0:
                row[:] = person.record.between(int(end) + windows.WINDOW_RANGE[0], int(end))
        return _ranked(np.moveaxis(window, 2, 0))


def _aligned_ends(person: Person) -> list[int]:
    """For each weekday an end date whose window has as many valid metrics as any, −1 where there is none."""
    record = person.record
    usual = np.array(list(windows.end_dates(record)), np.int64)
    rng = np.random.default_rng(seed_of(record.user, "panel"))
    chosen = []
    for weekday in range(WEEK):
        ends = usual - (usual - weekday) % WEEK
        n = windows.valid_at(record, ends).sum(axis=1)
        best = ends[n == n.max(initial=0)] if n.any() else ends[:0]
        chosen.append(int(rng.choice(best)) if len(best) else -1)
    return chosen


def _ranked(
    x: Float64[np.ndarray, "... day"],
) -> tuple[Float64[np.ndarray, "... day"], Float64[np.ndarray, "... day"]]:
    """Ranks, zero where not measured, and 1 where measured."""
    ranks = primitives.ranks(x)
    there = np.isfinite(ranks)
    return np.where(there, ranks, 0.0), there.astype(np.float64)


def _later(x: Float64[np.ndarray, " day"], lag: int) -> Float64[np.ndarray, " day"]:
    """The series, so many days later; zero where it had not begun or was over."""
    out = np.zeros_like(x)
    if lag >= 0:
        out[lag:] = x[: len(x) - lag]
    else:
        out[:lag] = x[-lag:]
    return out


def _correlated(
    x: Float64[np.ndarray, "first day"],
    known: Float64[np.ndarray, "first day"],
    y: Float64[np.ndarray, "second day"],
    there: Float64[np.ndarray, "second day"],
    least: Int64[np.ndarray, "first 1"],
) -> Float64[np.ndarray, "first second"]:
    """Pearson's correlation over the common days of each of the first with each of the second."""
    n = known @ there.T
    safe = np.maximum(n, 1.0)
    sx, sy = x @ there.T, known @ y.T
    across = (x * x) @ there.T - sx * sx / safe
    down = known @ (y * y).T - sy * sy / safe
    product = x @ y.T - sx * sy / safe
    usable = (n >= least) & (across > 1e-9) & (down > 1e-9)
    return np.where(usable, product / np.sqrt(np.where(usable, across * down, 1.0)), np.nan)
