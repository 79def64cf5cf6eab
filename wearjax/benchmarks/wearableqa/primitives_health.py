"""Flags, votes and states that health questions are decided by, and the most unusual stretch of a month.

That answers follow from flags, percentiles and signatures of signs is WearableQA's outline; every rule here is this
project's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.benchmarks.wearableqa import primitives
from wearjax.benchmarks.wearableqa.primitives import Array, Number, op

FAR = 2.0  # limits reached by a flag that counts
STRETCH = (3, 7)  # days
NOTABLE = 1.0  # |mean z| of a stretch from which a signal counts as moved
STANDARD_ERRORS = 2.5  # by which that mean must differ from zero too
LARGEST_Z = 5.0
GAP_DAYS = 3
GAP_SHARE = 0.6  # of the signals that are gone on a day of a gap
LEAST_SIGNALS = 6  # measured in a stretch
MISFITS = 2  # signals that may contradict the explanation that fits best
SENSOR_GAP = 8.0  # class of a stretch that says nothing because little was measured
NOT_ENOUGH = -1.0


@op("any_far")
def any_far(*flags: Number) -> Number:
    """1 where a flag is far beyond its limit, 0 where all are normal; NaN between, or where one is undefined."""
    every = primitives.stack(*flags)
    far = (every >= FAR).any(axis=1)
    normal = (every == 0).all(axis=1)
    return np.where(far, 1.0, np.where(normal, 0.0, np.nan))[:, None]


@op("at_most")
def at_most(states: Array, *, most: int) -> Array:
    """Rows of states as they are; NaN where one is undefined or more than `most` of them are 1."""
    fine = np.isfinite(states).all(axis=1) & ((states == 1).sum(axis=1) <= most)
    return np.where(fine[:, None], states, np.nan)


@op("average")
def average(*x: Number) -> Number:
    """Mean over several values; NaN where one is missing."""
    return primitives.stack(*x).mean(axis=1, keepdims=True)


@op("kept_if")
def kept_if(x: Array, *conditions: Number) -> Array:
    """The value where every condition is 1, NaN elsewhere."""
    fine = (primitives.stack(*conditions) == 1).all(axis=1)
    return np.where(fine[:, None], x, np.nan)


@op("vote")
def vote(*codes: Number) -> Number:
    """−1 where a code is 2 (unfavourable), 1 where all known ones are 0 (favourable), else 0.

    Codes are NaN where not measured or undefined; nobody votes on nothing.
    """
    every = primitives.stack(*codes)
    known = np.isfinite(every)
    bad = (every >= FAR).any(axis=1)
    good = ((every == 0) | ~known).all(axis=1) & known.any(axis=1)
    return np.where(bad, -1.0, np.where(good, 1.0, 0.0))[:, None]


@op("majority")
def majority(*votes: Number, least: int) -> Number:
    """The direction of at least so many votes (more than half of them), 0 where neither has as many."""
    every = primitives.stack(*votes)
    found = ((every == 1).sum(axis=1) >= least) * 1.0 - ((every == -1).sum(axis=1) >= least)
    return found[:, None]


@op("equal")
def equal(a: Number, b: Number) -> Number:
    """1 where both are the same number, else 0."""
    return (a == b).astype(np.float64)


@op("rest_days")
def rest_days(hours: Array, sessions: Array) -> Array:
    """Hours of exercise, 0 on days that are known to have no session."""
    return np.where(np.isnan(hours) & (sessions == 0), 0.0, hours)


@op("common_days")
def common_days(a: Array, b: Array) -> Number:
    """Days on which both were measured."""
    return (np.isfinite(a) & np.isfinite(b)).sum(axis=1, keepdims=True).astype(np.float64)


@op("joint_state")
def joint_state(common: Number, a: Number, b: Number, *, least: int) -> Float64[np.ndarray, "variant 2"]:
    """Both states, or −1 twice where too few days are common."""
    enough = common >= least
    return np.where(enough, primitives.stack(a, b), NOT_ENOUGH)


@op("unusual_stretch")
def unusual_stretch(*z: Array, sparse: Sequence[int] = ()) -> Float64[np.ndarray, "variant signs"]:
    """Where the stretch of 3 to 7 days that is the most unusual over all signals moves each of them.

    Unusual is the sum over signals of |mean z|·√days. A signal has moved where its mean is 1 or more and 2.5 or more
    standard errors away from zero.

    Args:
        z: each signal, (variant, day).
        sparse: indices of signals measured on some days only; others need half of the stretch.

    Returns:
        The sign of each signal, 0 where it has not moved, NaN where it was not measured. Then the first day of the
        stretch from 0 and its length; for each signal how far it moved, as a share of what counts as moved (the lesser
        of both demands, with its sign); and the days of the longest run on which most signals were not measured.
    """
    n = max(len(each) for each in z)
    x = np.stack([np.broadcast_to(each, (n, each.shape[1])) for each in z], axis=1)
    there = np.isfinite(x)
    gap = _gap(there, sparse)
    zero = np.zeros((*x.shape[:2], 1))
    total = np.concatenate(
        [zero, np.where(there, np.clip(x, -LARGEST_Z, LARGEST_Z), 0.0).cumsum(axis=-1)], axis=-1
    )
    count = np.concatenate([zero, there.cumsum(axis=-1)], axis=-1)
    best, signs, extent = np.full(n, -1.0), *np.full((2, n, len(z)), np.nan)
    place = np.full((n, 2), np.nan)
    needed = np.ones(len(z))
    for length in range(STRETCH[0], STRETCH[1] + 1):
        needed[[i for i in range(len(z)) if i not in sparse]] = -(-length // 2)
        days = count[..., length:] - count[..., :-length]
        known = days >= needed[:, None]
        mean = np.where(known, (total[..., length:] - total[..., :-length]) / np.maximum(days, 1), 0.0)
        strength = np.abs(mean) * np.sqrt(days)
        unusual = strength.sum(axis=1)
        first = unusual.argmax(axis=1)
        rows = np.arange(n)
        better = unusual[rows, first] > best
        moved = np.minimum(np.abs(mean) / NOTABLE, strength / STANDARD_ERRORS) * np.sign(mean)
        moved = np.where(known, moved, np.nan)[rows, :, first]
        sign = np.where(np.abs(moved) >= 1, np.sign(moved), moved * 0.0)
        signs = np.where(better[:, None], sign, signs)
        extent = np.where(better[:, None], moved, extent)
        place = np.where(better[:, None], np.stack([first, np.full(n, length)], axis=1), place)
        best = np.where(better, unusual[rows, first], best)
    return np.concatenate([signs, place, extent, gap[:, None]], axis=1)


def _gap(
    there: Bool[np.ndarray, "variant signal day"], sparse: Sequence[int]
) -> Float64[np.ndarray, " variant"]:
    dense = [i for i in range(there.shape[1]) if i not in sparse]
    gone = (~there[:, dense]).mean(axis=1) >= GAP_SHARE
    run, longest = np.zeros(len(gone)), np.zeros(len(gone))
    for day in range(gone.shape[1]):
        run = np.where(gone[:, day], run + 1, 0)
        longest = np.maximum(longest, run)
    return longest


@op("explanation")
def explanation(
    stretch: Array, *, signatures: Sequence[Sequence[float]], codes: Sequence[float]
) -> Float64[np.ndarray, "variant 3"]:
    """Which signature fits a stretch best, its matches less its contradictions, and the lead over the second.

    A signal that was not measured neither matches nor contradicts.

    Args:
        stretch: as `unusual_stretch` gives it.
        signatures: the signs of each explanation.
        codes: by which the answer names each.

    Returns:
        All NaN where more than two signals contradict the best, two fit alike, or too few were measured. Where three or
        more days in a row are not measured, the answer is a sensor gap, and nothing if two or more signals moved.
    """
    table = np.asarray(signatures, np.float64)
    signs, gap = stretch[:, : table.shape[1]], stretch[:, -1]
    known = np.isfinite(signs)
    same = (signs[:, None] == table) & known[:, None]
    score = same.sum(axis=-1) - (~same & known[:, None]).sum(axis=-1)
    found = primitives.argmax_margin(score.astype(np.float64))
    best = np.where(np.isnan(found[:, 0]), 0, found[:, 0]).astype(np.int64)
    n = known.sum(axis=1)
    fits = (n >= LEAST_SIGNALS) & (found[:, 1] >= n - 2 * MISFITS) & (found[:, 2] >= 2)
    out = np.stack([np.asarray(codes, np.float64)[best], found[:, 1], found[:, 2]], axis=1)
    out = np.where(fits[:, None], out, np.nan)
    blank = (np.abs(signs) == 1).sum(axis=1) < 2
    gone = np.where(blank, SENSOR_GAP, np.nan)[:, None] * np.array([1.0, np.nan, np.nan])
    gone[:, 1:] = 0.0
    return np.where((gap >= GAP_DAYS)[:, None], gone, out)


@op("room")
def room(level: Number, goal: Number, spread: Number, *, better: Literal[-1, 1], most: float) -> Number:
    """How far a level is from a goal in the favourable direction, in spreads; 0 beyond it, `most` at most."""
    return np.clip(better * (goal - level) / spread, 0.0, most)


@op("lever_score")
def lever_score(rho: Array, room: Number, *, helpful: Literal[-1, 1]) -> Float64[np.ndarray, "variant 4"]:
    """What a change of habit promises: its largest |ρ| with the helpful sign, times the room for it.

    Args:
        rho: with the target, by lag from 0.
        helpful: the sign of ρ with which the favourable direction of the one is that of the other.

    Returns:
        The score (0 where ρ is largest with the other sign), the lag, how far |ρ| there lies above other lags, ρ.
    """
    found = primitives.argmax_margin(np.abs(rho))
    best = np.where(np.isnan(found[:, :1]), 0, found[:, :1]).astype(np.int64)
    at = np.take_along_axis(rho, best, axis=1)
    score = np.where(np.sign(at) == helpful, np.abs(at) * room, 0.0)
    out = np.concatenate([score, found[:, :1], found[:, 2:3], at], axis=1)
    return np.where(np.isnan(found[:, :1]) | np.isnan(room), np.nan, out)


@op("best_lever")
def best_lever(*scores: Array, codes: Sequence[float]) -> Float64[np.ndarray, "variant 3"]:
    """The habit with the largest score, its lag, and by how much it leads.

    Args:
        scores: as `lever_score` gives them; NaN does not compete.
        codes: by which the answer names each.

    Returns:
        Code, lag, and the lesser of the lead in score over the second habit and of the lead in |ρ| over other lags. All
        NaN where no score is above zero.
    """
    n = max(len(each) for each in scores)
    every = np.stack([np.broadcast_to(each, (n, 4)) for each in scores], axis=1)
    found = primitives.argmax_margin(every[..., 0])
    some = found[:, 1] > 0
    best = np.where(some, found[:, 0], 0).astype(np.int64)
    _, lag, ahead, _ = every[np.arange(n), best].T
    out = np.stack([np.asarray(codes, np.float64)[best], lag, np.minimum(found[:, 2], ahead)], axis=1)
    return np.where(some[:, None], out, np.nan)
