"""Nouns behind counts."""

from __future__ import annotations


def noun(number: float, one: str, many: str | None = None) -> str:
    """`day` for 1 and `days` for any other number; `many` is for nouns that do not simply take an s."""
    return one if number == 1 else many or f"{one}s"
