"""What an exercise code of a Health Connect database means, told from the titles beside it.

Codes in databases were published in more than one numbering, so that none is trusted unseen: a session is known
by its title; one without a title by its code, where titled sessions of the export say what that code is, or where
they agree with one of the two numberings below and never contradict it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# Of the platform's service, and of the public client library: the codes of the ten workout channels alone.
NUMBERINGS: dict[str, dict[int, str]] = {
    "platform": {
        53: "walking", 33: "running", 34: "running", 4: "cycling", 5: "cycling", 60: "elliptical", 20: "hiit",
        45: "strength", 55: "strength", 57: "yoga", 58: "other",
    },
    "client": {
        79: "walking", 56: "running", 57: "running", 8: "cycling", 9: "cycling", 25: "elliptical", 36: "hiit",
        70: "strength", 81: "strength", 83: "yoga", 0: "other",
    },
}  # fmt: skip
_TITLES = {
    "walking": r"walk(ing|s)?",
    "running": r"run(ning|s)?|jog(ging)?|treadmill",
    "cycling": r"bik(e|ing)|cycl(e|ing)|spinning|ride",
    "elliptical": r"elliptical|cross[ -]?trainer",
    "hiit": r"hiit|high[ -]intensity interval( training)?",
    "strength": r"strength( training)?|weight ?lifting|weights?",
    "yoga": r"yoga",
}
_PATTERNS = {name: re.compile(rf"\b({pattern})\b", re.IGNORECASE) for name, pattern in _TITLES.items()}


def of_title(title: object) -> str | None:
    """The one workout that a title names; None where it names none or several."""
    named = [name for name, pattern in _PATTERNS.items() if isinstance(title, str) and pattern.search(title)]
    return named[0] if len(named) == 1 else None


def learn(sessions: Iterable[tuple[int, str | None]]) -> tuple[dict[int, str], str | None]:
    """From (code, workout named by the title) of all sessions: meaning of codes, and the numbering they follow.

    A code's meaning is what most of its titles name. A numbering holds when a title agrees with it and no code's
    meaning contradicts it.
    """
    votes: dict[int, Counter[str]] = {}
    for code, named in sessions:
        if named is not None:
            votes.setdefault(code, Counter())[named] += 1
    meaning = {code: max(sorted(c), key=c.__getitem__) for code, c in votes.items()}
    holding = [
        name
        for name, numbers in NUMBERINGS.items()
        if any(numbers.get(code) == said for code, said in meaning.items())
        and all(numbers.get(code) in (said, None) for code, said in meaning.items())
    ]
    numbering = holding[0] if len(holding) == 1 else None
    return (NUMBERINGS[numbering] if numbering else {}) | meaning, numbering
