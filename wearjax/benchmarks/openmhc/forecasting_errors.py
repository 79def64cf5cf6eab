"""From forecast windows to metrics of each participant, one participant and method at a time.

Windows are reduced to sums as they pass. The scaled metrics divide by a scale that is known only when all
windows of the run have passed, so their sums are kept by hour of day; what needs all pairs of a participant
(areas under a curve) is computed at once (OpenMHC evaluation, forecasting track).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float32, Int64

from wearjax import channels
from wearjax.benchmarks.openmhc import forecasting_metrics, forecasting_scale
from wearjax.benchmarks.openmhc.forecasting_metrics import BINARY_METRICS, CONTINUOUS_METRICS, UserMetrics
from wearjax.benchmarks.openmhc.forecasting_scale import SeasonalScale
from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.errors import ConfigError, MethodError

_CONTINUOUS, _BINARY = list(channels.CONTINUOUS), list(channels.BINARY)


@dataclass(frozen=True, eq=False)
class ParticipantForecasts:
    """All windows of one participant, forecast by one method.

    Attributes:
        origins: hours of history before each window; hours count from a midnight.
        target: what was measured, NaN = unscored.
        point: finite everywhere, after substitution.
        quantiles: of `levels`; None takes the point as the median. Terms that are not finite are left out.
        substituted: cells of each channel that the method did not forecast.
    """

    participant: str
    origins: Int64[np.ndarray, " window"]
    target: Float32[np.ndarray, "window channel=19 horizon"]
    point: Float32[np.ndarray, "window channel=19 horizon"]
    quantiles: Float32[np.ndarray, "window channel=19 horizon level"] | None
    levels: tuple[float, ...]
    substituted: Int64[np.ndarray, "channel=19"]

    def __post_init__(self):
        windows, _, horizon = self.target.shape
        shapes = {"origins": (windows,), "target": (windows, N_CHANNELS, horizon)}
        shapes |= {"point": self.target.shape, "substituted": (N_CHANNELS,)}
        if self.quantiles is not None:
            shapes["quantiles"] = (*self.target.shape, len(self.levels))
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"forecasts of {self.participant}: {name} has shape {getattr(self, name).shape}, expected {shape}"
                )


# Rows of a participant's record: by (continuous channel, hour of day), by continuous, by binary channel.
_HOURLY = (
    "absolute",
    "cells",
    "loss",
    "loss_cells",
    "absolute_share",
    "share",
    "loss_share",
    "loss_cell_share",
)
_FLAT = ("squared", "absolute_window", "squared_window", "loss_window", "windows", "loss_windows")
_AREAS = (
    *BINARY_METRICS,
    *(f"{m}_window" for m in BINARY_METRICS),
    *(f"{m}_windows" for m in BINARY_METRICS),
)


class _Record:
    """Sums of one participant and method, as named views of one vector."""

    SIZE = (
        len(_HOURLY) * len(_CONTINUOUS) * HOURS_PER_DAY
        + len(_FLAT) * len(_CONTINUOUS)
        + len(_AREAS) * len(_BINARY)
        + N_CHANNELS
        + 1
    )

    def __init__(self, vector: np.ndarray | None = None):
        self.vector = np.zeros(self.SIZE) if vector is None else vector
        self._at = 0
        hourly = self._take((len(_HOURLY), len(_CONTINUOUS), HOURS_PER_DAY))
        flat = self._take((len(_FLAT), len(_CONTINUOUS)))
        areas = self._take((len(_AREAS), len(_BINARY)))
        self._parts = {
            **dict(zip(_HOURLY, hourly, strict=True)),
            **dict(zip(_FLAT, flat, strict=True)),
            **dict(zip(_AREAS, areas, strict=True)),
            "substituted": self._take((N_CHANNELS,)),
            "n_cells": self._take((1,)),  # cells of each channel that the method was asked for
        }

    def _take(self, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        self._at += size
        return self.vector[self._at - size : self._at].reshape(shape)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._parts[name]


class ErrorTable:
    """Collects the metrics of several methods, participant by participant, in any order.

    Adding a method's participant again replaces what was known. About 11 kB are kept for each.
    """

    def __init__(self):
        self._records: dict[str, dict[str, np.ndarray]] = {}
        self._windows: dict[str, int] = {}

    def merge(self, other: ErrorTable) -> None:
        """Takes up the participants of another table."""
        for method, found in other._records.items():
            self._records.setdefault(method, {}).update(found)
        self._windows.update(other._windows)

    def add(self, method: str, forecasts: ParticipantForecasts) -> None:
        """Scores one participant's windows.

        Raises:
            MethodError: a point forecast is not finite: substitution comes first.
        """
        if not np.isfinite(forecasts.point).all():
            raise MethodError(
                f"{method}: forecasts of participant {forecasts.participant} are not finite after substitution"
            )
        record = _Record()
        _add_continuous(record, forecasts)
        _add_binary(record, forecasts)
        record["substituted"][:] = forecasts.substituted
        record["n_cells"][:] = forecasts.target.shape[0] * forecasts.target.shape[2]
        self._records.setdefault(method, {})[forecasts.participant] = record.vector
        self._windows[forecasts.participant] = len(forecasts.origins)

    def done(self, method: str) -> frozenset[str]:
        """Participants of a method that are in the table."""
        return frozenset(self._records.get(method, ()))

    def record(self, method: str, participants: Iterable[str] | None = None) -> pa.Table:
        """What is known of a method (of some participants), as a table for Parquet: exact sums."""
        known = self._records.get(method, {})
        chosen = known if participants is None else participants
        return forecasting_scale.table_of({p: np.append(known[p], self._windows[p]) for p in chosen})

    def restore(self, method: str, table: pa.Table) -> None:
        """Takes up a record. Raises StoreError if it is none."""
        for participant, vector in forecasting_scale.arrays_of(table, (_Record.SIZE + 1,)).items():
            self._records.setdefault(method, {})[participant] = vector[:-1].copy()
            self._windows[participant] = int(vector[-1])

    def finish(self, scale: SeasonalScale, methods: Sequence[str] | None = None) -> UserMetrics:
        """The metrics of everybody, participants sorted.

        Args:
            methods: their order; default is the order in which they came.

        Raises:
            ConfigError: nothing was added, or nothing of one of the methods.
        """
        if not self._records:
            raise ConfigError("forecasting: no window was evaluated")
        methods = tuple(self._records if methods is None else methods)
        for method in methods:
            if method not in self._records:
                raise ConfigError(f"forecasting: no window of {method!r} was evaluated")
        people = tuple(sorted({p for known in self._records.values() for p in known}))
        found = UserMetrics(methods, people, np.array([self._windows[p] for p in people], np.int64))
        hourly, whole = scale.hourly()[_CONTINUOUS], scale.whole()[_CONTINUOUS]
        for m, method in enumerate(methods):
            by_window = _WindowMeans()
            for p, person in enumerate(people):
                vector = self._records[method].get(person)
                if vector is not None:
                    _put(found, m, p, _Record(vector), hourly, whole)
                    by_window.add(_Record(vector), hourly, whole)
            found.by_window[method] = by_window.means()
        return found


def _add_continuous(record: _Record, found: ParticipantForecasts) -> None:
    target = found.target[:, _CONTINUOUS].astype(np.float64)
    point = found.point[:, _CONTINUOUS].astype(np.float64)
    finite = np.isfinite(target)
    absolute = np.abs(np.where(finite, point - target, 0.0))
    if found.quantiles is None:
        loss, has_loss = 0.5 * absolute, finite
    else:
        loss = forecasting_metrics.quantile_loss(target, found.quantiles[:, _CONTINUOUS], found.levels)
        has_loss = np.isfinite(loss)
        loss = np.where(has_loss, loss, 0.0)
    cells, loss_cells = finite.sum(axis=-1), has_loss.sum(axis=-1)
    in_window = np.divide(1.0, cells, out=np.zeros(cells.shape), where=cells > 0)
    in_loss = np.divide(1.0, loss_cells, out=np.zeros(cells.shape), where=loss_cells > 0)
    hour = (found.origins[:, None] + np.arange(target.shape[-1])) % HOURS_PER_DAY
    columns = (
        absolute, finite, loss, has_loss, absolute * in_window[..., None], finite * in_window[..., None],
        loss * in_loss[..., None], has_loss * in_loss[..., None],
    )  # fmt: skip
    for name, cell in zip(_HOURLY, columns, strict=True):
        record[name][:] = _by_hour(cell, hour)
    record["squared"][:] = (absolute**2).sum(axis=(0, 2))
    record["absolute_window"][:] = (absolute.sum(axis=-1) * in_window).sum(axis=0)
    record["squared_window"][:] = ((absolute**2).sum(axis=-1) * in_window).sum(axis=0)
    record["loss_window"][:] = (loss.sum(axis=-1) * in_loss).sum(axis=0)
    record["windows"][:] = (cells > 0).sum(axis=0)
    record["loss_windows"][:] = (loss_cells > 0).sum(axis=0)


def _by_hour(cell: np.ndarray, hour: np.ndarray) -> np.ndarray:
    """Sums over windows and hours of the horizon, by channel and hour of day."""
    n = cell.shape[1]
    key = (np.arange(n)[None, :, None] * HOURS_PER_DAY + hour[:, None, :]).ravel()
    sums = np.bincount(key, weights=cell.astype(np.float64).ravel(), minlength=n * HOURS_PER_DAY)
    return sums.reshape(n, HOURS_PER_DAY)


def _add_binary(record: _Record, found: ParticipantForecasts) -> None:
    for i, c in enumerate(_BINARY):
        target, score = found.target[:, c], found.point[:, c]
        pooled = forecasting_metrics.pooled(target, score)
        windows = forecasting_metrics.of_windows(target, score)
        for name in BINARY_METRICS:
            finite = windows[name][np.isfinite(windows[name])]
            record[name][i] = pooled[name]
            record[f"{name}_window"][i] = finite.sum()
            record[f"{name}_windows"][i] = len(finite)


def _of(record: _Record, hourly: np.ndarray, whole: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Numerator and number of cells of each continuous metric."""
    scaled = np.isfinite(hourly)
    scale = np.where(scaled, hourly, 1.0)
    cells, loss_cells = record["cells"].sum(axis=-1), record["loss_cells"].sum(axis=-1)
    absolute = record["absolute"].sum(axis=-1)
    known = np.isfinite(whole)
    return {
        "mae": (absolute, cells),
        "mse": (record["squared"], cells),
        "mase": (_scaled(record["absolute"], scale, scaled), (record["cells"] * scaled).sum(axis=-1)),
        "mase_all": (
            np.where(known, absolute / np.where(known, whole, 1.0), 0.0),
            np.where(known, cells, 0.0),
        ),
        "ql": (record["loss"].sum(axis=-1), loss_cells),
        "sql": (_scaled(record["loss"], scale, scaled), (record["loss_cells"] * scaled).sum(axis=-1)),
    }


