"""Generic wide tables of daily metrics: one row a person and day, one column a metric.

A file, plain or gzipped, or a folder with `daily.csv`, optional `people.csv` (user, age, sex, bmi, ethnicity, age_band,
bmi_band) and optional `blood.csv` (user, marker, value, unit, date). Dates are ISO dates; blank cells are missing.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wearjax.daily_metrics import ALIASES, BY_KEY, INDEX, N_METRICS
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import csv_table
from wearjax.sources.daily_record import BloodValue, DailyRecord, Demographics, of_rows, sex_of
from wearjax.sources.tally import Tally

NAME, PEOPLE, BLOOD = "daily", "people", "blood"
_DAYS = (-25_567, 120_530)  # 1900-01-01 and 2300-01-01, counted from 1970
USER_COLUMNS = ("user", "user_id", "id", "participant")
# What one of the metric's own unit is in the unit that a table may use.
UNITS: dict[str, dict[str, float]] = {
    "h": {"h": 1.0, "min": 60.0, "s": 3600.0, "ms": 3_600_000.0},
    "min": {"min": 1.0, "h": 1 / 60, "s": 60.0, "ms": 60_000.0},
    "%": {"%": 1.0, "fraction": 0.01},
    "kcal": {"kcal": 1.0, "kj": 4.184, "cal": 1000.0},
    "bpm": {"bpm": 1.0, "hz": 1 / 60},
    "ms": {"ms": 1.0, "s": 0.001},
}


def read_records(
    path: str | os.PathLike,
    *,
    tally: Tally,
    units: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[DailyRecord]:
    """Yields the records of a table in the order of the user ids.

    Columns are known by the metric's key or an alias, in any letter case; others are noted and left out. Of
    several rows of a person and day the last one stays.

    Args:
        tally: counts rows, values and what was left out.
        units: unit of a metric's column where it is not the metric's own, e.g. `{"sleep_duration": "min"}`.
        progress: called with (people done, people).

    Raises:
        SourceError: a file that is missing or not as described.
        ConfigError: a unit that is not known of a metric.
    """
    file, folder = _find(Path(path))
    columns, divisors = _columns(file, units or {}, tally)
    people = _people(_companion(folder, PEOPLE)) if folder else {}
    panels = _blood(_companion(folder, BLOOD)) if folder else {}
    user_column = user_column_of(file)
    users, dates, values = _read(file, user_column, columns, divisors, tally)
    for what, known in ((PEOPLE, people), (BLOOD, panels)):
        tally.skip(what, "user without daily rows", len(set(known) - set(users)))
    yield from grouped(users, dates, values, people, panels, tally=tally, progress=progress)


def grouped(
    users: np.ndarray,
    dates: np.ndarray,
    values: np.ndarray,
    people: Mapping[str, Demographics],
    panels: Mapping[str, Mapping[str, BloodValue]],
    *,
    tally: Tally,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[DailyRecord]:
    """One record of each user out of rows in any order."""
    order = np.argsort(users, kind="stable")
    names, first = np.unique(users[order], return_index=True)
    for i, rows in enumerate(np.split(order, first[1:]) if len(names) else []):
        name = str(names[i])
        yield of_rows(
            name,
            dates[rows],
            values[rows],
            demographics=people.get(name),
            blood=panels.get(name),
            tally=tally,
        )
        if progress:
            progress(i + 1, len(names))


def user_column_of(file: Path) -> str:
    """The column of user ids. Raises SourceError where there is none."""
    names = csv_table.header(file)
    for name in USER_COLUMNS:
        if name in names:
            return name
    raise SourceError(f"{file}: no column of users ({', '.join(USER_COLUMNS)}); found {', '.join(names[:8])}")


def days_of(column: pa.Array, *, where: str) -> np.ndarray:
    """Days since 1970-01-01 of ISO dates, whatever follows them. Raises SourceError naming the first other text."""
    text = pc.utf8_slice_codeunits(column, 0, 10)
    parsed = pc.strptime(text, format="%Y-%m-%d", unit="s", error_is_null=True)
    if parsed.null_count:
        bad = column.filter(pc.is_null(parsed))[0].as_py()
        raise SourceError(f"{where}: date {bad!r} is not year-month-day")
    days = pc.cast(parsed, pa.int64()).to_numpy(zero_copy_only=False) // 86_400
    if len(days) and not _DAYS[0] <= days.min() <= days.max() < _DAYS[1]:
        bad = column[int(np.argmax((days < _DAYS[0]) | (days >= _DAYS[1])))].as_py()
        raise SourceError(f"{where}: date {bad!r} is not between 1900 and 2299")
    return days


def _find(path: Path) -> tuple[Path, Path | None]:
    """The daily table, and the folder of its companions."""
    if path.is_file():
        return path, None
    file = _companion(path, NAME)
    if file is None:
        what = f"no {NAME}.csv or {NAME}.csv.gz in it" if path.is_dir() else "no such file or folder"
        raise SourceError(f"{path}: {what}")
    return file, path


def _companion(folder: Path, name: str) -> Path | None:
    found = (folder / f"{name}.csv", folder / f"{name}.csv.gz")
    return next((file for file in found if file.is_file()), None)


def _columns(file: Path, units: Mapping[str, str], tally: Tally) -> tuple[dict[str, str], dict[str, float]]:
    """Metric of each column that is used, and by what the values of a metric are divided."""
    units = {ALIASES.get(key, key): unit for key, unit in units.items()}
    for key, unit in units.items():
        known = UNITS.get(BY_KEY[key].unit, {}) if key in BY_KEY else {}
        if unit.lower() not in known:
            raise ConfigError(f"unit {unit!r} of {key!r}: known are {', '.join(known) or 'no units of it'}")
    columns: dict[str, str] = {}
    for name in csv_table.header(file):
        key = ALIASES.get(name, name)
        if key in columns.values():
            raise SourceError(f"{file}: column {name!r} is a second one of {key}")
        if key in BY_KEY:
            columns[name] = key
        elif name not in (*USER_COLUMNS, "date"):
            tally.note(f"column {name!r} is no known metric and was left out")
    if not columns:
        raise SourceError(f"{file}: no column of a daily metric; known are {', '.join(INDEX)}")
    divisors = {key: UNITS[BY_KEY[key].unit][unit.lower()] for key, unit in units.items()}
    return columns, divisors


def _read(
    file: Path, user_column: str, columns: Mapping[str, str], divisors: Mapping[str, float], tally: Tally
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    users: list[str] = []
    dates, values = [np.empty(0, np.int64)], [np.empty((0, N_METRICS))]
    for batch in csv_table.batches(file, text=(user_column, "date"), numbers=tuple(columns)):
        users += batch.column(user_column).to_pylist()
        dates.append(days_of(batch.column("date"), where=str(file)))
        block = np.full((len(batch), N_METRICS), np.nan)
        for name, key in columns.items():
            block[:, INDEX[key]] = csv_table.floats(batch.column(name)) / divisors.get(key, 1.0)
        values.append(block)
    people = np.array(users, dtype=object).astype(str) if users else np.empty(0, "U1")
    table, days = np.concatenate(values), np.concatenate(dates)
    named = people != ""
    tally.skip("day", "row without a user", int((~named).sum()))
    tally.read["days"] += len(people)
    for key, i in INDEX.items():
        count = int(np.isfinite(table[named, i]).sum())
        if count:
            tally.read[key] += count
            tally.used[key] += count
    return people[named], days[named], table[named]


def _people(file: Path | None) -> dict[str, Demographics]:
    if file is None:
        return {}
    names = csv_table.header(file)
    user = user_column_of(file)
    words = [c for c in ("sex", "ethnicity", "age_band", "bmi_band") if c in names]
    numbers = [c for c in ("age", "bmi") if c in names]
    found: dict[str, Demographics] = {}
    for batch in csv_table.batches(file, text=(user, *words), numbers=numbers):
        for row in batch.to_pylist():
            if row[user] in found:
                raise SourceError(f"{file}: user {row[user]!r} has two rows")
            known: dict[str, Any] = {c: row[c] or None for c in words}
            known |= {c: _finite(row[c], c, file) for c in numbers}
            known["sex"] = sex_of(known.get("sex"))
            found[row[user]] = Demographics(**known)
    return found


def _blood(file: Path | None) -> dict[str, dict[str, BloodValue]]:
    """Panels by user; of several values of a marker the latest dated one, or the last row where none has a date."""
    if file is None:
        return {}
    user, dated = user_column_of(file), "date" in csv_table.header(file)
    text = (user, "marker", "unit", *(("date",) if dated else ()))
    found: dict[str, dict[str, BloodValue]] = {}
    for batch in csv_table.batches(file, text=text, numbers=("value",)):
        for row in batch.to_pylist():
            number = _finite(row["value"], "value", file)
            if number is None:
                continue
            value = BloodValue(number, row["unit"], _date(row["date"], file) if dated else None)
            panel = found.setdefault(row[user], {})
            before = panel.get(row["marker"])
            if before is None or (before.date or dt.date.min) <= (value.date or dt.date.min):
                panel[row["marker"]] = value
    return found


def _finite(number: float | None, column: str, file: Path) -> float | None:
    """None for a cell that is blank or says NaN."""
    if number is not None and math.isinf(number):
        raise SourceError(f"{file}: column {column!r} holds {number:g}, which is no measurement")
    return None if number is None or math.isnan(number) else number


def _date(text: str | None, file: Path) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text[:10]) if text else None
    except ValueError:
        raise SourceError(f"{file}: date {text!r} is not year-month-day") from None
