"""Skill, rank and fair skill of the forecasting benchmark, from one metric a participant and channel.

OpenMHC evaluation, forecasting track. A draw replicates participants; since every participant's metrics stay the
same, all that changes are means over participants (`forecasting_draws`). Reported centre of skill and rank: mean of
the draws with a percentile interval; of fair skill: the point with a BCa interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from wearjax import channels
from wearjax.benchmarks.openmhc import forecasting_draws
from wearjax.benchmarks.openmhc.forecasting_draws import Means, Sample
from wearjax.benchmarks.openmhc.imputation_scores import FAIR_SKILL, RANK, SKILL, Score
from wearjax.channels import N_CHANNELS
from wearjax.errors import ConfigError
from wearjax.scores import bootstrap, fairness, intervals, rank, skill

BASELINE = "seasonal_naive"
OVERALL = "overall"
TAG = "forecasting"  # of the derived seed
REFERENCE_YEAR = 2020
# This track says `workout` where the channel table says `workouts`.
CATEGORIES = {name.replace("workouts", "workout"): members for name, members in channels.CATEGORIES.items()}
CHANNEL_SCOPES = tuple(f"channel_{c}" for c in range(N_CHANNELS))
SCOPES = (OVERALL, *CATEGORIES, *CHANNEL_SCOPES)
_BINARY = np.isin(np.arange(N_CHANNELS), channels.BINARY)


@dataclass(frozen=True)
class ForecastScore(Score):
    """One line of the score table; what differs from the imputation track:

    Attributes:
        scope: `overall`, a category, `channel_<i>`; for fair skill also `age_group` and `sex`.
        n_tasks: channels of a category, categories of the overall scope; of fair skill summed over attributes.
        bca_lo, bca_hi: BCa interval of the point, whatever is reported.
    """

    bca_lo: float = float("nan")
    bca_hi: float = float("nan")


@dataclass(frozen=True, eq=False)
class ScoredMetrics:
    """What is scored.

    Attributes:
        participants: sorted, which fixes the draws.
        values: mean absolute error of continuous channels, AUROC of flags; unfloored, NaN = none.
        subgroups: attribute to each participant's subgroup; empty without demographics.
    """

    methods: tuple[str, ...]
    participants: tuple[str, ...]
    values: Float64[np.ndarray, "method channel=19 participant"]
    subgroups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def method_index(self, method: str) -> int:
        """Raises ConfigError when there is no such method."""
        if method not in self.methods:
            raise ConfigError(f"method {method!r} is not in the table (it has {', '.join(self.methods)})")
        return self.methods.index(method)

    @property
    def errors(self) -> Float64[np.ndarray, "method channel=19 participant"]:
        """Mean absolute errors as they are; of flags one minus AUROC, at least 0.005."""
        return skill.floored(np.where(_BINARY[:, None], 1.0 - self.values, self.values), _BINARY)


def subgroups(
    demographics: Mapping[str, Mapping[str, Any]], participants: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Age group (at the end of 2020) and sex of each participant; empty where nothing is known of anybody.

    Args:
        demographics: `birth_year` and `sex` by participant (`days.labels.read_demographics`).
    """
    known = [demographics.get(p, {}) for p in participants]
    if not any(known):
        return {}
    born = [person.get("birth_year") for person in known]
    ages = tuple(fairness.age_group(None if year is None else REFERENCE_YEAR - year) for year in born)
    sexes = [person.get("sex") for person in known]
    return {"age_group": ages, "sex": tuple(s if s in fairness.SEXES else fairness.UNKNOWN for s in sexes)}


def score(
    metrics: ScoredMetrics,
    *,
    baseline: str = BASELINE,
    n_boot: int = 1000,
    seed: int = 42,
    progress: Callable[[int, int], None] | None = None,
) -> list[ForecastScore]:
    """All scores: skill and rank of every scope, fair skill where an attribute has two subgroups.

    Args:
        n_boot: bootstrap draws; 0 gives points without intervals.
        progress: called with finished and all blocks of samples.

    Raises:
        ConfigError: the baseline is not among the methods.
    """
    draws = None
    if n_boot and metrics.participants:
        draws = bootstrap.resample_matrix(
            bootstrap.derived_seed(seed, TAG), len(metrics.participants), n_boot
        )
    return score_draws(metrics, draws, baseline=baseline, progress=progress)


