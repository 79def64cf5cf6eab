"""Fitbit account archives (Google Takeout, or the older export of the account) → days of one person.

Rules, each stated once here:

- **Local day**: the wall clock of the zone that is given. Sleep and exercise logs are written in local time; CSV
  rows name their instant. The JSON of minutes and heart rates says neither: `intraday` does, and steps are held
  against sleep to see whether it fits.
- **Measures**: steps, distance (from centimetres in JSON, metres in CSV), heart rate (mean of a minute's readings)
  and, when asked, active energy: a minute's calories less the lowest minute, an estimate.
- **Once**: the same instant in several files counts once. Where JSON and CSV hold a measure on the same local day,
  the one with more minutes is used and the other left out.
- **Sleep**: in bed for the whole log; asleep in light, deep, REM and asleep levels, less the short wakes.
- **Left out and counted**: heart rates of 70 with confidence 0 (a placeholder), negative values, rows from other
  apps, logs typed in by hand, activities outside the ten channels.
- **Non-wear**: minutes without any record, or 90 minutes on end without step, heart rate or sleep log.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import CATEGORIES, ENERGY, HEART_RATE, INDEX, MINUTES_PER_DAY, NAMES, SLEEP
from wearjax.day import Day
from wearjax.errors import ConfigError
from wearjax.sources import archive as archives
from wearjax.sources import fitbit, minute_grid, nonwear
from wearjax.sources import fitbit_takeout_files as files
from wearjax.sources.fitbit_takeout_logs import LogReader
from wearjax.sources.fitbit_takeout_minutes import Minutes, fit_clock
from wearjax.sources.local_clock import ZoneClock
from wearjax.sources.tally import Tally

SOURCE = "fitbit_takeout"
INTRADAY = ("utc", "local")
_CHANNELS = {"steps": INDEX["watch_steps"], "distance": INDEX["watch_distance"], "heart_rate": HEART_RATE,
             "calories": ENERGY}  # fmt: skip
_METRES = {"json": 0.01, "csv": 1.0}
_HEART_RATE_MAX = 300.0
_EARLIEST, _LATEST = 1_167_609_600, 4_102_444_800  # 2007 and 2100
_EPOCH = dt.date(1970, 1, 1)


def read_days(
    path: str | os.PathLike,
    *,
    tally: Tally,
    zone: str | None = None,
    intraday: str | None = None,
    absent: str = "zero-when-recording",
    participant: str = "self",
    active_energy: bool = False,
    restless_is_sleep: bool = False,
    include_third_party: bool = False,
    include_manual: bool = False,
    keep_partial: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Day]:
    """Reads an archive (zip or folder) and yields its days in order of date.

    Memory grows with the days (about 60 kB each) and by 8 bytes a heart rate, not with the archive.

    Args:
        tally: filled with what was read, used and left out.
        zone: IANA name of the zone in which the person lived, e.g. `"Europe/Berlin"`.
        intraday: clock of the times in minute and heart-rate JSON: `"utc"` or `"local"`. Needed where there is such
            JSON; without it the error says which of the two fits.
        absent: `"zero-when-recording"` or `"missing"` for minutes without a record.
        participant: id given to every day.
        active_energy: estimate `watch_energy` from calories.
        restless_is_sleep: count the classic level "restless" as asleep.
        include_third_party: use CSV rows that came from other apps.
        include_manual: use logs that a person typed in.
        keep_partial: leave a damaged file out and note it, instead of raising.
        progress: called with (bytes read, bytes in total).

    Raises:
        ConfigError: no or an unknown zone or `intraday`. SourceError: no Fitbit file, a damaged or unsafe archive;
            while iterating, before any day.
    """
    minute_grid.check_absent(absent)
    if zone is None:
        raise ConfigError(
            "fitbit-takeout: zone is needed, the IANA name of where the person lived (Europe/Berlin)"
        )
    if intraday is not None and intraday not in INTRADAY:
        raise ConfigError(f"intraday={intraday!r}: expected one of {', '.join(INTRADAY)}")
    reader = _Reader(
        ZoneClock(zone), tally, active_energy=active_energy, restless_is_sleep=restless_is_sleep,
        include_third_party=include_third_party, include_manual=include_manual,
    )  # fmt: skip

    def days() -> Iterator[Day]:
        with archives.open_archive(path) as archive:
            reader.read(archive, keep_partial=keep_partial, progress=progress)
        tally.note(reader.clock.said)
        reader.set_clock(str(path), intraday)
        yield from reader.days(participant, fill=absent == "zero-when-recording")

    return days()


class _Reader:
    def __init__(
        self, clock: ZoneClock, tally: Tally, *, active_energy: bool, restless_is_sleep: bool,
        include_third_party: bool, include_manual: bool,
    ):  # fmt: skip
        self.clock, self._tally = clock, tally
        self._active_energy = active_energy
        self._include_third_party = include_third_party
        self._grid = minute_grid.MinuteGrid()
        self._logs = LogReader(
            self._grid, clock, tally, restless_is_sleep=restless_is_sleep, include_manual=include_manual
        )
        self._json: dict[str, Minutes] = {}
        self._csv: dict[str, Minutes] = {}
        self._foreign: dict[str, Minutes] = {}

    def read(
        self, archive: archives.Archive, *, keep_partial: bool, progress: Callable[[int, int], None] | None
    ) -> None:
        found = files.find(archive)
        if found.unused:
            self._tally.note(f"{found.unused:,} files of other measures were not read")
        total, done = sum(m.size for m in found.members), 0
        for form, pairs in (("json", found.json), ("csv", found.csv)):
            for measure, member in pairs:
                try:
                    self._read_file(archive, form, measure, member)
                except archives.DamagedError as error:
                    if not keep_partial:
                        said = f"{error}; keep_partial=True leaves such files out"
                        raise archives.DamagedError(said) from None
                    self._tally.skip("file", "damaged")
                    # The store keeps this: folders above the file stay out, they may bear a person's name.
                    where = str(error).removeprefix(f"{archive.path} ({archives.shown(member.name)}): ")
                    where = f"{member.base}: {where}; such files were left out"
                    self._tally.partial = self._tally.partial or where
                done += member.size
                if progress:
                    progress(done, total)

    def _read_file(self, archive: archives.Archive, form: str, measure: str, member: archives.Member) -> None:
        if measure == "altitude":
            self._tally.skip("altitude", "file: no such channel")
        elif measure == "calories" and not self._active_energy:
            self._tally.skip("calories", "file: resting energy included (active_energy estimates the rest)")
        elif form == "csv":
            self._add(form, measure, files.read_csv(archive, member, measure))
        else:
            entries = files.read_json(archive, member)
            if measure in ("sleep", "exercise"):
                self._logs.read(measure, entries)
            else:
                self._add(form, measure, files.json_rows(measure, entries))

    def _add(self, form: str, measure: str, rows: files.Rows) -> None:
        name = f"{measure} ({form.upper()})"
        self._tally.read[name] += len(rows.at)
        rows = self._sound(name, measure, rows)
        at = rows.at
        if form == "csv":
            at = at.copy()
            at[~rows.named] = self.clock.instants(at[~rows.named])  # a naive time is the wall clock's
        value = rows.value * (_METRES[form] if measure == "distance" else 1.0)
        if form == "json":
            self._keep(self._json, measure, name, at, value)
            return
        self._keep(self._csv, measure, name, at[~rows.foreign], value[~rows.foreign])
        if self._include_third_party:
            self._keep(self._foreign, measure, name, at[rows.foreign], value[rows.foreign])
        else:
            self._tally.skip(name, "from another app", int(rows.foreign.sum()))

    def _keep(
        self, stores: dict[str, Minutes], measure: str, name: str, at: np.ndarray, value: np.ndarray
    ) -> None:
        if len(at):
            self._tally.skip(name, "same instant again", stores.setdefault(measure, Minutes()).add(at, value))

    def _sound(self, name: str, measure: str, rows: files.Rows) -> files.Rows:
        """The rows that can be placed; the others are counted under the first fault that applies."""
        faults: list[tuple[str, Callable[[files.Rows], np.ndarray]]] = [
            ("no time of day", lambda r: r.at == files.UNREADABLE),
            ("before 2007 or after 2100", lambda r: (r.at < _EARLIEST) | (r.at >= _LATEST)),
            ("value is not a number", lambda r: np.isnan(r.value)),
            ("negative value", lambda r: r.value < 0),
        ]
        if measure == "heart_rate":
            faults.append(
                ("placeholder: 70 with confidence 0", lambda r: (r.value == 70) & (r.confidence == 0))
            )
            faults.append(("not a heart rate", lambda r: (r.value == 0) | (r.value > _HEART_RATE_MAX)))
        for reason, fault in faults:
            bad = fault(rows)
            if bad.any():
                self._tally.skip(name, reason, int(bad.sum()))
                rows = files.Rows(*(column[~bad] for column in rows))
        return rows

    def set_clock(self, name: str, intraday: str | None) -> None:
        """Decides what the JSON's times are, with the evidence of steps and sleep."""
        if any(self._json.values()):
            steps = self._json.get("steps")
            fit = fit_clock(steps, self._logs.asleep, self.clock) if steps else None
            if intraday is None:
                said = fit.advice() if fit else "steps and sleep are too few here to tell which"
                raise ConfigError(f"{name}: intraday is needed, utc or local, for times of its JSON; {said}")
            if fit is None:
                self._tally.note(f"intraday times taken as {intraday}: too few steps and nights to check it")
            else:
                self._tally.note(
                    fit.doubt(intraday) or f"intraday times taken as {intraday}: {fit.evidence()}"
                )
            if intraday == "utc":
                self._json = {measure: minutes.on(self.clock) for measure, minutes in self._json.items()}
        self._csv = {measure: minutes.on(self.clock) for measure, minutes in self._csv.items()}
        self._foreign = {measure: minutes.on(self.clock) for measure, minutes in self._foreign.items()}

    def days(self, participant: str, *, fill: bool) -> Iterator[Day]:
        """Days in order; the minutes of each are given up as it leaves."""
        stores = (self._json, self._csv, self._foreign)
        dates = {d.toordinal() - _EPOCH.toordinal() for d in self._grid.dates()}
        dates |= {day for store in stores for minutes in store.values() for day in minutes.days}
        measures = {measure for store in stores for measure in store}
        still = self._still(dates)
        lowest = self._lowest_calories()
        sleeps = bool(self._logs.logged)
        for day in sorted(dates):
            date = _EPOCH + dt.timedelta(days=day)
            values = self._grid.take(date)
            for measure in sorted(measures):
                minutes = self._minutes(measure, day)
                if minutes is not None:
                    values[_CHANNELS[measure]] = _in_stored_unit(measure, minutes, lowest)
            worn_not = still[day] | ~self._recorded(values, day)
            self._tally.record(date, values)
            if fill:
                self._fill(values, measures, sleeps, self.clock.skipped(date))
            yield Day(values, participant, date, float(worn_not.sum()), SOURCE)

    def _minutes(self, measure: str, day: int) -> Float32[np.ndarray, "minute=1440"] | None:
        """The day's minutes in the form that has more of them, with those of other apps where they are more."""
        mean = measure == "heart_rate"
        forms = [
            (name, store[measure])
            for name, store in (("CSV", self._csv), ("JSON", self._json))
            if measure in store
        ]
        forms.sort(key=lambda form: -form[1].recorded(day))
        chosen = None
        for name, minutes in forms:
            recorded, taken = minutes.recorded(day), minutes.take(day, mean=mean)
            if taken is None:
                continue
            if chosen is None:
                chosen = taken
                self._tally.used[NAMES[_CHANNELS[measure]]] += recorded
            else:
                self._tally.skip(
                    f"{measure} ({name})", "minute: the day was taken from the other form", recorded
                )
        foreign = self._foreign[measure].take(day, mean=mean) if measure in self._foreign else None
        if foreign is None or chosen is None:
            return chosen if foreign is None else foreign
        return np.where(np.isnan(chosen), foreign, chosen) if mean else np.fmax(chosen, foreign)

    def _still(self, dates: set[int]) -> dict[int, Bool[np.ndarray, "minute=1440"]]:
        """Minutes of each day that lie in 90 minutes on end without a sign of life."""
        still: dict[int, np.ndarray] = {}
        ordered = sorted(dates)
        for run in np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1):
            alive = np.zeros((len(run), MINUTES_PER_DAY), bool)
            for i, day in enumerate(run.astype(int)):
                for store in (self._json, self._csv, self._foreign):
                    if "heart_rate" in store and day in store["heart_rate"].days:
                        alive[i] |= store["heart_rate"].days[day][1] > 0
                    if "steps" in store and day in store["steps"].days:
                        alive[i] |= store["steps"].days[day][0] > 0
                if day in self._logs.logged:
                    alive[i] |= self._logs.logged[day]
            quiet = nonwear.unmoved_runs(~alive.ravel()).reshape(alive.shape)
            still.update(zip(run.astype(int).tolist(), quiet, strict=True))
        return still

    def _recorded(self, values: np.ndarray, day: int) -> Bool[np.ndarray, "minute=1440"]:
        recorded = ~np.isnan(values[list(_CHANNELS.values())]).all(axis=0)
        return recorded | self._logs.logged[day] if day in self._logs.logged else recorded

    def _lowest_calories(self) -> float:
        found = [
            row[0][row[0] > 0].min()
            for store in (self._json, self._csv)
            if "calories" in store
            for row in store["calories"].days.values()
            if (row[0] > 0).any()
        ]
        if found:
            self._tally.note("watch_energy is an estimate: minute calories less the lowest minute")
        return float(min(found)) if found else 0.0

    def _fill(self, values: np.ndarray, measures: set[str], sleeps: bool, skipped: range) -> None:
        """Zeros where the tracker recorded on the day; what the archive never holds stays missing."""
        raw = values.copy()
        tracked = not np.isnan(values[list(_CHANNELS.values())]).all()
        filled: list[int] = []
        if tracked:
            filled += [_CHANNELS[m] for m in measures if m != "heart_rate"]
            if self._tally.read["exercise"]:
                filled += CATEGORIES["workouts"]
        if sleeps and not np.isnan(values[list(SLEEP)]).all():
            filled += SLEEP
        values[filled] = np.nan_to_num(values[filled], nan=0.0)
        values[:, skipped] = raw[:, skipped]


def _in_stored_unit(measure: str, minutes: np.ndarray, lowest: float) -> np.ndarray:
    if measure == "heart_rate":
        return minutes / np.float32(60)
    return fitbit.above_rest(minutes, lowest) if measure == "calories" else minutes
