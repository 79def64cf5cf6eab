"""Wrist and hip actigraphy: one activity count a minute, from CSV tables and Actiwatch `.AWD` files.

Activity counts have no channel of their own among the 19. They stand in, as a proxy, for `watch_steps` (or
`watch_energy`), divided by `counts_per_unit`; the tally says so, and multiplying gives the counts back. The
defaults bring the values to the scale of the channel, on which the variance filter works. 20 counts a step:
a hip-worn ActiGraph writes about 1,952 counts in a minute of moderate effort (Freedson et al. 1998), which is
a walk of about 100 steps (Tudor-Locke et al. 2018). One count a small calorie: the order of the work-energy
rule (0.0000191 kcal a count and kilogram). Counts of other makers have other scales: compare persons of one
device.

Wear: a minute counts as not worn when nothing is recorded in it, or when it lies in at least 90 zero counts
on end (Choi et al. 2011, without their allowance for short interruptions).
"""

from __future__ import annotations

import datetime as dt
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.channels import INDEX, LARGEST, MINUTES_PER_DAY
from wearjax.day import SHAPE, Day
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import csv_table, minute_grid, nonwear
from wearjax.sources.tally import Tally

COUNTS_PER_UNIT = {"watch_steps": 20.0, "watch_energy": 1.0}  # the channels that may carry counts
_SUFFIXES = (".csv", ".csv.gz", ".awd", ".awd.gz")
_EPOCH = dt.date(1970, 1, 1)
_LONGEST_DAYS = 20 * 365
_COUNTS_MAX = 10_000_000  # no monitor comes near: a damaged number
_NHANES_DAYS_MAX = 370  # the survey's monitors were worn for a week
_FIRST_SUNDAY = dt.date(2003, 1, 5)  # survey dates are withheld; only the day of the week is published
_AWD_HEADER_LINES = 7
_AWD_MINUTE_CODE = "4"
_AWD_DATE = re.compile(r"(\d{1,2})-([A-Za-z]{3})-(\d{4})")
_AWD_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(:\d{2})?")
_AWD_COUNT = re.compile(r"(\d+)\s*(.*)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True)
class Recording:
    """Counts of one participant: minutes of the local clock since 1970, ascending, each once."""

    participant: str
    minute: Int64[np.ndarray, "n"]
    counts: Float64[np.ndarray, "n"]


def read_days(
    path: str | os.PathLike,
    *,
    tally: Tally,
    absent: str = "zero-when-recording",
    channel: str = "watch_steps",
    counts_per_unit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Day]:
    """Days of one file or of every file in a folder, by participant and date.

    Reads `.AWD` files, CSV with `timestamp` and `activity` (participant = file name), and CSV of the NHANES
    2003-2006 monitor with `seqn`, `paxday`, `paxinten`, `minute`; each may be gzipped.

    Args:
        tally: filled with what was read, used and left out.
        absent: `"zero-when-recording"` or `"missing"` for minutes without a record.
        channel: `"watch_steps"` or `"watch_energy"`, the channel that the counts stand in for.
        counts_per_unit: divisor of the counts; None takes the channel's own in `COUNTS_PER_UNIT`.
        progress: called with (bytes read, bytes in all).

    Raises:
        SourceError: no usable file, or one that is not as described. ConfigError: an impossible option.
    """
    minute_grid.check_absent(absent)
    fill = absent == "zero-when-recording"
    if channel not in COUNTS_PER_UNIT:
        raise ConfigError(
            f"channel={channel!r} cannot carry activity counts; known: {', '.join(COUNTS_PER_UNIT)}"
        )
    per_unit = COUNTS_PER_UNIT[channel] if counts_per_unit is None else float(counts_per_unit)
    if not (np.isfinite(per_unit) and per_unit > 0):
        raise ConfigError(f"counts_per_unit={counts_per_unit!r}: expected a positive number")
    files = _find(Path(path), tally)
    tally.note(
        f"activity counts are not {channel}: they stand in for it as a proxy, {per_unit:g} counts a unit"
    )
    tally.note("days and minutes are those of the monitor's own clock, which names no zone")
    total, done = sum(f.stat().st_size for f in files), 0
    # Files are not in the order of participants (those of NHANES name their own), so sort at the end.
    of: dict[str, tuple[Recording, Path]] = {}
    for file in files:
        for recording in _read_file(file, tally):
            if known := of.get(recording.participant):
                raise SourceError(
                    f"{file}: participant {recording.participant} was already read from {known[1]}"
                )
            of[recording.participant] = recording, file
        done += file.stat().st_size
        if progress:
            progress(done, total)
    for participant in sorted(of):
        yield from _days(of[participant][0], INDEX[channel], per_unit, fill, tally)


def _days(recording: Recording, channel: int, per_unit: float, fill: bool, tally: Tally) -> Iterator[Day]:
    if not len(recording.minute):
        return
    first, last = recording.minute[[0, -1]] // MINUTES_PER_DAY
    if last - first > _LONGEST_DAYS:
        raise SourceError(f"participant {recording.participant}: minutes {(last - first) // 365} years apart")
    counts = np.full((last - first + 1) * MINUTES_PER_DAY, np.nan)
    counts[recording.minute - first * MINUTES_PER_DAY] = recording.counts
    recorded = ~np.isnan(counts)
    off = ~recorded | nonwear.unmoved_runs(~recorded | (counts == 0))
    for d in range(int(last - first) + 1):
        span = slice(d * MINUTES_PER_DAY, (d + 1) * MINUTES_PER_DAY)
        if not recorded[span].any():
            continue
        values = np.full(SHAPE, np.nan, np.float32)
        values[channel] = counts[span] / per_unit
        date = _EPOCH + dt.timedelta(days=int(first) + d)
        tally.record(date, values)
        if fill:
            values[channel] = np.nan_to_num(values[channel], nan=0.0)
        tally.used[tuple(INDEX)[channel]] += int(recorded[span].sum())
        yield Day(values, recording.participant, date, float(off[span].sum()), "actigraphy")


def _find(path: Path, tally: Tally) -> list[Path]:
    if path.is_file():
        return [path]
    files = [
        f for f in sorted(path.iterdir()) if f.name.lower().endswith(_SUFFIXES) and not f.name.startswith(".")
    ]
    usable = [f for f in files if _is_awd(f) or _layout(f)]
    if not usable:
        raise SourceError(
            f"{path}: no actigraphy file (.AWD, CSV with timestamp and activity, or NHANES CSV)"
            + (f"; it holds {', '.join(f.name for f in files[:4])}" if files else "")
        )
    if other := [f.name for f in files if f not in usable]:
        tally.note("not used, no activity per minute: " + ", ".join(other))
    return usable


def _is_awd(file: Path) -> bool:
    return file.name.lower().endswith((".awd", ".awd.gz"))


def _layout(file: Path) -> str | None:
    names = set(csv_table.header(file))
    if {"seqn", "paxday", "paxinten", "minute"} <= names:
        return "nhanes"
    return "timestamps" if {"timestamp", "activity"} <= names else None


def _read_file(file: Path, tally: Tally) -> Iterator[Recording]:
    if _is_awd(file):
        yield _read_awd(file, tally)
        return
    layout = _layout(file)
    if layout == "nhanes":
        yield from _read_nhanes(file, tally)
    elif layout == "timestamps":
        yield _read_timestamps(file, tally)
    else:
        found = ", ".join(csv_table.header(file)[:8])
        raise SourceError(
            f"{file}: expected columns timestamp and activity (or those of NHANES), found {found}"
        )


def _read_timestamps(file: Path, tally: Tally) -> Recording:
    second, counts = [np.empty(0, np.int64)], [np.empty(0)]
    for batch in csv_table.batches(file, text=("timestamp",), numbers=("activity",)):
        second.append(csv_table.local_seconds(batch.column("timestamp"), where=f"{file}: timestamp")[0])
        counts.append(csv_table.floats(batch.column("activity")))
    seconds = np.concatenate(second)
    if len(seconds) > 1 and (step := float(np.median(np.abs(np.diff(seconds))))) != 60:
        raise SourceError(f"{file}: rows are {step:g} s apart, expected one a minute")
    return _recording(_participant(file), seconds // 60, np.concatenate(counts), tally)


def _read_nhanes(file: Path, tally: Tally) -> Iterator[Recording]:
    columns = ("seqn", "paxday", "paxinten", "minute")
    parts = [np.empty((0, 4))]
    for batch in csv_table.batches(file, text=(), numbers=columns):
        parts.append(np.stack([csv_table.floats(batch.column(c)) for c in columns], axis=1))
    rows = np.concatenate(parts)
    seqn, weekday, counts, minute = rows.T
    if not np.isfinite(rows[:, [0, 1, 3]]).all() or not np.all((weekday >= 1) & (weekday <= 7)):
        raise SourceError(f"{file}: seqn and minute must be filled, paxday 1 (Sunday) to 7")
    if not np.all(np.abs(seqn) <= LARGEST):
        raise SourceError(f"{file}: seqn {seqn[np.abs(seqn).argmax()]:g} is no participant number")
    if not np.all((minute >= 0) & (minute < MINUTES_PER_DAY)):
        raise SourceError(f"{file}: minute outside 0..{MINUTES_PER_DAY - 1}")
    tally.note("NHANES publishes no dates: the days follow from the weekday, starting in January 2003")
    for person in np.unique(seqn):
        own = seqn == person
        day = np.concatenate(([0], np.cumsum(np.diff(weekday[own]) % 7)))  # days since the first, gaps kept
        if day[-1] > _NHANES_DAYS_MAX:
            raise SourceError(
                f"{file}: weekdays of seqn {person:g} go on for {day[-1]:,.0f} days: rows are not in the order of time"
            )
        first = (_FIRST_SUNDAY - _EPOCH).days + weekday[own][0] - 1
        at = ((first + day) * MINUTES_PER_DAY + minute[own]).astype(np.int64)
        yield _recording(str(int(person)), at, counts[own], tally)


def _read_awd(file: Path, tally: Tally) -> Recording:
    opener = gzip.open if file.name.lower().endswith(".gz") else open
    try:
        with opener(file, "rt", encoding="latin-1") as stream:
            lines = [line.strip() for line in stream]
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"{file}: not readable ({error})") from None
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) <= _AWD_HEADER_LINES:
        raise SourceError(f"{file}: {len(lines)} lines; an AWD file has 7 of header and one a minute")
    start, code = _awd_start(lines, file), lines[3]
    if code != _AWD_MINUTE_CODE:
        raise SourceError(f"{file}: epoch code {code!r}; only {_AWD_MINUTE_CODE} (one minute) can be read")
    counts = np.empty(len(lines) - _AWD_HEADER_LINES)
    for i, line in enumerate(lines[_AWD_HEADER_LINES:]):
        cell = _AWD_COUNT.fullmatch(line)
        if not cell:
            raise SourceError(
                f"{file}: line {i + 1 + _AWD_HEADER_LINES} is {line!r}, expected an activity count"
            )
        counts[i] = float(cell[1])
        tally.skip("AWD marker", "event mark beside a count (the count is kept)", int(bool(cell[2])))
    minute = (start.date() - _EPOCH).days * MINUTES_PER_DAY + start.hour * 60 + start.minute
    return _recording(_participant(file), minute + np.arange(len(counts)), counts, tally)


