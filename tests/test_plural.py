"""Nouns behind counts, where a reader meets them."""

import pytest

from wearjax import plural


@pytest.mark.parametrize(
    ("number", "noun", "expected"),
    [
        (1, ("day",), "day"), (0, ("day",), "days"), (2, ("day",), "days"), (1.5, ("day",), "days"),
        (1, ("surgery", "surgeries"), "surgery"), (3, ("surgery", "surgeries"), "surgeries"),
    ],
)  # fmt: skip
def test_one_is_singular(number, noun, expected):
    assert plural.noun(number, *noun) == expected
