"""The files of a leaderboard submission: one Parquet table a method, its display sidecar, a description.

OpenMHC evaluation, substrate files: absent cells have no row, string columns are dictionary-coded, and the
method named in the table is the stem of its file. Packets of others are read and checked here, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from wearjax import json_text, writing
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import forecasting_scores, packet_schema
from wearjax.benchmarks.openmhc.packet_schema import FOLDERS, SUBTRACKS
from wearjax.benchmarks.openmhc.scored_on import FIELD as _SCORED_ON
from wearjax.errors import ConfigError, did_you_mean
from wearjax.predict.imputers import baselines
from wearjax.scores.errors import ErrorTable

STATISTICAL = (*baselines.NAMES, forecasting_scores.BASELINE, "autoarima", "autoets")


def arrow_schema(track: str) -> pa.Schema:
    """The columns of a track's table as they are written: texts are dictionary-coded."""
    text = pa.dictionary(pa.int32(), pa.string())
    columns = packet_schema.SCHEMAS[track].columns
    return pa.schema([(name, text if kind == packet_schema.TEXT else kind) for name, kind in columns.items()])


IMPUTATION_COLUMNS = arrow_schema("imputation")


@dataclass(frozen=True)
class Submission:
    """What a submission says about a method, beyond its numbers.

    Attributes:
        name: shown on the leaderboard; the files are named by its slug.
        submitter: team or person.
        category: kind of method, e.g. `Foundation model`, `Statistical`.
        feature_dim: length of the representation, for prediction methods.
    """

    name: str
    submitter: str
    code_url: str
    paper_url: str = ""
    category: str = "Other"
    foundation_variant: str = ""
    feature_dim: int | None = None
    notes: str = ""


def slug(name: str) -> str:
    """File name of a method: lower case, each run of anything but letters and digits one underscore."""
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_") or "method"


def imputation_rows(table: ErrorTable, *, split: str, rename: Mapping[str, str] | None = None) -> pa.Table:
    """The substrate table: one row for each finite error, over everybody and inside each subgroup.

    Args:
        rename: methods to keep and the names to give them; default keeps all.
    """
    names = dict(rename) if rename is not None else {m: m for m in table.methods}
    rows = [table.methods.index(m) for m in names]
    blocks = [("all", "all", table.errors)]
    for attribute, group in table.subgroups.items():
        blocks += [
            (attribute, value, errors) for value, errors in zip(group.values, group.errors, strict=True)
        ]
    parts = [
        _block_rows(table, errors[rows], list(names.values()), split, *label) for *label, errors in blocks
    ]
    return pa.concat_tables(parts).unify_dictionaries()


def _block_rows(
    table: ErrorTable, errors: np.ndarray, names: list[str], split: str, attribute: str, value: str
) -> pa.Table:
    # Participant by participant: whoever reads the rows meets them in the order of the draws.
    method, person, task = np.nonzero(np.isfinite(errors.swapaxes(1, 2)))

    def constant(text: str) -> pa.Array:
        return coded(np.zeros(len(method), np.int32), [text])

    return pa.table(
        {
            "method": coded(method, names),
            "scenario": _recoded(task, [t.scenario for t in table.tasks]),
            "split": constant(split),
            "channel": _recoded(task, [t.channel for t in table.tasks]),
            "channel_type": _recoded(task, [t.channel_type for t in table.tasks]),
            "subgroup_attr": constant(attribute),
            "subgroup_value": constant(value),
            "user_id": coded(person, list(table.participants)),
            "E_per_user": pa.array(errors[method, task, person].astype(np.float32)),
        },
        schema=IMPUTATION_COLUMNS,
    )


