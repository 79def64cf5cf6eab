"""Who trains, validates and tests: published sizes, scikit-learn's random choice, time with its ties, lists."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wearjax.errors import ConfigError, StoreError
from wearjax.segments import vital_splits
from wearjax.sources.tally import Tally


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (962, (673, 96, 193)),
        (3221, (2254, 322, 645)),
        (90, (63, 9, 18)),
        (3, (2, 0, 1)),
        (1, (0, 0, 1)),
        (0, (0, 0, 0)),
    ],
)
def test_sizes(n, expected):
    assert vital_splits.sizes(n) == expected


@pytest.mark.parametrize("n", [7, 50, 962, 3221])
def test_the_random_split_is_scikit_learns(n):
    model_selection = pytest.importorskip("sklearn.model_selection")
    ids = [f"case-{i}" for i in range(n)]
    found = vital_splits.at_random(ids, seed=42)
    train, validation, _ = vital_splits.sizes(n)
    first, rest = model_selection.train_test_split(ids, train_size=train, random_state=42)
    middle, last = model_selection.train_test_split(rest, train_size=validation, random_state=42)
    assert [list(part) for part in (found.train, found.validation, found.test)] == [first, middle, last]


def test_the_random_split_of_the_published_cohort_also_follows_from_shares():
    model_selection = pytest.importorskip("sklearn.model_selection")
    ids = [str(i) for i in range(962)]
    first, rest = model_selection.train_test_split(ids, train_size=0.7, random_state=42)
    middle, last = model_selection.train_test_split(rest, test_size=2 / 3, random_state=42)
    found = vital_splits.make(
        ids, np.full(962, np.datetime64("NaT"), "datetime64[s]"), "random42", tally=Tally()
    )
    assert [list(found.train), list(found.validation), list(found.test)] == [first, middle, last]


def test_time_goes_from_the_earliest_and_breaks_ties_by_number():
    ids = ["c10", "c9", "late", "c2", "unknown-2", "unknown-1", "first", "x", "y", "z"]
    days = ["2016-02-01"] * 2 + ["2016-03-01", "2016-02-01", "NaT", "NaT", "2016-01-01"] + ["2016-02-15"] * 3
    tally = Tally()
    found = vital_splits.make(ids, np.array(days, "datetime64[s]"), "time", tally=tally)
    assert found.train == ("first", "c2", "c9", "c10", "x", "y", "z")
    assert (found.validation, found.test) == (("late",), ("unknown-1", "unknown-2"))
    assert any("2 of 10 cases have no start" in note for note in tally.notes)


def test_a_list_is_taken_as_it_is(tmp_path):
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"train": ["b", "a", "gone"], "val": ["c"], "test": ["d"]}))
    tally = Tally()
    starts = np.full(5, np.datetime64("NaT"), "datetime64[s]")
    found = vital_splits.make(list("abcde"), starts, file, tally=tally)
    assert (found.train, found.validation, found.test) == (("b", "a"), ("c",), ("d",))
    assert tally.skipped["split", "listed, but not among the cases"] == 1
    assert tally.skipped["split", "case in none of the lists"] == 1
    with pytest.raises(StoreError, match="none of its 5 case ids"):
        vital_splits.make(["q"], starts[:1], file, tally=tally)
    file.write_text("{}")
    with pytest.raises(StoreError, match="expected lists train, validation, test"):
        vital_splits.make(list("abcde"), starts, file, tally=tally)
    with pytest.raises(ConfigError, match="expected time, random42 or"):
        vital_splits.make(list("abcde"), starts, "random", tally=tally)
