"""Small records for the tests of the forecasting track: an OpenMHC root and the methods that forecast it."""

from __future__ import annotations

import datetime as dt

import numpy as np
from made_days import made_day
from openmhc_root import write_openmhc_root, write_trajectories

FIRST = dt.date(2020, 1, 1)
INDEX = "sample_index_P_{}_M_H_7_3_S_100.json"


def hours(n_days: int, seed: int) -> np.ndarray:
    """Hours of a person, time-major: a daily rhythm, noise, some gaps; sleep enough that its zeros count."""
    rng = np.random.default_rng(seed)
    hour = np.arange(n_days * 24)
    rhythm = 1.1 + np.sin(hour % 24 / 24 * 2 * np.pi)[:, None]
    values = (rhythm * rng.uniform(50, 100, 19) * rng.uniform(0.5, 1.5, (len(hour), 19))).astype(np.float32)
    values[:, 5] /= 60
    asleep = (hour % 24 < 9) ^ (rng.random(len(hour)) < 0.1)
    values[:, 7:] = asleep[:, None]
    values[:, 9:] = rng.random((len(hour), 10)) < 0.2
    values[rng.random(values.shape) < 0.05] = np.nan
    return values


def write_root(path, *, points: dict | None = None):
    """Test participants: `plain`; `weeks` lacks three weeks; `one` has one day; `zeros` has channels of zeros and
    of a constant; `lost` has points only outside of its record. `points` replaces the shipped index."""
    test = ("lost", "one", "plain", "weeks", "zeros")
    days = [made_day(p, 0) for p in ("t1", "v1", *test)]
    people = {p: {"birth_year": 1950 + 9 * i, "sex": ("male", "female")[i % 2]} for i, p in enumerate(test)}
    root = write_openmhc_root(
        path, days, {"train": ["t1"], "validation": ["v1"], "test": [*test, "absent"]}, people
    )
    records = {name: hours(28, seed) for seed, name in enumerate(("plain", "weeks", "zeros", "t1", "v1"))}
    records["weeks"][3 * 24 : 24 * 24] = np.nan
    records["zeros"][:, [0, 2, 9]] = 0
    records["zeros"][:, 3] = 7
    records["one"], records["lost"] = hours(1, 8), hours(4, 9)
    retained = {name: _days_with_data(values) for name, values in records.items()}
    shipped = {
        "plain": [10, 3, 27, 8, 15],
        "weeks": [3, 25],
        "zeros": [5, 6],
        "lost": [0, 4, 9],
        "absent": [3],
        "v1": [4, 5],
    }
    index = {INDEX.format(24): shipped if points is None else points}
    return write_trajectories(
        root, {name: (FIRST, values) for name, values in records.items()}, retained, index
    )


def _days_with_data(values: np.ndarray) -> list[str]:
    present = np.isfinite(values).reshape(-1, 24 * 19).any(axis=1)
    return [str(FIRST + dt.timedelta(days=int(d))) for d in np.flatnonzero(present)]


class Level:
    """Forecasts the mean of the history plus a number; NaN where `holes` says; stops at a day of the record."""

    def __init__(self, shift: float = 0.0, *, holes=None, stops_at=None, error: type = KeyboardInterrupt):
        self.shift, self.holes, self.stops_at, self.error = shift, holes, stops_at, error
        self.asked: list[int] = []

    def predict(self, history, horizon, *, index_days):
        if (history.shape[1] // 24, len(self.asked)) == self.stops_at:
            raise self.error("stopped")
        self.asked.append(index_days)
        known = np.isfinite(history)
        mean = np.where(known, history, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        point = np.repeat(mean[:, None] + self.shift, horizon, axis=1)
        if self.holes is not None:
            point[self.holes] = np.nan
        history[:] = 1e9  # harms nobody else
        return point
