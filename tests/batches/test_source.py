from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.batches import source
from wearjax.batches.examples import DayExamples
from wearjax.day import SHAPE
from wearjax.days.store import Days
from wearjax.errors import ConfigError


class Numbered(Days):
    """Day i holds the number i everywhere."""

    path = "memory"

    def __init__(self, n: int):
        self.participants = np.arange(n).astype(str).astype(object)

    def values(self, index):
        return np.full(SHAPE, index, np.float32)

    def source(self, index):
        return "made"


def batches(n=10, *, batch_size=4, **options):
    settings = {"n_batches": 100, "seed": 3} | options
    return source.ShuffledBatches(DayExamples(Numbered(n), np.arange(n)), batch_size=batch_size, **settings)


@given(n=st.integers(1, 30), seed=st.integers(0, 2**32 - 1), epoch=st.integers(0, 10**6))
def test_every_epoch_visits_every_item_once(n, seed, epoch):
    got = source.EpochOrder(n, seed=seed).positions(epoch * n, (epoch + 1) * n)
    assert sorted(got) == list(range(n))


@given(n=st.integers(1, 12), cuts=st.lists(st.integers(0, 60), min_size=2, max_size=6))
def test_a_range_does_not_depend_on_how_it_is_asked_for(n, cuts):
    cuts = sorted(cuts)
    whole = source.EpochOrder(n, seed=5).positions(cuts[0], cuts[-1])
    order = source.EpochOrder(n, seed=5)
    backwards = [order.positions(a, b) for a, b in list(itertools.pairwise(cuts))[::-1]]
    np.testing.assert_array_equal(np.concatenate(backwards[::-1]), whole)


@given(groups=st.lists(st.integers(0, 6), min_size=1, max_size=40), epoch=st.integers(0, 10**6))
def test_items_of_a_group_stay_together(groups, epoch):
    n, groups = len(groups), np.array(groups)
    got = source.EpochOrder(n, seed=5, groups=groups).positions(epoch * n, (epoch + 1) * n)
    assert sorted(got) == list(range(n))
    assert len(list(itertools.groupby(groups[got]))) == len(set(groups))


def test_groups_and_the_items_of_each_are_shuffled_anew():
    groups = np.repeat(np.arange(10), 8)
    order = source.EpochOrder(80, seed=5, groups=groups)
    first, second = order.positions(0, 80), order.positions(80, 160)
    assert groups[first].tolist() != groups[second].tolist()
    assert not np.array_equal(np.argsort(groups[first], kind="stable"), np.arange(80))
    within = [first[groups[first] == g] for g in range(10)]
    assert any((np.diff(own) < 0).any() for own in within)
    parts = [pickle.loads(pickle.dumps(order)).positions(a, b) for a, b in ((70, 83), (83, 160))]
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate([first[70:], second]))


@pytest.mark.parametrize("count", [1, 2])
def test_batches_keep_groups_together_for_any_process_count(count):
    groups = np.repeat(np.arange(5), 8)
    options = {"n": 40, "batch_size": 8, "groups": groups, "process_count": count}
    for step in range(5):
        parts = [batches(process_index=p, **options)[step]["index"] for p in range(count)]
        assert len(set(groups[np.concatenate(parts)])) == 1


def test_epochs_and_seeds_differ():
    order = source.EpochOrder(50, seed=1)
    assert not np.array_equal(order.positions(0, 50), order.positions(50, 100))
    assert not np.array_equal(order.positions(0, 50), source.EpochOrder(50, seed=2).positions(0, 50))


def test_a_batch_holds_the_days_it_names():
    batch = batches()[7]
    assert batch["values"].shape == (4, *SHAPE)
    assert batch["values"].dtype == np.float32
    assert batch["index"].dtype == np.int64
    np.testing.assert_array_equal(batch["values"][:, 18, 1439], batch["index"])


def test_only_given_indices_are_drawn():
    days = DayExamples(Numbered(10), np.array([2, 5, 9]))
    picked = source.ShuffledBatches(days, batch_size=3, n_batches=1, seed=0)
    assert sorted(picked[0]["index"]) == [2, 5, 9]


@pytest.mark.parametrize("count", [2, 4])
def test_processes_share_the_global_batch(count):
    parts = [batches(process_index=p, process_count=count)[5]["index"] for p in range(count)]
    np.testing.assert_array_equal(np.concatenate(parts), batches()[5]["index"])


def test_a_pickled_source_gives_the_same_batches_and_carries_no_order():
    original = batches(n=2000)
    first = original[0]
    sent = pickle.dumps(original)
    np.testing.assert_array_equal(pickle.loads(sent)[0]["index"], first["index"])
    assert len(sent) < len(pickle.dumps(Numbered(2000))) + 8 * 2000 + 1000


def test_impossible_sizes():
    with pytest.raises(ConfigError, match="no example"):
        source.ShuffledBatches(DayExamples(Numbered(1), np.arange(0)), batch_size=1, n_batches=1, seed=0)
    with pytest.raises(ConfigError, match="batch size 4 does not divide by the 3 processes"):
        batches(process_count=3)
