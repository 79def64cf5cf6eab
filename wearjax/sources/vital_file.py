"""`.vital` recordings (Vital Recorder) through the `vitaldb` package: numeric tracks of any monitor onto the grid.

The variables of VitalDB are those of one hospital's monitors. Other monitors report the same measures under their
own names; `TRACKS` says which, best first, and for each variable the first track with a plausible value counts.
Only invasive pressures stand for arterial ones. Waves are not used. Static facts come from a clinical table when
one is given or lies beside the recordings.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wearjax.errors import ConfigError, SourceError
from wearjax.sources import archive, vital_clinical, vital_grid, vital_recordings
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case, count_values
from wearjax.sources.vital_clinical import Patient
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import Centre

_CHUNK_BYTES = 1 << 20
_NUMERIC = 2  # the package's number of this type of track
_MONITORS = ("Solar8000", "Intellivue", "Bx50", "Carescape", "Infinity", "Delta", "Dash", "Nihon")


def _from(*names: str) -> tuple[str, ...]:
    """Every monitor's track of each name, all monitors of the first name before the second."""
    return tuple(f"{monitor}/{name}" for name in names for monitor in _MONITORS)


_PPF = "Orchestra/PPF20_"
_RFTN = "Orchestra/RFTN20_"
# Keys are spellings that either centre knows, so that one table serves both.
TRACKS: dict[str, tuple[str, ...]] = {
    _PPF + "VOL": (_PPF + "VOL",),
    _PPF + "CE": (_PPF + "CE",),
    _RFTN + "VOL": (_RFTN + "VOL",),
    _RFTN + "CE": (_RFTN + "CE",),
    "HR": _from("HR", "ECG_HR", "PLETH_HR", "ABP_HR", "ART_HR"),
    "temperature": _from("BT", "BT_CORE", "BT_NASOPH", "BT_ESOPH", "BT_BLD", "BT_RECT", "TEMP", "BT1"),
    "BT": _from("BT", "BT_CORE", "BT_NASOPH", "BT_ESOPH", "BT_BLD", "BT_RECT", "TEMP", "BT1"),
    "ART_DBP": _from("ART_DBP", "ART_DIA", "ABP_DIA", "IBP1_DIA", "IBP1_DBP"),
    "DBP_ART": _from("ART_DBP", "ART_DIA", "ABP_DIA", "IBP1_DIA", "IBP1_DBP"),
    "ART_SBP": _from("ART_SBP", "ART_SYS", "ABP_SYS", "IBP1_SYS", "IBP1_SBP"),
    "ART_MBP": (*_from("ART_MBP", "ART_MEAN", "ABP_MEAN", "IBP1_MEAN", "IBP1_MBP"), "EV1000/ART_MBP"),
    "ETCO2": (*_from("ETCO2", "CO2_ET", "AWAY_CO2_ET"), "Primus/ETCO2", "Datex-Ohmeda/ETCO2"),
    "SPO2": (*_from("PLETH_SPO2", "SPO2", "PLETH_SAT_O2"), "ROOT/SPO2"),
    "BIS": ("BIS/BIS", *_from("EEG_BIS", "BIS")),
    "TV": (*_from("VENT_TV", "TV_EXP", "TV_INSP"), "Primus/TV", "Datex-Ohmeda/TV_EXP"),
    "RR": (*_from("VENT_RR", "RR_CO2", "RR"), "Primus/RR_CO2"),
    "PEEP": (*_from("VENT_MEAS_PEEP", "PEEP_CMH2O", "PEEP"), "Primus/PEEP_MBAR"),
    "PIP": (*_from("VENT_PIP", "PIP_CMH2O", "PIP"), "Primus/PIP_MBAR"),
    "FIO2": (*_from("FIO2", "O2_INSP_PERC"), "Primus/FIO2"),
    "ETO2": (*_from("FEO2", "O2_ET_PERC"), "Primus/FEO2"),
}  # fmt: skip


