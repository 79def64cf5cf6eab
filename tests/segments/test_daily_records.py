"""The store of daily records: cleaning rules with counts, and files that come back as they were written."""

import datetime as dt
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wearjax.daily_metrics import INDEX, METRICS, N_METRICS
from wearjax.errors import SourceError, StoreError
from wearjax.segments import daily_cleaning, daily_records
from wearjax.sources.daily_record import BloodValue, DailyRecord, Demographics, of_rows
from wearjax.sources.tally import Tally


def one_day(**values):
    row = np.full((1, N_METRICS), np.nan)
    for key, value in values.items():
        row[0, INDEX[key]] = value
    return DailyRecord("u", np.array([18_000]), row)


def made(user, days=5, seed=0):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((days, N_METRICS)) < 0.3, np.nan, 60 + rng.random((days, N_METRICS)))
    values[:, INDEX["rhr"]] = 60
    values = values.clip([m.plausible[0] for m in METRICS], [m.plausible[1] for m in METRICS])
    profile = Demographics(41.0, "female", 23.5, None, None, "<25")
    blood = {"hdl": BloodValue(58.0, "mg/dL", dt.date(2024, 2, 3)), "tsh": BloodValue(1.5, "mIU/L")}
    return DailyRecord(user, np.arange(days) * 2 + 18_000, values, profile, blood)


@pytest.mark.parametrize("key", ["exercise_avg_hr", "exercise_mets", "exercise_hours", "avg_stress_level"])
def test_a_zero_that_means_missing_is_taken_out(key):
    cleaned, counts = daily_records.clean(one_day(rhr=60.0, **{key: 0.0}))
    assert np.isnan(cleaned.values[0, INDEX[key]])
    assert cleaned.values[0, INDEX["rhr"]] == 60
    assert counts == {(key, daily_cleaning.ZERO): 1}


@pytest.mark.parametrize("key", ["steps", "sleep_duration", "exercise_count", "active_burn"])
def test_other_zeros_stay(key):
    cleaned, counts = daily_records.clean(one_day(**{key: 0.0}))
    assert cleaned.values[0, INDEX[key]] == 0
    assert not counts


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.key)
def test_ranges_are_closed(metric):
    low, high = metric.plausible
    for value, stays in ((low, low > 0 or not metric.zero_is_missing), (high, True), (high * 1.001, False)):
        cleaned, counts = daily_records.clean(one_day(**{"rhr": 60.0, metric.key: value}))
        found = cleaned.values[:, INDEX[metric.key]].tolist()
        assert (found == [value]) == stays
        assert bool(counts) != stays
    for value in (np.inf, -np.inf, low - 1):
        assert (
            daily_records.clean(one_day(**{metric.key: value}))[1].total() == 2
        )  # the value, and the empty day


@settings(max_examples=25, deadline=None)
@given(hnp.arrays(np.float64, (3, N_METRICS), elements=st.floats(-10, 200) | st.just(np.nan)))
def test_cleaning_twice_changes_nothing_more(values):
    once, counts = daily_records.clean(DailyRecord("u", np.arange(3), values))
    again, more = daily_records.clean(once)
    assert not more
    assert np.array_equal(once.values, again.values, equal_nan=True)
    taken = np.isfinite(values).sum() - np.isfinite(once.values).sum()
    assert taken == sum(n for (what, _), n in counts.items() if what != "day")
    assert 3 - len(once.dates) == counts["day", "nothing measured"]


def test_rows_of_one_day_become_the_last_of_them():
    tally = Tally()
    rows = np.array([[1.0], [2.0], [3.0], [4.0]]) * np.ones(N_METRICS)
    record = of_rows("u", np.array([9, 7, 9, 8]), rows, tally=tally)
    assert record.dates.tolist() == [7, 8, 9]
    assert record.values[:, 0].tolist() == [2, 4, 3]
    assert tally.skipped.total() == 1
    assert len(of_rows("u", np.empty(0, np.int64), np.empty((0, N_METRICS))).dates) == 0


