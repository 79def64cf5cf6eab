"""Couplings that days in random order make are not taken for findings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from made_daily import END, a_type, pairs_of, person, strongest_of

from wearjax.benchmarks.wearableqa import gates, reads, windows
from wearjax.benchmarks.wearableqa.graph import Graph, Leaf, Node, evaluate
from wearjax.benchmarks.wearableqa.panel import Panel
from wearjax.benchmarks.wearableqa.yields import Judged, Yield, largest_discovery, settle
from wearjax.daily_metrics import INDEX

METRICS = ("steps", "rhr", "sleep_duration")


def people(n: int, *, seed: int, strength: float = 0.0, prefix: str = "null"):
    """Days in random order, with gaps; steps follow resting heart rate as strongly as asked."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        values = rng.standard_normal((3, 28))
        values[0] += strength * values[1]
        values[rng.random(values.shape) < 0.05] = np.nan
        made.append(person(f"{prefix}{i}", dict(zip(METRICS, values, strict=True))))
    return made


@pytest.fixture(scope="module")
def nobody():
    return people(1000, seed=1)


def judged(question_type, everybody, panel) -> Judged:
    parts = [gates.judge_person(question_type, someone, [END], panel) for someone in everybody]
    return Judged.joined(question_type.name, parts)


def false_share(question_type, nobody, real, *, asked: int | None = None) -> tuple[float, int]:
    """Share of admitted questions about people in whom nothing is coupled; only the first of these are asked about."""
    counts, panel = Yield(), Panel(nobody + real)
    admitted = settle(judged(question_type, nobody[:asked] + real, panel), counts=counts)
    assert counts.others["made"] == (200, 200) or not admitted
    return sum(each.user.startswith("null") for each in admitted) / max(len(admitted), 1), len(admitted)


def test_permuted_days_yield_few_false_pairs(nobody):
    real = people(50, seed=2, strength=2.0, prefix="real")
    share, admitted = false_share(a_type(pairs_of(METRICS[:2]), coupling=True), nobody, real)
    assert share <= 0.25
    assert admitted >= 35


def test_permuted_days_alone_yield_almost_nothing(nobody):
    counts = Yield()
    question_type = a_type(pairs_of(METRICS), coupling=True)
    admitted = settle(judged(question_type, nobody[:100], Panel(nobody)), counts=counts)
    assert counts.rows["made"]["looked"] == 300
    assert len(admitted) <= 0.2 * 0.01 * 300


def test_the_best_of_a_search_is_compared_with_searches(nobody):
    real = people(40, seed=3, strength=3.0, prefix="real")
    search = a_type(strongest_of(METRICS, corrected=True), coupling=True)
    share, admitted = false_share(search, nobody, real, asked=80)
    assert share <= 0.25
    assert admitted >= 25
    naive = a_type(strongest_of(METRICS, corrected=False), coupling=True)
    assert false_share(naive, nobody, real, asked=80)[0] > 0.3  # what the correction is for


def test_correlations_with_others_are_spearman_where_nothing_is_missing():
    rng = np.random.default_rng(4)
    made = [person(f"p{i}", dict(zip(METRICS, rng.standard_normal((3, 28)), strict=True))) for i in range(4)]
    panel = Panel(made)
    window = made[0].record.between(END - 27, END)
    own, null = panel.correlations(window, END, [("steps", "rhr", 0), ("rhr", "sleep_duration", 2)])
    a, b, c = (INDEX[key] for key in METRICS[:3])
    assert own[0] == pytest.approx(abs(scipy.stats.spearmanr(window[:, a], window[:, b]).statistic))
    other = made[2].record.between(END - 27, END)
    # END is the last day of all, so the window of that weekday is the same for everybody
    assert null[0, 2] == pytest.approx(abs(scipy.stats.spearmanr(window[:, a], other[:, b]).statistic))
    ranks = [scipy.stats.rankdata(each) for each in (window[:, b], other[:, c])]
    assert null[1, 2] == pytest.approx(abs(np.corrcoef(ranks[0][:-2], ranks[1][2:])[0, 1]))


def test_gaps_leave_only_common_days():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((2, 3, 28))
    values[0, 0, :6] = values[1, 1, 20:] = np.nan
    made = [person(f"p{i}", dict(zip(METRICS, each, strict=True))) for i, each in enumerate(values)]
    window = made[0].record.between(END - 27, END)
    _, null = Panel(made).correlations(window, END, [("steps", "rhr", 0)])
    assert np.isnan(null[0, 1])  # fourteen common days are too few
    ranks = [scipy.stats.rankdata(values[0, 0], nan_policy="omit"), scipy.stats.rankdata(values[0, 1])]
    assert null[0, 0] == pytest.approx(abs(np.corrcoef(ranks[0][6:], ranks[1][6:])[0, 1]))


def test_answers_of_all_others_are_those_read_one_by_one():
    rng = np.random.default_rng(8)
    made = [
        person(
            f"p{i}",
            {key: rng.standard_normal(rng.integers(40, 700)) for key in METRICS[:2]},
            end=END - int(rng.integers(0, 4)),
        )
        for i in range(8)
    ]
    leaves = {
        "w": Leaf("series", "steps", -29, -2, "window"),
        "b": Leaf("series", "rhr", *windows.baseline_range(), "baseline"),
        "h": Leaf("series", "rhr", *windows.HISTORY_RANGE, "history"),
        "f": Leaf("series", "steps", *windows.FUTURE, "future"),
    }
    nodes = [Node(f"{name} mean", "mean", (name,)) for name in leaves]
    graph = Graph(leaves, (*nodes, Node("key", "stack", tuple(node.id for node in nodes))), "key")
    panel = Panel(made)
    for weekday in range(7):
        keys, readable = panel.answers(graph, 7 * 2857 + weekday)
        for i, other in enumerate(panel.people):
            end = int(panel.ends[i, weekday])
            values = reads.read(graph, other, end)
            assert readable[i] == (end >= 0 and all(np.isfinite(rows).any() for rows in values.values()))
            expected = evaluate(graph, values)[0] if readable[i] else [np.nan] * 4
            np.testing.assert_array_equal(keys[i], expected)
    assert readable.any()


def test_fewer_than_two_hundred_others_are_all_asked():
    some = people(12, seed=6, strength=3.0)
    question_type = a_type(pairs_of(METRICS[:2]), coupling=True)
    found = judged(question_type, some, Panel(some))
    assert {each.compared for each in found.survivors} == {11}
    assert min(found.chances) == pytest.approx(1 / 12)


def test_nobody_to_compare_with_proves_nothing():
    (alone,) = people(1, seed=7, strength=3.0)
    found = judged(a_type(pairs_of(METRICS[:2]), coupling=True), [alone], Panel([alone]))
    assert found.chances == (1.0,)
    assert settle(found) == []


@pytest.mark.parametrize(
    ("p", "looked", "limit"),
    [
        ([0.01, 0.05, 0.5], 3, 0.05),
        ([0.01, 0.14, 0.5], 3, 0.01),
        ([0.01, 0.13, 0.2], 3, 0.2),  # the last one lies on the line and takes the second with it
        ([0.01, 0.05, 0.5], 30, -1.0),
        ([], 0, -1.0),
    ],
)
def test_benjamini_hochberg(p, looked, limit):
    assert largest_discovery(p, q=0.2, looked=looked) == limit
