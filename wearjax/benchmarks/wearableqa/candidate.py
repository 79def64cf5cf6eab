"""What question types propose and gates judge: a stem, a computed answer, and answers that are false.

How a type builds a graph: Spearman's correlation of two metrics in the window and in its halves, as a band and a sign,
with the distances that the robustness gate wants from the edges.

    WINDOW = windows.WINDOW_RANGE
    graph = Graph(
        leaves={
            "a": Leaf("series", "rhr", *WINDOW, group="window"),
            "b": Leaf("series", "avg_stress_level", *WINDOW, group="window"),
        },
        nodes=(
            Node("rho", "spearman", ("a", "b")),
            Node("a1", "half", ("a",), {"which": 0}),
            Node("b1", "half", ("b",), {"which": 0}),
            Node("rho1", "spearman", ("a1", "b1")),
            Node("size", "absolute", ("rho",)),
            Node("class", "band", ("size",), {"edges": [0.25, 0.5, 0.65]}),
            Node("sign", "sign", ("rho",)),
            Node("key", "stack", ("class", "sign")),
        ),
        output="key",
    )
    values = reads.read(graph, person, end)          # {"a": (1, 28), "b": (1, 28)}
    (key,) = evaluate(graph, values)                 # e.g. [3, -1]; NaN: no candidate
    Candidate(..., graph=graph, gold=Option(phrase(key), tuple(key)), coupling=("rhr", "avg_stress_level", 0),
              margins=(Margin("size", (0.25, 0.5, 0.65), 0.04),), resample="days")

Rules. A leaf of group `window` has 28 days: row i is day i of the window, and a lag k is a leaf at (first + k,
last + k), whose days outside the window read as missing. Perturbations take whole rows, so take halves with `half`. A
leaf of group `baseline` is `windows.baseline_range()`; the gates read it again over 56 and 112 days. Other earlier days
are of group `history`, later ones of group `future`. `graph.evaluate_many` answers many graphs of one program (sixteen
metrics, all pairs) in one pass.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.sources.daily_record import BloodValue, DailyRecord

Key = tuple[float, ...]  # an answer as numbers: class, sign and lag, counts, rounded value
Coupling = tuple[str, str, int]  # of a metric on a day with another one so many days later
Resample = Literal["days", "blocks", "jitter", "baseline", "none"]


@dataclass(frozen=True, eq=False)
class Person:
    """A cleaned record, and the cohort it is compared with."""

    record: DailyRecord
    cohort: CohortReference

    def blood(self, end: int) -> Mapping[str, BloodValue]:
        """Markers drawn on or before an end date; those without a date count as drawn before the record.

        Args:
            end: days since 1970-01-01.
        """
        last = windows.EPOCH + datetime.timedelta(days=end)
        return {
            key: value for key, value in self.record.blood.items() if value.date is None or value.date <= last
        }


@dataclass(frozen=True)
class Option:
    """One possible answer: what is shown, and what it claims."""

    text: str
    key: Key


@dataclass(frozen=True)
class Margin:
    """A quantity on which the answer turns: it must keep `width` away from every boundary.

    Attributes:
        node: of the candidate's graph.
    """

    node: str
    boundaries: tuple[float, ...]
    width: float


@dataclass(frozen=True)
class Hidden:
    """What the prompt leaves out.

    Attributes:
        metrics: left out on all days.
        window_metrics: left out within the window only.
        series, history, cohort, blood: sections that are left out; `history` keeps the window.
    """

    metrics: tuple[str, ...] = ()
    window_metrics: tuple[str, ...] = ()
    series: bool = False
    history: bool = False
    cohort: bool = False
    blood: bool = False


@dataclass(frozen=True, eq=False)
class Candidate:
    """A question that a type proposes about a person and an end date.

    Attributes:
        end: days since 1970-01-01.
        distractors: at least nine options, the best first; none may hold.
        margins: of the answer's thresholds.
        coupling: pair of metrics and lag in days whose relation the answer claims; the effect and authenticity gates
            test it.
        searched: the couplings of which this one was the strongest, itself included; empty where it was given. Chance
            has to beat the best of a search by a search.
        lead: node that holds how far the winner lies above the runner-up, in the item's standard unit; the effect gate
            wants 0.15.
        resample: how bootstraps disturb the record: `days` of the window with replacement, each half within itself;
            moving `blocks` of four days, in order; `jitter` drops a tenth of the days; `baseline` draws the days before
            the window that set a threshold line (for counts, which any dropped day would change); `none`.
        tolerance: how far each number of the key may move when a day of the window is deleted; with a longer or shorter
            baseline it may not move at all.
        relation: id of the literature relation it rests on.
        tag: whether the metrics are tied by definition.
        rho: strength of the relation asked about.
    """

    type: str
    user: str
    end: int
    metrics: tuple[str, ...]
    stem: str
    graph: Graph
    gold: Option
    distractors: tuple[Option, ...]
    margins: tuple[Margin, ...] = ()
    coupling: Coupling | None = None
    searched: tuple[Coupling, ...] = ()
    lead: str | None = None
    resample: Resample = "days"
    tolerance: float = 0.0
    hidden: Hidden = Hidden()
    relation: str | None = None
    tag: Literal["definitional", "empirical", ""] = ""
    rho: float | None = None


EXACT = 1e-9  # share by which numbers may differ and be the same answer


def same_answer(option: Option, candidate: Candidate, key: Key) -> bool:
    """The checker of types whose options state the computed answer itself."""
    del candidate
    return len(option.key) == len(key) and all(
        abs(a - b) <= EXACT * max(abs(b), 1.0) for a, b in zip(option.key, key, strict=True)
    )


@dataclass(frozen=True, eq=False)
class QuestionType:
    """One of the sixteen types.

    Attributes:
        scope: `history` where days before the window are needed to answer.
        coupling: whether its answers claim relations between metrics: the authenticity gate then corrects for all that
            the type looked at.
        propose: candidates of a person at an end date; none where the record does not allow one.
        holds: whether an option's claim is true, given the candidate's evaluated key.
        phrase: text of a key.
        numeric: answers are amounts: a perturbed answer chooses the nearest option, where others must equal the gold.
        looked: how many relations it looks at for a person and an end date, where those are more than it proposes. A
            type that proposes only strong relations must say so, or chance passes for a finding.
    """

    name: str
    group: Literal["data", "health"]
    signal: Literal["single", "cross"]
    grounding: Literal["population", "literature"]
    scope: Literal["window", "history"]
    propose: Callable[[Person, int], Iterable[Candidate]]
    phrase: Callable[[Key], str]
    holds: Callable[[Option, Candidate, Key], bool] = same_answer
    coupling: bool = False
    numeric: bool = False
    looked: Callable[[Person, int], int] | None = None
