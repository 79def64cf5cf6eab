"""Files that the results of every track write: the score table, JSON without NaN, aligned text tables."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

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
    text = json.dumps(plain(content), indent=1, allow_nan=False) + "\n"
    with writing.file(path) as partial:
        partial.write_text(text, encoding="utf-8")


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
