"""Which surgeries VitalBench takes: its inclusion criteria, with counts of what was left out and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case
from wearjax.vitals import Centre


@dataclass(frozen=True)
class Criteria:
    """Inclusion criteria (VitalBench, section 2); the defaults are the published ones.

    Attributes:
        min_hours: length of the surgery, inclusive.
        min_age: years, inclusive.
        weight_above: kilograms, exclusive.
        general_anaesthesia: the anaesthesia has to be a general one.
        all_targets: every target has at least one value. Not a published criterion: the benchmark also filtered
            by completeness, without saying how.
    """

    min_hours: float = 2.0
    min_age: float = 18.0
    weight_above: float = 35.0
    general_anaesthesia: bool = True
    all_targets: bool = False


@dataclass(frozen=True)
class Facts:
    """What the criteria ask of a surgery; None where it is not known."""

    hours: float | None
    age: float | None
    weight: float | None
    general_anaesthesia: bool | None


def reason(facts: Facts, criteria: Criteria) -> str | None:
    """Why the surgery is left out, the first criterion that it fails; None when it is taken.

    What is not known is not taken to be fulfilled.
    """
    if facts.hours is None:
        return "length of surgery unknown"
    if facts.hours < criteria.min_hours:
        return f"surgery shorter than {criteria.min_hours:g} h"
    if criteria.general_anaesthesia and facts.general_anaesthesia is None:
        return "kind of anaesthesia unknown"
    if criteria.general_anaesthesia and not facts.general_anaesthesia:
        return "not general anaesthesia"
    if facts.age is None:
        return "age unknown"
    if facts.age < criteria.min_age:
        return f"younger than {criteria.min_age:g} y"
    if facts.weight is None:
        return "weight unknown"
    if facts.weight <= criteria.weight_above:
        return f"weight not above {criteria.weight_above:g} kg"
    return None


def facts_of(case: Case, centre: Centre) -> Facts:
    """The facts of a surgery; the recorded length stands for that of the surgery where only this is known."""
    hours = case.surgery_hours
    if hours is None:
        hours = len(case.values) * centre.step_seconds / 3600
    age, weight = (_static(case, centre, name) for name in ("Age", "weight"))
    return Facts(hours, age, weight, case.general_anaesthesia)


def included(cases: Iterable[Case], centre: Centre, criteria: Criteria, *, tally: Tally) -> Iterator[Case]:
    """Yields the surgeries that fulfil the criteria and counts the others by reason."""
    for case in cases:
        why = reason(facts_of(case, centre), criteria)
        if why is None and criteria.all_targets:
            present = case.values[:, centre.n_covariates :].any(axis=0)
            if not present.all():
                why = "a target was never recorded"
        if why is None:
            yield case
        else:
            tally.skip("case", why)


def _static(case: Case, centre: Centre, name: str) -> float | None:
    position = centre.find(name)
    assert position is not None
    recorded = case.values[:, position]
    first = np.flatnonzero(recorded)
    return float(recorded[first[0]]) if len(first) else None
