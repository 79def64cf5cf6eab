"""Means over resampled participants: of everybody, of every draw, and of everybody but one.

OpenMHC evaluation, forecasting track: a draw replicates the participants drawn. A mean over a draw is a mean
weighted by how often each was drawn, so the draws are rows of one matrix product and none is ever assembled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float64, Int, Int64

from wearjax.scores import bootstrap

_ROWS = 512  # samples at a time
# Up to here numpy, too, adds one after another.
_ORDERED_MAX = 7
_COARSE_BITS = 40


class Sample:
    """Some samples of the participants.

    Attributes:
        positions: the participants of each sample; those drawn twice stand twice.
        n: participants in all.
    """

    def __init__(self, positions: Int[np.ndarray, "row drawn"], n: int):
        self.positions, self.n = positions, n

    @functools.cached_property
    def weights(self) -> Float64[np.ndarray, "row participant"]:
        """How often each participant is in each sample."""
        rows = len(self.positions)
        flat = (self.positions + self.n * np.arange(rows)[:, None]).ravel()
        return np.bincount(flat, minlength=rows * self.n).reshape(rows, self.n).astype(np.float64)


def everybody(n: int) -> Sample:
    """The full sample."""
    return Sample(np.arange(n)[None], n)


def samples(n: int, draws: Int64[np.ndarray, "draw participant"] | None) -> list[Callable[[], Sample]]:
    """Makers of blocks of samples: everybody; then the draws; then everybody but one. Only the first without draws."""
    found: list[Callable[[], Sample]] = [lambda: everybody(n)]
    if draws is not None:
        starts = range(0, len(draws), _ROWS)
        found += [functools.partial(lambda at: Sample(draws[at : at + _ROWS], n), start) for start in starts]
        found += [functools.partial(_without_one, n, start) for start in range(0, n, _ROWS)]
    return found


def _without_one(n: int, start: int) -> Sample:
    left_out = np.arange(start, min(start + _ROWS, n))[:, None]
    others = np.arange(n - 1)[None]
    return Sample(others + (others >= left_out), n)


Means = Callable[[Sample], Float64[np.ndarray, "row *task"]]


def means(values: Float[np.ndarray, "*task participant"], *, compensated: bool = False) -> Means:
    """Means of any sample, NaN ignored; NaN where nobody in it has a value.

    In a handful of participants many draws are the cohort itself in another order, and the BCa interval counts how
    many fall below the point, were it by the last bit. There the values are added in the order drawn, as the
    benchmark does it. Beyond, equal samples have equal means, whatever the order.

    Args:
        compensated: in a handful, add as a table's grouped mean does, carrying the rounding along (Kahan, 1965).
    """
    if values.shape[-1] <= _ORDERED_MAX:
        return _Ordered(values, compensated)
    return _Products(values)


class _Ordered:
    def __init__(self, values: np.ndarray, compensated: bool):
        self._values, self._compensated = values, compensated

    def __call__(self, sample: Sample) -> Float64[np.ndarray, "row *task"]:
        shape = (len(sample.positions), *self._values.shape[:-1])
        total, carry, count = np.zeros((3, *shape))
        for column in sample.positions.T:
            value = np.moveaxis(self._values[..., column], -1, 0)
            finite = np.isfinite(value)
            count += finite
            step = np.where(finite, value, 0.0) - carry
            grown = total + step
            if self._compensated:
                carry = np.where(finite, (grown - total) - step, carry)
            total = np.where(finite, grown, total)
        return np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)


class _Products:
    """By matrix products. Values are split into a coarse part, whose weighted sums are exact for some thousand
    participants, and a rest: means do not hang on how a product is added up, and equal values have themselves as
    their mean, so that subgroups without a difference have none."""

    def __init__(self, values: np.ndarray):
        largest = np.max(np.abs(values), axis=-1, keepdims=True, initial=0.0, where=np.isfinite(values))
        unit = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - _COARSE_BITS)
        self._coarse = np.round(values / unit) * unit
        self._rest = values - self._coarse

    def __call__(self, sample: Sample) -> Float64[np.ndarray, "row *task"]:
        coarse = bootstrap.weighted_means(sample.weights, self._coarse)
        return coarse + bootstrap.weighted_means(sample.weights, self._rest)
