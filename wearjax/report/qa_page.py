"""The report of WearableQA runs: accuracy by kind of question, letters, baselines, and runs side by side."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from wearjax import plural
from wearjax.benchmarks.wearableqa import analysis, comparison, results
from wearjax.benchmarks.wearableqa.analysis import Accuracy, Paired
from wearjax.benchmarks.wearableqa.comparison import Comparison, Difference
from wearjax.benchmarks.wearableqa.results import QAResults, percent, points
from wearjax.errors import WearjaxError
from wearjax.report import drawing, page_file, words

_TEMPLATES = Path(__file__).parent / "templates"
_CHANCE = 1 / len(analysis.LETTERS)
_HEADINGS = {
    "type": "Type", "group": "Reasoning", "signal": "Signals", "grounding": "Grounding", "scope": "Scope",
}  # fmt: skip
_EXAMPLES = 6
_REPLY = 1500  # characters of an example
is_run = results.is_run


@dataclass(frozen=True)
class Part:
    """One run's section of the page."""

    title: str
    anchor: str
    sentence: str
    warning: str
    figure: Markup
    tables: list[tuple[str, list[tuple[str, ...]]]]
    baselines: list[tuple[str, ...]]
    letters: str
    letter_figure: Markup | None
    gap: str
    examples: list[tuple[str, str, str, str]]
    counts: list[tuple[str, str]]
    config: list[tuple[str, str]]


