"""Planted people whose answers are known, for the question types about one signal."""

from __future__ import annotations

import json
from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest
from made_daily import END, person

from wearjax.benchmarks.wearableqa import gates, primitives_shapes, reads
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.graph import Graph
from wearjax.benchmarks.wearableqa.panel import Panel
from wearjax.benchmarks.wearableqa.questions import (
    excursion_count,
    level_shift,
    recovery_time,
    signal_summary,
    trend_shape,
)

NOBODY = Panel([])
DAY = np.arange(28.0)
QUANTILES = np.array([NormalDist().inv_cdf((i + 0.5) / 28) for i in range(28)])
QUANTILES /= 1.4826 * np.median(np.abs(QUANTILES))


def planted(window, *, metric="rhr", level=60.0):
    """A window in usual spreads from the usual level, after months of usual level `level` and usual spread 1."""
    rng = np.random.default_rng(7)
    before = np.concatenate([rng.permutation(QUANTILES) for _ in range(4)])
    return person("u", {metric: level + np.concatenate([before, np.asarray(window, np.float64)])})


def noise(scale: float, seed: int = 0) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal(28)


def only(question_type, someone, **wanted):
    """The one candidate about the planted metric, checked for form and for being computable again."""
    found = [
        c for c in question_type.propose(someone, END) if all(getattr(c, k) == v for k, v in wanted.items())
    ]
    assert len(found) == 1
    candidate = found[0]
    assert reads.verify(candidate.graph, candidate.gold.key, someone, END)
    stored = Graph.from_json(json.loads(json.dumps(candidate.graph.to_json())))
    assert stored.digest() == candidate.graph.digest()
    every = (candidate.gold, *candidate.distractors)
    assert len(every) >= 10
    assert len({option.text for option in every}) == len({option.key for option in every}) == len(every)
    assert not any(
        question_type.holds(option, candidate, candidate.gold.key) for option in candidate.distractors
    )
    assert "latest 28 days (8 September 2024 to 5 October 2024)" not in candidate.stem
    assert "latest 28 days (" in candidate.stem
    return candidate


def outcome(question_type, candidate, someone) -> str:
    judged = gates.judge(question_type, [candidate], someone, NOBODY)
    return next(iter(judged.rejected), "")


# trend_shape
SHAPES = {
    "flat": 0 * DAY,
    "steady_rise": 0.25 * DAY,
    "steady_fall": -0.25 * DAY,
    "peak": 5 - 0.4 * np.abs(DAY - 13),
    "trough": 0.4 * np.abs(DAY - 13),
    "step_up": 4.0 * (DAY >= 12),
    "step_down": -4.0 * (DAY >= 16),
    "rise_then_plateau": 0.4 * np.minimum(DAY, 13) + 0.04 * np.maximum(DAY - 13, 0),  # it does not fall back
    "fall_then_plateau": -0.4 * np.minimum(DAY, 13) - 0.04 * np.maximum(DAY - 13, 0),
    "weekly": 3 * np.sin(2 * np.pi * DAY / 7),
}


@pytest.mark.parametrize("shape", primitives_shapes.SHAPES)
def test_planted_shapes_are_named(shape):
    someone = planted(SHAPES[shape] + noise(0.15))
    candidate = only(trend_shape.TYPE, someone)
    assert candidate.gold.text == trend_shape.TEXTS[shape]
    assert outcome(trend_shape.TYPE, candidate, someone) == ""


def test_a_shape_that_hardly_leads_leaves_at_the_margin():
    someone = planted(0.4 * np.minimum(DAY, 13) + noise(0.15))  # a peak that falls little fits as well
    candidate = only(trend_shape.TYPE, someone)
    assert outcome(trend_shape.TYPE, candidate, someone) == "G2d"


def test_a_course_between_level_and_moving_is_not_asked_about():
    assert not list(trend_shape.TYPE.propose(planted(0.025 * DAY + noise(0.02)), END))


# excursion_count
def excursions(days, *, size=2.5, other=()):
    window = np.zeros(28)
    window[list(days)] = size
    window[list(other)] = -size
    return window


@pytest.mark.parametrize("size", [2.5, -2.5])
def test_days_beyond_the_line_are_counted_by_half(size):
    someone = planted(excursions([1, 5, 14, 20, 27], size=size))
    candidate = only(excursion_count.TYPE, someone)
    assert candidate.gold.key == (2.0, 3.0)
    assert candidate.gold.text == "2 in the first half, 3 in the second half"
    assert ("above" if size > 0 else "below") in candidate.stem
    assert outcome(excursion_count.TYPE, candidate, someone) == ""


