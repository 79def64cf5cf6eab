"""Label lookups: sentinels, first label in file order, eligible dates, and what is refused."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.days import task_labels
from wearjax.errors import ConfigError, SourceError, StoreError

NAN = float("nan")
TABLE = {
    "user_id": ["b", "a", "b", "a", "c", "b"],
    "date": ["2020-01-05", "2020-01-02T00:00:00", "2020-01-01", "2020-01-01", "2020-01-01", "2020-01-05"],
    "n_valid_hours": [24, 20, 20, 20, 20, 24],
    "age": pa.array([-1, 40, 51, 41, -1, 50], pa.int32()),
    "Hdl": pa.array([2.5, NAN, -1.0, 1.5, None, 2.6], pa.float32()),
    "work": pa.array([True, None, False, True, None, None], pa.bool_()),
    "comment": ["x"] * 6,
}


def store_lookup(folder, table=TABLE):
    pq.write_table(pa.table(table), folder / "task_labels.parquet")
    return task_labels.read_lookup(folder)


def test_tasks_are_the_numeric_columns_that_are_no_keys(tmp_path):
    labels = store_lookup(tmp_path)
    assert labels.tasks == ("age", "Hdl", "work")
    assert labels.other_columns == ("comment",)
    assert labels.users == ("a", "b", "c")
    assert len(labels) == 6


def test_label_is_the_first_eligible_row_in_file_order(tmp_path):
    cohort = store_lookup(tmp_path).cohort("age", ["c", "b", "a", "nobody"])
    assert cohort.users == ("a", "b")
    assert cohort.labels.tolist() == [40.0, 51.0]
    # Every eligible date once, in order of date, without its time part.
    assert cohort.dates == (("2020-01-01", "2020-01-02"), ("2020-01-01", "2020-01-05"))


def test_sentinels_of_integers_floats_and_flags(tmp_path):
    labels = store_lookup(tmp_path)
    hdl = labels.cohort("Hdl", "abc")
    assert hdl.users == ("a", "b")
    assert hdl.labels.tolist() == [1.5, 2.5]
    assert hdl.dates == (("2020-01-01",), ("2020-01-05",))
    work = labels.cohort("work", "abc")
    assert work.labels.tolist() == [1.0, 1.0]  # False is a label, but not the first one of b
    assert work.dates[1] == ("2020-01-01", "2020-01-05")


def test_cohort_keeps_to_the_participants_asked_for(tmp_path):
    labels = store_lookup(tmp_path)
    assert labels.cohort("age", ["b"]).users == ("b",)
    none = labels.cohort("age", [])
    assert (len(none), none.labels.shape, none.dates) == (0, (0,), ())


def test_first_value(tmp_path):
    labels = store_lookup(tmp_path)
    assert [labels.first_value("age", user) for user in ("a", "b", "c", "nobody")] == [40.0, 51.0, None, None]


def test_dates_may_be_stored_as_dates(tmp_path):
    table = {**TABLE, "date": [dt.date(2020, 1, d) for d in (5, 2, 1, 1, 1, 5)]}
    assert store_lookup(tmp_path, table).cohort("age", "b").dates == (("2020-01-01", "2020-01-05"),)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(1, 9), st.sampled_from([-1, 0, 1, 2])), max_size=30
    )
)
def test_cohorts_agree_with_a_plain_loop(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("lookup")
    labels = store_lookup(
        folder,
        {
            "user_id": pa.array([r[0] for r in rows], pa.string()),
            "date": pa.array([f"2020-01-{r[1]:02d}" for r in rows], pa.string()),
            "age": pa.array([r[2] for r in rows], pa.int8()),
        },
    )
    first, dates = {}, {}
    for user, day, value in rows:
        if value != -1:
            first.setdefault(user, value)
            dates.setdefault(user, set()).add(f"2020-01-{day:02d}")
    cohort = labels.cohort("age", "abcd")
    assert dict(zip(cohort.users, cohort.labels.tolist(), strict=True)) == first
    assert list(cohort.users) == sorted(first)
    assert [list(d) for d in cohort.dates] == [sorted(dates[user]) for user in sorted(first)]


def root(folder):
    (folder / "dataset_version.json").write_text('{"version": "xs", "n_users": 3}')
    (folder / "processed").mkdir()
    return folder


@pytest.mark.parametrize(
    ("unit", "window", "file"),
    [
        ("day", "full_history", "daily_labels_lookup_full_history.parquet"),
        ("day", "forward", "daily_labels_lookup.parquet"),
        ("week", "forward", "weekly_labels_lookup_stride7_windowed.parquet"),
    ],
)
def test_files_of_a_data_root(tmp_path, unit, window, file):
    folder = root(tmp_path)
    table = {key: value for key, value in TABLE.items() if key != "date"}
    table["date" if unit == "day" else "week_start"] = TABLE["date"]
    pq.write_table(pa.table(table), folder / "processed" / file)
    labels = task_labels.read_lookup(folder, unit=unit, window=window)
    assert labels.path.name == file
    assert labels.cohort("age", "a").dates == (("2020-01-01", "2020-01-02"),)


def test_refusals_name_the_file_and_what_was_expected(tmp_path):
    with pytest.raises(StoreError, match=r"task_labels\.parquet: no label lookup"):
        task_labels.read_lookup(tmp_path)
    with pytest.raises(StoreError, match="no week lookup"):
        task_labels.read_lookup(tmp_path, unit="week")
    with pytest.raises(ConfigError, match="expected day or week"):
        task_labels.read_lookup(tmp_path, unit="month")
    (tmp_path / "task_labels.parquet").write_bytes(b"no table")
    with pytest.raises(StoreError, match="not a readable label lookup"):
        task_labels.read_lookup(tmp_path)
    with pytest.raises(StoreError, match="no column 'date'"):
        store_lookup(tmp_path, {"user_id": ["a"], "age": [1]})
    with pytest.raises(StoreError, match="'user_id' has 1 empty cells"):
        store_lookup(tmp_path, {**TABLE, "user_id": [None, *TABLE["user_id"][1:]]})
    with pytest.raises(StoreError, match=r"2020-13-01.*expected ISO dates"):
        store_lookup(tmp_path, {**TABLE, "date": ["2020-13-01", *TABLE["date"][1:]]})
    with pytest.raises(ConfigError, match="no labels of task 'happiness'"):
        store_lookup(tmp_path).cohort("happiness", "a")


def test_a_root_without_its_lookup_is_a_source_error(tmp_path):
    with pytest.raises(SourceError, match="daily_labels_lookup_full_history"):
        task_labels.read_lookup(root(tmp_path))
    with pytest.raises(SourceError, match="no week lookup with window 'full_history'"):
        task_labels.read_lookup(tmp_path, unit="week")


def test_is_label():
    assert task_labels.is_label(np.array([-1, 0, NAN, -1.5, 3])).tolist() == [False, True, False, True, True]
