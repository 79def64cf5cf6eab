from __future__ import annotations

import threading

import numpy as np
import pytest
from test_source import Numbered, batches

from wearjax.batches import loader
from wearjax.batches.examples import DayExamples


def indices(iterator):
    return [batch["index"].tolist() for batch in iterator]


@pytest.mark.parametrize("start", [0, 3, 99, 100])
def test_starts_at_any_step(start):
    expected = [batches()[s]["index"].tolist() for s in range(start, 100)]
    with loader.Loader(batches(), start=start, read_ahead=3) as reading:
        assert indices(reading) == expected


def test_a_process_reads_the_same_batches():
    with loader.Loader(batches(n_batches=5), start=1, workers=1) as reading:
        got = list(reading)
    assert indices(got) == [batches()[s]["index"].tolist() for s in range(1, 5)]
    assert all(type(batch["values"]) is np.ndarray for batch in got)  # not a view of freed shared memory
    np.testing.assert_array_equal(got[0]["values"][:, 3, 7], got[0]["index"])


def test_closing_ends_the_reading_thread():
    before = set(threading.enumerate())
    with loader.Loader(batches()) as reading:
        next(reading)
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in left)


def test_fixed_subset():
    days = np.arange(100, 200)
    chosen = loader.fixed_subset(days, size=10, seed=4)
    assert len(set(chosen)) == 10
    assert set(chosen) <= set(days)
    assert list(chosen) == sorted(chosen)
    np.testing.assert_array_equal(chosen, loader.fixed_subset(days, size=10, seed=4))
    assert not np.array_equal(chosen, loader.fixed_subset(days, size=10, seed=5))
    np.testing.assert_array_equal(loader.fixed_subset(days, size=100, seed=4), days)


def test_in_order_gives_whole_batches_and_shares_them_among_processes():
    days, wanted = DayExamples(Numbered(20), np.arange(20)), np.arange(5, 16)
    assert indices(loader.in_order(days, wanted, batch_size=4)) == [[5, 6, 7, 8], [9, 10, 11, 12]]
    second = loader.in_order(days, wanted, batch_size=4, process_index=1, process_count=2)
    assert indices(second) == [[7, 8], [11, 12]]
