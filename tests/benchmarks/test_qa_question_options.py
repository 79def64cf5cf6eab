"""The forms of options, and how false ones are chosen."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.benchmarks.wearableqa import windows
from wearjax.benchmarks.wearableqa.candidate import Option
from wearjax.benchmarks.wearableqa.primitives_pairs import KINDS
from wearjax.benchmarks.wearableqa.primitives_shapes import BREAKS, SHAPES
from wearjax.benchmarks.wearableqa.questions import (
    amounts,
    excursion_count,
    lead_lag,
    level_shift,
    options,
    recovery_time,
    signed_correlation,
    trend_shape,
    wording,
)

LISTS = {
    "trend_shape": (trend_shape, trend_shape.OPTIONS, len(SHAPES)),
    "recovery_time": (recovery_time, recovery_time.OPTIONS, 10),
    "signed_correlation": (signed_correlation, signed_correlation.OPTIONS, len(KINDS)),
    "lead_lag": (lead_lag, tuple(lead_lag.OPTIONS.values()), 14),
    "level_shift": (level_shift, tuple(level_shift.OPTIONS.values()), 24),
}


@pytest.mark.parametrize("name", LISTS)
def test_options_of_a_type_have_one_form(name):
    module, every, n = LISTS[name]
    assert len({option.text for option in every}) == len({option.key for option in every}) == len(every) == n
    lengths = [len(option.text) for option in every]
    assert max(lengths) <= wording.LENGTH_RATIO * min(lengths)
    assert [module.phrase(option.key) for option in every] == [option.text for option in every]
    assert all(option.text[0].isupper() and not option.text.endswith(".") for option in every)


def test_every_break_lies_in_one_block():
    days = [day + 1 for day in BREAKS]
    assert [sum(first <= day <= last for first, last in level_shift.BLOCKS) for day in days] == [1] * len(
        days
    )


def test_counts_have_one_form():
    assert excursion_count.phrase((0.0, 14.0)) == "0 in the first half, 14 in the second half"


@pytest.mark.parametrize("name", ["lead_lag", "level_shift"])
def test_parts_of_the_gold_do_not_stand_out(name):
    module, every, _ = LISTS[name]
    for gold in every:
        shown = [gold, *module._distractors(gold.key)[:9]]
        for part in range(len(gold.key)):
            count = Counter(option.key[part] for option in shown)
            assert (
                count[gold.key[part]] <= max(n for value, n in count.items() if value != gold.key[part]) + 1
            )


def test_balanced_passes_over_what_is_taken_or_too_long():
    gold = Option("abcdef", (1.0,))
    pool = [Option("ABCDEF", (1.0,)), Option("abcdef", (2.0,)), Option("abcdefghij", (3.0,)),
            Option("abcdefghi", (4.0,)), Option("abcde", (5.0,)), Option("abcdeg", (6.0,))]  # fmt: skip
    assert [option.key[0] for option in options.balanced(gold, pool)] == [
        4.0,
        6.0,
    ]  # abcde is too short for abcdefghi
    assert len(options.balanced(gold, pool, n=1)) == 1


@settings(max_examples=40)
@given(
    gold=st.integers(40, 120),
    error=st.floats(0, 0.1),
    lures=st.lists(st.one_of(st.floats(20, 200), st.just(float("nan"))), max_size=8),
    seed=st.integers(0, 1000),
)
def test_false_amounts(gold, error, lures, seed):
    scale = amounts.Scale(1.0, 30.0, 130.0, error)
    found = amounts.around(float(gold), lures, scale, np.random.default_rng(seed))
    if found is None:
        return
    every = np.sort([gold, *found])
    assert len(found) >= amounts.N
    assert all(side <= amounts.N for side in (np.sum(np.array(found) < gold), np.sum(np.array(found) > gold)))
    assert np.diff(every).min() >= amounts.LEAST_UNITS
    assert (np.diff(every) >= 0.99 * scale.share * every[:-1]).all()
    assert every[0] >= 30
    assert every[-1] <= 130
    assert (every == np.round(every)).all()


def test_amounts_lie_on_both_sides_and_take_wrong_computations_first():
    found = amounts.around(7.2, [9.4, 7.3, 5.1], amounts.Scale(0.1, 0, 24, 0.005), np.random.default_rng(0))
    assert sum(each < 7.2 for each in found) == sum(each > 7.2 for each in found) == 9
    assert found[:2] == pytest.approx((5.1, 9.4))  # 7.3 is too close
    assert amounts.around(2.0, [], amounts.Scale(1.0, 0, 9, 0.0), np.random.default_rng(0)) is None


def test_wording():
    assert wording.date(19_813) == "31 March 2024"
    assert wording.window(19_813) == "the latest 28 days (4 March 2024 to 31 March 2024)"
    assert wording.amount(8300.0, 100, "steps") == "8,300 steps"
    assert wording.amount(7.2000000001, 0.1, wording.unit("sleep_duration")) == "7.2 hours"
    assert (
        wording.metrics(("rhr", "hrv", "steps"))
        == "resting heart rate, heart rate variability and daily steps"
    )
    assert wording.unit("avg_stress_level") == "points"
    assert wording.short(17110.0) == "17,110"
    assert wording.short(3.67712) == "3.677"
    assert [wording.decimals(step) for step in (100, 1, 0.1, 0.01, 1e-3)] == [0, 0, 1, 2, 3]
    assert str(windows.HALF) in wording.halves()
    assert wording.days(1) == "1 day"
    assert wording.capitalised("REM sleep") == "REM sleep"
