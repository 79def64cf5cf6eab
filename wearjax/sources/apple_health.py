"""Apple Health exports → days.

Rules, each stated once here:

- **Local day**: the wall clock of each record's own offset, or one named zone for all (`zone`). A sample over
  a clock change is cut there; the hour a spring day lacks is missing; in the hour an autumn day has twice,
  counts add, heart rates average and flags unite.
- **Minutes**: counts, distance and energy spread evenly over [start, end), so daily totals stay exact; heart
  rate is the mean of a minute's readings and is never filled; flags stand where a minute's middle is covered.
- **Devices**: iPhone and Watch have channels of their own and are never merged. Two devices of one kind at
  the same minute: the larger value. Other makers' devices and apps are left out and counted by default.
- **Sleep and workouts**: the union over all sources, from start to end with pauses.
- **Left out and counted**: records inside a Correlation (repetitions), entries made by hand, exact repeats,
  and records that are reversed, negative, longer than 24 hours, before 2007 or after the export.
- **Non-wear**: 60 minutes for each clock hour in which neither phone nor watch recorded anything.
- **Privacy**: the description of the person, source names and device names reach no output, tally or message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from wearjax.day import Day
from wearjax.sources import apple_health_container as container
from wearjax.sources import apple_health_xml as xml
from wearjax.sources import local_clock, minute_grid
from wearjax.sources.apple_health_records import RecordReader
from wearjax.sources.apple_health_samples import SamplePlacer
from wearjax.sources.tally import Tally

SOURCE = "apple_health"


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
        include_third_party: put other makers' steps, distance, energy and heart rate into the watch's
            channels, as further devices.
        include_manual: keep what a person typed in.
        keep_partial: from a file that breaks off, yield what was read and add a note, instead of raising.
        progress: called with (bytes read, bytes in total).

    Raises:
        ConfigError: unknown `absent` or `zone`, at the call.
        SourceError: no readable export, an unknown unit, or a broken file; while iterating, before any day.
    """
    minute_grid.check_absent(absent)
    clock = local_clock.choose(zone)
    grid = minute_grid.MinuteGrid()

    def days() -> Iterator[Day]:
        with container.open_export(path, tally=tally) as export:
            placer = SamplePlacer(
                grid, clock=clock, tally=tally, name=export.name, include_third_party=include_third_party
            )
            reader = RecordReader(placer, tally=tally, name=export.name, include_manual=include_manual)
            _read(export, reader, tally, keep_partial=keep_partial, progress=progress)
            _note(placer, tally)
        for date in grid.dates():
            raw = grid.take(date)
            values = minute_grid.zero_when_recording(raw) if absent == "zero-when-recording" else raw
            gap = clock.skipped(date)
            values[:, gap] = raw[:, gap]
            yield Day(values, participant, date, minute_grid.nonwear_by_hour(raw), SOURCE)

    return days()


def _read(
    export: container.Export,
    reader: RecordReader,
    tally: Tally,
    *,
    keep_partial: bool,
    progress: Callable[[int, int], None] | None,
) -> None:
    def tell() -> None:
        if progress:
            progress(export.done(), export.total)

    try:
        cleaned = xml.parse(export.chunks, reader.attach, name=export.name, progress=tell)
    except container.DamagedError as error:
        records = reader.records
        if not keep_partial:
            raise container.DamagedError(f"{error}; {records:,} records came before, none was kept") from None
        tally.partial = f"{error}; the {records:,} records before it were kept"
    else:
        if cleaned.dropped:
            tally.note(f"{cleaned.dropped:,} bytes that XML forbids were dropped")
        if cleaned.ignored_tail:
            tally.note("what follows the end of the HealthData document was ignored")
    reader.finish()


def _note(placer: SamplePlacer, tally: Tally) -> None:
    for kind, name in (("iphone", "phones"), ("watch", "watches")):
        if (count := placer.devices.count(kind)) > 1:
            tally.note(f"{count} {name}: where two recorded the same minute, the larger value holds")
    if placer.repeats.forgotten:
        tally.note(f"repeats of the first {placer.repeats.forgotten:,} samples may not have been recognised")