def write(
    folders: Sequence[str | os.PathLike] | str | os.PathLike,
    out: str | os.PathLike | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """Writes the page of one run, or of several with their comparison.

    Args:
        out: the HTML file, or a folder for `report.html`; default is the first run folder.
        overwrite: replace `out` whatever it is, not an earlier page only.

    Raises:
        WearjaxError: results that cannot be read or compared, or a page that cannot be written.
    """
    given = [folders] if isinstance(folders, str | os.PathLike) else list(folders)
    if not given:
        raise WearjaxError("no run folder given")
    target = page_file.place(Path(given[0]), out, kind="questions", overwrite=overwrite)
    runs = [results.read(folder) for folder in given]
    together = comparison.compare(runs) if len(runs) > 1 else None
    return page_file.write(_render(runs, together), target)


def _render(runs: list[QAResults], together: Comparison | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    parts = [_part(run, f"r{i}") for i, run in enumerate(runs)]
    several = len(runs) > 1
    return environment.get_template("qa.html.j2").render(
        title="WearableQA: " + (f"{len(runs)} runs" if several else parts[0].title),
        sentence=_together(runs) if several else parts[0].sentence,
        parts=parts,
        runs=[_accuracy_row(run.title, run.overall) for run in runs] if several else [],
        formats=_formats(together),
        differences=_differences(together),
    )


def _together(runs: list[QAResults]) -> str:
    best = max(runs, key=lambda run: run.overall.accuracy)
    return f"Of {len(runs)} runs, {words.plain(best.title)} has most answers right: {percent(best.overall.accuracy)}."


def _part(run: QAResults, name: str) -> Part:
    total = run.overall
    warning = ""
    if total.failed:
        warning = (
            f"{total.failed:,} of {total.n:,} {plural.noun(total.n, 'question')} got no reply and "
            f"{plural.noun(total.failed, 'counts', 'count')} as wrong."
        )
    elif total.n and total.unparsed / total.n > 0.05:
        warning = (
            f"{total.unparsed:,} of {total.n:,} {plural.noun(total.n, 'reply', 'replies')} named no option and "
            f"{plural.noun(total.unparsed, 'counts', 'count')} as wrong."
        )
    spread = run.positions
    letters = "No reply named an option."
    if spread.n:
        letters = (
            f"{spread.largest} is chosen most often, in {percent(spread.largest_share)} of {spread.n:,} readable "
            f"replies. Entropy {spread.entropy_bits:.2f} of {math.log2(len(analysis.LETTERS)):.2f} bits; "
            f"{spread.against_gold}."
        )
    return Part(
        title=words.plain(run.title),
        anchor=name,
        sentence=f"{percent(total.accuracy)} of {total.n:,} {plural.noun(total.n, 'question')} answered rightly, "
        f"95 % interval "
        f"{percent(total.low)} to {percent(total.high)}; chance is {percent(_CHANCE)}.",
        warning=warning,
        figure=_bars(run, name),
        tables=[
            (heading, [_accuracy_row(words.readable(a.value), a) for a in run.of(axis)])
            for axis, heading in _HEADINGS.items()
        ],
        baselines=[_accuracy_row(words.readable(n), found[0]) for n, found in run.baselines.items()],
        letters=letters,
        letter_figure=_letters(run, name) if spread.n else None,
        gap=_gap(run),
        examples=_examples(run),
        counts=_flat(run.counts),
        # The yields of the gates are told where questions are built.
        config=_flat(
            run.config | {"dataset": {k: v for k, v in run.config["dataset"].items() if k != "yields"}}
        ),
    )


def _accuracy_row(name: str, a: Accuracy) -> tuple[str, ...]:
    interval = "–" if math.isnan(a.low) else f"{100 * a.low:.1f} to {100 * a.high:.1f} %"
    return (words.plain(name), f"{a.n:,}", percent(a.accuracy), interval, f"{a.unparsed:,}")


def _gap(run: QAResults) -> str:
    gap = run.gap
    if gap is None:
        return "There are not both kinds of pairs among the questions of a strong relation."
    matched = "no decile of |ρ| has both"
    if gap.deciles:
        matched = f"matched on |ρ| {points(gap.matched)} ({points(gap.low)} to {points(gap.high)})"
    return (
        f"Pairs tied by definition: {percent(gap.definitional.accuracy)} of {gap.definitional.n:,}; empirical pairs: "
        f"{percent(gap.empirical.accuracy)} of {gap.empirical.n:,}; difference {points(gap.difference)}, {matched}."
    )


def _examples(run: QAResults) -> list[tuple[str, str, str, str]]:
    """Of each group and outcome the first reply: which question, what was right, what was chosen, the reply."""
    found: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    for answer, response in zip(run.answers, run.responses, strict=False):
        outcome = "right" if answer.correct else "wrong" if answer.letter else response.outcome
        key = (answer.reasoning_group, outcome)
        if key in found:
            continue
        text = response.error or response.text
        shown = text if len(text) <= _REPLY else f"[…] {text[-_REPLY:]}"
        found[key] = (
            f"{words.readable(answer.category)}: {outcome}",
            answer.gold,
            answer.letter or "none",
            shown,
        )
    return list(found.values())[:_EXAMPLES]


def _formats(together: Comparison | None) -> list[tuple[str, list[tuple[str, ...]]]]:
    if together is None:
        return []
    return [
        (words.plain(name), [_accuracy_row(form, a) for form, a in each.items()])
        for name, each in together.formats.items()
    ]


def _differences(
    together: Comparison | None,
) -> list[tuple[str, tuple[str, str], list[tuple[str, list[tuple[str, ...]]]]]]:
    if together is None:
        return []
    return [
        (heading, (first.capitalize(), second.capitalize()), [_difference(each) for each in found])
        for heading, (first, second), found in together.differences()
    ]


def _difference(each: Difference) -> tuple[str, list[tuple[str, ...]]]:
    return f"{words.plain(each.second)} minus {words.plain(each.first)}", [
        _paired_row(row) for row in each.rows
    ]


def _paired_row(row: Paired) -> tuple[str, ...]:
    interval = "–" if math.isnan(row.low) else f"{100 * row.low:+.1f} to {100 * row.high:+.1f}"
    name = "All" if row.axis == "all" else words.readable(row.value)
    shares = percent(row.first), percent(row.second), points(row.difference)
    return (name, f"{row.n:,}", *shares, interval, f"{row.p:.3g}")


def _bars(run: QAResults, name: str) -> Markup:
    """Accuracy of every type with its interval, against chance."""
    found = run.of("type")[::-1]
    values = np.array([a.accuracy for a in found])
    spread = np.array([[a.accuracy - a.low, a.high - a.accuracy] for a in found]).T
    groups = {a.category: a.reasoning_group for a in run.answers}
    colours = [words.WHEEL[0] if groups[a.value] == "data" else words.WHEEL[1] for a in found]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.barh(range(len(found)), 100 * values, color=colours, height=0.7)
        axes.errorbar(
            100 * values, range(len(found)), xerr=100 * np.maximum(spread, 0), fmt="none",
            ecolor=words.OBSERVED_COLOUR, elinewidth=0.8, capsize=2,
        )  # fmt: skip
        axes.axvline(100 * _CHANCE, color="#888888", linewidth=0.8, linestyle="--")
        axes.set_yticks(range(len(found)), [f"{words.readable(a.value)} ({a.n:,})" for a in found])
        axes.set_xlim(0, 100)
        axes.set_xlabel("right answers, %; dashed: chance")

    label = "Share of right answers of each question type: " + ", ".join(
        f"{words.readable(a.value)} {percent(a.accuracy)}" for a in run.of("type")
    )
    size = (drawing.WIDTH, 0.24 * len(found) + 0.8)
    return Markup(drawing.svg(draw, size=size, name=f"{name}-types", label=label))


def _letters(run: QAResults, name: str) -> Markup:
    spread = run.positions
    letters = list(spread.shares)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        at = np.arange(len(letters))
        for i, (label, values, colour) in enumerate(
            (
                ("chosen", spread.shares, words.WHEEL[0]),
                ("right answer", spread.gold, "#999999"),
                ("right where it stands there", spread.accuracy, words.WHEEL[2]),
            )
        ):
            heights = [0.0 if math.isnan(values[c]) else 100 * values[c] for c in letters]
            axes.bar(at + 0.27 * (i - 1), heights, width=0.25, color=colour, label=label)
        axes.set_xticks(at, letters)
        axes.set_ylabel("%")
        axes.legend(loc="upper right", ncols=3)

    told = ", ".join(f"{c} {percent(v)}" for c, v in spread.shares.items())
    label = f"Share of each letter among the replies: {told}"
    return Markup(drawing.svg(draw, size=(drawing.WIDTH, 2.0), name=f"{name}-letters", label=label))


def _flat(content: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Names joined by dots, values as text."""
    if isinstance(content, dict):
        return [
            row
            for key, value in content.items()
            for row in _flat(value, f"{prefix}.{key}" if prefix else str(key))
        ]
    return [(prefix, words.plain(content))]
