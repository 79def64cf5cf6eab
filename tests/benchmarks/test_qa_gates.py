"""Planted candidates on both sides of every gate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from made_daily import END, a_type, holds, made, near, pair_graph, person, window_leaf

from wearjax.benchmarks.wearableqa import gates, leakage, reads, windows
from wearjax.benchmarks.wearableqa.candidate import Candidate, Hidden, Option
from wearjax.benchmarks.wearableqa.cohort import CohortReference
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, evaluate
from wearjax.benchmarks.wearableqa.panel import Panel
from wearjax.benchmarks.wearableqa.yields import GATES, Yield, settle
from wearjax.errors import ConfigError
from wearjax.sources.daily_record import BloodValue, Demographics

METRICS = ("rhr", "steps")


def noise(seed: int, n: int = 28) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(n)


def coupled(strength: float, *, seed: int = 0, n: int = 28):
    """Two metrics, the second following the first."""
    a = noise(seed, n)
    return person("u", {"rhr": 60 + a, "steps": 8000 + 500 * (strength * a + noise(seed + 1, n))})


def panel(n: int = 30, *, days: int = 28) -> Panel:
    return Panel(
        [
            person(f"o{i}", {"rhr": 60 + noise(100 + i, days), "steps": 8000 + 500 * noise(900 + i, days)})
            for i in range(n)
        ]
    )


OTHERS = panel()


def answered(someone, graph: Graph) -> tuple[float, ...]:
    return tuple(evaluate(graph, reads.read(graph, someone, END))[0])


def outcome(candidate: Candidate, someone, *, others: Panel = OTHERS, question_type=None) -> str:
    """The gate at which it leaves, empty where it passes all that judge it alone."""
    judged = gates.judge(question_type or a_type(), [candidate], someone, others)
    assert sum(judged.rejected.values()) + len(judged.survivors) == 1
    return next(iter(judged.rejected), "")


def of_pair(someone, **options) -> Candidate:
    graph = pair_graph(*METRICS)
    options.setdefault("coupling", (*METRICS, 0))
    return made(someone, graph, answered(someone, graph), **options)


def level_graph(metric: str = "rhr", **nodes) -> Graph:
    """Rounded mean of the window."""
    steps = (Node("mean", "mean", ("w",)), Node("key", "round_to", ("mean",), {"step": 1.0}))
    return Graph({"w": window_leaf(metric)}, steps, "key")


def amounts(*values: float) -> tuple[Option, ...]:
    return tuple(Option(f"{value:g} bpm", (value,)) for value in values)


def test_strong_and_steady_couplings_pass_and_weak_ones_leave_at_g1():
    strong, weak = coupled(3.0), coupled(0.3)
    assert outcome(of_pair(strong), strong) == ""
    assert outcome(of_pair(weak), weak) == "G1"


def test_effect_boundary():
    a = np.arange(28.0)
    rng = np.random.default_rng(8)
    tested = []
    for _ in range(60):
        b = a + 14 * rng.standard_normal(28)
        someone = person("u", {"rhr": 60 + a / 10, "steps": 9000 + b})
        candidate = of_pair(someone, resample="none")
        values = reads.read(candidate.graph, someone, END)
        rho = evaluate(candidate.graph, values, node="rho")[0, 0]
        if 0.45 < rho < 0.55:
            gone = gates._effect([(0, candidate, {})], someone)
            halves = [evaluate(pair_graph(*METRICS), {k: v[:, s] for k, v in values.items()})[0, 0]
                      for s in (slice(14), slice(14, 28))]  # fmt: skip
            assert bool(gone) == (rho < 0.5 or min(halves) < 0)
            tested.append(rho < 0.5)
    assert {True, False} == set(tested)


def test_a_sign_that_turns_between_halves_leaves_at_g1():
    a = np.concatenate([np.arange(14.0), 60 + np.arange(14.0)])
    b = np.concatenate([np.arange(14.0)[::-1], 60 + np.arange(14.0)])
    someone = person("u", {"rhr": 60 + a / 10, "steps": 9000 + b})
    candidate = of_pair(someone)
    assert evaluate(candidate.graph, reads.read(candidate.graph, someone, END), node="rho")[0, 0] > 0.5
    assert outcome(candidate, someone) == "G1"


@pytest.mark.parametrize("lag", [-3, 2])
def test_effect_is_measured_at_the_lag(lag):
    a, b = noise(3, 40), noise(4, 40)
    b[4:-4] = np.roll(a, lag)[4:-4] + 0.1 * b[4:-4]
    someone = person("u", {"rhr": 60 + a[6:34], "steps": 9000 + b[6:34]})
    graph = pair_graph(*METRICS, lag)
    key = answered(someone, graph)
    assert outcome(made(someone, graph, key, coupling=(*METRICS, lag)), someone) == ""
    assert outcome(made(someone, graph, key, coupling=(*METRICS, -lag)), someone) == "G1"


@pytest.mark.parametrize(("lead", "gate"), [(0.149, "G1"), (0.15, "")])
def test_a_winner_must_lead(lead, gate):
    someone = coupled(3.0)
    graph = pair_graph(*METRICS)
    graph = Graph(graph.leaves, (*graph.nodes, Node("lead", "constant", (), {"value": lead})), "sign")
    candidate = made(someone, graph, answered(someone, graph), lead="lead")
    assert outcome(candidate, someone, others=panel(0)) == gate


def test_a_literature_relation_stands_for_effect_and_authenticity():
    weak = coupled(0.3)
    weak_but_known = of_pair(weak, relation="r1", resample="none")
    assert outcome(weak_but_known, weak) in ("", "G2b")
    judged = gates.judge(a_type(coupling=True), [dataclasses.replace(of_pair(coupled(3.0)), relation="r1")],
                         coupled(3.0), OTHERS)  # fmt: skip
    assert judged.survivors[0].chance is None


@pytest.mark.parametrize(("width", "gate"), [(0.039, ""), (0.041, "G2d")])
def test_margin_boundary(width, gate):
    someone = coupled(3.0)
    graph = pair_graph(*METRICS)
    rho = evaluate(graph, reads.read(graph, someone, END), node="size")[0, 0]
    candidate = of_pair(someone, margins=near(width, boundaries=(0.1, rho - 0.04)))
    assert outcome(candidate, someone) == gate


def test_margins_look_at_every_measured_day():
    days = np.full(28, 60.0)
    days[[3, 9]] = [64.9, np.nan]
    someone = person("u", {"rhr": days})
    graph = level_graph()
    for width, gate in ((0.09, ""), (0.11, "G2d")):
        candidate = made(someone, graph, (60.0,), margins=near(width, node="w", boundaries=(65.0,)))
        assert outcome(candidate, someone, others=panel(0)) == gate


def test_an_answer_that_resampling_changes_leaves_at_g2a():
    days = np.array([59.0, 62] * 14)  # its mean lies on the edge between two roundings
    someone = person("u", {"rhr": days})
    candidate = made(someone, level_graph(), answered(someone, level_graph()), tolerance=1.0)
    assert outcome(candidate, someone) == "G2a"
    calm = person("u", {"rhr": days / 10 + 54})
    assert outcome(made(calm, level_graph(), answered(calm, level_graph())), calm, others=panel(0)) == ""


def test_amounts_only_have_to_stay_nearest_to_the_gold():
    days = np.array([57.0, 64] * 14)
    someone = person("u", {"rhr": days})
    others = amounts(50, 53, 56, 66, 69, 72, 75, 78, 81)
    wide = made(someone, level_graph(), (61.0,), gold=amounts(61)[0], distractors=others, tolerance=1.0)
    narrow = dataclasses.replace(wide, distractors=amounts(60, *range(72, 80)))
    numeric = a_type(numeric=True)
    assert outcome(wide, someone, others=panel(0), question_type=numeric) == ""
    assert outcome(narrow, someone, others=panel(0), question_type=numeric) == "G2a"
    assert outcome(wide, someone, others=panel(0)) == "G2a"


def test_one_decisive_day_leaves_at_g2b():
    days = np.full(28, 60.0)
    days[5] = 75  # lifts the mean to 60.54
    someone = person("u", {"rhr": days})
    candidate = made(someone, level_graph(), (61.0,), resample="none")
    assert outcome(candidate, someone) == "G2b"
    assert outcome(dataclasses.replace(candidate, tolerance=1.0), someone) == ""


def test_an_answer_that_hangs_on_the_baseline_leaves_at_g2c():
    graph = Graph(
        {"w": window_leaf("rhr"), "b": Leaf("series", "rhr", *windows.baseline_range(), "baseline")},
        (
            Node("now", "median", ("w",)),
            Node("usual", "median", ("b",)),
            Node("change", "difference", ("now", "usual")),
            Node("key", "sign", ("change",)),
        ),
        "key",
    )
    steady = np.full(140, 60.0)
    steady[-28:] = 65
    moved = steady.copy()
    moved[-84:-28] = 70  # the last eight weeks before the window
    for days, gate in ((steady, ""), (moved, "G2c"), (steady[-120:], ""), (steady[-28 - 60 :], "G2c")):
        someone = person("u", {"rhr": days})
        candidate = made(someone, graph, answered(someone, graph), resample="none")
        assert outcome(candidate, someone, others=panel(0)) == gate


def excursion_graph() -> Graph:
    """Days above the line that the baseline draws."""
    return Graph(
        {"w": window_leaf("rhr"), "b": Leaf("series", "rhr", *windows.baseline_range(), "baseline")},
        (
            Node("m", "median", ("b",)),
            Node("s", "scale", ("b",)),
            Node("z", "robust_z", ("w", "m", "s")),
            Node("key", "excursion_count", ("z",), {"threshold": 1.5, "direction": "up"}),
        ),
        "key",
    )


def test_counts_can_be_resampled_by_their_baseline():
    days = 60 + noise(6, 140)
    days[-28:] = 60
    days[[-20, -6, -3]] = 66
    someone = person("u", {"rhr": days})
    candidate = made(someone, excursion_graph(), (1.0, 2.0), tolerance=1.0)
    assert outcome(dataclasses.replace(candidate, resample="jitter"), someone) == "G2a"
    assert outcome(dataclasses.replace(candidate, resample="baseline"), someone) == ""


def test_a_count_that_another_baseline_changes_leaves_at_g2c():
    """The tolerance is for days that are deleted, not for the baseline."""
    days = np.tile([59.0, 61.0], 70)  # spread 1.48, the line at 62.2
    days[-28:] = 60
    days[[-20, -6, -3]] = 66
    steady = person("u", {"rhr": days})
    days = days.copy()
    days[:28] = 66  # within 112 days before the window, but not within 84: the line moves to 64.4
    days[-6] = 63
    moved = person("u", {"rhr": days})
    for someone, gate in ((steady, ""), (moved, "G2c")):
        candidate = made(someone, excursion_graph(), (1.0, 2.0), tolerance=1.0, resample="none")
        assert outcome(candidate, someone, others=panel(0)) == gate


def test_undefined_answers_leave_first_and_wrong_golds_are_defects():
    someone = person("u", {"rhr": np.full(28, 60.0)})
    assert outcome(made(someone, level_graph("hrv"), (1.0,)), someone) == "undefined"
    with pytest.raises(ConfigError, match="its graph gives"):
        outcome(made(someone, level_graph(), (61.0,)), someone)


def test_uniqueness():
    someone = person("u", {"rhr": np.full(28, 60.0)})
    good = made(someone, level_graph(), (60.0,), gold=amounts(60)[0], distractors=amounts(*range(70, 79)))
    others = good.distractors
    assert outcome(good, someone, others=panel(0)) == ""
    for distractors in (
        others[:8],
        (*others, Option("about 60", (60.0,))),
        (*others[:8], Option("60 bpm", (99.0,))),
    ):
        assert outcome(dataclasses.replace(good, distractors=distractors), someone) == "G4"
    never = a_type(holds=lambda option, candidate, key: False)
    assert outcome(good, someone, question_type=never) == "G4"


def test_amounts_that_the_prompt_shows_leave_at_g5():
    days = {"rhr": np.full(28, 60.0)}
    someone = person("u", days, demographics=Demographics(age=60, sex="female"))
    numeric = a_type(numeric=True)
    question = made(someone, level_graph(), (60.0,), gold=amounts(60)[0], distractors=amounts(*range(70, 79)))
    assert outcome(question, someone, question_type=numeric) == "G5"
    assert outcome(question, someone, others=panel(0)) == ""  # not an amount: sixty can mean anything
    cohort = CohortReference(percentiles={"rhr": {"p50": 60.04}})
    shown = person("u", days, cohort=cohort)
    assert outcome(question, shown, question_type=numeric) == "G5"
    hidden = dataclasses.replace(question, hidden=Hidden(cohort=True))
    assert outcome(hidden, shown, others=panel(0), question_type=numeric) == ""
    near_by = person("u", days, cohort=CohortReference(percentiles={"rhr": {"p50": 60.06}}))
    assert outcome(question, near_by, others=panel(0), question_type=numeric) == ""


def test_words_and_partners_that_give_the_answer_away():
    someone = coupled(3.0)
    candidate = of_pair(someone)
    assert leakage.found(candidate, someone, numeric=False) is None
    told = person("u", {"rhr": noise(0)}, blood={"the answer": BloodValue(1.0, "")})
    assert "gold" in leakage.found(candidate, told, numeric=False)
    open_partner = dataclasses.replace(candidate, hidden=Hidden(window_metrics=("steps",)))
    assert "active_burn" in leakage.found(open_partner, someone, numeric=False)
    both = {
        "metrics": (
            "active_burn",
            "steps",
            "exercise_hours",
            "exercise_mets",
            "exercise_count",
            "calories_bmr",
        )
    }
    assert (
        leakage.found(dataclasses.replace(candidate, hidden=Hidden(**both)), someone, numeric=False) is None
    )


@pytest.mark.parametrize(("first", "last", "group"), [(-528, -28, "history"), (-10, 1, "history")])
def test_answers_rest_on_days_that_can_be_shown(first, last, group):
    someone = coupled(3.0)
    graph = Graph({"a": Leaf("series", "rhr", first, last, group)}, (Node("x", "mean", ("a",)),), "x")
    candidate = made(someone, graph, (0.0,))
    assert "reads days" in leakage.found(candidate, someone, numeric=False)


@pytest.mark.parametrize(("value", "shown"), [(0.4567, 0.457), (5.05, 5.05), (30.74, 30.7), (1255.4, 1255)])
def test_printed(value, shown):
    assert leakage.printed(value) == shown


def test_answers_that_fit_everybody_leave_at_g3():
    someone = person("u", {"rhr": np.full(28, 60.0)})
    graph = level_graph()
    candidate = made(someone, graph, (60.0,))
    assert outcome(candidate, someone) == "G3"
    share, asked = gates.guessed(a_type(), candidate, OTHERS)
    assert asked == 30
    assert share > 0.9  # nearly everybody's mean rounds to 60
    apart = person("u", {"rhr": np.full(28, 75.0)})
    assert outcome(made(apart, graph, (75.0,)), apart) == ""


@pytest.mark.parametrize(("alike", "gate"), [(6, ""), (7, "G3")])
def test_a_fifth_of_the_others_may_share_the_answer(alike, gate):
    others = [person(f"o{i}", {"rhr": np.full(28, 60.0 if i < alike else 80.0)}) for i in range(30)] + [
        person("without", {"steps": np.full(28, 1.0)})
    ]
    someone = person("u", {"rhr": np.full(28, 60.0)})
    assert outcome(made(someone, level_graph(), (60.0,)), someone, others=Panel(others)) == gate


def test_the_person_is_not_compared_with_itself_and_two_hundred_are_asked():
    people = [person(f"o{i:03}", {"rhr": 60 + noise(i)}) for i in range(230)]
    many = Panel(people)
    assert many.ends.shape == (230, 7)
    candidate = made(people[3], level_graph(), (60.0,))
    assert gates.guessed(a_type(), candidate, many)[1] == 200
    assert 3 not in many.order("o003", "made", END)
    np.testing.assert_array_equal(
        many.order("o003", "made", END), Panel(people[::-1]).order("o003", "made", END)
    )


def test_windows_of_others_end_on_the_same_weekday():
    others = panel(5, days=60)
    for row in others.ends:
        assert (row % 7 == np.arange(7)).all()
        assert (row <= END).all()


def test_yield_counts_every_candidate_once():
    strong, weak = coupled(3.0), coupled(0.3)
    question_type = a_type(coupling=True)
    judged = [gates.judge(question_type, [of_pair(each)], each, OTHERS, looked=3) for each in (strong, weak)]
    together = gates.Judged.joined("made", judged)
    counts = Yield()
    admitted = settle(together, counts=counts)
    row = counts.to_json()["made"]
    assert (row["looked"], row["proposed"], row["G1"]) == (6, 2, 1)
    assert row["admitted"] == len(admitted)
    assert sum(row[gate] for gate in GATES) == 2 - len(admitted)
    assert "G2d" in counts.to_text().splitlines()[0]
    assert holds(admitted[0].gold, admitted[0], admitted[0].gold.key) if admitted else row["G3"] == 1
