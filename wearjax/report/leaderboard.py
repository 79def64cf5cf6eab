"""The leaderboard section: packets and runs of many methods, scored together into one table."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wearjax import tasks
from wearjax.benchmarks.openmhc import leaderboard, packet
from wearjax.benchmarks.openmhc.imputation_scores import FAIR_SKILL, RANK, SKILL, Score
from wearjax.benchmarks.openmhc.imputation_tasks import BUCKETS
from wearjax.benchmarks.openmhc.leaderboard import Leaderboard
from wearjax.benchmarks.openmhc.packet import Packet
from wearjax.errors import ConfigError
from wearjax.report import tables, words
from wearjax.report.tables import Cell
from wearjax.scores import completeness

_SCOPES = {
    "imputation": ("overall", "semantic", *(f"cat:{name}" for name in BUCKETS)),
    "forecasting": ("overall", *tables.FORECAST_CATEGORIES),
    "prediction": ("overall", *tasks.DOMAINS),
}


@dataclass(frozen=True)
class Row:
    """One method: how it is shown, and its cells in the order of the headings."""

    name: str
    about: str
    is_baseline: bool
    cells: list[Cell]


@dataclass(frozen=True)
class Board:
    """The table of one track; `reason` says why there is none."""

    track: str
    baseline: str = ""
    headings: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    n_methods: int = 0
    n_participants: str = ""
    draws: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""


def separate(paths: Sequence[str | os.PathLike]) -> tuple[list[Path], list[Path]]:
    """The run folders among some paths, and the packets."""
    packets = [Path(p) for p in paths if not (Path(p) / "results.json").exists() and packet.files(p)]
    return [Path(p) for p in paths if Path(p) not in packets], packets


def boards(runs: Sequence[Path], packets: Sequence[Path], *, n_boot: int = 1000) -> list[Board]:
    """One board a track, if there is something to compare: a packet, or two runs with errors.

    Raises:
        ConfigError: packets that are not valid or cannot be scored together. Runs that cannot only give a board
            that says so: the rest of their page stands without it.
    """
    scored = [run for run in runs if leaderboard.has_packets(run)]
    if not packets and len(scored) < 2:
        return []
    try:
        by_track: dict[str, list[Packet]] = {}
        for path in (*scored, *packets):
            for found in leaderboard.read(path):
                by_track.setdefault(found.track, []).append(found)
        return [_board(leaderboard.score(found, n_boot=n_boot)) for _, found in sorted(by_track.items())]
    except ConfigError as error:
        if packets:
            raise
        return [Board("", reason=words.plain(error, 400))]


def title(found: Sequence[Board]) -> str:
    return f"Leaderboard: {', '.join(board.track for board in found)}"


def notes(found: Sequence[Board]) -> list[str]:
    """What the boards say beside their numbers, in lines for a terminal."""
    lines = []
    for board in found:
        where = f"leaderboard, {board.track}" if board.track else "leaderboard"
        said = [f"none, {board.reason.removeprefix('leaderboard: ')}"] if board.reason else board.notes
        lines += [f"{where}: {text}" for text in said]
    return lines


def _board(found: Leaderboard) -> Board:
    methods = [p.method for p in found.packets]
    lacking = completeness.lacking(found.scores, baseline=found.baseline, methods=methods)
    whole = completeness.comparable(found.scores, lacking, baseline=found.baseline)
    few = completeness.few_participants(found.n_participants)
    notes = [*found.notes, *completeness.told(lacking), *([few] if few else [])]
    at = {(s.method, s.metric, s.scope): s for s in whole}
    present = {scope for _, metric, scope in at if metric == SKILL}
    scopes = [s for s in _SCOPES[found.track] if s in present]
    columns = [(RANK, "overall"), *((SKILL, s) for s in scopes)]
    if any(metric == FAIR_SKILL for _, metric, _ in at):
        columns.append((FAIR_SKILL, "overall"))
    best = {c: _best([at.get((p.method, *c)) for p in found.packets], metric=c[0]) for c in columns}
    rows = [
        Row(
            words.plain(p.display_name, 60),
            " · ".join(words.plain(text, 40) for text in (p.type, p.submitter, p.subtrack) if text),
            p.method == found.baseline,
            [
                *(
                    _cell(at.get((p.method, *c)), best[c], is_baseline=p.method == found.baseline)
                    for c in columns
                ),
                _fallback(p.fallback_rate),
                _count(found.participants[p.method]),
            ],
        )
        for p in found.packets
    ]
    names = {RANK: "Rank", FAIR_SKILL: "Fair"}
    headings = [names.get(metric) or words.scope(scope) for metric, scope in columns]
    overall = columns.index((SKILL, "overall")) if (SKILL, "overall") in columns else 0
    return Board(
        track=found.track,
        baseline=found.baseline,
        headings=(*headings, "Substituted", "Participants"),
        rows=tuple(sorted(rows, key=lambda row: -_number(row.cells[overall]))),
        n_methods=len(rows),
        n_participants=f"{found.n_participants:,}",
        draws=f"{found.n_boot:,}" if found.n_boot else "",
        notes=tuple(words.plain(note, 300) for note in notes),
    )


def _number(cell: Cell) -> float:
    return float(cell.sort) if cell.sort else -math.inf


def _best(scores: Sequence[Score | None], *, metric: str) -> float:
    points = [s.point for s in scores if s is not None]
    return math.nan if not points else (min if metric == RANK else max)(points)


def _cell(score: Score | None, best: float, *, is_baseline: bool) -> Cell:
    """Point estimate; below it what the benchmark reports: mean of the draws, or nothing more, and interval."""
    if score is None:
        return Cell("0.0", "reference", sort="0") if is_baseline else Cell()
    text = tables.percent if score.metric != RANK else "{:.2f}".format
    interval = ""
    if not math.isnan(score.ci_lo):
        centre = "" if score.metric == FAIR_SKILL else f"{text(score.mean)} "
        interval = f"{centre}[{text(score.ci_lo)}, {text(score.ci_hi)}]"
    if is_baseline and score.metric != RANK:
        interval = "reference"
    return Cell(text(score.point), interval, sort=repr(float(score.point)), best=score.point == best)


def _fallback(rate: float | None) -> Cell:
    return Cell() if rate is None else Cell(f"{rate:.2%}", sort=repr(float(rate)))


def _count(n: int) -> Cell:
    return replace(Cell(f"{n:,}"), sort=str(n))
