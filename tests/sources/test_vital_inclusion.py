"""The published inclusion criteria, at their edges, with counts by reason."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.sources import vital_inclusion
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case
from wearjax.sources.vital_inclusion import Criteria, Facts
from wearjax.vitals import CENTRES

CENTRE = CENTRES["mover"]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (Facts(2.0, 18, 35.1, True), None),
        (Facts(1.99, 18, 60, True), "surgery shorter than 2 h"),
        (Facts(None, 18, 60, True), "length of surgery unknown"),
        (Facts(3, 17.9, 60, True), "younger than 18 y"),
        (Facts(3, None, 60, True), "age unknown"),
        (Facts(3, 50, 35.0, True), "weight not above 35 kg"),
        (Facts(3, 50, None, True), "weight unknown"),
        (Facts(3, 50, 60, False), "not general anaesthesia"),
        (Facts(3, 50, 60, None), "kind of anaesthesia unknown"),
    ],
)
def test_criteria(facts, why):
    assert vital_inclusion.reason(facts, Criteria()) == why


def case(minutes=130, age=50.0, weight=70.0, general=True, hours=None) -> Case:
    values = np.ones((minutes, CENTRE.n_variables), np.float32)
    values[:, CENTRE.index("Age")], values[:, CENTRE.index("Wt")] = age, weight
    return Case(f"{minutes}-{age}-{weight}", None, values, hours, general)


def test_cases_left_out_are_counted_and_the_recording_stands_for_an_unknown_length():
    without = case()
    without.values[:, -1] = 0
    cases = [
        case(),
        case(119),
        case(119, hours=2.5),
        case(130, hours=1),
        case(age=0),
        case(weight=20),
        without,
    ]
    tally = Tally()
    kept = list(vital_inclusion.included(cases, CENTRE, Criteria(all_targets=True), tally=tally))
    assert [id(c) for c in kept] == [id(cases[0]), id(cases[2])]
    assert tally.skipped == {
        ("case", "surgery shorter than 2 h"): 2,
        ("case", "age unknown"): 1,
        ("case", "weight not above 35 kg"): 1,
        ("case", "a target was never recorded"): 1,
    }
    assert len(list(vital_inclusion.included(cases, CENTRE, Criteria(), tally=Tally()))) == 3