def coded(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    """A text column from positions in a list of distinct names."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(names, pa.string()))


def _recoded(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    """As `_coded`, for a list of names with repetitions."""
    distinct = list(dict.fromkeys(names))
    of_code = np.array([distinct.index(name) for name in names], np.int32)
    return coded(of_code[codes] if len(of_code) else codes, distinct)


def display_sidecar(
    submission: Submission, *, track: str, subtrack: str, fallback_rate: float | None = None
) -> dict[str, Any]:
    """How the leaderboard shows a method. Raises ConfigError for an unknown track or subtrack."""
    if track not in SUBTRACKS:
        raise ConfigError(f"track {track!r} is unknown; expected one of {', '.join(SUBTRACKS)}")
    if subtrack not in SUBTRACKS[track]:
        raise ConfigError(f"subtrack {subtrack!r} of {track}: expected one of {', '.join(SUBTRACKS[track])}")
    sidecar: dict[str, Any] = {
        "display_name": submission.name,
        "type": submission.category,
        "submitter": submission.submitter,
        "subtrack": subtrack,
    }
    if fallback_rate is not None:
        sidecar["fallback_rate"] = round(float(fallback_rate), 6)
    return sidecar


def one_of(methods: Sequence[str], given: Sequence[str], method: str | None) -> str:
    """The method that a submission is of.

    Args:
        methods: all that were evaluated.
        given: those of the caller, of which one alone, or the only one that is not statistical, needs no choice.

    Raises:
        ConfigError: none is chosen of several, or it was not evaluated.
    """
    if method is None and len(given) > 1:
        given = [m for m in given if m not in STATISTICAL] or given
    if method is None and len(given) > 1:
        raise ConfigError(f"several methods were evaluated; choose one with method=NAME ({', '.join(given)})")
    method = method or given[0]
    if method not in methods:
        raise ConfigError(
            f"method {method!r} was not evaluated{did_you_mean(method, methods)} ({', '.join(methods)})"
        )
    return method


def write_submission(
    folder: str | os.PathLike,
    table: pa.Table,
    submission: Submission,
    *,
    track: str,
    subtrack: str,
    fallback_rate: float | None = None,
    scored_on: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Path:
    """Writes `<track folder>/<slug>.parquet`, its `.meta.json`, and `<slug>.submission.yaml` to send along.

    The table's method must already be the slug. Packets of several methods may share a folder, and an earlier one of
    the same method is replaced. Returns the path of the description.

    Args:
        scored_on: what the method was scored on, see the module of that name; goes into the `.meta.json`.
        force: replace what is there, whatever it is.

    Raises:
        ConfigError: the folder holds other things than packets, or a packet of another method of that slug.
    """
    sidecar = display_sidecar(submission, track=track, subtrack=subtrack, fallback_rate=fallback_rate)
    stem = slug(submission.name)
    named = table[packet_schema.SCHEMAS[track].method].unique().to_pylist()
    if named != [stem]:
        raise ConfigError(
            f"submission {submission.name!r}: the table's method must be {stem!r}, it has {named}"
        )
    folder = Path(folder)
    target = f"{FOLDERS[track]}/{stem}"
    if not force:
        _check_room(folder, folder / f"{target}.parquet", submission.name)
    result_files.write_table(folder / f"{target}.parquet", table)
    result_files.write_json(
        folder / f"{target}.meta.json", {**sidecar, **({_SCORED_ON: scored_on} if scored_on else {})}
    )
    description = folder / f"{stem}.submission.yaml"
    with writing.file(description) as partial:
        partial.write_text(_description(submission, sidecar, target), encoding="utf-8")
    return description


def _check_room(folder: Path, file: Path, name: str) -> None:
    """Raises ConfigError where a packet would stand among, or in place of, something else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; a packet needs a folder")
    packets = [found for name in FOLDERS.values() for found in (folder / name).glob("*.parquet")]
    if not packets and any(folder.iterdir()):
        raise ConfigError(
            f"{folder} exists and holds no packet; choose another folder, or pass force=True (--force) to write into it"
        )
    if not file.exists():
        return
    try:
        known = json_text.loads(_sidecar_file(file).read_text(encoding="utf-8"))["display_name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = None
    if known != name:
        what = "something else" if known is None else f"the packet of another method, {known!r}"
        raise ConfigError(f"{file} is {what}; pass force=True (--force) to replace it")


def _description(submission: Submission, sidecar: dict[str, Any], target: str) -> str:
    # Every scalar is written as JSON, which is YAML; no YAML library is needed.
    about = {
        "code_url": submission.code_url,
        "paper_url": submission.paper_url,
        "feature_dim": submission.feature_dim,
        "foundation_variant": submission.foundation_variant,
        "notes": submission.notes,
    }
    lines = ["files:", f"  - {json.dumps(target + '.parquet')}", f"  - {json.dumps(target + '.meta.json')}"]
    for title, block in (("display", sidecar), ("description", about)):
        lines.append(f"{title}:")
        lines += [f"  {key}: {json.dumps(value)}" for key, value in block.items()]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, eq=False)
class Packet:
    """One method's substrate table and how it is shown.

    Attributes:
        track: `imputation`, `forecasting` or `prediction`.
        method: name in the table.
        fallback_rate: share of substituted predictions, None where it is not told.
        source: file or run folder it comes from.
        scored_on: what it was scored on; empty where it does not say.
        subgroups: subgroup of each participant by attribute, where the table itself does not tell.
    """

    track: str
    method: str
    table: pa.Table
    display_name: str
    type: str
    submitter: str
    subtrack: str
    fallback_rate: float | None
    source: Path
    subgroups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scored_on: Mapping[str, Any] = field(default_factory=dict)


def files(path: str | os.PathLike) -> list[Path]:
    """The packet tables that a path names: itself, or those of a folder and of its track folders.

    In a folder itself only tables with a display sidecar count; a run folder holds none.
    """
    path = Path(path)
    if path.is_file():
        return [path] if path.suffix == ".parquet" else []
    own = [file for file in sorted(path.glob("*.parquet")) if _sidecar_file(file).exists()]
    return own + [file for name in FOLDERS.values() for file in sorted((path / name).glob("*.parquet"))]


def read_packet(path: str | os.PathLike) -> Packet:
    """Reads and checks one packet.

    Args:
        path: its table; the display sidecar lies beside it.

    Raises:
        ConfigError: unreadable, or not as the format demands; `validate` lists everything that is wrong.
    """
    file = Path(path)
    found, problems = _read(file)
    if found is None or problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ConfigError(f"{file}: not a valid packet: {problems[0]}{more}")
    return found


def validate(path: str | os.PathLike) -> list[str]:
    """Everything that is wrong with a packet, in plain words; empty when it can be submitted."""
    return _read(Path(path))[1]


def _read(file: Path) -> tuple[Packet | None, list[str]]:
    try:
        table = pq.read_table(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        return None, [f"not readable as Parquet ({' '.join(str(error).split())[:160]})"]
    track = packet_schema.track_of(table.column_names)
    if track is None:
        return None, [f"its columns are of no track ({', '.join(table.column_names[:9])})"]
    problems = packet_schema.table_problems(table, track, method=file.stem)
    if slug(file.stem) != file.stem:
        problems.append(f"the file must be named by a slug like {slug(file.stem)!r}")
    sidecar, wrong = _read_sidecar(file, track)
    problems += wrong
    if problems:
        return None, problems
    rate = sidecar.get("fallback_rate")
    shown = {name: sidecar[name] for name in ("display_name", "type", "submitter", "subtrack")}
    found = Packet(
        track=track,
        method=file.stem,
        table=table,
        fallback_rate=None if rate is None else float(rate),
        source=file,
        scored_on=sidecar.get(_SCORED_ON) or {},
        **shown,
    )
    return found, []


def _read_sidecar(file: Path, track: str) -> tuple[dict[str, Any], list[str]]:
    sidecar = _sidecar_file(file)
    try:
        content = json_text.loads(sidecar.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, [f"its display sidecar {sidecar.name} is missing"]
    except (OSError, ValueError, RecursionError) as error:
        return {}, [f"{sidecar.name} is not readable as JSON ({' '.join(str(error).split())[:160]})"]
    return content, [f"{sidecar.name}: {text}" for text in packet_schema.sidecar_problems(content, track)]


def _sidecar_file(file: Path) -> Path:
    return file.with_name(f"{file.stem}.meta.json")
