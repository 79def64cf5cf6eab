"""A few example windows of an evaluation, chosen by seed, with what every method forecast."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from wearjax.benchmarks.openmhc import forecasting_scale
from wearjax.benchmarks.openmhc.forecasting_errors import ParticipantForecasts
from wearjax.channels import HOURS_PER_DAY, N_CHANNELS

WINDOWS = 12
HISTORY_HOURS = 72


class Gallery:
    """Keeps one window of some participants; which ones depends on the seed and the cases alone.

    Args:
        windows: number of windows of each participant.
        seed: of the choice.
        count: windows to keep.
    """

    def __init__(self, windows: Mapping[str, int], *, horizon: int, seed: int, count: int = WINDOWS):
        generator = np.random.default_rng(seed)
        people = sorted(p for p, n in windows.items() if n)
        chosen = generator.permutation(len(people))[:count]
        draws = generator.random(len(people))
        self._horizon = horizon
        self._row = {people[i]: int(draws[i] * windows[people[i]]) for i in sorted(chosen.tolist())}
        self._seen: dict[str, dict[str, np.ndarray]] = {}
        self._forecasts: dict[str, dict[str, np.ndarray]] = {}

    def keep(
        self,
        method: str,
        forecasts: ParticipantForecasts,
        values: Float[np.ndarray, "channel=19 hour"],
        first_day: dt.date,
    ) -> None:
        """Copies the chosen window, if it is one of these.

        Args:
            values: the participant's whole record, which begins at midnight of `first_day`.
        """
        row = self._row.get(forecasts.participant)
        if row is None:
            return
        origin = int(forecasts.origins[row])
        history = np.full((N_CHANNELS, HISTORY_HOURS), np.nan, np.float32)
        tail = values[:, max(origin - HISTORY_HOURS, 0) : origin]
        history[:, HISTORY_HOURS - tail.shape[1] :] = tail
        self._seen[forecasts.participant] = {
            "history": history,
            "target": forecasts.target[row].astype(np.float32),
            "day": np.array([first_day.toordinal() * HOURS_PER_DAY + origin], np.int64),
        }
        point = forecasts.point[row]
        low, high = _band(
            point, None if forecasts.quantiles is None else forecasts.quantiles[row], forecasts.levels
        )
        self._forecasts.setdefault(method, {})[forecasts.participant] = np.stack([point, low, high])

    def part(self) -> Gallery:
        """An empty gallery of the same choice, for some of the participants."""
        part = copy.copy(self)
        part._seen, part._forecasts = {}, {}
        return part

    def merge(self, other: Gallery) -> None:
        """Takes up the windows of a part."""
        self._seen.update(other._seen)
        for method, found in other._forecasts.items():
            self._forecasts.setdefault(method, {}).update(found)

    def record(self, method: str) -> pa.Table:
        """The windows of one method, to go on with later."""
        known = self._forecasts.get(method, {})
        return forecasting_scale.table_of(
            {
                p: np.concatenate(
                    [forecast.ravel(), *(part.ravel().astype(np.float64) for part in self._seen[p].values())]
                )
                for p, forecast in known.items()
            }
        )

    def restore(self, method: str, table: pa.Table) -> None:
        """Takes up the windows of a method from a record. Raises StoreError if it is none."""
        shapes = [
            (3, N_CHANNELS, self._horizon),
            (N_CHANNELS, HISTORY_HOURS),
            (N_CHANNELS, self._horizon),
            (1,),
        ]
        sizes = [int(np.prod(shape)) for shape in shapes]
        for participant, flat in forecasting_scale.arrays_of(table, (sum(sizes),)).items():
            parts = np.split(flat, np.cumsum(sizes)[:-1])
            forecast, history, target, day = (p.reshape(s) for p, s in zip(parts, shapes, strict=True))
            self._forecasts.setdefault(method, {})[participant] = forecast.astype(np.float32)
            self._seen[participant] = {
                "history": history.astype(np.float32),
                "target": target.astype(np.float32),
                "day": day.astype(np.int64),
            }

    def arrays(self, methods: Sequence[str]) -> dict[str, np.ndarray]:
        """The arrays of `predictions/forecasts.npz`; empty when no window was kept.

        `history` and `target` of each window; `forecast/<method>`, and `low/<method>` and `high/<method>`, its
        outermost quantiles (NaN where it has none), all in stored hourly units; `participant`; `start`, local
        time of the first forecast hour. Windows that not all methods forecast are left out.
        """
        people = [p for p in self._row if all(p in self._forecasts.get(m, {}) for m in methods)]
        if not people or not methods:
            return {}
        found = {name: np.stack([self._seen[p][name] for p in people]) for name in ("history", "target")}
        for method in methods:
            parts = np.stack([self._forecasts[method][p] for p in people], axis=1).astype(np.float32)
            for name, part in zip(("forecast", "low", "high"), parts, strict=True):
                found[f"{name}/{method}"] = part
        return {
            **found,
            "participant": np.array(people),
            "start": np.array([_start(self._seen[p]["day"]) for p in people]),
        }


def _band(
    point: np.ndarray, quantiles: np.ndarray | None, levels: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Outermost quantiles; NaN for a method that has none on both sides of the median."""
    if quantiles is None or not (min(levels) < 0.5 < max(levels)):
        nothing = np.full(point.shape, np.nan, np.float32)
        return nothing, nothing
    return quantiles[..., int(np.argmin(levels))], quantiles[..., int(np.argmax(levels))]


def _start(hours: Int64[np.ndarray, "1"]) -> str:
    day, hour = divmod(int(hours[0]), HOURS_PER_DAY)
    return f"{dt.date.fromordinal(day).isoformat()} {hour:02d}:00"
