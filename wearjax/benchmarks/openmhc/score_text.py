"""Scores as text, in the same way on every track."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from wearjax.benchmarks.openmhc.imputation_scores import FAIR_SKILL, SKILL, Score
from wearjax.channels import CHANNELS
from wearjax.scores import completeness, skill

OVERALL = "overall"
_DRAWN = "skill, rank: bootstrap mean; fair: point"
_POINTS = "point estimates, no draws"
ORDER = "order: by overall skill; the rank may order methods otherwise"
FAIR = (
    "fair: how much smaller the differences in error between age groups and between sexes are than the baseline's; "
    "it compares differences only: a method that is equally bad for everybody scores high"
)
NO_FAIR = (
    "fair -: it takes two age groups or both sexes with enough participants scored, and a baseline whose errors differ "
    "between them"
)
_LIMITS = (1.0 - skill.RATIO_MAX, 1.0 - skill.RATIO_MIN)
_ROUNDING = 1e-4  # of a limit; draws are stored as float32


class Comparable:
    """Score lines that may stand beside each other: without those of methods that lack some of their tasks.

    Attributes:
        at: by method, metric and scope.
        lacking: what was left out, as `completeness.lacking` tells it.
    """

    def __init__(self, scores: Iterable[Score], *, baseline: str, methods: Sequence[str] = ()):
        scores = tuple(scores)
        self.baseline, self.methods = baseline, tuple(methods)
        self.lacking = completeness.lacking(scores, baseline=baseline, methods=methods)
        self.at: dict[tuple[str, str, str], Score] = {
            (s.method, s.metric, s.scope): s
            for s in completeness.comparable(scores, self.lacking, baseline=baseline)
        }

    def get(self, method: str, metric: str, scope: str) -> Score | None:
        """The line, None where there is none to show."""
        return self.at.get((method, metric, scope))

    def best_first(self, methods: Sequence[str]) -> list[str]:
        """Methods by their overall skill, as reported; those without one last, the baseline first of equals."""

        def worth(method: str) -> float:
            found = self.get(method, SKILL, OVERALL)
            if found is None:
                return 0.0 if method == self.baseline else -math.inf
            return found.reported

        return sorted(methods, key=lambda m: (-worth(m), m != self.baseline, m))

    def name(self, method: str) -> str:
        """A method in the first column of a table."""
        return f"{method} (baseline)" if method == self.baseline else method

    def remarks(self, *, n_participants: int, with_interval: Collection[str] = (OVERALL,)) -> list[str]:
        """What a reader of the tables must know.

        Args:
            with_interval: the scopes whose skills the tables show with their intervals.
        """
        few = completeness.few_participants(n_participants)
        order = [ORDER] if len(self.methods) > 1 else []
        lines = [
            *order,
            *self._fair(),
            *self._ties(),
            *self._limits(with_interval),
            *completeness.told(self.lacking),
        ]
        return [*lines, *([few] if few else [])]

    def _others(self) -> list[str]:
        return [m for m in self.methods if m != self.baseline]

    def _fair(self) -> list[str]:
        """What fair skill is, and why some methods have none."""
        lines = [FAIR] if any(metric == FAIR_SKILL for _, metric, _ in self.at) else []
        without = [m for m in self._others() if self.get(m, FAIR_SKILL, OVERALL) is None]
        lacking = [m for m in without if OVERALL in self.lacking.get(m, {})]
        if len(without) > len(lacking):
            lines.append(NO_FAIR)
        if lacking:
            lines.append(
                f"fair - of {', '.join(lacking)}: it is of everything together, of which something is lacking"
            )
        return lines

    def _ties(self) -> list[str]:
        """Skills of zero that are no coincidence: in all parts of a scope there is no difference from the baseline."""
        tied: dict[str, list[str]] = {}
        for method in self._others():
            skills = {
                s: found.point for (m, metric, s), found in self.at.items() if (m, metric) == (method, SKILL)
            }
            parts: dict[str, list[float]] = {}
            for leaf in filter(completeness.is_leaf, skills):
                for scope in completeness.scopes_of(leaf)[:-1]:
                    parts.setdefault(scope, []).append(skills[leaf])
            equal = [scope for scope, points in parts.items() if scope in skills and not any(points)]
            if equal:
                where = OVERALL if OVERALL in equal else ", ".join(map(_scope, equal))
                tied.setdefault(where, []).append(method)
        return [
            f"{', '.join(methods)}: a tie with {self.baseline} in every part of {where} that has a skill, hence 0"
            for where, methods in tied.items()
        ]

    def _limits(self, with_interval: Collection[str]) -> list[str]:
        """Skills whose value or interval ends where the error ratios are cut."""
        touched: dict[str, list[str]] = {}
        for (method, metric, scope), found in self.at.items():
            ends = (found.ci_lo, found.ci_hi) if scope in with_interval else ()
            shown = (found.reported, *ends)
            name = _scope(scope) if metric == SKILL else "fair"
            of_table = (
                not scope.startswith("task:") if metric == SKILL else (metric, scope) == (FAIR_SKILL, OVERALL)
            )
            if of_table and any(map(_is_limit, shown)):
                touched.setdefault(method, []).append(name)
        if not touched:
            return []
        low, high = (f"{100 * limit:.1f}" for limit in _LIMITS)
        told = "; ".join(
            f"{method}: {', '.join(dict.fromkeys(scopes))}" for method, scopes in touched.items()
        )
        return [
            f"{low} and {high} are the limits of a skill, for an error counts as at most {skill.RATIO_MAX:g} times and "
            f"at least {skill.RATIO_MIN:g} times the baseline's; a value or interval reaches one in {told}"
        ]


def _is_limit(value: float) -> bool:
    return any(math.isclose(value, limit, rel_tol=_ROUNDING) for limit in _LIMITS)


def _scope(scope: str) -> str:
    """A scope as the tables name it."""
    if scope.startswith("channel_"):
        return channel(scope.replace("channel_", "ch_"))
    return scope.removeprefix("cat:")


def written(folder: Path | None) -> list[str]:
    """The last line: where the run lies, if it was written."""
    return [] if folder is None else [f"run folder: {folder}"]


def heading(evaluated: str, *, baseline: str, n_boot: int) -> str:
    """The first line of a summary: what was evaluated, and how its tables are to be read."""
    how = _DRAWN if n_boot else _POINTS
    return f"{evaluated}. Skill and fair skill in %, {baseline} = 0; {how}"


def replaced(method: str, n: int, what: str, where: Mapping[str, float]) -> str:
    """How many answers of a method were not its own.

    Args:
        what: of what kind, and what took their place.
        where: share by scenario, task or the like; those without are not said.
    """
    shares = sorted(((share, name) for name, share in where.items() if share), reverse=True)
    told = ", ".join(f"{name} {share:.2%}" for share, name in shares[:6])
    more = f" and {len(shares) - 6} more" if len(shares) > 6 else ""
    return f"{method}: {n:,} {what}" + (f" ({told}{more})" if told else "")


def channel(code: str) -> str:
    """The name of a channel by its published code: `watch_hr` of `ch_5`; any other text stays."""
    number = code.removeprefix("ch_")
    known = code.startswith("ch_") and number.isdecimal() and int(number) < len(CHANNELS)
    return CHANNELS[int(number)].name if known else code


def percent(score: Score | None, *, baseline: str, interval: bool = False) -> str:
    """The reported value of a skill in percent, `-` for none; the baseline's, 0 by definition, has no interval."""
    if score is None:
        return "-"
    if not interval or math.isnan(score.ci_lo) or score.method == baseline:
        return f"{100 * score.reported:.1f}"
    if score.n_participants == 1:
        return f"{100 * score.reported:.1f} [-]"  # all draws are of the same participant
    return f"{100 * score.reported:.1f} [{100 * score.ci_lo:.1f}, {100 * score.ci_hi:.1f}]"


def rank(score: Score | None, *, interval: bool = False) -> str:
    """The reported rank, `-` for none."""
    if score is None:
        return "-"
    if not interval or math.isnan(score.ci_lo):
        return f"{score.reported:.2f}"
    shown = "-" if score.n_participants == 1 else f"{score.ci_lo:.2f}, {score.ci_hi:.2f}"
    return f"{score.reported:.2f} [{shown}]"
