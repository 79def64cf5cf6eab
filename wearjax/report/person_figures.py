"""Charts over a person's days: resting heart rate with its course, steps and sleep."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from wearjax import plural
from wearjax.report import drawing, trend
from wearjax.segments.person_days import PersonDays

_POINT, _LINE, _MISSING = "#6f9fc4", "#0072B2", "#c9c9c9"
_LEGEND = {"loc": "upper left", "ncols": 3, "borderaxespad": 0.0}
_UNITS = {"steps": "steps a day", "sleep_hours": "hours asleep"}
_COLOURS = {"steps": "#009E73", "sleep_hours": "#CC79A7"}
_USUAL = 6  # interquartile ranges
_BARS_MAX = 150  # more days become weeks


def resting_heart_rate(days: PersonDays, *, name: str) -> str | None:
    """Daily estimates, their robust course, and a mark below for every day without one; None without any."""
    value = days.resting_heart_rate
    if not np.isfinite(value).any():
        return None
    at = np.arange(days.date.min(), days.date.max() + 1)
    course = trend.smooth(days.date, value, at)
    without = np.setdiff1d(at, days.date[np.isfinite(value)])

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.plot(_dates(days.date), value, ".", color=_POINT, markersize=4, label="a day")
        ax.plot(_dates(at), course, color=_LINE, linewidth=1.8, label="course (running median)")
        low, high = usual_range(value)
        margin = max(0.15 * (high - low), 2.0)
        floor = low - 1.6 * margin
        if len(without):
            ax.plot(_dates(without), np.full(len(without), floor + 0.35 * margin), "|", color=_MISSING, markersize=5,
                    label="no estimate")  # fmt: skip
        ax.set_ylim(floor, high + 2.2 * margin)
        beyond = value[(value < floor) | (value > high + 2.2 * margin)]
        if len(beyond):
            said = " to ".join(dict.fromkeys((f"{beyond.min():.0f}", f"{beyond.max():.0f}")))
            text = f"{len(beyond)} {plural.noun(len(beyond), 'day')} beyond the axis: {said}"
            ax.set_title(text, loc="right", fontweight="normal", pad=3)
        ax.set_ylabel("bpm")
        ax.grid(axis="y")
        ax.legend(**_LEGEND)
        _date_axis(ax)

    label = f"Resting heart rate on {int(np.isfinite(value).sum())} days, with its course"
    return drawing.svg(draw, size=(drawing.WIDTH, 2.4), name=name, label=label)


def bars(days: PersonDays, column: Literal["steps", "sleep_hours"], *, name: str) -> str | None:
    """A bar a day, or a week's median where there are many days; gaps stay empty. None without any value."""
    value = getattr(days, column)
    if not np.isfinite(value).any():
        return None
    date, height, width = by_bar(days.date, value)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.bar(_dates(date), height, width=np.timedelta64(int(width * 20), "h"), align="edge", color=_COLOURS[column],
               linewidth=0)  # fmt: skip
        middle = float(np.nanmedian(value))
        ax.axhline(middle, color="#444444", linewidth=0.8, linestyle=(0, (4, 2)))
        text = f"dashed: median {middle:,.0f}" if column == "steps" else f"dashed: median {middle:.1f}"
        top = 1.1 * usual_range(height)[1]
        beyond = height > top
        if beyond.any():
            ax.set_ylim(0, top)
            half = np.timedelta64(int(width * 10), "h")
            ax.plot(
                _dates(date[beyond]) + half,
                np.full(beyond.sum(), 0.97 * top),
                "^",
                color="#444444",
                markersize=4,
            )
            text += f"; ▲ beyond the axis, up to {height.max():,.0f}"
        ax.set_title(text, loc="right", fontweight="normal", pad=3)
        ax.set_ylabel(_UNITS[column])
        ax.grid(axis="y")
        ax.set_axisbelow(True)
        _date_axis(ax)

    unit = "day" if width == 1 else "week (median of its days)"
    label = f"{_UNITS[column].capitalize()}: a bar a {unit}"
    return drawing.svg(draw, size=(drawing.WIDTH, 1.9), name=name, label=label)


def usual_range(value: np.ndarray) -> tuple[float, float]:
    """Least and largest of the known values that lie within six interquartile ranges of the quartiles.

    A record that nobody can have walked must not press all other days to the floor of a chart.
    """
    known = np.asarray(value, np.float64)[np.isfinite(value)]
    low, middle, high = np.percentile(known, (25, 50, 75))
    reach = _USUAL * max(high - low, 0.1 * abs(middle), 1.0)
    usual = known[(known >= low - reach) & (known <= high + reach)]
    return float(usual.min()), float(usual.max())


def by_bar(date: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """First day, height and width in days of each bar: a day's value, or of many days the week's median."""
    known = np.isfinite(value)
    date, value = date[known], value[known]
    if not len(date) or date.max() - date.min() < _BARS_MAX:
        return date, value, 1
    monday = date - (date + 3) % 7  # 1970-01-01 was a Thursday
    weeks = np.unique(monday)
    return weeks, np.array([np.median(value[monday == week]) for week in weeks]), 7


def _dates(days: np.ndarray) -> np.ndarray:
    return np.asarray(days, np.int64).astype("datetime64[D]")


def _date_axis(ax: Any) -> None:
    from matplotlib import dates

    ax.margins(x=0.01)
    locator = dates.AutoDateLocator(minticks=3, maxticks=8)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
