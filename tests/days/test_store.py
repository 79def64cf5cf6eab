from __future__ import annotations

import datetime as dt
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_days import made_cohort, made_day

from wearjax.day import SHAPE, Day
from wearjax.days import clean
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import StoreError


def write(path, days, **options):
    with DayStoreWriter(path, provenance={"source": "made"}, **options) as writer:
        writer.add_all(days)
    return DayStore(path)


def test_reads_back_cleaned_days_sorted_by_participant_and_date(tmp_path):
    days = made_cohort(3, 3)
    store = write(tmp_path / "store", days[::-1], days_per_shard=2)
    assert len(store) == 9
    assert store.meta["shards"] == 5
    assert store.meta["participants"] == 3
    keys = list(zip(store.participants, store.dates, strict=True))
    assert keys == sorted(keys)
    for i, day in enumerate(days):
        read = store[i]
        np.testing.assert_array_equal(read.values, clean.zero_to_nan(day.values))
        assert (read.participant, read.date, read.nonwear_minutes, read.source) == (
            day.participant, day.date, day.nonwear_minutes, "made",
        )  # fmt: skip


def test_index_holds_variance_and_retained_of_the_cleaned_values(tmp_path):
    store = write(tmp_path / "store", made_cohort(2, 3))
    for i in range(len(store)):
        np.testing.assert_array_equal(store.variance[i], clean.channel_variance(store.values(i)))
    assert store.retained.tolist() == [True, False, True] * 2  # the second day was hardly worn
    assert store.meta["retained_days"] == 4


def test_cleaned_days_are_written_as_they_are(tmp_path):
    day = made_day("a")
    store = write(tmp_path / "store", [day], cleaned=True)
    np.testing.assert_array_equal(store.values(0), day.values)


def test_batch_negative_index_and_index_error(tmp_path):
    store = write(tmp_path / "store", made_cohort(2, 2))
    np.testing.assert_array_equal(store.batch([3, 0]), np.stack([store.values(3), store.values(0)]))
    np.testing.assert_array_equal(store[-1].values, store.values(3))
    for index in (4, -5):
        with pytest.raises(IndexError):
            store[index]


def test_values_are_a_fresh_array(tmp_path):
    store = write(tmp_path / "store", [made_day("a")])
    store.values(0)[:] = -5
    assert not np.any(store.values(0) == -5)


def test_pickle_carries_the_path_only(tmp_path):
    store = write(tmp_path / "store", made_cohort(2, 2))
    packed = pickle.dumps(store)
    assert len(packed) < 1000
    np.testing.assert_array_equal(pickle.loads(packed).values(1), store.values(1))


