"""Scores as text, in the same way on every track."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from wearjax.benchmarks.openmhc.imputation_scores import FAIR_SKILL, SKILL, Score
from wearjax.channels import CHANNELS
from wearjax.scores import completeness

HEAD = "skill, rank: bootstrap mean; fair: point"
POINTS = "point estimates, no draws"
FAIR = "fair: how much smaller the differences in error between age groups and between sexes are than the baseline's"


class Comparable:
    """Score lines that may stand beside each other: without those of methods that lack some of their tasks.

    Attributes:
        at: by method, metric and scope.
        lacking: what was left out, as `completeness.lacking` tells it.
    """

    def __init__(self, scores: Iterable[Score], *, baseline: str, methods: Sequence[str] = ()):
        scores = tuple(scores)
        self.baseline = baseline
        self.lacking = completeness.lacking(scores, baseline=baseline, methods=methods)
        self.at: dict[tuple[str, str, str], Score] = {
            (s.method, s.metric, s.scope): s
            for s in completeness.comparable(scores, self.lacking, baseline=baseline)
        }

    def get(self, method: str, metric: str, scope: str) -> Score | None:
        """The line, None where there is none to show."""
        return self.at.get((method, metric, scope))

    def best_first(self, methods: Sequence[str]) -> list[str]:
        """Methods by their overall skill, as reported; those that have none to show last."""

        def worth(method: str) -> float:
            found = self.get(method, SKILL, "overall")
            if found is None:
                return 0.0 if method == self.baseline else -math.inf
            return found.reported

        return sorted(methods, key=lambda m: (-worth(m), m))

    def name(self, method: str) -> str:
        """A method in the first column of a table."""
        return f"{method} (baseline)" if method == self.baseline else method

    def remarks(self, *, n_participants: int) -> list[str]:
        """What a reader of the tables must know."""
        few = completeness.few_participants(n_participants)
        fair = [FAIR] if any(metric == FAIR_SKILL for _, metric, _ in self.at) else []
        return [*fair, *completeness.told(self.lacking), *([few] if few else [])]


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
