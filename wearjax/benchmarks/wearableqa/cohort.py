"""Where a value stands among the people of the reference cohort.

WearableQA shows percentiles of five metrics in a larger cohort. That they are percentiles of 28-day means, that every
person counts alike, and that people are compared within sex and age band (by questions that ask for it) where 200 are
there, is this project's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.benchmarks.wearableqa import windows
from wearjax.daily_metrics import INDEX, METRICS, N_METRICS
from wearjax.errors import ConfigError
from wearjax.segments.daily_records import Records
from wearjax.sources.daily_record import DailyRecord

STATISTICS: dict[str, float] = {
    "p10": 0.10, "p25": 0.25, "p50": 0.50, "p75": 0.75, "p90": 0.90, "min": 0.0, "max": 1.0,
}  # fmt: skip
AGE_BANDS = (30.0, 40.0, 50.0, 60.0, 70.0)  # first year of each band but the youngest
LEAST_PEERS = 200
WINDOWS_MOST = 12  # of a person, one after the other back from the last day
DIGITS = 6  # of stored window means


@dataclass(frozen=True, eq=False)
class CohortReference:
    """Window means of the cohort.

    Attributes:
        percentiles: of each metric p10 p25 p50 p75 p90 min max; a metric that nobody has is not there.
        users: the people, in the order in which the arrays below count them.
        person, values: of each metric, whose window mean each entry is, and the mean.
        age: of each person, NaN where unknown.
        sex: of each person, lower case, empty where unknown.
    """

    percentiles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    person: Mapping[str, Int64[np.ndarray, " window"]] = field(default_factory=dict, repr=False)
    values: Mapping[str, Float64[np.ndarray, " window"]] = field(default_factory=dict, repr=False)
    age: Float64[np.ndarray, " person"] = field(default_factory=lambda: np.empty(0), repr=False)
    sex: tuple[str, ...] = field(default=(), repr=False)
    _peers: dict[Any, Mapping[str, float]] = field(default_factory=dict, init=False, repr=False)

    def statistic(self, metric: str, name: str, *, age: float | None = None, sex: str | None = None) -> float:
        """A percentile by name, e.g. `p25`, among the peers of an age and sex where there are enough, else among all.

        NaN where nobody has the metric. Raises ConfigError on another name.
        """
        if name not in STATISTICS:
            raise ConfigError(f"cohort statistic {name!r}: known are {', '.join(STATISTICS)}")
        points = self.of_peers(metric, age=age, sex=sex) or self.percentiles.get(metric, {})
        return points.get(name, np.nan)

    def of_peers(self, metric: str, *, age: float | None, sex: str | None) -> Mapping[str, float]:
        """Percentiles among people of the same sex and age band; none unless 200 of them have the metric."""
        band, wanted = _band(age), _sex(sex)
        if band is None or not wanted or metric not in self.values:
            return {}
        key = (metric, band, wanted)
        if key not in self._peers:
            alike = np.array(
                [_band(a) == band and s == wanted for a, s in zip(self.age, self.sex, strict=True)]
            )
            kept = alike[self.person[metric]]
            whose = self.person[metric][kept]
            enough = len(np.unique(whose)) >= LEAST_PEERS
            self._peers[key] = _points(self.values[metric][kept], whose) if enough else {}
        return self._peers[key]

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the inverse."""
        return {
            "users": list(self.users),
            "age": [None if np.isnan(a) else float(a) for a in self.age],
            "sex": list(self.sex),
            "values": {
                metric: {"person": self.person[metric].tolist(), "mean": self.values[metric].tolist()}
                for metric in self.values
            },
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> CohortReference:
        """Raises ConfigError where it is no cohort."""
        try:
            age = np.array([np.nan if a is None else a for a in stored["age"]], np.float64)
            person = {m: np.array(v["person"], np.int64) for m, v in stored["values"].items()}
            values = {m: np.array(v["mean"], np.float64) for m, v in stored["values"].items()}
            users, sex = tuple(map(str, stored["users"])), tuple(map(str, stored["sex"]))
            if not len(users) == len(sex) == len(age):
                raise ValueError("as many ages and sexes as users")
            for metric, whose in person.items():
                if (
                    metric not in INDEX
                    or whose.shape != values[metric].shape
                    or whose.ndim != 1
                    or not len(whose)
                ):
                    raise ValueError(f"values of {metric}")
                if whose.min() < 0 or whose.max() >= len(users) or not np.isfinite(values[metric]).all():
                    raise ValueError(f"values of {metric}")
            return _made(users, person, values, age, sex)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ConfigError(f"cohort: not readable ({type(error).__name__}: {error})") from None


def of_records(
    records: Iterable[DailyRecord], *, progress: Callable[[int, int], None] | None = None, total: int = 0
) -> CohortReference:
    """The reference made of cleaned records. `progress` gets (people done, `total`)."""
    users, ages, sexes = [], [], []
    person: list[list[np.ndarray]] = [[] for _ in METRICS]
    values: list[list[np.ndarray]] = [[] for _ in METRICS]
    for i, record in enumerate(records):
        users.append(record.user)
        ages.append(np.nan if record.demographics.age is None else record.demographics.age)
        sexes.append(_sex(record.demographics.sex))
        means = window_means(record)
        for column in range(N_METRICS):
            found = means[np.isfinite(means[:, column]), column]
            values[column].append(found)
            person[column].append(np.full(len(found), i))
        if progress:
            progress(i + 1, max(total, i + 1))
    found = {m.key: i for i, m in enumerate(METRICS) if any(len(part) for part in values[i])}
    return _made(
        tuple(users),
        {key: np.concatenate(person[i]).astype(np.int64) for key, i in found.items()},
        {key: np.concatenate(values[i]) for key, i in found.items()},
        np.array(ages, np.float64),
        tuple(sexes),
    )


def of_store(
    store: Records, *, users: Sequence[str] | None = None, progress: Callable[[int, int], None] | None = None
) -> CohortReference:
    """The reference of a store's cohort, or of the given users."""
    chosen = store.cohort() if users is None else tuple(users)
    return of_records((store.record(user) for user in chosen), progress=progress, total=len(chosen))


def window_means(record: DailyRecord) -> Float64[np.ndarray, "window metric=16"]:
    """Means of up to twelve windows, back from the last day without overlap; NaN where a window lacks days."""
    if not len(record.dates):
        return np.empty((0, N_METRICS))
    last = int(record.dates[-1])
    count = int(np.clip((last - int(record.dates[0]) + 1) // windows.WINDOW, 1, WINDOWS_MOST))
    days = record.between(last + 1 - count * windows.WINDOW, last).reshape(count, windows.WINDOW, N_METRICS)
    there = np.isfinite(days)
    half = there.reshape(count, 2, windows.HALF, N_METRICS).sum(axis=2).min(axis=1)
    wanted = np.where([m.dense for m in METRICS], windows.DENSE_DAYS, windows.SPARSE_DAYS)
    valid = (there.sum(axis=1) >= wanted) & (half >= windows.HALF_DAYS)
    total = np.where(there, days, 0.0).sum(axis=1)
    means = np.round(total / np.maximum(there.sum(axis=1), 1), DIGITS)
    return np.where(valid, means, np.nan)[::-1]


def _made(
    users: tuple[str, ...],
    person: Mapping[str, np.ndarray],
    values: Mapping[str, np.ndarray],
    age: np.ndarray,
    sex: tuple[str, ...],
) -> CohortReference:
    percentiles = {metric: _points(values[metric], person[metric]) for metric in values}
    return CohortReference(percentiles, users, person, values, age, sex)


def _points(values: np.ndarray, person: np.ndarray) -> Mapping[str, float]:
    """Percentiles of window means; the windows of a person together count 1."""
    weight = 1.0 / np.bincount(person)[person]
    order = np.argsort(values, kind="stable")
    ordered, weight = values[order], weight[order] / weight.sum()
    share = np.cumsum(weight) - weight / 2  # of the cohort below each, half of its own included
    found = {name: float(np.interp(at, share, ordered)) for name, at in STATISTICS.items()}
    return found | {"min": float(ordered[0]), "max": float(ordered[-1])}


def _band(age: float | None) -> int | None:
    return None if age is None or not np.isfinite(age) else int(np.searchsorted(AGE_BANDS, age, "right"))


def _sex(sex: str | None) -> str:
    return "" if sex is None else sex.strip().lower()
