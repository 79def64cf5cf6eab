"""The store of surgeries: what goes in comes out, whole or not at all, and damage is named."""

from __future__ import annotations

import datetime as dt
import json
import pickle

import numpy as np
import pytest

from wearjax import vitals
from wearjax.errors import ConfigError, StoreError
from wearjax.segments import vital_cases
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case
from wearjax.vitals import CENTRES

CENTRE = CENTRES["vitaldb"]


def made_cases(n=10, centre=CENTRE):
    rng = np.random.default_rng(0)
    for i in range(n):
        values = rng.uniform(0, 9, (3 + i, centre.n_variables)).astype(np.float32)
        values[rng.random(values.shape) < 0.3] = 0
        yield Case(f"case-{i}", None if i == 4 else dt.datetime(2017, 1, 20 - i), values)


@pytest.fixture
def store(tmp_path):
    return vital_cases.write_cases(tmp_path / "store", made_cases(), CENTRE, provenance={"source": "made"})


def test_cases_come_back_as_they_were_written(store):
    cases = list(made_cases())
    assert store.ids == tuple(case.id for case in cases)
    assert len(store) == 10
    assert store.centre == CENTRE
    np.testing.assert_array_equal(store.offsets, np.cumsum([0, *(len(case.values) for case in cases)]))
    for i, case in enumerate(cases):
        np.testing.assert_array_equal(store.case(i), case.values)
        np.testing.assert_array_equal(store.recorded[i], np.count_nonzero(case.values, axis=0))
    np.testing.assert_array_equal(store.case(-1), cases[-1].values)
    np.testing.assert_array_equal(store.values, np.concatenate([case.values for case in cases]))
    assert store.starts[1] == np.datetime64("2017-01-19")
    assert np.isnat(store.starts[4])
    assert store.index("case-7") == 7
    with pytest.raises(IndexError):
        store.case(10)
    with pytest.raises(ValueError, match="read-only"):
        store.values[0, 0] = 1


def test_the_default_split_goes_by_time(store):
    assert store.splits == {
        "train": [f"case-{i}" for i in (9, 8, 7, 6, 5, 3, 2)],
        "validation": ["case-1"],
        "test": ["case-0", "case-4"],
    }
    np.testing.assert_array_equal(store.indices("test"), [0, 4])
    assert json.loads((store.path / "splits.json").read_text()) == store.splits
    with pytest.raises(ConfigError):
        store.indices("everything")


def test_the_same_cases_make_the_same_bytes(store, tmp_path):
    other = vital_cases.write_cases(tmp_path / "other", made_cases(), CENTRE, provenance={"source": "made"})
    for file in ("vital.json", "values.npy", "index.parquet", "splits.json"):
        assert (store.path / file).read_bytes() == (other.path / file).read_bytes()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_store_keeps_its_step_and_travels_by_path(tmp_path):
    centre = vitals.one_minute(CENTRE)
    made = vital_cases.write_cases(tmp_path / "s", made_cases(3), centre, split="random42")
    again = pickle.loads(pickle.dumps(made))
    assert again.centre == centre
    assert len(pickle.dumps(made)) < 500
    np.testing.assert_array_equal(again.values, made.values)


def test_counts_of_what_was_left_out_are_kept(tmp_path):
    tally = Tally()

    def cases():
        tally.skip("case", "younger than 18 y", 3)
        yield from made_cases(3)

    made = vital_cases.write_cases(tmp_path / "s", cases(), CENTRE, tally=tally)
    assert {"measure": "case", "reason": "younger than 18 y", "count": 3} in made.meta["import"]["skipped"]


def test_nothing_is_left_when_writing_fails(tmp_path):
    def broken():
        yield from made_cases(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vital_cases.write_cases(tmp_path / "s", broken(), CENTRE)
    tally = Tally()
    tally.skip("case", "too short", 2)
    with pytest.raises(StoreError, match=r"no surgery to keep \(left out: 2 case too short\)"):
        vital_cases.write_cases(tmp_path / "s", [], CENTRE, tally=tally)
    with pytest.raises(StoreError, match="case-0 came twice"):
        vital_cases.write_cases(tmp_path / "s", [*made_cases(1), *made_cases(1)], CENTRE)
    with pytest.raises(StoreError, match=r"case-0 has shape \(3, 17\), not \(rows, 33\)"):
        vital_cases.write_cases(tmp_path / "s", made_cases(1), CENTRES["mover"])
    with pytest.raises(ConfigError, match="split 'nonsense'"):
        vital_cases.write_cases(tmp_path / "s", made_cases(1), CENTRE, split="nonsense")
    assert list(tmp_path.iterdir()) == []


def test_only_a_store_is_replaced(store, tmp_path):
    with pytest.raises(StoreError, match="exists; pass --force"):
        vital_cases.write_cases(store.path, made_cases(3), CENTRE)
    assert len(vital_cases.write_cases(store.path, made_cases(3), CENTRE, overwrite=True)) == 3
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="refusing to replace"):
        vital_cases.write_cases(tmp_path / "folder", made_cases(3), CENTRE, overwrite=True)


def damage_index(path):
    (path / "index.parquet").write_bytes(b"x")


def damage_values(path):
    np.save(path / "values.npy", np.zeros((3, 17), np.float32))


def damage_digest(path):
    meta = json.loads((path / "vital.json").read_text())
    (path / "vital.json").write_text(json.dumps(meta | {"digest": "0"}))


def damage_splits(path):
    (path / "splits.json").write_text(json.dumps({"train": ["nobody"], "validation": [], "test": []}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "vital.json").unlink(), "not a store of surgeries"),
        (lambda path: (path / "vital.json").write_text("{}"), "not readable as a store description"),
        (damage_digest, "another table of variables"),
        (lambda path: (path / "index.parquet").unlink(), "index is missing"),
        (damage_index, "not a readable index"),
        (lambda path: (path / "values.npy").unlink(), "values are missing"),
        (damage_values, r"expected float32 \(75, 17\)"),
        (damage_splits, "'nobody', which is not in the store"),
    ],
)
def test_a_damaged_store_is_refused(store, damage, message):
    damage(store.path)
    with pytest.raises(StoreError, match=message):
        vital_cases.open_cases(store.path)
