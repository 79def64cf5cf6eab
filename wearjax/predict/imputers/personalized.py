"""Baselines that know the person: statistics of a participant's other days in the evaluated split.

The other days are seen unmasked, those of the same window included; the day being filled is left out entirely, so
that it is filled alike alone and in a window. An unknown participant gets the training statistic; a known one with
an unknown day keeps all days (OpenMHC evaluation, statistical methods).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict.imputers import modes, statistical
from wearjax.predict.imputers.statistical import Data, Mask, TrainStatistics
from wearjax.predict.protocols import Imputer

NAMES = ("personalized_mean", "personalized_mode", "personalized_temporal_mean")
_PARTICIPANTS_KEPT = 16


class EvaluatedDays:
    """The days of the split under evaluation, by participant.

    Args:
        values_at: values of the day at a split-local position, NaN = missing.
        participants: participant of each day, in split-local order.
        dates: date of each day; orders a participant's days. Without it they keep the split's order.
    """

    def __init__(
        self,
        values_at: Callable[[int], Float32[np.ndarray, "channel minute"]],
        participants: Sequence[str] | np.ndarray,
        dates: Sequence[str] | np.ndarray | None = None,
    ):
        self.values_at = values_at
        self.participants = [str(participant) for participant in participants]
        positions: dict[str, list[int]] = {}
        for position, participant in enumerate(self.participants):
            positions.setdefault(participant, []).append(position)
        if dates is not None:
            for own in positions.values():
                own.sort(key=lambda position: str(dates[position]))
        self._positions = {name: np.array(own, np.int64) for name, own in positions.items()}

    def __len__(self) -> int:
        return len(self.participants)

    def knows(self, participant: str) -> bool:
        return participant in self._positions

    def of(self, participant: str) -> Int64[np.ndarray, " day"]:
        """Positions of a known participant's days in order of date."""
        return self._positions[participant]

    def following(self, participant: str, position: int | None, n_days: int) -> Int64[np.ndarray, " day"]:
        """The day at `position` and the participant's next ones, `n_days` in all; none if it is not theirs."""
        own = self.of(participant)
        at = [] if position is None else np.flatnonzero(own == position).tolist()
        return own[at[0] : at[0] + n_days] if at else own[:0]


class _PersonalizedImputer:
    """Finds each sample's participant and left-out days; the subclass gives the fill."""

    # Consecutive samples of one participant share the work.
    requires_user_grouped_batches = True

    def __init__(self, train: TrainStatistics, evaluated: EvaluatedDays):
        self._train = train
        self._evaluated = evaluated

    def impute(
        self,
        data: Data,
        observed_mask: Mask,
        target_mask: Mask,
        *,
        sample_indices: Sequence[int] | np.ndarray | None = None,
        user_ids: Sequence[str] | np.ndarray | None = None,
        day_offsets: Int64[np.ndarray, "batch n_days"] | None = None,
    ) -> Data:
        out = np.array(data, np.float32, copy=True)
        target = target_mask.astype(bool, copy=False)
        for row in range(len(data)):
            participant = None if user_ids is None else str(user_ids[row])
            position = None if sample_indices is None else int(sample_indices[row])
            real = np.ones(1, bool) if day_offsets is None else np.asarray(day_offsets[row]) >= 0
            fill = self._fill_for(participant, position, real)
            np.copyto(out[row], statistical.tiled(fill, data.shape[-1]), where=target[row])
        return out

    def _fill_for(
        self, participant: str | None, position: int | None, real: Bool[np.ndarray, " slot"]
    ) -> np.ndarray:
        """The days of a window one after another; only `real` slots hold one to leave out."""
        if participant is None or not self._evaluated.knows(participant):
            return self._unknown()
        days = self._evaluated.following(participant, position, int(real.sum()))
        slots = np.flatnonzero(real)[: len(days)]
        left_out = {int(slot): days[i : i + 1] for i, slot in enumerate(slots)}
        return np.concatenate(
            [self._known(participant, left_out.get(i, days[:0])) for i in range(len(real))], axis=1
        )

    def _unknown(self) -> Float32[np.ndarray, "channel minute"]:
        raise NotImplementedError

    def _known(self, participant: str, left_out: np.ndarray) -> Float32[np.ndarray, "channel minute"]:
        raise NotImplementedError


class PersonalizedMeanImputer(_PersonalizedImputer):
    """Mean of the participant's other days per channel; the training mean where they hold no value."""

    def __init__(self, train: TrainStatistics, evaluated: EvaluatedDays):
        super().__init__(train, evaluated)
        sums = [_sum_and_count(evaluated.values_at(i), axis=1) for i in range(len(evaluated))]
        shape = (len(evaluated), len(train.channel_means))
        self._total = np.array([total for total, _ in sums]).reshape(shape)
        self._count = np.array([count for _, count in sums]).reshape(shape)

    def _unknown(self) -> np.ndarray:
        return self._by_channel(self._train.channel_means)

    def _known(self, participant: str, left_out: np.ndarray) -> np.ndarray:
        others = _without(self._evaluated.of(participant), left_out)
        total, count = self._total[others].sum(axis=0), self._count[others].sum(axis=0)
        return self._by_channel(statistical.mean_or(total, count, self._train.channel_means))

    def _by_channel(self, fill: np.ndarray) -> np.ndarray:
        return np.broadcast_to(fill[:, None], self._train.temporal_means.shape)


