"""The store of surgeries: all cases one after another in one memory-mapped array, with splits.

On disk: `vital.json` (format, centre, step, digest of the variable table, counts, provenance), `values.npy`
(float32 `(rows, variables)`, 0 = missing), `index.parquet` (one row a case: id, start, first row, rows, recorded
values of each variable) and `splits.json` (lists of case ids). A store is written beside its target and renamed
into place, so that what carries its name is always whole.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float32, Int64

from wearjax import json_text, npz, writing
from wearjax.days import splits, store_index
from wearjax.days.splits import Splits
from wearjax.errors import StoreError
from wearjax.segments import vital_splits
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case
from wearjax.vitals import CENTRES, Centre

FORMAT = 1
FILE, VALUES, INDEX = "vital.json", "values.npy", "index.parquet"


class CaseStore:
    """An opened store of surgeries. Reading is safe from several processes: pickling carries the path only.

    Attributes:
        path: the folder.
        centre: variables and step of its cases.
        ids: case ids in store order.
        starts: `datetime64[s]` of each case's first row; NaT where unknown.
        offsets: int64 `(cases + 1,)`; case i has the rows `offsets[i]` to `offsets[i + 1]`.
        values: float32 `(rows, variables)`, all cases one after another; 0 = missing. Read-only.
        recorded: int64 `(cases, variables)`, how many values each case has of each variable.
        meta: content of `vital.json`, with the counts of what was left out.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.meta = _read_meta(self.path)
        self.centre: Centre = dataclasses.replace(
            CENTRES[self.meta["centre"]], step_seconds=self.meta["step_seconds"]
        )
        table = _read_index(self.path, self.meta)
        self.ids: tuple[str, ...] = tuple(table["case"].to_pylist())
        self.starts = table["start"].to_numpy().astype("datetime64[s]")
        rows = table["rows"].to_numpy()
        self.offsets: Int64[np.ndarray, " bound"] = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        flat = table["recorded"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        self.recorded: Int64[np.ndarray, "case variable"] = flat.reshape(-1, self.centre.n_variables).astype(
            np.int64
        )
        self.values: Float32[np.ndarray, "row variable"] = _open_values(
            self.path, (int(self.offsets[-1]), self.centre.n_variables)
        )
        self._position = {name: i for i, name in enumerate(self.ids)}
        self._splits = _read_splits(self.path, self._position)

    @property
    def splits(self) -> dict[str, list[str]]:
        """Case ids of `train`, `validation` and `test`, in the order in which the split took them."""
        return {name: list(self._splits.of(name)) for name in ("train", "validation", "test")}

    def indices(self, split: str) -> Int64[np.ndarray, " case"]:
        """Positions of a split's cases, in the split's order. Raises ConfigError on an unknown name."""
        return np.array([self._position[name] for name in self._splits.of(split)], np.int64)

    def index(self, case: str) -> int:
        """Position of the case with this id. Raises KeyError."""
        return self._position[case]

    def case(self, index: int) -> Float32[np.ndarray, "row variable"]:
        """The rows of one case, a view of `values`."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"case {index} of a store with {len(self)} cases")
        index %= len(self)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self):
        return (CaseStore, (self.path,))


def open_cases(path: str | os.PathLike) -> CaseStore:
    """Opens a store. Raises StoreError when it is missing, incomplete or of another format."""
    return CaseStore(path)


def write_cases(
    path: str | os.PathLike,
    cases: Iterable[Case],
    centre: Centre,
    *,
    split: str | os.PathLike = "time",
    tally: Tally | None = None,
    provenance: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> CaseStore:
    """Writes surgeries in the order in which they come, splits them and opens the store.

    Args:
        split: `time`, `random42`, or a JSON file with three lists of ids; see `vital_splits`.
        tally: counts of what was read and left out; kept in the store. A reader may still fill it meanwhile.
        provenance: facts about the origin, kept in the store.
        overwrite: replace an existing store of surgeries instead of refusing.

    Raises:
        StoreError: the folder exists, no case came, a case came twice or has the wrong shape.
    """
    path, tally = Path(path), Tally() if tally is None else tally
    _may_write(path, overwrite)
    vital_splits.check(split)
    with writing.folder(path) as temporary:
        ids, starts, rows, recorded = _write_values(temporary / VALUES, cases, centre, path)
        if not ids:
            reasons = ", ".join(f"{n} {m} {r}" for (m, r), n in tally.skipped.most_common(3))
            raise StoreError(f"{path}: no surgery to keep" + (f" (left out: {reasons})" if reasons else ""))
        assigned = vital_splits.make(ids, starts, split, tally=tally)
        splits.write_splits(temporary, assigned)
        index = _index_table(ids, starts, rows, recorded, centre)
        with writing.told(path / INDEX):
            pq.write_table(index, temporary / INDEX, compression="zstd")
        meta = {
            "format": FORMAT,
            "centre": centre.name,
            "step_seconds": centre.step_seconds,
            "variables": list(centre.names),
            "digest": centre.digest(),
            "cases": len(ids),
            "rows": int(sum(rows)),
            "split": str(split),
            "split_sizes": {name: len(assigned.of(name)) for name in ("train", "validation", "test")},
            "provenance": provenance or {},
            "import": tally.as_dict(),
        }
        with writing.told(path / FILE):
            (temporary / FILE).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")
    return CaseStore(path)


def _may_write(path: Path, overwrite: bool) -> None:
    if path.exists() and not (path / FILE).exists():
        raise StoreError(f"{path} exists and is not a store of surgeries; refusing to replace it")
    if path.exists() and not overwrite:
        raise StoreError(f"{path} exists; pass --force (overwrite=True) to replace it")


def _write_values(
    file: Path, cases: Iterable[Case], centre: Centre, path: Path
) -> tuple[list[str], np.ndarray, list[int], list[np.ndarray]]:
    """Streams the cases into one `.npy`, whose header is written again once the number of rows is known."""
    ids: list[str] = []
    starts, rows, recorded = [], [], []
    seen: set[str] = set()
    with open(file, "wb") as stream:
        size = _write_header(stream, 0, centre)
        for case in cases:
            if case.values.ndim != 2 or case.values.shape[1] != centre.n_variables:
                raise StoreError(
                    f"{path}: case {case.id} has shape {case.values.shape}, not (rows, {centre.n_variables})"
                )
            if case.id in seen:
                raise StoreError(f"{path}: case {case.id} came twice")
            seen.add(case.id)
            with writing.told(path / VALUES):
                stream.write(np.ascontiguousarray(case.values, "<f4").data)
            ids.append(case.id)
            starts.append(np.datetime64(case.start or "NaT", "s"))
            rows.append(len(case.values))
            recorded.append(np.count_nonzero(case.values, axis=0))
        with writing.told(path / VALUES):
            stream.seek(0)
            if _write_header(stream, sum(rows), centre) != size:
                raise StoreError(f"{path}: too many rows for the header of {file.name}")
            stream.flush()
    return ids, np.array(starts, "datetime64[s]"), rows, recorded


def _write_header(stream: Any, n_rows: int, centre: Centre) -> int:
    """Writes the header of a float32 `.npy` (NumPy leaves room for the first axis to grow); its length."""
    shape = (n_rows, centre.n_variables)
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.tell()


def _index_table(
    ids: list[str], starts: np.ndarray, rows: list[int], recorded: list[np.ndarray], centre: Centre
) -> pa.Table:
    first = np.concatenate([[0], np.cumsum(rows)[:-1]]).astype(np.int64)
    flat = pa.array(np.concatenate(recorded).astype(np.int32))
    return pa.table(
        {
            "case": pa.array(ids, pa.string()),
            "start": pa.array(starts, pa.timestamp("s")),
            "first_row": pa.array(first),
            "rows": pa.array(rows, pa.int64()),
            "recorded": pa.FixedSizeListArray.from_arrays(flat, centre.n_variables),
        }
    )


def _read_meta(path: Path) -> dict[str, Any]:
    file = path / FILE
    try:
        meta = json_text.loads(file.read_text(encoding="utf-8"))
        version, digest, name = meta["format"], meta["digest"], meta["centre"]
        if any(type(meta[key]) is not int or not 0 < meta[key] < 2**31 for key in ("step_seconds", "cases")):
            raise TypeError("step_seconds and cases are whole numbers above 0")
        if (
            not isinstance(name, str)
            or not isinstance(meta["split"], str)
            or not isinstance(meta.get("provenance", {}), dict)
        ):
            raise TypeError("centre is a name, provenance an object")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{path}: not a store of surgeries (no {FILE})") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StoreError(f"{file}: not readable as a store description ({error!r})") from None
    if version != FORMAT:
        raise StoreError(f"{file}: store format {version}, this version reads {FORMAT}")
    if name not in CENTRES or digest != CENTRES[name].digest():
        raise StoreError(f"{file}: written with another table of variables; prepare the surgeries again")
    return meta


def _read_index(path: Path, meta: dict[str, Any]) -> pa.Table:
    file = path / INDEX
    table = store_index.read_table(file)
    if table.num_rows != meta["cases"]:
        raise StoreError(f"{file}: {table.num_rows} rows, {FILE} says {meta['cases']} cases")
    return table


def _open_values(path: Path, shape: tuple[int, int]) -> np.ndarray:
    file = path / VALUES
    try:
        values = npz.mapped(file)
    except FileNotFoundError:
        raise StoreError(f"{file}: values are missing") from None
    except ValueError as error:
        raise StoreError(f"{file}: not a readable array ({error})") from None
    if values.shape != shape or values.dtype != np.float32:
        raise StoreError(f"{file}: expected float32 {shape}, found {values.dtype} {values.shape}")
    return values


def _read_splits(path: Path, known: dict[str, int]) -> Splits:
    found = splits.read_splits(path)
    for name in ("train", "validation", "test"):
        for case in found.of(name):
            if case not in known:
                raise StoreError(f"{path / splits.FILE}: {name} has case {case!r}, which is not in the store")
    return found
