"""What the import of an OpenMHC root carries over: the stored variance, the split, the labels, and what it says."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_days import made_day
from openmhc_root import write_openmhc_root

from wearjax import cli
from wearjax.days import clean, importing, parts, task_labels
from wearjax.days.open import open_days
from wearjax.errors import SourceError, StoreError
from wearjax.sources import openmhc

PEOPLE = ("c", "a", "b", "d")
SPLIT = {"train": PEOPLE[:2], "validation": PEOPLE[2:3], "test": PEOPLE[3:]}


def with_variance(day, channel, value):
    """A day whose stored variance is not that of its cleaned values."""
    variance = clean.channel_variance(clean.zero_to_nan(np.nan_to_num(day.values)))
    variance[channel] = value
    return dataclasses.replace(day, variance=variance)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(importing, "DAYS_PER_SHARD", 2)
    days = [made_day(person, offset) for person in PEOPLE for offset in range(2)]
    days[0] = with_variance(days[0], 0, 0.5)  # below the threshold of 1, whatever the values say
    days[3] = with_variance(days[3], 6, np.nan)
    return write_openmhc_root(tmp_path / "root", days, SPLIT)


def test_a_store_retains_the_days_that_the_root_retains(root, tmp_path):
    opened = open_days(root)
    importing.import_days("openmhc", root, tmp_path / "here")
    store = open_days(tmp_path / "here")
    order = np.lexsort((opened.dates.astype(str), opened.participants.astype(str)))
    np.testing.assert_array_equal(store.variance, opened.variance[order])
    np.testing.assert_array_equal(store.retained, opened.retained[order])
    assert opened.retained.tolist() == [False] + [True] * 7
    recomputed = np.stack([clean.channel_variance(store.values(i)) for i in range(len(store))])
    assert clean.retained(store.nonwear_minutes, recomputed).all()  # which the filter must not be judged by


def test_processes_write_the_same_bytes(root, tmp_path):
    write_lookup(root)
    importing.import_days("openmhc", root, tmp_path / "here")
    importing.import_days("openmhc", root, tmp_path / "there", engine="local", jobs=2)
    files = [file.relative_to(tmp_path / "here") for file in (tmp_path / "here").rglob("*") if file.is_file()]
    assert len(files) >= 7
    for file in files:
        assert (tmp_path / "here" / file).read_bytes() == (tmp_path / "there" / file).read_bytes()


def test_a_second_import_to_one_place_is_refused(root, tmp_path):
    with (
        parts.alone(tmp_path / "days"),
        pytest.raises(StoreError, match="days is being written by another process"),
    ):
        importing.import_days("openmhc", root, tmp_path / "days")
    importing.import_days("openmhc", root, tmp_path / "days")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["days", "root"]


def write_lookup(root, **columns):
    opened = open_days(root)
    table = {
        "user_id": opened.participants.astype(str),
        "date": opened.dates.astype(str),
        "age": np.arange(30, 30 + len(opened)),
        **columns,
    }
    pq.write_table(pa.table(table), root / "processed" / "daily_labels_lookup_full_history.parquet")


def test_labels_come_along(root, tmp_path):
    write_lookup(root)
    importing.import_days("openmhc", root, tmp_path / "days")
    ours, theirs = (task_labels.read_lookup(folder) for folder in (tmp_path / "days", root))
    found, wanted = (lookup.cohort("age", PEOPLE) for lookup in (ours, theirs))
    assert found.users == wanted.users == ("a", "b", "c", "d")
    np.testing.assert_array_equal(found.labels, wanted.labels)
    assert found.dates == wanted.dates


def test_a_broken_lookup_is_told_before_days_are_read(root, tmp_path):
    (root / "processed" / "daily_labels_lookup_full_history.parquet").write_bytes(b"no table")
    with pytest.raises(SourceError, match="not a readable label lookup"):
        importing.import_days("openmhc", root, tmp_path / "days", progress=lambda *_: pytest.fail("read"))
    assert not (tmp_path / "days").exists()


def test_the_import_says_where_the_benchmarks_belong(root, tmp_path, capsys):
    assert cli.main(["data", "import", "openmhc", str(root), "--out", str(tmp_path / "days")]) in (0, None)
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "belong on the OpenMHC root itself" in told
    assert "4 users, the published one has 593" in told
    assert not (tmp_path / "days" / "task_labels.parquet").exists()  # the root has none


def test_other_totals_than_the_published_are_said_once(root, caplog):
    openmhc._say.cache_clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            openmhc.read_splits(root)
    assert [record.message.split(";")[0] for record in caplog.records] == [
        "OpenMHC data root: version 'xs' with 4 users, the published one has 593"
    ]
    assert openmhc.unlike_published("full", 11_894) == openmhc.unlike_published("xs", 593) == ""
    assert "11,894" in openmhc.unlike_published("full", 593)
