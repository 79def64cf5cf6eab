"""Seasonal naive: an hour becomes what it was a day ago. The baseline of the forecasting track.

Rules of OpenMHC's evaluation: an hour takes the value of the same hour of the latest of the last seven days that
has one, else the mean of the channel's history, else 0; its quantiles are those of the same hour over all whole
days of the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from wearjax.channels import HOURS_PER_DAY

NAME = "seasonal_naive"
LEVELS = tuple(i / 10 for i in range(1, 10))
SEASONS_MAX = 7
_WINDOWS_AT_ONCE = 16  # few enough to stay in the processor


class SeasonalNaive:
    """The forecaster; see the module. Histories may have any number of channels, and float64 stays float64.

    Args:
        season: hours.
        seasons_max: seasons to look back for a point.
        quantile_levels: of the quantiles.
    """

    name = NAME

    def __init__(
        self,
        *,
        season: int = HOURS_PER_DAY,
        seasons_max: int = SEASONS_MAX,
        quantile_levels: Sequence[float] = LEVELS,
    ):
        self.season, self.seasons_max = season, seasons_max
        self.quantile_levels = tuple(quantile_levels)

    @property
    def settings(self) -> dict[str, Any]:
        """What changes its forecasts."""
        return {
            "season": self.season,
            "seasons_max": self.seasons_max,
            "quantile_levels": list(self.quantile_levels),
        }

    def predict(
        self, history: Float[np.ndarray, "channel hour"], horizon: int
    ) -> tuple[Float[np.ndarray, "channel horizon"], Float[np.ndarray, "channel horizon level"]]:
        """Point and quantiles of one history; NaN = missing."""
        points, quantiles = self.predict_batch([history], horizon)
        return points[0], quantiles[0]

    def predict_batch(
        self, histories: Sequence[Float[np.ndarray, "channel hour"]], horizon: int
    ) -> tuple[
        Float[np.ndarray, "window channel horizon"], Float[np.ndarray, "window channel horizon level"]
    ]:
        """Points and quantiles of several histories.

        Histories that are beginnings of one array, as a participant's are, are sorted once together.
        """
        found = [
            (rows, _Seasons(record, lengths, self.season))
            for rows, record, lengths in _records(histories, self.season)
        ]
        first = histories[0]
        points = np.empty((len(histories), first.shape[0], horizon), first.dtype)
        quantiles = np.empty((*points.shape, len(self.quantile_levels)), first.dtype)
        for rows, seasons in found:
            phase = np.arange(horizon) % max(seasons.season, 1)
            point = seasons.point(self.seasons_max)
            points[rows] = point[..., phase]
            quantiles[rows] = seasons.quantiles(np.array(self.quantile_levels), point)[:, :, phase]
        return points, quantiles

    def points(
        self, histories: Sequence[Float[np.ndarray, "channel hour"]], horizon: int
    ) -> Float[np.ndarray, "window channel horizon"]:
        """Points only, which takes a fraction of the time."""
        out = np.empty((len(histories), histories[0].shape[0], horizon), histories[0].dtype)
        for rows, record, lengths in _records(histories, self.season):
            seasons = _Seasons(record, lengths, self.season)
            out[rows] = seasons.point(self.seasons_max)[..., np.arange(horizon) % max(seasons.season, 1)]
        return out


def _records(
    histories: Sequence[np.ndarray], season: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Histories that are beginnings of one record, whole seasons apart: (positions, the longest, lengths)."""
    longest = max(histories, key=lambda history: history.shape[1])
    rest = longest.shape[1] % season
    together = all(
        history.ctypes.data == longest.ctypes.data
        and history.strides == longest.strides
        and history.dtype == longest.dtype
        and history.shape[0] == longest.shape[0]
        and history.shape[1] >= season
        and history.shape[1] % season == rest
        for history in histories
    )
    if together:
        yield np.arange(len(histories)), longest, np.array([h.shape[1] for h in histories])
        return
    for row, history in enumerate(histories):
        yield np.array([row]), history, np.array([history.shape[1]])


