"""Figures of scores, coverage and training, as inline SVG."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wearjax.channels import CHANNELS
from wearjax.report import drawing, tables, words
from wearjax.report.run_folder import RunFolder

_SKILL_FLOOR = 0.5  # bars below −50 %, or below minus the best skill, are cut and carry their number


def scenario_bars(
    rows: Sequence[tables.Entry], scopes: Sequence[str], colours: Mapping[str, str], *, baseline: str
) -> str:
    """One panel a scope, one bar a method: skill in percent with its 95 % interval."""
    columns = min(3, len(scopes))
    lines = -(-len(scopes) // columns)
    height = lines * (0.55 + 0.24 * len(rows)) + 0.25

    def draw(figure: Any) -> None:
        axes = figure.subplots(lines, columns, sharey=True, sharex=True, squeeze=False).ravel()
        values = [v for r in rows for s in scopes for v in _skill_numbers(r, s)]
        high = max([0.05, *values])
        low = max(-max(_SKILL_FLOOR, high), min([0.0, *values]))
        room = 0.34 * (high - low)  # for the numbers at the bars' ends
        for ax, scope in zip(axes, scopes, strict=False):
            ax.set_title(words.scope(scope))
            ax.axvline(0, color="#444444", linewidth=0.7, zorder=3)
            ax.grid(axis="x", zorder=0)
            for y, entry in enumerate(rows):
                _bar(ax, y, entry, scope, colours[entry.label], low)
            ax.set_xlim(100 * (low - (room if low < 0 else 0)), 100 * (high + room))
            ax.tick_params(axis="y", length=0)
        axes[0].set_yticks(range(len(rows)), [words.short(r.label, 28) for r in rows])
        axes[0].set_ylim(len(rows) - 0.4, -0.6)
        for ax in axes[len(scopes) :]:
            ax.set_visible(False)
        figure.supxlabel(
            f"skill: % less error than {words.plain(baseline, 40)} (higher is better)", fontsize=8
        )

    label = "Skill of each method by scenario; the numbers stand in the skill table"
    return drawing.svg(draw, size=(drawing.WIDTH, height), name="bars", label=label)


def _skill_numbers(entry: tables.Entry, scope: str) -> list[float]:
    score = entry.skill(scope)
    if score is None:
        return []
    return [v for v in (tables.value_of(score), score.ci_lo, score.ci_hi) if np.isfinite(v)]


def _bar(ax: Any, y: int, entry: tables.Entry, scope: str, colour: str, low: float) -> None:
    score = entry.skill(scope)
    value = np.nan if score is None else tables.value_of(score)
    if entry.is_baseline or score is None or not np.isfinite(value):
        _number(ax, 0, y, "reference" if entry.is_baseline else "–", colour="#666666")
        return
    ends = [value]
    ax.barh(y, 100 * max(value, low), height=0.62, color=colour, zorder=2)
    if np.isfinite(score.ci_lo) and np.isfinite(score.ci_hi) and score.ci_hi > low:
        ends += [max(score.ci_lo, low), score.ci_hi]
        ax.plot([100 * e for e in ends[1:]], [y, y], color="#111111", linewidth=0.9, zorder=4)
        for end in (score.ci_lo, score.ci_hi):
            if end > low:
                ax.plot(
                    [100 * end, 100 * end], [y - 0.16, y + 0.16], color="#111111", linewidth=0.9, zorder=4
                )
    if value < 0:
        mark = "◂ " if value < low else ""
        _number(ax, 100 * max(min(ends), low), y, f"{mark}{tables.percent(value)}", left=True)
    else:
        _number(ax, 100 * max(ends), y, tables.percent(value))


def _number(ax: Any, x: float, y: int, text: str, *, left: bool = False, colour: str = "#222222") -> None:
    ax.annotate(
        text, (x, y), xytext=(-3 if left else 3, 0), textcoords="offset points",
        ha="right" if left else "left", va="center", fontsize=7, color=colour, zorder=5,
    )  # fmt: skip


def channel_hours(table: Mapping[str, Any], *, name: str) -> str:
    """Heat map: share of measured minutes by channel and hour of day."""
    shares = np.asarray(table["channel_hour"], float)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        image = _heat(ax, shares, extent=(0, 24, len(shares), 0))
        ax.set_yticks(np.arange(len(shares)) + 0.5, [words.readable(c.name) for c in CHANNELS])
        ax.set_xticks(range(0, 25, 3), [f"{h:02d}:00" for h in range(0, 25, 3)])
        ax.tick_params(axis="y", length=0)
        _colourbar(figure, image, ax, "minutes measured")

    return drawing.svg(
        draw, size=(drawing.WIDTH, 3.9), name=name, label="Share of measured minutes by channel and hour"
    )


def participant_days(table: Mapping[str, Any], *, name: str) -> str:
    """Heat map: share of measured cells by participant and calendar day; white = no day."""
    shares = np.asarray(table["participant_day"], float)
    people = [words.short(p, 16) for p in np.asarray(table["participants"]).tolist()]
    first = dt.date.fromisoformat(str(table["first_date"]))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        image = _heat(ax, shares, extent=(0, shares.shape[1], shares.shape[0], 0))
        if len(people) <= 40:
            ax.set_yticks(np.arange(len(people)) + 0.5, people)
        else:
            ax.set_yticks([])
            ax.set_ylabel(f"{len(people)} participants, in order of id")
        step = max(1, shares.shape[1] // 6)
        ticks = range(0, shares.shape[1], step)
        ax.set_xticks([t + 0.5 for t in ticks], [(first + dt.timedelta(days=t)).isoformat() for t in ticks])
        ax.tick_params(axis="y", length=0)
        _colourbar(figure, image, ax, "cells measured")

    height = 1.1 + min(3.8, 0.17 * len(people)) if len(people) <= 40 else 4.6
    return drawing.svg(
        draw, size=(drawing.WIDTH, height), name=name, label="Share of measured cells by participant and day"
    )


def _heat(ax: Any, shares: np.ndarray, *, extent: tuple[float, float, float, float]) -> Any:
    ax.grid(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    if not shares.size:
        shares = np.full((1, 1), np.nan)
    return ax.imshow(
        np.ma.masked_invalid(100 * shares), aspect="auto", interpolation="nearest", cmap="YlGnBu",
        vmin=0, vmax=100, extent=extent,
    )  # fmt: skip


def _colourbar(figure: Any, image: Any, ax: Any, label: str) -> None:
    bar = figure.colorbar(image, ax=ax, pad=0.015, fraction=0.04, aspect=30)
    bar.outline.set_visible(False)
    bar.set_ticks([0, 50, 100], labels=["0 %", "50 %", "100 %"])
    bar.set_label(label)


def loss_curves(runs: Sequence[RunFolder]) -> str:
    """Training and validation loss over steps, a colour a run."""

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        low, high = np.inf, -np.inf
        for run, colour in zip(runs, _run_colours(runs), strict=True):
            prefix = f"{run.name}: " if len(runs) > 1 else ""
            steps, loss = series(run, "loss", "train")
            ax.plot(steps, loss, color=colour, linewidth=0.8, alpha=0.55, label=f"{prefix}train")
            low, high = min([low, *loss]), max([high, *loss])
            steps, loss = series(run, "loss", "validation")
            if len(steps):
                ax.plot(
                    steps,
                    loss,
                    color=colour,
                    linewidth=1.4,
                    marker="o",
                    markersize=3,
                    label=f"{prefix}validation",
                )
                low, high = min([low, *loss]), max([high, *loss])
        if 0 < low < high / 8:
            ax.set_yscale("log")
            _plain_log_ticks(ax)
        ax.set(xlabel="step", ylabel="loss")
        ax.grid(axis="y", which="both")
        ax.set_xlim(left=0)
        ax.legend(ncols=2)

    return drawing.svg(draw, size=(drawing.WIDTH, 2.7), name="loss", label="Loss over training steps")


def _plain_log_ticks(ax: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def throughput(runs: Sequence[RunFolder]) -> str:
    """Days a second, and the share of time spent waiting for data."""

    def draw(figure: Any) -> None:
        speed, wait = figure.subplots(1, 2)
        for run, colour in zip(runs, _run_colours(runs), strict=True):
            steps, rate = series(run, "days_per_second", "train")
            speed.plot(steps, rate, color=colour, linewidth=1.0, label=run.name)
            steps, share = series(run, "data_wait_fraction", "train")
            wait.plot(steps, 100 * share, color=colour, linewidth=1.0)
        speed.set(title="days per second", xlabel="step")
        wait.set(title="time waiting for data (%)", xlabel="step")
        speed.set_ylim(bottom=0)
        wait.set_ylim(0, max(5.0, 1.1 * wait.get_ylim()[1]))
        for ax in (speed, wait):
            ax.set_xlim(left=0)
            ax.grid(axis="y")
        if len(runs) > 1:
            speed.legend()

    return drawing.svg(draw, size=(drawing.WIDTH, 2.0), name="speed", label="Training throughput over steps")


def _run_colours(runs: Sequence[RunFolder]) -> list[str]:
    return [words.WHEEL[i % len(words.WHEEL)] for i in range(len(runs))]


def series(run: RunFolder, key: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one metric; lines without a finite value of it are left out."""
    pairs = [
        (row["step"], row[key])
        for row in run.metrics
        if row.get("split", "train") == split
        and isinstance(row.get(key), int | float)
        and math.isfinite(row[key])
    ]
    steps, values = np.asarray(pairs, float).reshape(-1, 2).T
    return steps, values
