"""Errors of VitalBench: of one surgery over all its windows, and their mean over surgeries.

Columns `MAE`, `RMSE`, `R2` and `CC` are the published ones, with the two surprises of the released code: CC is a rank
correlation, and R2 compares the variables of one step with each other (VitalBench, section "Metrics"). What one
would expect of the names stands beside them as `pearson` and `R2_temporal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64

from wearjax.errors import MethodError
from wearjax.scores import bootstrap, correlation, intervals

PUBLISHED = ("MAE", "RMSE", "R2", "CC")
METRICS = (*PUBLISHED, "MAPE", "spearman", "pearson", "R2_variables", "R2_temporal")
_CELLS_AT_ONCE = 1 << 20

Windows = Float[np.ndarray, "window step variable"]


def case_metrics(
    prediction: Windows,
    target: Windows,
    observed: Bool[np.ndarray, "window step variable"] | None = None,
    *,
    cc: str = "spearman",
    r2: str = "variables",
    name: str = "model",
) -> dict[str, float]:
    """All METRICS of one case; NaN where undefined.

    Args:
        prediction: all windows of the case, scored variables only.
        observed: entries that count; by default those whose target is not 0.
        cc: what the published column CC holds: `spearman` or `pearson`.
        r2: what the published column R2 holds: `variables` or `temporal`.
        name: of the method, for the error.

    Raises:
        MethodError: another shape than the target, or a prediction that is not finite.
    """
    if prediction.shape != target.shape or target.ndim != 3:
        raise MethodError(f"{name}: prediction {prediction.shape}, expected the target's {target.shape}")
    sums = _Sums(target.shape[2])
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for rows in _pieces(target.shape):
        y, guess = target[rows], prediction[rows]
        mask = y != 0 if observed is None else observed[rows]
        if not np.isfinite(guess).all():
            raise MethodError(f"{name}: a prediction is not finite")
        sums.add(y, guess, mask)
        kept.append((y[mask], guess[mask]))
    y, guess = (np.concatenate(parts) for parts in zip(*kept, strict=True)) if kept else (np.empty(0),) * 2
    out = sums.metrics()
    out["spearman"], out["pearson"] = spearman(y, guess), sums.pearson(y, guess)
    out["CC"] = out[cc]
    out["R2"] = out[f"R2_{r2}"]
    return {metric: out[metric] for metric in METRICS}


def _pieces(shape: tuple[int, ...]) -> list[slice]:
    step = max(1, _CELLS_AT_ONCE // max(1, shape[1] * shape[2]))
    return [slice(start, start + step) for start in range(0, shape[0], step)]


class _Sums:
    """What the metrics need of the entries, gathered piece by piece in float64."""

    def __init__(self, n_variables: int):
        self.n = self.absolute = self.squared = self.relative = 0.0
        self.between_error = self.between_total = 0.0
        # Per variable: count, first value seen (shifts the sums: no cancellation), sums of shifted y, its square,
        # and of the squared error.
        self.count = np.zeros(n_variables)
        self.shift = np.full(n_variables, np.nan)
        self.total, self.square, self.error = (np.zeros(n_variables) for _ in range(3))

    def add(self, y: Windows, guess: Windows, mask: Bool[np.ndarray, "window step variable"]) -> None:
        y = np.where(mask, y, 0).astype(np.float64)
        error = np.where(mask, guess, 0) - y
        self.n += np.count_nonzero(mask)
        size = np.abs(error)
        self.absolute += size.sum()
        with np.errstate(divide="ignore", invalid="ignore"):  # an observed 0 exists only under train_global
            self.relative += np.divide(size, np.abs(y), out=np.zeros_like(y), where=mask).sum()
        squared = error * error
        self.squared += squared.sum()
        self._add_between(y, squared)
        self._add_over_time(y, squared, mask)

    def _add_between(self, y: Windows, squared: Windows) -> None:
        deviation = y - y.mean(axis=2, keepdims=True)
        total = (deviation * deviation).sum(axis=2)
        varies = (y != y[..., :1]).any(axis=2)
        self.between_total += total[varies].sum()
        self.between_error += squared.sum(axis=2)[varies].sum()

    def _add_over_time(self, y: Windows, squared: Windows, mask: np.ndarray) -> None:
        new = np.isnan(self.shift) & mask.any(axis=(0, 1))
        for i in np.flatnonzero(new):
            self.shift[i] = y[..., i][mask[..., i]][0]
        shifted = np.where(mask, y - np.where(np.isnan(self.shift), 0, self.shift), 0)
        self.count += mask.sum(axis=(0, 1))
        self.total += shifted.sum(axis=(0, 1))
        self.square += (shifted * shifted).sum(axis=(0, 1))
        self.error += squared.sum(axis=(0, 1))

    def metrics(self) -> dict[str, float]:
        nothing = float("nan")
        out = {"MAE": nothing, "RMSE": nothing, "MAPE": nothing}
        if self.n:
            out["MAE"] = self.absolute / self.n
            out["RMSE"] = float(np.sqrt(self.squared / self.n))
            out["MAPE"] = self.relative / self.n
        defined = len(self.count) > 1 and self.between_total > 0
        out["R2_variables"] = 1.0 - self.between_error / self.between_total if defined else nothing
        out["R2_temporal"] = self._temporal()
        return {name: float(value) for name, value in out.items()}

    def _temporal(self) -> float:
        """Mean over the variables that vary."""
        spread = self.square - self.total**2 / np.maximum(self.count, 1)
        varies = (self.count > 1) & (spread > 1e-12 * self.square)
        return float(np.mean(1.0 - self.error[varies] / spread[varies])) if varies.any() else float("nan")

    @staticmethod
    def pearson(y: np.ndarray, guess: np.ndarray) -> float:
        return correlation.pearson(y.astype(np.float64), guess.astype(np.float64)) if len(y) else float("nan")


def spearman(y: Float[np.ndarray, " entry"], guess: Float[np.ndarray, " entry"]) -> float:
    """Spearman's rho with mean ranks for ties; NaN where either side is constant.

    A case has millions of entries. In float32 a value and a 32-bit label make one integer, and sorting those is five
    times faster than an argsort; the second sort carries the ranks of the first variable along.
    """
    if y.dtype != np.float32 or guess.dtype != np.float32 or not 0 < len(y) < 2**31:
        return correlation.spearman(y, guess)
    if (y == y[0]).all() or (guess == guess[0]).all():
        return float("nan")
    order = np.sort(_keys(y) | np.arange(len(y), dtype=np.uint64))
    ranks = np.empty(len(y), np.uint32)
    ranks[(order & _LOW).astype(np.int64)] = _doubled_ranks(order)
    order = np.sort(_keys(guess) | ranks)
    middle = float(len(y) + 1)
    a = (order & _LOW).astype(np.float64) - middle
    b = _doubled_ranks(order).astype(np.float64) - middle
    return float(np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b)))


_LOW = np.uint64(0xFFFFFFFF)


def _keys(values: Float32[np.ndarray, " entry"]) -> np.ndarray:
    """Integers in the order of the values, in the upper half."""
    bits = (values + np.float32(0)).view(np.uint32)  # -0 becomes 0
    ordered = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return ordered.astype(np.uint64) << np.uint64(32)


def _doubled_ranks(order: np.ndarray) -> np.ndarray:
    """Twice the mean rank, from 1, of each entry of a sorted array; equal upper halves tie."""
    high = order >> np.uint64(32)
    starts = np.flatnonzero(np.concatenate(([True], high[1:] != high[:-1])))
    ends = np.append(starts[1:], len(order))
    return np.repeat((starts + ends + 1).astype(np.uint32), ends - starts)


def variable_errors(
    prediction: Windows,
    target: Windows,
    observed: Bool[np.ndarray, "window step variable"],
    span: Float64[np.ndarray, " variable"] | None = None,
) -> tuple[Float64[np.ndarray, " variable"], Float64[np.ndarray, " variable"]]:
    """MAE and RMSE of each variable; NaN where it is never observed.

    Args:
        span: units of each variable in one scaled unit; errors are then in the variable's own unit.
    """
    count, absolute, squared = (np.zeros(target.shape[2]) for _ in range(3))
    for rows in _pieces(target.shape):
        error = np.where(observed[rows], prediction[rows].astype(np.float64) - target[rows], 0)
        count += observed[rows].sum(axis=(0, 1))
        absolute += np.abs(error).sum(axis=(0, 1))
        squared += (error * error).sum(axis=(0, 1))
    unit = 1.0 if span is None else span
    with np.errstate(invalid="ignore"):
        return absolute / count * unit, np.sqrt(squared / count) * unit


@dataclass(frozen=True)
class Average:
    """Mean and population standard deviation over cases, NaN ignored, and how many cases had a value."""

    mean: float
    std: float
    n: int


def aggregate(cases: Sequence[Mapping[str, float]]) -> dict[str, Average]:
    """Average of every metric over cases."""
    names = cases[0] if cases else ()
    return {name: average([case[name] for case in cases]) for name in names}


def average(values: Sequence[float]) -> Average:
    """Average of one metric over cases; NaN without any value."""
    finite = np.asarray(values, np.float64)
    finite = finite[~np.isnan(finite)]
    if not len(finite):
        return Average(float("nan"), float("nan"), 0)
    return Average(float(finite.mean()), float(finite.std()), len(finite))


def over_horizons(averages: Sequence[Average], *, spread: str = "mean_of_stds") -> tuple[float, float]:
    """Mean of the horizons' means, and what the published tables print after "±".

    Args:
        spread: `mean_of_stds` as in the table of track 1, `std_of_stds` (population) as in those of tracks 2 and 3.

    Raises:
        ValueError: another spread.
    """
    if spread not in ("mean_of_stds", "std_of_stds"):
        raise ValueError(f"spread: expected mean_of_stds or std_of_stds, got {spread!r}")
    stds = [each.std for each in averages]
    plus_minus = np.mean(stds) if spread == "mean_of_stds" else np.std(stds)
    return float(np.mean([each.mean for each in averages])), float(plus_minus)


@dataclass(frozen=True)
class CaseInterval:
    """Mean over cases with its bootstrap intervals."""

    mean: float
    percentile: tuple[float, float]
    bca: tuple[float, float]


def case_intervals(
    cases: Sequence[Mapping[str, float]],
    *,
    draws: int = 1000,
    seed: int = 42,
    level: float = intervals.LEVEL,
) -> dict[str, CaseInterval]:
    """Intervals of the mean over cases of every metric, from one draw of cases for all metrics."""
    if not cases:
        return {}
    names = tuple(cases[0])
    values = np.array([[case[name] for case in cases] for name in names], np.float64)
    picked = bootstrap.resample_matrix(seed, len(cases), draws)
    resampled = bootstrap.weighted_means(bootstrap.multiplicities(picked), values)
    jackknife = bootstrap.leave_one_out_means(values)
    out = {}
    for i, name in enumerate(names):
        mean = average(list(values[i])).mean
        out[name] = CaseInterval(
            mean,
            intervals.percentile(resampled[:, i], level=level),
            intervals.bca(resampled[:, i], mean, jackknife[:, i], level=level),
        )
    return out
