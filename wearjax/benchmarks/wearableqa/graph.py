"""A question's answer as a stored computation: reads of the record at the leaves, primitives above them.

Every value carries a leading axis of variants, so that one evaluation answers a question on the record as it is and on
all the perturbed records of the robustness gate.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import (
    primitives,
    primitives_change,  # noqa: F401  (these add to the table)
    primitives_events,  # noqa: F401
    primitives_health,  # noqa: F401
    primitives_pairs,  # noqa: F401
    primitives_recovery,  # noqa: F401
    primitives_shapes,  # noqa: F401
)
from wearjax.errors import ConfigError

Values = Mapping[str, Float64[np.ndarray, "variant n"]]


@dataclass(frozen=True)
class Leaf:
    """What is read of a person or of the cohort.

    Attributes:
        kind: `series`, the days of a metric; `cohort`, a percentile of a metric in the reference cohort; `peers`, one
            among people of the same sex and age band in it, if there are enough; `blood`, a marker; `profile`, an entry
            of the demographics as a number.
        name: the metric, marker or entry.
        first, last: of a series, the closed range in days from the question's end date.
        group: which range that is; perturbations act on all leaves of a group alike.
        statistic: of a leaf of cohort or peers, e.g. `p25`.
    """

    kind: Literal["series", "cohort", "peers", "blood", "profile"]
    name: str
    first: int = 0
    last: int = 0
    group: Literal["window", "baseline", "history", "future", ""] = ""
    statistic: str = ""

    def __post_init__(self):
        if self.kind == "series" and self.last < self.first:
            raise ConfigError(f"leaf {self.name}: days {self.first} to {self.last} are none")

    @property
    def days(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Node:
    """One primitive applied to leaves or earlier nodes.

    Attributes:
        args: plain values for the primitive's keywords.
    """

    id: str
    op: str
    inputs: tuple[str, ...]
    args: Mapping[str, Any] = field(default_factory=dict)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Graph:
    """Leaves and nodes in order of evaluation; `output` is the answer's key.

    Raises:
        ConfigError: an unknown primitive, an input that is not known yet, or a name given twice.
    """

    leaves: Mapping[str, Leaf]
    nodes: tuple[Node, ...]
    output: str

    def __post_init__(self):
        known = set(self.leaves)
        for node in self.nodes:
            if node.op not in primitives.OPS:
                raise ConfigError(f"node {node.id}: no primitive {node.op!r}")
            if node.id in known:
                raise ConfigError(f"node {node.id}: the name is taken")
            missing = [name for name in node.inputs if name not in known]
            if missing:
                raise ConfigError(
                    f"node {node.id}: input {missing[0]!r} comes neither from a leaf nor before it"
                )
            known.add(node.id)
        if self.output not in known:
            raise ConfigError(f"output {self.output!r}: no such node")

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the inverse."""
        return {
            "leaves": {name: dataclasses.asdict(leaf) for name, leaf in sorted(self.leaves.items())},
            "nodes": [
                {"id": node.id, "op": node.op, "inputs": list(node.inputs), "args": dict(node.args)}
                for node in self.nodes
            ],
            "output": self.output,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Graph:
        """Raises ConfigError where it is no graph."""
        try:
            leaves = {name: Leaf(**leaf) for name, leaf in stored["leaves"].items()}
            nodes = tuple(
                Node(node["id"], node["op"], tuple(node["inputs"]), dict(node["args"]))
                for node in stored["nodes"]
            )
            return cls(leaves, nodes, stored["output"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"computation graph: not readable ({type(error).__name__}: {error})") from None

    def digest(self) -> str:
        """SHA-256 of the canonical JSON."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        return hashlib.sha256(_canonical(self.to_json()).encode()).hexdigest()

    @functools.cached_property
    def program(self) -> str:
        """What graphs that differ only in what their leaves read have in common."""
        stored = self.to_json()
        return _canonical([sorted(self.leaves), stored["nodes"], self.output])


def trace(graph: Graph, values: Values, *, until: str | None = None) -> dict[str, np.ndarray]:
    """The value of every leaf and node, (variant, n) each.

    Args:
        values: what each leaf read, (variant, n); a leaf with one variant serves all.
        until: the last node needed.

    Raises:
        ConfigError: a leaf without values.
    """
    found: dict[str, np.ndarray] = {}
    for name in graph.leaves:
        if name not in values:
            raise ConfigError(f"leaf {name}: no values given")
        found[name] = np.asarray(values[name], np.float64)
    for step in graph.nodes:
        if until in found:
            break
        found[step.id] = primitives.OPS[step.op](*(found[name] for name in step.inputs), **step.args)
    return found


def evaluate(graph: Graph, values: Values, *, node: str | None = None) -> Float64[np.ndarray, "variant key"]:
    """The answer of every variant as a row of numbers; NaN where it is undefined.

    Args:
        values: what each leaf read, (variant, n); a leaf with one variant serves all.
        node: stop there, and return its value.

    Raises:
        ConfigError: a leaf without values, or a node that is not there.
    """
    wanted = graph.output if node is None else node
    found = trace(graph, values, until=wanted)
    if wanted not in found:
        raise ConfigError(f"node {wanted!r}: not in the graph")
    n = max((len(found[name]) for name in graph.leaves), default=1)
    out = found[wanted]
    return np.broadcast_to(out, (n, *out.shape[1:])) if len(out) == 1 and n > 1 else out


def evaluate_many(
    graphs: Sequence[Graph], values: Sequence[Values]
) -> list[Float64[np.ndarray, "variant key"]]:
    """What `evaluate` gives for each graph; graphs of one program are answered in one pass.

    Raises:
        ConfigError: as `evaluate`.
    """
    found = gather(graphs, values, [(graph.output,) for graph in graphs])
    return [nodes[graph.output] for graph, nodes in zip(graphs, found, strict=True)]


def gather(
    graphs: Sequence[Graph], values: Sequence[Values], wanted: Sequence[Collection[str]]
) -> list[dict[str, Float64[np.ndarray, "variant n"]]]:
    """Some nodes of each of many graphs; graphs of one program are answered in one pass.

    Raises:
        ConfigError: a leaf without values, or a node that is not there.
    """
    alike: dict[Any, list[int]] = {}
    for i, graph in enumerate(graphs):
        widths = tuple(values[i][name].shape[1] for name in sorted(graph.leaves) if name in values[i])
        alike.setdefault((graph.program, widths), []).append(i)
    out: list[dict[str, np.ndarray]] = [{} for _ in graphs]
    for members in alike.values():
        sizes = [max((len(value) for value in values[i].values()), default=1) for i in members]
        found = trace(graphs[members[0]], _joined([values[i] for i in members], sizes))
        stops = np.cumsum(sizes)
        for i, n, stop in zip(members, sizes, stops, strict=True):
            for name in wanted[i]:
                if name not in found:
                    raise ConfigError(f"node {name!r}: not in the graph")
                rows = found[name]
                alone = len(rows) == 1 and stops[-1] > 1  # it depends on no leaf
                out[i][name] = np.broadcast_to(rows, (n, rows.shape[1])) if alone else rows[stop - n : stop]
    return out


def _joined(values: Sequence[Values], sizes: Sequence[int]) -> Values:
    """The values of several graphs one below the other."""
    if len(values) == 1:
        return values[0]
    return {
        name: np.concatenate(
            [
                np.broadcast_to(each[name], (n, each[name].shape[1]))
                for each, n in zip(values, sizes, strict=True)
                if name in each
            ]
        )
        for name in values[0]
    }