def read_vital(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    patient: Patient = vital_clinical.NOBODY,
) -> Case:
    """Reads one recording; its rows start with the recording.

    Variables without a track are 0 and named in the notes, as are the numeric tracks that were not used.

    Raises:
        ConfigError: the package `vitaldb` is not installed.
        SourceError: the file is not a `.vital` recording, or has no value of a known variable.
    """
    file = Path(path)
    recording = _open(file)
    seconds = float(recording.dtend) - float(recording.dtstart)
    numeric = {name for name, track in recording.trks.items() if track.type == _NUMERIC and track.recs}
    if not numeric or not seconds > 0:
        raise SourceError(f"{file}: no numeric track with a value")
    vital_grid.rows_of(seconds, step_seconds=centre.step_seconds, where=file)
    values = np.zeros((int(seconds // centre.step_seconds) + 1, centre.n_variables), np.float32)
    used: dict[str, str] = {}
    for spelling, candidates in TRACKS.items():
        position = centre.find(spelling)
        if position is None or centre.names[position] in used:
            continue
        for track in (name for name in candidates if name in numeric):
            if _place(recording, track, values, position, centre, tally):
                used[centre.names[position]] = track
                break
    if not used:
        raise SourceError(
            f"{file}: none of its tracks is a VitalBench variable ({', '.join(sorted(numeric)[:6])})"
        )
    vital_clinical.fill(values, patient, centre)
    _report(used, numeric, values, centre, tally)
    count_values(values, centre, tally)
    start = dt.datetime.fromtimestamp(float(recording.dtstart), dt.UTC).replace(tzinfo=None, microsecond=0)
    return Case(_case_id(file), start, values, patient.surgery_hours, patient.general_anaesthesia)


def read_cases(
    path: str | os.PathLike,
    centre: Centre,
    *,
    tally: Tally,
    clinical: str | os.PathLike | None = None,
    criteria: Criteria | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Case]:
    """Yields the recordings of a file or a folder (searched to any depth) by name.

    Args:
        clinical: VitalDB's clinical table; by default the one in the folder, if there is one.
        criteria: leave out, and count, cases that fail them before their file is opened. Needs a clinical table.
        progress: called with (files done, files in total).

    Raises:
        SourceError: no `.vital` file there. ConfigError: the package `vitaldb` is not installed.
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(path.rglob("*.vital"))
    if not files:
        raise SourceError(f"{path}: no .vital file")
    yield from vital_recordings.cases(
        files,
        lambda file, patient: read_vital(file, centre, tally=tally, patient=patient),
        path=path, case_id=_case_id, tally=tally, clinical=clinical, criteria=criteria, progress=progress,
    )  # fmt: skip


def _open(file: Path) -> Any:
    try:
        import vitaldb
    except ImportError:
        raise ConfigError(
            ".vital recordings need the package vitaldb; install it with: pip install 'wearjax[vital]'"
        ) from None
    if not file.is_file():
        raise SourceError(f"{file}: no such file")
    _check_whole(file)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):  # where the package tells what it could not read, and goes on
            names = vitaldb.VitalFile(str(file), header_only=True).trks
            wanted = [name for name, track in names.items() if track.type == _NUMERIC]
            recording = vitaldb.VitalFile(str(file), track_names=wanted)
    except Exception as error:  # the package raises whatever its parsing stumbles over
        raise SourceError(f"{file}: not readable as a .vital recording ({error!r})") from None
    if said.getvalue():
        raise SourceError(f"{file}: damaged ({' '.join(said.getvalue().split())})")
    if not recording.trks:
        raise SourceError(f"{file}: not a .vital recording, or one without a numeric track")
    return recording


def _check_whole(file: Path) -> None:
    """Raises SourceError for a recording cut short or corrupt: the package would take what is before the break."""
    unpacked = 0
    try:
        with gzip.open(file) as stream:
            while block := stream.read(_CHUNK_BYTES):
                unpacked += len(block)
                archive.refuse_bomb(str(file), unpacked, file.stat().st_size)
    except archive.DAMAGE as error:
        raise SourceError(f"{file}: cut short or corrupt ({error})") from None


def _place(
    recording: Any, track: str, values: np.ndarray, position: int, centre: Centre, tally: Tally
) -> bool:
    """Puts a track into its column; whether it had a plausible value."""
    samples = recording.trks[track].recs
    seconds = np.array([sample["dt"] for sample in samples], np.float64) - float(recording.dtstart)
    numbers = np.array([sample["val"] for sample in samples], np.float64)
    keep = vital_grid.plausible(numbers, centre.variables[position], tally=tally)
    column = vital_grid.last_values(
        seconds[keep], numbers[keep], step_seconds=centre.step_seconds, n_rows=len(values)
    )
    values[:, position] = column
    return bool(column.any())


def _report(
    used: dict[str, str], numeric: set[str], values: np.ndarray, centre: Centre, tally: Tally
) -> None:
    tally.note("tracks used: " + ", ".join(f"{variable} = {track}" for variable, track in used.items()))
    absent = [variable for i, variable in enumerate(centre.names) if not values[:, i].any()]
    for variable in absent:
        tally.skip(variable, "no value in a recording (0 there)")
    if absent:
        tally.note(f"missing from a recording: {', '.join(absent)}")
    spare = sorted(numeric - set(used.values()))
    tally.skip("track", "numeric, not used", len(spare))
    if spare:
        tally.note(f"tracks not used: {', '.join(spare)}")


def _case_id(file: Path) -> str:
    return file.name[: -len(".vital")] if file.name.lower().endswith(".vital") else file.name
