"""Cubic B-splines on equal intervals: values, the integrals functional analysis needs, and penalized fits."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float64

DEGREE = 3
_GAUSS_POINTS = 4  # exact up to degree 7; products of two cubics have 6


@dataclass(frozen=True, eq=False)
class CubicBasis:
    """`size` cubic B-splines over `0 .. length`, with the end knots repeated.

    Attributes:
        products: integrals of the product of each two.
        curvature: integrals of the product of each two's second derivatives.
    """

    size: int
    length: float
    knots: Float64[np.ndarray, "knot"] = field(repr=False)
    products: Float64[np.ndarray, "size size"] = field(repr=False)
    curvature: Float64[np.ndarray, "size size"] = field(repr=False)

    def at(self, points: Float64[np.ndarray, "point"]) -> Float64[np.ndarray, "point size"]:
        """Value of each spline at each point of `0 .. length`."""
        return _values(self.knots, points, DEGREE)


@functools.cache
def cubic(size: int, length: float) -> CubicBasis:
    """The basis of that size (at least 4)."""
    breaks = np.linspace(0, length, size - DEGREE + 1)
    knots = np.concatenate([np.full(DEGREE, breaks[0]), breaks, np.full(DEGREE, breaks[-1])])
    nodes, weights = np.polynomial.legendre.leggauss(_GAUSS_POINTS)
    half = np.diff(breaks)[:, None] / 2
    points = (breaks[:-1, None] + half * (nodes + 1)).ravel()
    root = np.sqrt((half * weights).ravel())[:, None]
    value, second = _values(knots, points, DEGREE) * root, _second(knots, points) * root
    return CubicBasis(size, length, knots, value.T @ value, second.T @ second)


def penalized_fit(
    basis: CubicBasis,
    design: Float64[np.ndarray, "point size"],
    values: Float64[np.ndarray, "point"],
    known: Bool[np.ndarray, "point"],
    penalty: float,
) -> Float64[np.ndarray, "size"]:
    """Coefficients that minimize squared error at the known points + penalty x integral of squared curvature.

    Args:
        design: `basis.at` the points. Two known points at least, or the fit is not determined.
    """
    rows = design[known]
    # Too small for the threads of a matrix library, which would take longer to start.
    square = np.einsum("pi,pj->ij", rows, rows)
    return np.linalg.solve(square + penalty * basis.curvature, values[known] @ rows)


def _values(knots: np.ndarray, points: np.ndarray, degree: int) -> Float64[np.ndarray, "point n"]:
    """The recursion of Cox and de Boor, all points at once; the last interval includes its end."""
    inside = np.clip(np.searchsorted(knots, points, side="right") - 1, DEGREE, len(knots) - DEGREE - 2)
    value = np.zeros((len(points), len(knots) - 1))
    value[np.arange(len(points)), inside] = 1
    for k in range(1, degree + 1):
        left, right = knots[: -k - 1], knots[k + 1 :]
        rise = _share(points[:, None] - left, knots[k:-1] - left)
        fall = _share(right - points[:, None], right - knots[1:-k])
        value = rise * value[:, :-1] + fall * value[:, 1:]
    return value


def _share(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)


def _second(knots: np.ndarray, points: np.ndarray) -> Float64[np.ndarray, "point n"]:
    """Second derivatives of the cubic splines: twice the difference rule on the linear ones."""
    value = _values(knots, points, DEGREE - 2)
    for k in (DEGREE - 1, DEGREE):
        width = knots[k:] - knots[:-k]
        slope = _share(k * value, np.broadcast_to(width, value.shape))
        value = slope[:, :-1] - slope[:, 1:]
    return value