def test_between_fills_the_days_that_are_not_there():
    found = made("u").between(17_999, 18_003)
    assert np.isfinite(found[:, INDEX["rhr"]]).tolist() == [False, True, False, True, False]
    with pytest.raises(SourceError, match="ascend"):
        DailyRecord("u", np.array([2, 1]), np.zeros((2, N_METRICS)))


def test_a_store_gives_back_what_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(daily_records, "ROWS_PER_GROUP", 8)  # several row groups
    people = [made(name, seed=i) for i, name in enumerate(("c", "a", "b"))]
    empty = DailyRecord("z", np.array([1]), np.full((1, N_METRICS), np.nan))
    tally = Tally()
    store = daily_records.write_records(tmp_path / "s", [*people, empty], tally, provenance={"seed": 1})
    store = pickle.loads(pickle.dumps(store))
    assert store.users() == ("a", "b", "c")
    assert len(store) == 3
    for wanted in people:
        found = store.record(wanted.user)
        assert np.array_equal(found.values, wanted.values, equal_nan=True)
        assert np.array_equal(found.dates, wanted.dates)
        assert found.dates.dtype == np.int64
        assert found.demographics == wanted.demographics
        assert found.blood == wanted.blood
    assert ("person", "no day with a measured metric") in tally.skipped
    assert store.meta["provenance"] == {"seed": 1}
    assert store.meta["days"] == 15
    assert [record.user for record in store] == ["a", "b", "c"]


def test_the_digest_is_of_the_content_not_of_the_order(tmp_path):
    people = [made(name, seed=i) for i, name in enumerate("ab")]
    one = daily_records.write_records(tmp_path / "one", people)
    other = daily_records.write_records(tmp_path / "other", people[::-1])
    held = daily_records.HeldRecords(people)
    assert one.digest == other.digest == held.digest
    people[0].values[0, INDEX["rhr"]] = 61
    assert daily_records.HeldRecords(people).digest != one.digest


def test_the_same_records_make_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        daily_records.write_records(tmp_path / name, [made("a")])
    for file in (daily_records.FILE, daily_records.TABLE, daily_records.PEOPLE):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_failed_or_refused_write_leaves_nothing(tmp_path):
    def broken():
        yield made("a")
        raise SourceError("broken")

    with pytest.raises(SourceError):
        daily_records.write_records(tmp_path / "s", broken())
    with pytest.raises(StoreError, match="came twice"):
        daily_records.write_records(tmp_path / "s", [made("a"), made("a")])
    with pytest.raises(StoreError, match="no daily record"):
        daily_records.write_records(tmp_path / "s", [])
    assert not list(tmp_path.iterdir())
    daily_records.write_records(tmp_path / "s", [made("a")])
    with pytest.raises(StoreError, match="exists"):
        daily_records.write_records(tmp_path / "s", [made("b")])
    assert daily_records.write_records(tmp_path / "s", [made("b")], overwrite=True).users() == ("b",)
    (tmp_path / "other").mkdir()
    with pytest.raises(StoreError, match="refusing"):
        daily_records.write_records(tmp_path / "other", [made("b")], overwrite=True)


def test_damage_is_named(tmp_path):
    store = daily_records.write_records(tmp_path / "s", [made("a")])
    with pytest.raises(StoreError, match="no user 'q'"):
        store.record("q")
    with pytest.raises(StoreError, match="came twice"):
        daily_records.HeldRecords([made("a"), made("a")])
    with pytest.raises(StoreError, match="not a store"):
        daily_records.open_records(tmp_path)
    (tmp_path / "s" / daily_records.TABLE).write_bytes(b"no table")
    with pytest.raises(StoreError, match="not a readable table"):
        daily_records.open_records(tmp_path / "s").record("a")
    meta = tmp_path / "s" / daily_records.FILE
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"metrics": "other"}))
    with pytest.raises(StoreError, match="another table"):
        daily_records.open_records(tmp_path / "s")
    (tmp_path / "s" / daily_records.PEOPLE).unlink()
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"format": 9}))
    with pytest.raises(StoreError, match="format 9"):
        daily_records.open_records(tmp_path / "s")
