"""Records of a Health Connect database → checked samples on a minute grid for each app."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.channels import HEART_RATE, INDEX, LARGEST, NAMES
from wearjax.sources import health_connect_exercise as exercise
from wearjax.sources.health_connect_database import Database
from wearjax.sources.local_clock import Clock, Pieces, ZoneClock
from wearjax.sources.minute_grid import MinuteGrid
from wearjax.sources.repeats import Repeats
from wearjax.sources.tally import Tally

_COLUMNS = (
    "start_time", "start_zone_offset", "end_time", "end_zone_offset", "app_info_id", "device_info_id",
    "recording_method", "last_modified_time",
)  # fmt: skip
_START, _START_OFFSET, _END, _END_OFFSET, _APP, _DEVICE, _METHOD, _WRITTEN, _VALUE = range(9)
_OFFSETS = [_START_OFFSET, _END_OFFSET]
_BY_HAND = 3
_EARLIEST, _LATEST = 1_167_609_600, 4_102_444_800  # 2007 and 2100
_LONGEST = _SLACK = 86_400
_OFFSET_MAX = 18 * 3600
_NUMBERS = 2.0**31  # row numbers below it
_TINY = 1e-300  # writers put the smallest float for "not recorded"
_HEART_RATE_MAX = 300.0
_MICRO = 60  # seconds: sessions this short are pieces of a night, and so far apart they still touch
_SLEEPING, _NOT_SLEEPING = (2, 4, 5, 6), (0, 1, 3, 7)
_ASLEEP, _INBED = INDEX["sleep_asleep"], INDEX["sleep_inbed"]
_SERIES = ("heart_rate_record_series_table", "heart_rate_record_table")
Rows = Float64[np.ndarray, "record 9"]
_Fault = tuple[str, Callable[[Rows], Bool[np.ndarray, "record"]]]


@dataclass(frozen=True)
class Quantity:
    """A table of amounts over intervals, and the channels of what a phone recorded and of what is worn."""

    table: str
    column: str
    phone: int | None
    worn: int | None


QUANTITIES = (
    Quantity("steps_record_table", "count", INDEX["iphone_steps"], INDEX["watch_steps"]),
    Quantity("distance_record_table", "distance", INDEX["iphone_distance"], INDEX["watch_distance"]),
    Quantity("floors_climbed_record_table", "floors", INDEX["iphone_flights"], None),
    Quantity("active_calories_burned_record_table", "energy", None, INDEX["watch_energy"]),
)


class RecordReader:
    """Places the records of the chosen apps; counts every record as used or skipped.

    Args:
        apps: numbers of the apps whose records are read.

    Attributes:
        grids: the samples of each app.
    """

    def __init__(
        self, database: Database, *, clock: Clock, tally: Tally, apps: list[int], include_manual: bool
    ):
        self._database, self._clock, self._tally = database, clock, tally
        self._apps = apps
        self._include_manual = include_manual
        self._kinds = database.device_kinds()
        self._worn_apps = self._apps_with_hearts()
        self._guessed: Counter[str] = Counter()
        self._step: Callable[[int], None] = lambda count: None
        self.grids: dict[int, MinuteGrid] = {app: MinuteGrid() for app in apps}

    def _apps_with_hearts(self) -> set[int]:
        found: set[int] = set()
        for batch in self._database.numbers("heart_rate_record_table", ("app_info_id",)):
            found |= set(np.unique(batch[np.isfinite(batch)]).astype(int).tolist())
        return found

    def read(self, *, progress: Callable[[int, int], None] | None) -> None:
        """Reads all tables of known measures."""
        tables = [q.table for q in QUANTITIES] + [
            _SERIES[0],
            "sleep_session_record_table",
            "sleep_stages_table",
        ]
        total, done = sum(self._database.count(table) for table in tables), 0

        def step(count: int) -> None:
            nonlocal done
            done += count
            if progress:
                progress(done, total)

        self._step = step
        for quantity in QUANTITIES:
            self._read_quantity(quantity)
        self._read_heart_rate()
        self._read_sleep()
        self._read_exercise()
        left = self._database.count("total_calories_burned_record_table")
        self._tally.skip("total_calories_burned", "resting energy included", left)
        if self._guessed:
            said = ", ".join(f"{count:,} taken as {kind}" for kind, count in sorted(self._guessed.items()))
            self._tally.note(
                f"records that name no device: {said} (worn where the app also wrote heart rates, else the phone's)"
            )

    # -- quantities

    def _read_quantity(self, quantity: Quantity) -> None:
        measure = quantity.table.removesuffix("_record_table")
        repeats = Repeats()
        for batch in self._database.numbers(quantity.table, (*_COLUMNS, quantity.column)):
            self._tally.read[measure] += len(batch)
            self._step(len(batch))
            rows = self._sound(measure, batch, faults=(*_VALUE_FAULTS, *_TIME_FAULTS), repeats=repeats)
            kinds = self._device_kinds(rows)
            for kind, channel in (("phone", quantity.phone), ("worn", quantity.worn), ("other", None)):
                chosen = rows[kinds == kind]
                if channel is None:
                    self._tally.skip(measure, f"{kind}: no such channel", len(chosen))
                    continue
                at = self._pieces(chosen)
                for app, device in _pairs(chosen):
                    mine = (chosen[at.sample, _APP] == app) & (chosen[at.sample, _DEVICE] == device)
                    amount = chosen[at.sample, _VALUE] * at.fraction
                    self.grids[app].add_counts(
                        channel, at.start[mine], at.end[mine], amount[mine], device=int(device)
                    )
                self._use(channel, len(chosen))

    def _device_kinds(self, rows: Rows) -> np.ndarray:
        """`"phone"`, `"worn"` or `"other"` of each row."""
        kinds = np.empty(len(rows), object)
        for app, device in _pairs(rows):
            kind = self._kinds.get(int(device), "unknown")
            mine = (rows[:, _APP] == app) & (rows[:, _DEVICE] == device)
            if kind == "unknown":
                kind = "worn" if app in self._worn_apps else "phone"
                self._guessed[kind] += int(mine.sum())
            kinds[mine] = kind
        return kinds

    # -- heart rate

    def _read_heart_rate(self) -> None:
        """Readings of the series, with what their parent record says of app, device and offset."""
        repeats = Repeats()
        own, parent = ("epoch_millis", "beats_per_minute"), ("start_zone_offset", *_COLUMNS[4:])
        for batch in self._database.numbers(_SERIES[0], own, parent=(_SERIES[1], parent)):
            self._tally.read["heart_rate"] += len(batch)
            self._step(len(batch))
            at, value, offset, rest = batch[:, 0], batch[:, 1], batch[:, 2], batch[:, 3:]
            rows = np.column_stack([at, offset, at, offset, rest, value])
            rows = self._sound("heart_rate", rows, faults=(*_HEART_FAULTS, *_TIME_FAULTS), repeats=repeats)
            kinds = self._device_kinds(rows)
            self._tally.skip("heart_rate", "phone: no such channel", int(np.sum(kinds == "phone")))
            self._tally.skip("heart_rate", "other: no such channel", int(np.sum(kinds == "other")))
            rows = rows[kinds == "worn"]
            start = self._pieces(rows).start
            for app in np.unique(rows[:, _APP]):
                mine = rows[:, _APP] == app
                self.grids[int(app)].add_rates(HEART_RATE, start[: len(rows)][mine], rows[mine, _VALUE] / 60)
            self._use(HEART_RATE, len(rows))

    # -- sleep

    def _read_sleep(self) -> None:
        staged: set[float] = set()
        repeats = Repeats()
        own = ("stage_start_time", "stage_end_time", "stage_type", "parent_key")
        parent = ("start_zone_offset", "end_zone_offset", *_COLUMNS[4:])
        for batch in self._database.numbers(
            "sleep_stages_table", own, parent=("sleep_session_record_table", parent)
        ):
            self._tally.read["sleep stages"] += len(batch)
            self._step(len(batch))
            start, end, stage, key, before, after, rest = (*batch[:, :6].T, batch[:, 6:])
            staged |= set(key.tolist())
            rows = np.column_stack([start, before, end, after, rest, stage])
            rows = self._sound("sleep stages", rows, faults=(*_TIME_FAULTS, _NO_LENGTH), repeats=repeats)
            sleeping, awake = (np.isin(rows[:, _VALUE], codes) for codes in (_SLEEPING, _NOT_SLEEPING))
            self._tally.skip("sleep stages", "unknown stage", int(np.sum(~sleeping & ~awake)))
            self._tally.skip("sleep stages", "not asleep: ends no other record's sleep", int(awake.sum()))
            self._flag(_ASLEEP, rows[awake], on=False)
            self._flag(_ASLEEP, rows[sleeping])
        self._read_sessions(staged)

    def _read_sessions(self, staged: set[float]) -> None:
        found = []
        repeats = Repeats()
        for batch in self._database.numbers("sleep_session_record_table", (*_COLUMNS, "row_id")):
            self._tally.read["sleep"] += len(batch)
            self._step(len(batch))
            faults = (*_TIME_FAULTS, _NO_LENGTH)
            found.append(self._sound("sleep", batch, faults=faults, repeats=repeats, own=False))
        if not found:
            return
        rows = np.concatenate(found)
        whole = ~np.isin(rows[:, _VALUE], np.array(sorted(staged)))
        merged, pieces = merge_micro(rows)
        if pieces:
            self._tally.note(
                f"{pieces:,} sleep sessions of a minute or less were joined to {len(merged):,} spans"
            )
        self._flag(_INBED, merged, used=len(rows))
        self._flag(_ASLEEP, merge_micro(rows[whole])[0], used=int(whole.sum()))
        if whole.any() and not whole.all():
            self._tally.note(
                f"{int(whole.sum()):,} sleep sessions have no stages and count as asleep throughout"
            )

    # -- workouts

    def _read_exercise(self) -> None:
        table = "exercise_session_record_table"
        titles = {r: exercise.of_title(t) for r, t in self._database.texts(table, ("row_id", "title"))}
        codes: list[tuple[int, str | None]] = []
        for batch in self._database.numbers(table, ("row_id", "exercise_type")):
            codes += [(int(c), titles.get(r)) for r, c in batch[np.isfinite(batch).all(axis=1)].tolist()]
        meaning, numbering = exercise.learn(codes)
        if numbering:
            self._tally.note(f"exercise codes follow the {numbering} numbering, as titles beside them show")
        repeats = Repeats()
        for batch in self._database.numbers(table, (*_COLUMNS, "row_id", "exercise_type")):
            self._tally.read["exercise"] += len(batch)
            code_of = {row: code for row, code in batch[:, [_VALUE, _VALUE + 1]].tolist()}
            faults = (*_TIME_FAULTS, _NO_LENGTH)
            rows = self._sound("exercise", batch[:, :-1], faults=faults, repeats=repeats, own=False)
            for row in rows:
                code = code_of.get(row[_VALUE], np.nan)
                workout = titles.get(row[_VALUE]) or meaning.get(int(code) if np.isfinite(code) else -1)
                if workout is None:
                    self._tally.skip("exercise", _unknown(code, numbering))
                else:
                    self._flag(INDEX[f"workout_{workout}"], row[None], used=1)

    # -- all

    def _flag(self, channel: int, rows: Rows, *, on: bool = True, used: int | None = None) -> None:
        at = self._pieces(rows)
        for app in np.unique(rows[:, _APP]):
            mine = rows[at.sample, _APP] == app
            self.grids[int(app)].add_flags(channel, at.start[mine], at.end[mine], on=on)
        if on:
            self._use(channel, len(rows) if used is None else used)

    def _pieces(self, rows: Rows) -> Pieces:
        return self._clock.pieces(*rows[:, [_START, _END, _START_OFFSET, _END_OFFSET]].T.astype(np.int64))

    def _sound(
        self,
        measure: str,
        rows: np.ndarray,
        *,
        faults: tuple[_Fault, ...],
        repeats: Repeats,
        own: bool = True,
    ) -> Rows:
        """The rows that can be placed, times in seconds; the others are counted under the first fault that applies.

        Args:
            own: the last column is a value that tells records apart; else it is their number.
        """
        rows = rows.copy()
        rows[:, [_START, _END, _WRITTEN]] = np.floor(rows[:, [_START, _END, _WRITTEN]] / 1000)
        rows[:, _DEVICE] = np.where(np.abs(rows[:, _DEVICE]) < _NUMBERS, rows[:, _DEVICE], -1)
        rows[:, _END_OFFSET] = np.where(
            np.isnan(rows[:, _END_OFFSET]), rows[:, _START_OFFSET], rows[:, _END_OFFSET]
        )
        if isinstance(self._clock, ZoneClock):  # holds for all: offsets are not used
            rows[:, _OFFSETS] = 0
        told = [_START, _END, _APP, _DEVICE, *([_VALUE] if own else [])]
        checks: tuple[_Fault, ...] = (
            ("from an app that was not chosen", lambda r: ~np.isin(r[:, _APP], self._apps)),
            *faults,
            *(() if self._include_manual else (("entered by hand", lambda r: r[:, _METHOD] == _BY_HAND),)),
            ("exact repeat", lambda r: repeats.seen(*r[:, told].T)),
        )
        for reason, fault in checks:
            bad = fault(rows)
            if bad.any():
                self._tally.skip(measure, reason, int(bad.sum()))
                rows = rows[~bad]
        return rows

    def _use(self, channel: int, count: int) -> None:
        if count:
            self._tally.used[NAMES[channel]] += count


def merge_micro(rows: Rows) -> tuple[Rows, int]:
    """Joins sessions of at most a minute that follow within a minute, app by app; also tells how many were joined."""
    micro = rows[:, _END] - rows[:, _START] <= _MICRO
    joined, pieces = [rows[~micro]], 0
    for app in np.unique(rows[micro, _APP]):
        mine = rows[micro & (rows[:, _APP] == app)]
        mine = mine[np.argsort(mine[:, _START], kind="stable")]
        reach = np.maximum.accumulate(mine[:, _END])
        first = np.flatnonzero(np.concatenate(([True], mine[1:, _START] > reach[:-1] + _MICRO)))
        spans = mine[first].copy()
        last = np.append(first[1:], len(mine)) - 1
        spans[:, _END], spans[:, _END_OFFSET] = reach[last], mine[last, _END_OFFSET]
        joined.append(spans)
        pieces += len(mine) if len(spans) < len(mine) else 0
    return np.concatenate(joined), pieces


def _pairs(rows: Rows) -> list[tuple[int, float]]:
    return [(int(app), device) for app, device in np.unique(rows[:, [_APP, _DEVICE]], axis=0)]


def _unknown(code: float, numbering: str | None) -> str:
    if not np.isfinite(code):
        return "no title and no code"
    return (
        f"code {int(code)}: no such channel" if numbering else f"code {int(code)}: no title says what it is"
    )


_TIME_FAULTS: tuple[_Fault, ...] = (
    ("no readable time", lambda r: np.isnan(r[:, _START] + r[:, _END])),
    ("no offset from UTC (give a zone)", lambda r: ~(np.abs(r[:, _OFFSETS]).max(axis=1) <= _OFFSET_MAX)),
    ("ends before it starts", lambda r: r[:, _END] < r[:, _START]),
    ("longer than 24 hours", lambda r: r[:, _END] - r[:, _START] > _LONGEST),
    ("before 2007 or after 2100", lambda r: (r[:, _START] < _EARLIEST) | (r[:, _END] > _LATEST)),
    ("ends after it was written", lambda r: r[:, _END] > r[:, _WRITTEN] + _SLACK),
)  # fmt: skip
_VALUE_FAULTS: tuple[_Fault, ...] = (
    ("value is not a number", lambda r: ~(np.abs(r[:, _VALUE]) <= LARGEST)),
    ("value is not a number", lambda r: (r[:, _VALUE] > 0) & (r[:, _VALUE] < _TINY)),
    ("negative value", lambda r: r[:, _VALUE] < 0),
)  # fmt: skip
_HEART_FAULTS: tuple[_Fault, ...] = (
    ("not a heart rate", lambda r: ~((r[:, _VALUE] > 0) & (r[:, _VALUE] <= _HEART_RATE_MAX))),
)
_NO_LENGTH: _Fault = ("no length", lambda r: r[:, _END] == r[:, _START])
