"""From candidates to questions: numbers, spacing, letters, options that are right equally often."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_items import BANDS, amount, amount_type, candidate, level_type
from scipy import stats

from wearjax.benchmarks.wearableqa import assemble, audit_wording, option_balance, option_disguise, safety
from wearjax.benchmarks.wearableqa.candidate import Option
from wearjax.benchmarks.wearableqa.item import LETTERS

TYPE = level_type()


def ends(n: int) -> list[int]:
    return [19_800 - 14 * i for i in range(n)]


def many(golds, *, users: int = 60, per_user: int = 6):
    """Candidates whose golds repeat the given ones."""
    every = [(f"u{u:03d}", end) for u in range(users) for end in ends(per_user)]
    return [candidate(user, end, golds[i % len(golds)]) for i, (user, end) in enumerate(every)]


def made(candidates, *, question_type=TYPE, items: int = 4084, **options):
    return assemble.assemble(
        {question_type.name: candidates}, [question_type], source="made", items=items, **options
    )


def test_letters_come_from_decks_and_nothing_occurs_twice():
    health = dataclasses.replace(level_type("other"), group="health")
    every = {
        TYPE.name: many(range(10)),
        "other": [dataclasses.replace(c, type="other") for c in many(range(10))],
    }
    found = assemble.assemble(every, [TYPE, health], source="made", items=2000)
    for group in ("data", "health"):
        counts = Counter(item.answer for item in found.items if item.reasoning_group == group)
        assert set(counts) == set(LETTERS)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert stats.chisquare([counts[c] for c in LETTERS]).pvalue > 0.05
    assert len({(item.stem, *item.choices) for item in found.items}) == len(found.items)
    assert len({item.id for item in found.items}) == len(found.items)
    assert all(safety.MARK in item.stem for item in found.items if item.reasoning_group == "health")


def test_the_gold_stays_right_and_all_options_are_there():
    for item in made(many(range(10)), items=500).items:
        assert sorted(item.choices) == sorted(option.text for option in BANDS)
        assert dict(zip(item.choices, item.keys, strict=True)) == {o.text: o.key for o in BANDS}


def test_two_of_a_type_about_a_person_at_most_and_four_weeks_apart():
    found = made(many(range(10))).items
    by_user = {}
    for item in found:
        by_user.setdefault(item.user_id, []).append(item.end)
    assert max(map(len, by_user.values())) == 2
    assert min(abs(a - b) for a, b in by_user.values() if b is not None) >= 28


def test_targets_scale_and_are_not_exceeded():
    found = made(many(range(10)), items=1201)  # 170 · 1201 / 4084 = 50
    assert found.counts[TYPE.name]["target"] == 50 == len(found.items)
    assert found.counts[TYPE.name]["items"] == 50


def test_order_of_candidates_does_not_matter_but_the_seed_does():
    every = many(range(10))
    shuffled = [every[i] for i in np.random.default_rng(1).permutation(len(every))]
    lines = [[item.to_json() for item in made(each, items=500).items] for each in (every, shuffled)]
    assert lines[0] == lines[1]
    assert lines[0] != [item.to_json() for item in made(every, items=500, seed=1).items]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_whatever_the_golds_no_answer_is_right_too_often_or_seldom(golds):
    found = made(many(golds, users=25), items=1500).items
    shown = option_balance.rates((item.choices[item.gold], item.choices) for item in found)
    for right, n in shown.values():
        assert np.floor(0.05 * n + 1e-9) <= right <= np.ceil(0.15 * n - 1e-9)


def test_balanced_answers_lose_nothing_and_skewed_ones_only_what_they_must():
    even = made(many(range(10), users=60), items=2400).counts[TYPE.name]
    assert even["unbalanced"] == 0
    assert even["items"] == even["picked"] == 100
    skewed = made(many([0, *range(10), 0, 0, 0], users=60)).counts[TYPE.name]
    assert skewed["items"] >= 100
    loose = made(many([0] * 30 + list(range(10))), balanced=False).counts[TYPE.name]
    assert loose["unbalanced"] == 0


def test_of_more_options_than_nine_those_are_shown_that_are_right_elsewhere():
    """Ten answers that occur, thirty that never do: were they shown, their never being right would tell."""
    never = [Option(f"between {100 + i} and {104 + i} bpm", (100.0 + i,)) for i in range(30)]
    golds = [int(g) for g in np.random.default_rng(0).integers(0, 10, 120)]
    every = []
    for i, (user, gold) in enumerate((f"u{i:03d}", gold) for i, gold in enumerate(golds)):
        mixed = [never[i % 30], *(o for o in BANDS if o is not BANDS[gold]), *never[:6]]
        every.append(candidate(user, 19_800, gold, distractors=tuple(dict.fromkeys(mixed))))
    found = made(every, items=4084).items
    shown = option_balance.rates((item.choices[item.gold], item.choices) for item in found)
    assert len(found) > 60
    assert not option_balance.uneven(shown)
    assert sum(n for text, (_, n) in shown.items() if text in {o.text for o in never}) < 0.2 * len(found) * 10


def test_an_answer_does_not_lie_amid_its_options():
    """The false options change one part each, which leaves the answer between them; spare ones cover that up."""
    grid = {
        (float(i), float(j)): Option(f"{'abcd'[i]}x and {'abcd'[j]}y", (i, j))
        for i in range(4)
        for j in range(4)
    }
    rng, every = np.random.default_rng(3), []
    for i in range(160):
        gold = list(grid)[rng.integers(len(grid))]
        apart = sorted(
            (key for key in grid if key != gold),
            key=lambda key: (sum(a != b for a, b in zip(key, gold, strict=True)), rng.random()),
        )
        every.append(
            candidate(f"u{i:03d}", 19_800, 0, gold=grid[gold], distractors=tuple(grid[key] for key in apart))
        )

    def central(items) -> float:
        """How often the answer is among the three that are the most like the others."""
        ranks = [
            (-option_disguise.likeness(i.choices).sum(axis=1)).argsort().tolist().index(i.gold) for i in items
        ]
        return float(np.mean(np.array(ranks) < 3))

    found = made(every, items=4084).items
    assert len(found) > 100
    assert not option_balance.uneven(option_balance.rates((i.choices[i.gold], i.choices) for i in found))
    assert central(found) < 0.45
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(option_balance, "disguise", lambda drafts: None)
        assert central(made(every, items=4084).items) > 0.6


def test_an_amount_has_each_rank_among_its_options_equally_often():
    kind = amount_type()
    rng = np.random.default_rng(0)
    every = [amount(f"u{i:03d}", 19_800, float(v)) for i, v in enumerate(rng.integers(40, 72, 100))]
    found = made(every, question_type=kind, items=2400).items
    ranks = Counter(sorted(key[0] for key in item.keys).index(item.keys[item.gold][0]) for item in found)
    assert len(found) == 100
    assert set(ranks.values()) == {10}
    assert len(ranks) == 10


def test_options_of_very_different_length_are_not_shown_together():
    long = Option("between fifty and fifty-four beats per minute, more or less", (99.0,))
    with_spare = candidate("u", 19_800, 0, distractors=(long, *BANDS[1:]))
    without = candidate("u", 19_800, 0, distractors=(long, *BANDS[2:]))
    draft = option_balance.drafted(with_spare)
    assert draft is not None
    assert long not in draft.possible
    assert option_balance.drafted(without) is None
    assert made([without]).counts[TYPE.name]["length"] == 1


def test_forbidden_wording_is_left_out_and_counted():
    bad = candidate("u", 19_800, 0, stem="Which dose of insulin?")
    found = made([bad, candidate("v", 19_800, 1)])
    assert found.counts[TYPE.name]["wording"] == 1
    assert [item.user_id for item in found.items] == ["v"]


def test_ids_tell_questions_of_one_day_apart():
    other = level_type("other")
    every = {name: [candidate("u", 19_800, 0, type_name=name)] for name in (TYPE.name, "other")}
    found = assemble.assemble(every, [TYPE, other], source="made")
    assert [item.id for item in found.items] == ["made_u_2024-03-18", "made_u_2024-03-18-2"]


@pytest.mark.parametrize(
    ("relation", "grounding", "verified"), [(None, "population", None), ("steps_rhr", "literature", False)]
)
def test_unverified_relations_are_marked(relation, grounding, verified):
    (item,) = made([candidate("u", 19_800, 0, relation=relation)]).items
    assert (item.grounding, item.relation_verified) == (grounding, verified)


def test_the_letter_audit_sees_a_letter_that_is_preferred():
    items = made(many(range(10)), items=2000).items
    assert all(each.passed is not False for each in audit_wording.letters(items))
    skewed = [dataclasses.replace(item, answer="A") for item in items]
    assert any(each.passed is False for each in audit_wording.letters(skewed))
