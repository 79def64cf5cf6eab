"""The report: one self-contained HTML page for run folders, and for leaderboard packets."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from wearjax import plural
from wearjax.errors import WearjaxError
from wearjax.report import (
    day_figure,
    figures,
    forecast_section,
    gallery,
    import_table,
    leaderboard,
    page_file,
    qa_page,
    run_folder,
    summary,
    tables,
    vital_page,
    words,
)
from wearjax.report.run_folder import RunFolder

GALLERY_DAYS = 6
_GALLERY_BYTES = 2_000_000  # days beyond are left out, and the page says so
_COVERAGE_RUNS_MAX = 4
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class GallerySection:
    """Example days of one run, ready for the template."""

    run: str
    filled: bool
    methods: list[tuple[str, str]]
    days: list[dict[str, Any]]
    n_days: int
    limited: bool
    known_as: str


@dataclass(frozen=True)
class CoverageSection:
    """Coverage maps of one or several runs that saw the same days."""

    runs: list[str]
    channel_hours: Markup
    participant_days: Markup
    known_as: str
    facts: list[str] = field(default_factory=list)


def write_report(
    run_dirs: str | os.PathLike | Sequence[str | os.PathLike],
    out: str | os.PathLike | None = None,
    *,
    overwrite: bool = False,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Writes the report of one run folder, or of several side by side; packets give a leaderboard.

    The page needs no other file and no network. The same run folders give the same bytes (with the same
    matplotlib). Files that a run does not have are named in their section instead of failing.

    Args:
        run_dirs: one run folder or several, and leaderboard packets (their tables, or folders of them). Packets
            and runs that hold errors of each participant are scored together into one table a track.
        out: the HTML file, or a folder for `report.html`; default `report.html` in the first run folder, or
            beside the first packet.
        overwrite: replace `out` whatever it is, not an earlier page only.
        say: told what the page says of the leaderboard, e.g. methods that may not compare.

    Returns:
        The written file.

    Raises:
        WearjaxError: no run folder given, none of the known files in one, a file that cannot be read, a
            packet that is not valid, or a file at `out` that is no page of this library.
    """
    paths = [run_dirs] if isinstance(run_dirs, str | os.PathLike) else list(run_dirs)
    if not paths:
        raise WearjaxError("report: no run folder given")
    vital = [path for path in paths if vital_page.is_run(path)]
    if vital:
        if len(paths) > 1:
            raise WearjaxError(f"{vital[0]}: a VitalBench run has a page of its own; give it alone")
        return vital_page.write(vital[0], out, overwrite=overwrite)
    if any(qa_page.is_run(path) for path in paths):
        return qa_page.write([Path(path) for path in paths], out, overwrite=overwrite)
    first = Path(paths[0])
    target = page_file.place(first.parent if first.is_file() else first, out, overwrite=overwrite)
    folders, packets = leaderboard.separate(paths)
    runs = [run_folder.read(folder, name=name) for folder, name in zip(folders, _names(folders), strict=True)]
    boards = leaderboard.boards(folders, packets)
    if say is not None:
        for note in leaderboard.notes(boards):
            say(note)
    return page_file.write(render(runs, boards), target)


def _names(folders: Sequence[str | os.PathLike]) -> list[str]:
    """Unique short names: the folder's own; equal ones take their parent's name, then a number, along."""
    paths = [Path(folder).resolve() for folder in folders]
    names = [words.plain(p.name, 60) for p in paths]
    if len(set(names)) < len(names):
        names = [words.plain(f"{p.parent.name}/{p.name}", 60) for p in paths]
    seen: collections.Counter[str] = collections.Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def render(runs: Sequence[RunFolder], boards: Sequence[leaderboard.Board] = ()) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rows = tables.entries(runs)
    palette = _palette(runs, rows)
    only_filled = bool(runs) and all(r.is_imputation_of_recordings for r in runs)
    only_prediction = bool(runs) and all(r.is_prediction for r in runs)
    only_forecasting = bool(runs) and all(r.is_forecasting for r in runs)
    training = [r for r in runs if r.metrics]
    return environment.get_template("report.html.j2").render(
        title=summary.title(runs) if runs else leaderboard.title(boards),
        sentences=summary.sentences(runs, rows) if runs else [],
        boards=boards,
        facts=summary.facts(runs[0]) if len(runs) == 1 else [],
        disagreements=summary.disagreements(runs),
        notes=summary.notes(runs),
        runs=runs,
        only_filled=only_filled,
        only_prediction=only_prediction,
        only_forecasting=only_forecasting,
        mixed_tracks=any(r.is_prediction or r.is_forecasting for r in runs),
        channel_table=forecast_section.channel_table(runs, rows),
        window_sections=forecast_section.window_sections(runs, rows, palette),
        counted=[(r, counted) for r in runs if (counted := tables.counted(r))],
        skill=_skill(runs, rows, palette),
        bars=_bars(runs, rows, palette),
        scenario_counts=_scenario_counts(runs),
        observed_colour=words.OBSERVED_COLOUR,
        shade_colour=words.SHADE_COLOUR,
        galleries=_galleries(runs, rows, palette),
        coverages=_coverages(runs),
        training=_training(training),
        untrained=[r for r in runs if not r.metrics and not r.is_imputation_of_recordings],
        methods=tables.methods_table(runs),
        skipped=[(r, tables.skipped(r)) for r in runs],
        filled=[(r, tables.filled_cells(r)) for r in runs],
        imports=[(r, counts) for r in runs if (counts := import_table.import_counts(r)) is not None],
        settings=[_settings(r) for r in runs],
    )


