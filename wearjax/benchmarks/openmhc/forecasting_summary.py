"""The scores of a forecasting evaluation as text tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import score_text
from wearjax.benchmarks.openmhc.forecasting_scores import (
    BASELINE,
    CATEGORIES,
    CHANNEL_SCOPES,
    FAIR_SKILL,
    OVERALL,
    RANK,
    SKILL,
)
from wearjax.benchmarks.openmhc.imputation_scores import Score
from wearjax.channels import CHANNELS

if TYPE_CHECKING:
    from wearjax.benchmarks.openmhc.forecasting_results import ForecastingResults


def text(results: ForecastingResults) -> str:
    """A table of the reported scores, a row a method, best first; and one of the skill of every channel."""
    head = score_text.heading(f"Forecasting, {results.cohort}", baseline=BASELINE, n_boot=results.n_boot)
    found = comparable(results)
    methods = found.best_first(results.methods)
    lines = [head, *result_files.aligned(_headline(results, found, methods)), ""]
    lines += result_files.aligned(_by_channel(found, methods))
    return "\n".join([*lines, *_remarks(results, found), *score_text.written(results.run_dir)])


def comparable(results: ForecastingResults) -> score_text.Comparable:
    """The scores that may be shown beside each other."""
    return score_text.Comparable(results.scores, baseline=BASELINE, methods=results.methods)


def _remarks(results: ForecastingResults, found: score_text.Comparable) -> list[str]:
    """What the tables cannot show."""
    lines = [f"fallback: the share of forecast hours that {BASELINE} gave", *_without_skill(results)]
    lines += [
        score_text.replaced(
            m,
            int(results.metrics.substituted[i].sum()),
            f"forecast hours were not finite: {BASELINE} stands in",
            {"of all": results.fallback_rates[m]},
        )
        for i, m in enumerate(results.methods)
        if results.fallback_rates[m]
    ]
    return lines + found.remarks(n_participants=len(results.participants))


def _without_skill(results: ForecastingResults) -> list[str]:
    """The channels in which no method has a skill, by the reason."""
    scored = {s.scope for s in results.scores if s.metric == SKILL}
    own = results.metrics.scored[results.methods.index(BASELINE)]
    by_reason: dict[str, list[int]] = {}
    for c, scope in enumerate(CHANNEL_SCOPES):
        if scope in scored:
            continue
        if np.isfinite(own[c]).any():
            reason = f"{BASELINE} makes no error there"
        elif CHANNELS[c].is_continuous:
            reason = "no scored hour was measured"
        else:
            reason = "nobody's scored hours have the flag both on and off, as an AUROC needs"
        by_reason.setdefault(reason, []).append(c)
    return [f"no skill in {_named(numbers)}: {reason}" for reason, numbers in by_reason.items()]


def _named(numbers: list[int]) -> str:
    """Channels; a category of which none is missing by its name."""
    names = [name for name, members in CATEGORIES.items() if set(members) <= set(numbers)]
    whole = {c for name in names for c in CATEGORIES[name]}
    return ", ".join(
        [*(f"all of {name}" for name in names), *(CHANNELS[c].name for c in numbers if c not in whole)]
    )


def _headline(
    results: ForecastingResults, found: score_text.Comparable, methods: list[str]
) -> list[tuple[str, ...]]:
    lines = [("method", "rank", OVERALL, *CATEGORIES, "fair", "fallback")]
    for m in methods:
        overall = percent(found.get(m, SKILL, OVERALL), interval=True)
        cells = [percent(found.get(m, SKILL, s)) for s in CATEGORIES]
        fair = percent(found.get(m, FAIR_SKILL, OVERALL), interval=True)
        rank = score_text.rank(found.get(m, RANK, OVERALL))
        lines.append((found.name(m), rank, overall, *cells, fair, f"{results.fallback_rates[m]:.2%}"))
    return lines


def _by_channel(found: score_text.Comparable, methods: list[str]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [("skill", *map(found.name, methods))]
    for channel, scope in zip(CHANNELS, CHANNEL_SCOPES, strict=True):
        scores = [found.get(m, SKILL, scope) for m in methods]
        if any(score is not None for score in scores):
            lines.append((channel.name, *(percent(score) for score in scores)))
    return lines


def percent(score: Score | None, *, interval: bool = False) -> str:
    """The reported value of a skill in percent, `-` for none."""
    return score_text.percent(score, baseline=BASELINE, interval=interval)
