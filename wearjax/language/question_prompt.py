"""The prompt of a multiple-choice question about one person's daily record.

Sections stand in the order of WearableQA's public renderer, and what is empty is left out: instruction, profile,
sensor data, blood panel, cohort percentiles, question, options, and the form of the answer. Prompts of the same
question with and without reasoning differ in the last paragraph only. The words are this project's.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from wearjax.biomarkers import BY_KEY as MARKERS
from wearjax.daily_metrics import CORE
from wearjax.errors import ConfigError
from wearjax.language import agent, messages, record_images, record_text
from wearjax.language.messages import Message
from wearjax.language.record_text import Table, number
from wearjax.sources.daily_record import BloodValue, Demographics

Form = Literal["row", "col", "csv", "markdown", "markdown_stats", "image_grid", "image_grouped", "csv_chart"]
Mode = Literal["cot", "direct", "agentic_fixed", "agentic_views"]
Removed = Literal["nothing", "history", "series", "data"]
FORMS: tuple[str, ...] = get_args(Form)
MODES: tuple[str, ...] = get_args(Mode)
REMOVED: tuple[str, ...] = get_args(Removed)
VERSION = 1  # raised with every change of words or layout
FILE = "record.csv"
PERCENTILES = ("min", "p10", "p25", "p50", "p75", "p90", "max")
_NAMES_WINDOW = re.compile(r"\b28[- ]days?\b|\bwindow\b", re.IGNORECASE)
_LAYOUT = {
    "row": "One line a day with what was measured.",
    "col": "One line a metric with the days on which it was measured.",
    "csv": "A table of a row a day, empty where not measured.",
    "markdown": "A table of a row a day, empty where not measured.",
    "markdown_stats": "A table of a row a day, empty where not measured, then a summary of each metric.",
    "image_grid": "The figure has a panel a metric, from the first to the last day.",
    "image_grouped": "The figure has a panel for each group of metrics, from the first to the last day; each metric is "
    "drawn from its lowest value (0) to its highest (1), which the legend tells.",
    "csv_chart": "A table of a row a day, empty where not measured; the figure shows the same, a panel a metric.",
}
_NOTHING_KNOWN = Demographics()
_SHADED = "The latest {window} days are shaded; gaps are days without a measurement. Titles give [lowest - highest]."


@dataclass(frozen=True, eq=False)
class Question:
    """A question and what its prompt may show.

    Attributes:
        table: daily metrics; None, or one without rows, leaves the section out.
        demographics, blood, cohort: empty ones leave their section out; `cohort` has percentiles by metric.
        window: days that the question is about.
    """

    stem: str
    choices: tuple[str, ...]
    table: Table | None = None
    demographics: Demographics = _NOTHING_KNOWN
    blood: Mapping[str, BloodValue] = field(default_factory=dict)
    cohort: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    window: int = 28

    @property
    def letters(self) -> str:
        return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(self.choices)]


@dataclass(frozen=True, eq=False)
class Prompt:
    """What is sent: text, PNG images, and the files of a sandbox, by name."""

    text: str
    letters: str
    images: tuple[bytes, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of everything in it."""
        parts = [
            self.text.encode(),
            *self.images,
            *(f"{k}\n{v}".encode() for k, v in sorted(self.files.items())),
        ]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def messages(self) -> list[Message]:
        return [messages.user(self.text, self.images)]


def check(form: str, mode: str, removed: str) -> None:
    """Raises ConfigError on an unknown format, mode or part to remove, or an agent without data."""
    for name, value, known in (("format", form, FORMS), ("mode", mode, MODES), ("remove", removed, REMOVED)):
        if value not in known:
            raise ConfigError(f"{name} {value!r}: expected one of {', '.join(known)}")
    if mode.startswith("agentic") and removed in ("series", "data"):
        raise ConfigError(f"mode {mode}: has no file to work on where {removed} are removed")


def without(question: Question, removed: Removed) -> Question:
    """The question with less to see: no days before the window, no daily metrics, or nothing but the question."""
    if removed == "nothing":
        return question
    if removed == "history":
        shown = None if question.table is None else question.table.of_window()
        return dataclasses.replace(question, table=shown)
    if removed == "series":
        return dataclasses.replace(question, table=None)
    return Question(question.stem, question.choices, window=question.window)


def build(
    question: Question, *, form: Form = "row", mode: Mode = "cot", runs: int = agent.MAX_RUNS
) -> Prompt:
    """The prompt; the same question gives the same bytes.

    Args:
        form: layout of the daily metrics; the agentic modes have them as files instead.
        mode: with reasoning (`cot`), the letter alone (`direct`), or with Python on a CSV file (`agentic_fixed`) or on
            files of all layouts, to choose from (`agentic_views`).
        runs: of Python.

    Raises:
        ConfigError: an unknown format or mode.
    """
    check(form, mode, "nothing")
    shown = question.table if question.table is not None and len(question.table.dates) else None
    agentic = mode.startswith("agentic") and shown is not None
    files: dict[str, str] = {}
    images: tuple[bytes, ...] = ()
    sensor = ""
    if shown is not None and agentic:
        files = _files(shown, mode)
        sensor = f"{_head(shown)}\n{_told(files)}"
    elif shown is not None:
        sensor, images = _sensor(shown, form)
    sections = {
        "User profile": _profile(question.demographics),
        "Sensor data": sensor,
        "Blood panel": _blood(question.blood),
        "Cohort percentiles": _cohort(question.cohort, question.window),
        "Question": _stem(question),
        "Options": "\n".join(
            f"{a}. {text}" for a, text in zip(question.letters, question.choices, strict=True)
        ),
    }
    present = [name for name, text in sections.items() if text]
    body = [_instruction(present), *(f"## {name}\n{sections[name]}" for name in present)]
    if agentic:
        body.append(agent.INSTRUCTION.format(runs=runs))
    text = "\n\n".join([*body, closing(mode, question.letters)])
    return Prompt(text, question.letters, images, files)


