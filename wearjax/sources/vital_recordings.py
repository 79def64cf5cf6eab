"""Recordings of one operation a file: each with its patient of the clinical table, if it is to be taken at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from wearjax.errors import SourceError
from wearjax.sources import vital_clinical
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case, skip_file
from wearjax.sources.vital_clinical import Patient
from wearjax.sources.vital_inclusion import Criteria, reason


def cases(
    files: Sequence[Path],
    read: Callable[[Path, Patient], Case],
    *,
    path: Path,
    case_id: Callable[[Path], str],
    tally: Tally,
    clinical: str | os.PathLike | None,
    criteria: Criteria | None,
    progress: Callable[[int, int], None] | None,
) -> Iterator[Case]:
    """Yields what `read` makes of every file; a file that raises SourceError is counted and passed over.

    Args:
        path: what was asked for; a folder may hold the clinical table.
        clinical: VitalDB's clinical table; by default the one in the folder, if there is one.
        criteria: leave out, and count, cases that fail them before their file is opened. Needs a clinical table.
        progress: called with (files done, files in total).

    Raises SourceError for a clinical table that cannot be read.
    """
    table = Path(clinical) if clinical else (vital_clinical.find(path) if path.is_dir() else None)
    patients = vital_clinical.read(table, tally=tally) if table else {}
    for done, file in enumerate(files, start=1):
        patient = patients.get(vital_clinical.case_id(case_id(file)), vital_clinical.NOBODY)
        why = reason(patient.facts, criteria) if criteria else None
        if why:
            tally.skip("case", why)
        else:
            try:
                yield read(file, patient)
            except SourceError as error:
                skip_file(error, tally)
        if progress:
            progress(done, len(files))
