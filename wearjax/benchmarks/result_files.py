"""Files that the results of every track write: the score table, JSON without NaN, aligned text tables."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wearjax import writing
from wearjax.errors import ConfigError

_COLUMN_TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64()}


def score_table(scores: Sequence[Any], kind: type) -> pa.Table:
    """Scores as a table, a column for each field of their dataclass."""
    return pa.table(
        {
            field.name: pa.array([getattr(s, field.name) for s in scores], _COLUMN_TYPES[str(field.type)])
            for field in dataclasses.fields(kind)
        }
    )


def write_json(path: str | os.PathLike, content: Any) -> None:
    """Writes JSON in which undefined numbers are null; the file appears whole or not at all."""
    with writing.file(path) as partial:
        partial.write_text(_text(content), encoding="utf-8")


def holds(path: str | os.PathLike, content: Any) -> bool:
    """Whether a file has the bytes that `write_json` would give it."""
    return Path(path).read_bytes() == _text(content).encode()


def _text(content: Any) -> str:
    return json.dumps(plain(content), indent=1, allow_nan=False) + "\n"


def write_csv(path: str | os.PathLike, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table as CSV; the file appears whole or not at all."""
    with writing.file(path) as partial, open(partial, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def write_table(path: str | os.PathLike, table: pa.Table) -> Path:
    """Writes a table as zstd Parquet; the file appears whole or not at all."""
    with writing.file(path) as partial:
        pq.write_table(table, partial, compression="zstd")
    return Path(path)


def note_config(folder: Path, config: Mapping[str, Any], versions: Mapping[str, str]) -> None:
    """Writes what an evaluation was made with; a `config.json` that is already there, e.g. of a training, is kept."""
    if not (folder / "config.json").exists():
        write_json(folder / "config.json", {"evaluation": config, "versions": versions})


def write_skills(
    path: str | os.PathLike, rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str]
) -> None:
    """Writes skills as CSV, numbers to six decimals and undefined ones empty; the file appears whole or not at all."""
    write_csv(path, columns, ([_six_decimals(row[name]) for name in columns] for row in rows))


def _six_decimals(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return "" if math.isnan(value) else f"{value:.6f}"


def check_folder(path: str | os.PathLike | None) -> None:
    """Raises ConfigError where results could not be written: before work is done for them, not after."""
    if path is not None and Path(path).exists() and not Path(path).is_dir():
        raise ConfigError(f"{path}: is a file; results need a folder")


def plain(value: Any) -> Any:
    """JSON form: undefined numbers become None, NumPy's numbers Python's, paths text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, os.PathLike) else value


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines whose columns start at the same place."""
    widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
    rows = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in lines]
    return [row.rstrip() for row in rows]
