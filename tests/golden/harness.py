"""Runs golden cases: files of inputs with the answers that the reference implementation gave for them.

A case file is JSON with `family` and `cases`, or one case by itself, as VitalBench has them: its family is told
from its keys (see `CONTENT_FAMILIES`). Other files are passed over. Each case goes to the checker of its family
(and of its `op`, where the family has several). To cover a family, put one module beside this file, named
`check_<family>.py`, which registers its checkers; nothing else has to be edited:

    import harness
    from wearjax.scores import intervals

    @harness.checks("bootstrap_intervals")          # every case of the family
    def check(case: dict) -> None:
        low, high = intervals.bca(harness.numbers(case["draws"]), ...)
        harness.close([low, high], case["expected"])

    @harness.checks("preprocess", op="zero_to_nan")  # only the cases with this op
    def check_zero_to_nan(case: dict) -> None: ...

A checker gets the case as it was read, returns nothing, and fails by AssertionError. It must not depend on
ids, sizes or counts. A case that names other files finds them with `sibling(case, name)`. The module is imported
when the first case of its family runs, so a broken one fails only there.
Folder: the environment variable WEARJAX_GOLDEN, else the folder of this file; searched recursively.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
# A file that is one case: its family, and the keys that tell it. The first that fits counts.
CONTENT_FAMILIES = (
    ("vital_forward", {"model", "weights", "input_x", "output"}),
    ("vital_metrics", {"true", "pred", "expected"}),
    ("vital_metrics_aggregate", {"rule", "cases", "expected"}),
    ("vital_windowing", {"csv_rows"}),
    ("vital_parameter_counts", {"counts"}),
    ("vital_published_results", {"tables", "horizon_minutes", "steps"}),
    ("published_leaderboard", {"method_pools", "cohort_numbers", "baseline_cohort_statistics"}),
)
MASKS_FAMILY, MASKS_KEY = "vital_masks", "val_or_test_first_cases"  # every value of the file has this key
FILE_KEY = "__file__"  # where a case that is a whole file was read
INFINITIES = {"inf": np.inf, "-inf": -np.inf}

Checker = Callable[[dict], None]
_CHECKERS: dict[tuple[str, str | None], Checker] = {}


@dataclass(frozen=True)
class GoldenCase:
    """One case and where it was read."""

    file: Path
    family: str
    name: str
    case: dict


def checks(family: str, *, op: str | None = None) -> Callable[[Checker], Checker]:
    """Registers the decorated function for a family, or for one op of it."""

    def register(checker: Checker) -> Checker:
        _CHECKERS[family, op] = checker
        return checker

    return register


def folder() -> Path:
    return Path(os.environ.get("WEARJAX_GOLDEN") or HERE)


def find_cases(root: Path) -> tuple[list[GoldenCase], list[str]]:
    """All cases under `root`, and what is wrong with it: no folder, broken files, no case."""
    if not root.is_dir():
        return [], [f"{root}: no such folder (WEARJAX_GOLDEN must name a folder of golden cases)"]
    cases: list[GoldenCase] = []
    problems: list[str] = []
    for file in sorted(root.rglob("*.json")):
        try:
            content = json.loads(file.read_text())
        except ValueError as error:
            problems.append(f"{file}: not JSON ({error})")
            continue
        if isinstance(content, dict):
            cases.extend(_cases_of(file, content))
    if not cases:
        problems.append(f"{root}: no golden case found")
    return cases, problems


def _cases_of(file: Path, content: dict) -> Iterator[GoldenCase]:
    if {"family", "cases"} <= content.keys():
        for number, case in enumerate(content["cases"]):
            name = f"{content['family']}-{case.get('id', number)}"
            yield GoldenCase(file, content["family"], name, case)
    elif (family := _family_by_content(content)) is not None:
        yield GoldenCase(file, family, f"{family}-{file.stem}", content | {FILE_KEY: str(file)})


def _family_by_content(content: dict) -> str | None:
    """Family of a file that is one case, or None."""
    for family, keys in CONTENT_FAMILIES:
        if keys <= content.keys():
            return family
    if content and all(isinstance(value, dict) and MASKS_KEY in value for value in content.values()):
        return MASKS_FAMILY
    return None


def sibling(case: dict, name: str) -> dict:
    """The file `name`.json beside the file that is this case."""
    return json.loads(Path(case[FILE_KEY]).with_name(f"{name}.json").read_text())


def run(golden: GoldenCase) -> None:
    """Checks one case. Raises LookupError for an unknown family or op."""
    family, op = golden.family, golden.case.get("op")
    if (HERE / f"check_{family}.py").exists():
        importlib.import_module(f"check_{family}")
    checker = _CHECKERS.get((family, op)) or _CHECKERS.get((family, None))
    if checker is None:
        raise LookupError(f"{golden.file}: no checker for family {family!r}, op {op!r}")
    checker(golden.case)


def numbers(value: Any, dtype: type = np.float64) -> np.ndarray:
    """Nested lists as an array: null becomes NaN, "inf" and "-inf" become infinities."""
    return np.array(_plain(value), dtype=dtype)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None:
        return np.nan
    return INFINITIES.get(value, value) if isinstance(value, str) else value


def run_length_day(spec: dict) -> np.ndarray:
    """The float32 `(C, T)` day of a `{"C", "T", "fill", "runs"}` description."""
    day = np.repeat(numbers(spec["fill"], np.float32)[:, None], spec["T"], axis=1)
    if day.shape[0] != spec["C"]:
        raise ValueError(f"fill has {day.shape[0]} channels, C says {spec['C']}")
    for channel, start, stop, value in spec["runs"]:
        day[channel, start:stop] = numbers(value)
    return day


def mask_runs(mask: np.ndarray) -> list[list[int]]:
    """The true cells of a `(C, T)` mask as `[channel, start, stop)`, in row order."""
    edges = np.diff(np.pad(mask.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    channel, start = np.nonzero(edges == 1)
    return np.stack([channel, start, np.nonzero(edges == -1)[1]], axis=1).tolist()


def packbits_sha256(mask: np.ndarray) -> str:
    """SHA-256 of the row-major flattened mask, packed big-endian."""
    return hashlib.sha256(np.packbits(mask.astype(bool).ravel()).tobytes()).hexdigest()


def table(spec: dict) -> dict[str, list]:
    """A `{"columns", "rows"}` table as one list per column."""
    return {name: [row[i] for row in spec["rows"]] for i, name in enumerate(spec["columns"])}


def close(actual: Any, expected: Any, *, rtol: float = 1e-6, atol: float = 1e-8, what: str = "") -> None:
    """Asserts equal shapes and values; NaN equals NaN, infinities must agree in sign."""
    actual, expected = numbers(_lists(actual)), numbers(_lists(expected))
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


def _lists(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
