"""Where the records of a build come from: a store of records, a wide table, LifeSnaps, minute days, or nowhere."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wearjax.days import labels
from wearjax.days.open import open_days
from wearjax.errors import ConfigError, SourceError, WearjaxError
from wearjax.segments import daily_records
from wearjax.sources import csv_table, daily_csv, lifesnaps, reading, synthetic_daily
from wearjax.sources.daily_record import DailyRecord
from wearjax.sources.tally import Tally

LIFESNAPS_COLUMNS = {"id", "date", "filtereddemographicvo2max", "rmssd", "sleep_duration"}
Progress = Callable[[int, int], None] | None


@dataclass(frozen=True, eq=False)
class Origin:
    """Records that can be read as often as wanted.

    Attributes:
        name: first word of the items' ids.
        facts: what is kept of the origin; the same for the same records wherever they lie.
        place: what tells two origins of the same facts apart while a build is under way.
        read: yields the records, uncleaned.
        total: people, 0 where it is not known beforehand.
    """

    name: str
    facts: Mapping[str, object]
    place: str
    read: Callable[[Tally, Progress], Iterator[DailyRecord]] = field(repr=False)
    total: int = 0


def synthetic(n: int, *, days: int = 500, seed: int = 0) -> Origin:
    """A cohort of invented people. Raises ConfigError on an impossible size."""
    synthetic_daily.people(n, days, seed)  # refuses at once
    facts = {"source": "synthetic", "people": n, "days": days, "seed": seed}

    def read(tally: Tally, progress: Progress) -> Iterator[DailyRecord]:
        for done, record in enumerate(synthetic_daily.people(n, days, seed), 1):
            yield record
            if progress:
                progress(done, n)

    return Origin("synthetic", facts, "", read, n)


def at(path: str | os.PathLike, *, days: int | None = None, units: Mapping[str, str] | None = None) -> Origin:
    """Records at a path, whatever they are stored in.

    Args:
        days: keep the latest days of each person only.
        units: of a wide table's columns, e.g. `{"sleep_duration": "min"}`.

    Raises:
        SourceError, StoreError: nothing there, or nothing that is known.
        ConfigError: units of something other than a wide table, or fewer days than a window has.
    """
    path = Path(path)
    if days is not None and days < 1:
        raise ConfigError(f"days: must be at least 1, got {days}")
    kind, read, total = _found(path, units or {})
    if units and kind != "csv":
        raise ConfigError(f"{path}: units are for wide tables, this is a source of kind {kind!r}")

    def latest(tally: Tally, progress: Progress) -> Iterator[DailyRecord]:
        for record in reading.each(path, read(tally, progress)):
            yield _latest(record, days)

    facts = (
        {"source": kind}
        | ({} if days is None else {"days": days})
        | ({"units": dict(units)} if units else {})
    )
    return Origin(kind, facts, str(path.resolve()), latest, total)


def _found(
    path: Path, units: Mapping[str, str]
) -> tuple[str, Callable[[Tally, Progress], Iterator[DailyRecord]], int]:
    if (path / daily_records.FILE).exists():
        store = daily_records.open_records(path)
        return "records", lambda tally, progress: _of_store(store, progress), len(store)
    table = _table(path)
    if table is not None:
        if set(csv_table.header(table)) >= LIFESNAPS_COLUMNS:
            return (
                "lifesnaps",
                lambda tally, progress: lifesnaps.read_records(path, tally=tally, progress=progress),
                0,
            )
        return (
            "csv",
            lambda tally, progress: daily_csv.read_records(path, tally=tally, units=units, progress=progress),
            0,
        )
    try:
        days = open_days(path)
    except WearjaxError as error:
        raise SourceError(
            f"{path}: neither a store of daily records ({daily_records.FILE}) nor a table (daily.csv, daily.csv.gz or "
            f"the file itself) nor a store of days ({error})"
        ) from None
    known = labels.read_demographics(path)
    return (
        "days",
        lambda tally, progress: daily_records.of_days(days, demographics=known, progress=progress),
        0,
    )


def _table(path: Path) -> Path | None:
    if path.is_file():
        return path
    found = (path / "daily.csv", path / "daily.csv.gz")
    return next((file for file in found if file.is_file()), None)


def _of_store(store: daily_records.RecordStore, progress: Progress) -> Iterator[DailyRecord]:
    for done, record in enumerate(store, 1):
        yield record
        if progress:
            progress(done, len(store))


def _latest(record: DailyRecord, days: int | None) -> DailyRecord:
    if days is None or not len(record.dates):
        return record
    kept = record.dates > record.dates[-1] - days
    return dataclasses.replace(record, dates=record.dates[kept], values=record.values[kept])
