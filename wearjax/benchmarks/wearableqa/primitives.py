"""The primitives of which every answer is computed: pure, in float64, over a leading axis of variants.

Each takes arrays (variant, n) and gives (variant, k); days that were not measured are NaN, and so is what cannot be
computed. Modules `primitives_*` add to the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float64

Array = Float64[np.ndarray, "variant n"]
Number = Float64[np.ndarray, "variant 1"]
OPS: dict[str, Callable[..., np.ndarray]] = {}
_F = TypeVar("_F", bound=Callable[..., np.ndarray])
COUNTED = 48  # days up to which counting smaller values beats sorting
TO_SIGMA = 1.4826  # of the median absolute deviation, for normal data


def op(name: str) -> Callable[[_F], _F]:
    """Registers the decorated function as a primitive. Raises ValueError where the name is taken."""

    def register(function: _F) -> _F:
        if name in OPS:
            raise ValueError(f"primitive {name!r} is defined twice")
        OPS[name] = function
        return function

    return register


def _quiet(function: Callable[..., np.ndarray], *arrays: np.ndarray, **options) -> np.ndarray:
    """Reductions over axis 1 where all-missing variants give NaN without a warning."""
    with np.errstate(all="ignore"):
        missing = np.all(np.isnan(arrays[0]), axis=1)
        safe = np.where(missing[:, None], 0.0, arrays[0])
        return np.where(missing, np.nan, function(safe, axis=1, **options))[:, None]


@op("mean")
def mean(x: Array) -> Number:
    return _quiet(np.nanmean, x)


def middle(x: Float64[np.ndarray, "... n"]) -> Float64[np.ndarray, "..."]:
    """Median of what is measured along the last axis; NaN where nothing is."""
    ordered = np.sort(x, axis=-1)  # NaN sorts last
    n = np.isfinite(x).sum(axis=-1, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(i, 0), axis=-1) for i in ((n - 1) // 2, n // 2))
    with np.errstate(invalid="ignore"):
        return np.where(n > 0, (low + high) / 2, np.nan)[..., 0]


@op("median")
def median(x: Array) -> Number:
    return middle(x)[:, None]


@op("count")
def count(x: Array) -> Number:
    """Days that were measured."""
    return np.isfinite(x).sum(axis=1, keepdims=True).astype(np.float64)


@op("mad")
def mad(x: Array) -> Number:
    """Median absolute deviation from the median."""
    return median(np.abs(x - median(x)))


@op("scale")
def scale(x: Array) -> Number:
    """Median absolute deviation as a standard deviation; NaN where it is zero, since nothing can be measured in it."""
    found = TO_SIGMA * mad(x)
    return np.where(found > 0, found, np.nan)


@op("robust_z")
def robust_z(x: Array, center: Number, spread: Number) -> Array:
    """Distance from a centre in units of a spread."""
    return (x - center) / spread


@op("difference")
def difference(a: Array, b: Array) -> Array:
    return a - b


@op("diff_of_means")
def diff_of_means(a: Array, b: Array) -> Number:
    """Mean of the first less mean of the second."""
    return mean(a) - mean(b)


@op("ratio")
def ratio(a: Array, b: Array, *, times: float = 1.0) -> Array:
    """`times` · a / b; NaN where b is zero."""
    return times * a / np.where(b == 0, np.nan, b)


@op("round_to")
def round_to(x: Array, *, step: float | np.ndarray) -> Array:
    """The nearest multiple of `step`, halves away from zero."""
    units = x / step
    return np.sign(units) * np.floor(np.abs(units) + 0.5 + 1e-9) * step  # 0.35 / 0.1 falls short of 3.5


@op("significant")
def significant(x: Array, *, digits: int = 3) -> Array:
    """Rounded to so many significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(x == 0, 0.0, np.floor(np.log10(np.abs(x))))
        step = 10.0 ** (size - digits + 1)
        rounded = round_to(x, step=step)
    return np.where(np.isnan(x), np.nan, rounded)


@op("clean")
def clean(x: Array, *, low: float, high: float, zero_is_missing: bool = False) -> Array:
    """NaN outside the closed range, and for a zero that stands for "not measured"."""
    with np.errstate(invalid="ignore"):
        kept = (x >= low) & (x <= high) & ((x != 0) | (not zero_is_missing))
    return np.where(kept, x, np.nan)


