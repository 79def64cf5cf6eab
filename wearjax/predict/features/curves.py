"""The 52 curve features of a participant (OpenMHC prediction track, XGBoost: the mean day).

The mean day is taken over raw minutes, without the zero-to-missing rule: an unworn step counter counts as no steps.
Functional principal components need all participants at once: each brings a `MeanDay`, which is small.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, Float64, Int64

from wearjax.channels import HOURS_PER_DAY, INDEX, MINUTES_PER_DAY
from wearjax.predict.features import day_block, fpca, over_days, splines
from wearjax.predict.features.day_block import DAYTIME, DayBlock

COUNTED = ("watch_steps", "watch_energy", "iphone_steps")
COMPONENTS = 10
SPLINES, PENALTY, SPLINE_MINUTES_MIN = 24, 1e5, 10
COSINOR_MINUTES_MIN = 200
COSINOR = ("mesor", "amplitude", "acrophase", "r2", "p_value", "amplitude_ratio", "n_minutes")
PROFILE = ("mean", "std", "daytime_mean", "nighttime_mean", "day_night_ratio")

NAMES: tuple[str, ...] = (
    *(f"fpca_{name}_{k}" for name in ("watch_hr", *COUNTED) for k in range(1, COMPONENTS + 1)),
    *(f"hr_cosinor_{name}" for name in COSINOR),
    *(f"hros_profile_{name}" for name in PROFILE),
)
_OWN = len(COSINOR) + len(PROFILE)
# A participant's part: spline coefficients of heart rate, cosinor and profile, then the counted channels by minute.
WIDTH = SPLINES + _OWN + len(COUNTED) * MINUTES_PER_DAY


class DaySums:
    """Sums over the days of one participant, a block at a time."""

    def __init__(self) -> None:
        self._days = 0
        self._counted = np.zeros((len(COUNTED), MINUTES_PER_DAY))
        self._beats = np.zeros(MINUTES_PER_DAY)
        self._readings = np.zeros(MINUTES_PER_DAY, np.int64)

    def add(self, block: DayBlock) -> None:
        self._days += len(block.recorded)
        for place, name in enumerate(COUNTED):
            self._counted[place] += block.recorded[:, INDEX[name]].sum(axis=0, dtype=np.float64)
        known = ~np.isnan(block.heart_rate)
        self._beats += np.where(known, block.heart_rate, 0).sum(axis=0, dtype=np.float64)
        self._readings += known.sum(axis=0)

    def mean_day(self) -> MeanDay:
        """The mean over the days so far, at least one."""
        known = self._readings > 0
        heart_rate = np.divide(self._beats, self._readings, out=np.full(MINUTES_PER_DAY, np.nan), where=known)
        return MeanDay(heart_rate, self._counted / self._days)


@dataclass(frozen=True, eq=False)
class MeanDay:
    """A participant's mean day.

    Attributes:
        heart_rate: beats a minute; NaN in a minute that never had a reading.
        counted: mean of each of `COUNTED`.
    """

    heart_rate: Float64[np.ndarray, "minute=1440"]
    counted: Float64[np.ndarray, "3 minute=1440"]

    def part(self) -> Float64[np.ndarray, "part"]:
        """What `features` needs of this participant, `WIDTH` numbers."""
        steps = self.counted[COUNTED.index("watch_steps")]
        own = cosinor(self.heart_rate) + step_cost(self.heart_rate, steps)
        return np.concatenate([_spline_coefficients(self.heart_rate), own, self.counted.ravel()])


def features(
    parts: Float32[np.ndarray, "participant part"],
) -> Float64[np.ndarray, "participant 52"]:
    """The features of all participants in the order of `NAMES`; NaN where they are not defined.

    Args:
        parts: `MeanDay.part` of every participant there is: the components are those of the whole cohort.
    """
    if not len(parts):
        return np.empty((0, len(NAMES)))
    counted = parts[:, SPLINES + _OWN :].reshape(len(parts), len(COUNTED), MINUTES_PER_DAY)
    scores = [_heart_scores(parts[:, :SPLINES])]
    scores += [fpca.grid_scores(counted[:, place], COMPONENTS) for place in range(len(COUNTED))]
    return np.concatenate([*scores, parts[:, SPLINES : SPLINES + _OWN]], axis=1)


def _spline_coefficients(heart_rate: Float64[np.ndarray, "minute"]) -> Float64[np.ndarray, "24"]:
    """Smooth fit of the mean day of heart rate; NaN with too few minutes."""
    known = ~np.isnan(heart_rate)
    if known.sum() < SPLINE_MINUTES_MIN:
        return np.full(SPLINES, np.nan)
    basis = splines.cubic(SPLINES, MINUTES_PER_DAY)
    return splines.penalized_fit(basis, _spline_design(), heart_rate, known, PENALTY)


@functools.cache
def _spline_design() -> Float64[np.ndarray, "minute 24"]:
    return splines.cubic(SPLINES, MINUTES_PER_DAY).at(_MINUTES)


def _heart_scores(coefficients: Float32[np.ndarray, "participant 24"]) -> np.ndarray:
    """Scores of the smooth curves; who has none gets the mean curve."""
    known = np.isfinite(coefficients).all(axis=1)
    if not known.any():
        return np.full((len(coefficients), COMPONENTS), np.nan)
    mean = coefficients[known].mean(axis=0, dtype=np.float64)
    filled = np.where(known[:, None], coefficients, mean)
    return fpca.basis_scores(filled, splines.cubic(SPLINES, MINUTES_PER_DAY).products, COMPONENTS)


def cosinor(heart_rate: Float64[np.ndarray, "minute"]) -> list[float]:
    """`COSINOR` of a mean day: least squares of a 24-hour cosine; all but the count NaN below 200 minutes.

    Level, amplitude, hour of the peak, share of variance, p of the F test with 2 and n - 3 degrees of freedom,
    amplitude / level, and n.
    """
    known = ~np.isnan(heart_rate)
    n = int(known.sum())
    values = heart_rate[known]
    around = float(np.sum((values - values.mean()) ** 2)) if n else 0.0
    if n < COSINOR_MINUTES_MIN:
        return [over_days.NAN] * (len(COSINOR) - 1) + [float(n)]
    design = _COSINE[known]
    level, cosine, sine = np.linalg.lstsq(design, values, rcond=None)[0]
    amplitude = float(np.hypot(cosine, sine))
    peak = float(np.arctan2(sine, cosine)) * HOURS_PER_DAY / (2 * np.pi) % HOURS_PER_DAY
    residual = float(np.sum((values - design @ np.array([level, cosine, sine])) ** 2))
    flat = values.max() == values.min()
    r2 = over_days.NAN if flat else 1 - residual / around
    # The upper tail of F with 2 and m degrees of freedom is (1 + 2 F / m)^(-m / 2), here (1 - r2)^(m / 2).
    p_value = over_days.NAN if flat else min(residual / around, 1.0) ** ((n - 3) / 2)
    return [float(level), amplitude, peak, r2, p_value, over_days.ratio(amplitude, float(level)), float(n)]


def step_cost(heart_rate: Float64[np.ndarray, "minute"], steps: Float64[np.ndarray, "minute"]) -> list[float]:
    """`PROFILE`: heart rate over (steps + 1) by minute of the mean day, where there is heart rate."""
    profile = heart_rate / (steps + 1)
    day, night = _mean(profile[DAYTIME]), _mean(day_block.night(profile))
    known = profile[~np.isnan(profile)]
    spread = float(known.std()) if len(known) else over_days.NAN
    return [_mean(profile), spread, day, night, over_days.ratio(day, night)]


def _mean(values: Float64[np.ndarray, "minute"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else over_days.NAN


_MINUTES: Int64[np.ndarray, "minute"] = np.arange(MINUTES_PER_DAY)
_ANGLE = 2 * np.pi * _MINUTES / MINUTES_PER_DAY
_COSINE = np.stack([np.ones(MINUTES_PER_DAY), np.cos(_ANGLE), np.sin(_ANGLE)], axis=1)
