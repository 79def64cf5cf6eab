"""Predictions of one method and task on disk: an interrupted evaluation reads back what is finished."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64

from wearjax import json_text, tasks, writing
from wearjax.benchmarks import result_files
from wearjax.errors import ConfigError, StoreError


@dataclass(frozen=True, eq=False)
class TaskAnswers:
    """What a method answered in one task, ready to be scored; one number a participant of the cohort.

    Attributes:
        n_substituted: participants whose prediction came from the baseline.
        seconds: spent in the method.
    """

    y_pred: Float64[np.ndarray, "n"]
    y_proba: Float64[np.ndarray, "n"]
    n_substituted: int
    seconds: float


def file_of(folder: Path, method: str, task: str, split: str) -> Path:
    """`<method>/<task>/<split>.parquet`, names made safe for files."""
    name = tasks.file_name
    return folder / name(method) / name(task) / f"{split}.parquet"


def check_names(methods: Sequence[str]) -> None:
    """Raises ConfigError where two methods share a folder, or one has no usable name."""
    folders: dict[str, str] = {}
    for method in methods:
        folder = tasks.file_name(method)
        if folder in ("", ".", "..") or "\\" in folder or "\0" in folder:
            raise ConfigError(f"method {method!r}: not usable as the name of a folder")
        if folder in folders:
            raise ConfigError(f"methods {folders[folder]!r} and {method!r} would share the folder {folder!r}")
        folders[folder] = method


def write(
    file: Path,
    answers: TaskAnswers,
    *,
    users: Sequence[str],
    y_true: Float64[np.ndarray, "n"],
    settings: Mapping[str, Any],
) -> None:
    """Writes the table (uid, y_true, y_pred, y_proba; in order of uid) and what it was made with beside it.

    The description comes last: a table without one is unfinished.
    """
    description = file.with_suffix(".json")
    description.unlink(missing_ok=True)
    table = pa.table(
        {
            "uid": pa.array(users, pa.string()),
            "y_true": y_true,
            "y_pred": answers.y_pred,
            "y_proba": answers.y_proba,
        }
    )
    result_files.write_table(file, table)
    content = {
        "settings": dict(settings),
        "n_test": len(users),
        "n_substituted": answers.n_substituted,
        "seconds": answers.seconds,
    }
    with writing.file(description) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read(file: Path, *, users: Sequence[str], settings: Mapping[str, Any]) -> TaskAnswers | None:
    """What `write` left; None where nothing, or nothing finished, is there.

    Raises:
        ConfigError: it was made with other settings. StoreError: the files are damaged.
    """
    description = file.with_suffix(".json")
    if not (description.exists() and file.exists()):
        return None
    try:
        content = json_text.loads(description.read_text(encoding="utf-8"))
        was, n_substituted, seconds = content["settings"], content["n_substituted"], content["seconds"]
        columns = pq.read_table(file).to_pydict()
        y_pred, y_proba = (np.asarray(columns[name], np.float64) for name in ("y_pred", "y_proba"))
        found = columns["uid"]
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreError(f"{file}: not readable as predictions ({told}); remove it") from None
    if was != settings:
        key = next(k for k in (*settings, *was) if settings.get(k) != was.get(k))
        raise ConfigError(
            f"{file}: made with another {key} ({was.get(key)}, now {settings.get(key)}); pass --force "
            "(force=True) to replace it, or choose another folder"
        )
    if found != list(users):
        raise StoreError(f"{file}: not the participants of its description; remove it")
    return TaskAnswers(y_pred, y_proba, int(n_substituted), float(seconds))
