"""How much of each variable was recorded (VitalBench, Fig. 2): the share of entries that are not 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from wearjax.segments.vital_cases import CaseStore
from wearjax.vitals import Centre

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Availability:
    """Non-missing rates of one centre.

    Attributes:
        centre: whose variables.
        n_cases, n_rows: what the rates were taken over.
        overall: share of all rows with a value, by variable; what the figure shows.
        per_case: the same share within each case.
    """

    centre: Centre
    n_cases: int
    n_rows: int
    overall: Float64[np.ndarray, " variable"]
    per_case: Float64[np.ndarray, "case variable"]

    def to_dataframe(self) -> pd.DataFrame:
        """One row a variable: rate over all rows, and quartiles and mean over cases."""
        import pandas as pd

        low, middle, high = np.quantile(self.per_case, [0.25, 0.5, 0.75], axis=0)
        return pd.DataFrame(
            {
                "centre": self.centre.name,
                "variable": self.centre.names,
                "role": [variable.role for variable in self.centre.variables],
                "unit": [variable.unit for variable in self.centre.variables],
                "available": self.overall,
                "case_mean": self.per_case.mean(axis=0),
                "case_q25": low,
                "case_median": middle,
                "case_q75": high,
            }
        )


def availability(store: CaseStore, split: str | None = None) -> Availability:
    """Non-missing rate of every variable, over all cases or one split's.

    Female sex is coded 0 and so reads as missing here, as it does in the published layout.

    Raises ConfigError on an unknown split, ValueError when the split is empty.
    """
    chosen = np.arange(len(store)) if split is None else store.indices(split)
    if not len(chosen):
        raise ValueError(f"{store.path}: the split {split} has no case")
    rows = np.diff(store.offsets)[chosen]
    recorded = store.recorded[chosen]
    return Availability(
        centre=store.centre,
        n_cases=len(chosen),
        n_rows=int(rows.sum()),
        overall=recorded.sum(axis=0) / rows.sum(),
        per_case=recorded / rows[:, None],
    )
