"""Shapes of a month: ten templates fitted by least squares on the measured days, and the largest shift of level.

Classes, penalties and the days on which a shape may turn are this project's; that a trend question asks for one of ten
shapes is WearableQA's.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from wearjax.benchmarks.wearableqa import primitives
from wearjax.benchmarks.wearableqa.primitives import Array, op

SHAPES = (
    "flat",
    "steady_rise",
    "steady_fall",
    "peak",
    "trough",
    "step_up",
    "step_down",
    "rise_then_plateau",
    "fall_then_plateau",
    "weekly",
)
PARAMETERS = (1, 2, 2, 4, 4, 3, 3, 3, 3, 3)  # free numbers of each, the turning day among them
TURNS = range(7, 21)  # index of the day on which a shape turns: days 8 to 21
FLAT_BELOW = 0.4  # range of a fit, in units of the series, that counts as no movement
MOVES_FROM = 1.0  # and from which it is one; between them the shape is undefined
MIN_DAYS = 16
LEAST_ERROR = 1e-6  # mean squared error below which fits are equally perfect
BREAKS = range(5, 22)  # index of the first day after a shift: days 6 to 22
APART = 4  # days from which another break is another event
MIN_SIDE = 4  # measured days on each side of a break


@op("rolling_median")
def rolling_median(x: Array, *, width: int = 3, least: int = 2) -> Array:
    """Median of the days around each day, of `least` measured ones or more; the ends have fewer neighbours."""
    reach = width // 2
    padded = np.pad(x, ((0, 0), (reach, reach)), constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
    enough = np.isfinite(around).sum(axis=-1) >= least
    return np.where(enough, primitives.middle(around), np.nan)


@op("shape_class")
def shape_class(z: Array) -> Float64[np.ndarray, "variant 3"]:
    """Which template fits best, its lead over the best fit of another class, and the range of its fit.

    The score is n·log(RSS/n) + k·log n, the least wins. A template whose fit ranges over less than 0.4 claims nothing
    but a flat month, whatever its form, and competes as one.

    Args:
        z: (variant, 28) in units of the person's usual spread.

    Returns:
        Index into `SHAPES`, lead in score, range in units of z. All NaN with fewer than 16 days, or where the best fit
        ranges over 0.4 to 1.
    """
    there = np.isfinite(z)
    n = there.sum(axis=1).astype(np.float64)
    enough = n >= MIN_DAYS
    error, reach = _fits(np.where(there, z, 0.0), there.astype(np.float64), np.maximum(n, 1.0))
    size = np.maximum(n, 1.0)[:, None]
    score = size * np.log(np.maximum(error / size, LEAST_ERROR)) + np.asarray(PARAMETERS) * np.log(size)
    moving = reach >= FLAT_BELOW
    moving[:, 0] = False
    flat = np.where(moving, np.inf, score).min(axis=1)
    score = np.where(moving, score, np.inf)
    score[:, 0] = flat
    best, second = (np.sort(score, axis=1)[:, i] for i in (0, 1))
    winner = score.argmin(axis=1)
    spans = np.where(winner == 0, 0.0, np.take_along_axis(reach, winner[:, None], axis=1)[:, 0])
    defined = enough & ((winner == 0) | (spans >= MOVES_FROM))
    return np.where(defined[:, None], np.stack([winner, second - best, spans], axis=1), np.nan)


@op("changepoint")
def changepoint(z: Array) -> Float64[np.ndarray, "variant 3"]:
    """The largest shift between the medians before and after a day.

    Args:
        z: (variant, day) in units of the person's usual spread.

    Returns:
        The first day after the shift (1 is the first day of the series), the shift with its sign, and how much larger
        it is than the largest one four or more days away. All NaN where no break has four measured days on each side.
    """
    days = np.arange(z.shape[1])
    after = days >= np.asarray(BREAKS)[:, None]  # break, day
    parts = [np.where(side, z[:, None], np.nan) for side in (~after, after)]
    usable = np.all([np.isfinite(part).sum(axis=-1) >= MIN_SIDE for part in parts], axis=0)
    shift = primitives.middle(parts[1]) - primitives.middle(parts[0])
    size = np.where(usable, np.abs(shift), -1.0)
    best = size.argmax(axis=1)[:, None]
    away = np.abs(np.arange(len(BREAKS)) - best) >= APART
    other = np.where(away, size, -1.0).max(axis=1, keepdims=True)
    most = np.take_along_axis(size, best, axis=1)
    found = [best + BREAKS[0] + 1.0, np.take_along_axis(shift, best, axis=1), most - np.maximum(other, 0.0)]
    return np.where(most >= 0, np.concatenate(found, axis=1), np.nan)


def _fits(y: Array, there: Array, n: Float64[np.ndarray, " variant"]) -> tuple[Array, Array]:
    """Residual sum of squares (inf where no fit has the form) and range of each template's best fit, (variant, 10)."""
    t = np.arange(y.shape[1], dtype=np.float64)
    turn = np.asarray(TURNS, np.float64)[:, None]
    v = len(y)
    error, reach = np.full((v, len(SHAPES)), np.inf), np.zeros((v, len(SHAPES)))
    total = y.sum(axis=1) / n
    y = np.where(there > 0, y - total[:, None], 0.0)  # the intercept is free: centring loses nothing
    error[:, 0] = (y * y).sum(axis=1)

    def keep(shape: str, rss: np.ndarray, span: np.ndarray, formed: np.ndarray) -> None:
        """Of all turning days, the best fit of the right form."""
        rss = np.where(formed, rss, np.inf)
        first = rss.argmin(axis=1)[:, None]
        i = SHAPES.index(shape)
        error[:, i] = np.take_along_axis(rss, first, axis=1)[:, 0]
        reach[:, i] = np.take_along_axis(span, first, axis=1)[:, 0]

    one_slope = (
        (t[None], "steady_rise", "steady_fall"),
        ((t >= turn).astype(np.float64), "step_up", "step_down"),
        (np.minimum(t, turn), "rise_then_plateau", "fall_then_plateau"),
    )
    for basis, up, down in one_slope:
        slope, rss = _one(y, there, n, basis)
        span = np.abs(slope) * np.ptp(basis, axis=1)
        keep(up, rss, span, slope > 0)
        keep(down, rss, span, slope < 0)
    before, after, rss = _two(y, there, n, np.minimum(t - turn, 0.0), np.maximum(t - turn, 0.0))
    span = np.maximum(np.abs(before) * turn[:, 0], np.abs(after) * (t[-1] - turn[:, 0]))
    keep("peak", rss, span, (before > 0) & (after < 0))
    keep("trough", rss, span, (before < 0) & (after > 0))
    wave = 2 * np.pi * t[None] / 7
    cosine, sine, rss = _two(y, there, n, np.cos(wave), np.sin(wave))
    keep(
        "weekly", rss, np.ptp(cosine * np.cos(wave) + sine * np.sin(wave), axis=1)[:, None], np.isfinite(rss)
    )
    return error, reach


