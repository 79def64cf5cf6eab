from __future__ import annotations

import pickle

import numpy as np
import pytest
from made_days import made_cohort
from openmhc_root import write_openmhc_root

from wearjax.days import clean, splits
from wearjax.days.open import open_days
from wearjax.days.openmhc import OpenMHCDays
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import SourceError, StoreError


@pytest.fixture
def days():
    cohort = made_cohort(5, 3)
    return [cohort[i] for i in np.random.default_rng(3).permutation(len(cohort))]  # rows are in no order


def make_root(path, days, **options):
    users = sorted({d.participant for d in days})
    parts = {"train": users[:3], "validation": users[3:4], "test": users[4:]}
    return write_openmhc_root(path, days, parts, **options)


@pytest.mark.parametrize("values_type", ["nested", "fixed", "flat"])
def test_opens_without_conversion_in_row_order(tmp_path, days, values_type):
    opened = open_days(make_root(tmp_path / "root", days, values_type=values_type))
    assert isinstance(opened, OpenMHCDays)
    assert len(opened) == len(days)
    for i, day in enumerate(days):
        read = opened[i]
        np.testing.assert_array_equal(read.values, clean.zero_to_nan(np.nan_to_num(day.values)))
        assert (read.participant, read.date, read.nonwear_minutes, read.source) == (
            day.participant, day.date, day.nonwear_minutes, "openmhc",
        )  # fmt: skip
    np.testing.assert_array_equal(opened.batch([4, 2]), np.stack([opened.values(4), opened.values(2)]))
    np.testing.assert_array_equal(opened[-1].values, opened.values(len(days) - 1))


def test_is_the_same_as_its_import(tmp_path, days):
    opened = open_days(make_root(tmp_path / "root", days))
    with DayStoreWriter(tmp_path / "store", provenance={}) as writer:
        writer.add_all(opened[i] for i in range(len(opened)))
    store = DayStore(tmp_path / "store")
    order = np.lexsort((opened.dates.astype(str), opened.participants.astype(str)))
    np.testing.assert_array_equal(store.batch(range(len(store))), opened.batch(order))
    np.testing.assert_array_equal(store.variance, opened.variance[order])
    np.testing.assert_array_equal(store.retained, opened.retained[order])


def test_split_indices_and_filters(tmp_path, days):
    root = make_root(tmp_path / "root", days)
    opened = open_days(root)
    made = splits.read_splits(root)
    train = made.indices(opened, "train")
    assert [days[i].participant in made.train and days[i].nonwear_minutes <= 720 for i in train] == [True] * 6


def test_pickle_carries_the_path_only(tmp_path, days):
    opened = open_days(make_root(tmp_path / "root", days))
    packed = pickle.dumps(opened)
    assert len(packed) < 1000
    np.testing.assert_array_equal(pickle.loads(packed).values(7), opened.values(7))


def test_the_version_can_be_demanded(tmp_path, days):
    root = make_root(tmp_path / "root", days)
    assert OpenMHCDays(root, version="xs").marker.n_users == 5
    with pytest.raises(SourceError, match="'full' was asked for"):
        OpenMHCDays(root, version="full")


def test_open_days_names_a_folder_that_is_neither(tmp_path):
    with pytest.raises(StoreError, match="no such folder"):
        open_days(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"neither store\.json nor dataset_version\.json"):
        open_days(tmp_path)
