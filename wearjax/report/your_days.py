"""The page of one person's days: coverage calendar, filled days with intervals, resting heart rate, steps and sleep.

It reads what `wearjax impute` leaves in the run folder, and is one file without scripts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from jaxtyping import Bool, Float32
from markupsafe import Markup

from wearjax import plural
from wearjax.channels import CHANNELS, N_CHANNELS
from wearjax.predict import fill, hidden_errors
from wearjax.predict.hidden_errors import HiddenErrors
from wearjax.report import (
    calendar_figure,
    day_figure,
    gallery,
    import_table,
    page_file,
    person_figures,
    run_folder,
    words,
)
from wearjax.report.run_folder import Gallery, RunFolder
from wearjax.segments import gaps, person_days
from wearjax.segments.person_days import PersonDays

NAME = "your_days.html"
DAYS_FILE, ERRORS_FILE = "predictions/person_days.npz", "predictions/hidden_errors.npz"
PEOPLE_MAX = 3
_HALF_YEARS_MAX, _EXAMPLES = 10, 6
_COLOUR = "#0072B2"
_GAPS = ("up to 15 min", "16 min to 1 h", "1 to 4 h", "over 4 h", "a whole day")
_TEMPLATES = Path(__file__).parent / "templates"
_CALENDARS = (
    ("worn_hours", "Worn", "worn", "Hours of the day in which phone or watch left a sign."),
    ("watch_hours", "Watch", "with the watch", "Clock hours with a heart rate or movement from the watch."),
    ("phone_hours", "Phone", "with the phone", "Clock hours with movement from the phone."),
)


@dataclass(frozen=True)
class Calendar:
    """One device's calendar."""

    title: str
    meaning: str
    blocks: list[tuple[str, Markup]]
    left_out: int


@dataclass(frozen=True)
class Person:
    """One participant, ready for the template."""

    name: str
    sentences: list[str]
    calendars: list[Calendar]
    heart: Markup | None
    activity: Markup | None
    sleep: Markup | None


def is_run(folder: str | os.PathLike) -> bool:
    """Whether a run folder holds what the page is made of."""
    return (Path(folder) / DAYS_FILE).is_file()


def write(
    folder: str | os.PathLike, out: str | os.PathLike | None = None, *, overwrite: bool = False
) -> Path:
    """Writes the page of a run folder of `wearjax impute`; the same folder gives the same bytes.

    Args:
        out: the HTML file; default `your_days.html` in the folder.
        overwrite: replace `out` whatever it is, not an earlier page only.

    Raises:
        WearjaxError: a folder without the table of days, a file that cannot be read, or a page that cannot be written.
    """
    folder = Path(folder)
    target = (
        folder / NAME if out is None else page_file.place(folder, out, kind="your days", overwrite=overwrite)
    )
    html = render(
        run_folder.read(folder),
        person_days.load(folder / DAYS_FILE),
        hidden_errors.load(folder / ERRORS_FILE) if (folder / ERRORS_FILE).is_file() else None,
    )
    return page_file.write(html, target)


def render(run: RunFolder, days: PersonDays, errors: HiddenErrors | None) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    names = list(dict.fromkeys(days.participant.tolist()))
    return environment.get_template("your_days.html.j2").render(
        title="Your days" if len(names) == 1 else f"Days of {len(names):,} people",
        people=[_person(days.of(name), number) for number, name in enumerate(names[:PEOPLE_MAX])],
        left_out=max(len(names) - PEOPLE_MAX, 0),
        legend=list(zip(calendar_figure.CLASSES, calendar_figure.COLOURS, strict=True)),
        examples=_examples(run, errors),
        never=_never(run, errors),
        errors=None if errors is None else _error_rows(errors),
        compared=None if errors is None else (int(errors.days.max()), f"{int(errors.minutes.sum()):,}"),
        share=f"{hidden_errors.SHARE:.0%}",
        gaps=_GAPS,
        observed=words.OBSERVED_COLOUR,
        colour=_COLOUR,
        shade=words.SHADE_COLOUR,
        method=words.plain(run.results.get("method", "the model"), 60),
        known_as=import_table.known_as(run),
        filler=fill.filled_by(run.config),
        imported=import_table.import_counts(run),
    )


def _person(days: PersonDays, number: int) -> Person:
    calendars = []
    for column, title, what, meaning in _CALENDARS:
        blocks = calendar_figure.half_years(days.date, getattr(days, column), what=what)
        shown = [(block.title, Markup(block.svg)) for block in blocks[-_HALF_YEARS_MAX:]]
        if column == "worn_hours" or np.nansum(getattr(days, column)) > 0:
            calendars.append(Calendar(title, meaning, shown, len(blocks) - len(shown)))
    return Person(
        words.plain(days.participant[0], 60), _sentences(days), calendars,
        _drawn(person_figures.resting_heart_rate(days, name=f"heart{number}")),
        _drawn(person_figures.bars(days, "steps", name=f"steps{number}")),
        _drawn(person_figures.bars(days, "sleep_hours", name=f"sleep{number}")),
    )  # fmt: skip


def _drawn(svg: str | None) -> Markup | None:
    return None if svg is None else Markup(svg)


