"""Vectors are computed once: in memory, across runs, and after an interruption."""

from __future__ import annotations

import numpy as np
import pytest
from made_days import made_cohort

from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError, MethodError, StoreError
from wearjax.predict import vector_cache
from wearjax.predict.vector_cache import VectorCache


class Compute:
    """Row r becomes (r, r / 2); keeps what it was asked for."""

    def __init__(self, stop_after: int | None = None):
        self.asked: list[int] = []
        self.stop_after = stop_after

    def __call__(self, rows):
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked += rows.tolist()
        return np.stack([rows, rows / 2], axis=1).astype(np.float32)


def test_each_row_is_computed_once():
    compute = Compute()
    cache = VectorCache(20, 2, compute, rows_a_call=3)
    seen = []
    cache.ensure(np.array([7, 3, 3, 5, 7, 9, 1]), progress=lambda *at: seen.append(at))
    assert sorted(compute.asked) == [1, 3, 5, 7, 9]
    assert seen == [(3, 5), (5, 5)]
    np.testing.assert_array_equal(cache.rows(np.array([9, 1, 9, 2])), [[9, 4.5], [1, 0.5], [9, 4.5], [2, 1]])
    assert sorted(compute.asked) == [1, 2, 3, 5, 7, 9]
    assert cache.n_known == 6
    assert cache.rows(np.array([], np.int64)).shape == (0, 2)


def test_a_later_run_reads_them(tmp_path):
    folder = tmp_path / "vectors"
    VectorCache(20, 2, Compute(), folder=folder).ensure(np.arange(5))
    VectorCache(20, 2, Compute(), folder=folder).ensure(np.arange(3, 8))
    compute = Compute()
    cache = VectorCache(20, 2, compute, folder=folder)
    np.testing.assert_array_equal(cache.rows(np.arange(9))[:, 1], np.arange(9) / 2)
    assert compute.asked == [8]


def test_what_an_interrupted_run_has_computed_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "ROWS_A_FILE", 4)
    folder = tmp_path / "vectors"
    first = VectorCache(20, 2, Compute(stop_after=6), folder=folder, rows_a_call=2)
    with pytest.raises(KeyboardInterrupt):
        first.ensure(np.arange(12))
    assert not [f for f in folder.iterdir() if "partial" in f.name]
    compute = Compute()
    cache = VectorCache(20, 2, compute, folder=folder, rows_a_call=2)
    assert cache.n_known == 6
    cache.ensure(np.arange(12))
    assert compute.asked == list(range(6, 12))


def test_rows_without_a_vector_stay_so(tmp_path):
    nothing = lambda rows: np.full((len(rows), 2), np.nan, np.float32)  # noqa: E731
    VectorCache(5, 2, nothing, folder=tmp_path).ensure(np.arange(5))
    compute = Compute()
    assert np.isnan(VectorCache(5, 2, compute, folder=tmp_path).rows(np.arange(5))).all()
    assert not compute.asked


def test_refusals(tmp_path):
    with pytest.raises(ConfigError, match="rows_a_call"):
        VectorCache(5, 2, Compute(), rows_a_call=0)
    with pytest.raises(MethodError, match=r"expected \(5, 3\) vectors, got \(5, 2\)"):
        VectorCache(5, 3, Compute()).ensure(np.arange(5))
    VectorCache(5, 2, Compute(), folder=tmp_path).ensure(np.arange(5))
    with pytest.raises(StoreError, match="vectors of 3 for rows below 5; remove it"):
        VectorCache(5, 3, Compute(), folder=tmp_path)
    next(tmp_path.glob("rows-*.npz")).write_bytes(b"PK nonsense")
    with pytest.raises(StoreError, match="not readable as vectors"):
        VectorCache(5, 2, Compute(), folder=tmp_path)


def test_digest_changes_with_days_and_settings(tmp_path):
    def store(name, days):
        with DayStoreWriter(tmp_path / name, provenance={}) as writer:
            writer.add_all(days)
        return DayStore(tmp_path / name)

    a, same, other = (store(n, made_cohort(3, 2 + (n == "other"))) for n in ("a", "same", "other"))
    digest = vector_cache.digest_of(a, {"x": 1})
    assert digest == vector_cache.digest_of(same, {"x": 1})
    assert len({digest, vector_cache.digest_of(other, {"x": 1}), vector_cache.digest_of(a, {"x": 2})}) == 3
