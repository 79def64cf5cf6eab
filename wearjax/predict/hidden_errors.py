"""How far an imputer is off on a person's own days: measured minutes are hidden, filled, and compared.

The spread of these errors, by channel and by the length of the gap a minute lies in, is the interval that the page
of a person's days draws around filled minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float64, Int64

from wearjax import npz, writing
from wearjax.channels import CHANNELS, DEVICE_GROUPS, MINUTES_PER_DAY, N_CHANNELS, SLEEP
from wearjax.days.store import Days
from wearjax.errors import MethodError, StoreError
from wearjax.predict import fill
from wearjax.predict.protocols import Imputer
from wearjax.segments import gaps

# Length of gaps in a copy of a day, and how many there are: short ones lie between readings minutes apart.
HIDDEN = ((3, 24), (10, 12), (40, 6), (150, 2), (600, 1), (MINUTES_PER_DAY, 1))
LONGEST_MINUTES = (15, 60, 240, MINUTES_PER_DAY - 1, MINUTES_PER_DAY)  # upper ends of the classes of gaps
GROUPS = (*DEVICE_GROUPS.values(), tuple(SLEEP))  # what falls out together
SHARE = 0.9  # of hidden minutes inside the interval
DAYS_MAX, CANDIDATES_MAX = 24, 200
MINUTES_LEAST, DAYS_LEAST = 200, 3  # that an interval needs


@dataclass(frozen=True, eq=False)
class HiddenErrors:
    """Errors (filled less measured) by channel and class of gap, in stored units; NaN where too few were compared.

    Attributes:
        low, high: quantiles between which `SHARE` of the errors lie. For flags NaN.
        median_absolute: of quantities; half the hidden minutes were closer.
        inside: share of minutes within the interval made from the other half of the days.
        agreement: of flags, the share of minutes filled rightly.
        minutes, days: how much was compared.
    """

    low: Float64[np.ndarray, "channel=19 gap=5"]
    high: Float64[np.ndarray, "channel=19 gap=5"]
    median_absolute: Float64[np.ndarray, "channel=19 gap=5"]
    inside: Float64[np.ndarray, "channel=19 gap=5"]
    agreement: Float64[np.ndarray, "channel=19 gap=5"]
    minutes: Int64[np.ndarray, "channel=19 gap=5"]
    days: Int64[np.ndarray, "channel=19 gap=5"]


def gap_class(lengths: Int64[np.ndarray, "*shape"]) -> Int64[np.ndarray, "*shape"]:
    """Class of a gap by its length in minutes."""
    return np.searchsorted(LONGEST_MINUTES, lengths)


class _HiddenDays(Days):
    """Copies of days, each with gaps of one length in every group of channels."""

    def __init__(self, days: Days, chosen: np.ndarray, *, seed: int):
        self._days, self._seed = days, seed
        self.place = np.repeat(np.arange(len(chosen)), len(HIDDEN))
        self.index = np.asarray(chosen)[self.place]
        self.path = days.path
        self.participants, self.dates = days.participants[self.index], days.dates[self.index]
        self.nonwear_minutes, self.variance = days.nonwear_minutes[self.index], days.variance[self.index]

    def hidden(self, index: int) -> Bool[np.ndarray, "channel=19 minute=1440"]:
        """The cells that are hidden, measured or not."""
        rng = np.random.default_rng((self._seed, index))
        length, count = HIDDEN[index % len(HIDDEN)]
        mask = np.zeros((N_CHANNELS, MINUTES_PER_DAY), bool)
        room = MINUTES_PER_DAY // count  # a gap in each stretch of the day
        for group in GROUPS:
            for start in np.arange(count) * room + rng.integers(0, room - length + 1, count):
                mask[list(group), start : start + length] = True
        return mask

    def truth(self, index: int) -> np.ndarray:
        return self._days.values(int(self.index[index]))

    def values(self, index: int) -> np.ndarray:
        values = self.truth(index)
        values[self.hidden(index)] = np.nan
        return values

    def source(self, index: int) -> str:
        return self._days.source(int(self.index[index]))


def measure(
    imputer: Imputer,
    days: Days,
    *,
    n_days: int = DAYS_MAX,
    seed: int = 42,
    batch_size: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> HiddenErrors:
    """Hides gaps in up to `n_days` days with most measured, spread over the set, and compares what fills them.

    Args:
        progress: called with (copies of days filled, copies in total).

    Raises:
        MethodError: the imputer broke its contract, or answered with values that are not finite.
    """
    chosen = _most_measured(days, n_days)
    hidden = _HiddenDays(days, chosen, seed=seed)
    found: list[tuple[np.ndarray, ...]] = []
    for done, filled in enumerate(fill.filled_days(imputer, hidden, batch_size=batch_size), start=1):
        truth = hidden.truth(filled.index)
        compared = hidden.hidden(filled.index) & ~np.isnan(truth)
        channel, minute = np.nonzero(compared)
        error = filled.values[channel, minute].astype(np.float64) - truth[channel, minute]
        if not np.isfinite(error).all():
            raise MethodError(
                f"{type(imputer).__name__}: filled a hidden minute with a value that is not finite"
            )
        gap = gap_class(gaps.run_lengths(filled.missing))[channel, minute]
        found.append((channel, gap, np.full(len(error), hidden.place[filled.index]), error))
        if progress:
            progress(done, len(hidden))
    columns = [np.concatenate(part) for part in zip(*found, strict=True)] if found else [np.zeros(0)] * 4
    return summarize(*columns)


def _most_measured(days: Days, n_days: int) -> np.ndarray:
    candidates = np.unique(np.linspace(0, len(days) - 1, min(len(days), CANDIDATES_MAX)).astype(int))
    watched = [c for group in GROUPS for c in group]
    measured = np.array([np.isfinite(days.values(int(i))[watched]).sum() for i in candidates])
    candidates = candidates[measured > 0]
    best = np.argsort(-measured[measured > 0], kind="stable")[:n_days]
    return np.sort(candidates[best])


def summarize(
    channel: Int64[np.ndarray, "cell"],
    gap: Int64[np.ndarray, "cell"],
    day: Int64[np.ndarray, "cell"],
    error: Float64[np.ndarray, "cell"],
) -> HiddenErrors:
    """Quantiles of errors by channel and class of gap; `day` numbers the days that cells are from."""
    shape = (N_CHANNELS, len(LONGEST_MINUTES))
    out = {f.name: np.full(shape, np.nan) for f in fields(HiddenErrors)}
    out["minutes"], out["days"] = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for c, g in np.ndindex(*shape):
        mine = (channel == c) & (gap == g)
        n, of_days = int(mine.sum()), np.unique(day[mine])
        out["minutes"][c, g], out["days"][c, g] = n, len(of_days)
        if n < MINUTES_LEAST or len(of_days) < DAYS_LEAST:
            continue
        if not CHANNELS[c].is_continuous:
            out["agreement"][c, g] = np.mean(error[mine] == 0)
            continue
        out["low"][c, g], out["high"][c, g] = _interval(error[mine])
        out["median_absolute"][c, g] = np.median(np.abs(error[mine]))
        first = np.isin(day[mine], of_days[::2])
        out["inside"][c, g] = np.mean([_inside(error[mine], first), _inside(error[mine], ~first)])
    return HiddenErrors(**out)


def _interval(errors: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(errors, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)


def _inside(errors: np.ndarray, taught: np.ndarray) -> float:
    """Share of the other errors in the interval of those that taught it."""
    low, high = _interval(errors[taught])
    return float(np.mean((errors[~taught] >= low) & (errors[~taught] <= high)))


def save(errors: HiddenErrors, path: str | os.PathLike) -> None:
    """Writes arrays only, so that they open without pickle."""
    with writing.file(path) as partial:
        np.savez_compressed(partial, **{f.name: getattr(errors, f.name) for f in fields(errors)})


def load(path: str | os.PathLike) -> HiddenErrors:
    """Reads what `save` wrote. Raises StoreError where it is not that."""
    try:
        archive = npz.load(path)
        arrays = {f.name: archive[f.name] for f in fields(HiddenErrors)}
    except FileNotFoundError:
        raise StoreError(f"{path}: the errors on hidden minutes are missing") from None
    except Exception as error:  # numpy and zipfile raise many kinds on damaged files
        raise StoreError(
            f"{path}: not readable as errors on hidden minutes ({type(error).__name__})"
        ) from None
    if any(a.shape != (N_CHANNELS, len(LONGEST_MINUTES)) for a in arrays.values()):
        raise StoreError(
            f"{path}: errors on hidden minutes must have shape {(N_CHANNELS, len(LONGEST_MINUTES))}"
        )
    return HiddenErrors(**arrays)
