"""Calling a method: only the keywords it declares, and a checked answer."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.errors import MethodError
from wearjax.predict.protocols import Imputer, call_impute, method_name

DATA = np.zeros((2, 19, 6), np.float32)
MASK = np.ones(DATA.shape, bool)
METADATA = {"sample_indices": np.array([3, 4]), "user_ids": ["a", "b"], "dates": None}


class Bare:
    def impute(self, data, observed_mask, target_mask):
        return data


class WithUsers:
    name = "with users"

    def impute(self, data, observed_mask, target_mask, *, user_ids=None, dates="kept"):
        self.got = (user_ids, dates)
        return data


class WithAnything:
    def impute(self, data, observed_mask, target_mask, **metadata):
        self.got = metadata
        return data


def returning(value):
    return type("Odd", (), {"impute": lambda self, *arrays: value})()


def test_forwards_declared_keywords_only():
    assert call_impute(Bare(), DATA, MASK, MASK, **METADATA) is DATA
    method = WithUsers()
    call_impute(method, DATA, MASK, MASK, **METADATA)
    assert method.got == (["a", "b"], "kept")
    method = WithAnything()
    call_impute(method, DATA, MASK, MASK, **METADATA)
    assert set(method.got) == {"sample_indices", "user_ids"}


def test_float64_answers_become_float32():
    huge = np.full(DATA.shape, 1e300)
    out = call_impute(returning(huge), DATA, MASK, MASK)
    assert out.dtype == np.float32
    assert np.isinf(out).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (DATA[:1], r"Odd.impute: returned shape \(1, 19, 6\), expected \(2, 19, 6\)"),
        (None, "returned shape"),
        (DATA.astype(int), "returned int64, expected float32"),
        (DATA.astype(object), "returned object"),
        (DATA.astype(complex), "returned complex128"),
    ],
)
def test_names_the_broken_contract(value, message):
    with pytest.raises(MethodError, match=message):
        call_impute(returning(value), DATA, MASK, MASK)


def test_a_method_without_impute_is_refused():
    with pytest.raises(MethodError, match="object: has no impute"):
        call_impute(object(), DATA, MASK, MASK)
    assert isinstance(Bare(), Imputer)
    assert not isinstance(object(), Imputer)


def test_names():
    assert method_name(WithUsers()) == "with users"
    assert method_name(Bare()) == "Bare"
