"""Apple Health exports → days.

Rules, each stated once here:

- **Local day**: the wall clock of each record's own offset, or one named zone for all (`zone`). A sample over
  a clock change is cut there; the hour a spring day lacks is missing; in the hour an autumn day has twice,
  counts add, heart rates average and flags unite.
- **Minutes**: counts, distance and energy spread evenly over [start, end), so daily totals stay exact; heart
  rate is the mean of a minute's readings and is never filled; flags stand where a minute's middle is covered.
- **Devices**: iPhone and Watch have channels of their own and are never merged. Two devices of one kind at
  the same minute: the larger value. Other makers' devices and apps are left out and counted by default; if
  asked for, each clock hour belongs to the first of Watch, other makers' devices, apps that recorded in it.
- **Sleep and workouts**: the union over all sources, from start to end with pauses.
- **Left out and counted**: records inside a Correlation (repetitions), entries made by hand, exact repeats,
  and records that are reversed, negative, longer than 24 hours, before 2007 or after the export.
- **Non-wear**: 60 minutes for each clock hour in which neither phone nor watch recorded anything.
- **Privacy**: the description of the person, source names and device names reach no output, tally or message.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float32

from wearjax import plural
from wearjax.channels import DEVICE_GROUPS, HOURS_PER_DAY
from wearjax.day import Day
from wearjax.sources import apple_health_container as container
from wearjax.sources import apple_health_xml as xml
from wearjax.sources import local_clock, minute_grid
from wearjax.sources.apple_health_records import RecordReader
from wearjax.sources.apple_health_samples import THIRD_PARTY, SamplePlacer
from wearjax.sources.archive import DamagedError
from wearjax.sources.tally import Tally

SOURCE = "apple_health"
_WATCH_CHANNELS = list(DEVICE_GROUPS["watch"])


def read_days(
    path: str | os.PathLike,
    *,
    tally: Tally,
    absent: str = "zero-when-recording",
    zone: str = "record",
    participant: str = "self",
    include_third_party: bool = False,
    include_manual: bool = False,
    keep_partial: bool = False,
    plain: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Day]:
    """Reads an export (zip, folder, XML or gzip) and yields its days in order of date.

    The whole document is read before the first day, since its records are grouped by type. Memory grows with
    the number of days (about 50 kB each) and by 8 bytes a record for finding repeats, not with the file.

    Args:
        tally: filled with counts of records read, used and left out.
        absent: `"zero-when-recording"` writes zeros where a recording device was silent; `"missing"` NaN.
        zone: `"record"`, or an IANA zone name such as `"Europe/Berlin"`.
        participant: id given to every day.
        include_third_party: fill the watch's channels with other makers' steps, distance, energy and heart rate
            in the clock hours in which no Watch recorded any of these: first devices, then apps that name none.
        include_manual: keep what a person typed in.
        keep_partial: from a file that breaks off, yield what was read and add a note, instead of raising.
        plain: read records of the usual form in blocks; False leaves each to the XML parser, several times
            slower and to the same days.
        progress: called with (bytes read, bytes in total).

    Raises:
        ConfigError: unknown `absent` or `zone`, at the call.
        SourceError: no readable export, an unknown unit, or a broken file; while iterating, before any day.
    """
    minute_grid.check_absent(absent)
    clock = local_clock.choose(zone)
    grids = Grids(include_third_party=include_third_party)

    def days() -> Iterator[Day]:
        with container.open_export(path, tally=tally) as export:
            placer = SamplePlacer(grids.main, others=grids.others, clock=clock, tally=tally, name=export.name)
            reader = RecordReader(placer, tally=tally, name=export.name, include_manual=include_manual)
            _read(export, reader, tally, keep_partial=keep_partial, plain=plain, progress=progress)
            tally.note(clock.said)
            _note(placer, tally)
        for date in grids.dates():
            raw = grids.take(date)
            tally.record(date, raw)
            values = minute_grid.zero_when_recording(raw) if absent == "zero-when-recording" else raw
            gap = clock.skipped(date)
            values[:, gap] = raw[:, gap]
            yield Day(values, participant, date, minute_grid.nonwear_by_hour(raw), SOURCE)
        if grids.filled_hours:
            tally.note(f"{grids.filled_hours:,} hours without a Watch were filled from other makers' records")

    return days()


class Grids:
    """The minutes of phones and watches, and those of other makers, which yield to them hour by hour.

    Attributes:
        main: phones, watches, sleep and workouts.
        others: by kind of writer, the first to fill an hour first.
        filled_hours: hours of days taken so far whose watch channels come from other makers.
    """

    def __init__(self, *, include_third_party: bool):
        self.main = minute_grid.MinuteGrid()
        self.others = {kind: minute_grid.MinuteGrid() for kind in THIRD_PARTY if include_third_party}
        self.filled_hours = 0

    def dates(self) -> list[dt.date]:
        """Days with at least one sample, in order."""
        return sorted({date for grid in (self.main, *self.others.values()) for date in grid.dates()})

    def take(self, date: dt.date) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        """The day's minute values; the grids forget the day."""
        values = self.main.take(date)
        watch = values[_WATCH_CHANNELS].reshape(len(_WATCH_CHANNELS), HOURS_PER_DAY, -1)
        for grid in self.others.values():
            other = grid.take(date)[_WATCH_CHANNELS].reshape(watch.shape)
            free = np.isnan(watch).all(axis=(0, 2)) & ~np.isnan(other).all(axis=(0, 2))
            watch[:, free] = other[:, free]
            self.filled_hours += int(free.sum())
        values[_WATCH_CHANNELS] = watch.reshape(len(_WATCH_CHANNELS), -1)
        return values


def _read(
    export: container.Export,
    reader: RecordReader,
    tally: Tally,
    *,
    keep_partial: bool,
    plain: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    def tell() -> None:
        if progress:
            progress(export.done(), export.total)

    try:
        cleaned = xml.parse(export.chunks, reader, name=export.name, plain=plain, progress=tell)
    except DamagedError as error:
        records = reader.records
        if not keep_partial:
            kept = f"none was kept{'; keep_partial=True keeps them' if records else ''}"
            raise DamagedError(
                f"{error}; {records:,} {plural.noun(records, 'record')} came before, {kept}"
            ) from None
        # The store keeps this: the file's name stays out, it may be a person's.
        where = str(error).removeprefix(f"{export.name}: ")
        tally.partial = f"{where}; the {records:,} records before it were kept"
    else:
        if cleaned.dropped:
            tally.note(f"{cleaned.dropped:,} bytes that XML forbids were dropped")
        if cleaned.ignored_tail:
            tally.note("what follows the end of the HealthData document was ignored")
    reader.finish()


def _note(placer: SamplePlacer, tally: Tally) -> None:
    for kind, name in (("iphone", "phones"), ("watch", "watches")):
        if (count := placer.writers.count(kind)) > 1:
            tally.note(f"{count} {name}: where two recorded the same minute, the larger value holds")
    if placer.repeats.forgotten:
        tally.note(f"repeats of the first {placer.repeats.forgotten:,} samples may not have been recognised")
