"""Reads the final `Answer: <...>` line of a model's reply.

Where to look, in this order; the first that exists decides, and what it holds is not searched further:

1. the last line with an `Answer:` marker (any case; markdown emphasis, angle or square brackets around the
   answer are ignored), from the marker to the end of its line, or the next line where that is empty;
2. the last `\\boxed{...}`, else the last bold text `**...**`;
3. the whole reply, when it is a single line.

A reply that is none of these, or whose answer does not name exactly one option, is unparsed: None, never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_MARKER = re.compile(r"(?im)\banswer\b[*_`\s]*[:：=]([^\n]*)(?=(?:\s*\n([^\n]+))?)")
_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\{)?([^{}]*)\}")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_NUMBER = re.compile(
    r"(?<![\w.])[-+−]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
)
_UNITS = re.compile(r"(?i)[a-zµ%°]+/[a-z]+(?:²|\^?2\b)?|m\^?2\b|m²")  # with digits or slashes of their own
_FIRST_LETTER = re.compile(
    r"(?:(?i:option|choice)\s*)?\(?(?:([A-Za-z])(?:$|\s*[)\].:,;&/–—-]|\s+(?:or|and)\b)|([B-HJ-Z])\s)"
)
_LAST_LETTER = re.compile(r"(?i:\b(?:option|choice|letter|is))\s*\(?([A-Z])\)?$")
_MORE_LETTERS = re.compile(r"(?:[,/&]|\bor\b|\band\b)\s*\(?([A-Z])(?![\w'’])")
_AROUND = "*_`<>[](){}\"' \t"


def has_marker(reply: str) -> bool:
    """Whether the reply has an `Answer:` line, readable or not."""
    return _MARKER.search(reply) is not None


def answer(reply: str) -> str | None:
    """The text of the answer, without decoration; None where the reply has none."""
    marked = list(_MARKER.finditer(reply))
    if marked:
        same_line, next_line = marked[-1].groups()
        return _bare(same_line) or _bare(next_line or "") or None
    for pattern in (_BOXED, _BOLD):
        found = pattern.findall(reply)
        if found:
            return _bare(found[-1]) or None
    lines = [line for line in reply.splitlines() if line.strip()]
    return _bare(lines[0]) or None if len(lines) == 1 else None


def label(reply: str, labels: Sequence[str]) -> int | None:
    """Index of the label that the reply names: by index, by name, or by both where they agree.

    `2`, `2: Overweight`, `Overweight (2)` and `overweight` are read alike; a name counts only where no other
    label is named beside it (`Normal weight` is not also `Normal`). An index outside the labels is no answer.
    """
    text = answer(reply)
    if text is None:
        return None
    named = _named(text, labels)
    if len(named) > 1:
        return None
    rest = text
    for name in sorted(labels, key=len, reverse=True):  # digits within names are no indices
        rest = re.sub(_whole(name), " ", rest, flags=re.IGNORECASE)
    if re.search(r"\d", rest):
        numbers = {value for value in map(_value, _NUMBER.findall(rest)) if value is not None}
        if len(numbers) != 1:
            return None
        value = numbers.pop()
        if value != int(value) or not 0 <= value < len(labels) or named not in (set(), {int(value)}):
            return None
        return int(value)
    return named.pop() if named else None


def number(reply: str, *, percent_as_fraction: bool = False) -> float | None:
    """The one number of the answer; a unit and words in parentheses may follow (`71.5 kg (157 lb)`).

    A range or two numbers are no answer. With `percent_as_fraction`, a number with a percent sign is divided
    by 100.
    """
    text = answer(reply)
    if text is None:
        return None
    percent = re.search(r"\d\s*\\?%", text)
    found = _NUMBER.findall(_UNITS.sub(" ", re.sub(r"\([^)]*\)?", " ", text)))
    value = _value(found[0]) if len(found) == 1 else None
    return value / 100 if value is not None and percent and percent_as_fraction else value


def probability(reply: str) -> float | None:
    """A probability in [0, 1]: `0.3`, or a percentage with its sign, `30 %`."""
    value = number(reply, percent_as_fraction=True)
    return value if value is not None and 0 <= value <= 1 else None


def letter(reply: str, letters: str = "ABCDEFGHIJ") -> str | None:
    """The letter of an option (WearableQA, reading of answers): `Answer: C`, `(C)`, `c.`, `C) some text`.

    Bold or boxed text counts only where it is a single letter, the last of the reply whichever of the two it is, and
    so does a whole reply. Two letters, or one that is not among `letters`, are no answer.
    """
    text = answer(reply) if has_marker(reply) else _single_letter(reply)
    if not text:
        return None
    found = _FIRST_LETTER.match(text) or _LAST_LETTER.search(text)
    if found is None:
        return None
    chosen = next(group for group in found.groups() if group).upper()
    if set(_MORE_LETTERS.findall(text)) - {chosen}:
        return None
    return chosen if chosen in letters else None


def _single_letter(reply: str) -> str | None:
    found = sorted((m.start(1), _bare(m[1])) for pattern in (_BOXED, _BOLD) for m in pattern.finditer(reply))
    single = [text for _, text in found if re.fullmatch("[A-Za-z]", text)]
    if single:
        return single[-1]
    whole = _bare(reply)
    return whole if re.fullmatch("[A-Za-z]", whole) else None


def _bare(text: str) -> str:
    text = re.sub(r"\\(?:boxed|text)\{([^{}]*)\}", r"\1", text.strip().replace("$", " "))
    return text.strip().strip(_AROUND).rstrip(".,;:!").strip(_AROUND)


def _whole(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _named(text: str, labels: Sequence[str]) -> set[int]:
    found: set[int] = set()
    rest = text
    for index in sorted(range(len(labels)), key=lambda i: len(labels[i]), reverse=True):
        pattern = _whole(labels[index])
        if re.search(pattern, rest, flags=re.IGNORECASE):
            found.add(index)
            rest = re.sub(pattern, " ", rest, flags=re.IGNORECASE)
    return found


def _value(text: str) -> float | None:
    try:
        value = float(text.replace(",", "").replace("−", "-"))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
