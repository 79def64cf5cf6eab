from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from made_days import made_cohort, made_day

from wearjax.days import export, labels, splits
from wearjax.days.export import ExportedDays
from wearjax.days.open import open_days
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import StoreError


@pytest.fixture
def store(tmp_path):
    with DayStoreWriter(tmp_path / "store", provenance={}, days_per_shard=4) as writer:
        writer.add_all(made_cohort(4, 3))
        writer.attach("splits.json", splits.to_json(splits.make_splits(["a", "b", "c"])))
        writer.attach("participants.json", json.dumps({"a": {"birth_year": 1980, "sex": "male"}}))
    return DayStore(tmp_path / "store")


def test_round_trip_is_exact(tmp_path, store):
    steps = []
    made = export.export_days(
        store, tmp_path / "out", days_per_file=5, progress=lambda done, total: steps.append((done, total))
    )
    assert steps[-1] == (12, 12)
    assert len(list((tmp_path / "out").glob("*.arrayrecord"))) == 3
    opened = open_days(tmp_path / "out")
    assert isinstance(opened, ExportedDays)
    for days in (made, opened):
        for i in (0, 4, 5, 11):
            assert days.values(i).tobytes() == store.values(i).tobytes()
        np.testing.assert_array_equal(days.batch(range(12)), store.batch(range(12)))
        for name in ("participants", "dates", "nonwear_minutes", "variance", "retained"):
            np.testing.assert_array_equal(getattr(days, name), getattr(store, name))
        assert days[-1].source == "made"
        assert days[-1].date == store[-1].date
    assert splits.read_splits(tmp_path / "out") == splits.read_splits(store.path)
    assert labels.read_demographics(tmp_path / "out") == labels.read_demographics(store.path)


def test_records_are_single_day_groups_of_float32(tmp_path, store):
    from array_record.python import array_record_module

    export.export_days(store, tmp_path / "out")
    (file,) = (tmp_path / "out").glob("*.arrayrecord")
    reader = array_record_module.ArrayRecordReader(str(file))
    assert "group_size:1," in reader.writer_options_string() + ","
    record = reader.read([7])[0]
    np.testing.assert_array_equal(np.frombuffer(record, np.float32).reshape(19, 1440), store.values(7))


def test_pickle_carries_the_path_only(tmp_path, store):
    days = export.export_days(store, tmp_path / "out")
    days.values(0)  # an open reader does not travel
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(days)).values(3), store.values(3))


def test_without_splits_and_demographics(tmp_path):
    with DayStoreWriter(tmp_path / "store", provenance={}) as writer:
        writer.add(made_day("a"))
    export.export_days(DayStore(tmp_path / "store"), tmp_path / "out")
    names = sorted(f.name for f in (tmp_path / "out").iterdir())
    assert names == ["days-00000-of-00001.arrayrecord", "export.json", "index.parquet"]


def test_refuses_to_replace_and_leaves_nothing_when_interrupted(tmp_path, store):
    export.export_days(store, tmp_path / "out")
    with pytest.raises(StoreError, match="exists"):
        export.export_days(store, tmp_path / "out")
    with pytest.raises(StoreError, match="not an export"):
        export.export_days(store, store.path, overwrite=True)
    export.export_days(store, tmp_path / "out", overwrite=True)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export.export_days(store, tmp_path / "other", progress=stop)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "store"]


def halve(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def change(path, **changes):
    about = json.loads((path / "export.json").read_text())
    (path / "export.json").write_text(json.dumps(about | changes))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: next(p.glob("*.arrayrecord")).unlink(), "file is missing"),
        (lambda p: next(p.glob("*.arrayrecord")).write_bytes(b"nothing"), "not a readable ArrayRecord"),
        (lambda p: halve(next(p.glob("*.arrayrecord"))), "not a readable ArrayRecord"),
        (lambda p: (p / "index.parquet").write_bytes(b"PAR1"), "not a readable index"),
        (lambda p: (p / "export.json").write_text("{"), "not readable as a description"),
        (lambda p: change(p, days=3), "12 rows, export.json says 3"),
        (lambda p: change(p, channels="x"), "another channel table"),
        (
            lambda p: change(p, files=[{"name": "days-00000-of-00001.arrayrecord", "days": 11}]),
            "12 records, export.json says 11",
        ),
    ],
)
def test_damage_is_named(tmp_path, store, damage, message):
    export.export_days(store, tmp_path / "out")
    damage(tmp_path / "out")
    with pytest.raises(StoreError, match=message):
        ExportedDays(tmp_path / "out").values(0)
