"""Planted people whose answers are known, for the health types about a course, and plants too close to a line."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from made_daily import END
from made_health import MIDDLE, asked, noise, outcome, someone, the_one

from wearjax.benchmarks.wearableqa import gates, reads
from wearjax.benchmarks.wearableqa.graph import evaluate
from wearjax.benchmarks.wearableqa.primitives import OPS
from wearjax.benchmarks.wearableqa.questions import (
    concordance,
    differential_reasoning,
    prognostic_prediction,
    recommendation,
)
from wearjax.daily_metrics import INDEX

# --- 13 prognostic_prediction


def cycle(phase: int, *, size: float = 2.0, n: int = 556, quiet: float = 0.2):
    """VO2max is high for four weeks, then HRV low for four weeks, over and over; phases are fortnights."""
    place = ((n - 1 - np.arange(n)) // 14 + phase) % 4
    a, b = noise(5, n), noise(7, n)
    vo2 = 42 + quiet * a + np.where(place >= 2, size * quiet, 0)
    hrv = 50 + quiet * b - np.where(place < 2, size * quiet, 0)
    return someone({"vo2_max": vo2, "hrv": hrv}, end=END + 28)


@pytest.mark.parametrize(("phase", "code"), [(0, 5), (2, 2), (3, 9), (1, 8)])
def test_announced_month(phase, code):
    who = cycle(phase, size=3.0)
    (candidate,) = [each for each in asked(prognostic_prediction, who) if "hrv" in each.metrics[-1:]]
    assert candidate.gold.key == (code,)
    assert outcome(prognostic_prediction, who, candidate) == ""
    read = candidate.graph.leaves["to come"]
    assert (read.first, read.last, read.group) == (1, 28, "future")


def test_a_month_is_asked_only_where_the_past_announced_it():
    who = cycle(0, size=3.0)
    values = who.record.values.copy()
    values[-28:, 2] = values[-56:-28, 2]  # this time nothing follows
    changed = someone({"vo2_max": values[:, 3], "hrv": values[:, 2]}, end=END + 28)
    assert not [each for each in asked(prognostic_prediction, changed) if each.metrics == ("vo2_max", "hrv")]
    short = someone({"vo2_max": values[-140:, 3], "hrv": values[-140:, 2]}, end=END + 28)
    assert not asked(prognostic_prediction, short)


@pytest.mark.parametrize(
    ("first", "second", "code", "gate"),
    [
        (1.0, 1.0, 1, "G2d"),  # between slightly and clearly
        (0.85, 0.65, 0, ""),
        (1.3, 0.33, 0, "G2d"),  # one half hardly follows
        (0.0, 0.0, 6, ""),
        (0.42, 0.0, 6, "G2d"),  # one half hardly the same
        (0.0, 1.4, 9, ""),
        (0.0, 1.22, 9, "G2d"),  # hardly an event
        (0.7, 2.5, 9, "G2d"),  # the other half hardly at rest
        (0.0, 1.05, None, ""),
    ],
)
def test_months_near_a_limit(first, second, code, gate):
    """Halves that differ from the latest fortnight by so many spreads, and their month in between."""
    latest, spread = np.zeros((1, 14)), np.ones((1, 1))
    after = np.concatenate([np.full(14, first), np.full(14, second)])[None]
    found = OPS["next_month"](latest, after, spread, bad=-1)[0]
    assert found[0] == code if code is not None else np.isnan(found[0])
    if code is None:
        return
    nodes = {"change": found[None, 1:]}
    nodes |= {
        name: column[None, None]
        for name, column in zip(
            ("first", "second", "alone"), OPS["next_halves"](latest, after, spread)[0], strict=True
        )
    }
    near = [
        margin.node
        for margin in prognostic_prediction._margins(code)
        if np.any(np.abs(nodes[margin.node][..., None] - np.array(margin.boundaries)) < margin.width - 1e-9)
    ]
    assert bool(near) == (gate == "G2d"), near


@pytest.mark.parametrize("varied", list(itertools.product([1, 3], repeat=3)))
def test_outcomes_of_one_and_of_many_records_mix(varied):
    """A leaf that no variant touches has one row, others one for each variant."""
    rng = np.random.default_rng(9)
    shapes = ((28,), (28,), (1,))
    before, after, spread = (
        np.repeat(rng.standard_normal((1, *shape)) + at, n, axis=0)
        for n, shape, at in zip(varied, shapes, (0.0, 1.5, 1.0), strict=True)
    )
    found = OPS["next_month"](before, after, np.abs(spread), bad=1)
    alone = OPS["next_month"](before[:1], after[:1], np.abs(spread[:1]), bad=1)
    assert found.shape == (max(varied), 2)
    np.testing.assert_array_equal(found, np.repeat(alone, max(varied), axis=0))


# --- 14 recommendation


def habits(*, favour: float = 10, lag: int = 2, rival: float = 0.0, sleep_favour: float = 50):
    """Resting heart rate falls so many days after days with many steps, and somewhat with long sleep."""
    n = 300
    steps, sleep, own = noise(21, n), noise(22, n), noise(23, n)
    z = -0.9 * np.roll(steps, lag) - rival * sleep + 0.25 * own
    z[-28:] -= z[-28:].mean()
    series = {
        "rhr": 60 + 5 * (50 - favour) / 25 + 1.0 * z,
        "steps": 7000 + 600 * steps,
        "sleep_duration": 7 + 0.6 * (sleep_favour - 50) / 25 + 0.3 * sleep,
        "bed_time_std": 45 + 5 * noise(24, n),
    }
    return someone(series)


@pytest.mark.parametrize("lag", [0, 2, 3])
def test_lever_that_the_metric_follows(lag):
    who = habits(lag=lag)
    (candidate,) = [each for each in asked(recommendation, who) if each.metrics == ("steps", "rhr")]
    assert candidate.gold.key == (0.0, float(lag))
    assert candidate.coupling == ("steps", "rhr", lag)
    assert candidate.coupling in candidate.searched
    assert recommendation.looked(who, END) >= 1
    assert outcome(recommendation, who, candidate) == ""


def test_recommendation_gates():
    assert not [each for each in asked(recommendation, habits(favour=40)) if each.metrics[-1] == "rhr"]
    (near,) = [each for each in asked(recommendation, habits(favour=24)) if each.metrics[-1] == "rhr"]
    assert outcome(recommendation, habits(favour=24), near) == "G2d"
    gone = set()
    for rival in np.arange(0.8, 1.1, 0.05):
        who = habits(rival=rival, lag=0, sleep_favour=5)
        for each in asked(recommendation, who):
            if each.metrics[-1] == "rhr":
                lead = evaluate(each.graph, reads.read(each.graph, who, END), node="lead")[0, 0]
                gate = outcome(recommendation, who, each)
                assert (gate == "G1") == (lead < gates.LEAST_LEAD)
                gone.add(gate)
    assert "G1" in gone


def test_a_lever_without_room_is_not_recommended():
    best = habits(rival=0.5, lag=0)
    values = best.record.values.copy()
    values[:, 0] += 4000  # far above the favourable quartile
    series = {key: values[:, INDEX[key]] for key in ("steps", "rhr", "sleep_duration", "bed_time_std")}
    found = [each for each in asked(recommendation, someone(series)) if each.metrics[-1] == "rhr"]
    assert [each.metrics[0] for each in found] == ["sleep_duration"]


# --- 15 differential_reasoning


def stretch(signs, *, size: float = 2.6, seed: int = 69):
    """Six unusual days in the middle of an even month."""
    series = {}
    for i, (key, sign) in enumerate(zip(differential_reasoning.SIGNALS, signs, strict=True)):
        z = np.random.default_rng(seed + i).permutation(np.linspace(-1, 1, 28))
        z[12:18] = sign * size + 0.2 * z[12:18]
        centre, spread = MIDDLE[key]
        series[key] = centre + spread * z
    series["exercise_count"] = np.ones(28)
    return series


@pytest.mark.parametrize("code", differential_reasoning.SIGNATURES)
def test_explanations(code):
    who = someone(stretch(differential_reasoning.SIGNATURES[code]))
    candidate = the_one(differential_reasoning, who)
    assert candidate.gold.key == (code,)
    assert outcome(differential_reasoning, who, candidate) == ""


@pytest.mark.parametrize(("height", "gate"), [(1.1, "G2d"), (-1.1, "G2d"), (1.9, "")])
def test_a_signal_that_hardly_moved(height, gate):
    series = stretch(differential_reasoning.SIGNATURES[1])
    series["deep_percentage"][12:18] = MIDDLE["deep_percentage"][0] + MIDDLE["deep_percentage"][1] * height
    who = someone(series)
    candidate = the_one(differential_reasoning, who)
    moved = evaluate(candidate.graph, reads.read(candidate.graph, who, END), node="moved")[0]
    assert (np.abs(np.abs(moved) - 1).min() < differential_reasoning.MOVED_MARGIN) == (gate == "G2d")
    assert outcome(differential_reasoning, who, candidate) == gate


def test_a_gap_of_the_sensor():
    series = stretch(differential_reasoning.SIGNATURES[9])
    for key in ("rhr", "hrv", "sleep_duration", "deep_percentage", "avg_stress_level", "bed_time_std"):
        series[key][12:17] = np.nan
    candidate = the_one(differential_reasoning, someone(series))
    assert candidate.gold.key == (8,)


def test_signs_between_two_explanations_are_not_asked():
    only_steps = [-1 if key == "steps" else 0 for key in differential_reasoning.SIGNALS]
    assert not asked(differential_reasoning, someone(stretch(only_steps, size=4)))


def test_signatures_can_be_told_apart():
    for (a, x), (b, y) in itertools.combinations(differential_reasoning.SIGNATURES.items(), 2):
        assert sum(p != q for p, q in zip(x, y, strict=True)) >= 2, (a, b)


# --- 16 concordance


def compared(steps: float, rhr: float, *, missing: int = 0):
    """Medians of the window so many usual spreads better than before."""
    n = 112
    series = {}
    for i, (key, moved) in enumerate((("steps", steps), ("rhr", -rhr))):
        z = noise(60 + i, n)
        before = z[:84]
        centre, spread = np.median(before), 1.4826 * np.median(np.abs(before - np.median(before)))
        z[84:] = centre + spread * (moved + 0.05 * np.linspace(-1, 1, 28))
        series[key] = MIDDLE[key][0] + MIDDLE[key][1] * z
    series["rhr"][84 : 84 + missing] = np.nan
    return someone(series)


@pytest.mark.parametrize(("steps", "rhr"), list(itertools.product((-1, 0, 1), repeat=2)))
def test_joint_states(steps, rhr):
    who = compared(steps, rhr)
    candidate = the_one(concordance, who)
    assert candidate.gold.key == (steps + 1, rhr + 1)
    agree = steps == rhr != 0
    assert (": as expected" in candidate.gold.text) == agree
    assert candidate.relation == "steps_rhr"
    assert outcome(concordance, who, candidate) in (("", "G2c") if steps or rhr else ("",))


def test_too_few_common_days_and_states_near_a_line():
    few = compared(1, 1, missing=16)
    candidate = the_one(concordance, few)
    assert candidate.gold.key == concordance.TOO_FEW
    assert outcome(concordance, few, candidate) == ""
    assert outcome(concordance, compared(0.45, 1)) == "G2d"
    assert not asked(concordance, compared(1, 1, missing=13))  # neither enough nor clearly too few
