"""A participant's week as one figure for models that see: a panel a channel, hours from left to right.

As in the appendix of the OpenMHC paper: the seven continuous channels as lines on top, flags as filled strips
below, flags that never occur left out, no ticks, frame or legend, a gray line at every midnight, a title
`<channel> (<unit>) [min - max]` and limits of its own for each panel. Colours are ours, one a channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wearjax.channels import BINARY, CHANNELS, CONTINUOUS, HOURS_PER_DAY
from wearjax.language import picture
from wearjax.language.week import HOURS, Week, hourly_unit

COLOURS = (
    "#1f77b4", "#17a2b8", "#5e3c99", "#0b5d1e", "#66a61e", "#d62728", "#ff7f0e",  # continuous
    "#1b1f8a", "#7b8ce0", "#8c564b", "#e377c2", "#b8860b", "#7f7f7f", "#008080", "#a6194b", "#c49c94",
    "#f7415f", "#4d4d00", "#9467bd",
)  # fmt: skip
_WIDTH, _LINE_HEIGHT, _STRIP_HEIGHT, _TITLE, _MARGIN = 10.0, 0.95, 0.28, 0.24, 0.1  # inches


def shown_channels(week: Week) -> tuple[int, ...]:
    """Channels of the figure, from top to bottom: all continuous ones, and flags that occur."""
    return CONTINUOUS + tuple(i for i in BINARY if np.any(week.values[:, i] > 0))


def title(week: Week, channel: int) -> str:
    """`<channel> (<unit>) [min - max]` of the measured hours."""
    values = week.values[:, channel]
    measured = values[~np.isnan(values)]
    limits = f"[{shorten(measured.min())} - {shorten(measured.max())}]" if len(measured) else "[not measured]"
    return f"{CHANNELS[channel].name} ({hourly_unit(CHANNELS[channel])}) {limits}"


def shorten(value: float) -> str:
    """A number with few digits: 3 decimals below 1, 2 below 10, 1 below 1000, else none; no trailing zeros."""
    decimals = next((d for limit, d in ((1, 3), (10, 2), (1000, 1)) if abs(value) < limit), 0)
    text = f"{value:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def render(week: Week, *, dpi: int = 100) -> bytes:
    """The figure as PNG; the same week gives the same bytes."""
    shown = shown_channels(week)
    heights = [_LINE_HEIGHT if i in CONTINUOUS else _STRIP_HEIGHT for i in shown]
    total = sum(heights) + len(shown) * _TITLE + _MARGIN

    def draw(figure: Any) -> None:
        top = total
        for channel, height in zip(shown, heights, strict=True):
            top -= _TITLE + height
            axes = figure.add_axes((_MARGIN / _WIDTH, top / total, 1 - 2 * _MARGIN / _WIDTH, height / total))
            _panel(axes, week, channel)

    return picture.png(draw, size=(_WIDTH, total), dpi=dpi)


def _panel(axes: Any, week: Week, channel: int) -> None:
    values, colour = week.values[:, channel].astype(np.float64), COLOURS[channel]
    axes.set_title(title(week, channel), loc="left", fontsize=8, pad=2)
    axes.set_axis_off()
    axes.set_xlim(0, HOURS)
    for midnight in range(HOURS_PER_DAY, HOURS, HOURS_PER_DAY):
        axes.axvline(midnight, color="#bbbbbb", linewidth=0.7, zorder=0)
    if channel in BINARY:
        axes.set_ylim(0, 1)
        active = np.repeat(np.nan_to_num(values) > 0, 2)
        edges = np.repeat(np.arange(HOURS + 1), 2)[1:-1]
        axes.fill_between(edges, 0, 1, where=active, color=colour, linewidth=0)
        return
    measured = ~np.isnan(values)
    if not measured.any():
        return
    low, high = values[measured].min(), values[measured].max()
    margin = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05  # a flat line lies in the middle
    axes.set_ylim(low - margin, high + margin)
    middle = np.arange(HOURS) + 0.5
    axes.plot(middle, values, color=colour, linewidth=1.0)
    alone = measured & ~np.append(measured[1:], False) & ~np.insert(measured[:-1], 0, False)
    axes.plot(middle[alone], values[alone], color=colour, marker=".", markersize=2, linestyle="none")
