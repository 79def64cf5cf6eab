"""Reads a run folder for the report: every file is optional, what is there must be sound."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float32

from wearjax import json_text, npz
from wearjax.day import SHAPE
from wearjax.days import coverage
from wearjax.errors import WearjaxError
from wearjax.report import forecasts, words
from wearjax.report.forecasts import Forecasts

_T = TypeVar("_T")
_SCORE_NUMBERS = ("point", "mean", "ci_lo", "ci_hi")
_IMPUTED = "imputed/"


@dataclass(frozen=True)
class Score:
    """One row of `scores.parquet`; NaN (0 of counts) where the run has no such number."""

    method: str
    metric: str
    scope: str
    n_tasks: int
    point: float
    mean: float
    ci_lo: float
    ci_hi: float
    n_boot: int
    n_participants: int = 0


@dataclass(frozen=True, eq=False)
class Gallery:
    """Example days.

    Attributes:
        values: what was recorded, NaN = not measured.
        target: cells that were hidden from the methods (or, after an imputation, cells that were filled).
        scenario, participant, date: one text a day.
        imputed: method → values that equal `values` outside `target`.
    """

    values: Float32[np.ndarray, "day channel=19 minute=1440"]
    target: Bool[np.ndarray, "day channel=19 minute=1440"]
    scenario: list[str]
    participant: list[str]
    date: list[str]
    imputed: dict[str, Float32[np.ndarray, "day channel=19 minute=1440"]]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class RunFolder:
    """What one run left behind.

    Attributes:
        name: the folder's name, made unique among the runs of a page by the caller.
        config, results: parsed JSON; empty where the file is absent.
        metrics: lines of `metrics.jsonl` in order of step; a restarted step counts once, its last line holds.
        cut_lines: 1 if the last line of `metrics.jsonl` was cut off by a stop, else 0.
        scores, gallery, coverage, forecasts: None where the file is absent.
        absent: names of the files that are not there.
    """

    name: str
    config: dict[str, Any]
    results: dict[str, Any]
    metrics: list[dict[str, Any]]
    cut_lines: int
    scores: list[Score] | None
    gallery: Gallery | None
    coverage: dict[str, Any] | None
    absent: frozenset[str]
    forecasts: Forecasts | None = None

    @property
    def is_imputation_of_recordings(self) -> bool:
        """True for a run of `wearjax impute`: cells that were never measured are filled, without a truth."""
        return self.results.get("kind") == "impute"

    @property
    def is_prediction(self) -> bool:
        """True for an evaluation of the prediction track: outcomes in place of scenarios and days."""
        return self.results.get("track") == "prediction"

    @property
    def is_forecasting(self) -> bool:
        """True for an evaluation of the forecasting track: windows of hours in place of days."""
        return self.results.get("track") == "forecasting"

    @property
    def baseline(self) -> str:
        return str(self.results.get("baseline", words.BASELINE))


def read(path: str | os.PathLike, *, name: str | None = None) -> RunFolder:
    """Reads a run folder.

    Raises:
        WearjaxError: no such folder, a folder with none of the known files, or a file that is not what its
            name says.
    """
    path = Path(path)
    if not path.is_dir():
        raise WearjaxError(f"{path}: no such run folder")
    absent: set[str] = set()

    def optional(file: str, reader: Callable[[Path], _T], default: Callable[[], _T]) -> _T:
        if (path / file).is_file():
            return reader(path / file)
        absent.add(file)
        return default()

    config: dict[str, Any] = optional("config.json", _read_json, dict)
    results: dict[str, Any] = optional("results.json", _read_json, dict)
    metrics, cut_lines = optional("metrics.jsonl", _read_metrics, lambda: ([], 0))
    scores = optional("scores.parquet", _read_scores, lambda: None)
    gallery = optional("predictions/gallery.npz", _read_gallery, lambda: None)
    windows = forecasts.read(path / forecasts.FILE) if (path / forecasts.FILE).is_file() else None
    table = optional("coverage.npz", coverage.load, lambda: None)
    if len(absent) == 6 and windows is None:
        raise WearjaxError(
            f"{path}: not a run folder (none of config.json, results.json, metrics.jsonl, scores.parquet, "
            f"predictions/gallery.npz, {forecasts.FILE}, coverage.npz)"
        )
    return RunFolder(
        name or words.plain(path.resolve().name, 60),
        config, results, metrics, cut_lines, scores, gallery, table, frozenset(absent), windows,
    )  # fmt: skip


def _one_line(error: Exception) -> str:
    return words.plain(error, 160)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json_text.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise WearjaxError(f"{file}: not readable as JSON ({_one_line(error)})") from None
    if not isinstance(content, dict):
        raise WearjaxError(f"{file}: expected a JSON object, found {type(content).__name__}")
    return content


def _read_metrics(file: Path) -> tuple[list[dict[str, Any]], int]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (ValueError, OSError) as error:
        raise WearjaxError(f"{file}: not readable as text ({_one_line(error)})") from None
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json_text.loads(line)
            step = row["step"]
            if not _is_number(step):
                raise TypeError(f"step {step!r} is not a number")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines):  # a run stopped in the middle of a write
                return _in_step_order(rows), 1
            raise WearjaxError(
                f"{file}: line {number} is not a metrics record ({_one_line(error)})"
            ) from None
        # A resumed run writes the steps after its checkpoint again.
        rows[int(step), str(row.get("split", "train"))] = row
    return _in_step_order(rows), 0


def _in_step_order(rows: dict[tuple[int, str], dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for _, row in sorted(rows.items(), key=lambda item: item[0])]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_scores(file: Path) -> list[Score]:
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise WearjaxError(f"{file}: not a readable score table ({_one_line(error)})") from None
    missing = [c for c in ("method", "metric", "scope", *_SCORE_NUMBERS) if c not in table.column_names]
    if missing:
        raise WearjaxError(f"{file}: score table without column {', '.join(missing)}")
    rows = []
    try:
        for row in table.to_pylist():
            numbers = {c: np.nan if row[c] is None else float(row[c]) for c in _SCORE_NUMBERS}
            rows.append(
                Score(
                    str(row["method"]), str(row["metric"]), str(row["scope"]),
                    int(row.get("n_tasks") or 0), **numbers, n_boot=int(row.get("n_boot") or 0),
                    n_participants=int(row.get("n_participants") or 0),
                )
            )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise WearjaxError(f"{file}: a score is not a number ({_one_line(error)})") from None
    return rows


def _read_gallery(file: Path) -> Gallery:
    try:
        arrays = npz.load(file)
    except (ValueError, OSError) as error:
        raise WearjaxError(f"{file}: not a readable gallery ({_one_line(error)})") from None
    missing = [n for n in ("values", "target", "scenario", "participant", "date") if n not in arrays]
    if missing:
        raise WearjaxError(f"{file}: gallery without {', '.join(missing)}")
    shape = (len(np.atleast_1d(arrays["values"])), *SHAPE)
    imputed = {n.removeprefix(_IMPUTED): a for n, a in sorted(arrays.items()) if n.startswith(_IMPUTED)}
    for name, array in (("values", arrays["values"]), ("target", arrays["target"]), *imputed.items()):
        if array.shape != shape or array.dtype.kind not in ("b" if name == "target" else "f"):
            raise WearjaxError(
                f"{file}: {words.plain(name, 60)} must be {shape}, found {array.dtype} {array.shape}"
            )
    for name in ("scenario", "participant", "date"):
        if arrays[name].shape != shape[:1]:
            raise WearjaxError(f"{file}: {name} must have shape {shape[:1]}, found {arrays[name].shape}")
    texts = {n: [words.plain(t, 60) for t in arrays[n].tolist()] for n in ("scenario", "participant", "date")}
    return Gallery(
        values=arrays["values"].astype(np.float32, copy=False),
        target=arrays["target"],
        imputed={words.plain(n, 60): a.astype(np.float32, copy=False) for n, a in imputed.items()},
        **texts,
    )
