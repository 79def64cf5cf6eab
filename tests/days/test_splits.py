from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_days import made_cohort
from openmhc_root import write_openmhc_root

from wearjax.days import splits
from wearjax.days.splits import Splits
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError, StoreError


@pytest.mark.parametrize(
    ("n", "sizes"), [(593, (356, 59, 178)), (11_894, (7136, 1189, 3569)), (3, (1, 1, 1))]
)
def test_sizes_are_those_of_the_benchmark(n, sizes):
    made = splits.make_splits([f"p{i}" for i in range(n)])
    assert tuple(len(made.of(name)) for name in ("train", "validation", "test")) == sizes


@settings(max_examples=40)
@given(st.sets(st.text("ab-0é", max_size=4), min_size=3, max_size=30), st.integers(0, 5))
def test_everyone_is_in_exactly_one_split_whatever_the_order(ids, seed):
    made = splits.make_splits(sorted(ids), seed=seed)
    members = [*made.train, *made.validation, *made.test]
    assert sorted(members) == sorted(ids)
    assert min(len(made.train), len(made.validation), len(made.test)) >= 1
    shuffled = [sorted(ids)[i] for i in np.random.default_rng(seed).permutation(len(ids))]
    assert splits.make_splits(shuffled * 2, seed=seed) == made


def test_the_seed_matters():
    ids = [f"p{i}" for i in range(30)]
    assert splits.make_splits(ids, seed=1) != splits.make_splits(ids, seed=2)


def test_too_few_participants_are_refused():
    with pytest.raises(ConfigError, match="2 participants: at least 3"):
        splits.make_splits(["a", "b", "a"])


def test_indices_are_store_positions_of_retained_days(tmp_path):
    days = made_cohort(4, 3)
    with DayStoreWriter(tmp_path / "store", provenance={}) as writer:
        writer.add_all(days)
    store = DayStore(tmp_path / "store")
    names = sorted({d.participant for d in days})
    made = Splits(train=tuple(names[:2]), validation=(names[2],), test=("nobody",))
    assert made.indices(store, "train").tolist() == [0, 2, 3, 5]
    assert made.indices(store, "train", retained_only=False).tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(made.indices(store, "val"), made.indices(store, "validation"))
    assert made.indices(store, "test").dtype == np.int64
    assert len(made.indices(store, "test")) == 0
    assert made.unassigned(store.participants) == (names[3],)


def test_an_unknown_split_is_named():
    with pytest.raises(ConfigError, match="'dev'"):
        Splits(("a",), ("b",), ("c",)).of("dev")


def test_a_participant_in_two_splits_is_refused():
    with pytest.raises(StoreError, match="b stands twice"):
        Splits(("a", "b"), ("b",), ("c",))


def test_write_and_read_a_store(tmp_path):
    made = splits.make_splits([f"p{i}" for i in range(7)])
    assert splits.write_splits(tmp_path, made) == tmp_path / "splits.json"
    assert splits.read_splits(tmp_path) == made
    assert [f.name for f in tmp_path.iterdir()] == ["splits.json"]


def test_val_is_accepted_for_validation(tmp_path):
    (tmp_path / "splits.json").write_text('{"train": ["a"], "val": ["b"], "test": ["c"]}')
    assert splits.read_splits(tmp_path) == Splits(("a",), ("b",), ("c",))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"train": [], "test": []}', '{"train": "abc", "validation": [], "test": []}']
)
def test_damaged_splits_are_named(tmp_path, text):
    (tmp_path / "splits.json").write_text(text)
    with pytest.raises(StoreError, match=r"splits\.json: expected lists"):
        splits.read_splits(tmp_path)


def test_a_store_without_splits_says_so(tmp_path):
    with pytest.raises(StoreError, match="no splits"):
        splits.read_splits(tmp_path)


def test_reads_the_splits_of_an_openmhc_root(tmp_path):
    days = made_cohort(4, 1)
    users = [d.participant for d in days]
    parts = {"train": users[:2], "validation": users[2:3], "test": users[3:]}
    root = write_openmhc_root(tmp_path / "root", days, parts)
    assert splits.read_splits(root) == Splits(*(tuple(parts[n]) for n in ("train", "validation", "test")))