def _palette(runs: Sequence[RunFolder], rows: Sequence[tables.Entry]) -> dict[str, str]:
    """Colour of every label; methods that appear only in a gallery follow."""
    seen = [m for r in runs if r.gallery is not None for m in r.gallery.imputed]
    seen += [m for r in runs if r.forecasts is not None for m in r.forecasts.forecast]
    return words.colours([*sorted((r.label for r in rows), key=lambda label: label), *seen])


def _skill(
    runs: Sequence[RunFolder], rows: Sequence[tables.Entry], palette: Mapping[str, str]
) -> dict[str, Any] | None:
    if not rows:
        return None
    scenarios = tables.scenario_scopes(rows)
    leaves = [(r, tables.channel_table(r, scenarios)) for r in rows if scenarios and not r.is_baseline]
    draws = sorted({s.n_boot for r in rows for s in r.scores.values() if s.n_boot})
    return {
        "headline": tables.skill_table(rows, tables.headline_scopes(rows)),
        "scenarios": tables.skill_table(rows, scenarios),
        "fair": tables.skill_table(rows, tables.fair_scopes(rows), metric=tables.FAIR_SKILL),
        "ranks": tables.rank_table(rows, [*tables.headline_scopes(rows), *scenarios]),
        "rank_headings": [words.scope(s) for s in [*tables.headline_scopes(rows), *scenarios]],
        "leaves": [(r, table) for r, table in leaves if table][:3],
        "outcomes": tables.task_table(rows),
        "labels": [r.label for r in rows],
        "leaf_headings": [words.scope(s) for s in scenarios],
        "colours": palette,
        "draws": " to ".join(f"{n:,}" for n in dict.fromkeys((draws[0], draws[-1]))) if draws else "",
        "baselines": sorted({words.plain(r.baseline, 60) for r in runs if r.scores}),
    }


def _bars(
    runs: Sequence[RunFolder], rows: Sequence[tables.Entry], palette: Mapping[str, str]
) -> Markup | None:
    scopes = tables.scenario_scopes(rows)
    if not scopes and any(r.is_forecasting for r in runs):
        scopes = [s for s in tables.headline_scopes(rows) if s != "overall"]
    if not scopes:
        return None
    baselines = sorted({r.baseline for r in runs if r.scores})
    return Markup(figures.scenario_bars(rows, scopes, palette, baseline=" / ".join(baselines)))


def _scenario_counts(runs: Sequence[RunFolder]) -> list[tuple[list[str], list[tuple[str, str, str, str]]]]:
    """Runs with the same counts share a table."""
    groups: list[tuple[list[str], list[tuple[str, str, str, str]]]] = []
    for run in runs:
        rows = tables.scenario_counts(run)
        same = next((names for names, other in groups if other == rows), None)
        if same is not None:
            same.append(run.name)
        elif rows:
            groups.append(([run.name], rows))
    return groups