def test_wrong_counts_are_the_other_halves_direction_and_days():
    window = excursions([1, 5, 14, 20, 27], other=[2, 3, 16])
    someone = planted(window)
    above = next(c for c in excursion_count.TYPE.propose(someone, END) if "above" in c.stem)
    keys = [option.key for option in above.distractors]
    assert (3.0, 2.0) in keys
    assert (2.0, 1.0) in keys  # of low days
    assert all(min(key) >= 0 and max(key) <= 14 for key in keys)


def test_two_days_are_too_few():
    assert not list(excursion_count.TYPE.propose(planted(excursions([3, 20])), END))


def test_every_option_has_as_many_days_as_an_answer_needs():
    """Fewer are never right, which gives the options away."""
    for seed in range(20):
        days = np.random.default_rng(seed).choice(28, 3, replace=False).tolist()
        for candidate in excursion_count.TYPE.propose(planted(excursions(days)), END):
            assert min(sum(option.key) for option in candidate.distractors) >= 3
            assert len(candidate.distractors) >= 9


@pytest.mark.parametrize(("near", "gate"), [(1.39, ""), (1.42, "G2d"), (1.58, "G2d")])
def test_days_close_to_the_line_leave_at_the_margin(near, gate):
    window = excursions([1, 5, 14, 20, 27], size=4.0)
    window[9] = near
    someone = planted(window)
    candidate = only(excursion_count.TYPE, someone)
    found = outcome(excursion_count.TYPE, candidate, someone)
    assert (found == "G2d") == (gate == "G2d")


# recovery_time
def recovery(days: int, *, first: int = 4, size: float = 3.0) -> np.ndarray:
    """Three bad days, then `days - 1` days neither bad nor usual."""
    window = np.zeros(28)
    window[first : first + 3] = size
    window[first + 3 : first + 2 + days] = size / 3
    return window


TEXTS = {1: "Back after 1 day", 2: "Back after 2 days", 6: "Back after 6 days", 7: "Back after 7 to 9 days",
         9: "Back after 7 to 9 days", 10: "Back after 10 to 13 days", 13: "Back after 10 to 13 days",
         14: "Back after 14 days and up", 40: "Not back by the last day"}  # fmt: skip


@pytest.mark.parametrize("days", TEXTS)
def test_days_until_the_usual_level_is_back(days):
    someone = planted(recovery(days))
    candidate = only(recovery_time.TYPE, someone)
    assert candidate.gold.text == TEXTS[days]
    assert outcome(recovery_time.TYPE, candidate, someone) == ""


def test_sleep_is_bad_when_it_is_short():
    assert not list(recovery_time.TYPE.propose(planted(recovery(3), metric="hrv"), END))
    candidate = only(recovery_time.TYPE, planted(recovery(3, size=-3.0), metric="hrv"))
    assert candidate.gold.text == "Back after 3 days"
    assert "below its usual level" in candidate.stem
    assert not list(recovery_time.TYPE.propose(planted(recovery(3), metric="steps"), END))


def test_recoveries_with_gaps_rivals_or_days_on_the_line_leave_at_the_margin():
    gap, rival, on_line = recovery(6), recovery(3), recovery(6)
    gap[8] = np.nan
    rival[18:21] = 2.7
    on_line[8] = 0.53
    lesser = recovery(3)
    lesser[18:21] = 1.8  # smaller even than what is left of the other without a day of it
    for window, gate in ((gap, "G2d"), (rival, "G2d"), (on_line, "G2d"), (lesser, "")):
        someone = planted(window)
        assert outcome(recovery_time.TYPE, only(recovery_time.TYPE, someone), someone) == gate


def test_a_deleted_day_may_move_the_recovery_by_one_class():
    short, ragged = recovery(3), recovery(3)
    ragged[11] = 1.0  # two calm days, and then not: without one of them the answer is two classes on
    for window, gate in ((short, ""), (ragged, "G2b")):
        someone = planted(window)
        candidate = only(recovery_time.TYPE, someone)
        assert candidate.gold.text == "Back after 3 days"
        assert outcome(recovery_time.TYPE, candidate, someone) == gate


# level_shift
@pytest.mark.parametrize(
    ("day", "size", "text"),
    [
        (7, 1.6, "Up by 1.2 to 2 usual spreads, from day 6 to 10"),
        (8, -2.5, "Down by 2 to 3 usual spreads, from day 6 to 10"),
        (18, 4.5, "Up by 3 or more usual spreads, from day 16 to 20"),
        (22, -4.5, "Down by 3 or more usual spreads, from day 21 to 25"),
    ],
)
def test_planted_shifts_are_what_the_gates_leave(day, size, text):
    left = []
    for seed in range(8):
        someone = planted(size * (day - 1 <= DAY) + noise(0.8, seed) * (1 if abs(size) > 2 else 0.5))
        for candidate in level_shift.TYPE.propose(someone, END):
            if outcome(level_shift.TYPE, candidate, someone) == "":
                left.append(only(level_shift.TYPE, someone).gold.text)
    when = text.split(", ")[1]
    assert Counter(left).most_common(1)[0][0] == text
    assert all(
        each.startswith(text[:3]) and each.endswith(when) for each in left
    )  # the search makes some of them larger


