"""A person's daily record as one figure: a panel a metric, or a panel a domain. The same table gives the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.daily_metrics import BY_KEY
from wearjax.language import picture, record_text
from wearjax.language.record_text import Table

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#7F6A00", "#6A3D9A")
DOMAINS = {
    "cardio_fitness": "Heart and fitness",
    "activity": "Activity and energy",
    "sleep": "Sleep",
    "stress": "Stress",
}
_COLUMNS, _TICKS = 2, 5
_PANEL = (6.0, 1.5)  # inches
_GROUP = (12.0, 2.6)
_SHADE = "#E9E4D4"


def image_grid(shown: Table, *, dpi: int = 100) -> bytes:
    """A panel a metric as PNG; the window is shaded, gaps are days without a measurement."""
    rows = max(1, -(-len(shown.keys) // _COLUMNS))

    def draw(figure: Any) -> None:
        panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
        for axes, key in zip(panels, shown.keys, strict=False):
            days, values = _calendar(shown, key)
            _line(axes, days, values, COLOURS[0])
            axes.set_title(_title(key, values), loc="left", fontsize=8, pad=2)
        for i, axes in enumerate(panels):
            _frame(axes, shown) if i < len(shown.keys) else axes.set_axis_off()
        figure.tight_layout(pad=0.4)

    return picture.png(draw, size=(_COLUMNS * _PANEL[0], rows * _PANEL[1]), dpi=dpi)


def image_grouped(shown: Table, *, dpi: int = 100) -> bytes:
    """A panel a domain as PNG; each metric is drawn from lowest (0) to highest (1), as its legend says."""
    groups = {
        title: keys
        for domain, title in DOMAINS.items()
        if (keys := [key for key in shown.keys if BY_KEY[key].domain == domain])
    }
    rows = max(1, len(groups))

    def draw(figure: Any) -> None:
        panels = figure.subplots(rows, 1, squeeze=False).ravel()
        for axes, (title, keys) in zip(panels, groups.items(), strict=False):
            for key, colour in zip(keys, COLOURS, strict=False):
                days, values = _calendar(shown, key)
                low, high = np.nanmin(values), np.nanmax(values)
                scaled = (
                    (values - low) / (high - low)
                    if high > low
                    else np.where(np.isfinite(values), 0.5, np.nan)
                )
                _line(axes, days, scaled, colour, label=_title(key, values))
            axes.set_title(title, loc="left", fontsize=9, pad=2)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)
            _frame(axes, shown)
        if not groups:
            panels[0].set_axis_off()
        figure.tight_layout(pad=0.4)

    return picture.png(draw, size=(_GROUP[0], rows * _GROUP[1]), dpi=dpi)


def _title(key: str, values: np.ndarray) -> str:
    low, high = record_text.number(float(np.nanmin(values))), record_text.number(float(np.nanmax(values)))
    return f"{record_text.named(key)} [{low} - {high}]"


def _calendar(shown: Table, key: str) -> tuple[Int64[np.ndarray, " day"], Float64[np.ndarray, " day"]]:
    """Every day from the first to the last row, NaN where not measured, so that lines break at gaps."""
    days = np.arange(shown.dates[0], shown.dates[-1] + 1)
    values = np.full(len(days), np.nan)
    values[shown.dates - days[0]] = shown.values[:, shown.keys.index(key)]
    return days, values


def _line(axes: Any, days: np.ndarray, values: np.ndarray, colour: str, label: str | None = None) -> None:
    axes.plot(days, values, color=colour, linewidth=0.8, marker=".", markersize=2.5, label=label)


def _frame(axes: Any, shown: Table) -> None:
    first, last = int(shown.dates[0]), int(shown.end)
    axes.axvspan(last - shown.window + 0.5, last + 0.5, color=_SHADE, linewidth=0, zorder=0)
    axes.set_xlim(first - 0.5, last + 0.5)
    ticks = np.unique(np.linspace(first, last, _TICKS).round().astype(int))
    axes.set_xticks(ticks, [record_text.date(day) for day in ticks], fontsize=6.5)
    axes.tick_params(axis="y", labelsize=6.5)
    axes.grid(True, color="#dddddd", linewidth=0.4)
