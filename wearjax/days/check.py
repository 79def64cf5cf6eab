"""Reads a whole store and says what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wearjax.channels import CHANNELS
from wearjax.days import clean
from wearjax.days.store import Days, DayStore
from wearjax.sources import fitbit, minute_grid


@dataclass(frozen=True)
class Checked:
    """Rows for a table, and one sentence for each thing that is wrong."""

    rows: list[dict]
    problems: list[str]


def check_days(days: Days, *, progress: Callable[[int, int], None] | None = None) -> Checked:
    """Checks every day: finite or missing, inside the plausible range of its channel, flags 0 or 1."""
    n, known_as = len(CHANNELS), _known_as(days)
    measured, outside, unmeasured = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
    for i in range(len(days)):
        values = days.values(i)
        known = ~np.isnan(values)
        measured += known.sum(axis=1)
        outside += clean.implausible(values).sum(axis=1)
        unmeasured += not known.any()
        if progress:
            progress(i + 1, len(days))
    minutes = len(days) * days.values(0).shape[1] if len(days) else 0
    rows = [
        {
            "channel": c.name,
            "unit": c.unit,
            known_as: f"{measured[i] / max(minutes, 1):.1%}",
            "implausible": int(outside[i]),
        }
        for i, c in enumerate(CHANNELS)
    ]
    problems = [
        f"{int(outside[i])} implausible values of {c.name} (expected {c.plausible[0]:g}..{c.plausible[1]:g} {c.unit})"
        for i, c in enumerate(CHANNELS)
        if outside[i]
    ]
    if isinstance(days, DayStore):
        problems += [f"{file.name}: not the bytes that were written" for file in days.damaged()]
    rows.append(
        {
            "channel": "days without any measured cell",
            "unit": "",
            known_as: int(unmeasured),
            "implausible": "",
        }
    )
    return Checked(rows, problems)


def _known_as(days: Days) -> str:
    """What a value of these days is, see `minute_grid.known_as`."""
    return minute_grid.known_as(
        getattr(days, "meta", {}).get("provenance", {}).get("import", {}).get("notes")
    )


def compare_daily_steps(days: Days, export: str | os.PathLike) -> Checked:
    """Compares the step total of each imported day with the export's own daily table."""
    found = fitbit.check_daily_totals(export, days)
    rows = [{"days": name, "count": count} for name, count in found.items()]
    wrong = found.get("different", 0)
    return Checked(rows, [f"{wrong} complete days differ from the export's own daily total"] if wrong else [])
