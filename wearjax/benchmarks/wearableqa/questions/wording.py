"""Words that all question types share: metrics, amounts, dates, the window, and the yardsticks that a stem explains.

A stem says everything a reader needs to compute the answer. It names days by number, so that the options of a type are
the same few sentences whoever is asked about.
"""

from __future__ import annotations

import datetime

from wearjax.benchmarks.wearableqa import windows
from wearjax.daily_metrics import BY_KEY

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
NOT_ADVICE = "This is an exercise in reading records, not medical advice."
LENGTH_RATIO = 1.6  # of the longest to the shortest option of a question
_UNITS = {"h": "hours", "min": "minutes", "": "points"}  # words where a unit alone reads badly
_COUNTS = {"exercise_count": "sessions"}


def metric(key: str) -> str:
    """The name within a sentence, e.g. `resting heart rate`."""
    return BY_KEY[key].phrase


def unit(key: str) -> str:
    """What an amount of a metric is counted in, e.g. `bpm`."""
    return _COUNTS.get(key) or _UNITS.get(BY_KEY[key].unit, BY_KEY[key].unit)


def metrics(keys: tuple[str, ...]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    names = [metric(key) for key in keys]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def date(day: int) -> str:
    """`4 March 2024` of days since 1970-01-01."""
    there = windows.EPOCH + datetime.timedelta(days=day)
    return f"{there.day} {MONTHS[there.month - 1]} {there.year}"


def window(end: int) -> str:
    """The 28 days that a question is about, by their dates."""
    return f"the latest 28 days ({date(end + windows.WINDOW_RANGE[0])} to {date(end)})"


def halves() -> str:
    """What the halves of the window are."""
    return f"The first half is days 1 to {windows.HALF}, the second half days {windows.HALF + 1} to {windows.WINDOW}."


def baseline() -> str:
    """What a person's usual level and spread are, for readers who have to compute them."""
    return (
        f"The usual level is the median of the {windows.BASELINE} days before the window, and the usual spread is "
        "1.4826 times the median absolute deviation from it."
    )


def known_baseline(key: str, level: float, spread: float) -> str:
    """The same, with both numbers given."""
    return (
        f"The usual level is {short(level)} {unit(key)} and the usual spread {short(spread)} {unit(key)} (median and "
        f"1.4826 times the median absolute deviation of the {windows.BASELINE} days before the window)."
    )


def short(value: float) -> str:
    """A number to four significant digits, without an exponent."""
    text = f"{value:,.4g}"
    return f"{value:,.0f}" if "e" in text else text


def amount(value: float, step: float, of: str = "") -> str:
    """A number with the decimals of its rounding step and its unit, e.g. `8,300 steps` or `7.2 hours`."""
    return f"{value:,.{decimals(step)}f} {of}".strip()


def decimals(step: float) -> int:
    """Digits after the point that a rounding step needs; steps are powers of ten."""
    digits = 0
    while digits < 9 and abs(step * 10**digits - round(step * 10**digits)) > 1e-6:
        digits += 1
    return digits


def days(n: int) -> str:
    """`1 day`, `2 days`."""
    return f"{n} day" if n == 1 else f"{n} days"


def capitalised(text: str) -> str:
    """With a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]