def _awd_start(lines: list[str], file: Path) -> dt.datetime:
    """Start of an AWD recording; month names are English whatever the locale."""
    date, clock = _AWD_DATE.fullmatch(lines[1]), _AWD_CLOCK.fullmatch(lines[2])
    try:
        if date is None or clock is None:
            raise ValueError
        month = _MONTHS.index(date[2].lower()) + 1
        return dt.datetime(int(date[3]), month, int(date[1]), int(clock[1]), int(clock[2]))
    except ValueError:  # no such form, month, day or hour
        raise SourceError(
            f"{file}: lines 2 and 3 should be dd-Mon-yyyy and hh:mm, found {lines[1]!r} {lines[2]!r}"
        ) from None


def _recording(participant: str, minute: np.ndarray, counts: np.ndarray, tally: Tally) -> Recording:
    """Sorts, drops what is no count, and keeps the larger of two counts of a minute; all of it is tallied."""
    tally.read["activity counts"] += len(counts)
    blank, excessive = np.isnan(counts) | (counts < 0), counts >= _COUNTS_MAX
    tally.skip("activity counts", "blank or negative", int(np.sum(blank)))
    tally.skip("activity counts", f"{_COUNTS_MAX:,} or more in a minute", int(np.sum(excessive)))
    good = ~(blank | excessive)
    minute, counts = minute[good], counts[good]
    order = np.lexsort((-counts, minute))
    minute, counts = minute[order], counts[order]
    again = np.concatenate(([False], np.diff(minute) == 0)) if len(minute) else np.zeros(0, bool)
    tally.skip("activity counts", "minute recorded twice (the larger count is kept)", int(again.sum()))
    return Recording(participant, minute[~again], counts[~again])


def _participant(file: Path) -> str:
    return re.sub(r"(\.csv|\.awd)?(\.gz)?$", "", file.name, flags=re.IGNORECASE)