def test_an_interrupted_writer_leaves_nothing(tmp_path):
    class Stopped(Exception):
        pass

    def days():
        yield made_day("a")
        raise Stopped

    with pytest.raises(Stopped):
        write(tmp_path / "store", days(), days_per_shard=1)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_replacement_keeps_the_old_store(tmp_path):
    path = tmp_path / "store"
    write(path, [made_day("old")])

    def days():
        yield made_day("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, days(), overwrite=True)
    assert DayStore(path).participants.tolist() == ["old"]
    write(path, [made_day("new")], overwrite=True)
    assert DayStore(path).participants.tolist() == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_two_writers_of_one_store_do_not_mix(tmp_path):
    store = tmp_path / "store"
    with DayStoreWriter(store, provenance={}) as first:
        for overwrite in (False, True):
            second = DayStoreWriter(store, provenance={}, overwrite=overwrite)
            with pytest.raises(StoreError, match="store is being written by another process"), second:
                pytest.fail("wrote at the same time")
        first.add(made_day("a"))
    assert DayStore(store)[0].participant == "a"
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_a_store_that_came_meanwhile_stays(tmp_path):
    whole = write(tmp_path / "whole", [made_day("first")])
    second = DayStoreWriter(tmp_path / "store", provenance={})
    second.__enter__()
    second.add(made_day("second"))
    whole.path.rename(tmp_path / "store")
    with pytest.raises(StoreError, match="written by another process meanwhile"):
        second.__exit__(None, None, None)
    assert DayStore(tmp_path / "store")[0].participant == "first"
    assert [p.name for p in tmp_path.iterdir()] == ["store"]


def test_one_day_several_and_none(tmp_path):
    store = write(tmp_path / "store", made_cohort(2, 3))
    assert repr(store) == (
        f"DayStore({str(store.path)!r}: 6 days of 2 participants, {store.dates[0]} to {store.dates[2]})"
    )
    assert store[-1].date == store[np.int64(5)].date
    assert [day.date.isoformat() for day in store[1:3]] == list(store.dates[1:3])
    for several in ([4, 0], (4, 0), np.array([4, 0])):
        assert [day.participant for day in store[several]] == [store.participants[4], store.participants[0]]
    assert [day.participant for day in store[store.dates == store.dates[0]]] == sorted(
        set(store.participants)
    )
    assert store[[]] == []
    for wrong in (0.0, np.float32(1), float("inf"), "0", None, [0.5]):
        with pytest.raises(TypeError, match="is no day of a store: expected a whole number"):
            store[wrong]
    for outside in (6, -7, [6], np.ones(5, bool)):
        with pytest.raises(IndexError, match="6 days"):
            store[outside]
    assert len(list(store)) == 6


def test_infinite_values_are_refused(tmp_path):
    day = made_day("a")
    day.values[5, 7] = -np.inf
    with pytest.raises(StoreError, match=r"participant a, \d{4}-\d\d-\d\d: watch_hr holds an infinite value"):
        write(tmp_path / "store", [day])
    assert list(tmp_path.iterdir()) == []


def test_refuses_to_replace(tmp_path):
    write(tmp_path / "store", [made_day("a")])
    with pytest.raises(StoreError, match="exists"):
        DayStoreWriter(tmp_path / "store", provenance={})
    (tmp_path / "photos").mkdir()
    with pytest.raises(StoreError, match="not a day store"):
        DayStoreWriter(tmp_path / "photos", provenance={}, overwrite=True)
    with pytest.raises(StoreError, match="not a day store"):  # no word of --force, which would not help
        DayStoreWriter(tmp_path / "photos", provenance={})
    with pytest.raises(StoreError, match="lies inside the day store"):
        DayStoreWriter(tmp_path / "store" / "shards" / "again", provenance={})


def test_refuses_a_second_day_of_the_same_date_and_an_empty_store(tmp_path):
    with pytest.raises(StoreError, match="two days dated 2021-03-01"):
        write(tmp_path / "store", [made_day("a"), made_day("b"), made_day("a")])
    with pytest.raises(StoreError, match="no day to write"):
        write(tmp_path / "store", [])
    assert list(tmp_path.iterdir()) == []


def test_provenance_is_read_at_the_end_and_files_are_attached(tmp_path):
    provenance = {}
    with DayStoreWriter(tmp_path / "store", provenance=provenance) as writer:
        writer.add(made_day("a"))
        writer.attach("splits.json", "{}")
        provenance["counted"] = 3
    assert DayStore(tmp_path / "store").meta["provenance"] == {"counted": 3}
    assert (tmp_path / "store" / "splits.json").read_text() == "{}"


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "store"
    write(path, made_cohort(2, 2), days_per_shard=2)
    return path


def rewrite_meta(path, **changes):
    meta = json.loads((path / "store.json").read_text())
    (path / "store.json").write_text(json.dumps(meta | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / "shards" / "00001.npy").unlink(), r"00001\.npy: shard is missing"),
        (lambda p: cut(p / "shards" / "00001.npy", 1000), r"00001\.npy: not a readable shard"),
        (lambda p: cut(p / "shards" / "00001.npy", 4), r"00001\.npy: not a readable shard"),
        (
            lambda p: np.save(p / "shards" / "00001.npy", np.zeros((1, *SHAPE), np.float32)),
            "expected float32",
        ),
        (lambda p: np.save(p / "shards" / "00001.npy", np.zeros((2, *SHAPE))), "found float64"),
        (lambda p: (p / "index.parquet").unlink(), "index is missing"),
        (lambda p: cut(p / "index.parquet", 100), "not a readable index"),
        (lambda p: rewrite_meta(p, days=5), "4 rows, store.json says 5"),
        (lambda p: rewrite_meta(p, channels="0" * 64), "another channel table"),
        (lambda p: rewrite_meta(p, format=99), "store format 99"),
        (lambda p: (p / "store.json").write_text("{"), "not readable as a store description"),
        (lambda p: (p / "store.json").write_text("[]"), "not readable as a store description"),
        (lambda p: (p / "store.json").unlink(), "not a day store"),
    ],
)
def test_damage_is_named_in_one_line(broken, damage, message):
    damage(broken)
    with pytest.raises(StoreError, match=message) as caught:
        DayStore(broken)
    assert "\n" not in str(caught.value)


def cut(file, size):
    file.write_bytes(file.read_bytes()[:size])


@settings(max_examples=15)
@given(
    keys=st.sets(
        st.tuples(
            st.text("aä-9 ", min_size=1, max_size=4), st.dates(dt.date(1918, 1, 1), dt.date(2099, 1, 1))
        ),
        min_size=1, max_size=5,
    ),
    shard=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)  # fmt: skip
def test_round_trip(tmp_path_factory, keys, shard, seed):
    rng = np.random.default_rng(seed)
    days = []
    for participant, date in keys:
        values = rng.normal(size=SHAPE).astype(np.float32)
        values[rng.random(SHAPE) < 0.4] = np.nan
        values[rng.random(19) < 0.3] = np.nan
        days.append(Day(values, participant, date, float(rng.integers(0, 1441)), "made"))
    store = write(tmp_path_factory.mktemp("trip") / "store", days, days_per_shard=shard)
    by_key = {(d.participant, d.date): d for d in days}
    assert len(store) == len(by_key)
    for i in range(len(store)):
        read = store[i]
        written = by_key[read.participant, read.date]
        np.testing.assert_array_equal(read.values, clean.zero_to_nan(written.values))
        assert read.nonwear_minutes == written.nonwear_minutes
