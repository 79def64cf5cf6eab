"""Planted people whose answers are known, for the health types about a state, and plants too close to a line."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from made_daily import END
from made_health import MIDDLE, NORMAL, asked, at, noise, outcome, someone, the_one

from wearjax import biomarkers
from wearjax.benchmarks.wearableqa import cohort, relations
from wearjax.benchmarks.wearableqa.primitives import OPS
from wearjax.benchmarks.wearableqa.questions import (
    cross_signal_prediction,
    fitness_prediction,
    multimodal_phenotype,
    risk_assessment,
)
from wearjax.errors import ConfigError

# --- the table of markers, and relations


def test_flags_of_markers():
    assert biomarkers.flag("ldl", 100) == "normal"
    assert biomarkers.flag("ldl", 145) == "borderline"
    assert biomarkers.flag("ldl", 170) == "high"
    assert biomarkers.flag("tsh", 0.05) == "high"
    assert biomarkers.flag("tsh", 0.25) == "borderline"
    assert biomarkers.flag("haemoglobin", 12.5, "male") == "high"
    assert biomarkers.flag("haemoglobin", 12.5, "female") == "normal"
    assert biomarkers.flag("haemoglobin", 12.5) == "undefined"
    assert biomarkers.flag("ldl", float("nan")) == "undefined"
    with pytest.raises(ConfigError, match="cholestrol"):
        biomarkers.flag("cholestrol", 1)


@pytest.mark.parametrize("key", biomarkers.BY_KEY)
def test_flags_are_undefined_near_every_limit(key):
    for limits in biomarkers.BY_KEY[key].limits:
        for edge in limits.of("female"):
            for share in (0.9701, 1.0, 1.0299):
                assert biomarkers.flag(key, edge * share, "female") == "undefined"
            beyond = 1.031 if limits.direction == "up" else 0.969
            assert biomarkers.flag(key, edge * beyond, "female") in ("borderline", "high")


def test_table_is_complete_and_unreviewed():
    assert len(biomarkers.MARKERS) == 17
    assert biomarkers.unreviewed() == tuple(biomarkers.BY_KEY)
    assert not any(relation.verified for relation in relations.RELATIONS.values())
    assert set(risk_assessment._BLOOD) <= set(biomarkers.DOMAINS)


def test_a_relation_counts_with_two_studies_and_a_verifier():
    known = {
        "id": "x",
        "a": "steps",
        "b": "rhr",
        "direction": -1,
        "verifier": "somebody",
        "date": "2030-01-01",
    }
    assert relations.Relation(**known, support=("doi:1", "doi:2")).verified
    assert not relations.Relation(**known, support=("doi:1", "doi:1")).verified
    assert not relations.Relation(**known | {"verifier": None}, support=("doi:1", "doi:2")).verified


# --- 9 risk_assessment

RESTED = {"rhr": 60, "vo2_max": 60, "sleep_duration": 60, "bed_time_std": 60}


@pytest.mark.parametrize(
    ("blood", "favour", "active"),
    [
        ({}, {}, set()),
        ({"ldl": 190}, {}, {"blood lipids"}),
        ({"glucose": 140, "alt": 80}, {}, {"glucose", "liver"}),
        ({"ferritin": 8}, {"rhr": 10, "vo2_max": 10}, {"iron stores", "fitness"}),
        ({"tsh": 15}, {"sleep_duration": -10}, {"thyroid", "sleep"}),
        ({}, {"bed_time_std": -10}, {"sleep"}),
    ],
)
def test_active_domains(blood, favour, active):
    who = someone(at({**RESTED, **favour}), blood={**NORMAL, **blood})
    candidate = the_one(risk_assessment, who)
    stated = {
        word for word, state in zip(risk_assessment.WORDS, candidate.gold.key, strict=True) if state == 1
    }
    assert stated == active
    assert outcome(risk_assessment, who, candidate) == ""
    assert any(option.text.endswith("other one: none") for option in candidate.distractors) == bool(active)


def test_risk_needs_clear_flags_and_margins():
    assert not asked(risk_assessment, someone(at(RESTED), blood={**NORMAL, "ldl": 145}))  # borderline
    assert not asked(risk_assessment, someone(at(RESTED), blood={**NORMAL, "ldl": 161}))  # near the limit
    many = {**NORMAL, "ldl": 190, "alt": 80, "tsh": 15, "glucose": 140}
    assert not asked(risk_assessment, someone(at(RESTED), blood=many))
    near = at({**RESTED, "rhr": 22, "vo2_max": 22})
    assert outcome(risk_assessment, someone(near, blood=NORMAL)) == "G2d"


def test_risk_leaves_out_what_is_not_measured():
    blood = {key: value for key, value in NORMAL.items() if key != "tsh"}
    candidate = the_one(risk_assessment, someone(at(RESTED), blood={**blood, "hs_crp": 6}))
    place = risk_assessment.WORDS.index("thyroid")
    assert {option.key[place] for option in (candidate.gold, *candidate.distractors)} == {-1.0}
    assert "thyroid" not in candidate.stem


# --- 10 multimodal_phenotype


@pytest.mark.parametrize(
    ("fitness", "recovery", "ldl"), [(15, 50, 90), (85, 15, 190), (50, 90, 190), (80, 80, 90)]
)
def test_phenotype(fitness, recovery, ldl):
    favour = dict.fromkeys(multimodal_phenotype.FITNESS, fitness) | dict.fromkeys(
        multimodal_phenotype.RECOVERY, recovery
    )
    who = someone(at(favour), blood={**NORMAL, "ldl": ldl})
    candidate = the_one(multimodal_phenotype, who)
    assert candidate.gold.key == (fitness // 33.4, recovery // 33.4, float(ldl > 160))
    assert outcome(multimodal_phenotype, who, candidate) == ""
    apart = [
        sum(a != b for a, b in zip(o.key, candidate.gold.key, strict=True)) for o in candidate.distractors[:9]
    ]
    assert apart.count(1) >= 4
    assert "bedtime irregularity p10" in candidate.stem


def test_phenotype_near_a_cut():
    favour = dict.fromkeys(multimodal_phenotype.FITNESS, 36) | dict.fromkeys(
        multimodal_phenotype.RECOVERY, 50
    )
    assert outcome(multimodal_phenotype, someone(at(favour), blood=NORMAL)) == "G2d"


def test_no_ten_phenotypes_without_opposites_hide_the_right_one():
    """Why a false phenotype may differ in all axes: else at most five options of any ten could be right."""
    cells = np.array(multimodal_phenotype.CELLS)
    opposite = (cells[:, None] != cells).all(axis=-1) @ (1 << np.arange(len(cells)))
    most = 0
    for ten in itertools.combinations(range(len(cells)), 10):
        chosen = sum(1 << i for i in ten)
        most = max(most, sum(not int(opposite[i]) & chosen for i in ten))
    assert most == 5


def test_any_false_phenotype_of_the_other_state_is_drawn():
    """Seen from the options, each of the nine that share a state is as likely the right one."""
    key = (1.0, 1.0, 0.0)
    who = someone(at({"rhr": 50}))
    drawn = set()
    for end in range(END, END + 100):
        found = [option.key for option in multimodal_phenotype._distractors(key, who, end)]
        drawn |= {each for each in found if each[2] == 1}
        assert sum(each[2] == 1 for each in found) == 1
        assert sum(sum(a != b for a, b in zip(each, key, strict=True)) == 1 for each in found) >= 4
    assert len(drawn) == 9


@pytest.mark.parametrize(("n", "fitness"), [(200, 0), (199, 2)])
def test_phenotype_among_peers_where_there_are_enough(n, fitness):
    """Fit for the whole cohort, but not among the many fitter people of the same sex and age."""
    metrics = (*multimodal_phenotype.FITNESS, *multimodal_phenotype.RECOVERY)
    alike = someone(at(dict.fromkeys(metrics, 130)), age=35.0, sex="female").record
    others = someone(at(dict.fromkeys(metrics, 10)), age=65.0, sex="female").record
    people = [dataclasses.replace(alike if i < n else others, user=f"p{i:03}") for i in range(n + 800)]
    reference = cohort.of_records(people)
    series = at(
        dict.fromkeys(multimodal_phenotype.FITNESS, 80) | dict.fromkeys(multimodal_phenotype.RECOVERY, 131)
    )
    who = dataclasses.replace(someone(series, blood=NORMAL, age=38.0), cohort=reference)
    candidate = the_one(multimodal_phenotype, who)
    assert candidate.gold.key[0] == fitness
    assert ("people of the same sex and age band" in candidate.stem) == (n == 200)
    if n == 200:
        points = reference.of_peers("rhr", age=38.0, sex="female")
        assert f"p50 {points['p50']:.4g}" in candidate.stem
        assert candidate.stem.count(" p10 ") == len(metrics)


# --- 11 fitness_prediction

FLAGGED = {**NORMAL, "hdl": 30, "triglycerides": 300, "glucose": 150}


@pytest.mark.parametrize(
    ("favour", "blood", "body", "code"),
    [
        ({"rhr": 85, "steps": 85}, NORMAL, (22, 30), 7),
        ({"rhr": 85, "steps": 50}, NORMAL, (22, 30), 6),
        ({"rhr": 15, "steps": 15}, FLAGGED, (33, 50), 0),
        ({"rhr": 50, "steps": 50, "sleep_duration": 10}, {**NORMAL, "hdl": 30}, (27, 50), 8),
        ({"rhr": 50, "steps": 50}, {**NORMAL, "hdl": 30}, (27, 50), 11),
        ({"rhr": 15, "steps": 85}, {**NORMAL, "hdl": 30}, (27, 50), 2),
    ],
)
def test_pattern_that_profile_and_panel_suggest(favour, blood, body, code):
    bmi, age = body
    series = at({"sleep_duration": 60, "avg_stress_level": 60, **favour})
    who = someone(series, blood=blood, bmi=bmi, age=age)
    candidate = the_one(fitness_prediction, who)
    assert candidate.gold.key == (code,)
    assert candidate.hidden.series
    assert outcome(fitness_prediction, who, candidate) == ""


def test_pattern_against_the_votes_is_not_asked():
    fit = at({"rhr": 85, "steps": 85, "sleep_duration": 60, "avg_stress_level": 60})
    assert not asked(fitness_prediction, someone(fit, blood=FLAGGED, bmi=33))
    near = at({"rhr": 70, "steps": 85, "sleep_duration": 60, "avg_stress_level": 60})
    assert outcome(fitness_prediction, someone(near, blood=NORMAL)) == "G2d"


@pytest.mark.parametrize(
    ("bmi", "age", "gate"),
    [(24.4, 37, ""), (24.6, 37, "G2d"), (24.4, 39, "G2d"), (29.4, 58, ""), (22, 41, "G2d")],
)
def test_pattern_near_the_limits_of_a_vote(bmi, age, gate):
    fit = at({"rhr": 85, "steps": 85, "sleep_duration": 60, "avg_stress_level": 60})
    assert outcome(fitness_prediction, someone(fit, blood=NORMAL, bmi=bmi, age=age)) == gate


# --- 12 cross_signal_prediction


def hidden_person(first: float, second: float, *, strength: float = 0.995, n: int = 300):
    """HRV follows steps; in the window both change by so many spreads, each half with the same noise."""
    a = noise(1, n)
    before = a[-112:-28]
    level, spread = np.median(before), 1.4826 * np.median(np.abs(before - np.median(before)))
    even = 0.15 * np.linspace(-1, 1, 15)[[*range(7), *range(8, 15)]]
    a[-28:] = level + spread * np.concatenate([first + even, second + even])
    b = strength * a + np.sqrt(1 - strength**2) * noise(3, n)
    others = {
        key: MIDDLE[key][0] + MIDDLE[key][1] * noise(10 + i, n)
        for i, key in enumerate(("rhr", "sleep_duration"))
    }
    return someone({"steps": 8000 + 1500 * a, "hrv": 50 + 8 * b, **others})


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [(0.6, 0.6, 0), (1.05, 1.05, 1), (2, 2, 2), (-0.6, -0.6, 3), (-1.05, -1.05, 4), (-2, -2, 5), (0, 0, 6), (0, 1.4, 7),
     (0, -1.4, 8), (1.4, 0, 9)],
)  # fmt: skip
def test_hidden_month(first, second, code):
    who = hidden_person(first, second)
    of_hrv = [each for each in asked(cross_signal_prediction, who) if each.metrics == ("hrv",)]
    (candidate,) = of_hrv
    assert candidate.gold.key == (code,)
    assert candidate.hidden.window_metrics == ("hrv",)
    if code not in (0, 3, 6):  # narrow bands may be left by a dropped day
        assert outcome(cross_signal_prediction, who, candidate) == ""


def test_hidden_month_that_nothing_shows_is_not_asked():
    who = hidden_person(2, 2, strength=0.2)
    assert ("hrv",) not in [each.metrics for each in asked(cross_signal_prediction, who)]


def test_hidden_month_near_a_band():
    gone = set()
    for shift in np.arange(1.2, 1.4, 0.02):
        who = hidden_person(shift, shift)
        for each in asked(cross_signal_prediction, who):
            days = who.record.between(END - 111, END)[:, 2]
            before = days[:84]
            spread = 1.4826 * np.median(np.abs(before - np.median(before)))
            change = (np.median(days[84:]) - np.median(before)) / spread
            if each.metrics == ("hrv",) and abs(abs(change) - 1.3) < 0.039:
                gone.add(outcome(cross_signal_prediction, who, each))
    assert gone == {"G2d"}


@pytest.mark.parametrize(
    ("first", "second", "code", "near"),
    [
        (1.05, 0.28, 0, {"second"}),
        (0.6, 0.6, 0, set()),
        (0.84, 0.84, 1, {"change"}),
        (0.86, 0.86, 1, set()),
        (0.0, 0.35, 6, {"second", "change"}),
        (0.0, 0.82, 7, {"second"}),
        (0.22, 1.4, 7, {"first"}),
        (0.1, 1.4, 7, set()),
    ],
)
def test_hidden_halves_near_a_limit(first, second, code, near):
    halves = np.concatenate([np.full(14, first), np.full(14, second)])[None]
    found = OPS["month_change"](halves, np.zeros((1, 1)), np.ones((1, 1)))[0]
    assert found[0] == code
    nodes = dict(zip(("change", "first", "second"), found[1:], strict=True))
    close = {
        margin.node
        for margin in cross_signal_prediction._margins(code)
        if np.abs(nodes[margin.node] - np.array(margin.boundaries)).min() < margin.width - 1e-9
    }
    assert close == near


def test_partners_of_a_hidden_metric_are_hidden_with_it():
    assert set(cross_signal_prediction.hidden_with("steps")) >= {"steps", "active_burn", "exercise_hours"}
    assert not set(cross_signal_prediction.signals("steps")) & set(
        cross_signal_prediction.hidden_with("steps")
    )
