"""Tables of the report: skill with intervals and ranks, counts of skips and substitutions, settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wearjax import tasks
from wearjax.channels import CATEGORIES, NAMES
from wearjax.report import words
from wearjax.report.run_folder import RunFolder, Score
from wearjax.scores import completeness

SKILL, RANK, FAIR_SKILL = "skill", "rank", "fair_skill"
FORECAST_CATEGORIES = tuple(name.replace("workouts", "workout") for name in CATEGORIES)
_HEADLINE = (
    "overall",
    "semantic",
    *(f"cat:{name}" for name in CATEGORIES),
    *FORECAST_CATEGORIES,
    *tasks.DOMAINS,
)
_LEAF, _CHANNEL = "task:", "channel_"  # of the forecasting track
_OUTCOMES = {**tasks.TASKS, **tasks.EXTRA_TASKS}


@dataclass(frozen=True)
class Entry:
    """A method of a run: one row of the skill table. `label` is unique on the page.

    Attributes:
        is_own: it is not of this library.
        scores: those that may stand beside other methods' (`scores.completeness`).
    """

    label: str
    method: str
    run: str
    is_baseline: bool
    is_learned: bool
    is_own: bool
    scores: dict[tuple[str, str], Score] = field(repr=False)

    def skill(self, scope: str) -> Score | None:
        return self.scores.get((SKILL, scope))

    def overall(self) -> float:
        """Sorting value: overall skill, the worst possible when there is none."""
        score = self.skill("overall")
        value = (
            0.0 if score is None and self.is_baseline else (math.nan if score is None else value_of(score))
        )
        return -math.inf if math.isnan(value) else value


@dataclass(frozen=True)
class Cell:
    """One cell of a skill table, as text; `sort` is empty where there is no value."""

    value: str = "–"
    interval: str = ""
    rank: str = ""
    sort: str = ""
    best: bool = False
    best_rank: bool = False


@dataclass(frozen=True)
class SkillTable:
    scopes: list[str]
    headings: list[str]
    n_tasks: list[str]
    rows: list[tuple[Entry, list[Cell]]]


def value_of(score: Score) -> float:
    """What is reported: the bootstrap mean, of fair skill the point; the other where a run has only one."""
    first, second = (score.point, score.mean) if score.metric == FAIR_SKILL else (score.mean, score.point)
    return second if math.isnan(first) else first


def percent(value: float) -> str:
    """A skill as percent with one decimal (none from 100 % on) and a true minus sign."""
    text = f"{100 * value:.0f}" if abs(value) >= 0.9995 else f"{100 * value:.1f}"
    return ("0.0" if text == "-0.0" else text).replace("-", "−")


def entries(runs: Sequence[RunFolder]) -> list[Entry]:
    """The methods of all runs, best overall skill first.

    A method that two runs scored identically (the baseline, usually) appears once; one they scored
    differently appears once per run, with the run in its label.
    """
    found: dict[str, list[tuple[RunFolder, dict[tuple[str, str], Score]]]] = {}
    for run in runs:
        lines, methods = run.scores or [], scored_methods(run)
        lacking = completeness.lacking(lines, baseline=run.baseline, methods=methods)
        by_method: dict[str, dict[tuple[str, str], Score]] = {method: {} for method in methods}
        for score in completeness.comparable(lines, lacking, baseline=run.baseline):
            by_method[score.method][score.metric, score.scope] = score
        for method, scores in by_method.items():
            variants = found.setdefault(method, [])
            if not any(_same(scores, other) for _, other in variants):
                variants.append((run, scores))
    rows = []
    for method, variants in found.items():
        for run, scores in variants:
            name = words.plain(method, 60)
            label = name if len(variants) == 1 else f"{name}{words.RUN_MARK}{run.name}"
            is_baseline = method == run.baseline
            own = mapping(run.results.get("config")).get("own_methods")
            is_own = isinstance(own, list) and method in own
            is_learned = words.is_learned(method) and not is_own
            rows.append(Entry(label, method, run.name, is_baseline, is_learned, is_own, scores))
    return sorted(rows, key=lambda entry: (-entry.overall(), entry.label))


def scored_methods(run: RunFolder) -> list[str]:
    """Those that have a score, and those that the evaluation asked in vain."""
    named = run.results.get("methods")
    asked = [m for m in named if isinstance(m, str)] if run.scores and isinstance(named, list) else []
    return list(dict.fromkeys([*(score.method for score in run.scores or ()), *asked]))


def _same(a: dict[tuple[str, str], Score], b: dict[tuple[str, str], Score]) -> bool:
    def numbers(scores: dict[tuple[str, str], Score]) -> dict[tuple[str, str], str]:
        return {
            key: repr((s.point, s.mean, s.ci_lo, s.ci_hi)) for key, s in scores.items() if key[0] == SKILL
        }

    return numbers(a) == numbers(b)


def headline_scopes(rows: Iterable[Entry]) -> list[str]:
    present = {scope for entry in rows for metric, scope in entry.scores if metric in (SKILL, RANK)}
    return [scope for scope in _HEADLINE if scope in present]


def fair_scopes(rows: Iterable[Entry]) -> list[str]:
    """Scopes of the fair skill: overall, then the attributes."""
    present = {
        scope
        for entry in rows
        for metric, scope in entry.scores
        if metric == FAIR_SKILL and not scope.startswith(_CHANNEL)
    }
    return sorted(present, key=lambda scope: (scope != "overall", scope in FORECAST_CATEGORIES, scope))


def scenario_scopes(rows: Iterable[Entry]) -> list[str]:
    """Scenarios with a score: the six known ones in their order, then any other in order of appearance."""
    present = list(
        dict.fromkeys(scope for entry in rows for metric, scope in entry.scores if metric == SKILL)
    )
    named = [scope for scope in words.SCENARIOS if scope in present]
    others = [
        s for s in present
        if s not in words.SCENARIOS and s not in _HEADLINE and not s.startswith((_LEAF, _CHANNEL))
    ]  # fmt: skip
    return named + others


def skill_table(rows: Sequence[Entry], scopes: Sequence[str], *, metric: str = SKILL) -> SkillTable:
    """Skill (or fair skill) in percent with its interval and rank, the best of each column marked."""
    best = {s: _best(_candidates(rows, s, metric), largest=True) for s in scopes}
    # Ranks count the methods of one run: those of two runs do not compare. Fair skills have no rank.
    ranked = rows if len({r.run for r in rows}) == 1 and metric == SKILL else []
    best_rank = {s: _best((r.scores.get((RANK, s)) for r in ranked), largest=False) for s in scopes}
    return SkillTable(
        scopes=list(scopes),
        headings=[words.scope(s) for s in scopes],
        n_tasks=[_tasks(rows, s) if metric == SKILL else "" for s in scopes],
        rows=[(r, [_cell(r, s, best[s], best_rank[s], metric) for s in scopes]) for r in rows],
    )


def _candidates(rows: Sequence[Entry], scope: str, metric: str) -> Iterator[Score]:
    """What may be the best of a column: of as many tasks as any, and no worse than the baseline.

    Equal errors in all subgroups are no merit of a method that makes more of them: it is no best in fair skill.
    """
    most = max((s.n_tasks for r in rows if (s := r.skill(scope)) is not None), default=0)
    for row in rows:
        score = row.scores.get((metric, scope))
        if score is None or value_of(score) < 0 or (metric == FAIR_SKILL and row.overall() < 0):
            continue
        if metric == FAIR_SKILL or score.n_tasks == most:
            yield score


def _best(scores: Iterable[Score | None], *, largest: bool) -> float:
    values = [value_of(s) for s in scores if s is not None and not math.isnan(value_of(s))]
    return math.nan if not values else (max if largest else min)(values)


def _tasks(rows: Sequence[Entry], scope: str) -> str:
    counts = {s.n_tasks for r in rows if (s := r.skill(scope)) is not None and s.n_tasks}
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    outcomes = any(other in tasks.DOMAINS for r in rows for _, other in r.scores)
    unit = {"overall": "scenario", "semantic": "scenario"}.get(scope, "category")
    if any(other.startswith(_CHANNEL) for r in rows for _, other in r.scores):
        unit = "category" if scope == "overall" else "channel"
    if outcomes or scope.startswith("cat:"):
        unit = "task"
    plural = unit if high == 1 else ("categories" if unit == "category" else f"{unit}s")
    return f"{low} {plural}" if low == high else f"{low}–{high} {plural}"


def _cell(entry: Entry, scope: str, best: float, best_rank: float, metric: str) -> Cell:
    score = entry.scores.get((metric, scope))
    rank = entry.scores.get((RANK, scope)) if metric == SKILL else None
    rank_text, rank_value = "", math.nan
    if rank is not None and not math.isnan(rank_value := value_of(rank)):
        rank_text = f"{rank_value:.2f}"
    if score is None and entry.is_baseline:  # by definition; the benchmark omits the row
        return Cell("0.0", "reference", rank_text, "0", best_rank=rank_value == best_rank)
    if score is None or math.isnan(value_of(score)):
        return Cell(rank=rank_text, best_rank=rank_value == best_rank)
    value = value_of(score)
    interval = _interval(score, None).strip()
    if metric != FAIR_SKILL and not (math.isnan(score.mean) or math.isnan(score.point)):
        interval += f"{' ' if interval else ''}point {percent(score.point)}"
    return Cell(
        percent(value),
        "reference" if entry.is_baseline else interval,
        rank_text,
        repr(float(value)),
        # A row that only ties in value may be no candidate.
        best=value == best and (metric != FAIR_SKILL or entry.overall() >= 0),
        best_rank=rank_value == best_rank,
    )


def _interval(score: Score, form: str | None) -> str:
    if math.isnan(score.ci_lo) or math.isnan(score.ci_hi):
        return ""
    if score.n_participants == 1:  # every draw is of the same participant
        return " [not available]"
    low, high = (percent(b) if form is None else form.format(b) for b in (score.ci_lo, score.ci_hi))
    return f" [{low}, {high}]"


def rank_table(rows: Sequence[Entry], scopes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Average rank and its interval, a method a row; empty when no rank was computed."""
    table = []
    for row in rows:
        ranks = [row.scores.get((RANK, s)) for s in scopes]
        if any(r is not None for r in ranks):
            cells = ["–" if r is None else f"{value_of(r):.2f}{_interval(r, '{:.2f}')}" for r in ranks]
            table.append((row.label, cells))
    return table


