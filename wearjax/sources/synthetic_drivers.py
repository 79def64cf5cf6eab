"""What moves the vitals of an invented surgery: depth of anaesthesia, drugs, stimuli, settings, and responses.

A driver is a signal of about unit variance with jumps that its own past does not announce. A response follows a
driver after a dead time and a first-order lag; whoever sees the driver therefore knows the response ahead of time,
and whoever sees the response only does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

# A driver's levels last this long on average, minutes.
LEVEL_MINUTES = 9.0
INDUCTION_MINUTES, EMERGENCE_MINUTES = (2.0, 12.0), (3.0, 14.0)


@dataclass(frozen=True)
class Response:
    """How a target follows a driver.

    Attributes:
        driver: its name.
        gain: standard deviations of the target per unit of the driver.
        delay: dead time, minutes.
        lag: time constant, minutes.
    """

    driver: str
    gain: float
    delay: float
    lag: float = 1.0


def levels(rng: np.random.Generator, n: int, step_minutes: float) -> Float64[np.ndarray, " row"]:
    """A driver that keeps a level for exponentially distributed times, then jumps to an unrelated one."""
    jumps = rng.random(n) < step_minutes / LEVEL_MINUTES
    jumps[0] = True
    values = rng.standard_normal(int(jumps.sum()))
    return values[np.cumsum(jumps) - 1]


def depth(rng: np.random.Generator, n: int, step_minutes: float) -> Float64[np.ndarray, " row"]:
    """0 awake, 1 anaesthetised: induction within the first minutes, emergence within the last."""
    minute = np.arange(n) * step_minutes
    asleep = minute >= rng.uniform(*INDUCTION_MINUTES)
    awake_again = minute >= n * step_minutes - rng.uniform(*EMERGENCE_MINUTES)
    return lagged((asleep & ~awake_again).astype(np.float64), step_minutes, lag=1.0)


def lightening(rng: np.random.Generator, n: int, step_minutes: float) -> Float64[np.ndarray, " row"]:
    """Like `depth`, but the two waking stretches lie anywhere: no clock and no other column announces them."""
    minute = np.arange(n) * step_minutes
    awake = np.zeros(n, bool)
    for shortest, longest in (INDUCTION_MINUTES, EMERGENCE_MINUTES):
        begin, length = rng.uniform(0, n * step_minutes), rng.uniform(shortest, longest)
        awake |= (minute >= begin) & (minute < begin + length)
    return lagged((~awake).astype(np.float64), step_minutes, lag=1.0)


def boluses(
    rng: np.random.Generator, n: int, step_minutes: float, *, every: float
) -> Float64[np.ndarray, " row"]:
    """Relative size of the dose in each row, mostly 0: one in `every` minutes on average, at least one."""
    given = rng.random(n) < step_minutes / every
    given[int(rng.integers(0, n))] = True
    return np.where(given, rng.choice([0.5, 1.0, 1.0, 1.5, 2.0], n), 0.0)


def effect(
    doses: Float64[np.ndarray, " row"], step_minutes: float, *, lasting: float
) -> Float64[np.ndarray, " row"]:
    """Effect of the doses: each adds its size at once and wears off with the time constant `lasting`."""
    return _decaying_sum(doses, np.exp(-step_minutes / lasting))


def lagged(
    values: Float64[np.ndarray, " row"], step_minutes: float, *, delay: float = 0.0, lag: float = 0.0
) -> Float64[np.ndarray, " row"]:
    """Delays a signal and passes it through a first-order lag; before its start it had its first value."""
    shift = round(delay / step_minutes)
    if shift:
        values = np.concatenate([np.full(min(shift, len(values)), values[0]), values[:-shift]])
    if lag <= 0:
        return values
    keep = np.exp(-step_minutes / lag)
    inputs = (1 - keep) * values
    inputs[0] = values[0]
    return _decaying_sum(inputs, keep)


def drift(
    rng: np.random.Generator, n: int, step_minutes: float, *, memory: float
) -> Float64[np.ndarray, " row"]:
    """Slow wandering of unit variance with the given memory in minutes (first-order autoregression)."""
    keep = np.exp(-step_minutes / memory)
    shocks = rng.standard_normal(n) * np.sqrt(1 - keep**2)
    shocks[0] = rng.standard_normal()
    return _decaying_sum(shocks, keep)


def _decaying_sum(values: np.ndarray, keep: float) -> np.ndarray:
    """`y[t] = values[t] + keep · y[t - 1]`."""
    from scipy import signal

    return signal.lfilter([1.0], [1.0, -keep], values)
