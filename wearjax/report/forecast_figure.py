"""The figure of one window: the recorded hours, the forecast hours, and what the methods expected there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wearjax.channels import CHANNELS, HOURS_PER_DAY
from wearjax.report import drawing, words
from wearjax.report.forecasts import Forecasts, hourly_unit

_PANEL_GAP = 0.23  # inches over each panel, for its title
_DASHES = ("solid", (0, (4, 1.2)), (0, (1.2, 1.0)))


def draw(
    found: Forecasts,
    position: int,
    channels: Sequence[int],
    methods: Sequence[str],
    colours: Mapping[str, str],
    *,
    name: str,
) -> str:
    """One window: a panel a channel; the forecast hours shaded, the band of the first method's quantiles."""
    heights = [0.78 if CHANNELS[c].is_continuous else 0.36 for c in channels]  # inches
    height = sum(h + _PANEL_GAP for h in heights) + 0.24

    def panels(figure: Any) -> None:
        top = height
        for c, inches in zip(channels, heights, strict=True):
            top -= inches + _PANEL_GAP
            ax = figure.add_axes((0.06, top / height, 0.92, inches / height))
            _panel(ax, found, position, c, methods, colours)
            _hours(ax, found, position, labelled=c == channels[-1])

    titles = ", ".join(words.readable(CHANNELS[c].name) for c in channels)
    label = f"Hourly values before and in one forecast window: {titles}"
    return drawing.svg(panels, size=(drawing.WIDTH, height), name=name, label=label, layout=None)


def _panel(
    ax: Any, found: Forecasts, position: int, c: int, methods: Sequence[str], colours: Mapping[str, str]
) -> None:
    channel = CHANNELS[c]
    scale = channel.display_scale
    before, after = found.history[position, c] * scale, found.target[position, c] * scale
    n, horizon = len(before), len(after)
    hours = np.arange(n, n + horizon) + 0.5
    ax.axvspan(n, n + horizon, color=words.SHADE_COLOUR, linewidth=0, zorder=0)
    values = [before, after]
    for turn, method in reversed(list(enumerate(methods))):
        if turn == 0:
            low, high = (part[method][position, c] * scale for part in (found.low, found.high))
            ax.fill_between(hours, low, high, color=colours[method], alpha=0.18, linewidth=0, zorder=1)
        guess = found.forecast[method][position, c] * scale
        ax.plot(hours, guess, color=colours[method], linewidth=1.3, linestyle=_DASHES[turn], zorder=5 - turn)
        values.append(guess)
    recorded = np.concatenate([before, after])
    style = {"color": words.OBSERVED_COLOUR, "linewidth": 0.8, "marker": ".", "markersize": 1.8, "zorder": 6}
    ax.plot(np.arange(n + horizon) + 0.5, recorded, **style)
    ax.set_ylim(*_limits(np.concatenate(values), binary=not channel.is_continuous))
    ax.set_title(f"{words.readable(channel.name)}  ({hourly_unit(channel)})", pad=2.5, fontweight="normal")
    if channel.is_continuous:
        ax.locator_params(axis="y", nbins=3)
    else:
        ax.set_yticks([0, 1])


def _limits(values: np.ndarray, *, binary: bool) -> tuple[float, float]:
    if binary:
        return -0.15, 1.15
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _hours(ax: Any, found: Forecasts, position: int, *, labelled: bool) -> None:
    n, horizon = found.history.shape[2], found.target.shape[2]
    first = int(found.start[position][-5:-3]) if found.start[position][-5:-3].isdecimal() else 0
    ticks = [t for t in range(n + horizon + 1) if (t - n + first) % (HOURS_PER_DAY // 2) == 0]
    names = [f"{(t - n + first) % HOURS_PER_DAY:02d}:00" if labelled else "" for t in ticks]
    ax.set_xlim(0, n + horizon)
    ax.set_xticks(ticks, names)
