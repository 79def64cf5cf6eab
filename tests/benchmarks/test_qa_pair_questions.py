"""Planted people whose answers are known, for the question types about pairs of signals."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from made_daily import END, person

from wearjax.benchmarks.wearableqa import gates, reads
from wearjax.benchmarks.wearableqa.graph import Graph, evaluate
from wearjax.benchmarks.wearableqa.panel import Panel
from wearjax.benchmarks.wearableqa.primitives_pairs import KINDS, LAGS
from wearjax.benchmarks.wearableqa.questions import lead_lag, pairs, signed_correlation, strongest_pair

NOBODY = Panel([])
SCALE = {"rhr": (60, 3), "steps": (8000, 1500), "hrv": (50, 8), "sleep_duration": (7, 0.6), "avg_stress_level": (40, 6),
         "vo2_max": (42, 1), "deep_percentage": (18, 3), "active_burn": (500, 90), "exercise_count": (9, 2),
         "exercise_hours": (4, 1), "exercise_mets": (6, 1), "calories_bmr": (1600, 40)}  # fmt: skip
SIX = ("steps", "rhr", "hrv", "vo2_max", "sleep_duration", "avg_stress_level")
TIED = ("steps", "active_burn", "calories_bmr", "exercise_count", "exercise_hours", "exercise_mets")


def someone(**standard):
    """Series given in standard units."""
    return person("u", {key: SCALE[key][0] + SCALE[key][1] * np.asarray(z) for key, z in standard.items()})


def noise(seed: int, n: int = 28) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.5, 1.5, n)


def following(a: np.ndarray, lag: int, *, strength: float, seed: int) -> np.ndarray:
    """What repeats `a` so many days later, with noise."""
    return strength * np.roll(a, lag) + np.sqrt(1 - strength**2) * noise(seed, len(a))


def rho(a, b) -> float:
    ranks = [np.argsort(np.argsort(x)) for x in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def checked(question_type, candidate, who):
    assert reads.verify(candidate.graph, candidate.gold.key, who, END)
    stored = Graph.from_json(json.loads(json.dumps(candidate.graph.to_json())))
    assert stored.digest() == candidate.graph.digest()
    every = (candidate.gold, *candidate.distractors)
    lengths = [len(option.text) for option in every]
    assert len(every) >= 10
    assert len({option.text for option in every}) == len({option.key for option in every}) == len(every)
    assert max(lengths) <= 1.6 * min(lengths)
    assert not any(
        question_type.holds(option, candidate, candidate.gold.key) for option in candidate.distractors
    )
    return candidate


def outcome(question_type, candidate, who) -> str:
    judged = gates.judge(question_type, [candidate], who, NOBODY)
    return next(iter(judged.rejected), "")


# signed_correlation
HALVES = {
    "strong_positive": (0.9, 0.9), "strong_negative": (-0.9, -0.9), "weak_positive": (0.38, 0.38),
    "moderate_negative": (-0.57, -0.57), "moderate_positive": (0.57, 0.57), "weak_negative": (-0.38, -0.38),
    "none": (0.0, 0.0), "positive_then_negative": (0.75, -0.75), "negative_then_positive": (-0.75, 0.75),
    "one_half": (0.85, 0.0),
}  # fmt: skip


def of_kind(kind: str, seed: int):
    """Two series with about these correlations in the halves and, where those are alike, in the window."""
    a = noise(seed)
    first, second = HALVES[kind]

    def off(b: np.ndarray) -> float:
        whole = 3 * abs(rho(a, b) - first) if first == second else 0.0
        return max(whole, abs(rho(a[:14], b[:14]) - first), abs(rho(a[14:], b[14:]) - second))

    strength = np.repeat([first, second], 14)
    tries = (strength * a + np.sqrt(1 - strength**2) * noise(1000 * (seed + 1) + k) for k in range(100))
    return a, min(tries, key=off)


def the_pair(question_type, who):
    (candidate,) = question_type.propose(who, END)
    return checked(question_type, candidate, who)


@pytest.mark.parametrize("kind", KINDS)
def test_planted_relations_are_named(kind):
    found = []
    for seed in range(2):
        a, b = of_kind(kind, seed)
        halves = [rho(a[:14], b[:14]), rho(a[14:], b[14:])]
        np.testing.assert_allclose(halves, HALVES[kind], atol=0.15)
        who = someone(steps=a, rhr=b)
        candidate = the_pair(signed_correlation.TYPE, who)
        assert candidate.gold.text == signed_correlation.TEXTS[kind]
        assert candidate.rho == pytest.approx(rho(a, b))
        found.append(outcome(signed_correlation.TYPE, candidate, who))
        claims = kind.startswith(("strong", "moderate"))
        assert candidate.coupling == (("steps", "rhr", 0) if claims else None)
    assert "G1" not in found
    if kind.startswith("strong"):
        assert "" in found


def test_correlations_near_an_edge_leave_at_the_margin():
    left = {}
    for seed in range(200):
        a = noise(seed)
        b = following(a, 0, strength=0.72, seed=seed + 500)
        for word, low, high in (("Strong", 0.65, 0.68), ("Moderate", 0.62, 0.65)):
            if low < rho(a, b) < high and word not in left:
                who = someone(steps=a, rhr=b)
                for candidate in signed_correlation.TYPE.propose(who, END):
                    if "steady" in candidate.gold.text:
                        left[candidate.gold.text.split()[0]] = outcome(
                            signed_correlation.TYPE, candidate, who
                        )
    assert left == {"Strong": "G2d", "Moderate": "G2d"}


def test_almost_none_is_asked_only_below_its_limit():
    a, b = of_kind("none", 2)
    close = the_pair(signed_correlation.TYPE, someone(steps=a, rhr=b))
    parts = [evaluate(close.graph, reads.read(close.graph, someone(steps=a, rhr=b), END), node=node)
             for node in ("size", "sizes")]  # fmt: skip
    assert max(part.max() for part in parts) < 0.11
    for seed in range(300):
        a, b = noise(seed), noise(seed + 700)
        whole = [abs(rho(a, b)), abs(rho(a[:14], b[:14])), abs(rho(a[14:], b[14:]))]
        if 0.16 < max(whole) < 0.19:
            who = someone(steps=a, rhr=b)
            assert outcome(signed_correlation.TYPE, the_pair(signed_correlation.TYPE, who), who) == "G2d"
            return
    pytest.fail("no such pair was drawn")


# lead_lag
@pytest.mark.parametrize(("lag", "sign"), list(itertools.product(LAGS, (1, -1)))[::3])
def test_planted_leads_are_found(lag, sign):
    a = noise(lag + 10, 40)
    who = someone(steps=a[6:34], rhr=sign * following(a, lag, strength=0.97, seed=3)[6:34])
    candidate = the_pair(lead_lag.TYPE, who)
    assert candidate.gold.key == (lag, sign)
    assert candidate.coupling == ("steps", "rhr", lag)
    assert len(candidate.searched) == len(LAGS)
    keys = {option.key for option in candidate.distractors}
    wanted = {(-lag, sign), (lag, -sign), (lag - 1, sign), (lag + 1, sign)} - {(lag, sign)}
    assert {key for key in wanted if abs(key[0]) <= 3} <= keys
    assert outcome(lead_lag.TYPE, candidate, who) == ""


def test_words_of_leads():
    assert lead_lag.phrase((2.0, 1.0)) == "The first leads the second by 2 days, the same way"
    assert lead_lag.phrase((-1.0, -1.0)) == "The second leads the first by 1 day, opposite ways"
    assert lead_lag.phrase((0.0, 1.0)) == "Both move on the same day, the same way"


def test_two_lags_alike_leave_at_the_effect():
    gone = []
    for seed in range(12):
        a = noise(seed, 40)
        b = np.roll(a, 1) + 0.7 * np.roll(a, 2)
        who = someone(steps=a[6:34], rhr=b[6:34])
        for candidate in lead_lag.TYPE.propose(who, END):
            lead = evaluate(candidate.graph, reads.read(candidate.graph, who, END), node="ahead")[0, 0]
            if lead < 0.15:
                gone.append(outcome(lead_lag.TYPE, candidate, who))
    assert set(gone) == {"G1"}


def test_halves_with_other_leads_leave_at_the_effect():
    gone = []
    for seed in range(30):
        a = noise(seed, 40)
        early = following(a, 1, strength=0.7, seed=seed + 50)
        b = np.where(np.arange(40) < 20, early, following(a, 2, strength=0.99, seed=seed + 90))
        who = someone(steps=a[6:34], rhr=b[6:34])
        for candidate in lead_lag.TYPE.propose(who, END):
            values = reads.read(candidate.graph, who, END)
            ahead, kept, size = (
                evaluate(candidate.graph, values, node=node)[0, 0] for node in ("ahead", "kept", "size")
            )
            if ahead >= 0.15 and size >= 0.5 and not kept:
                gone.append(outcome(lead_lag.TYPE, candidate, who))
    assert set(gone) == {"G1"}


def test_pairs_tied_by_definition_have_no_lead():
    a = noise(1)
    assert not list(lead_lag.TYPE.propose(someone(steps=a, active_burn=a), END))
    assert lead_lag.looked(someone(steps=a, active_burn=a, rhr=noise(2)), END) == 2


# strongest_pair
def of_six(**series):
    return someone(**{key: noise(i) for i, key in enumerate(SIX)} | series)


def proposed(who, tag):
    return [
        checked(strongest_pair.TYPE, c, who) for c in strongest_pair.TYPE.propose(who, END) if c.tag == tag
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_planted_pair_is_the_strongest(sign):
    a = noise(40)
    who = of_six(hrv=a, avg_stress_level=sign * following(a, 0, strength=0.99, seed=41))
    (candidate,) = proposed(who, "empirical")
    assert pairs.pair_of(int(candidate.gold.key[0])) == ("hrv", "avg_stress_level")
    assert candidate.gold.key[1] == sign
    assert candidate.gold.text.startswith("Heart rate variability and stress level (")
    assert candidate.coupling == ("hrv", "avg_stress_level", 0)
    assert candidate.rho == pytest.approx(rho(who.record.values[:, 2], who.record.values[:, 11]))
    assert outcome(strongest_pair.TYPE, candidate, who) == ""


def test_the_runners_up_are_among_the_false_options():
    a = noise(40)
    who = of_six(hrv=a, avg_stress_level=following(a, 0, strength=0.99, seed=41))
    (candidate,) = proposed(who, "empirical")
    known = pairs.of(who, END)
    lags = tuple(dict.fromkeys(lag for *_, lag in candidate.searched))
    best = np.nanmax(np.abs(known.lagged(known.valid, lags)), axis=1)
    order = [known.valid[i] for i in np.argsort(-best)]
    assert order[0] == candidate.metrics
    assert [pairs.pair_of(int(o.key[0])) for o in candidate.distractors[:3]] == order[1:4]
    assert len(candidate.searched) == len(known.valid) * len(lags)


def test_a_rival_pair_leaves_at_the_effect():
    a, b = noise(40), noise(50)
    who = of_six(
        hrv=a, avg_stress_level=following(a, 0, strength=0.995, seed=41), rhr=b,
        steps=following(b, 0, strength=0.9, seed=51),
    )  # fmt: skip
    for candidate in proposed(who, "empirical"):
        assert outcome(strongest_pair.TYPE, candidate, who) == "G1"
    lead = np.sort(np.abs(pairs.of(who, END).lagged(pairs.of(who, END).valid)).max(axis=1))[-2:]
    assert lead[1] - lead[0] < 0.15


def test_options_are_all_tied_by_definition_or_none_is():
    a = noise(60)
    burnt = following(a, 0, strength=0.98, seed=61)
    tied = someone(**{key: noise(i) for i, key in enumerate(TIED)} | {"active_burn": burnt, "steps": a})
    found = list(strongest_pair.TYPE.propose(tied, END))
    assert {c.tag for c in found} >= {"definitional"}
    for candidate in found:
        checked(strongest_pair.TYPE, candidate, tied)
        options = (candidate.gold, *candidate.distractors)
        assert {pairs.tag_of(pairs.pair_of(int(option.key[0]))) for option in options} == {candidate.tag}


def test_five_metrics_are_too_few():
    assert strongest_pair.looked(someone(**{key: noise(i) for i, key in enumerate(SIX[:5])}), END) == 0
    assert strongest_pair.looked(of_six(), END) == 1


def test_search_and_graph_compute_the_same():
    rng = np.random.default_rng(0)
    series = {key: np.where(rng.random(28) < 0.15, np.nan, noise(i)) for i, key in enumerate(SIX)}
    who = of_six(**series)
    known = pairs.of(who, END)
    for lags in (LAGS, (0,)):
        graph = strongest_pair.graph(known.valid, lags)
        values = reads.read(graph, who, END)
        for pair, row in zip(known.valid, known.lagged(known.valid, lags), strict=True):
            np.testing.assert_array_equal(evaluate(graph, values, node="~".join(pair))[0], row)
