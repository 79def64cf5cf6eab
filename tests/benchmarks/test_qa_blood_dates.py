"""A blood panel drawn after a question's end date is not known to it, nor shown by it."""

from __future__ import annotations

import dataclasses
import datetime as dt

import numpy as np
import pytest
from made_daily import END
from made_health import NORMAL, asked, at, someone, the_one

from wearjax.benchmarks.wearableqa import leakage, reads, windows
from wearjax.benchmarks.wearableqa.candidate import Person
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf
from wearjax.benchmarks.wearableqa.questions import health, multimodal_phenotype, risk_assessment

RESTED = {"rhr": 60, "vo2_max": 60, "sleep_duration": 60, "bed_time_std": 60}
LAST = windows.EPOCH + dt.timedelta(days=END)
LDL = Graph({"ldl": Leaf("blood", "ldl")}, (), "ldl")


def drawn(after: int | None, *, blood=None) -> Person:
    """Everything drawn so many days after the end date; without a date for None."""
    who = someone(at(RESTED), blood={**NORMAL, "ldl": 190} if blood is None else blood)
    date = None if after is None else LAST + dt.timedelta(days=after)
    panel = {key: dataclasses.replace(value, date=date) for key, value in who.record.blood.items()}
    return Person(dataclasses.replace(who.record, blood=panel), who.cohort)


@pytest.mark.parametrize(("after", "known"), [(-90, True), (0, True), (None, True), (1, False), (60, False)])
def test_only_what_was_drawn_by_the_end_date_is_known(after, known):
    who = drawn(after)
    assert ("ldl" in who.blood(END)) == known
    assert np.isfinite(reads.read(LDL, who, END)["ldl"]).all() == known
    assert ("ldl" in health.markers(who, "lipid", END)) == known
    assert bool(asked(risk_assessment, who)) == known


def test_an_older_end_date_knows_less():
    who = drawn(-10)
    assert "ldl" in who.blood(END)
    assert not who.blood(END - 14)


def test_a_marker_that_came_later_is_left_out_alone():
    who = drawn(-10)
    late = dataclasses.replace(who.record.blood["tsh"], date=LAST + dt.timedelta(days=3))
    who = Person(dataclasses.replace(who.record, blood={**who.record.blood, "tsh": late}), who.cohort)
    candidate = the_one(risk_assessment, who)
    place = risk_assessment.WORDS.index("thyroid")
    assert {option.key[place] for option in (candidate.gold, *candidate.distractors)} == {-1.0}
    assert len(who.blood(END)) == len(NORMAL) - 1


def test_leaks_are_looked_for_in_what_is_shown():
    candidate = the_one(risk_assessment, drawn(-10))
    number = dataclasses.replace(candidate, gold=dataclasses.replace(candidate.gold, key=(190.0,)))
    assert leakage.found(number, drawn(-10), numeric=True) == "the gold's number 190 is shown"
    assert leakage.found(number, drawn(5), numeric=True) is None


def test_phenotypes_show_one_state_of_the_blood_and_one_other_cell():
    """So that nearly every option has four neighbours among the others, as the gold has."""
    favour = dict.fromkeys((*multimodal_phenotype.FITNESS, *multimodal_phenotype.RECOVERY), 80)
    candidate = the_one(multimodal_phenotype, someone(at(favour), blood=NORMAL))
    keys = [option.key for option in (candidate.gold, *candidate.distractors)]
    assert sum(key[2] == candidate.gold.key[2] for key in keys) == 9
    near = [sum(sum(a != b for a, b in zip(one, other, strict=True)) == 1 for other in keys) for one in keys]
    assert sorted(near)[1:] >= [4] * 9
