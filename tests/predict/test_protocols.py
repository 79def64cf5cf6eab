"""Calling a method: only the keywords it declares, and a checked answer."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wearjax.errors import MethodError
from wearjax.predict import from_file
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


@pytest.mark.parametrize("kind", [int, bool, np.uint8])
def test_whole_numbers_and_flags_are_answers(kind):
    out = call_impute(returning(np.ones(DATA.shape, kind)), DATA, MASK, MASK)
    assert out.dtype == np.float32
    assert (out == 1).all()


def test_an_error_says_the_line_of_the_method(tmp_path):
    """The innermost one that is the user's own, not where a library gave up."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n\n\nclass Mine:\n    def impute(self, data, *rest):\n        return self.filled(data)\n\n"
        "    def filled(self, data):\n        return np.concatenate([data, np.zeros(3)])\n"
    )
    mine = from_file.load(f"{file}:Mine")
    with pytest.raises(MethodError, match=rf"^Mine\.impute: ValueError: .* \({re.escape(str(file))}:9\)$"):
        call_impute(mine, DATA, MASK, MASK)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (DATA[:1], r"Odd.impute: returned shape \(1, 19, 6\), expected \(2, 19, 6\)"),
        (None, "returned nothing, expected an array of shape"),
        (DATA.astype(complex), "returned complex128, expected float32"),
        (DATA.astype(object), "returned object"),
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
