"""Google Health Connect exports (a zip with a SQLite database) → days of one person.

Rules, each stated once here:

- **Local day**: the wall clock of each record's own offset, or one named zone for all (`zone`). A record without
  an offset needs a zone, and is counted where there is none. Heart rates have the offset of their series' start.
- **Devices**: what a phone recorded goes to the phone's channels, what is worn to the watch's; they are never
  merged. Records that name no device count as worn where their app also wrote heart rates, else as the phone's.
- **Several apps**: hour by hour, the preferred app that recorded in that clock hour holds its channel, so that no
  step counts twice: in the order of `apps`, else of the person's own setting, else of how much each wrote.
  Sleep and workouts are the union over apps. Two devices of one app at the same minute: the larger value.
- **Units**: metres; active energy in small calories, as the database and the channel both have it.
- **Sleep**: in bed for the whole session; asleep in its stages sleeping, light, deep and REM, or for all of a
  session without stages. Sessions of a minute or less that follow one another are one night.
- **Workouts**: by title, or by a code that titles confirm; start to end.
- **Left out and counted**: records typed in by hand, exact repeats, and those reversed, negative, longer than
  24 hours, before 2007, or ending after they were written.
- **Privacy**: titles, notes and device names reach no output, tally or message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float32

from wearjax.channels import CATEGORIES, DEVICE_GROUPS, HOURS_PER_DAY, NAMES, SLEEP
from wearjax.day import SHAPE, Day
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import health_connect_database as databases
from wearjax.sources import local_clock, minute_grid
from wearjax.sources.health_connect_database import Database
from wearjax.sources.health_connect_records import RecordReader
from wearjax.sources.tally import Tally

SOURCE = "health_connect"
_COUNTED = [i for i in range(SHAPE[0]) if i not in SLEEP and i not in CATEGORIES["workouts"]]
_FLAGS = [*SLEEP, *CATEGORIES["workouts"]]


def read_days(
    path: str | os.PathLike,
    *,
    tally: Tally,
    absent: str = "zero-when-recording",
    zone: str = "record",
    apps: Sequence[str] = (),
    participant: str = "self",
    include_manual: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Day]:
    """Reads an export (zip, folder or database) and yields its days in order of date.

    Memory grows with days and apps (about 50 kB for a day of an app), not with the database.

    Args:
        tally: filled with what was read, used and left out.
        absent: `"zero-when-recording"` or `"missing"` for minutes without a record.
        zone: `"record"`, or an IANA zone name such as `"Europe/Berlin"`.
        apps: package names: only these apps' records, the preferred first. Empty: all apps.
        participant: id given to every day.
        include_manual: keep what a person typed in.
        progress: called with (records read, records in total).

    Raises:
        ConfigError: unknown `absent`, `zone` or app. SourceError: no readable export; while iterating, before any day.
    """
    minute_grid.check_absent(absent)
    clock = local_clock.choose(zone)

    def days() -> Iterator[Day]:
        with databases.open_database(path) as database:
            order = _order(database, apps, tally)
            reader = RecordReader(
                database, clock=clock, tally=tally, apps=order, include_manual=include_manual
            )
            reader.read(progress=progress)
        tally.note(clock.said)
        if any(tally.used[NAMES[c]] for c in DEVICE_GROUPS["iphone"]):
            tally.note("the iphone channels hold what the phone recorded, of whatever make")
        grids = [reader.grids[app] for app in order if app in reader.grids]
        dates = sorted({date for grid in grids for date in grid.dates()})
        for date in dates:
            raw = _one_day([grid.take(date) for grid in grids], tally)
            tally.record(date, raw)
            values = _filled(raw, tally) if absent == "zero-when-recording" else raw.copy()
            gap = clock.skipped(date)
            values[:, gap] = raw[:, gap]
            yield Day(values, participant, date, minute_grid.nonwear_by_hour(raw), SOURCE)

    return days()


def _order(database: Database, wanted: Sequence[str], tally: Tally) -> list[int]:
    """Numbers of the apps to read, the preferred first."""
    known = database.apps()
    if not known:
        raise SourceError(f"{database.name}: no application_info_table; this is no Health Connect export")
    if wanted:
        numbers = {name.lower(): number for number, name in known.items()}
        for name in wanted:
            if name.lower() not in numbers:
                raise ConfigError(
                    f"apps: {name!r} wrote nothing here; the export has {', '.join(sorted(known.values()))}"
                )
        return [numbers[name.lower()] for name in wanted]
    amount = dict.fromkeys(known, 0)
    for table in ("steps_record_table", "heart_rate_record_table"):
        for batch in database.numbers(table, ("app_info_id",)):
            found, counts = np.unique(batch[np.isfinite(batch)], return_counts=True)
            for app, count in zip(found.astype(int).tolist(), counts.tolist(), strict=True):
                amount[app] = amount.get(app, 0) + count
    own = [app for app in database.own_order() if app in amount]
    rest = sorted((app for app in amount if app not in own), key=lambda app: (-amount[app], app))
    writing = [known.get(app, f"app {app}") for app in [*own, *rest] if amount[app]]
    if len(writing) > 1:
        how = "as set in the app, then by records" if own else "by number of records"
        tally.note(
            f"{len(writing)} apps wrote steps or heart rates; preferred in this order ({how}): {', '.join(writing)}"
        )
    return [*own, *rest]


def _one_day(
    by_app: Sequence[Float32[np.ndarray, "channel=19 minute=1440"]], tally: Tally
) -> Float32[np.ndarray, "channel=19 minute=1440"]:
    """Hour by hour the first app that recorded a channel; flags united."""
    values = np.full(SHAPE, np.nan, np.float32)
    for app in by_app:
        values[_FLAGS] = np.fmax(values[_FLAGS], app[_FLAGS])
        held = _hours(values)[_COUNTED]
        hours = _hours(app)[_COUNTED]
        recorded = ~np.isnan(hours)
        taken = ~np.isnan(held).all(axis=2, keepdims=True)
        for channel, left_out in zip(_COUNTED, (recorded & taken).sum(axis=(1, 2)), strict=True):
            tally.skip(NAMES[channel], "minute: a preferred app recorded in this hour", int(left_out))
        values[_COUNTED] = np.where(taken, held, hours).reshape(len(_COUNTED), -1)
    return values


def _hours(values: np.ndarray) -> np.ndarray:
    return values.reshape(SHAPE[0], HOURS_PER_DAY, -1)


def _filled(raw: np.ndarray, tally: Tally) -> np.ndarray:
    """Zeros where a recording device was silent; a channel that no record of the export reached stays missing."""
    values = minute_grid.zero_when_recording(raw)
    workouts = any(tally.used[NAMES[c]] for c in CATEGORIES["workouts"])
    for channel in range(SHAPE[0]):
        reached = workouts if channel in CATEGORIES["workouts"] else tally.used[NAMES[channel]] > 0
        if not reached:
            values[channel] = raw[channel]
    return values