def _moments(y, there, n, a, b):
    """Centred cross moment of two bases on each variant's measured days, and of the first with the series."""
    cross = there @ (a * b).T - (there @ a.T) * (there @ b.T) / n[:, None]
    return cross, y @ a.T  # y is centred


def _one(y, there, n, basis):
    """Slope and residual sum of squares of y = level + slope·basis for each basis, (variant, basis)."""
    square, product = _moments(y, there, n, basis, basis)
    usable = square > 1e-9
    slope = np.where(usable, product / np.where(usable, square, 1.0), 0.0)
    return slope, np.maximum((y * y).sum(axis=1, keepdims=True) - slope * product, 0.0)


def _two(y, there, n, first, second):
    """Both slopes and the residual sum of squares of y = level + p·first + q·second, (variant, basis) each."""
    aa, ya = _moments(y, there, n, first, first)
    bb, yb = _moments(y, there, n, second, second)
    ab, _ = _moments(y, there, n, first, second)
    determinant = aa * bb - ab * ab
    usable = determinant > 1e-9
    safe = np.where(usable, determinant, 1.0)
    p = np.where(usable, (ya * bb - yb * ab) / safe, 0.0)
    q = np.where(usable, (yb * aa - ya * ab) / safe, 0.0)
    return p, q, np.maximum((y * y).sum(axis=1, keepdims=True) - p * ya - q * yb, 0.0)
