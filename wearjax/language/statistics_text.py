"""A participant's week as a table of figures for models that read."""

from __future__ import annotations

import numpy as np

from wearjax.channels import CHANNELS, CONTINUOUS
from wearjax.language.week import Week, coverage, hourly_unit
from wearjax.language.week_image import shorten

HEADER = "channel | unit | mean | std | min | max | coverage"


def describe(week: Week) -> str:
    """Mean, population standard deviation, minimum and maximum of each channel's measured hours, and coverage.

    Coverage is the share of the 168 hours with a measurement. The mean of a flag is the share of the measured
    hours in which it occurred. A channel without a measurement says so. The benchmark does not say which
    statistics its models were given: these are ours.
    """
    share = coverage(week)
    return "\n".join([HEADER, *(_line(week, i, share[i]) for i in range(len(CHANNELS)))])


def _line(week: Week, channel: int, share: float) -> str:
    name, unit = CHANNELS[channel].name, hourly_unit(CHANNELS[channel])
    values = week.values[:, channel].astype(np.float64)
    measured = values[~np.isnan(values)]
    if not len(measured):
        return f"{name} | {unit} | not measured | | | | 0%"
    figures = [measured.mean(), measured.std(), measured.min(), measured.max()]
    return " | ".join([name, unit, *map(shorten, figures), f"{100 * share:.0f}%"])


def csv(week: Week) -> str:
    """The week's hours as CSV, empty where not measured: `day` 1 to 7, `hour` 0 to 23, one column a channel."""
    names = [channel.name for channel in CHANNELS]
    lines = [",".join(["day", "hour", *names])]
    for hour, row in enumerate(week.values.tolist()):
        cells = ["" if np.isnan(value) else f"{value:.6g}" for value in row]
        lines.append(",".join([str(hour // 24 + 1), str(hour % 24), *cells]))
    return "\n".join(lines) + "\n"


def legend() -> str:
    """What the channels mean, for prompts."""
    lines = [f"- {c.name} ({hourly_unit(c)}): {_meaning(i)}" for i, c in enumerate(CHANNELS)]
    return "\n".join(lines)


_WORDS = {
    "steps": "steps", "distance": "distance walked or run", "flights": "flights of stairs climbed",
    "hr": "heart rate, mean of the hour", "energy": "active energy burned",
}  # fmt: skip


def _meaning(channel: int) -> str:
    described = CHANNELS[channel]
    if channel in CONTINUOUS:
        device = {"iphone": "phone", "watch": "watch"}[described.device or ""]
        return f"{_WORDS[described.name.split('_', 1)[1]]}, from the {device}"
    kind, what = described.name.split("_", 1)
    if kind == "sleep":
        return f"1 in hours with time {'asleep' if what == 'asleep' else 'in bed'}"
    return f"1 in hours with a recorded workout: {what.replace('_', ' ')}"
