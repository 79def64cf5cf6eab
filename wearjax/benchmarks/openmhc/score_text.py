"""Scores as text, in the same way on every track."""

from __future__ import annotations

import math

from wearjax.benchmarks.openmhc.imputation_scores import Score


def percent(score: Score | None, *, baseline: str, interval: bool = False) -> str:
    """The reported value of a skill in percent, `-` for none; the baseline's, 0 by definition, has no interval."""
    if score is None:
        return "-"
    if not interval or math.isnan(score.ci_lo) or score.method == baseline:
        return f"{100 * score.reported:.1f}"
    return f"{100 * score.reported:.1f} [{100 * score.ci_lo:.1f}, {100 * score.ci_hi:.1f}]"


def rank(score: Score | None, *, interval: bool = False) -> str:
    """The reported rank, `-` for none."""
    if score is None:
        return "-"
    shown = f" [{score.ci_lo:.2f}, {score.ci_hi:.2f}]" if interval and not math.isnan(score.ci_lo) else ""
    return f"{score.reported:.2f}{shown}"