@op("constant")
def constant(*, value: float) -> Number:
    """A number that is the same for all."""
    return np.full((1, 1), value, np.float64)


@op("half")
def half(x: Array, *, which: int) -> Array:
    """The first (0) or second (1) half of the days."""
    cut = x.shape[1] // 2
    return x[:, cut:] if which else x[:, :cut]


@op("select")
def select(x: Array, *, columns: Sequence[int]) -> Array:
    """Some columns."""
    return x[:, list(columns)]


@op("stack")
def stack(*parts: Array) -> Array:
    """All columns of several values side by side."""
    n = max(len(part) for part in parts)
    return np.concatenate([np.broadcast_to(part, (n, part.shape[1])) for part in parts], axis=1)


@op("band")
def band(x: Array, *, edges: Sequence[float]) -> Array:
    """Number of edges at or below each value."""
    found = np.searchsorted(np.asarray(edges, np.float64), x, side="right").astype(np.float64)
    return np.where(np.isnan(x), np.nan, found)


@op("sign")
def sign(x: Array) -> Array:
    return np.sign(x)


@op("absolute")
def absolute(x: Array) -> Array:
    return np.abs(x)


@op("argmax_margin")
def argmax_margin(x: Array) -> Float64[np.ndarray, "variant 3"]:
    """Index of the largest column, its value, and how far it lies above the second; NaN columns do not compete."""
    known = np.where(np.isnan(x), -np.inf, x)
    order = np.argsort(-known, axis=1, kind="stable")
    best = np.take_along_axis(known, order[:, :1], axis=1)
    if x.shape[1] > 1:
        second = np.take_along_axis(known, order[:, 1:2], axis=1)
    else:
        second = np.full_like(best, -np.inf)
    with np.errstate(invalid="ignore"):
        found = np.concatenate([order[:, :1].astype(np.float64), best, best - second], axis=1)
    return np.where(np.isfinite(best), found, np.nan)


@op("all_of")
def all_of(*flags: Array) -> Number:
    """1 where no flag is zero, else 0; NaN where one is undefined."""
    every = stack(*flags)
    return np.where(np.isnan(every).any(axis=1), np.nan, (every != 0).all(axis=1))[:, None]


@op("table_lookup")
def table_lookup(*codes: Number, table: Sequence[Sequence[float]]) -> Number:
    """Last entry of the row of a table that begins with these codes; NaN where no row does."""
    found = stack(*codes)
    out = np.full((len(found), 1), np.nan)
    for row in table:
        out[(found == np.asarray(row[:-1], np.float64)).all(axis=1)] = row[-1]
    return out


@op("flag")
def flag(
    x: Array, *, limits: Sequence[float], direction: str = "up", undefined_within: float = 0.03
) -> Array:
    """How many limits a value has reached in the bad direction: with two, 0 normal, 1 borderline, 2 high.

    NaN within a share of any limit, where measurement error could turn the flag.
    """
    edges = np.asarray(limits, np.float64)
    beyond = x[..., None] >= edges if direction == "up" else x[..., None] <= edges
    near = np.abs(x[..., None] - edges) <= undefined_within * np.abs(edges)
    return np.where(np.isnan(x) | near.any(axis=-1), np.nan, beyond.sum(axis=-1))


@op("pct_of_cohort")
@op("percentile_of")
def percentile_of(x: Number, *points: Number, percents: Sequence[float]) -> Number:
    """Where a value stands between known percentiles of the cohort, interpolated; 0 and 100 beyond the ends."""
    n = max(len(x), *(len(point) for point in points))
    grid = np.concatenate([np.broadcast_to(point, (n, 1)) for point in points], axis=1)
    value = np.broadcast_to(x, (n, 1))
    found = [
        np.interp(v, g, percents) if np.isfinite(v) and np.isfinite(g).all() else np.nan
        for (v,), g in zip(value, grid, strict=True)
    ]
    return np.asarray(found)[:, None]


@op("theil_sen")
def theil_sen(x: Array) -> Number:
    """Median of the slopes between all pairs of measured days, per day."""
    first, last = np.triu_indices(x.shape[1], k=1)
    return median((x[:, last] - x[:, first]) / (last - first))


