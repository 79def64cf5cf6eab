"""What a predictor is given of each participant: an array read from the days when it is asked for."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32, Int64

from wearjax.channels import HOURS_PER_DAY, N_CHANNELS
from wearjax.days import hourly
from wearjax.days.store import Days
from wearjax.predict.protocols import DataSpec, EvalContext

CACHE_BYTES = 1 << 30
_DAY_BYTES = N_CHANNELS * HOURS_PER_DAY * 4
_DAYS_AT_ONCE = 64


class ParticipantDays:
    """Retained days by participant and date, and their hours.

    Hours of a day are computed once and kept while they fit. When the bound is reached nothing more is kept:
    the tasks go through the same participants again and again, where dropping the oldest would never hit.

    Args:
        days: the day set; days that fail its wear and variance filters are not found.
        cache_bytes: most bytes of hours to keep.
    """

    def __init__(self, days: Days, *, cache_bytes: int = CACHE_BYTES):
        self.days, self.cache_bytes = days, cache_bytes
        rows = np.flatnonzero(days.retained)
        ids, owner = np.unique(days.participants[rows].astype(str), return_inverse=True)
        date = days.dates[rows].astype("datetime64[D]")
        order = np.lexsort((date, owner))  # stable: of two equal days the first counts
        self._rows, self._dates = rows[order], date[order]
        self._bounds = np.searchsorted(owner[order], np.arange(len(ids) + 1))
        self._place = {str(user): place for place, user in enumerate(ids)}
        self._hours: dict[int, np.ndarray] = {}

    @property
    def users(self) -> tuple[str, ...]:
        """Participants with a retained day, sorted."""
        return tuple(self._place)

    def find(self, user: str, dates: Sequence[str]) -> Int64[np.ndarray, "day"]:
        """Positions in the day set of those of a participant's dates that it has, in the order asked."""
        place = self._place.get(user)
        if place is None or not len(dates):
            return np.empty(0, np.int64)
        own = slice(self._bounds[place], self._bounds[place + 1])
        wanted = np.asarray(dates, dtype="datetime64[D]")
        at = np.searchsorted(self._dates[own], wanted)
        at_most = np.minimum(at, own.stop - own.start - 1)
        return self._rows[own][at_most[self._dates[own][at_most] == wanted]].astype(np.int64)

    def n_absent(self, context: EvalContext) -> int:
        """How many of the eligible dates have no retained day."""
        asked = zip(context.user_ids, context.dates, strict=True)
        return sum(len(dates) - len(self.find(user, dates)) for user, dates in asked)

    def hours(self, indices: Int64[np.ndarray, "day"]) -> Float32[np.ndarray, "day 19 24"]:
        """Hours of days at these positions; NaN = not measured."""
        out = np.empty((len(indices), N_CHANNELS, HOURS_PER_DAY), np.float32)
        lacking = []
        for place, index in enumerate(indices):
            known = self._hours.get(int(index))
            if known is None:
                lacking.append(place)
            else:
                out[place] = known
        for start in range(0, len(lacking), _DAYS_AT_ONCE):
            part = lacking[start : start + _DAYS_AT_ONCE]
            out[part] = hourly.aggregate(self.days.batch(indices[part]))
            for place in part:
                if (len(self._hours) + 1) * _DAY_BYTES > self.cache_bytes:
                    break
                self._hours[int(indices[place])] = out[place].copy()
        return out

    def arrays(self, context: EvalContext, spec: DataSpec) -> ParticipantArrays:
        """The data of a fit or a prediction."""
        return ParticipantArrays(self, context, spec)


class ParticipantArrays(Sequence):
    """One array a participant, made anew each time that it is taken; see `DataSpec` for the shapes.

    Holds the eligible dates that the day set has, in order of date; a participant without any has an array of
    zero days (or a series without a value).
    """

    def __init__(self, source: ParticipantDays, context: EvalContext, spec: DataSpec):
        self._source, self._context, self.spec = source, context, spec

    def __len__(self) -> int:
        return len(self._context.user_ids)

    def __getitem__(self, item):
        """The array of one participant, by position. Raises IndexError outside of it."""
        context, source = self._context, self._source
        user, dates = context.user_ids[item], context.dates[item]
        indices = source.find(user, dates)
        if self.spec.granularity == "minute":
            return hourly.model_form(source.days.batch(indices))
        hours = source.hours(indices)
        if self.spec.layout == "day":
            return hourly.model_form(hours)
        assert self.spec.length is not None
        return series_window(hours.swapaxes(1, 2), source.days.dates[indices], length=self.spec.length)

    @functools.cached_property
    def dates(self) -> tuple[tuple[str, ...], ...]:
        """ISO dates of the days that each participant's array holds, in its order."""
        context, source = self._context, self._source
        pairs = zip(context.user_ids, context.dates, strict=True)
        return tuple(
            tuple(map(str, source.days.dates[source.find(user, dates)].astype("datetime64[D]")))
            for user, dates in pairs
        )

    def __repr__(self) -> str:
        return f"ParticipantArrays({len(self)} participants, {self.spec})"


def series_window(
    hours: Float[np.ndarray, "day 24 channel"], dates: Sequence[str], *, length: int
) -> Float32[np.ndarray, "length 2*channel"]:
    """The last hours of a participant on the calendar: values, NaN where missing, and flags, 1 where missing.

    Days without a recording are gaps. The series ends with the last hour in which any channel was measured, and
    is padded at the front (OpenMHC evaluation, hourly series).

    Args:
        dates: ISO date of each day, in any order, none twice.
        length: hours of the series.
    """
    n_channels = hours.shape[-1]
    out = np.full((length, 2 * n_channels), np.nan, np.float32)
    out[:, n_channels:] = 1
    if not len(dates):
        return out
    day = np.asarray(dates, dtype="datetime64[D]").astype(np.int64)
    calendar = np.full((day.max() - day.min() + 1, HOURS_PER_DAY, n_channels), np.nan, np.float32)
    calendar[day - day.min()] = hours
    line = calendar.reshape(-1, n_channels)
    measured = np.flatnonzero(~np.isnan(line).all(axis=1))
    if not len(measured):
        return out
    shown = line[: measured[-1] + 1][-length:]
    out[length - len(shown) :, :n_channels] = shown
    out[length - len(shown) :, n_channels:] = np.isnan(shown)
    return out
