"""Pieces of graphs that health questions share: percentiles of the window in the cohort, and flags of blood domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wearjax import biomarkers
from wearjax.benchmarks.wearableqa import reads, windows
from wearjax.benchmarks.wearableqa.candidate import Key, Person
from wearjax.benchmarks.wearableqa.cohort import STATISTICS
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, trace
from wearjax.benchmarks.wearableqa.questions import wording
from wearjax.benchmarks.wearableqa.seeds import seed_of
from wearjax.daily_metrics import BY_KEY

DOMAIN_WORDS: dict[str, str] = {
    "glycaemic": "glucose",
    "lipid": "blood lipids",
    "inflammatory": "inflammation",
    "hepatic": "liver",
    "renal": "kidney",
    "iron_anaemia": "iron stores",
    "thyroid": "thyroid",
}
_POINTS = ("min", "p10", "p25", "p50", "p75", "p90", "max")


class Sketch:
    """A graph that is being put together; every method returns the name of what it added."""

    def __init__(self) -> None:
        self.leaves: dict[str, Leaf] = {}
        self.nodes: list[Node] = []
        self._known: set[str] = set()

    def leaf(self, name: str, leaf: Leaf) -> str:
        self.leaves[name] = leaf
        return name

    def node(self, name: str, op: str, *inputs: str, **args: Any) -> str:
        if name not in self._known:
            self._known.add(name)
            self.nodes.append(Node(name, op, inputs, args))
        return name

    def window(self, metric: str) -> str:
        return self.leaf(metric, Leaf("series", metric, *windows.WINDOW_RANGE, group="window"))

    def baseline(self, metric: str) -> str:
        return self.leaf(
            f"{metric} before", Leaf("series", metric, *windows.baseline_range(), group="baseline")
        )

    def cohort(self, metric: str, statistic: str) -> str:
        return self.leaf(f"{metric} {statistic}", Leaf("cohort", metric, statistic=statistic))

    def peers(self, metric: str, statistic: str) -> str:
        return self.leaf(f"{metric} {statistic} of peers", Leaf("peers", metric, statistic=statistic))

    def mean(self, metric: str) -> str:
        return self.node(f"{metric} mean", "mean", self.window(metric))

    def percentile(self, metric: str, *, peers: bool = False) -> str:
        """Of the window's mean in the cohort or among the peers in it, in the favourable direction: 100 is best."""
        among = self.peers if peers else self.cohort
        inputs = (self.mean(metric), *(among(metric, point) for point in _POINTS))
        percents = [100 * STATISTICS[point] for point in _POINTS]
        found = self.node(f"{metric} percentile", "percentile_of", *inputs, percents=percents)
        if BY_KEY[metric].better == "up":
            return found
        return self.node(f"{metric} favour", "difference", self.node("100", "constant", value=100.0), found)

    def flags(self, key: str, sex: str | None) -> list[str]:
        """How many limits of a marker are reached, one node for each direction."""
        self.leaf(key, Leaf("blood", key))
        return [
            self.node(
                f"{key} {limits.direction}", "flag", key,
                limits=list(limits.of(sex) or ()), direction=limits.direction, undefined_within=biomarkers.NEAR,
            )
            for limits in biomarkers.BY_KEY[key].limits
        ]  # fmt: skip

    def domain(self, domain: str, keys: Sequence[str], sex: str | None) -> str:
        """1 where a marker of the domain is far beyond its limit, 0 where all are normal, else undefined."""
        flags = [flag for key in keys for flag in self.flags(key, sex)]
        return self.node(domain, "any_far", *flags)

    def far(self, name: str, value: str, limit: float, direction: str) -> str:
        """As a flag that is far (2) or normal (0)."""
        return self.node(
            name, "flag", value, limits=[limit, limit], direction=direction, undefined_within=0.0
        )

    def graph(self, output: str) -> Graph:
        return Graph(self.leaves, tuple(self.nodes), output)


def sex_of(person: Person) -> str | None:
    """As limits know it."""
    sex = (person.record.demographics.sex or "").lower()
    return sex if sex in ("female", "male") else None


def markers(person: Person, domain: str, end: int) -> tuple[str, ...]:
    """Markers of a domain that were measured by an end date and have limits for this person."""
    sex, measured = sex_of(person), person.blood(end)
    return tuple(
        marker.key
        for marker in biomarkers.of_domain(domain)
        if marker.key in measured and all(limits.of(sex) for limits in marker.limits)
    )


def traced(graph: Graph, person: Person, end: int) -> dict[str, np.ndarray]:
    """Every node's value on the record as it is."""
    return {name: value[0] for name, value in trace(graph, reads.read(graph, person, end)).items()}


def answer(graph: Graph, person: Person, end: int) -> Key | None:
    """What a graph gives on the record as it is; None where it is undefined."""
    return key_of(traced(graph, person, end), graph)


def key_of(values: dict[str, np.ndarray], graph: Graph) -> Key | None:
    """The answer; None where it is undefined."""
    key = values[graph.output]
    return None if np.isnan(key).any() else tuple(key.tolist())


def rng(person: Person, type_name: str, end: int) -> np.random.Generator:
    """For the order of false options."""
    return np.random.default_rng(seed_of(person.record.user, type_name, end, "false options"))


def stem(*sentences: str) -> str:
    """A health question, which says what it is not."""
    return " ".join((*sentences, wording.NOT_ADVICE))


def cohort_points(person: Person, metric: str) -> str:
    """Percentiles of a metric that the cohort's section does not show."""
    return _points(metric, person.cohort.percentiles.get(metric, {}))


def peer_points(person: Person, metric: str) -> str | None:
    """Percentiles of a metric among the person's peers, None where there are too few of them."""
    who = person.record.demographics
    points = person.cohort.of_peers(metric, age=who.age, sex=who.sex)
    return _points(metric, points) if points else None


def _points(metric: str, known: Mapping[str, float]) -> str:
    points = ", ".join(
        f"{point} {wording.short(known.get(point, np.nan))}" for point in ("p10", "p25", "p50", "p75", "p90")
    )
    return f"{wording.metric(metric)} {points} {wording.unit(metric)}"
