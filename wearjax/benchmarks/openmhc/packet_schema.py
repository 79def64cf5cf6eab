"""What the table and the display sidecar of a leaderboard packet must hold, by track.

OpenMHC evaluation, substrate files. The checks return what is wrong in plain words and raise nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wearjax import channels
from wearjax import tasks as outcomes
from wearjax.benchmarks.openmhc import imputation_tasks, scored_on
from wearjax.benchmarks.openmhc.imputation_cases import ATTRIBUTES

TEXT = pa.string()
FOLDERS = {"imputation": "imputation", "forecasting": "forecasting", "prediction": "downstream"}
SUBTRACKS = {
    "imputation": ("single-day", "long-context"),
    "forecasting": ("other",),
    "prediction": ("static", "longitudinal"),
}
SPLITS = ("test", "val")
_SIDECAR = ("display_name", "type", "submitter", "subtrack")
_SHOWN = 3  # unknown names that a message lists


@dataclass(frozen=True)
class Schema:
    """Columns of a track's table.

    Attributes:
        columns: name to type; texts may be plain or dictionary-coded.
        method: the column that names the method.
        keys: columns that together occur once.
    """

    columns: Mapping[str, pa.DataType]
    method: str
    keys: tuple[str, ...]


SCHEMAS = {
    "imputation": Schema(
        {
            **dict.fromkeys(
                ("method", "scenario", "split", "channel", "channel_type", "subgroup_attr", "subgroup_value",
                 "user_id"), TEXT,
            ),
            "E_per_user": pa.float32(),
        },
        "method",
        ("scenario", "split", "channel", "subgroup_attr", "subgroup_value", "user_id"),
    ),
    "forecasting": Schema(
        {
            "model": TEXT, "group": TEXT, "metric": TEXT, "channel_idx": pa.int16(), "channel_name": TEXT,
            "user_id": TEXT, "metric_value": pa.float64(), "n_values": pa.int64(),
        },
        "model",
        ("metric", "channel_idx", "user_id"),
    ),
    "prediction": Schema(
        {
            **dict.fromkeys(("method", "task", "task_type", "subgroup_attr", "subgroup_value", "user_id"), TEXT),
            **dict.fromkeys(("y_true", "y_pred", "y_proba"), pa.float32()),
        },
        "method",
        ("task", "subgroup_attr", "subgroup_value", "user_id"),
    ),
}  # fmt: skip
FORECASTING_METRIC = {"continuous": "mae", "binary": "auroc"}


def track_of(columns: Iterable[str]) -> str | None:
    """The track whose table has most of the columns; None if it has none of its own."""
    given = set(columns)
    own = {"imputation": "E_per_user", "forecasting": "metric_value", "prediction": "y_true"}
    return next((track for track, column in own.items() if column in given), None)


def table_problems(table: pa.Table, track: str, *, method: str | None) -> list[str]:
    """What is wrong with a table.

    Args:
        method: the only method it may name; None for a run's own table, which holds several.
    """
    schema = SCHEMAS[track]
    found = _column_problems(table, schema)
    if found:
        return found  # the rest would only repeat them
    if not len(table):
        return ["no row"]
    texts = [name for name, kind in schema.columns.items() if kind == TEXT]
    plain = pa.table(
        {name: _plain(table[name]) if name in texts else table[name] for name in table.column_names}
    )
    nulls = [name for name in schema.columns if plain[name].null_count]
    if nulls:
        return [f"column {name} has {plain[name].null_count:,} empty cells" for name in nulls]
    named = plain[schema.method].unique().to_pylist()
    if method is not None and named != [method]:
        found.append(
            f"column {schema.method} must hold {method!r}, the name of the file, only; it holds {_list(named)}"
        )
    keys = schema.keys if method is not None else (schema.method, *schema.keys)
    distinct = len(_distinct(plain, keys))
    if distinct < len(plain):
        found.append(f"{len(plain) - distinct:,} rows repeat another's {', '.join(keys)}")
    return found + _CONTENT[track](plain)


def _column_problems(table: pa.Table, schema: Schema) -> list[str]:
    missing = [name for name in schema.columns if name not in table.column_names]
    extra = [name for name in table.column_names if name not in schema.columns]
    found = [f"column {name} is missing" for name in missing]
    found += [f"column {name} is not part of the format" for name in extra]
    for name, kind in schema.columns.items():
        if name in missing:
            continue
        actual = table.schema.field(name).type
        value = actual.value_type if pa.types.is_dictionary(actual) else actual
        is_text = pa.types.is_string(value) or pa.types.is_large_string(value)
        if not (is_text if kind == TEXT else actual == kind):
            found.append(f"column {name} must be {kind}, found {actual}")
    return found


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(TEXT)


def _distinct(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.select(list(names)).group_by(list(names)).aggregate([])


def _unknown(what: str, names: Iterable[Any], known: Iterable[Any]) -> list[str]:
    known = set(known)
    found = [name for name in names if name not in known]
    return [f"unknown {what}: {_list(found)}"] if found else []


def _list(names: Sequence[Any]) -> str:
    shown = ", ".join(map(str, names[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else shown or "none"


def _subgroup_problems(table: pa.Table, attributes: Mapping[str, Sequence[str]]) -> list[str]:
    known = {("all", "all"), *((a, v) for a, values in attributes.items() for v in values)}
    pairs = _distinct(table, ("subgroup_attr", "subgroup_value")).to_pylist()
    found = [(row["subgroup_attr"], row["subgroup_value"]) for row in pairs]
    problems = _unknown("subgroup", [f"{a}={v}" for a, v in found], {f"{a}={v}" for a, v in known})
    return problems if ("all", "all") in found else [*problems, "no row of the subgroup all"]


def _finite(table: pa.Table, name: str) -> list[str]:
    bad = len(table) - (pc.sum(pc.is_finite(table[name])).as_py() or 0)
    return [f"column {name} has {bad:,} values that are not finite"] if bad else []


def _imputation_problems(table: pa.Table) -> list[str]:
    known = {(t.scenario, t.channel): t.channel_type for t in imputation_tasks.tasks()}
    found = _unknown("split", table["split"].unique().to_pylist(), SPLITS)
    for row in _distinct(table, ("scenario", "channel", "channel_type")).to_pylist():
        wanted = known.get((row["scenario"], row["channel"]))
        if wanted is None:
            found.append(f"scenario {row['scenario']!r} scores no channel {row['channel']!r}")
        elif row["channel_type"] != wanted:
            found.append(
                f"channel {row['channel']!r} must be of type {wanted}, found {row['channel_type']!r}"
            )
    found += _subgroup_problems(table, ATTRIBUTES) + _finite(table, "E_per_user")
    flags = pc.and_(pc.not_equal(table["channel_type"], "continuous"), pc.greater(table["E_per_user"], 1.0))
    for what, bad in (("below 0", pc.less(table["E_per_user"], 0.0)), ("of flags above 1", flags)):
        count = pc.sum(bad).as_py()
        found += [f"column E_per_user has {count:,} errors {what}"] if count else []
    return found


def _forecasting_problems(table: pa.Table) -> list[str]:
    found: list[str] = []
    names: dict[int, set[str]] = {}
    for row in _distinct(table, ("group", "metric", "channel_idx", "channel_name")).to_pylist():
        index = row["channel_idx"]
        if not 0 <= index < channels.N_CHANNELS:
            found.append(f"unknown channel_idx: {index}")
            continue
        names.setdefault(index, set()).add(row["channel_name"])
        kind = channels.CHANNELS[index].kind
        if (row["group"], row["metric"]) != (kind, FORECASTING_METRIC[kind]):
            found.append(
                f"channel {index} is {kind} and scored by {FORECASTING_METRIC[kind]}, "
                f"found {row['group']} and {row['metric']}"
            )
    found += [f"channel {i} has several names: {_list(sorted(n))}" for i, n in names.items() if len(n) > 1]
    count = pc.sum(pc.less(table["n_values"], 1)).as_py()
    found += [f"column n_values has {count:,} numbers below 1"] if count else []
    return found + _finite(table, "metric_value")


def _prediction_problems(table: pa.Table) -> list[str]:
    found = []
    for row in _distinct(table, ("task", "task_type")).to_pylist():
        task = outcomes.TASKS.get(row["task"])
        if task is None:
            found += _unknown("task", [row["task"]], ())
        elif row["task_type"] != task.kind:
            found.append(f"task {task.code!r} must be of type {task.kind}, found {row['task_type']!r}")
    # Participants below the first age group count to it here.
    found += _subgroup_problems(table, ATTRIBUTES)
    rows = {row["values"]: row["counts"] for row in table["subgroup_attr"].value_counts().to_pylist()}
    found += [
        f"every prediction must come once in each attribute: {n:,} rows of {a}, {rows['all']:,} of all"
        for a, n in rows.items()
        if n != rows.get("all", n)
    ]
    for name in ("y_true", "y_pred", "y_proba"):
        found += _finite(table, name)
    return found


_CONTENT = {
    "imputation": _imputation_problems,
    "forecasting": _forecasting_problems,
    "prediction": _prediction_problems,
}


def sidecar_problems(sidecar: Any, track: str) -> list[str]:
    """What is wrong with a display sidecar."""
    if not isinstance(sidecar, Mapping):
        return ["not a JSON object"]
    found = [f"{name} must be a text" for name in _SIDECAR if not isinstance(sidecar.get(name), str)]
    if not found and not sidecar["display_name"].strip():
        found.append("display_name is empty")
    if isinstance(sidecar.get("subtrack"), str):
        found += _unknown("subtrack", [sidecar["subtrack"]], SUBTRACKS[track])
    rate = sidecar.get("fallback_rate")
    is_rate = isinstance(rate, int | float) and not isinstance(rate, bool) and 0 <= rate <= 1
    if rate is not None and not is_rate:
        found.append(f"fallback_rate must lie between 0 and 1, found {rate!r}")
    return found + scored_on.problems(sidecar.get(scored_on.FIELD))
