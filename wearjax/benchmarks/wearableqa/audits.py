"""Audits of finished questions: shortcuts, answers that the data do not decide, and wording.

Audits and limits are this project's, after the faults that WearableQA reports of its own first generation. A shortcut
may reach 10 % and three standard errors, no more.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wearjax import writing
from wearjax.benchmarks.wearableqa import dataset as datasets
from wearjax.benchmarks.wearableqa import registry
from wearjax.benchmarks.wearableqa.candidate import QuestionType
from wearjax.benchmarks.wearableqa.dataset import Dataset

CHANCE = 0.10
SE_FACTOR = 3.0
ALL = "all"
GROUPS = ("data", "health")


@dataclass(frozen=True)
class Finding:
    """One number of one audit.

    Attributes:
        type: of the questions, or `all`, or a reasoning group.
        n: questions that it was taken over.
        limit: the least or the most allowed; None: nothing is demanded.
        passed: None where it could not be measured, or nothing is demanded.
    """

    audit: str
    type: str
    n: int
    value: float | None
    limit: float | None = None
    passed: bool | None = None
    note: str = ""


def at_most(audit: str, of: str, n: int, value: float, limit: float, note: str = "") -> Finding:
    return Finding(audit, of, n, value, limit, value <= limit + 1e-12, note)


def at_least(audit: str, of: str, n: int, value: float, limit: float, note: str = "") -> Finding:
    return Finding(audit, of, n, value, limit, value >= limit - 1e-12, note)


def by_chance(n: int) -> float:
    """What a shortcut may reach over n questions of ten options."""
    return CHANCE + SE_FACTOR * math.sqrt(CHANCE * (1 - CHANCE) / max(n, 1))


def run(
    built: Dataset,
    *,
    types: Mapping[str, QuestionType] | None = None,
    seed: int = 0,
    sampled: int = 3,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Runs all audits that need no language model; writes `audit.json`, and what people should look at to the queue.

    Args:
        types: question types of one's own.
        sampled: questions of each type that people are asked to look at, besides those with faults.
        progress: called with (questions answered again, questions).
    """
    from wearjax.benchmarks.wearableqa import audit_queue, audit_records, audit_shortcuts, audit_wording

    known = registry.TYPES if types is None else types
    found, faults = audit_wording.run(built)
    again, more = audit_records.run(built, known, progress=progress)
    for name, reasons in more.items():
        faults.setdefault(name, []).extend(reasons)
    found += again + audit_shortcuts.run(built.items, known, seed=seed)
    audit_queue.add(built, faults, sampled=sampled, seed=seed)
    write(built, found)  # last: with it the audit counts as done
    return found


def failed(found: Sequence[Finding]) -> list[Finding]:
    return [each for each in found if each.passed is False]


def write(built: Dataset, found: Sequence[Finding]) -> None:
    """Writes `audit.json`."""
    content: dict[str, Any] = {
        "dataset": built.digest,
        "failed": len(failed(found)),
        "not_run": sum(each.value is None for each in found),
        "findings": [asdict(each) for each in found],
    }
    file = built.path / datasets.AUDIT
    with writing.file(file) as partial:
        partial.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def to_text(found: Sequence[Finding]) -> str:
    """A line for each audit, and one for each failure."""
    lines = []
    width = max((len(each.audit) for each in found), default=0)
    for audit in dict.fromkeys(each.audit for each in found):
        every = [each for each in found if each.audit == audit]
        judged = [each for each in every if each.passed is not None]
        shown = [each for each in every if each.type in (ALL, *GROUPS)] or judged[:1]
        told = [_told(each) for each in shown]
        if len(judged) > 1:
            told.append(f"{sum(bool(each.passed) for each in judged)} of {len(judged)} passed")
        missing = [each for each in every if each.value is None]
        if missing:
            told.append(f"not run for {', '.join(each.type for each in missing)} ({missing[0].note})")
        lines.append(f"{audit.ljust(width)}  {'; '.join(told)}")
        lines += [f"{'FAILED'.rjust(width)}  {_told(each)} {each.note}".rstrip() for each in failed(every)]
    return "\n".join(lines)


def _told(one: Finding) -> str:
    limit = "" if one.limit is None else f" (limit {one.limit:.3g})"
    return f"{one.type}: {'not run' if one.value is None else f'{one.value:.3g}'}{limit}, n = {one.n}"
