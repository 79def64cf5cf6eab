"""Exact repeats, within and across batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wearjax.sources.repeats import Repeats


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 2)), max_size=60), st.integers(1, 7))
def test_agrees_with_a_set(rows, batch):
    repeats, seen, wanted, found = Repeats(), set(), [], []
    for row in rows:
        wanted.append(row in seen)
        seen.add(row)
    for i in range(0, len(rows), batch):
        a, b = (np.array(column, np.float64) for column in zip(*rows[i : i + batch], strict=True))
        found += repeats.seen(a, b).tolist()
    assert found == wanted


def test_memory_is_bounded_and_says_so():
    repeats = Repeats(remembered_max=1000)
    for start in range(0, 10_000, 100):
        assert not repeats.seen(np.arange(start, start + 100)).any()
    assert sum(len(run) for run in repeats._runs) <= 1000
    assert repeats.forgotten >= 9000
    assert repeats.seen(np.arange(9_900, 10_000)).all()