def closing(mode: Mode, letters: str) -> str:
    """The last paragraph: the form of the answer."""
    choice = f"one letter from {letters[0]} to {letters[-1]}"
    if mode == "direct":
        return (
            f"Do not explain. Reply with a single line of exactly this form, with {choice}:\nAnswer: <letter>"
        )
    return (
        f"Reason step by step first. End your reply with a single line of exactly this form, with {choice}:\n"
        "Answer: <letter>"
    )


def _instruction(present: list[str]) -> str:
    named = {
        "User profile": "a profile",
        "Sensor data": "a daily record from a wearable device",
        "Blood panel": "a blood panel",
        "Cohort percentiles": "percentiles of a reference cohort",
    }
    given = [words for section, words in named.items() if section in present]
    if not given:
        return "Answer the multiple-choice question below. Exactly one option is right."
    together = given[0] if len(given) == 1 else f"{', '.join(given[:-1])} and {given[-1]}"
    return (
        f"Below is what is known of one adult: {together}. Answer the multiple-choice question from it. Exactly one "
        "option is right."
    )


def _profile(known: Demographics) -> str:
    lines = []
    for label, value, band in (
        ("Age", known.age, known.age_band),
        ("Sex", known.sex, None),
        ("BMI", known.bmi, known.bmi_band),
        ("Ethnicity", known.ethnicity, None),
    ):
        if value is not None:
            lines.append(f"{label}: {number(value) if isinstance(value, int | float) else value}")
        elif band:
            lines.append(f"{label}: {band}")
    return "\n".join(lines)


def _head(shown: Table) -> str:
    days = f"{record_text.date(shown.dates[0])} to {record_text.date(shown.dates[-1])}"
    return f"Daily metrics, {days}; a day that is not there has no measurement.\n{record_text.legend(shown.keys)}"


def _sensor(shown: Table, form: Form) -> tuple[str, tuple[bytes, ...]]:
    head = f"{_head(shown)}\n{_LAYOUT[form]}"
    if form == "image_grid":
        return f"{head} {_SHADED.format(window=shown.window)}", (record_images.image_grid(shown),)
    if form == "image_grouped":
        return f"{head} {_SHADED.format(window=shown.window)}", (record_images.image_grouped(shown),)
    if form == "csv_chart":
        text = f"{head} {_SHADED.format(window=shown.window)}\n\n{record_text.csv(shown)}"
        return text, (record_images.image_grid(shown),)
    return f"{head}\n\n{getattr(record_text, form)(shown)}", ()


def _files(shown: Table, mode: Mode) -> dict[str, str]:
    files = {FILE: record_text.csv(shown) + "\n"}
    if mode == "agentic_views":
        window = shown.of_window()
        files |= {
            "window.csv": record_text.csv(window) + "\n",
            "rows.txt": record_text.row(shown) + "\n",
            "columns.txt": record_text.col(shown) + "\n",
            "table.md": record_text.markdown(shown) + "\n",
            "statistics.md": record_text.summary(shown) + "\n",
        }
    return files


_MEANING = {
    FILE: "a table of a row a day, with the columns date and the labels above, empty where not measured",
    "window.csv": "the same of the latest days that the question is about",
    "rows.txt": "a line a day with what was measured",
    "columns.txt": "a line a metric with the days on which it was measured",
    "table.md": "all days as a Markdown table",
    "statistics.md": "count, mean, spread, extremes and slope of each metric, and the latest days against those before",
}


def _told(files: Mapping[str, str]) -> str:
    if len(files) == 1:
        return f"The metrics are in the file {FILE} of the working folder: {_MEANING[FILE]}."
    lines = [f"- {name}: {_MEANING[name]}" for name in files]
    return "\n".join(
        [
            "The metrics are in files of the working folder. Choose the views that you need and print them:",
            *lines,
        ]
    )


def _blood(blood: Mapping[str, BloodValue]) -> str:
    order = [*(key for key in MARKERS if key in blood), *sorted(key for key in blood if key not in MARKERS)]
    lines = []
    for key in order:
        value, marker = blood[key], MARKERS.get(key)
        unit = value.unit or (marker.unit if marker else "")
        when = f" ({value.date.isoformat()})" if value.date else ""
        lines.append(f"{marker.label if marker else key}: {number(value.value)} {unit}".rstrip() + when)
    return "\n".join(lines)


def _cohort(cohort: Mapping[str, Mapping[str, float]], window: int) -> str:
    lines = []
    for key in CORE:
        known = cohort.get(key, {})
        there = [name for name in PERCENTILES if math.isfinite(known.get(name, math.nan))]
        cells = [f"{name} {number(known[name])}" for name in there]
        if cells:
            lines.append(f"{record_text.named(key)}: {', '.join(cells)}")
    return "\n".join([f"Of {window}-day means in a reference cohort:", *lines]) if lines else ""


def _stem(question: Question) -> str:
    if _NAMES_WINDOW.search(question.stem):
        return question.stem
    return f"This question is about the latest {question.window} days. {question.stem}"
