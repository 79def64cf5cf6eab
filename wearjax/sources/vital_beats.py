"""Beat annotations of real operations (VitalDB Arrhythmia Database): heart rate on the grid from beat times.

A file `case_NNNN.csv` (plain or gzipped) lists beats: `time_second` from the start of the recording, and whether
the signal was bad. A case has heart rate only; every other variable is missing. The rate of a step is the mean of
60 / RR over the beats that end in it, where RR is the interval from the beat before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Float32

from wearjax.errors import SourceError
from wearjax.sources import csv_table, vital_clinical, vital_csv, vital_grid, vital_recordings
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case, count_values
from wearjax.sources.vital_clinical import Patient
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import Centre

RR_SECONDS = (0.25, 3.0)  # shorter and longer intervals are missed or doubled beats (Eun et al. 2026)
_PREFIX, _SUFFIXES = "case_", (".csv", ".csv.gz")


def heart_rate(
    seconds: Float[np.ndarray, " beat"],
    bad: Bool[np.ndarray, " beat"],
    *,
    step_seconds: float,
    first: float,
    n_rows: int,
) -> Float32[np.ndarray, " row"]:
    """Beats per minute of each step from ascending beat times; 0 where no usable interval ends in it.

    Args:
        bad: beats with bad signal; an interval that such a beat begins or ends is not used.
        first: time of the first row.
    """
    interval = np.diff(seconds)
    usable = (interval >= RR_SECONDS[0]) & (interval <= RR_SECONDS[1]) & ~bad[1:] & ~bad[:-1]
    row = np.floor((seconds[1:][usable] - first) / step_seconds).astype(np.int64)
    inside = (row >= 0) & (row < n_rows)
    rate = 60 / interval[usable][inside]
    total = np.bincount(row[inside], weights=rate, minlength=n_rows)
    count = np.bincount(row[inside], minlength=n_rows)
    return (total / np.maximum(count, 1)).astype(np.float32)


def read_beats(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    patient: Patient = vital_clinical.NOBODY,
) -> Case:
    """Reads one file; rows begin with the whole step that holds the first beat.

    Raises SourceError when the file is not readable, lacks `time_second` or has fewer than two beats.
    """
    file = Path(path)
    flagged = "bad_signal_quality" in csv_table.header(file)
    found = vital_csv.read(file, text=("bad_signal_quality",) if flagged else (), numbers=("time_second",))
    seconds = found.numbers["time_second"]
    if flagged:
        flag = pc.equal(pc.utf8_lower(found.text["bad_signal_quality"]), "true")
        bad = pc.fill_null(flag, False).to_numpy(zero_copy_only=False)
    else:
        bad = np.zeros(len(seconds), bool)
    timed = np.isfinite(seconds)
    tally.skip("beat", "no time", int(np.sum(~timed)))
    order = np.argsort(seconds[timed], kind="stable")
    seconds, bad = seconds[timed][order], bad[timed][order]
    if len(seconds) < 2:
        raise SourceError(f"{file}: {len(seconds)} beat(s); a rate needs two")
    tally.skip("beat", "bad signal", int(np.sum(bad)))
    step = centre.step_seconds
    first = float(seconds[0] // step * step)
    vital_grid.rows_of(float(seconds[-1]) - first, step_seconds=step, where=file)
    values = np.zeros((int((seconds[-1] - first) // step) + 1, centre.n_variables), np.float32)
    position = centre.find("HR")
    assert position is not None
    values[:, position] = heart_rate(seconds, bad, step_seconds=step, first=first, n_rows=len(values))
    vital_clinical.fill(values, patient, centre)
    tally.note(f"beat annotations give {centre.names[position]} only; the other variables are missing")
    count_values(values, centre, tally)
    return Case(_case_id(file), None, values, patient.surgery_hours, patient.general_anaesthesia)


def read_cases(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    clinical: str | os.PathLike | None = None,
    criteria: Criteria | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Case]:
    """Yields the files `case_*.csv` of a folder by name; arguments as for `.vital` recordings.

    Raises SourceError when there is no such file.
    """
    folder = Path(path)
    files = [folder] if folder.is_file() else _files(folder)
    if not files:
        raise SourceError(f"{folder}: no beat file case_*.csv")
    yield from vital_recordings.cases(
        files,
        lambda file, patient: read_beats(file, centre, tally=tally, patient=patient),
        path=folder, case_id=_case_id, tally=tally, clinical=clinical, criteria=criteria, progress=progress,
    )  # fmt: skip


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise SourceError(f"{folder}: no such folder of beat files")
    return sorted(
        file for file in folder.iterdir() if file.name.startswith(_PREFIX) and file.name.endswith(_SUFFIXES)
    )


def _case_id(file: Path) -> str:
    return vital_clinical.case_id(file.name.removeprefix(_PREFIX).split(".csv")[0])