class PersonalizedModeImputer(_PersonalizedImputer):
    """Mode of the modes of the participant's other days, ties to the smallest; else the training mode."""

    def __init__(self, train: TrainStatistics, evaluated: EvaluatedDays):
        super().__init__(train, evaluated)
        self._channel_modes, _ = train.modes("personalized_mode")
        votes = [_day_modes(evaluated.values_at(i)) for i in range(len(evaluated))]
        self._votes = np.array(votes, np.float32).reshape(len(evaluated), len(train.channel_means))

    def _unknown(self) -> np.ndarray:
        return self._by_channel(self._channel_modes)

    def _known(self, participant: str, left_out: np.ndarray) -> np.ndarray:
        others = _without(self._evaluated.of(participant), left_out)
        found = modes.smallest_modes(self._votes[others].T)
        return self._by_channel(np.where(np.isnan(found), self._channel_modes, found))

    def _by_channel(self, fill: np.ndarray) -> np.ndarray:
        return np.broadcast_to(fill[:, None], self._train.temporal_means.shape)


class PersonalizedTemporalMeanImputer(_PersonalizedImputer):
    """Mean of the participant's other days per channel and minute of day.

    A minute without a value takes the participant's channel mean over the other days, a channel without one
    the training mean of the minute.
    """

    def __init__(self, train: TrainStatistics, evaluated: EvaluatedDays):
        super().__init__(train, evaluated)
        # Sums of a participant are large (19 x 1440 twice): only the last few are kept.
        self._sums = functools.lru_cache(maxsize=_PARTICIPANTS_KEPT)(self._sums_of)

    def _unknown(self) -> np.ndarray:
        return self._train.temporal_means

    def _sums_of(self, participant: str) -> tuple[np.ndarray, np.ndarray]:
        shape = self._train.temporal_means.shape
        total, count = np.zeros(shape), np.zeros(shape, np.int64)
        for position in self._evaluated.of(participant):
            values = self._evaluated.values_at(int(position))
            finite = np.isfinite(values)
            np.add(total, values, out=total, where=finite)
            count += finite
        return total, count

    def _known(self, participant: str, left_out: np.ndarray) -> np.ndarray:
        total, count = self._sums(participant)
        total, count = total.copy(), count.copy()
        for position in left_out:
            values = self._evaluated.values_at(int(position))
            finite = np.isfinite(values)
            np.subtract(total, values, out=total, where=finite)
            count -= finite
        counted = count.sum(axis=1, keepdims=True)
        # Subtracting leaves rounding residue at emptied minutes, which must not enter the channel's sum.
        whole = np.where(count > 0, total, 0).sum(axis=1, keepdims=True)
        channel = statistical.mean_or(whole, counted, self._train.temporal_means)
        return statistical.mean_or(total, count, channel)


def _sum_and_count(
    values: Float32[np.ndarray, "channel minute"], axis: int
) -> tuple[Float64[np.ndarray, " channel"], Int64[np.ndarray, " channel"]]:
    finite = np.isfinite(values)
    return np.where(finite, values, 0).sum(axis=axis, dtype=np.float64), finite.sum(axis=axis)


def _day_modes(values: Float32[np.ndarray, "channel minute"]) -> Float32[np.ndarray, " channel"]:
    return modes.smallest_modes(np.where(np.isfinite(values), modes.rounded(values), np.float32(np.nan)))


def _without(positions: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    return positions[~np.isin(positions, left_out)]


_CLASSES: dict[str, type[_PersonalizedImputer]] = {
    "personalized_mean": PersonalizedMeanImputer,
    "personalized_mode": PersonalizedModeImputer,
    "personalized_temporal_mean": PersonalizedTemporalMeanImputer,
}


def imputer(name: str, train: TrainStatistics, evaluated: EvaluatedDays) -> Imputer:
    """The personalised baseline of that name. Raises ConfigError for an unknown one."""
    if name not in _CLASSES:
        raise ConfigError(f"personalised imputer {name!r} is unknown; expected one of {', '.join(NAMES)}")
    return _CLASSES[name](train, evaluated)


def build(
    name: str,
    days: Days,
    train_indices: Sequence[int] | np.ndarray,
    evaluated_indices: Sequence[int] | np.ndarray,
) -> Imputer:
    """A personalised baseline from a store: fitted on the train days, for the days of one evaluated split.

    `evaluated_indices` are store indices in split-local order, so that `sample_indices` count along them.
    """
    train = statistical.fit_days(days, train_indices, with_modes=name == "personalized_mode")
    return imputer(name, train, evaluated_days(days, evaluated_indices))


def evaluated_days(days: Days, indices: Sequence[int] | np.ndarray) -> EvaluatedDays:
    """The days of a store at `indices`, which are in split-local order."""
    rows = np.asarray(indices, np.int64)
    return EvaluatedDays(
        lambda position: days.values(int(rows[position])), days.participants[rows], days.dates[rows]
    )
