"""Gate G5: nothing that the prompt shows beside the question may give the answer away."""

from __future__ import annotations

import math
from collections.abc import Iterator

from wearjax import daily_metrics
from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Person


def found(candidate: Candidate, person: Person, *, numeric: bool) -> str | None:
    """What leaks, None where nothing does.

    The gold's text may not stand in the profile, blood or cohort section and, where answers are amounts, neither may
    its number as it is printed there. A hidden metric's partners by definition must be hidden with it, and an answer
    may rest only on days that the prompt can show or that are declared as the future.
    """
    return _hidden(candidate) or _unshown(candidate) or _text(candidate, person, numeric)


def printed(value: float) -> float:
    """A number as prompts print it: three decimals below 1, two below 10, one below 1000, none above."""
    size = abs(value)
    return round(value, 3 if size < 1 else 2 if size < 10 else 1 if size < 1000 else 0)


def _hidden(candidate: Candidate) -> str | None:
    hidden = candidate.hidden
    if hidden.series:
        return None
    for where, gone in (
        (hidden.metrics, set(hidden.metrics)),
        (hidden.window_metrics, {*hidden.metrics, *hidden.window_metrics}),
    ):
        for metric in where:
            for partner in daily_metrics.partners(metric):
                if partner not in gone:
                    return f"{partner} gives the hidden {metric} away"
    return None


def _unshown(candidate: Candidate) -> str | None:
    earliest, latest = windows.HISTORY_RANGE[0], windows.FUTURE[1]
    for name, leaf in candidate.graph.leaves.items():
        if leaf.kind != "series":
            continue
        inside = leaf.group == "window"  # days outside it read as missing
        open_ = inside or leaf.group == "future"
        if leaf.first < earliest or leaf.last > (latest if open_ else 0):
            return f"leaf {name} reads days {leaf.first} to {leaf.last}"
    return None


def _text(candidate: Candidate, person: Person, numeric: bool) -> str | None:
    text = candidate.gold.text.casefold()
    for words in _words(candidate, person):
        if text in words.casefold():
            return f"the gold stands in {words!r}"
    if not numeric:
        return None
    for number in _numbers(candidate, person):
        shown = printed(number)
        if any(math.isclose(shown, each, rel_tol=1e-9, abs_tol=1e-12) for each in candidate.gold.key):
            return f"the gold's number {number:g} is shown"
    return None


def _words(candidate: Candidate, person: Person) -> Iterator[str]:
    profile = person.record.demographics
    written = (profile.sex, profile.ethnicity, profile.age_band, profile.bmi_band)
    yield from (words for words in written if words)
    if not candidate.hidden.blood:
        yield from person.blood(candidate.end)


def _numbers(candidate: Candidate, person: Person) -> Iterator[float]:
    profile = person.record.demographics
    yield from (number for number in (profile.age, profile.bmi) if number is not None)
    if not candidate.hidden.blood:
        yield from (value.value for value in person.blood(candidate.end).values())
    if not candidate.hidden.cohort:
        for metric in daily_metrics.CORE:
            yield from person.cohort.percentiles.get(metric, {}).values()
