"""A calendar of half years as SVG: a column a week, a cell a day, coloured by hours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# One hue from light to dark, so that lightness alone tells the classes; the first is a day with nothing recorded.
COLOURS = ("#e3e3e3", "#bdd7ee", "#74add1", "#3a78b5", "#123a6b")
CLASSES = ("none", "up to 6 h", "6 to 12 h", "12 to 18 h", "over 18 h")
_EDGES = (0.0, 6.0, 12.0, 18.0)
_CELL, _LEFT, _TOP = 12, 26, 16
_EPOCH = dt.date(1970, 1, 1).toordinal()
_WEEKDAYS = {0: "Mon", 2: "Wed", 4: "Fri", 6: "Sun"}


@dataclass(frozen=True)
class HalfYear:
    """One block of a calendar.

    Attributes:
        title: e.g. `"2024, January to June"`.
        svg: the element.
    """

    title: str
    svg: str


def colour_class(hours: float) -> int:
    """0 for a day with nothing recorded, else 1 to 4."""
    return int(np.searchsorted(_EDGES, hours, side="left"))


def half_years(
    date: Sequence[int] | np.ndarray, hours: Sequence[float] | np.ndarray, *, what: str
) -> list[HalfYear]:
    """Blocks of the half years from the first to the last day; days without a value keep an outline only.

    Args:
        date: days since 1970-01-01.
        hours: of each day; NaN is left out.
        what: names the hours in the cells' titles, e.g. `"worn"`.
    """
    known = {int(d): float(h) for d, h in zip(date, hours, strict=True) if np.isfinite(h)}
    if not known:
        return []
    first, last = (dt.date.fromordinal(d + _EPOCH) for d in (min(known), max(known)))
    blocks = []
    year, half = first.year, first.month > 6
    while (year, half) <= (last.year, last.month > 6):
        start = dt.date(year, 7 if half else 1, 1)
        stop = dt.date(year + half, 1 if half else 7, 1)
        title = f"{year}, {'July to December' if half else 'January to June'}"
        blocks.append(HalfYear(title, _block(start, stop, known, title, what)))
        year, half = year + half, not half
    return blocks


def _block(start: dt.date, stop: dt.date, known: Mapping[int, float], title: str, what: str) -> str:
    monday = start.toordinal() - start.weekday()
    weeks = (stop.toordinal() - 1 - monday) // 7 + 1
    parts = []
    for name, text in _WEEKDAYS.items():
        parts.append(f'<text x="{_LEFT - 4}" y="{_TOP + name * _CELL + 9}" text-anchor="end">{text}</text>')
    for ordinal in range(start.toordinal(), stop.toordinal()):
        date = dt.date.fromordinal(ordinal)
        x = _LEFT + (ordinal - monday) // 7 * _CELL
        y = _TOP + date.weekday() * _CELL
        if date.day == 1:
            parts.append(
                f'<text x="{x + (_CELL if date.weekday() > 3 else 0)}" y="{_TOP - 5}">{date:%b}</text>'
            )
        hours = known.get(ordinal - _EPOCH)
        style = 'class="o"' if hours is None else f'fill="{COLOURS[colour_class(hours)]}"'
        said = "outside the recording, or no data" if hours is None else f"{hours:.1f} h {what}"
        parts.append(
            f'<rect x="{x + 0.5}" y="{y + 0.5}" width="10" height="10" rx="1.5" {style}>'
            f"<title>{date.isoformat()}: {said}</title></rect>"
        )
    size = f"0 0 {_LEFT + weeks * _CELL + 2} {_TOP + 7 * _CELL + 2}"
    return f'<svg role="img" aria-label="Hours {what}, {title}" viewBox="{size}">{"".join(parts)}</svg>'