def score_draws(
    metrics: ScoredMetrics,
    draws: Int[np.ndarray, "draw participant"] | None,
    *,
    baseline: str = BASELINE,
    progress: Callable[[int, int], None] | None = None,
) -> list[ForecastScore]:
    """`score` with given draws, as positions of participants; None for points only."""
    own = metrics.method_index(baseline)
    log_ratio = skill.paired_log_ratios(metrics.errors, metrics.errors[own][None])
    ranks = ranks_of(metrics)
    mean_log_ratio, mean_rank = forecasting_draws.means(log_ratio), forecasting_draws.means(ranks)
    fair = _Fairness(metrics, own)
    blocks = forecasting_draws.samples(len(metrics.participants), draws)
    found: dict[str, list[np.ndarray]] = {SKILL: [], RANK: [], FAIR_SKILL: []}
    for done, block in enumerate(blocks, 1):
        sample = block()
        found[SKILL].append(skill.from_log_ratio(_nested(mean_log_ratio(sample))))
        found[RANK].append(_nested(mean_rank(sample)))
        if fair.attributes:
            found[FAIR_SKILL].append(fair.skills(sample))
        if progress is not None:
            progress(done, len(blocks))
    n_draws = 0 if draws is None else len(draws)
    lines = []
    for metric, people in ((SKILL, _people(log_ratio)), (RANK, _people(ranks))):
        values = np.concatenate(found[metric])
        counts = _nested_counts(values[0])
        lines += _lines(metrics.methods, metric, SCOPES, values, n_draws, counts, people)
    if fair.attributes:
        values, scopes = np.concatenate(found[FAIR_SKILL]), (OVERALL, *fair.attributes, *SCOPES[1:])
        people = np.repeat(np.isfinite(metrics.values).any(axis=1).sum(axis=-1)[:, None], len(scopes), axis=1)
        lines += _lines(metrics.methods, FAIR_SKILL, scopes, values, n_draws, fair.counts(), people)
    return lines


def ranks_of(metrics: ScoredMetrics) -> Float64[np.ndarray, "method channel=19 participant"]:
    """Average ranks among the methods that a participant and channel have; of the unfloored metric."""
    return rank.average_ranks(np.where(_BINARY[:, None], -metrics.values, metrics.values))


def channel_ratios(
    metrics: ScoredMetrics, *, baseline: str = BASELINE
) -> tuple[Float64[np.ndarray, "method channel=19"], Int[np.ndarray, "method channel=19"]]:
    """Ratio of each method and channel against the baseline, and the number of participants behind it."""
    errors = metrics.errors
    log_ratio = skill.paired_log_ratios(errors, errors[metrics.method_index(baseline)][None])
    mean = forecasting_draws.means(log_ratio)(forecasting_draws.everybody(len(metrics.participants)))[0]
    return np.exp(mean), np.isfinite(log_ratio).sum(axis=-1)


