"""VitalDB's clinical information table: who was operated on, how, and when within the recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float32

from wearjax.errors import SourceError
from wearjax.sources import csv_table, vital_csv
from wearjax.sources.tally import Tally
from wearjax.sources.vital_inclusion import Facts
from wearjax.vitals import Centre

NAMES = ("cases", "clinical_data", "clinical_information", "clinical_info")
SPANS = {
    "recording": ("casestart", "caseend"),
    "anaesthesia": ("anestart", "aneend"),
    "surgery": ("opstart", "opend"),
}
_STATIC = {"Age": "age", "Weight": "weight", "Height": "height", "ASA": "asa"}
_NUMBERS = (*_STATIC.values(), *(name for span in SPANS.values() for name in span))


@dataclass(frozen=True)
class Patient:
    """One row of the table.

    Attributes:
        static: values of the centre's static variables by name; only what is known.
        spans: seconds from the start of the recording, for each of `recording`, `anaesthesia`, `surgery`; only
            what is known and not empty.
        anaesthesia: the kind of anaesthesia as the table words it.
        surgery_hours: length of the surgery.
    """

    static: dict[str, float]
    spans: dict[str, tuple[float, float]]
    anaesthesia: str | None
    surgery_hours: float | None

    @property
    def general_anaesthesia(self) -> bool | None:
        return None if self.anaesthesia is None else self.anaesthesia.strip().casefold() == "general"

    @property
    def facts(self) -> Facts:
        return Facts(
            self.surgery_hours, self.static.get("Age"), self.static.get("Weight"), self.general_anaesthesia
        )


NOBODY = Patient({}, {}, None, None)


def find(folder: Path) -> Path | None:
    """The clinical table of a folder by its usual names, or None."""
    for name in NAMES:
        for file in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
            if file.is_file():
                return file
    return None


def read(file: Path, *, tally: Tally) -> dict[str, Patient]:
    """Reads the table: case id -> patient. Columns that it lacks are said once and their facts are unknown.

    Raises SourceError when the table has no `caseid`.
    """
    names = csv_table.header(file)
    if "caseid" not in names:
        raise SourceError(f"{file}: no column caseid; found {', '.join(names[:12])}")
    numbers = [name for name in (*_NUMBERS, "opdur") if name in names]
    text = [name for name in ("caseid", "sex", "ane_type") if name in names]
    absent = [name for name in ("sex", "ane_type", *_NUMBERS) if name not in names]
    if absent:
        tally.note(f"{file.name} lacks {', '.join(absent)}")
    found = vital_csv.read(file, text=text, numbers=numbers)
    ids = found.text["caseid"].to_pylist()
    columns = dict(found.numbers)
    if "sex" in text:
        columns["sex"] = vital_csv.sexes(found.text["sex"])
    kinds = found.text["ane_type"].to_pylist() if "ane_type" in text else [None] * len(ids)
    patients = {}
    for row, name in enumerate(ids):
        if name is None:
            tally.skip("case", "no caseid in the clinical table")
            continue
        known = {column: float(v[row]) for column, v in columns.items() if np.isfinite(v[row])}
        patients[case_id(name)] = _patient(known, kinds[row])
    if int(pc.count_distinct(found.text["caseid"]).as_py()) < len(ids) - found.text["caseid"].null_count:
        tally.note(f"{file.name} has cases twice; the last row counts")
    return patients


def case_id(text: str) -> str:
    """`0019`, `19.0` and `19` are the same case."""
    text = text.strip().removesuffix(".0")
    return text.lstrip("0") or "0" if text.isdigit() else text


def fill(values: Float32[np.ndarray, "row variable"], patient: Patient, centre: Centre) -> None:
    """Writes the static values into every row, in place."""
    for name, value in patient.static.items():
        position = centre.find(name)
        if position is not None:
            values[:, position] = value


def _patient(known: dict[str, float], kind: str | None) -> Patient:
    static = {
        name: known[column] for name, column in (*_STATIC.items(), ("Gender", "sex")) if column in known
    }
    spans = {}
    for span, (first, last) in SPANS.items():
        if known.get(last, -np.inf) > (start := known.get(first, np.inf)):
            spans[span] = (start, known[last])
    hours = None
    if "surgery" in spans:
        hours = (spans["surgery"][1] - spans["surgery"][0]) / 3600
    elif "opdur" in known:  # minutes
        hours = known["opdur"] / 60
    return Patient(static, spans, kind, hours)
