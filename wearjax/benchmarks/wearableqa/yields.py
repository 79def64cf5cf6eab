"""What is left of a type's candidates: the correction for all that was looked at, and the count of each gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wearjax.benchmarks.wearableqa.candidate import Candidate

FALSE_DISCOVERIES = 0.20
GATES = ("undefined", "G1", "G2a", "G2b", "G2c", "G2d", "G3", "G4", "G5")


@dataclass(frozen=True, eq=False)
class Survivor:
    """A candidate that passed every gate that judges it alone.

    Attributes:
        chance: p-value of its coupling; None where it claims none, or a literature relation stands for it.
        compared: other people it was compared with.
    """

    candidate: Candidate
    chance: float | None
    compared: int


@dataclass(frozen=True, eq=False)
class Judged:
    """What the gates left of some candidates of a type.

    Attributes:
        chances: p-values of all candidates of a type of couplings, of rejected ones too.
        looked: relations looked at, at least the candidates.
        rejected: number that left at each gate.
    """

    type: str
    survivors: tuple[Survivor, ...]
    chances: tuple[float, ...]
    proposed: int
    looked: int
    rejected: Mapping[str, int]

    @classmethod
    def joined(cls, type_name: str, parts: Iterable[Judged]) -> Judged:
        """Several of one type together, of many people or end dates."""
        every = list(parts)
        rejected: Counter[str] = Counter()
        for part in every:
            rejected.update(part.rejected)
        return cls(
            type=type_name,
            survivors=tuple(each for part in every for each in part.survivors),
            chances=tuple(p for part in every for p in part.chances),
            proposed=sum(part.proposed for part in every),
            looked=sum(part.looked for part in every),
            rejected=rejected,
        )


@dataclass
class Yield:
    """Candidates by type and by the gate that rejected them.

    Attributes:
        rows: per type the numbers `looked`, `proposed`, of each gate, and `admitted`.
        others: per type, the fewest and the most other people that an admitted candidate was compared with.
    """

    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    others: dict[str, tuple[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            name: {**row, "others": list(self.others.get(name, (0, 0)))} for name, row in self.rows.items()
        }

    def to_text(self) -> str:
        """The table, one line a type."""
        columns = ("looked", "proposed", *GATES, "admitted")
        width = max((len(name) for name in self.rows), default=4)
        lines = [" ".join(["type".ljust(width), *(column.rjust(9) for column in columns)])]
        for name, row in self.rows.items():
            lines.append(" ".join([name.ljust(width), *(str(row[column]).rjust(9) for column in columns)]))
        return "\n".join(lines)


def settle(judged: Judged, *, counts: Yield | None = None) -> list[Candidate]:
    """Admits the survivors of a type whose coupling chance does not explain, all others as they are.

    Benjamini-Hochberg at q = 0.20 over everything the type looked at: a relation without a p-value counts as 1.

    Args:
        judged: all candidates of a type, of all people.
        counts: gets a row for the type.
    """
    family = [each.chance for each in judged.survivors if each.chance is not None]
    pool = judged.chances or family
    limit = largest_discovery(
        pool, q=FALSE_DISCOVERIES, looked=max(judged.looked if judged.chances else 0, len(pool))
    )
    admitted = [each for each in judged.survivors if each.chance is None or each.chance <= limit]
    if counts is not None:
        row = {gate: int(judged.rejected.get(gate, 0)) for gate in GATES}
        row["G3"] += len(judged.survivors) - len(admitted)
        counts.rows[judged.type] = {
            "looked": judged.looked, "proposed": judged.proposed, **row, "admitted": len(admitted)
        }  # fmt: skip
        asked = [each.compared for each in admitted if each.candidate.relation is None]
        counts.others[judged.type] = (min(asked, default=0), max(asked, default=0))
    return [each.candidate for each in admitted]


def largest_discovery(p: Sequence[float], *, q: float, looked: int) -> float:
    """The largest p-value that Benjamini-Hochberg rejects at rate q among `looked` hypotheses; −1 where none is."""
    ordered = np.sort(np.asarray(p, np.float64))
    line = q * np.arange(1, len(ordered) + 1) / max(looked, 1)
    below = np.flatnonzero(ordered <= line)
    return float(ordered[below[-1]]) if len(below) else -1.0
