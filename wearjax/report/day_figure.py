"""The figure of one day: what was observed, what was hidden or filled, and what the methods put there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wearjax.channels import CHANNELS, MINUTES_PER_DAY
from wearjax.report import drawing, words
from wearjax.report.run_folder import Gallery

_PANEL_GAP = 0.23  # inches over each panel of a day, for its title
_DASHES = ("solid", (0, (4, 1.2)), (0, (1.2, 1.0)))


def draw(
    gallery: Gallery,
    position: int,
    channels: Sequence[int],
    methods: Sequence[str],
    colours: Mapping[str, str],
    *,
    filled: bool,
    name: str,
    bands: Mapping[str, np.ndarray] | None = None,
) -> str:
    """One day: a panel a channel with the observed curve, hidden (or filled) cells shaded, and imputations.

    Args:
        filled: the target cells were never measured, so there is no truth to draw in them.
        bands: by method, lower and upper ends `(2, 19, 1440)` of an interval in stored units; NaN = none.
    """
    heights = [0.62 if CHANNELS[c].is_continuous else 0.28 for c in channels]  # inches
    height = sum(h + _PANEL_GAP for h in heights) + 0.24

    def panels(figure: Any) -> None:
        # Placed by hand: every day gets the same margins, and no layout has to be solved.
        top = height
        for c, inches in zip(channels, heights, strict=True):
            top -= inches + _PANEL_GAP
            ax = figure.add_axes((0.045, top / height, 0.935, inches / height))
            _day_panel(ax, gallery, position, c, methods, colours, filled=filled, bands=bands or {})
            ax.set_xlim(0, MINUTES_PER_DAY)
            last = c == channels[-1]
            ax.set_xticks(
                range(0, MINUTES_PER_DAY + 1, 180), [f"{h:02d}:00" if last else "" for h in range(0, 25, 3)]
            )

    titles = ", ".join(words.readable(CHANNELS[c].name) for c in channels)
    label = f"Minute values of one day: {titles}"
    return drawing.svg(panels, size=(drawing.WIDTH, height), name=name, label=label, layout=None)


def _day_panel(
    ax: Any,
    gallery: Gallery,
    position: int,
    c: int,
    methods: Sequence[str],
    colours: Mapping[str, str],
    *,
    filled: bool,
    bands: Mapping[str, np.ndarray],
) -> None:
    channel = CHANNELS[c]
    truth = gallery.values[position, c] * channel.display_scale
    target = gallery.target[position, c]
    regions = _runs(_joined(target, np.isnan(truth)))
    spans = [(start, stop - start) for start, stop in regions]
    ax.broken_barh(
        spans, (0, 1), transform=ax.get_xaxis_transform(), color=words.SHADE_COLOUR, linewidth=0, zorder=0
    )
    if not filled:
        _line(
            ax,
            np.where(target, truth, np.nan),
            color=words.OBSERVED_COLOUR,
            linewidth=0.5,
            alpha=0.7,
            zorder=6,
        )
    limits = [truth]
    for turn, method in reversed(list(enumerate(methods))):
        guess = gallery.imputed[method][position, c] * channel.display_scale
        guess = np.where(target, guess, np.nan)
        style = {"color": colours[method], "linewidth": 1.3, "linestyle": _DASHES[turn], "zorder": 5 - turn}
        _line(ax, guess, regions, **style)
        limits.append(guess)
        if method in bands and np.isfinite(bands[method][:, c]).any():
            low, high = bands[method][:, c] * channel.display_scale
            minutes = np.arange(len(low)) + 0.5
            ax.fill_between(
                minutes, low, high, step="mid", color=colours[method], alpha=0.28, linewidth=0, zorder=2
            )
            limits += [low, high]
    _line(ax, np.where(target, np.nan, truth), color=words.OBSERVED_COLOUR, linewidth=0.75, zorder=6)
    ax.set_ylim(*_limits(limits, binary=not channel.is_continuous))
    ax.set_title(f"{words.readable(channel.name)}  ({channel.display_unit})", pad=2.5, fontweight="normal")
    if not channel.is_continuous:
        ax.set_yticks([0, 1])
    else:
        ax.locator_params(axis="y", nbins=3)


def _joined(target: np.ndarray, unmeasured: np.ndarray) -> np.ndarray:
    """Target minutes plus the unmeasured ones that lie between two of them: shaded as one region."""
    shaded = target.copy()
    for start, stop in _runs(unmeasured & ~target):
        inside = start > 0 and stop < len(target)
        shaded[start:stop] = inside and target[start - 1] and target[stop]
    return shaded


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Start and end (exclusive) of each stretch of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _line(
    ax: Any, values: np.ndarray, stretches: Sequence[tuple[int, int]] | None = None, **style: Any
) -> None:
    """One path, broken between stretches (of finite values, unless given); a lone minute becomes a dash."""
    xs: list[np.ndarray] = []
    ys: list[np.ndarray] = []
    gap = np.asarray([np.nan])
    for start, stop in _runs(np.isfinite(values)) if stretches is None else stretches:
        minutes = start + np.flatnonzero(np.isfinite(values[start:stop]))
        segment, middle = values[minutes], minutes + 0.5
        if len(minutes) == 1:
            middle, segment = middle + np.asarray([-1.2, 1.2]), np.repeat(segment, 2)
        xs += [middle, gap]
        ys += [segment, gap]
    if xs:
        style = {"solid_joinstyle": "round", "solid_capstyle": "round", **style}
        ax.plot(np.concatenate(xs), np.concatenate(ys), **style)


def _limits(curves: Sequence[np.ndarray], *, binary: bool) -> tuple[float, float]:
    """Axis range: all that was recorded; of the imputations all but their most extreme percent."""
    if binary:
        return -0.15, 1.15
    found = [curves[0][np.isfinite(curves[0])]]
    for guess in curves[1:]:
        finite = guess[np.isfinite(guess)]
        found.append(np.percentile(finite, (0.5, 99.5)) if len(finite) else finite)
    values = np.concatenate(found)
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin
