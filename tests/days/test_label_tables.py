"""The label lookup of a store: rows, validity windows, sentinels, and that the reader reads it."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_days import FIRST_DATE, made_day

from wearjax.days import hourly, label_tables, task_labels
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError, StoreError
from wearjax.sources.synthetic_labels import Label
from wearjax.tasks import BODY, TASKS, Task

OFFSETS = {"b": (0, 1, 2, 5, 20), "a": (0, 10, 40)}
DROPPED = ("b", 2)  # worn too little
MADE = {
    "ill": Task("ill", "Ill", "binary", BODY, validity_days=5),
    "level": Task("level", "Level", "ordinal", BODY, ("low", "high")),
    "size": Task("size", "Size", "regression", BODY, validity_days=14),
}
LABELS = {
    "a": {"ill": Label(1.0, 0.5), "level": Label(0.0, 0.9), "size": Label(7.25, 0.26)},
    "b": {"ill": Label(0.0, 0.0), "size": Label(3.5, 1.0)},
    "nobody": {"ill": Label(1.0, 0.1)},
}


def date(offset: int) -> str:
    return (FIRST_DATE + dt.timedelta(days=offset)).isoformat()


@pytest.fixture
def store(tmp_path) -> DayStore:
    with DayStoreWriter(tmp_path / "store", provenance={}) as writer:
        for participant, offsets in OFFSETS.items():
            for offset in offsets:
                worn = (participant, offset) != DROPPED
                writer.add(made_day(participant, offset, nonwear=60.0 if worn else 900.0))
    return DayStore(tmp_path / "store")


def test_one_row_a_retained_day_and_a_valid_label_holds_on_all_of_them(store):
    made = label_tables.write_task_labels(store, LABELS, tasks=MADE)
    rows = pq.read_table(made.path).to_pydict()
    assert list(rows) == ["user_id", "date", "n_valid_hours", "ill", "level", "size"]
    assert rows["user_id"] == ["a"] * 3 + ["b"] * 4
    assert rows["date"] == [date(o) for o in (0, 10, 40)] + [date(o) for o in (0, 1, 5, 20)]
    # a answers on day 20 of 40 (none within 5 days), with the size on day 10; b on day 0, with the size on day 20.
    # One retained day within the window is enough; then the whole history is eligible, without a cap.
    assert rows["ill"] == [-1] * 3 + [0] * 4
    assert rows["level"] == [0] * 3 + [-1] * 4
    np.testing.assert_array_equal(rows["size"], [7.25] * 3 + [3.5] * 4)
    assert made.labelled == {"ill": 1, "level": 1, "size": 2}
    assert made.unplaced == {"ill": 1, "level": 0, "size": 0}
    assert made.unknown == ("nobody",)


def test_a_day_that_is_not_retained_makes_no_label_valid(store):
    # b answers on day 2, which was worn too little; with a window of no day nothing else can carry the label.
    task = {"mood": Task("mood", "Mood", "ordinal", BODY, ("low", "high"), validity_days=0)}
    made = label_tables.write_task_labels(store, {"b": {"mood": Label(1.0, 0.1)}}, tasks=task)
    assert pq.read_table(made.path)["mood"].to_pylist() == [-1] * 7
    assert (made.labelled, made.unplaced) == ({"mood": 0}, {"mood": 1})


def test_types_and_valid_hours(store):
    made = label_tables.write_task_labels(store, LABELS, tasks=MADE)
    table = pq.read_table(made.path)
    assert [str(table.schema.field(name).type) for name in ("ill", "level", "size")] == [
        "int32", "int32", "double",
    ]  # fmt: skip
    for user, day, hours in zip(
        *(table.column(n).to_pylist() for n in ("user_id", "date", "n_valid_hours")), strict=True
    ):
        index = int(np.flatnonzero((store.participants == user) & (store.dates == day))[0])
        assert hours == hourly.valid_hours(hourly.aggregate(store.values(index)))


def test_the_reader_finds_label_and_dates(store):
    label_tables.write_task_labels(store, LABELS, tasks=MADE)
    lookup = task_labels.read_lookup(store.path)
    assert lookup.tasks == ("ill", "level", "size")
    cohort = lookup.cohort("size", ["a", "b"])
    assert cohort.labels.tolist() == [7.25, 3.5]
    assert cohort.dates == (tuple(map(date, (0, 10, 40))), tuple(map(date, (0, 1, 5, 20))))
    assert lookup.first_value("level", "b") is None


def test_progress_reaches_the_number_of_retained_days(store):
    seen = []
    label_tables.write_task_labels(store, LABELS, tasks=MADE, progress=lambda *at: seen.append(at))
    assert seen[-1] == (7, 7)


def test_refusals(store):
    label_tables.write_task_labels(store, {}, tasks=MADE)
    with pytest.raises(StoreError, match="exists"):
        label_tables.write_task_labels(store, LABELS, tasks=MADE)
    made = label_tables.write_task_labels(store, LABELS, tasks=MADE, overwrite=True)
    assert made.labelled["ill"] == 1
    with pytest.raises(ConfigError, match="'other', which is not among"):
        label_tables.write_task_labels(store, {"a": {"other": Label(1, 0)}}, tasks=MADE, overwrite=True)
    assert [f.name for f in store.path.iterdir() if "partial" in f.name] == []


def test_the_benchmark_is_the_default(store):
    label_tables.write_task_labels(store, {"a": {"age": Label(44.0, 0.5)}})
    lookup = task_labels.read_lookup(store.path)
    assert lookup.tasks == tuple(TASKS)
    assert lookup.cohort("age", ["a", "b"]).dates == ((date(0), date(10), date(40)),)