def ranks(x: Float64[np.ndarray, "... n"]) -> Float64[np.ndarray, "... n"]:
    """Ranks along the last axis, ties averaged; NaN stays NaN and takes no rank."""
    if x.shape[-1] > COUNTED:
        return _sorted_ranks(x)
    days = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    twice = np.ones(days.shape, np.int8)  # twice the rank: at most 2·COUNTED
    for day in days:
        twice += day < days
        twice += day <= days
    return np.where(np.isnan(x), np.nan, np.moveaxis(twice, 0, -1) / 2)


def _sorted_ranks(x: Float64[np.ndarray, "... n"]) -> Float64[np.ndarray, "... n"]:
    known = np.isfinite(x)
    order = np.argsort(np.where(known, x, np.inf), axis=-1, kind="stable")
    ordered = np.take_along_axis(np.where(known, x, np.inf), order, axis=-1)
    place = np.broadcast_to(np.arange(1, x.shape[-1] + 1, dtype=np.float64), x.shape)
    fresh = np.ones(x.shape, bool)
    fresh[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    low = np.maximum.accumulate(np.where(fresh, place, 0.0), axis=-1)
    closing = np.ones(x.shape, bool)
    closing[..., :-1] = fresh[..., 1:]
    high = np.minimum.accumulate(np.where(closing, place, np.inf)[..., ::-1], axis=-1)[..., ::-1]
    out = np.empty(x.shape)
    np.put_along_axis(out, order, (low + high) / 2, axis=-1)
    return np.where(known, out, np.nan)


def correlation(
    a: Float64[np.ndarray, "... n"], b: Float64[np.ndarray, "... n"], *, min_pairs: int
) -> Float64[np.ndarray, "..."]:
    """Spearman's ρ of the days on which both were measured; NaN with too few of them or without variation."""
    both = np.isfinite(a) & np.isfinite(b)
    n = both.sum(axis=-1)
    x, y = (_centred_ranks(v, both) for v in (a, b))
    product, across, down = (np.einsum("...d,...d->...", p, q) for p, q in ((x, y), (x, x), (y, y)))
    spread = np.sqrt(across * down)
    usable = (n >= min_pairs) & (spread > 0)
    return np.where(usable, product / np.where(spread > 0, spread, 1.0), np.nan)


def _centred_ranks(
    x: Float64[np.ndarray, "... n"], kept: Bool[np.ndarray, "... n"]
) -> Float64[np.ndarray, "... n"]:
    """Twice the ranks among the kept days less their mean, ties averaged; 0 on other days."""
    if x.shape[-1] > COUNTED:
        found = ranks(np.where(kept, x, np.nan))
        return np.where(kept, 2 * found - (kept.sum(axis=-1, keepdims=True) + 1), 0.0)
    x = x.reshape((1,) * (kept.ndim - x.ndim) + x.shape)
    days, there = np.ascontiguousarray(np.moveaxis(x, -1, 0)), np.moveaxis(kept, -1, 0)
    place = np.zeros(days.shape, np.int8)  # in the series' own order; bytes compare fastest
    for day in days:
        place += day < days
    place = np.where(there, place, np.int8(COUNTED))
    twice = np.zeros(place.shape, np.int8)
    for day in place:
        twice += day < place
        twice -= day > place
    twice += (~there).sum(axis=0, dtype=np.int8)  # each of them counted as a larger one
    return np.moveaxis(np.where(there, twice, np.int8(0)), 0, -1).astype(np.float64)


@op("spearman")
def spearman(a: Array, b: Array, *, min_pairs: int = 8) -> Number:
    """Rank correlation of two series on their common days."""
    return correlation(a, b, min_pairs=min_pairs)[:, None]


@op("lagged_spearman")
def lagged_spearman(a: Array, *shifted: Array, min_pairs: int = 8) -> Array:
    """Rank correlation of a series with each of several others of equal length: the same metric at other lags."""
    n = max(len(a), *(len(each) for each in shifted))
    others = np.stack([np.broadcast_to(each, (n, a.shape[1])) for each in shifted], axis=1)
    return correlation(np.broadcast_to(a, (n, a.shape[1]))[:, None], others, min_pairs=min_pairs)
