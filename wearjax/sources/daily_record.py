"""What a source of daily records yields: one person's daily metrics, with profile and blood panel where known."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.daily_metrics import N_METRICS
from wearjax.errors import SourceError
from wearjax.sources.tally import Tally


@dataclass(frozen=True)
class Demographics:
    """A person's profile; None where unknown.

    Attributes:
        age: years.
        sex: `female` or `male` where the source says one of them in any spelling, else as the source has it.
        bmi: kg/m².
        age_band, bmi_band: as the source words them, where it gives no number; e.g. `>=30`.
    """

    age: float | None = None
    sex: str | None = None
    bmi: float | None = None
    ethnicity: str | None = None
    age_band: str | None = None
    bmi_band: str | None = None


@dataclass(frozen=True)
class BloodValue:
    """One marker of a blood panel."""

    value: float
    unit: str
    date: datetime.date | None = None


@dataclass(frozen=True, eq=False)
class DailyRecord:
    """The days of a person.

    Attributes:
        dates: days since 1970-01-01, ascending, each once; a day without any metric may be absent.
        values: columns in the order of `daily_metrics.METRICS`, NaN = not measured; not to be written to.
        blood: by key of the marker table.
    """

    user: str
    dates: Int64[np.ndarray, "day"]
    values: Float64[np.ndarray, "day metric=16"]
    demographics: Demographics = Demographics()
    blood: Mapping[str, BloodValue] = field(default_factory=dict)

    def __post_init__(self):
        if self.values.shape != (len(self.dates), N_METRICS):
            raise SourceError(
                f"user {self.user!r}: values are {self.values.shape}, expected ({len(self.dates)}, {N_METRICS})"
            )
        if np.any(np.diff(self.dates) <= 0):
            raise SourceError(f"user {self.user!r}: dates must ascend, each once")

    def between(self, first: int, last: int) -> Float64[np.ndarray, "day metric=16"]:
        """Every calendar day of a closed range; NaN where the record holds nothing."""
        out = np.full((last - first + 1, N_METRICS), np.nan)
        if len(self.dates):
            start = int(self.dates[0])
            low, high = max(first, start), min(last, int(self.dates[-1])) + 1
            if low < high:
                out[low - first : high - first] = self._calendar[low - start : high - start]
        return out

    @functools.cached_property
    def _calendar(self) -> Float64[np.ndarray, "day metric=16"]:
        """Every day from the first to the last."""
        out = np.full((int(self.dates[-1] - self.dates[0]) + 1, N_METRICS), np.nan)
        out[self.dates - self.dates[0]] = self.values
        return out


_SEXES = {"f": "female", "female": "female", "woman": "female", "m": "male", "male": "male", "man": "male"}


def sex_of(text: str | None) -> str | None:
    """`female`, `male`, another word as it stands, or None for a blank."""
    word = (text or "").strip()
    return _SEXES.get(word.lower(), word) or None


def of_rows(
    user: str,
    dates: Int64[np.ndarray, "row"],
    values: Float64[np.ndarray, "row metric=16"],
    *,
    demographics: Demographics | None = None,
    blood: Mapping[str, BloodValue] | None = None,
    tally: Tally | None = None,
) -> DailyRecord:
    """A record of rows in any order; of several rows of a day the last one stays.

    Args:
        dates: days since 1970-01-01.
        tally: counts the rows that another one of the same day replaced.
    """
    order = np.argsort(dates, kind="stable")
    ordered = np.asarray(dates, np.int64)[order]
    last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
    if tally is not None:
        tally.skip("day", "replaced by a later row of the same person and date", int((~last).sum()))
    return DailyRecord(
        user,
        ordered[last],
        np.asarray(values, np.float64)[order][last],
        Demographics() if demographics is None else demographics,
        {} if blood is None else blood,
    )
