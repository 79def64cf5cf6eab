"""The VitalDB open data set as CSV: a clinical table, a list of tracks, and one table per track.

Layout, as its web interface serves it and as people keep it: `cases.csv` (or `clinical_data.csv`, …; one row per
case), `trks.csv` with `caseid, tname, tid`, and for each track a file `<tid>.csv` (plain or gzipped, anywhere
below the folder) with the columns `Time` (seconds from the start of the recording) and the track's name.

How VitalBench came from these to its 5-second rows is not published. Here the last sample of each step counts,
implausible values are left out and counted, and the rows cover the anaesthesia (see `span`). Times are anonymous:
a case has no start on the calendar.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from wearjax.errors import SourceError
from wearjax.sources import csv_table, vital_clinical, vital_csv, vital_grid
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case, count_values
from wearjax.sources.vital_clinical import Patient
from wearjax.sources.vital_inclusion import Criteria, reason
from wearjax.vitals import Centre

Span = Literal["recording", "anaesthesia", "surgery"]
_TRACK_LISTS = ("trks", "tracks", "track_list")
_SUFFIXES = (".csv", ".csv.gz")


def read_cases(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    span: Span = "anaesthesia",
    criteria: Criteria | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Case]:
    """Yields the cases of the clinical table that have tracks, by case id.

    Args:
        span: which part of the recording becomes rows; the whole of it where the table has no such times.
        criteria: leave out, and count, cases that fail them before their tracks are read.
        progress: called with (cases done, cases in total).

    Raises:
        SourceError: the clinical table or the list of tracks is missing or lacks a column.
    """
    folder = Path(path)
    patients = _patients(folder, tally)
    tracks = _tracks(folder, centre, tally)
    files = _files(folder)
    ids = sorted(patients, key=_by_number)
    tally.skip("case", "tracks without a row in the clinical table", len(set(tracks) - set(patients)))
    tally.note("VitalDB is anonymous: cases have no date, so a split by time goes by case id")
    for done, name in enumerate(ids, start=1):
        patient, own = patients[name], tracks.get(name, {})
        why = reason(patient.facts, criteria) if criteria else None
        if why is None and not own:
            why = "no track of a VitalBench variable"
        case = None if why else _case(name, patient, own, files, centre, span, tally)
        if case is not None:
            yield case
        elif why:
            tally.skip("case", why)
        if progress:
            progress(done, len(ids))


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdigit() else (1 << 62, name)


def _patients(folder: Path, tally: Tally) -> dict[str, Patient]:
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder of VitalDB tables")
    table = vital_clinical.find(folder)
    if table is None:
        raise SourceError(f"{folder}: no clinical table (cases.csv or clinical_data.csv)")
    return vital_clinical.read(table, tally=tally)


def _tracks(folder: Path, centre: Centre, tally: Tally) -> dict[str, dict[int, str]]:
    """Case id -> column -> track id, for the tracks that are variables of the centre."""
    candidates = [folder / f"{name}{suffix}" for name in _TRACK_LISTS for suffix in _SUFFIXES]
    file = next((file for file in candidates if file.is_file()), None)
    if file is None:
        raise SourceError(f"{folder}: no list of tracks (trks.csv with caseid, tname, tid)")
    found = vital_csv.read(file, text=("caseid", "tname", "tid")).text
    column_of = {name: i for i, name in enumerate(centre.names)}
    tracks: dict[str, dict[int, str]] = {}
    for case, name, track in zip(*(found[c].to_pylist() for c in ("caseid", "tname", "tid")), strict=True):
        if name in column_of and case and track:
            tracks.setdefault(vital_clinical.case_id(case), {})[column_of[name]] = track
        else:
            tally.skip("track", "not a variable of VitalBench")
    return tracks


def _files(folder: Path) -> dict[str, Path]:
    """Every CSV below the folder by its name without the ending; a track's file is named by its id."""
    found = {}
    for suffix in _SUFFIXES:
        for file in sorted(folder.rglob(f"*{suffix}")):
            found[file.name.removesuffix(suffix)] = file
    return found


def _case(
    name: str,
    patient: Patient,
    tracks: Mapping[int, str],
    files: Mapping[str, Path],
    centre: Centre,
    span: Span,
    tally: Tally,
) -> Case | None:
    samples = {}
    for position, track in sorted(tracks.items()):
        if track not in files:
            tally.skip("track", "listed, but its file is not there")
            continue
        try:
            seconds, values = _samples(files[track])
        except SourceError as error:
            tally.skip("track", "file not readable")
            if tally.skipped["track", "file not readable"] <= 5:
                tally.note(f"skipped: {error}")
            continue
        keep = vital_grid.plausible(values, centre.variables[position], tally=tally) & np.isfinite(seconds)
        if keep.any():
            samples[position] = seconds[keep], values[keep]
    if not samples:
        tally.skip("case", "no value of a VitalBench variable")
        return None
    first, last = _bounds(patient, span, samples, tally)
    try:
        n_rows = vital_grid.rows_of(last - first, step_seconds=centre.step_seconds, where=f"case {name}")
    except SourceError as error:
        tally.skip("case", "times that no surgery has")
        tally.note(f"skipped: {error}")
        return None
    values = np.zeros((n_rows, centre.n_variables), np.float32)
    for position, (seconds, column) in samples.items():
        values[:, position] = vital_grid.last_values(
            seconds - first, column, step_seconds=centre.step_seconds, n_rows=n_rows
        )
    vital_clinical.fill(values, patient, centre)
    count_values(values, centre, tally)
    return Case(name, None, values, patient.surgery_hours, patient.general_anaesthesia)


def _bounds(
    patient: Patient, span: Span, samples: Mapping[int, tuple[np.ndarray, np.ndarray]], tally: Tally
) -> tuple[float, float]:
    """Seconds of the first row, and behind the last one."""
    known = patient.spans.get(span)
    if known:
        return known
    if span != "recording":
        tally.skip("span", f"no time of the {span}: whole recording instead (case kept)")
    if "recording" in patient.spans:
        return patient.spans["recording"]
    return 0.0, max(float(seconds.max()) for seconds, _ in samples.values()) + 1.0


def _samples(file: Path) -> tuple[np.ndarray, np.ndarray]:
    names = csv_table.header(file)
    if len(names) < 2 or names[0] != "time":
        raise SourceError(f"{file}: expected the columns Time and a track, found {', '.join(names[:4])}")
    found = vital_csv.read(file, numbers=names[:2]).numbers
    return found[names[0]], found[names[1]]
