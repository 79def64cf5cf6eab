"""Filling the gaps of a surgery."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.segments import vital_imputation

NAN = np.nan
# sex, a column without values, and one with gaps before, between and after its values
RECORD = np.array([[0, 0, 0], [0, 0, 4], [0, 0, 0], [0, 0, 8], [0, 0, 0]], np.float64)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("none", [0, 4, 0, 8, 0]),
        ("mean", [6, 4, 6, 8, 6]),
        ("linear", [NAN, 4, 6, 8, 8]),
        ("ffill", [0, 4, 4, 8, 8]),
        ("knn", [6, 4, 6, 8, 6]),
    ],
)
def test_gaps(method, expected):
    if method == "knn":
        pytest.importorskip("sklearn")
    filled = vital_imputation.impute(RECORD, method, keep=(0,))
    np.testing.assert_array_equal(filled[:, 2], expected)
    assert not filled[:, :2].any()
    assert not RECORD[0].any(), "the record itself stays"


def test_sex_is_left_alone_and_types_are_kept():
    record = np.array([[1, 5], [0, 7]], np.float32)
    filled = vital_imputation.impute(record, "mean", keep=(0,))
    assert filled.tolist() == record.tolist()
    assert filled.dtype == np.float32
    assert vital_imputation.impute(record, "mean").tolist() == [[1, 5], [1, 7]]


def test_neighbours_are_rows_that_look_alike():
    pytest.importorskip("sklearn")
    record = np.array([[1, 10], [1.1, 20], [9, 90], [1.2, 0], [8, 80]], np.float64)
    assert vital_imputation.impute(record, "knn")[3, 1] == 15


def test_unknown_method_and_missing_library_are_named(monkeypatch):
    with pytest.raises(ConfigError, match="expected one of none, mean, linear, ffill, knn, got 'median'"):
        vital_imputation.impute(RECORD, "median")
    monkeypatch.setitem(sys.modules, "sklearn.impute", None)
    with pytest.raises(ConfigError, match=r"wearjax\[probes\]"):
        vital_imputation.impute(RECORD, "knn")