def _galleries(
    runs: Sequence[RunFolder], rows: Sequence[tables.Entry], palette: Mapping[str, str]
) -> list[GallerySection]:
    sections = []
    shown = [(i, run) for i, run in enumerate(runs) if run.gallery is not None and len(run.gallery)]
    for number, run in shown:
        days = run.gallery
        assert days is not None
        labels = {r.method: r.label for r in rows if r.run == run.name}
        methods = gallery.choose_methods(days, [r.method for r in rows], run.baseline)
        colours = {
            m: palette[labels.get(m, m)] if labels.get(m, m) in palette else palette[m] for m in methods
        }
        filled = run.is_imputation_of_recordings
        # Of a channel without any recording there is only a guess to draw.
        ever = ~np.isnan(days.values).all(axis=(0, 2))
        worth = ever if filled and ever.any() else np.ones_like(ever)
        chosen = gallery.choose_days(days, max(1, GALLERY_DAYS // len(shown)))
        cards: list[dict[str, Any]] = []
        size = 0
        for position in chosen:
            channels = gallery.choose_channels(days.values[position], days.target[position] & worth[:, None])
            name = f"day{number}-{position}"
            svg = day_figure.draw(days, position, channels, methods, colours, filled=filled, name=name)
            size += len(svg)
            if cards and size > _GALLERY_BYTES // len(shown):
                break
            cards.append(_card(days, position, svg, filled=filled))
        legend = [(labels.get(m, m), colours[m]) for m in methods]
        limited = len(cards) < len(chosen)
        sections.append(
            GallerySection(run.name, filled, legend, cards, len(days), limited, import_table.known_as(run))
        )
    return sections


def _card(days: run_folder.Gallery, position: int, svg: str, *, filled: bool) -> dict[str, Any]:
    target, measured = days.target[position], ~np.isnan(days.values[position])
    return {
        "svg": Markup(svg),
        "date": days.date[position],
        "participant": days.participant[position],
        "scenario": "" if filled else words.scope(days.scenario[position]),
        "measured": f"{(measured & ~target).sum():,}",
        "target": f"{target.sum():,}",
    }


def _coverages(runs: Sequence[RunFolder]) -> list[CoverageSection]:
    groups: list[tuple[list[str], dict[str, Any], str]] = []
    for run in runs:
        if run.coverage is None:
            continue
        known_as = import_table.known_as(run)
        same = next((n for n, other, was in groups if was == known_as and _equal(run.coverage, other)), None)
        if same is not None:
            same.append(run.name)
        else:
            groups.append(([run.name], run.coverage, known_as))
    return [
        CoverageSection(
            names,
            Markup(figures.channel_hours(table, name=f"hours{i}")),
            Markup(figures.participant_days(table, name=f"days{i}")),
            known_as,
            _coverage_facts(table, known_as),
        )
        for i, (names, table, known_as) in enumerate(groups[:_COVERAGE_RUNS_MAX])
    ]


def _equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return (
        a["first_date"] == b["first_date"]
        and np.array_equal(a["participants"], b["participants"])
        and np.array_equal(a["channel_hour"], b["channel_hour"], equal_nan=True)
        and np.array_equal(a["participant_day"], b["participant_day"], equal_nan=True)
    )


def _coverage_facts(table: Mapping[str, Any], known_as: str) -> list[str]:
    people, days = np.asarray(table["participant_day"]).shape
    said = [
        f"{100 * float(np.nanmean(table['channel_hour'])):.0f}\u00a0% of all channel minutes were {known_as}"
    ]
    if "n_days" in table and "n_participants" in table:
        n_days, n_people = int(table["n_days"]), int(table["n_participants"])
        said.append(
            f"{n_days:,} {plural.noun(n_days, 'day')} of {n_people:,} {plural.noun(n_people, 'participant')} counted"
        )
        left_out = int(table["n_days"]) - int(table.get("days_shown", table["n_days"]))
        if left_out > 0:
            shown = f"{people} {plural.noun(people, 'participant')} over {days} calendar {plural.noun(days, 'day')}"
            said.append(
                f"the lower map shows {shown} and leaves out {left_out:,} {plural.noun(left_out, 'day')}"
            )
    return said


def _training(runs: Sequence[RunFolder]) -> dict[str, Any] | None:
    if not runs:
        return None
    has_speed = any(len(figures.series(r, "days_per_second", "train")[0]) for r in runs)
    return {
        "loss": Markup(figures.loss_curves(runs)),
        "throughput": Markup(figures.throughput(runs)) if has_speed else None,
        "rows": [_training_row(r) for r in runs],
    }


def _training_row(run: RunFolder) -> tuple[str, ...]:
    steps, loss = figures.series(run, "loss", "train")
    _, validation = figures.series(run, "loss", "validation")
    speed = figures.series(run, "days_per_second", "train")[1]
    wait = figures.series(run, "data_wait_fraction", "train")[1]
    return (
        run.name,
        f"{int(steps[-1]):,}" if len(steps) else "–",
        f"{loss[-1]:.4g}" if len(loss) else "–",
        f"{validation.min():.4g}" if len(validation) else "–",
        f"{np.median(speed):,.0f}" if len(speed) else "–",
        f"{np.mean(wait):.1%}" if len(wait) else "–",
    )


def _settings(run: RunFolder) -> dict[str, Any]:
    config = {k: v for k, v in run.config.items() if k != "versions"}
    versions = {**tables.mapping(run.results.get("versions")), **tables.mapping(run.config.get("versions"))}
    # `metrics` holds thousands of numbers per channel; they are for programs.
    results = {k: v for k, v in run.results.items() if k not in ("versions", "import", "metrics")}
    return {
        "run": run,
        "config": tables.settings(config),
        "versions": tables.settings(versions),
        "results": tables.settings(results),
    }
