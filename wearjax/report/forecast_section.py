"""The parts of the page that only a forecasting run has: example windows, and the table by channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from wearjax.channels import CHANNELS
from wearjax.report import forecast_figure, forecasts, gallery, tables, words
from wearjax.report.run_folder import RunFolder

WINDOWS_MAX = 6


@dataclass(frozen=True)
class WindowSection:
    """Example windows of one run, ready for the template."""

    run: str
    methods: list[tuple[str, str]]
    has_band: bool
    windows: list[dict[str, Any]]
    n_windows: int


def window_sections(
    runs: Sequence[RunFolder], rows: Sequence[tables.Entry], palette: Mapping[str, str]
) -> list[WindowSection]:
    """A section a run that kept example windows."""
    shown = [(i, run) for i, run in enumerate(runs) if run.forecasts is not None and len(run.forecasts)]
    sections = []
    for number, run in shown:
        found = run.forecasts
        assert found is not None
        labels = {r.method: r.label for r in rows if r.run == run.name}
        methods = gallery.best_methods(found.forecast, [r.method for r in rows], run.baseline)
        colours = {m: palette.get(labels.get(m, m), words.WHEEL[0]) for m in methods}
        windows = []
        for position in forecasts.choose_windows(found, max(1, WINDOWS_MAX // len(shown))):
            channels = forecasts.choose_channels(found, position)
            name = f"window{number}-{position}"
            svg = forecast_figure.draw(found, position, channels, methods, colours, name=name)
            windows.append(
                {
                    "svg": Markup(svg),
                    "start": found.start[position],
                    "participant": found.participant[position],
                }
            )
        legend = [(labels.get(m, m), colours[m]) for m in methods]
        has_band = bool(methods) and bool(np.isfinite(found.low[methods[0]]).any())
        sections.append(WindowSection(run.name, legend, has_band, windows, len(found)))
    return sections


@dataclass(frozen=True)
class ChannelTable:
    """Metric and skill by channel, a column a method.

    Attributes:
        rows: channel, metric with its unit, and for each method the metric, the skill, and whether it is the best.
    """

    methods: list[str]
    rows: list[tuple[str, str, list[tuple[str, str, bool]]]]


def channel_table(runs: Sequence[RunFolder], rows: Sequence[tables.Entry]) -> ChannelTable | None:
    """The table of the forecasting runs, None without scores of channels; the metric is the mean over windows."""
    metrics = {run.name: tables.mapping(run.results.get("metrics")) for run in runs if run.is_forecasting}
    entries = [r for r in rows if r.run in metrics]
    by_channel = [tables.mapping(metrics[r.run].get(r.method)) for r in entries]
    lines = [line for c in range(len(CHANNELS)) if (line := _channel_line(c, entries, by_channel))]
    return ChannelTable([r.label for r in entries], lines) if lines else None


def _channel_line(
    c: int, entries: Sequence[tables.Entry], metrics: Sequence[Mapping[str, Any]]
) -> tuple[str, str, list[tuple[str, str, bool]]] | None:
    channel, scope = CHANNELS[c], f"channel_{c}"
    skills = [r.skill(scope) for r in entries]
    if all(s is None for s in skills):
        return None
    values = [tables.value_of(s) for s in skills if s is not None]
    metric, factor = ("mae", channel.display_scale) if channel.is_continuous else ("auroc", 1.0)
    unit = f"error, {forecasts.hourly_unit(channel)}" if channel.is_continuous else "AUROC"
    cells = []
    for entry, score, found in zip(entries, skills, metrics, strict=True):
        raw = tables.mapping(found.get(f"ch_{c}")).get(metric)
        value = tables.number(float(factor * raw)) if isinstance(raw, int | float) else "–"
        skill = "" if score is None else f"{tables.percent(tables.value_of(score))} %"
        best = score is not None and tables.value_of(score) == max(values) >= 0
        cells.append((value, "reference" if entry.is_baseline else skill, best))
    return words.readable(channel.name), unit, cells