def _sentences(days: PersonDays) -> list[str]:
    first, last = int(days.date.min()), int(days.date.max())
    span = last - first + 1
    iso = [str(np.datetime64(d, "D")) for d in (first, last)]
    said = [
        f"{len(days.date):,} recorded {plural.noun(len(days.date), 'day')} from {iso[0]} to {iso[1]}: "
        f"{len(days.date) / span:.0%} of the {span:,} {plural.noun(span, 'day')} between. On "
        f"the middle one of them something was recorded in {np.nanmedian(days.worn_hours):.0f} of 24 hours."
    ]
    facts = []
    if np.isfinite(days.resting_heart_rate).any():
        facts.append(f"resting heart rate {np.nanmedian(days.resting_heart_rate):.0f} bpm")
    if np.isfinite(days.steps).any():
        facts.append(f"{np.nanmedian(days.steps):,.0f} steps")
    if np.isfinite(days.sleep_hours).any():
        facts.append(f"{np.nanmedian(days.sleep_hours):.1f} hours asleep")
    if facts:
        said.append("Middle (median) day: " + ", ".join(facts) + ".")
    return said


def _examples(run: RunFolder, errors: HiddenErrors | None) -> list[dict[str, Any]]:
    days = run.gallery
    if days is None or not len(days) or not days.imputed:
        return []
    method = next(iter(days.imputed))
    ever = recorded_channels(days, errors)
    found = []
    for position in gallery.choose_days(days, _EXAMPLES):
        filled = days.imputed[method][position]
        channels = shown_channels(days.values[position], days.target[position], filled, ever)
        bands = {} if errors is None else {method: band(days, position, method, errors)}
        svg = day_figure.draw(
            days,
            position,
            channels,
            [method],
            {method: _COLOUR},
            filled=True,
            name=f"day{position}",
            bands=bands,
        )
        measured = ~np.isnan(days.values[position])
        found.append(
            {
                "date": days.date[position], "participant": days.participant[position], "svg": Markup(svg),
                "measured": f"{measured.mean():.0%}",
            }
        )  # fmt: skip
    return found


def shown_channels(
    values: Float32[np.ndarray, "channel=19 minute=1440"],
    target: Bool[np.ndarray, "channel=19 minute=1440"],
    filled: Float32[np.ndarray, "channel=19 minute=1440"],
    ever: Bool[np.ndarray, "channel=19"],
) -> list[int]:
    """Channels worth a panel, of those that the person records: filled quantities, and what is not zero all day."""
    quantity = np.array([channel.is_continuous for channel in CHANNELS])
    something = (np.nan_to_num(filled) != 0).any(axis=1) | (np.nan_to_num(values) != 0).any(axis=1)
    worth = ever & (something | (quantity & target.any(axis=1)))
    kept = np.where(worth[:, None], values, np.nan)
    chosen = [c for c in gallery.choose_channels(kept, target & worth[:, None]) if worth[c]]
    return chosen or np.flatnonzero(ever).tolist()[:1]


def recorded_channels(days: Gallery, errors: HiddenErrors | None) -> Bool[np.ndarray, "channel=19"]:
    """Channels that the person has recorded: a model's guess at all others rests on other people alone."""
    ever = ~np.isnan(days.values).all(axis=(0, 2))
    return ever if errors is None else ever | (errors.minutes > 0).any(axis=1)


def band(
    days: Gallery, position: int, method: str, errors: HiddenErrors
) -> Float32[np.ndarray, "2 channel=19 minute=1440"]:
    """Lower and upper end of the interval around filled minutes, in stored units; NaN where there is none.

    An error is what was filled less what was measured, so the interval of what would have been measured lies at the
    filled value less the errors' quantiles; it is cut to what the channel can hold.
    """
    target = days.target[position]
    lengths = gaps.run_lengths(target)
    ends = np.full((2, N_CHANNELS, target.shape[1]), np.nan, np.float32)
    for c, channel in enumerate(CHANNELS):
        if not channel.is_continuous:
            continue
        kind = hidden_errors.gap_class(lengths[c])
        filled = days.imputed[method][position, c]
        for end, quantile in enumerate((errors.high[c], errors.low[c])):
            inside = np.clip(filled - quantile[kind], *channel.plausible)
            ends[end, c] = np.where(target[c], inside, np.nan)
    return ends


def _never(run: RunFolder, errors: HiddenErrors | None) -> list[str]:
    if run.gallery is None or not len(run.gallery):
        return []
    ever = recorded_channels(run.gallery, errors)
    return [words.readable(channel.name) for channel, known in zip(CHANNELS, ever, strict=True) if not known]


def _error_rows(errors: HiddenErrors) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Channel, unit, and of each class of gap the interval (or agreement) and what it rests on."""
    rows = []
    for c, channel in enumerate(CHANNELS):
        if not errors.minutes[c].any():
            continue
        rows.append(
            (words.readable(channel.name), channel.display_unit if channel.is_continuous else "yes or no",
             [_error_cell(errors, c, g, channel.display_scale) for g in range(errors.low.shape[1])])
        )  # fmt: skip
    return rows


def _error_cell(errors: HiddenErrors, c: int, g: int, scale: float) -> tuple[str, str]:
    basis = f"{errors.minutes[c, g]:,} min, {errors.days[c, g]} d"
    if np.isfinite(errors.agreement[c, g]):
        return f"{errors.agreement[c, g]:.0%} right", basis
    if np.isfinite(errors.low[c, g]):
        low, high = -errors.high[c, g] * scale, -errors.low[c, g] * scale
        return f"{_signed(low)} to {_signed(high)}", f"{errors.inside[c, g]:.0%} inside; {basis}"
    return "–", basis if errors.minutes[c, g] else ""


def _signed(value: float) -> str:
    text = f"{abs(value):.0f}" if abs(value) >= 10 else f"{abs(value):.2g}"
    return f"{'−' if value < 0 else '+'}{text}" if float(text) else "0"