def test_an_early_clear_shift_passes_and_one_near_a_band_or_with_a_rival_does_not():
    ramp = np.concatenate([np.linspace(-0.7, 0.7, 6)[::-1], 4 + np.linspace(-0.9, 0.9, 22)[::-1]])
    passing = planted(ramp)
    assert outcome(level_shift.TYPE, only(level_shift.TYPE, passing), passing) == ""
    near = planted(ramp - 0.95 * (DAY >= 6))  # 3.05 usual spreads
    assert outcome(level_shift.TYPE, only(level_shift.TYPE, near), near) == "G2d"
    stairs = planted(2.0 * (DAY >= 8) + 2.0 * (DAY >= 18))
    assert outcome(level_shift.TYPE, only(level_shift.TYPE, stairs), stairs) == "G2d"


def test_small_shifts_are_not_asked_about():
    assert not list(level_shift.TYPE.propose(planted(1.0 * (DAY >= 12) + noise(0.05)), END))


# signal_summary
def summary(days, *, metric="rhr", cohort=None):
    return person("u", {metric: np.asarray(days, np.float64)}, cohort=cohort)


def test_means_and_medians_are_rounded_as_the_metric_is():
    days = np.concatenate([np.full(60, 80.0), np.full(14, 61.0), np.full(14, 62.0)])
    candidate = only(signal_summary.TYPE, summary(days))
    assert candidate.gold.text == "62 bpm"  # 61.5
    assert "the mean of resting heart rate" in candidate.stem or "the median of" in candidate.stem
    assert outcome(signal_summary.TYPE, candidate, summary(days)) in ("", "G2a")
    assert any(option.key == (80.0,) for option in candidate.distractors)  # of the window before
    (found,) = (c for c in signal_summary.TYPE.propose(summary(np.full(28, 41.27), metric="hrv"), END))
    assert found.gold.text == "41.3 ms"
    assert found.tolerance == pytest.approx(0.1)


def test_heart_beats_per_step():
    someone = person("u", {"rhr": np.full(28, 62.0), "steps": np.full(28, 8000.0)})
    (rate,) = (c for c in signal_summary.TYPE.propose(someone, END) if len(c.metrics) == 2)
    assert rate.gold.text == "7.8 bpm per 1,000 steps"  # 7.75
    steps = next(c for c in signal_summary.TYPE.propose(someone, END) if c.metrics == ("steps",))
    assert steps.gold.text == "8,000 steps"


def test_cohort_values_are_among_the_false_amounts():
    cohort = CohortReference(percentiles={"rhr": {"p25": 65.0, "p50": 70.0, "p75": 76.0}})
    candidate = only(signal_summary.TYPE, summary(60.0 + noise(0.2), cohort=cohort))
    assert {65.0, 70.0, 76.0} <= {option.key[0] for option in candidate.distractors}


def test_amounts_that_days_move_by_more_than_a_unit_leave_at_the_deletion():
    calm, wild = summary(70 + noise(0.3)), summary(70 + 9 * np.tile([1.0, -1.0, 0.2, -0.2], 7))
    assert outcome(signal_summary.TYPE, only(signal_summary.TYPE, calm), calm) == ""
    wild_steps = summary(8000 + 3000 * np.tile([1.0, -1.0], 14), metric="steps")
    candidate = only(signal_summary.TYPE, wild_steps)
    assert outcome(signal_summary.TYPE, candidate, wild_steps) in ("G2a", "G2b")
    assert outcome(signal_summary.TYPE, only(signal_summary.TYPE, wild), wild) in ("", "G2a", "G2b")


def test_amounts_stay_plausible():
    candidate = only(signal_summary.TYPE, summary(np.full(28, 97.0), metric="sleep_efficiency"))
    assert all(0 < option.key[0] <= 100 for option in candidate.distractors)
    assert not list(signal_summary.TYPE.propose(summary(np.zeros(28), metric="exercise_count"), END))


@pytest.mark.parametrize(
    "question_type",
    [m.TYPE for m in (excursion_count, level_shift, recovery_time, signal_summary, trend_shape)],
    ids=lambda t: t.name,
)
def test_nothing_is_asked_without_days(question_type):
    assert not list(question_type.propose(person("u", {"rhr": np.full(12, 60.0)}), END))
    assert not list(question_type.propose(planted(np.full(28, np.nan)), END))
