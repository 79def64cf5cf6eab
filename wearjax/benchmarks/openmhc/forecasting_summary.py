"""The scores of a forecasting evaluation as text tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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
    ForecastScore,
)
from wearjax.channels import CHANNELS

if TYPE_CHECKING:
    from wearjax.benchmarks.openmhc.forecasting_results import ForecastingResults


def text(results: ForecastingResults) -> str:
    """A table of the reported scores, a row a method, best first; and one of the skill of every channel."""
    head = f"Forecasting, {results.cohort}. Skill and fair skill in %, {BASELINE} = 0; "
    head += "skill, rank: bootstrap mean; fair: point" if results.n_boot else "point estimates, no draws"
    methods = _best_first(results)
    lines = [head, *result_files.aligned(_headline(results, methods)), ""]
    return "\n".join([*lines, *result_files.aligned(_by_channel(results, methods))])


def _best_first(results: ForecastingResults) -> list[str]:
    def worth(method: str) -> float:
        found = results.at.get((method, SKILL, OVERALL))
        return -math.inf if found is None else found.reported

    return sorted(results.methods, key=lambda m: -worth(m))


def _headline(results: ForecastingResults, methods: list[str]) -> list[tuple[str, ...]]:
    lines = [("method", "rank", OVERALL, *CATEGORIES, "fair", "fallback")]
    for m in methods:
        overall = percent(results.at.get((m, SKILL, OVERALL)), interval=True)
        cells = [percent(results.at.get((m, SKILL, s))) for s in CATEGORIES]
        fair = percent(results.at.get((m, FAIR_SKILL, OVERALL)), interval=True)
        rank = score_text.rank(results.at.get((m, RANK, OVERALL)))
        lines.append((m, rank, overall, *cells, fair, f"{results.fallback_rates[m]:.2%}"))
    return lines


def _by_channel(results: ForecastingResults, methods: list[str]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [("skill", *methods)]
    for channel, scope in zip(CHANNELS, CHANNEL_SCOPES, strict=True):
        found = [results.at.get((m, SKILL, scope)) for m in methods]
        if any(score is not None for score in found):
            lines.append((channel.name, *(percent(score) for score in found)))
    return lines


def percent(score: ForecastScore | None, *, interval: bool = False) -> str:
    """The reported value of a skill in percent, `-` for none."""
    return score_text.percent(score, baseline=BASELINE, interval=interval)
