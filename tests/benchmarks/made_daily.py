"""Daily records and small question types for tests of the gates."""

from __future__ import annotations

import itertools

import numpy as np

from wearjax.benchmarks.wearableqa import reads, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Margin, Option, Person, QuestionType
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, evaluate, evaluate_many, gather
from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.sources.daily_record import DailyRecord, Demographics

END = 19_999


def person(user: str, series: dict[str, np.ndarray], *, end: int = END, cohort=None, **record) -> Person:
    """A record whose series end on `end`; they may have different lengths."""
    n = max(len(values) for values in series.values())
    values = np.full((n, N_METRICS), np.nan)
    for metric, days in series.items():
        values[n - len(days) :, INDEX[metric]] = days
    record.setdefault("demographics", Demographics())
    made = DailyRecord(user, np.arange(end - n + 1, end + 1), values, **record)
    return Person(made, CohortReference(percentiles={}) if cohort is None else cohort)


def window_leaf(metric: str, lag: int = 0) -> Leaf:
    first, last = windows.WINDOW_RANGE
    return Leaf("series", metric, first + lag, last + lag, "window")


def pair_graph(a: str, b: str, lag: int = 0) -> Graph:
    """Sign of a correlation."""
    nodes = (
        Node("rho", "spearman", ("a", "b")),
        Node("size", "absolute", ("rho",)),
        Node("sign", "sign", ("rho",)),
    )
    return Graph({"a": window_leaf(a), "b": window_leaf(b, lag)}, nodes, "sign")


def made(person: Person, graph: Graph, key, *, type_name="made", end=END, **options) -> Candidate:
    """A candidate with nine false options."""
    options.setdefault("distractors", tuple(Option(f"option {i}", (100.0 + i,) * len(key)) for i in range(9)))
    options.setdefault("gold", Option("the answer", tuple(key)))
    options.setdefault("metrics", tuple(dict.fromkeys(leaf.name for leaf in graph.leaves.values())))
    return Candidate(type=type_name, user=person.record.user, end=end, stem="?", graph=graph, **options)


def holds(option, candidate, key) -> bool:
    return bool(reads.same(np.array([key]), option.key).all())


def a_type(propose=lambda person, end: [], *, coupling=False, **options) -> QuestionType:
    return QuestionType(
        name="made", group="data", signal="cross", grounding="population", scope="window", coupling=coupling,
        propose=propose, holds=options.pop("holds", holds), phrase=str, **options,
    )  # fmt: skip


def pairs_of(metrics, *, resample="none"):
    """Proposes the sign of the correlation of every pair."""
    graphs = {pair: pair_graph(*pair) for pair in itertools.combinations(metrics, 2)}

    def propose(person: Person, end: int):
        values = [reads.read(graph, person, end) for graph in graphs.values()]
        keys = evaluate_many(list(graphs.values()), values)
        for (pair, graph), key in zip(graphs.items(), keys, strict=True):
            if np.isfinite(key).all():
                yield made(person, graph, key[0], end=end, coupling=(*pair, 0), resample=resample)

    return propose


def strongest_of(metrics, *, corrected: bool):
    """Proposes the sign of the strongest of all pairs at all lags."""
    couplings = [(*pair, lag) for pair in itertools.combinations(metrics, 2) for lag in range(-3, 4)]
    graphs = {coupling: pair_graph(*coupling) for coupling in couplings}

    def propose(person: Person, end: int):
        graph_list = list(graphs.values())
        values = [reads.read(graph, person, end) for graph in graph_list]
        sizes = [nodes["size"][0, 0] for nodes in gather(graph_list, values, [("size",)] * len(values))]
        best = couplings[int(np.argmax(sizes))]
        key = evaluate(graphs[best], reads.read(graphs[best], person, end))[0]
        searched = tuple(couplings) if corrected else ()
        yield made(person, graphs[best], key, end=end, coupling=best, searched=searched, resample="none")

    return propose


def near(width: float, *, node: str = "size", boundaries=(0.65,)) -> tuple[Margin, ...]:
    return (Margin(node, boundaries, width),)