def _over(values: np.ndarray, members: Sequence[int] | slice) -> np.ndarray:
    """Mean over some entries of the last axis, NaN ignored; the same order of sums in every row."""
    chosen = values[..., members]
    finite = np.isfinite(chosen)
    count = finite.sum(axis=-1)
    total = np.where(finite, chosen, 0.0).sum(axis=-1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _nested(by_channel: Float64[np.ndarray, "*outer channel=19"]) -> Float64[np.ndarray, "*outer scope"]:
    """Values of `SCOPES`: mean over the categories present, each the mean over its channels present."""
    categories = np.stack([_over(by_channel, list(members)) for members in CATEGORIES.values()], axis=-1)
    overall = _over(categories, slice(None))
    return np.concatenate([overall[..., None], categories, by_channel], axis=-1)


def _nested_counts(values: Float64[np.ndarray, "method scope"]) -> Int[np.ndarray, "method scope"]:
    """What each of `SCOPES` averages: categories, channels, or itself."""
    finite = np.isfinite(values)
    n = len(CATEGORIES)
    by_channel = finite[:, 1 + n :]
    categories = [by_channel[:, list(members)].sum(axis=-1) for members in CATEGORIES.values()]
    columns = [finite[:, 1 : 1 + n].sum(axis=-1), *categories]
    return np.concatenate([np.stack(columns, axis=-1), by_channel.astype(int)], axis=-1)


def _people(values: np.ndarray) -> Int[np.ndarray, "method scope"]:
    """Participants of each channel; of a wider scope the most of any of its channels."""
    by_channel = np.isfinite(values).sum(axis=-1)
    wide = [by_channel[:, list(m)].max(axis=-1) for m in (range(N_CHANNELS), *CATEGORIES.values())]
    return np.concatenate([np.stack(wide, axis=-1), by_channel], axis=-1)


def _lines(
    methods: Sequence[str],
    metric: str,
    scopes: Sequence[str],
    values: Float64[np.ndarray, "row method scope"],
    n_draws: int,
    counts: np.ndarray,
    people: np.ndarray,
) -> list[ForecastScore]:
    """Score lines from the values of everybody, of the draws and of the leave-one-out samples."""
    point, drawn, left_out = values[0], values[1 : 1 + n_draws], values[1 + n_draws :]
    summary = bootstrap.summarise(drawn) if n_draws else None
    lines = []
    for m, method in enumerate(methods):
        for s in np.flatnonzero(np.isfinite(point[m])).tolist():
            head = (method, metric, scopes[s], int(counts[m, s]), int(people[m, s]), float(point[m, s]))
            if summary is None:
                lines.append(ForecastScore(*head))
                continue
            bca = intervals.bca(drawn[:, m, s], float(point[m, s]), left_out[:, m, s])
            low, high = float(summary.low[m, s]), float(summary.high[m, s])
            shown = bca if metric == FAIR_SKILL else (low, high)
            moments = float(summary.mean[m, s]), float(summary.se[m, s])
            lines.append(ForecastScore(*head, *moments, *shown, int(summary.n[m, s]), low, high, *bca))
    return lines


class _Fairness:
    """Compares how unequal the errors of subgroups are, of each method and of the baseline.

    Attributes:
        attributes: those with at least two subgroups.
    """

    def __init__(self, metrics: ScoredMetrics, own: int):
        self._own = own
        errors = metrics.errors
        self._inside: dict[str, list[Means]] = {}
        for name, labels in metrics.subgroups.items():
            of_person = np.asarray(labels, object)
            present = [
                value for value in dict.fromkeys(labels) if np.isfinite(errors[..., of_person == value]).any()
            ]
            if len(present) >= 2:
                self._inside[name] = [
                    forecasting_draws.means(np.where(of_person == value, errors, np.nan), compensated=True)
                    for value in sorted(present)
                ]
        self._everybody = forecasting_draws.everybody(len(metrics.participants))

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(self._inside)

    def skills(self, sample: Sample) -> Float64[np.ndarray, "row method scope"]:
        """Fair skill overall, of each attribute, category and channel.

        The last two, and the first, are means over the attributes that any method has a value for in a row, and
        are undefined for a method that lacks one of these.
        """
        skills = skill.from_log_ratio(np.stack([_nested(ratio) for ratio in self._log_ratios(sample)]))
        by_attribute = skills[..., 0]
        present = np.isfinite(by_attribute).any(axis=2)[:, :, None, None]
        count = present.sum(axis=0)
        total = np.where(present, skills, 0.0).sum(axis=0)  # NaN of a method that lacks an attribute stays
        mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
        return np.concatenate([mean[..., :1], np.moveaxis(by_attribute, 0, -1), mean[..., 1:]], axis=-1)

    def _log_ratios(self, sample: Sample) -> Iterator[Float64[np.ndarray, "row method channel=19"]]:
        for groups in self._inside.values():
            averaged = np.stack([mean(sample) for mean in groups])
            yield fairness.log_disparity_ratios(averaged, averaged[:, :, self._own][:, :, None])

    def counts(self) -> Int[np.ndarray, "method scope"]:
        """Channels or categories behind each scope, summed over attributes where these are averaged."""
        per_attribute = np.stack([_nested_counts(_nested(r)[0]) for r in self._log_ratios(self._everybody)])
        total = per_attribute.sum(axis=0)
        return np.concatenate([total[:, :1], per_attribute[..., 0].T, total[:, 1:]], axis=-1)
