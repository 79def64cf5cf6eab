"""From the folder of a finished evaluation to packets: read for a leaderboard, or written to be sent along."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wearjax import json_text
from wearjax.benchmarks.openmhc import forecasting_results, packet, packet_schema, scored_on
from wearjax.benchmarks.openmhc.packet import Packet, Submission
from wearjax.errors import ConfigError, one_line

TABLE = "per_user_errors.parquet"


def is_run(path: str | os.PathLike) -> bool:
    """Whether a path is a run folder whose methods can be scored beside others."""
    return (Path(path) / TABLE).is_file()


def read(folder: str | os.PathLike) -> list[Packet]:
    """The methods of a run of the imputation or the forecasting track.

    Raises:
        ConfigError: the folder is not readable, or its table not as the format demands.
    """
    folder = Path(folder)
    file = folder / TABLE
    try:
        table = pq.read_table(file)
        results = json_text.loads((folder / "results.json").read_text())
        rates, several = results.get("fallback", {}), results.get("n_days", 1) > 1
        told = results.get(scored_on.FIELD)
        subgroups = _subgroups(folder)
    except (pa.ArrowException, OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"{folder}: not a readable run folder ({one_line(error)[:160]})") from None
    track = packet_schema.track_of(table.column_names)
    problems = (
        ["its columns are of no track"]
        if track is None
        else packet_schema.table_problems(table, track, method=None)
    )
    if track is None or problems:
        raise ConfigError(f"{file}: not a valid table: {problems[0]}")
    column = table[packet_schema.SCHEMAS[track].method]
    return [
        Packet(
            track=track,
            method=method,
            table=table.filter(pc.equal(column.cast(pa.string()), method)),
            display_name=method,
            type="Statistical" if method in packet.STATISTICAL else "",
            submitter="",
            subtrack=packet_schema.SUBTRACKS[track][1 if several and track == "imputation" else 0],
            fallback_rate=rates.get(method),
            source=folder,
            subgroups=subgroups,
            scored_on={} if scored_on.problems(told) else told or {},
        )
        for method in column.unique().to_pylist()
    ]


def _subgroups(folder: Path) -> dict[str, dict[str, str]]:
    """Attribute, then participant, to the subgroup; empty where the run did not write it."""
    file = folder / forecasting_results.SUBGROUPS
    found: dict[str, dict[str, str]] = {}
    if file.exists():
        for person, own in json_text.loads(file.read_text(encoding="utf-8")).items():
            for attribute, value in own.items():
                found.setdefault(attribute, {})[person] = str(value)
    return found


def write(
    run: str | os.PathLike,
    out: str | os.PathLike,
    *,
    method: str | None = None,
    submission: Submission | None = None,
    subtrack: str | None = None,
    force: bool = False,
) -> Path:
    """Writes the leaderboard packet of one method of a finished evaluation; returns the path of its description.

    It has the bytes that `to_submission` of the same results writes; nothing is evaluated again.

    Args:
        run: folder of an imputation, forecasting or prediction evaluation (`output_dir`, `--out`).
        out: folder of packets; those of other methods may stand in it.
        method: which one; default the only one, or the only learned one.
        submission: name (empty: that of the method), submitter and links.
        subtrack: of the prediction track, `static` or `longitudinal`; default as the run says.
        force: replace what is in `out`, not an earlier packet of the method only.

    Raises:
        ConfigError: no finished run, no such method or none chosen of several, or `out` holds something else.
    """
    folder = Path(run)
    if not (folder / "results.json").is_file():
        raise ConfigError(f"{folder}: no finished evaluation (no results.json)")
    files = packet.files(folder)
    if not (is_run(folder) or files):
        raise ConfigError(f"{folder}: its results are of no track that has packets")
    packets = read(folder) if is_run(folder) else [packet.read_packet(file) for file in files]
    by_name = {p.display_name: p for p in packets}
    found = by_name[packet.one_of(tuple(by_name), tuple(by_name), method)]
    about = submission or Submission(name="", submitter="", code_url="")
    about = dataclasses.replace(about, name=about.name or found.display_name)
    return packet.write_submission(
        out,
        _renamed(found, packet.slug(about.name)),
        about,
        track=found.track,
        subtrack=subtrack or found.subtrack,
        fallback_rate=found.fallback_rate,
        scored_on=found.scored_on,
        force=force,
    )


def _renamed(found: Packet, name: str) -> pa.Table:
    schema = packet.arrow_schema(found.track)
    position = found.table.schema.get_field_index(packet_schema.SCHEMAS[found.track].method)
    column = packet.coded(np.zeros(len(found.table), np.int32), [name])
    renamed = found.table.set_column(position, schema.field(position).name, column)
    return renamed.cast(schema).unify_dictionaries()
