"""The files of a Fitabase research export (Fitbit), as sorted minute series per participant.

Column layouts and value codes follow Fitabase's published data dictionary. Times are the participant's wall
clock without a zone, so the hour that is repeated when clocks go back cannot be told from a repeated row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from wearjax.channels import LARGEST
from wearjax.errors import SourceError
from wearjax.sources import csv_table
from wearjax.sources.tally import Tally

_DAMAGED_ID = re.compile(r"[+-]?\d+([.,]\d+)?[eE][+-]?\d+")
_HEART_RATE_MAX = 300.0


@dataclass(frozen=True)
class Layout:
    """How one kind of file is laid out: `value` is a column, or the prefix of 60 columns when `wide`."""

    name: str
    measure: str
    time: str
    value: str
    wide: bool = False

    @property
    def columns(self) -> list[str]:
        return [f"{self.value}{i:02d}" for i in range(60)] if self.wide else [self.value]


# In each measure the preferred form first: narrow files often start a day earlier than the wide ones.
LAYOUTS = (
    Layout("minuteStepsNarrow", "steps", "activityminute", "steps"),
    Layout("minuteStepsWide", "steps", "activityhour", "steps", wide=True),
    Layout("minuteIntensitiesNarrow", "intensity", "activityminute", "intensity"),
    Layout("minuteIntensitiesWide", "intensity", "activityhour", "intensity", wide=True),
    Layout("minuteCaloriesNarrow", "calories", "activityminute", "calories"),
    Layout("minuteCaloriesWide", "calories", "activityhour", "calories", wide=True),
    Layout("heartrate_seconds", "heart rate", "time", "value"),
    Layout("minuteSleep", "sleep", "date", "value"),
)


@dataclass(frozen=True)
class Series:
    """Minute values of all participants, sorted by participant code and minute, each pair once."""

    who: Int64[np.ndarray, "n"]
    minute: Int64[np.ndarray, "n"]
    value: Float32[np.ndarray, "n"]

    def of(self, code: int) -> tuple[Int64[np.ndarray, "m"], Float32[np.ndarray, "m"]]:
        a, b = np.searchsorted(self.who, [code, code + 1])
        return self.minute[a:b], self.value[a:b]


@dataclass
class Export:
    """A read export: participant ids (their position is the code) and one series per measure."""

    codes: dict[str, int] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)


def find(path: Path, tally: Tally) -> list[tuple[Layout, Path]]:
    """The minute files to read. Of two forms of a measure in one folder the second is counted and left out.

    Raises SourceError where there is no minute file.
    """
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if _is_csv(f))
    known, other = [], []
    for file in files:
        layout = next((x for x in LAYOUTS if x.name.lower() in file.name.lower()), None)
        if layout:
            known.append((layout, file))
        else:
            other.append(file)
    if not any(layout.measure in ("steps", "heart rate", "sleep") for layout, _ in known):
        held = ", ".join(f.name for f in files[:4]) or "no CSV file"
        raise SourceError(
            f"{path}: minute files are needed (minuteStepsWide or minuteStepsNarrow, heartrate_seconds, "
            f"minuteSleep); it holds {held}; hourly and daily totals cannot be spread over minutes"
        )
    if other:
        tally.note("not used, no minute values to import: " + ", ".join(f.name for f in other))
    chosen: dict[tuple[Path, str], Layout] = {}
    for layout, file in sorted(known, key=lambda pair: LAYOUTS.index(pair[0])):
        chosen.setdefault((file.parent, layout.measure), layout)
    kept = []
    for layout, file in known:
        used = chosen[file.parent, layout.measure]
        if used is layout:
            kept.append((layout, file))
        else:
            rows = csv_table.count_rows(file)
            tally.read[layout.name] += rows
            tally.skip(layout.name, f"same measure as {used.name}", rows)
    return kept


def read(
    files: list[tuple[Layout, Path]], tally: Tally, *, progress: Callable[[int, int], None] | None = None
) -> Export:
    """Reads the files into minute series. Raises SourceError for damaged ids, times, numbers or files."""
    export = Export()
    rows: dict[Layout, list[tuple]] = {}
    total, before = sum(file.stat().st_size for _, file in files), 0
    for layout, file in files:
        done = (lambda b, before=before: progress(before + b, total)) if progress else None
        rows.setdefault(layout, []).extend(_file_rows(layout, file, export.codes, tally, done))
        before += file.stat().st_size
    minutes: dict[str, list[tuple]] = {}
    for layout, parts in rows.items():
        who, second, value, exact = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((value[:, 0], second, who))
        who, second, value, exact = who[order], second[order], value[order], exact[order]
        twice = _repeats(who, second, value) & exact
        tally.skip(layout.name, "exact duplicate row", int(twice.sum()))
        kept = _cleaned_minutes(layout, who[~twice], second[~twice], value[~twice], tally)
        minutes.setdefault(layout.measure, []).append(kept)
    for measure, parts in minutes.items():
        who, minute, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        export.series[measure] = _one_a_minute(measure, who, minute, value, tally)
    return export


def _is_csv(file: Path) -> bool:
    return file.name.lower().endswith((".csv", ".csv.gz")) and not file.name.startswith(".")


def _file_rows(layout: Layout, file: Path, codes: dict[str, int], tally: Tally, done) -> Iterator[tuple]:
    """Blocks of (code, second, values `(rows, 1 or 60)`, whether equal rows can only be repeats)."""
    empty = np.empty(0, np.int64)
    yield empty, empty, np.empty((0, len(layout.columns)), np.float32), np.empty(0, bool)
    for batch in csv_table.batches(file, text=("id", layout.time), numbers=layout.columns, done=done):
        tally.read[layout.name] += batch.num_rows
        who = _participants(batch.column("id"), codes, file)
        second, names_second = csv_table.local_seconds(
            batch.column(layout.time), where=f"{file}: {layout.time}"
        )
        value = np.stack([csv_table.floats(batch.column(c)) for c in layout.columns], axis=1)
        value = np.clip(value, -2 * LARGEST, 2 * LARGEST).astype(np.float32)  # beyond, all are refused alike
        # A spreadsheet re-save cuts the seconds: equal heart-rate rows may then be different samples.
        exact = np.full(len(who), names_second or layout.measure != "heart rate")
        yield who, second, value, exact


def _participants(column, codes: dict[str, int], file: Path) -> Int64[np.ndarray, "row"]:
    coded = column.dictionary_encode()
    of_dictionary = []
    for text in coded.dictionary.to_pylist():
        name = (text or "").strip().removesuffix(".0")
        if not name:
            raise SourceError(f"{file}: a row has no Id")
        if _DAMAGED_ID.fullmatch(name):
            raise SourceError(
                f"{file}: Id {name!r} was rounded by a spreadsheet and no longer names a person; export "
                "again and do not save the file from the spreadsheet program"
            )
        of_dictionary.append(codes.setdefault(name, len(codes)))
    return np.asarray(of_dictionary, np.int64)[coded.indices.to_numpy(zero_copy_only=False)]


def _repeats(who, second, value) -> np.ndarray:
    """True at a row equal to the one before it; rows are sorted."""
    same = (np.diff(who) == 0) & (np.diff(second) == 0)
    a, b = value[1:], value[:-1]
    same &= np.all((a == b) | (np.isnan(a) & np.isnan(b)), axis=1)
    return np.concatenate(([False], same)) if len(who) else np.zeros(0, bool)


def _cleaned_minutes(layout: Layout, who, second, value, tally: Tally) -> tuple:
    """(code, minute, value) of the usable cells; the others are tallied."""
    minute = (second // 60)[:, None] + np.arange(value.shape[1])
    who = np.repeat(who, value.shape[1])
    minute, value = minute.ravel(), value.ravel()
    blank = np.isnan(value)
    if layout.measure == "heart rate":
        bad, reason = (value <= 0) | (value > _HEART_RATE_MAX), f"outside 0..{_HEART_RATE_MAX:.0f} bpm"
    elif layout.measure == "sleep":
        bad, reason = ~np.isin(value, (1, 2, 3)) & ~blank, "unknown sleep value"
    else:
        bad, reason = value < 0, "negative value"
    tally.skip(layout.name, "blank cell", int(blank.sum()))
    tally.skip(layout.name, reason, int(bad.sum()))
    absurd = ~(blank | bad) & (value > LARGEST)
    tally.skip(layout.name, "larger than anything measured", int(absurd.sum()))
    good = ~(blank | bad | absurd)
    return who[good], minute[good], value[good]


def _one_a_minute(measure: str, who, minute, value, tally: Tally) -> Series:
    order = np.lexsort((minute, who))
    who, minute, value = who[order], minute[order], value[order]
    first = np.flatnonzero(np.r_[True, (np.diff(who) != 0) | (np.diff(minute) != 0)]) if len(who) else order
    if not len(first):
        reduced = value
    elif measure == "heart rate":
        reduced = np.add.reduceat(value.astype(np.float64), first) / np.diff(np.r_[first, len(who)])
    elif measure == "sleep":  # the deeper of two overlapping logs: 1 asleep, 2 restless, 3 awake
        reduced = np.minimum.reduceat(value, first)
    else:
        # Never a sum: the rows are far more often a re-export than the repeated hour of a clock change.
        reduced = np.maximum.reduceat(value, first)
        tally.skip(measure, "minute recorded twice (the larger value is kept)", len(who) - len(first))
    return Series(who[first], minute[first], reduced.astype(np.float32))
