"""How much was measured: by channel and hour, by participant and day, and the wear summary of a day set."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from wearjax import npz, writing
from wearjax.channels import CHANNELS, HOURS_PER_DAY, MINUTES_PER_DAY, N_CHANNELS
from wearjax.days import clean
from wearjax.days.store import Days
from wearjax.errors import ConfigError, StoreError

PARTICIPANTS_MAX = 80
CALENDAR_DAYS_MAX = 120
DESCRIBED_DAYS_MAX = 1000
_MINUTES_PER_HOUR = MINUTES_PER_DAY // HOURS_PER_DAY


def coverage(
    days: Days,
    indices: Sequence[int] | Int[np.ndarray, "day"] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Shares of measured values, small enough to plot.

    The participant table keeps at most 80 participants (those with most days) and the 120 calendar days in
    which these have most days; `n_days`, `n_participants` and `days_shown` tell what share that is.

    Args:
        days: the day set.
        indices: store indices to count; None counts every day.
        progress: called with (days done, days in total).

    Returns:
        `channel_hour` f64 `(19, 24)`: measured minutes over all minutes of that hour;
        `participant_day` f64 `(P, D)`: measured cells over 19 * 1440 of that day, NaN where there is no day;
        `participants` str `(P,)` in ascending order; `first_date` ISO date of column 0;
        `channel_days` int64 `(19,)`: days with at least one measured minute;
        `n_days`, `n_participants`, `days_shown`: counts.

    Raises:
        ConfigError: no day to count, or an index outside the day set.
    """
    chosen = _indices(days, indices)
    participants = np.asarray([str(days.participants[i]) for i in chosen])
    ordinals = np.asarray([dt.date.fromisoformat(str(days.dates[i])).toordinal() for i in chosen])
    rows = _most_days(participants)
    start, width = _fullest_window(ordinals[np.isin(participants, rows)])
    row_of = {name: row for row, name in enumerate(rows)}

    minutes = np.zeros((N_CHANNELS, HOURS_PER_DAY))
    with_data = np.zeros(N_CHANNELS, np.int64)
    table = np.full((len(rows), width), np.nan)
    for done, (index, name, ordinal) in enumerate(zip(chosen, participants, ordinals, strict=True), 1):
        measured = ~np.isnan(days.values(int(index)))
        hours = measured.reshape(N_CHANNELS, HOURS_PER_DAY, _MINUTES_PER_HOUR).sum(axis=2)
        minutes += hours
        with_data += hours.any(axis=1)
        if name in row_of and start <= ordinal < start + width:
            table[row_of[name], ordinal - start] = hours.sum() / measured.size
        if progress is not None:
            progress(done, len(chosen))
    return {
        "channel_hour": minutes / (_MINUTES_PER_HOUR * len(chosen)),
        "participant_day": table,
        "participants": np.asarray(rows, dtype=str),
        "first_date": dt.date.fromordinal(start).isoformat(),
        "channel_days": with_data,
        "n_days": len(chosen),
        "n_participants": len(set(participants.tolist())),
        "days_shown": int(np.sum(~np.isnan(table))),
    }


def _indices(days: Days, indices: Sequence[int] | np.ndarray | None) -> np.ndarray:
    chosen = np.arange(len(days)) if indices is None else np.asarray(indices, dtype=np.int64).reshape(-1)
    if not len(chosen):
        raise ConfigError(f"{days.path}: no day to count")
    if chosen.min() < 0 or chosen.max() >= len(days):
        raise ConfigError(f"{days.path}: day index outside 0..{len(days) - 1}")
    return chosen


def _most_days(participants: np.ndarray) -> list[str]:
    """The participants to show, ascending; where there are too many, those with most days (ties by id)."""
    counts = Counter(participants.tolist())
    kept = sorted(counts, key=lambda name: (-counts[name], name))[:PARTICIPANTS_MAX]
    return sorted(kept)


def _fullest_window(ordinals: np.ndarray) -> tuple[int, int]:
    """First day and length of the calendar window with most days; the earliest of equal ones."""
    first, last = int(ordinals.min()), int(ordinals.max())
    width = min(last - first + 1, CALENDAR_DAYS_MAX)
    ordered = np.sort(ordinals)
    # The best window can always be slid right until it starts at a day, unless it would pass the last one.
    starts = np.unique(np.append(np.minimum(ordered, last - width + 1), first))
    inside = np.searchsorted(ordered, starts + width) - np.searchsorted(ordered, starts)
    return int(starts[np.argmax(inside)]), width


def save(table: dict[str, Any], path: str | os.PathLike) -> None:
    """Writes `coverage.npz`; arrays and strings only, so that it opens without pickle."""
    with writing.file(path) as partial:
        np.savez_compressed(partial, **table)


def load(path: str | os.PathLike) -> dict[str, Any]:
    """Reads what `save` wrote.

    Raises:
        StoreError: the file is missing, not readable, or its arrays do not fit together.
    """
    path = Path(path)
    try:
        table = npz.load(path)
    except FileNotFoundError:
        raise StoreError(f"{path}: coverage table is missing") from None
    except (ValueError, OSError) as error:
        raise StoreError(f"{path}: not a readable coverage table ({_one_line(error)})") from None
    _check(path, table)
    return {name: value.item() if value.ndim == 0 else value for name, value in table.items()}


