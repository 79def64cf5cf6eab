import dataclasses
import math

import numpy as np
import pytest

from wearjax.benchmarks.wearableqa import analysis
from wearjax.benchmarks.wearableqa.analysis import Answer
from wearjax.errors import ConfigError
from wearjax.scores import proportion


def made(i, letter, *, gold="A", user=None, **changed) -> Answer:
    options = {
        "id": f"q{i}", "user": user or f"u{i % 5}", "category": "signal_summary", "reasoning_group": "data",
        "signal": "single", "grounding": "population", "scope": "window", "gold": gold, "letter": letter,
    }  # fmt: skip
    return Answer(**(options | changed))


def test_accuracies_by_every_axis():
    answers = [
        made(0, "A"), made(1, "B"), made(2, None), made(3, None, failed=True),
        made(4, "A", category="concordance", reasoning_group="health", signal="cross", scope="history"),
    ]  # fmt: skip
    found = {(a.axis, a.value): a for a in analysis.accuracies(answers)}
    total = found["all", "all"]
    assert (total.n, total.right, total.accuracy, total.unparsed, total.failed) == (5, 2, 0.4, 1, 1)
    assert (total.low, total.high) == proportion.wilson(2, 5)
    for axis, value in (
        ("type", "signal_summary"),
        ("group", "data"),
        ("signal", "single"),
        ("scope", "window"),
    ):
        assert (found[axis, value].n, found[axis, value].right) == (4, 1)
    for axis, value in (
        ("type", "concordance"),
        ("group", "health"),
        ("signal", "cross"),
        ("scope", "history"),
    ):
        assert (found[axis, value].n, found[axis, value].accuracy) == (1, 1.0)
    assert found["grounding", "population"].n == 5


def test_paired_difference():
    first = [made(i, "A" if i < 10 else "B") for i in range(40)]
    second = [made(i, "A" if 4 <= i < 30 else "B") for i in range(40)]
    found = {(row.axis, row.value): row for row in analysis.paired(first, second[::-1], draws=400)}
    row = found["all", "all"]
    assert (row.n, row.first, row.second, row.difference) == (40, 0.25, 0.65, 0.4)
    assert (row.first_only, row.second_only) == (4, 20)
    assert row.p == proportion.mcnemar(4, 20)
    assert row.low < 0.4 < row.high
    assert (found["scope", "window"].n, found["signal", "single"].n) == (40, 40)


def test_the_interval_of_a_difference_resamples_users():
    # All of a user's questions go the same way: the interval is that of four users, not of forty questions.
    first = [made(i, "B", user=f"u{i % 4}") for i in range(40)]
    second = [made(i, "A" if i % 4 < 2 else "B", user=f"u{i % 4}") for i in range(40)]
    row = analysis.paired(first, second, draws=2000)[0]
    assert (row.low, row.high) == (0.0, 1.0)
    assert analysis.paired(first, second, draws=2000, seed=42)[0] == row


def test_runs_that_do_not_belong_together():
    with pytest.raises(ConfigError, match="share no question"):
        analysis.paired([made(0, "A")], [made(1, "A")])
    with pytest.raises(ConfigError, match="question q0: the two runs were made with different versions"):
        analysis.paired([made(0, "A")], [made(0, "A", gold="B")])


def test_positions():
    gold = "ABCDEFGHIJ" * 2
    answers = [made(i, "C" if i < 15 else g if i < 19 else None, gold=g) for i, g in enumerate(gold)]
    found = analysis.positions(answers)
    assert (found.n, found.largest, found.largest_share) == (19, "C", 15 / 19)
    assert found.gold == {c: 0.1 for c in "ABCDEFGHIJ"}
    counts = np.array([0, 0, 15, 0, 0, 1, 1, 1, 1, 0])
    assert "χ² " in found.against_gold
    seldom = dataclasses.replace(found, chi_squared=math.inf, p=0.0)
    assert "not computed" in seldom.against_gold
    assert (found.chi_squared, found.p) == proportion.chi_squared(counts, np.full(10, 0.1))
    assert found.entropy_bits == proportion.entropy_bits(counts)
    assert (found.accuracy["C"], found.accuracy["F"], found.accuracy["A"]) == (1.0, 0.5, 0.0)
    silent = analysis.positions([made(0, None)])
    assert (silent.n, silent.largest) == (0, "")
    assert math.isnan(silent.largest_share)


def test_definitional_gap_is_matched_on_strength():
    # Right answers depend on strength alone, and definitional pairs are stronger: the matched gap is nil.
    rng = np.random.default_rng(0)
    answers = []
    for i in range(2000):
        tied = i % 2 == 0
        rho = rng.uniform(0.75, 1.0) if tied else rng.uniform(0.66, 0.9)
        sign = 1 if i % 3 else -1
        answers.append(
            made(
                i,
                "A" if rho > 0.8 else "B",
                user=f"u{i % 40}",
                tag="definitional" if tied else "empirical",
                rho=sign * rho,
            )
        )
    weak = [made(3000 + i, "A", tag="empirical", rho=0.6) for i in range(50)]
    found = analysis.definitional_gap(answers + weak, draws=200)
    assert found.definitional.n == found.empirical.n == 1000
    assert found.difference > 0.3
    assert abs(found.matched) < 0.1
    assert found.low <= found.matched <= found.high
    flipped = [dataclasses.replace(a, letter="A" if a.tag == "definitional" else "B") for a in answers]
    assert analysis.definitional_gap(flipped, draws=50).matched == 1.0
    assert analysis.definitional_gap(weak) is None
