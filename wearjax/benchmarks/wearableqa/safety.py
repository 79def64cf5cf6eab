"""Wording that no question may have: it reads records, it names no illness and advises no treatment."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wearjax.benchmarks.wearableqa.questions.wording import NOT_ADVICE

MARK = "not medical advice"
# Beginnings of words, unless closed by $.
FORBIDDEN = (
    "diagnos", "disease", "disorder", "syndrome", "diabet", "hypertens", "hypothyr", "hyperthyr", "an(?:a)?emi",
    "cancer", "tumou?r", "depressi", "apn(?:o)?ea", "insomni", "infarct", "stroke$", "arrhythm", "infection", "covid",
    "influenza", "cirrho", "hepatitis", "nephro", "prescri", "medicat", "medicine$", "drug", "dose$", "dosage",
    "statin", "metformin", "insulin", "beta.?blocker", "aspirin", "ibuprofen", "antibiotic", "tablet", "pills?$",
    "treatment", "therap", "cure[sd]?$", "you have$", "suffer",
)  # fmt: skip
_PATTERN = re.compile(
    "|".join(rf"\b{word[:-1]}\b" if word.endswith("$") else rf"\b{word}" for word in FORBIDDEN), re.IGNORECASE
)


def problems(group: str, stem: str, choices: Iterable[str]) -> list[str]:
    """What is wrong with the wording of a question; empty where nothing is."""
    found = []
    if group == "health" and MARK not in stem:
        found.append(f"a health question without {MARK!r}")
    for text in (stem.replace(NOT_ADVICE, ""), *choices):
        match = _PATTERN.search(text)
        if match:
            found.append(f"{match.group()!r} in {text!r}")
    return found


def marked(group: str, stem: str) -> str:
    """The stem of a health question, saying that it is no medical advice."""
    return stem if group != "health" or MARK in stem else f"{stem} {NOT_ADVICE}"
