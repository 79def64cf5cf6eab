"""MOVER, the SIS part: nine hospital tables onto one-minute rows per surgery.

Layout as far as it is public: a folder (often called `EMR`) of CSV files keyed by `PID`, one per surgery, with
`\\N` or nothing for a missing value, names that write 0 for O (`SP02`, `ETC02`, `FI02`, `ET02`), and times as ISO
8601 in some tables and US month-first in others. Five of the nine hold the variables of VitalBench:
`patient_information` (Age, Gender, Ht, Wt, OR and surgery times), `patient_vitals` (HRp, SP02),
`patient_observations` (Temp, SBP_ART, DBP_ART, MAP_ART), `patient_ventilator` (Agent, Agent_Fi, Agent_Et, TV, RR,
PEEP, PIP, ETC02, FI02, ET02) and `patient_medication` (Drug_name, Dose, Drug_units, Start_time, End_time).
`patient_labs`, `patient_input_output`, `patient_procedure_events` and `patient_a_line` hold none.

How VitalBench came from these to its rows is not published. Assumed here:

- rows cover the time in the operating room (`span`), one a minute; the last value of a minute counts;
- `Agent_D`, `Agent_I`, `Agent_N`, `Agent_S` are 1 in the minutes in which the ventilator names that agent;
- a bolus counts in its minute, an infusion is spread evenly from its start to its end; doses are amounts given in
  that minute (`doses="minute"`) or since the start (`"cumulative"`); propofol drips count as propofol;
- a surgery with ventilator rows is one in general anaesthesia (the tables do not name the kind);
- values outside the plausible range are artefacts or marks of the device: left out and counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from wearjax.errors import SourceError
from wearjax.sources import vital_csv, vital_grid
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case, count_values
from wearjax.sources.vital_inclusion import Criteria, Facts, reason
from wearjax.vitals import Centre

Span = Literal["room", "surgery"]
TABLES = ("information", "vitals", "observations", "ventilator", "medication")
WITHOUT_VARIABLES = ("labs", "input_output", "procedure_events", "a_line")
_WINDOWS = {"room": ("or_start", "or_end"), "surgery": ("surgery_start", "surgery_end")}
_LONGEST_HOURS = 48  # a longer stay in the room is an error of the dates
_MEASURES = {
    "vitals": ("hrp", "sp02"),
    "observations": ("temp", "sbp_art", "dbp_art", "map_art"),
    "ventilator": ("agent_fi", "agent_et", "tv", "rr", "peep", "pip", "etc02", "fi02", "et02"),
}
_DRUGS = {"propofol drip": "Propofol"}  # spellings that the variable table does not have
_MILLIGRAMS = {"mg": 1.0, "mcg": 1e-3, "ug": 1e-3, "µg": 1e-3, "g": 1e3}
_MINUTE = np.timedelta64(60, "s")


@dataclass(frozen=True, eq=False)
class _Surgeries:
    """The surgeries that are read: where each lies in one long grid of minutes."""

    ids: list[str]
    start: np.ndarray  # datetime64[s], whole minutes
    rows: np.ndarray
    hours: list[float | None]
    static: dict[str, np.ndarray]
    values: np.ndarray = field(repr=False)  # (minutes of all surgeries, variables)
    offsets: np.ndarray


def read_cases(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    span: Span = "room",
    doses: Literal["minute", "cumulative"] = "minute",
    criteria: Criteria | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Case]:
    """Yields the surgeries by start, then id. All surgeries that pass the criteria are held in memory.

    Args:
        progress: called with (tables read, tables in total).

    Raises:
        SourceError: one of the five tables is missing or lacks a column.
    """
    folder = _folder(Path(path))
    files = {name: _table(folder, name) for name in TABLES}
    absent = [f"patient_{name}.csv" for name, file in files.items() if file is None]
    if absent:
        raise SourceError(f"{folder}: lacks {', '.join(absent)} of MOVER's SIS tables")
    present = {name: file for name, file in files.items() if file is not None}
    for name in WITHOUT_VARIABLES:
        if _table(folder, name):
            tally.note(f"patient_{name} holds no variable of VitalBench: not read")
    ventilated = _ventilated(present["ventilator"])
    surgeries = _surgeries(present["information"], centre, span, ventilated, criteria, tally)
    if not surgeries.ids:
        return
    for done, name in enumerate(("vitals", "observations", "ventilator"), start=1):
        _place_measures(present[name], name, surgeries, centre, tally)
        if progress:
            progress(done, 4)
    _place_doses(present["medication"], surgeries, centre, doses, tally)
    if progress:
        progress(4, 4)
    for i in np.lexsort((np.array(surgeries.ids), surgeries.start)):
        values = surgeries.values[surgeries.offsets[i] : surgeries.offsets[i + 1]]
        if not values.any():
            tally.skip("case", "no value of a VitalBench variable")
            continue
        for name, column in surgeries.static.items():
            position = centre.find(name)
            if position is not None and np.isfinite(column[i]):
                values[:, position] = column[i]
        count_values(values, centre, tally)
        name = surgeries.ids[i]
        yield Case(name, surgeries.start[i].item(), values, surgeries.hours[i], name in ventilated)


def _folder(path: Path) -> Path:
    """The folder of the tables, or the `EMR` folder below the given one."""
    if not path.is_dir():
        raise SourceError(f"{path}: no such folder of MOVER tables")
    inner = path / "EMR"
    return inner if inner.is_dir() and _table(path, "information") is None else path


def _table(folder: Path, name: str) -> Path | None:
    candidates = (folder / f"patient_{name}{suffix}" for suffix in (".csv", ".csv.gz"))
    return next((file for file in candidates if file.is_file()), None)


def _ventilated(file: Path) -> set[str]:
    return set(pc.unique(vital_csv.read(file, text=("pid",)).text["pid"]).to_pylist()) - {None}


def _surgeries(
    file: Path,
    centre: Centre,
    span: Span,
    ventilated: set[str],
    criteria: Criteria | None,
    tally: Tally,
) -> _Surgeries:
    numbers = ("age", "ht", "wt")
    clock = [name for window in _WINDOWS.values() for name in window]
    found = vital_csv.read(file, text=("pid", "gender", *clock), numbers=numbers)
    times = {name: vital_csv.times(found.text[name], where=f"{file} {name}") for name in clock}
    static = {"Age": found.numbers["age"], "height": found.numbers["ht"], "weight": found.numbers["wt"]}
    static["Gender"] = vital_csv.sexes(found.text["gender"])
    kept, starts, rows, hours = [], [], [], []
    seen: set[str] = set()
    ids = found.text["pid"].to_pylist()
    for i, name in enumerate(ids):
        length = _hours(*(times[column][i] for column in _WINDOWS["surgery"]))
        window = _window(times, i, span)
        why = None
        if name is None or name in seen:
            why = "no PID" if name is None else "PID given twice (first row kept)"
        elif criteria:
            age, weight = (_known(static[column][i]) for column in ("Age", "weight"))
            why = reason(Facts(length, age, weight, name in ventilated), criteria)
        if why is None and window is None:
            why = "no usable start and end"
        if why is not None or window is None:
            tally.skip("case", why or "no usable start and end")
            continue
        seen.add(name)
        kept.append(i)
        starts.append(window[0])
        rows.append(window[1])
        hours.append(length)
    offsets = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    return _Surgeries(
        ids=[ids[i] for i in kept],
        start=np.array(starts, "datetime64[s]"),
        rows=np.array(rows, np.int64),
        hours=hours,
        static={name: column[kept] for name, column in static.items()},
        values=np.zeros((int(offsets[-1]), centre.n_variables), np.float32),
        offsets=offsets,
    )


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _hours(start: np.datetime64, end: np.datetime64) -> float | None:
    length = (end - start) / np.timedelta64(3600, "s")
    return float(length) if length > 0 else None  # NaT compares false


def _window(times: dict[str, np.ndarray], i: int, span: Span) -> tuple[np.datetime64, int] | None:
    """First minute and number of rows: of the span, else of the other one."""
    for name in (span, *(other for other in _WINDOWS if other != span)):
        start, end = (times[column][i] for column in _WINDOWS[name])
        hours = _hours(start, end)
        if hours is not None and hours <= _LONGEST_HOURS:
            first = start.astype("datetime64[m]").astype("datetime64[s]")
            return first, int(np.ceil((end - first) / _MINUTE))
    return None


def _locate(
    pids: pa.Array, clock: np.ndarray, surgeries: _Surgeries, tally: Tally, table: str
) -> tuple[np.ndarray, np.ndarray]:
    """For each row of a table: the surgery's number, and the minute within it (float); -1 where there is none."""
    number = pc.index_in(pids, value_set=pa.array(surgeries.ids, pa.string()))
    which = pc.fill_null(number, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    tally.skip(f"patient_{table} row", "of a surgery that is not read", int(np.sum(which < 0)))
    minute = np.full(len(which), -1.0)
    ours = (which >= 0) & ~np.isnat(clock)
    tally.skip(f"patient_{table} row", "no time", int(np.sum((which >= 0) & np.isnat(clock))))
    minute[ours] = (clock[ours] - surgeries.start[which[ours]]) / _MINUTE
    which[~ours] = -1
    return which, minute


def _place_measures(file: Path, table: str, surgeries: _Surgeries, centre: Centre, tally: Tally) -> None:
    names = _MEASURES[table]
    agents = ("agent",) if table == "ventilator" else ()
    found = vital_csv.read(file, text=("pid", "obs_time", *agents), numbers=names)
    clock = vital_csv.times(found.text["obs_time"], where=f"{file} obs_time")
    which, minute = _locate(found.text["pid"], clock, surgeries, tally, table)
    order = np.argsort(minute, kind="stable")  # the last of a minute is written last
    inside = order[
        (minute[order] >= 0) & (minute[order] < surgeries.rows[which[order]]) & (which[order] >= 0)
    ]
    tally.skip(f"patient_{table} row", "before or after the surgery", int(np.sum(which >= 0)) - len(inside))
    row = surgeries.offsets[which[inside]] + minute[inside].astype(np.int64)
    for name in names:
        position = centre.find(name)
        assert position is not None, name
        values = found.numbers[name][inside]
        keep = vital_grid.plausible(values, centre.variables[position], tally=tally)
        surgeries.values[row[keep], position] = values[keep]
        tally.skip(centre.names[position], "not a number", found.not_numbers.get(name, 0))
    if agents:
        letters = pc.utf8_upper(pc.utf8_trim_whitespace(found.text["agent"])).to_numpy(zero_copy_only=False)
        for letter in "DINS":
            position = centre.find(f"Agent_{letter}")
            assert position is not None
            surgeries.values[row[letters[inside] == letter], position] = 1


def _place_doses(file: Path, surgeries: _Surgeries, centre: Centre, doses: str, tally: Tally) -> None:
    found = vital_csv.read(
        file, text=("pid", "drug_name", "drug_units", "start_time", "end_time"), numbers=("dose",)
    )
    start, end = (vital_csv.times(found.text[c], where=f"{file} {c}") for c in ("start_time", "end_time"))
    which, first = _locate(found.text["pid"], start, surgeries, tally, "medication")
    last = np.where(np.isnat(end), first, first + (end - start) / _MINUTE)
    position, factor = _drug_columns(found.text["drug_name"], found.text["drug_units"], centre, tally)
    with np.errstate(over="ignore"):
        amount = found.numbers["dose"] * factor
    ours = (which >= 0) & (position >= 0)
    most = np.array([v.high for v in centre.variables])[position]
    usable = ours & (amount > 0) & (amount <= most)
    tally.skip("dose", "more than is ever given at once", int(np.sum(ours & (amount > most))))
    tally.skip(
        "dose", "no amount", int(np.sum((which >= 0) & (position >= 0) & ~(found.numbers["dose"] > 0)))
    )
    outside = usable & ((last < 0) | (first >= surgeries.rows[which]))
    tally.skip("dose", "before or after the surgery", int(np.sum(outside)))
    columns = set()
    for i in np.flatnonzero(usable & ~outside):
        own = surgeries.values[surgeries.offsets[which[i]] : surgeries.offsets[which[i] + 1]]
        _give(own[:, position[i]], amount[i], first[i], last[i])
        columns.add(position[i])
    if doses == "cumulative":
        for begin, stop in zip(surgeries.offsets[:-1], surgeries.offsets[1:], strict=True):
            for column in columns:
                surgeries.values[begin:stop, column] = np.cumsum(surgeries.values[begin:stop, column])


def _give(column: np.ndarray, amount: float, first: float, last: float) -> None:
    """Adds one bolus, or the part of an infusion that falls within the rows, in place."""
    begin = int(np.floor(first))
    minutes = max(int(np.ceil(last)) - begin, 1)
    lo, hi = max(begin, 0), min(begin + minutes, len(column))
    if lo < hi:
        column[lo:hi] += amount / minutes


def _drug_columns(
    drugs: pa.Array, units: pa.Array, centre: Centre, tally: Tally
) -> tuple[np.ndarray, np.ndarray]:
    """Column of each dose (-1: none), and the factor from its unit to the variable's."""
    pairs = list(zip(drugs.to_pylist(), units.to_pylist(), strict=True))
    known = {pair: _drug_column(*pair, centre) for pair in set(pairs)}
    position = np.fromiter((known[pair][0] for pair in pairs), np.int64, len(pairs))
    factor = np.fromiter((known[pair][1] for pair in pairs), np.float64, len(pairs))
    tally.skip("dose", "drug not a variable of VitalBench", int(np.sum(position < 0)))
    tally.skip("dose", "unit does not fit the drug", int(np.sum((position >= 0) & np.isnan(factor))))
    return position, factor


def _drug_column(drug: str | None, unit: str | None, centre: Centre) -> tuple[int, float]:
    name = " ".join((drug or "").split())
    position = centre.find(_DRUGS.get(name.casefold(), name))
    if position is None or centre.variables[position].static or position >= centre.n_covariates:
        return -1, np.nan
    target = centre.variables[position].unit.lower()
    given = (unit or "").strip().lower().replace("μ", "µ")  # Greek mu and the micro sign look the same
    if given == target:
        return position, 1.0
    if given in _MILLIGRAMS and target in _MILLIGRAMS:
        return position, _MILLIGRAMS[given] / _MILLIGRAMS[target]
    return position, np.nan