def _put(found: UserMetrics, m: int, p: int, record: _Record, hourly: np.ndarray, whole: np.ndarray) -> None:
    for name, (total, count) in _of(record, hourly, whole).items():
        found.values[name][m, _CONTINUOUS, p] = _ratio(total, count)
        found.n_values[name][m, _CONTINUOUS, p] = count
    for name in BINARY_METRICS:
        found.values[name][m, _BINARY, p] = record[name]
        found.n_values[name][m, _BINARY, p] = np.isfinite(record[name])
    found.substituted[m] += record["substituted"].astype(np.int64)
    found.asked[m] += int(record["n_cells"][0])


def _scaled(sums: np.ndarray, scale: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.where(known, sums / scale, 0.0).sum(axis=-1)


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=np.asarray(count) > 0)


class _WindowMeans:
    """Mean over windows of the mean of each window, of one method.

    Where the scale of an hour is undefined, a window counts for its share of the other hours.
    """

    def __init__(self):
        self._sums: dict[str, list[np.ndarray]] = {}

    def add(self, record: _Record, hourly: np.ndarray, whole: np.ndarray) -> None:
        scaled, known = np.isfinite(hourly), np.isfinite(whole)
        scale, windows = np.where(scaled, hourly, 1.0), record["windows"]
        relative = record["absolute_window"] / np.where(known, whole, 1.0)
        parts = {
            "mae": (record["absolute_window"], windows),
            "mse": (record["squared_window"], windows),
            "mase": (
                _scaled(record["absolute_share"], scale, scaled),
                (record["share"] * scaled).sum(axis=-1),
            ),
            "mase_all": (np.where(known, relative, 0.0), np.where(known, windows, 0.0)),
            "ql": (record["loss_window"], record["loss_windows"]),
            "sql": (
                _scaled(record["loss_share"], scale, scaled),
                (record["loss_cell_share"] * scaled).sum(axis=-1),
            ),
            **{name: (record[f"{name}_window"], record[f"{name}_windows"]) for name in BINARY_METRICS},
        }
        for name, pair in parts.items():
            known_sums = self._sums.setdefault(name, [np.zeros(len(part)) for part in pair])
            for total, part in zip(known_sums, pair, strict=True):
                total += part

    def means(self) -> dict[str, dict[str, float]]:
        """`ch_<i>`, then metric; channels without any value are left out."""
        found: dict[str, dict[str, float]] = {}
        for members, names in ((_CONTINUOUS, CONTINUOUS_METRICS), (_BINARY, BINARY_METRICS)):
            for name in names:
                for c, value in zip(members, _ratio(*self._sums[name]), strict=True):
                    if np.isfinite(value):
                        found.setdefault(f"ch_{c}", {})[name] = float(value)
        return dict(sorted(found.items(), key=lambda item: int(item[0][3:])))
