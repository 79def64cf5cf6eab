"""A person's daily record as text: a line a day, a line a metric, CSV, Markdown, and Markdown with a summary.

The four layouts, the order of the metrics and the number format are those of WearableQA's public renderer; headings
and the summary are this project's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.daily_metrics import BY_KEY, INDEX, DailyMetric
from wearjax.sources.daily_record import DailyRecord

EPOCH = dt.date(1970, 1, 1)
SUMMARY = (
    "n",
    "mean",
    "SD",
    "min",
    "max",
    "slope per day",
    "mean of latest",
    "mean of previous",
    "difference",
)


@dataclass(frozen=True, eq=False)
class Table:
    """What a prompt shows of a record: days and metrics with a measurement.

    Attributes:
        keys: metrics, in alphabetical order.
        dates: days since 1970-01-01, ascending.
        values: NaN = not measured, or not shown.
        end: last day of the window, which need not have a row.
        window: days of the window.
    """

    keys: tuple[str, ...]
    dates: Int64[np.ndarray, " day"]
    values: Float64[np.ndarray, "day metric"]
    end: int
    window: int

    def latest(self, windows_back: int = 0) -> Float64[np.ndarray, "day metric"]:
        """The rows of the window, or of the one so many windows before it."""
        last = self.end - windows_back * self.window
        return self.values[(self.dates > last - self.window) & (self.dates <= last)]

    def of_window(self) -> Table:
        """Without the days before the window."""
        kept = self.dates > self.end - self.window
        return _measured(self.keys, self.dates[kept], self.values[kept], self.end, self.window)


def table(
    record: DailyRecord,
    end: int,
    *,
    window: int,
    history: int,
    hidden: Collection[str] = (),
    hidden_in_window: Collection[str] = (),
) -> Table:
    """The days of a window and up to `history` days before it.

    Args:
        end: last day of the window, days since 1970-01-01.
        hidden: metrics that are not shown; `hidden_in_window` are shown before the window only.
    """
    first, last = np.searchsorted(record.dates, [end - window - history + 1, end + 1])
    dates = record.dates[first:last]
    keys = tuple(sorted(key for key in INDEX if key not in hidden))
    values = record.values[first:last][:, [INDEX[key] for key in keys]]
    if hidden_in_window:
        columns = np.array([key in hidden_in_window for key in keys])
        values[(dates > end - window)[:, None] & columns] = np.nan
    return _measured(keys, dates, values, end, window)


def _measured(keys: tuple[str, ...], dates: np.ndarray, values: np.ndarray, end: int, window: int) -> Table:
    there = np.isfinite(values)
    rows, columns = there.any(axis=1), there.any(axis=0)
    kept = tuple(key for key, any_day in zip(keys, columns, strict=True) if any_day)
    return Table(kept, dates[rows], values[rows][:, columns], end, window)


def number(value: float) -> str:
    """Three decimals below 1, two below 10, one below 1000, else none; whole numbers as they are."""
    if value == int(value):
        return str(int(value))
    size = abs(value)
    text = f"{value:.{3 if size < 1 else 2 if size < 10 else 1 if size < 1000 else 0}f}"
    return text.lstrip("-") if float(text) == 0 else text


def date(day: int) -> str:
    """ISO date of days since 1970-01-01."""
    return (EPOCH + dt.timedelta(days=int(day))).isoformat()


def named(key: str) -> str:
    """A metric's label with its unit, e.g. `RHR (bpm)`; labels that tell their unit stay as they are."""
    metric = BY_KEY[key]
    told = not metric.unit or metric.unit.lower() in metric.label.lower()
    return metric.label if told else f"{metric.label} ({metric.unit})"


def legend(keys: Collection[str]) -> str:
    """What each label means, a line each."""
    return "\n".join(f"{BY_KEY[key].label}: {_meaning(BY_KEY[key])}" for key in keys)


def _meaning(metric: DailyMetric) -> str:
    told = not metric.unit or metric.unit in metric.phrase
    return metric.phrase if told else f"{metric.phrase}, {metric.unit}"


def row(shown: Table) -> str:
    """A line a day with what was measured: `2024-03-04: RHR=61, Steps=8412`."""
    labels = [BY_KEY[key].label for key in shown.keys]
    lines = []
    for day, values in zip(shown.dates, shown.values.tolist(), strict=True):
        cells = [f"{label}={number(v)}" for label, v in zip(labels, values, strict=True) if v == v]
        lines.append(f"{date(day)}: {', '.join(cells)}")
    return "\n".join(lines)


def col(shown: Table) -> str:
    """A line a metric with the days on which it was measured: `RHR: 2024-03-04=61, 2024-03-05=60`."""
    days = [date(day) for day in shown.dates]
    lines = []
    for key, values in zip(shown.keys, shown.values.T.tolist(), strict=True):
        cells = [f"{day}={number(v)}" for day, v in zip(days, values, strict=True) if v == v]
        lines.append(f"{BY_KEY[key].label}: {', '.join(cells)}")
    return "\n".join(lines)


def csv(shown: Table) -> str:
    """A header of labels and a row a day, empty where not measured."""
    return "\n".join(",".join(cells) for cells in _cells(shown))


def markdown(shown: Table) -> str:
    """A Markdown table of a row a day, empty where not measured."""
    return _markdown(_cells(shown))


def markdown_stats(shown: Table) -> str:
    """The Markdown table, then a table of `SUMMARY` for each metric."""
    return f"{markdown(shown)}\n\n{summary(shown)}"


def summary(shown: Table) -> str:
    """Each metric's count, mean, sample deviation, extremes, Theil–Sen slope, and the window against the one before."""
    rows = [["metric", *SUMMARY[:6], f"mean of latest {shown.window} days", f"mean of previous {shown.window} days",
             SUMMARY[8]]]  # fmt: skip
    latest, previous = shown.latest(), shown.latest(1)
    for i, key in enumerate(shown.keys):
        rows.append([named(key), *_summary(shown.dates, shown.values[:, i], latest[:, i], previous[:, i])])
    return _markdown(rows)


def _summary(dates: np.ndarray, values: np.ndarray, latest: np.ndarray, previous: np.ndarray) -> list[str]:
    there = np.isfinite(values)
    found = values[there]
    spread = float(found.std(ddof=1)) if len(found) > 1 else np.nan
    now, before = (_mean(part[np.isfinite(part)]) for part in (latest, previous))
    figures = [found.mean(), spread, found.min(), found.max()]
    slope = f"{_slope(dates[there], found):.4f}" if len(found) > 1 else ""
    return [str(len(found)), *map(_known, figures), slope, *map(_known, (now, before, now - before))]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else np.nan


def _known(value: float) -> str:
    return number(value) if value == value else ""


def _slope(days: np.ndarray, values: np.ndarray) -> float:
    """Median slope of all pairs of days (Theil, 1950; Sen, 1968)."""
    first, second = np.triu_indices(len(days), 1)
    return float(np.median((values[second] - values[first]) / (days[second] - days[first])))


def _cells(shown: Table) -> list[list[str]]:
    rows = [["date", *(BY_KEY[key].label for key in shown.keys)]]
    for day, values in zip(shown.dates, shown.values.tolist(), strict=True):
        rows.append([date(day), *map(_known, values)])
    return rows


def _markdown(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)
