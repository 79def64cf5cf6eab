"""The six statistical baselines of the imputation benchmark: fills without a trained model.

Each returns a copy of the data in which only target cells differ. A cell is known to a baseline when it was
measured, is not a target and is finite (OpenMHC evaluation, statistical methods). Channel count and day
length follow from the statistics, so the same code serves windows of several days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Shaped

from wearjax.channels import MINUTES_PER_DAY
from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict.imputers import modes
from wearjax.predict.protocols import Imputer

NAMES = ("mean", "mode", "linear", "locf", "temporal_mean", "temporal_mode")
_DAYS_AT_ONCE = 128
_CELLS_AT_ONCE = 1 << 17

Data = Float32[np.ndarray, "batch channel time"]
Mask = Shaped[np.ndarray, "batch channel time"]
Batches = Callable[[], Iterable[Data]]


@dataclass(frozen=True, eq=False)
class TrainStatistics:
    """What the baselines know of the training days, from all their finite cells.

    A channel without a value has mean and mode 0; a minute without one has the statistic of its channel.
    Modes are None where they were not asked for.
    """

    channel_means: Float32[np.ndarray, " channel"]
    temporal_means: Float32[np.ndarray, "channel minute"]
    channel_modes: Float32[np.ndarray, " channel"] | None = None
    temporal_modes: Float32[np.ndarray, "channel minute"] | None = None

    def modes(self, method: str) -> tuple[np.ndarray, np.ndarray]:
        """Modes by channel, and by channel and minute. Raises ConfigError where they were not fitted."""
        if self.channel_modes is None or self.temporal_modes is None:
            raise ConfigError(f"{method}: the training statistics were fitted without modes")
        return self.channel_modes, self.temporal_modes


def fit(
    batches: Batches, *, minutes_per_day: int = MINUTES_PER_DAY, with_modes: bool = True
) -> TrainStatistics:
    """Statistics of the training days.

    Args:
        batches: gives the stream of days anew at each call, NaN = missing. Read once for means; once for
            modes, or more often where the counts would not fit in memory (see `modes.fit`).
        minutes_per_day: length of a day in the stream; time may span several.

    Raises:
        MethodError: no training day at all.
    """
    total, count = np.zeros(()), np.zeros((), np.int64)
    for batch in batches():
        n, n_channels, _ = batch.shape
        days = batch.reshape(n, n_channels, -1, minutes_per_day)
        finite = np.isfinite(days)
        total = total + np.where(finite, days, 0).sum(axis=(0, 2), dtype=np.float64)
        count = count + finite.sum(axis=(0, 2))
    if not total.ndim:
        raise MethodError("statistical imputers: the training split has no day to learn from")
    channel_means = mean_or(total.sum(axis=1), count.sum(axis=1), np.zeros((), np.float32))
    temporal_means = mean_or(total, count, channel_means[:, None])
    found = modes.fit(batches, minutes_per_day=minutes_per_day) if with_modes else (None, None)
    return TrainStatistics(channel_means, temporal_means, *found)


def mean_or(total: np.ndarray, count: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """`total / count` in float32, and `otherwise` where nothing was counted."""
    return np.where(count > 0, (total / np.maximum(count, 1)).astype(np.float32), otherwise)


class ConstantImputer:
    """Fills each channel with one value: its training mean or mode."""

    def __init__(self, fill: Float32[np.ndarray, " channel"]):
        self._fill = fill

    def impute(self, data: Data, observed_mask: Mask, target_mask: Mask) -> Data:
        return written(data, target_mask, self._fill[:, None])


class TemporalImputer:
    """Fills each channel by minute of day: its training mean or mode at that minute."""

    def __init__(self, fill: Float32[np.ndarray, "channel minute"]):
        self._fill = fill

    def impute(self, data: Data, observed_mask: Mask, target_mask: Mask) -> Data:
        return written(data, target_mask, tiled(self._fill, data.shape[-1]))


class LinearImputer:
    """Interpolates between the known cells on both sides; beyond the outermost ones it repeats them.

    A channel without a known cell gets its training mean.
    """

    def __init__(self, channel_means: Float32[np.ndarray, " channel"]):
        self._means = channel_means

    def impute(self, data: Data, observed_mask: Mask, target_mask: Mask) -> Data:
        return _filled_from_neighbours(_interpolated, data, observed_mask, target_mask, self._means)


class LOCFImputer:
    """Carries the last known cell forward, and the first known one backward over a leading gap.

    A channel without a known cell gets its training mean. Days of a batch never touch each other.
    """

    def __init__(self, channel_means: Float32[np.ndarray, " channel"]):
        self._means = channel_means

    def impute(self, data: Data, observed_mask: Mask, target_mask: Mask) -> Data:
        return _filled_from_neighbours(_carried, data, observed_mask, target_mask, self._means)


class _Targets:
    """Target cells of some rows (one day and channel each), with the nearest known cells before and after.

    Works on flat positions: a running count of known cells gives a target the ranks of its neighbours, so
    that no step depends on the length of a gap. Every row with a target must have a known cell.
    """

    def __init__(self, known: np.ndarray, is_target: np.ndarray):
        n_rows, time = known.shape
        self.at = np.flatnonzero(is_target).astype(np.int32)
        # One sentinel at each end, outside of every row.
        known_at = np.concatenate(([-1], np.flatnonzero(known), [known.size + time])).astype(np.int32)
        rank = np.cumsum(known, dtype=np.int32)[self.at]
        self.before, self.after = known_at[rank], known_at[rank + 1]
        row_start = np.arange(n_rows, dtype=np.int32) * np.int32(time)
        start = np.repeat(row_start, np.count_nonzero(is_target, axis=1))
        self.has_before = self.before >= start
        self.has_after = self.after < start + np.int32(time)


def _filled_from_neighbours(
    fill: Callable[[np.ndarray, _Targets], np.ndarray],
    data: Data,
    observed_mask: Mask,
    target_mask: Mask,
    channel_means: np.ndarray,
) -> Data:
    """The data with `fill` at the targets; the channel's mean in rows that have no known cell."""
    out = np.array(data, np.float32, copy=True, order="C")
    _, n_channels, time = data.shape
    # A few days at a time stay in the cache of the processor, which is worth a factor of five.
    step = max(1, _CELLS_AT_ONCE // (n_channels * time))
    for start in range(0, len(data), step):
        rows = out[start : start + step].reshape(-1, time)
        is_target = np.array(target_mask[start : start + step], bool).reshape(rows.shape)
        observed = observed_mask[start : start + step].astype(bool, copy=False).reshape(rows.shape)
        known = np.isfinite(rows) & observed & ~is_target
        for row in np.flatnonzero(~known.any(axis=1) & is_target.any(axis=1)):
            rows[row, is_target[row]] = channel_means[row % n_channels]
            is_target[row] = False
        targets = _Targets(known, is_target)
        flat = rows.reshape(-1)
        flat[targets.at] = fill(flat, targets)
    return out


def _interpolated(flat: np.ndarray, targets: _Targets) -> np.ndarray:
    first = flat.take(targets.before, mode="clip").astype(np.float64)
    # Targets at an edge have a neighbour in another row; they are overwritten below.
    with np.errstate(invalid="ignore", over="ignore"):
        rise = flat.take(targets.after, mode="clip") - first
        share = (targets.at - targets.before) / (targets.after - targets.before)
        filled = (first + rise * share).astype(np.float32)
    edge = np.flatnonzero(~(targets.has_before & targets.has_after))
    nearest = np.where(targets.has_before[edge], targets.before[edge], targets.after[edge])
    filled[edge] = flat.take(nearest, mode="clip")
    return filled


def _carried(flat: np.ndarray, targets: _Targets) -> np.ndarray:
    filled = flat.take(targets.before, mode="clip")
    leading = np.flatnonzero(~targets.has_before)
    filled[leading] = flat.take(targets.after[leading], mode="clip")
    return filled


def written(data: Data, target_mask: Mask, fill: Float32[np.ndarray, "*fill"]) -> Data:
    """A copy of the data with `fill`, broadcast to its shape, at the target cells."""
    return np.where(target_mask.astype(bool, copy=False), fill, data).astype(np.float32, copy=False)


def tiled(
    by_minute: Float32[np.ndarray, "*batch channel minute"], time: int
) -> Float32[np.ndarray, "*batch channel time"]:
    """A statistic by minute of day, repeated along a window: step t takes minute `t % minutes`."""
    n_minutes = by_minute.shape[-1]
    return by_minute if time == n_minutes else by_minute[..., np.arange(time) % n_minutes]


def imputer(name: str, statistics: TrainStatistics) -> Imputer:
    """The baseline of that name. Raises ConfigError for an unknown name or missing modes."""
    if name not in NAMES:
        raise ConfigError(f"statistical imputer {name!r} is unknown; expected one of {', '.join(NAMES)}")
    if name == "linear":
        return LinearImputer(statistics.channel_means)
    if name == "locf":
        return LOCFImputer(statistics.channel_means)
    by_channel, by_minute = statistics.channel_means, statistics.temporal_means
    if name.endswith("mode"):
        by_channel, by_minute = statistics.modes(name)
    return TemporalImputer(by_minute) if name.startswith("temporal") else ConstantImputer(by_channel)


def build(name: str, days: Days, indices: Sequence[int] | np.ndarray) -> Imputer:
    """One baseline, fitted on the days at `indices`; see `build_all` for several."""
    return build_all((name,), days, indices)[name]


def build_all(names: Iterable[str], days: Days, indices: Sequence[int] | np.ndarray) -> dict[str, Imputer]:
    """Several baselines from one fit, so that the training days are read as few times as possible."""
    names = tuple(names)
    statistics = fit_days(days, indices, with_modes=any(name.endswith("mode") for name in names))
    return {name: imputer(name, statistics) for name in names}


def fit_days(days: Days, indices: Sequence[int] | np.ndarray, *, with_modes: bool = True) -> TrainStatistics:
    """`fit` on days of a store."""
    return fit(lambda: day_batches(days, indices), with_modes=with_modes)


def day_batches(days: Days, indices: Sequence[int] | np.ndarray, size: int = _DAYS_AT_ONCE) -> Iterator[Data]:
    """The days at `indices` in order, in batches that fit in memory."""
    chosen = [int(index) for index in indices]
    for start in range(0, len(chosen), size):
        yield days.batch(chosen[start : start + size])
