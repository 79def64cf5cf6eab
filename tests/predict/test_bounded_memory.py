"""Imputation holds one batch, however many days there are."""

from __future__ import annotations

import datetime as dt
import tracemalloc

import numpy as np
import pytest

from wearjax.day import Day
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import batched, fill
from wearjax.predict.imputers import pieces

DAY_BYTES = 19 * 1440 * 4
BATCH = 4


class Fifties:
    """Answers with 50 everywhere, and notes the batches that it was given."""

    def __init__(self):
        self.sizes = []

    def __call__(self, values):
        self.sizes.append(len(values))
        return np.full_like(values, 50.0)

    def impute(self, data, observed_mask, target_mask):
        return pieces.impute_pieces(
            "fifties", self, data, observed_mask, target_mask, minutes=1440, batch_size=BATCH
        )


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of few and of many days."""
    rng = np.random.default_rng(0)
    made = {}
    for count in (12, 60):
        path = tmp_path_factory.mktemp("stores") / str(count)
        with DayStoreWriter(path, provenance={"source": "made"}) as writer:
            for number in range(count):
                values = rng.random((19, 1440), np.float32)
                values[:, 600:700] = np.nan
                date = dt.date(2024, 1, 1) + dt.timedelta(days=number)
                writer.add(Day(values, "p", date, 100, "made"))
        made[count] = DayStore(path)
    return made


def peak(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_store_is_filled_batch_by_batch(stores):
    def run(days):
        for found in fill.filled_days(Fifties(), days, batch_size=BATCH):
            assert np.isfinite(found.values).all()

    run(stores[12])  # what is imported and cached is not counted
    few, many = (peak(lambda d=days: run(d)) for days in stores.values())
    assert many < few + DAY_BYTES
    assert many < 8 * BATCH * DAY_BYTES


def test_an_array_in_a_file_is_filled_in_place(tmp_path):
    def run(count):
        data = np.lib.format.open_memmap(tmp_path / f"{count}.npy", "w+", np.float32, (count, 19, 1440))
        data[:, :, :700] = 1.0
        target = np.lib.format.open_memmap(tmp_path / f"{count}t.npy", "w+", bool, data.shape)
        target[:, :, 700:] = True
        used = peak(lambda: pieces.impute_pieces(
            "fifties", Fifties(), data, np.broadcast_to(True, data.shape), target,
            minutes=1440, batch_size=BATCH, out=data,
        ))  # fmt: skip
        assert (data[:, :, :700] == 1).all()
        assert (data[:, :, 700:] == 50).all()
        return used

    run(2)
    few, many = run(12), run(60)
    assert many < few + DAY_BYTES / 4  # the list of places with targets
    assert many < 5 * BATCH * DAY_BYTES


def test_only_chosen_days_in_their_order(stores):
    found = list(fill.filled_days(Fifties(), stores[12], [7, 2, 9], batch_size=2))
    assert [day.index for day in found] == [7, 2, 9]
    for day in found:
        original = stores[12].values(day.index)
        np.testing.assert_array_equal(day.missing, np.isnan(original))
        np.testing.assert_array_equal(day.values[~day.missing], original[~day.missing])
    with pytest.raises(ConfigError, match="batch_size: must be at least 1"):
        list(fill.filled_days(Fifties(), stores[12], batch_size=0))


def test_every_call_has_the_same_size_and_days_without_targets_none():
    data = np.zeros((11, 19, 2880), np.float32)
    target = np.zeros(data.shape, bool)
    target[[0, 3, 10], :, :5] = True
    target[4, 2, 2000] = True
    target[0, 1, 2879] = True
    model = Fifties()
    out = np.full(data.shape, 3, np.float32)
    found = pieces.impute_pieces(
        "fifties", model, data, ~target, target, minutes=1440, batch_size=BATCH, out=out
    )
    assert model.sizes == [BATCH, BATCH]  # five pieces
    assert found is out
    np.testing.assert_array_equal(found, np.where(target, 50, 0))


@pytest.mark.parametrize("out", [np.zeros((2, 19, 60)), np.zeros((1, 19, 60), np.float32)])
def test_another_output_is_refused(out):
    data = np.zeros((2, 19, 60), np.float32)
    with pytest.raises(MethodError, match=r"out: expected float32 \(2, 19, 60\)"):
        pieces.impute_pieces("x", Fifties(), data, data == 0, data == 1, minutes=60, batch_size=1, out=out)


def test_rows_are_padded_with_what_is_asked():
    seen = []

    def function(values):
        seen.append(values.copy())
        return values.sum(axis=1)

    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    out = batched.rows(function, values, out=np.empty(5, np.float32), fill=np.nan, batch_size=3)
    np.testing.assert_array_equal(out, values.sum(axis=1))
    assert [len(x) for x in seen] == [3, 3]
    assert np.isnan(seen[1][2]).all()
    with pytest.raises(MethodError, match="batch_size: must be at least 1"):
        batched.rows(function, values, out=out, fill=0.0, batch_size=0)