def channel_table(entry: Entry, scenarios: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Skill of one method by channel (rows) and scenario (columns), in percent."""
    leaves: dict[str, dict[str, str]] = {}
    for (metric, scope), score in entry.scores.items():
        scenario, _, channel = scope.removeprefix(_LEAF).partition(":")
        if metric == SKILL and scope.startswith(_LEAF) and not math.isnan(value_of(score)):
            leaves.setdefault(channel, {})[scenario] = percent(value_of(score))
    order = {name: i for i, name in enumerate((*NAMES, *(f"ch_{i}" for i in range(len(NAMES))), *CATEGORIES))}
    ordered = sorted(leaves, key=lambda c: (order.get(c, len(order)), c))
    return [(words.channel(c), [leaves[c].get(s, "–") for s in scenarios]) for c in ordered]


def task_table(rows: Sequence[Entry]) -> list[tuple[str, str, list[str]]]:
    """Skill of all methods by outcome, in percent: the outcome, its domain, a cell a method."""
    named = [f"{_LEAF}{task.domain}:{code}" for code, task in _OUTCOMES.items()]
    present = {scope for row in rows for metric, scope in row.scores if metric == SKILL}
    table = []
    for scope, task in zip(named, _OUTCOMES.values(), strict=True):
        if scope in present:
            cells = [row.skill(scope) for row in rows]
            table.append(
                (task.display, task.domain, ["–" if c is None else percent(value_of(c)) for c in cells])
            )
    return table


def methods_table(runs: Sequence[RunFolder]) -> list[tuple[str, str, str, str, str]]:
    """Run, method, share and number of substituted predictions, seconds; one row a method that has any."""
    rows = []
    for run in runs:
        rate, count, seconds = (mapping(run.results.get(k)) for k in ("fallback", "substituted", "seconds"))
        for method in dict.fromkeys((*rate, *count, *seconds)):
            share = rate.get(method)
            of_all = f"{share:.2%}" if isinstance(share, int | float) else number(share)
            rows.append(
                (
                    run.name,
                    words.plain(method, 60),
                    _shares(run, method) or of_all,
                    number(count.get(method)),
                    number(seconds.get(method)),
                )
            )
    return rows


def _shares(run: RunFolder, method: str) -> str:
    """Share of substituted answers in each scenario that has any; empty where there is none."""
    found = []
    for scenario, splits in mapping(mapping(run.results.get("metrics")).get(method)).items():
        cell = mapping(mapping(splits).get(str(run.results.get("split"))))
        share = cell.get("overall_fallback_rate")
        if isinstance(share, int | float) and share > 0:
            found.append(f"{words.scope(scenario)} {share:.2%}")
    return ", ".join(found)


def scenario_counts(run: RunFolder) -> list[tuple[str, str, str, str]]:
    """Scenario, what it hides, days it applies to, days in total."""
    return [
        (
            words.scope(name),
            words.SCENARIOS.get(name, ""),
            number(mapping(counts).get("n_applicable")),
            number(mapping(counts).get("n_total")),
        )
        for name, counts in mapping(run.results.get("scenarios")).items()
    ]


def skipped(run: RunFolder) -> list[tuple[str, str]]:
    """Reason and count of everything the evaluation or training left out."""
    rows = [(words.plain(k.replace("_", " ")), number(v)) for k, v in flatten(run.results.get("skipped", {}))]
    if run.cut_lines:
        rows.append(("cut-off last line of metrics.jsonl (the run was stopped while writing)", "1"))
    return rows


def counted(run: RunFolder) -> list[tuple[str, str]]:
    """What methods counted themselves, e.g. series that could not be fitted: method and kind, number."""
    return [
        (words.plain(k.replace(".", ": ")), number(v)) for k, v in flatten(mapping(run.results.get("counts")))
    ]


def filled_cells(run: RunFolder) -> list[tuple[str, str]]:
    """Channel and filled minutes of an imputation of recordings."""
    return [(words.channel(str(k)), number(v)) for k, v in mapping(run.results.get("filled_cells")).items()]


def settings(tree: object) -> list[tuple[str, str]]:
    """Dotted name and value of every leaf, as text."""
    return [(words.plain(name), words.plain(_leaf(value), 500)) for name, value in flatten(tree)]


def _leaf(value: object) -> object:
    return (
        {True: "yes", False: "no", None: "none"}.get(value, value)
        if isinstance(value, bool | None)
        else value
    )


def flatten(tree: object, prefix: str = "") -> list[tuple[str, Any]]:
    """Leaves of a nested dict with dotted names; a list of plain values is one leaf."""
    if isinstance(tree, dict):
        return [leaf for key, value in tree.items() for leaf in flatten(value, f"{prefix}{key}.")]
    if isinstance(tree, list):
        if any(isinstance(item, dict) for item in tree):
            return [leaf for i, value in enumerate(tree) for leaf in flatten(value, f"{prefix}{i}.")]
        tree = ", ".join(str(item) for item in tree)
    return [(prefix.removesuffix("."), tree)] if prefix or tree else []


def number(value: object) -> str:
    """A count with thousands separators, another number with three digits, else the text; – for none."""
    if value is None:
        return "–"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{int(value):,}"
    return words.plain(value)


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
