"""Who was operated on, split by split, and whether the splits differ (VitalBench, Figs. 6 and 7).

Continuous facts are compared by the Kruskal–Wallis test, categories by Pearson's χ² without correction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from wearjax.segments.vital_cases import CaseStore

if TYPE_CHECKING:
    import pandas as pd

CONTINUOUS = ("age", "height", "weight", "hours")
CATEGORIES: dict[str, dict[int, str]] = {
    "sex": {0: "female", 1: "male"},
    "asa": {1: "I", 2: "II", 3: "III", 4: "IV", 5: "V", 6: "VI"},
}
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Demographics:
    """Facts of every case, and the tables made of them.

    Attributes:
        facts: by name, one value a case; NaN where unknown. Sex is 0 female, 1 male; hours are recorded ones.
        split: for each case the split it is in, or an empty text.
    """

    facts: dict[str, Float64[np.ndarray, " case"]]
    split: np.ndarray

    def to_dataframe(self) -> pd.DataFrame:
        """One row a fact and level: all cases, each split, and the p value of the comparison of the splits.

        Continuous facts read "median [first quartile, third quartile]", categories "count (percent)".
        """
        import pandas as pd

        groups = {"all": np.ones(len(self.split), bool)} | {name: self.split == name for name in SPLITS}
        rows = []
        for fact in CONTINUOUS:
            cells = {name: _quartiles(self.facts[fact][group]) for name, group in groups.items()}
            rows.append({"fact": fact, "level": "", **cells, "p": self.p_value(fact)})
        for fact, names in CATEGORIES.items():
            for code, name in names.items():
                if not np.any(self.facts[fact] == code):
                    continue
                cells = {title: _count(self.facts[fact][group], code) for title, group in groups.items()}
                rows.append({"fact": fact, "level": name, **cells, "p": self.p_value(fact)})
        return pd.DataFrame(rows)

    def p_value(self, fact: str) -> float:
        """p of the hypothesis that the splits are alike; NaN where fewer than two splits, or one value, are there."""
        values = [self.facts[fact][self.split == name] for name in SPLITS]
        known = [v[np.isfinite(v)] for v in values]
        known = [v for v in known if len(v)]
        if len(known) < 2 or len(np.unique(np.concatenate(known))) < 2:
            return math.nan
        from scipy import stats

        if fact in CONTINUOUS:
            return float(stats.kruskal(*known).pvalue)
        levels = np.unique(np.concatenate(known))
        counts = np.array([[np.sum(v == level) for level in levels] for v in known])
        return float(stats.chi2_contingency(counts, correction=False).pvalue)


def demographics(store: CaseStore) -> Demographics:
    """Collects the facts of a store's cases from its static columns; 0 is unknown, except for sex.

    A case in which every static column is 0 has an unknown sex too: its source had no facts of the patient.
    """
    first = np.array([store.case(i)[0] if len(store.case(i)) else 0 for i in range(len(store))], np.float64)
    facts = {}
    static = [i for i, variable in enumerate(store.centre.variables) if variable.static]
    nothing = ~first[:, static].any(axis=1)
    for fact in ("age", "sex", "weight", "height", "asa"):
        position = store.centre.find(fact)
        column = np.full(len(store), np.nan) if position is None else first[:, position].copy()
        if position is not None and not store.centre.variables[position].zero_is_value:
            column[column == 0] = np.nan
        column[nothing] = np.nan
        facts[fact] = column
    facts["hours"] = np.diff(store.offsets) * store.centre.step_seconds / 3600
    split = np.full(len(store), "", dtype=object)
    for name in SPLITS:
        split[store.indices(name)] = name
    return Demographics(facts, split)


def _quartiles(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "–"
    low, middle, high = np.quantile(known, [0.25, 0.5, 0.75])
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


def _count(values: np.ndarray, code: int) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return "–"
    count = int(np.sum(known == code))
    return f"{count} ({100 * count / len(known):.1f})"
