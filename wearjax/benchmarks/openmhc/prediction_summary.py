"""The scores of a prediction evaluation as text tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import prediction_scores, score_text
from wearjax.benchmarks.openmhc.imputation_scores import Score
from wearjax.benchmarks.openmhc.prediction_scores import FAIR_SKILL, OVERALL, RANK, SKILL
from wearjax.tasks import BASELINE

if TYPE_CHECKING:
    from wearjax.benchmarks.openmhc.prediction_results import PredictionResults


def text(results: PredictionResults) -> str:
    """Tables, a row a method, best first: the overall scores, then skill and rank by domain; and remarks."""
    head = score_text.heading(f"Prediction, {results.cohort}", baseline=BASELINE, n_boot=results.n_boot)
    found = comparable(results)
    methods = found.best_first(results.methods)
    domains = prediction_scores.domains_of([p.task for p in results.predictions]).names
    parts = [
        [head, *_headline(results, found, methods)],
        _by_domain(found, methods, domains, SKILL, percent),
        _by_domain(found, methods, domains, RANK, _rank),
        [*_remarks(results, found, domains), *score_text.written(results.run_dir)],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def comparable(results: PredictionResults) -> score_text.Comparable:
    """The scores that may be shown beside each other."""
    return score_text.Comparable(results.scores, baseline=BASELINE, methods=results.methods)


def percent(score: Score | None, *, interval: bool = True) -> str:
    """The reported value of a skill in percent, `-` for none."""
    return score_text.percent(score, baseline=BASELINE, interval=interval)


def _rank(score: Score | None) -> str:
    return score_text.rank(score, interval=True)


def _headline(results: PredictionResults, found: score_text.Comparable, methods: Sequence[str]) -> list[str]:
    lines = [("method", "rank", "skill", "fair", "fallback")]
    for m in methods:
        rank, skill = _rank(found.get(m, RANK, OVERALL)), percent(found.get(m, SKILL, OVERALL))
        fair = percent(found.get(m, FAIR_SKILL, OVERALL))
        lines.append((found.name(m), rank, skill, fair, f"{results.fallback_rates[m]:.2%}"))
    return result_files.aligned(lines)


def _by_domain(
    found: score_text.Comparable,
    methods: Sequence[str],
    domains: Sequence[str],
    metric: str,
    shown: Callable[[Score | None], str],
) -> list[str]:
    lines: list[tuple[str, ...]] = [(metric, *domains)]
    for m in methods:
        lines.append((found.name(m), *(shown(found.get(m, metric, d)) for d in domains)))
    return result_files.aligned(lines)


def _remarks(results: PredictionResults, found: score_text.Comparable, domains: Sequence[str]) -> list[str]:
    """What the tables cannot show."""
    lines = [f"fallback: the share of predictions that {BASELINE} gave", *_not_evaluated(results)]
    lines += [
        f"{m}: no metric in {', '.join(tasks)} (one label only, or the same prediction for everybody)"
        for m, tasks in results.undefined.items()
        if tasks
    ]
    lines += [
        score_text.replaced(
            m, n, f"predictions were not finite: {BASELINE} stands in", results.fallback_rate_of(m)
        )
        for m in results.methods
        if (n := sum(results.substituted.get(m, {}).values()))
    ]
    people = max((len(p.users) for p in results.predictions), default=0)
    lines += _without_skill(results)
    return lines + found.remarks(n_participants=people, with_interval=(OVERALL, *domains))


def _not_evaluated(results: PredictionResults) -> list[str]:
    """Tasks that were asked for and left out, by the reason."""
    scored = {p.task.code for p in results.predictions}
    by_reason: dict[str, list[str]] = {}
    for told in results.skipped:
        head, _, reason = told.partition(": ")
        code = head.removeprefix("task ")
        if code != head and code not in scored:
            by_reason.setdefault(reason, []).append(code)
    return [f"not evaluated: {', '.join(codes)} ({reason})" for reason, codes in by_reason.items()]


def _without_skill(results: PredictionResults) -> list[str]:
    """Tasks in which methods have an error and none a skill: that of the baseline is zero."""
    if len(results.methods) == 1:
        return []
    scored = {s.scope for s in results.scores if s.metric == SKILL and s.method != BASELINE}
    known = {s.scope for s in results.scores if s.metric == RANK and s.method == BASELINE}
    ranked = {s.scope for s in results.scores if s.metric == RANK and s.method != BASELINE}
    leaves = {p.task.code: f"task:{p.task.domain}:{p.task.code}" for p in results.predictions}
    perfect = [code for code, leaf in leaves.items() if leaf in (known & ranked) - scored]
    return [f"no skill in {', '.join(perfect)}: {BASELINE} makes no error there"] if perfect else []