def _check(path: Path, table: dict[str, np.ndarray]) -> None:
    for name in ("channel_hour", "participant_day", "participants", "first_date"):
        if name not in table:
            raise StoreError(f"{path}: coverage table without {name}")
    hours, by_day, people = table["channel_hour"], table["participant_day"], table["participants"]
    if hours.shape != (N_CHANNELS, HOURS_PER_DAY) or hours.dtype.kind != "f":
        raise StoreError(f"{path}: channel_hour must be float (19, 24), found {hours.dtype} {hours.shape}")
    if by_day.ndim != 2 or by_day.dtype.kind != "f" or people.shape != by_day.shape[:1]:
        raise StoreError(
            f"{path}: participant_day {by_day.dtype} {by_day.shape} does not fit participants {people.shape}"
        )
    try:
        dt.date.fromisoformat(str(table["first_date"][()]))
    except (ValueError, TypeError, IndexError):
        raise StoreError(
            f"{path}: first_date must be an ISO date, found {table['first_date']!s:.40}"
        ) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


@dataclass(frozen=True)
class WearSummary:
    """What an index tells about a day set without reading a value; dates are ISO strings.

    Attributes:
        days, participants, retained: counts; retained days pass the wear and variance filters.
        too_little_wear: days dropped because the device was off the body for more than half the day.
        too_little_variance: days dropped because a checked channel hardly varies (of those worn enough).
        first_date, last_date: range of the local dates.
        days_per_participant: minimum, median and maximum.
        wear_hours: lower quartile, median and upper quartile of worn hours a day.
        sources: days by importer.
    """

    days: int
    participants: int
    retained: int
    too_little_wear: int
    too_little_variance: int
    first_date: str
    last_date: str
    days_per_participant: tuple[int, float, int]
    wear_hours: tuple[float, float, float]
    sources: dict[str, int]

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line, for a terminal or a page."""
        least, middle, most = self.days_per_participant
        low, median, high = self.wear_hours
        return [
            ("days", f"{self.days:,}"),
            ("participants", f"{self.participants:,}"),
            ("dates", f"{self.first_date} to {self.last_date}"),
            ("days per participant", f"median {middle:g}, from {least} to {most}"),
            ("worn hours a day", f"median {median:.1f}, quartiles {low:.1f} to {high:.1f}"),
            ("retained days", f"{self.retained:,} ({self.retained / self.days:.0%})"),
            ("stored, not evaluated: worn less than half the day", f"{self.too_little_wear:,}"),
            ("stored, not evaluated: a channel hardly varies", f"{self.too_little_variance:,}"),
            ("sources", ", ".join(f"{name} {count:,}" for name, count in self.sources.items())),
        ]


def wear_summary(days: Days, indices: Sequence[int] | Int[np.ndarray, "day"] | None = None) -> WearSummary:
    """Counts, dates and wear time of a day set, from its index alone.

    Raises:
        ConfigError: no day to count, or an index outside the day set.
    """
    chosen = _indices(days, indices)
    nonwear = np.asarray(days.nonwear_minutes)[chosen].astype(np.float64)
    worn = clean.enough_wear(nonwear)
    retained = worn & clean.enough_variance(np.asarray(days.variance)[chosen])
    dates = sorted(str(days.dates[i]) for i in chosen)
    counts = Counter(str(days.participants[i]) for i in chosen)
    per_participant = np.asarray(list(counts.values()))
    hours = (MINUTES_PER_DAY - nonwear[~np.isnan(nonwear)]) / _MINUTES_PER_HOUR
    quartiles = np.percentile(hours, (25, 50, 75)) if len(hours) else np.full(3, np.nan)
    return WearSummary(
        days=len(chosen),
        participants=len(counts),
        retained=int(retained.sum()),
        too_little_wear=int((~worn).sum()),
        too_little_variance=int((worn & ~retained).sum()),
        first_date=dates[0],
        last_date=dates[-1],
        days_per_participant=(
            int(per_participant.min()),
            float(np.median(per_participant)),
            int(per_participant.max()),
        ),
        wear_hours=(float(quartiles[0]), float(quartiles[1]), float(quartiles[2])),
        sources=dict(sorted(Counter(days.source(int(i)) for i in chosen).items())),
    )


def describe(days: Days) -> list[tuple[str, list[dict[str, str]]]]:
    """Titled tables for `wearjax data inspect`; the rows of a table share their keys, which are its headings.

    Wear and dates come from the whole index, channel shares from at most 1000 days spread over the set, and
    what the import left out from the provenance of the store.
    """
    chosen = np.unique(np.linspace(0, len(days) - 1, min(len(days), DESCRIBED_DAYS_MAX)).astype(np.int64))
    table = coverage(days, chosen)
    sample = "" if len(chosen) == len(days) else f", in {len(chosen):,} days spread over the set"
    shares = table["channel_hour"].mean(axis=1)
    tables = [
        ("Days", [{"fact": name, "value": value} for name, value in wear_summary(days).rows()]),
        (
            f"Channels{sample}",
            [
                {
                    "channel": c.name,
                    "unit": c.unit,
                    "minutes measured": f"{share:.1%}",
                    "days with data": f"{n:,}",
                }
                for c, share, n in zip(CHANNELS, shares, table["channel_days"], strict=True)
            ],
        ),
    ]
    imported = getattr(days, "meta", {}).get("provenance", {}).get("import", {})
    try:
        skipped = [
            {
                "records": str(row["measure"]),
                "left out because": str(row["reason"]),
                "count": f"{row['count']:,}",
            }
            for row in imported.get("skipped", [])
        ]
        notes = [{"note": str(note)} for note in imported.get("notes", [])]
    except (KeyError, TypeError, ValueError):
        raise StoreError(f"{days.path}: the counts of its import in store.json are not as written") from None
    return tables + [(t, rows) for t, rows in (("Left out by the import", skipped), ("Notes", notes)) if rows]
