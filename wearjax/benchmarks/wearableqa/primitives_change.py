"""How a metric changes: against its usual level, as other metrics predict it, and as its own past announces it.

WearableQA asks for predictions of hidden and of future signals; classes, bands and the rules by which a prediction
counts as possible are this project's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.benchmarks.wearableqa import primitives
from wearjax.benchmarks.wearableqa.primitives import Array, Number, op

BANDS = (0.4, 0.8, 1.3)  # of a change in spreads: small, medium, large; below the first there is none
SAME, SAME_HALF = 0.2, 0.4  # a month without change, and each of its halves
STEADY_HALF = 0.25  # both halves from here: the change holds all month
ONE_HALF = 0.8  # a change that one half shows alone
PENALTY = 0.02  # of the ridge, per day and standardised metric
FOLDS = 5
LEAST_DAYS = 56  # to learn from
MONTH, STEP = 28, 14
LEAST_FORTNIGHT = 8  # measured days
NEXT_BANDS = (0.5, 1.0, 1.5)  # of a change of the next month, in daily spreads
NEXT_HALF = 0.3  # both halves of it from here
NEXT_SAME, NEXT_CALM = 0.4, 0.5  # no change of it, and of a half
NEXT_EVENT, NEXT_TURN, NEXT_REST = (
    1.2,
    1.0,
    0.8,
)  # a half that stands out alone: it, its lead, and the other half
RAISED = 0.5  # daily spreads from which a fortnight is low or high
USUAL = 4.0  # pattern of a month with two usual halves
KINDS = (0.0, 3.0, 6.0, 7.0, 8.0, 9.0, 10.0)  # outcomes without sizes


@op("month_change")
def month_change(x: Array, level: Number, spread: Number) -> Float64[np.ndarray, "variant 4"]:
    """How a month differs from a level, as one of ten classes.

    0–2 higher all month (small, medium, large), 3–5 lower, 6 unchanged, 7 and 8 higher and lower in the second half
    only, 9 higher in the first half only.

    Returns:
        The class, NaN where none fits; the change of the month, of its first and of its second half, in spreads.
    """
    cut = x.shape[1] // 2
    parts = [x, x[:, :cut], x[:, cut:]]
    change = np.concatenate([(primitives.median(part) - level) / spread for part in parts], axis=1)
    whole, first, second = change.T
    with np.errstate(invalid="ignore"):
        steady = (np.sign(first) == np.sign(whole)) & (np.sign(second) == np.sign(whole))
        steady &= (np.minimum(np.abs(first), np.abs(second)) >= STEADY_HALF) & (np.abs(whole) >= BANDS[0])
        unchanged = (np.abs(whole) <= SAME) & (np.maximum(np.abs(first), np.abs(second)) <= SAME_HALF)
        calm, settled = np.abs(first) < STEADY_HALF, np.abs(second) < STEADY_HALF
        kinds: list[tuple[np.ndarray, Any]] = [
            (steady, _banded(whole, BANDS)),
            (unchanged, np.full(len(x), 6.0)),
            (calm & (second >= ONE_HALF), np.full(len(x), 7.0)),
            (calm & (second <= -ONE_HALF), np.full(len(x), 8.0)),
            (settled & (first >= ONE_HALF), np.full(len(x), 9.0)),
        ]
    found = np.full(len(x), np.nan)
    for there, code in kinds:
        found = np.where(there, code, found)
    return np.concatenate([found[:, None], change], axis=1)


def _banded(change: Float64[np.ndarray, "..."], bands: Sequence[float]) -> Float64[np.ndarray, "..."]:
    """0 to 2 upwards, 3 to 5 downwards; changes below the first band count as small."""
    size = np.searchsorted(bands[1:], np.abs(change), side="right").astype(np.float64)
    return size + np.where(change > 0, 0.0, 3.0)


@op("ridge_prediction")
def ridge_prediction(target: Array, *signals: Array) -> Float64[np.ndarray, "variant day+1"]:
    """A metric as a ridge regression on others of the same day predicts it, learned on earlier days.

    Args:
        target: earlier days of the metric.
        signals: each other metric on the earlier days, then each on the days to predict.

    Returns:
        R² on blocks of earlier days that were left out, then the prediction of each day. NaN with too few days.
    """
    k = len(signals) // 2
    past, now = signals[:k], signals[k:]
    n = max(len(each) for each in (target, *signals))
    starts = _distinct((target, *past), n)
    out = np.full((n, 1 + now[0].shape[1]), np.nan)
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        y = target[min(start, len(target) - 1)]
        x = np.stack([each[min(start, len(each) - 1)] for each in past], axis=1)
        later = np.stack([np.broadcast_to(each, (n, each.shape[1]))[start:stop] for each in now], axis=-1)
        out[start:stop] = _ridge(y, x, later)
    return out


def _distinct(arrays: Sequence[Array], n: int) -> list[int]:
    """Where rows differ from the row before, in any of several arrays."""
    changed = np.zeros(n, bool)
    changed[0] = True
    for each in arrays:
        if len(each) == n and n > 1:
            bits = np.ascontiguousarray(each).view(np.int64)
            changed[1:] |= (bits[1:] != bits[:-1]).any(axis=1)
    return np.flatnonzero(changed).tolist()


def _ridge(
    y: Float64[np.ndarray, " past"],
    x: Float64[np.ndarray, "past signal"],
    later: Float64[np.ndarray, "v day signal"],
) -> Float64[np.ndarray, "v day+1"]:
    out = np.full((later.shape[0], later.shape[1] + 1), np.nan)
    usable = (
        np.isfinite(x[np.isfinite(y)]).mean(axis=0) >= 0.5
        if np.isfinite(y).any()
        else np.zeros(x.shape[1], bool)
    )
    if not usable.any():
        return out
    x, later = x[:, usable], later[..., usable]
    kept = np.isfinite(y) & (np.isfinite(x).mean(axis=1) >= 0.5)
    if kept.sum() < LEAST_DAYS:
        return out
    y, x = y[kept], x[kept]
    centre, spread = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    design = np.nan_to_num((x - centre) / spread)
    level = y.mean()
    rest = y - level
    edges = np.linspace(0, len(y), FOLDS + 1).astype(int)
    blocks = [slice(a, b) for a, b in itertools.pairwise(edges)]
    grams = np.stack([design[b].T @ design[b] for b in blocks])
    moments = np.stack([design[b].T @ rest[b] for b in blocks])
    days = np.diff(edges)
    eye = np.eye(design.shape[1])
    lost = 0.0
    for i, block in enumerate(blocks):
        weights = np.linalg.solve(
            grams.sum(axis=0) - grams[i] + PENALTY * (len(y) - days[i]) * eye,
            moments.sum(axis=0) - moments[i],
        )
        lost += float(((rest[block] - design[block] @ weights) ** 2).sum())
    total = float((rest**2).sum())
    weights = np.linalg.solve(grams.sum(axis=0) + PENALTY * len(y) * eye, moments.sum(axis=0))
    known = np.isfinite(later).any(axis=-1)
    predicted = level + np.nan_to_num((later - centre) / spread) @ weights
    out[:, 0] = 1 - lost / total if total > 0 else np.nan
    out[:, 1:] = np.where(known, predicted, np.nan)
    return out


@op("daily_spread")
def daily_spread(x: Array) -> Number:
    """Usual movement from day to day, which shifts of level leave alone: robust spread of the differences over √2."""
    change = np.diff(x, axis=1)
    found = primitives.TO_SIGMA * primitives.middle(np.abs(change))[:, None] / np.sqrt(2)
    return np.where(found > 0, found, np.nan)


@op("next_month")
def next_month(
    before: Array, after: Array, spread: Number, *, bad: Literal[-1, 1]
) -> Float64[np.ndarray, "variant 2"]:
    """What the month after does against the latest fortnight: one of eleven classes, and the change in spreads.

    0 to 2 higher in both halves (slightly, clearly, far), 3 to 5 lower, 6 the same, 7 and 8 a bad first and a bad
    second half only, 9 and 10 a good second and a good first half only.
    """
    return np.stack(outcome(before[:, -STEP:], after, spread[:, 0], bad=bad), axis=1)


def outcome(
    latest: Float64[np.ndarray, "... day"],
    after: Float64[np.ndarray, "... day"],
    spread: Float64[np.ndarray, "..."],
    *,
    bad: float,
) -> tuple[Float64[np.ndarray, "..."], Float64[np.ndarray, "..."]]:
    """Class and change of `next_month`, with any leading axes."""
    whole, first, second = _changes(latest, after, spread)
    measured = (np.isfinite(part).sum(axis=-1) for part in (latest, after[..., :STEP], after[..., STEP:]))
    enough = functools.reduce(np.minimum, measured) >= LEAST_FORTNIGHT
    with np.errstate(invalid="ignore"):
        turned = (np.abs(second - first) >= NEXT_TURN) & (_rest(first, second) < NEXT_REST)
        agree = (np.sign(first) == np.sign(whole)) & (np.sign(second) == np.sign(whole)) & ~turned
        agree &= _rest(first, second) >= NEXT_HALF
        steady = agree & (np.abs(whole) >= NEXT_BANDS[0])
        same = (np.abs(whole) <= NEXT_SAME) & (np.maximum(np.abs(first), np.abs(second)) <= NEXT_CALM)
        kinds: list[tuple[np.ndarray, Any]] = [
            (steady, _banded(whole, NEXT_BANDS)),
            (same & ~turned, 6.0),
            (turned & (bad * first >= NEXT_EVENT), 7.0),
            (turned & (bad * second >= NEXT_EVENT), 8.0),
            (turned & (-bad * second >= NEXT_EVENT), 9.0),
            (turned & (-bad * first >= NEXT_EVENT), 10.0),
        ]
        found = np.full(whole.shape, np.nan)
        for there, code in kinds:
            found = np.where(there & np.isnan(found), code, found)
    return np.where(enough, found, np.nan), whole


def _changes(
    latest: Float64[np.ndarray, "... day"],
    after: Float64[np.ndarray, "... day"],
    spread: Float64[np.ndarray, "..."],
) -> tuple[Float64[np.ndarray, "..."], ...]:
    """Of the month, of its first and of its second half."""
    level = primitives.middle(latest)
    parts = (after, after[..., :STEP], after[..., STEP:])
    whole, first, second = ((primitives.middle(part) - level) / spread for part in parts)
    return whole, first, second


def _rest(first: Float64[np.ndarray, "..."], second: Float64[np.ndarray, "..."]) -> np.ndarray:
    """The change of the half that changed less, without its sign."""
    return np.minimum(np.abs(first), np.abs(second))


@op("next_halves")
def next_halves(before: Array, after: Array, spread: Number) -> Float64[np.ndarray, "variant 3"]:
    """On what the classes of `next_month` turn besides the month's change.

    Returns:
        The change of the first and of the second half, in spreads. Then how clearly one half stands out alone: the
        lesser of what the halves differ beyond the least and of what the calmer one stays within its limit, each as a
        share of its band from one sign to the other. Zero or more: it does.
    """
    _, first, second = _changes(before[:, -STEP:], after, spread[:, 0])
    apart = (np.abs(second - first) - NEXT_TURN) / (2 * NEXT_TURN)
    calm = (NEXT_REST - _rest(first, second)) / (2 * NEXT_REST)
    return np.stack([first, second, np.minimum(apart, calm)], axis=1)


@op("month_pattern")
def month_pattern(x: Array, spread: Number) -> Float64[np.ndarray, "variant 3"]:
    """Whether each half of the last month is low, usual or high for the whole series.

    Returns:
        3·(first + 1) + second + 1, with −1, 0 or 1 each; then by how many spreads each half differs from the median of
        the series.
    """
    usual = primitives.median(x)
    halves = (x[:, -MONTH:-STEP], x[:, -STEP:])
    distance = np.concatenate([(primitives.median(half) - usual) / spread for half in halves], axis=1)
    return np.concatenate([_pattern(_state(distance)), distance], axis=1)


def _state(distance: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        found = np.where(np.abs(distance) >= RAISED, np.sign(distance), 0.0)
    return np.where(np.isnan(distance), np.nan, found)


def _pattern(states: Float64[np.ndarray, "... 2"]) -> Float64[np.ndarray, "... 1"]:
    return 3 * (states[..., :1] + 1) + states[..., 1:] + 1


@op("announced")
def announced(
    sign: Array, target: Array, sign_spread: Number, target_spread: Number, *, bad: Literal[-1, 1]
) -> Float64[np.ndarray, "variant 3"]:
    """What followed in the past when one metric's month had the pattern that it has now.

    Looks at months that end every 14 days back from the end; of those of the present pattern, the latest first, as long
    as they do not overlap.

    Args:
        sign: the metric that may announce, up to the end date.
        target: the metric that may follow.

    Returns:
        Number of such months, the share of them with the most frequent outcome (higher and lower of any size), and that
        outcome (of `next_month`; its size from the median change). All NaN where both halves are usual.
    """
    n = max(len(each) for each in (sign, target, sign_spread, target_spread))
    sign, target, sign_spread, target_spread = (
        np.broadcast_to(each, (n, each.shape[1])) for each in (sign, target, sign_spread, target_spread)
    )
    patterns = month_patterns(sign, sign_spread[:, 0])
    return counted(patterns, *past_outcomes(target, target_spread[:, 0], bad=bad))


def month_ends(n: int) -> Int64[np.ndarray, " month"]:
    """Last days of the months of a series, every 14 days, the latest first."""
    return np.arange(n - 1, MONTH - 2, -STEP)


def month_patterns(
    x: Float64[np.ndarray, "v day"], spread: Float64[np.ndarray, " v"]
) -> Float64[np.ndarray, "v month"]:
    """Pattern of each month against the whole series."""
    halves = x[:, month_ends(x.shape[1])[:, None, None] + np.array([[-STEP], [0]]) + np.arange(1 - STEP, 1)]
    level = primitives.middle(halves)
    level = np.where(np.isfinite(halves).sum(axis=-1) >= LEAST_FORTNIGHT, level, np.nan)
    return _pattern(_state((level - primitives.median(x)[..., None]) / spread[:, None, None]))[..., 0]


def past_outcomes(
    x: Float64[np.ndarray, "v day"], spread: Float64[np.ndarray, " v"], *, bad: float
) -> tuple[Float64[np.ndarray, "v month"], Float64[np.ndarray, "v month"]]:
    """Class and change of what followed each month; NaN where that is not over yet."""
    ends = month_ends(x.shape[1])
    over = ends + MONTH < x.shape[1]
    found, change = np.full((2, len(x), len(ends)), np.nan)
    if over.any():
        latest = x[:, ends[over][:, None] + np.arange(1 - STEP, 1)]
        after = x[:, ends[over][:, None] + np.arange(1, MONTH + 1)]
        wide = np.broadcast_to(spread[:, None], latest.shape[:-1])
        found[:, over], change[:, over] = outcome(latest, after, wide, bad=bad)
    return found, change


def counted(
    patterns: Float64[np.ndarray, "v month"],
    outcomes: Float64[np.ndarray, "v month"],
    changes: Float64[np.ndarray, "v month"],
) -> Float64[np.ndarray, "v 3"]:
    """Number, share and class of what followed earlier months of the latest one's pattern."""
    now = patterns[:, :1]
    alike = (patterns == now) & np.isfinite(outcomes) & (now != USUAL)
    wait = np.zeros(len(patterns), int)
    taken = np.zeros_like(alike)
    for month in range(patterns.shape[1]):
        taken[:, month] = alike[:, month] & (wait <= 0)
        wait = np.where(taken[:, month], MONTH // STEP - 1, wait - 1)
    kind = np.where(outcomes < 3, 0.0, np.where(outcomes < 6, 3.0, outcomes))
    tally = np.stack([(taken & (kind == code)).sum(axis=1) for code in KINDS], axis=1)
    number, best = tally.sum(axis=1), np.asarray(KINDS)[tally.argmax(axis=1)]
    share = tally.max(axis=1) / np.maximum(number, 1)
    typical = primitives.middle(np.where(taken & (kind == best[:, None]), changes, np.nan))
    code = np.where(best <= 3, _banded(typical, NEXT_BANDS), best)
    out = np.stack([number, share, code], axis=1)
    return np.where((now == USUAL) | np.isnan(now), np.nan, out)


@op("foreseen")
def foreseen(actual: Array, expected: Array, *, least: int, share: float) -> Number:
    """The outcome where enough of the past announced it, else NaN.

    Args:
        actual: as `next_month` gives it.
        expected: as `announced` gives it.
    """
    found = actual[:, :1]
    with np.errstate(invalid="ignore"):
        fine = (expected[:, :1] >= least) & (expected[:, 1:2] >= share - 1e-9) & (expected[:, 2:3] == found)
    return np.where(fine, found, np.nan)


@op("predicted")
def predicted(actual: Array, expected: Array, fit: Number, *, least: float) -> Number:
    """The class where the prediction is of the same class and its fit is good enough, else NaN.

    Args:
        actual, expected: as `month_change` gives them.
        fit: R².
    """
    with np.errstate(invalid="ignore"):
        fine = (actual[:, :1] == expected[:, :1]) & (fit >= least)
    return np.where(fine, actual[:, :1], np.nan)