class _Seasons:
    """Beginnings of a record, cut into seasons from the end of each; all are whole seasons apart."""

    def __init__(self, record: np.ndarray, lengths: Int[np.ndarray, " window"], season: int):
        self.season = min(season, record.shape[1])
        self.dtype = record.dtype
        self._n = lengths // max(self.season, 1)
        rest = record.shape[1] % max(self.season, 1)
        self._values = record[:, rest:].reshape(len(record), -1, max(self.season, 1))  # (C, D, s)
        self._finite = np.isfinite(self._values)
        self._before = record[:, :rest]

    def point(self, seasons_max: int) -> Float[np.ndarray, "window channel phase"]:
        """The latest finite value of each phase, else the mean of the history, else 0."""
        if not self.season:
            return np.zeros((len(self._n), len(self._values), 1), self.dtype)
        season = np.arange(self._values.shape[1], dtype=np.int32)[None, :, None]
        latest = np.where(self._finite, season, np.int32(-1))
        latest = np.maximum.accumulate(latest, axis=1)[:, self._n - 1]
        near = latest >= np.maximum(self._n - seasons_max, 0)[None, :, None]
        value = np.take_along_axis(self._values, np.maximum(latest, 0), axis=1)
        chosen = np.where(near, value, self._mean()[:, :, None].astype(self.dtype))
        return chosen.swapaxes(0, 1)

    def _mean(self) -> Float[np.ndarray, "channel window"]:
        total = _finite_sum(self._values, self._finite).cumsum(axis=1)[:, self._n - 1]
        count = np.count_nonzero(self._finite, axis=2).cumsum(axis=1)[:, self._n - 1]
        known = np.isfinite(self._before)
        total = total + _finite_sum(self._before, known)[:, None]
        count = count + np.count_nonzero(known, axis=1)[:, None]
        return np.divide(total, count, out=np.zeros(total.shape), where=count > 0)

    def quantiles(
        self, levels: Float[np.ndarray, " level"], point: Float[np.ndarray, "window channel phase"]
    ) -> Float[np.ndarray, "window channel phase level"]:
        """Linear quantiles of each phase over the seasons of each history; the point where there is no value."""
        out = np.repeat(point[..., None], len(levels), axis=-1)
        if not self.season:
            return out
        # Flags, 12 of the 19 channels, need no sorting: their zeros come first, and are counted.
        flags = (~self._finite | np.isin(self._values, (0, 1))).all(axis=(1, 2))
        counts = self._finite.cumsum(axis=1, dtype=np.int32)
        ones = (self._values[flags] == 1).cumsum(axis=1, dtype=np.int32)
        rows = np.where(self._finite, self._values, np.inf)[~flags].swapaxes(1, 2)
        ranks = _Ranks(rows.reshape(-1, rows.shape[-1]))
        for start in range(0, len(self._n), _WINDOWS_AT_ONCE):
            part = slice(start, start + _WINDOWS_AT_ONCE)
            n = self._n[part]
            count = counts[:, n - 1].swapaxes(0, 1)  # (window, channel, phase)
            place = np.maximum(count - 1, 0)[..., None] * levels
            found = np.empty(place.shape)
            zeros = count[:, flags] - ones[:, n - 1].swapaxes(0, 1)
            found[:, flags] = np.clip(place[:, flags] - (zeros - 1)[..., None], 0, 1)
            found[:, ~flags] = ranks.at(place[:, ~flags], n, count[:, ~flags])
            np.copyto(out[part], found, where=count[..., None] > 0, casting="same_kind")
        return out


class _Ranks:
    """Rows of values over seasons, sorted once; infinite where there is no value."""

    def __init__(self, rows: Float[np.ndarray, "row season"]):
        order = np.argsort(rows, axis=1)
        ascending = np.take_along_axis(rows, order, axis=1)
        self._ascending = ascending.reshape(-1)
        # The season of each sorted value; where there is no value, one that comes after every history.
        small = np.int16 if rows.shape[1] < np.iinfo(np.int16).max else np.int32
        self._season = np.where(np.isfinite(ascending), order, rows.shape[1]).astype(small).reshape(-1)

    def at(
        self,
        place: Float[np.ndarray, "window *row level"],
        n: Int[np.ndarray, " window"],
        count: Int[np.ndarray, "window *row"],
    ) -> Float[np.ndarray, "window *row level"]:
        """Values at ranks that need not be whole, among those of the first `n` seasons; `count` of a row have one.

        Rows without a value get some number.
        """
        shape, n_levels = place.shape, place.shape[-1]
        place, count = place.reshape(len(n), -1, n_levels), count.reshape(len(n), -1)
        low = place.astype(np.int64)
        start = (np.cumsum(count, axis=1) - count)[..., None]
        step = low + 1 < count[..., None]
        below, above = np.zeros(place.shape), np.zeros(place.shape)
        for window, seasons in enumerate(n.tolist()):
            kept = np.flatnonzero(self._season < seasons)
            if not len(kept):
                continue
            at = np.minimum(start[window] + low[window], len(kept) - 1)
            below[window] = self._ascending[kept[at]]
            above[window] = self._ascending[kept[at + step[window]]]
        return (below + (above - below) * (place - low)).reshape(shape)


def _finite_sum(values: np.ndarray, finite: Bool[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.where(finite, values, 0).sum(axis=-1, dtype=np.float64)
