"""Stored files that were changed: what is found on opening, and what only `data check` finds."""

from __future__ import annotations

import numpy as np
import pytest
import readers

from wearjax import cli, npz
from wearjax.days.open import open_days
from wearjax.errors import StoreError, WearjaxError
from wearjax.train import metrics


@pytest.fixture
def store(tmp_path):
    readers.BY_NAME["day store"].make(tmp_path)
    return tmp_path / "store"


def flip(file, place, bit=1):
    content = bytearray(file.read_bytes())
    content[place] ^= bit
    file.write_bytes(content)


def test_a_changed_number_is_found_by_the_check(store, capsys):
    cli.main(["data", "check", str(store)])
    flip(
        store / "shards" / "00001.npy", 128 + 4 * (5 * 1440 + 700)
    )  # the last digit of a plausible heart rate
    assert len(open_days(store)) == 8  # opening reads no values
    with pytest.raises(SystemExit):
        cli.main(["data", "check", str(store)])
    assert "00001.npy: not the bytes that were written" in capsys.readouterr().err


@pytest.mark.parametrize("cut", [1, 4096])
def test_a_shard_cut_short_is_found_on_opening(store, cut):
    file = store / "shards" / "00000.npy"
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(StoreError, match=r"00000\.npy: not a readable shard"):
        open_days(store)


def test_shards_of_the_same_size_may_not_change_places(store, capsys):
    a, b = (store / "shards" / f"0000{i}.npy" for i in (0, 1))
    content = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(content)
    with pytest.raises(SystemExit):
        cli.main(["data", "check", str(store)])
    assert "00000.npy: not the bytes" in capsys.readouterr().err


def test_an_index_that_points_elsewhere_is_refused(store):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(store / "index.parquet")
    for name, value, told in (("row", 7, "in rows"), ("shard", -1, "in shards"), ("shard", 99, "in shards")):
        cells = table[name].to_numpy().copy()
        cells[0] = value
        changed = table.set_column(table.column_names.index(name), name, pa.array(cells))
        pq.write_table(changed, store / "index.parquet")
        with pytest.raises(StoreError, match=rf"index\.parquet: days {told}"):
            open_days(store)
    pq.write_table(table.drop_columns(["variance"]), store / "index.parquet")
    with pytest.raises(StoreError, match=r"expected a column variance"):
        open_days(store)


def test_a_damaged_log_is_named_and_a_cut_one_is_cut(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1, "split": "train"}\n{"step": 2, "spl')
    assert [row["step"] for row in metrics.read_jsonl(file)] == [1]
    file.write_bytes(b'{"step": 1, "split": "train"}\n{"st\xffep": 2}\n')
    with pytest.raises(WearjaxError, match=r"metrics\.jsonl: line 2 is damaged"):
        list(metrics.read_jsonl(file))


def test_weights_with_a_flipped_byte_are_refused_or_the_same(tmp_path):
    """Some bytes of an archive say nothing: the time of a member, its padding."""
    from wearjax.convert import bundle
    from wearjax.errors import CheckpointError

    readers.BY_NAME["bundle"].make(tmp_path)
    file = tmp_path / "bundle" / "weights.npz"
    size, rng, refused = file.stat().st_size, np.random.default_rng(0), 0
    whole, wanted = file.read_bytes(), npz.load(file)
    for place in rng.integers(0, size, 60):
        flip(file, int(place))
        try:
            found = npz.load(file)
        except ValueError:
            refused += 1
            if refused == 1:
                with pytest.raises(CheckpointError, match=r"weights\.npz: not readable as weights"):
                    bundle.load_bundle(tmp_path / "bundle")
        else:
            assert found.keys() != wanted.keys() or all(np.array_equal(found[k], wanted[k]) for k in wanted)
        file.write_bytes(whole)
    assert refused > 30
