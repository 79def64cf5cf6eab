"""Writes a small OpenMHC data root for tests, in the published layout.

    root/dataset_version.json        {"version": "xs", "n_users", "daily_hf_rows"}
    root/splits/sharable_users_seed42_2026_xs.json
    root/labels/enrollment_info.json {user: {"birth_year"}}
    root/labels/last_labels.json     {"BiologicalSex": {user: {"timestamps", "values"}}}, male = 1
    root/hourly_trajectory/, root/forecasting_sample_index/   only with `write_trajectories`
    root/processed/daily_hf/data-NNNNN-of-NNNNN.arrow (IPC streams), state.json, dataset_info.json

A row of `daily_hf` is one user-day, values zero-filled. Row order is the order of `days`.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from wearjax.channels import CHANNELS
from wearjax.day import Day
from wearjax.days import clean

SPLIT_FILE = "sharable_users_seed42_2026_xs.json"
SPLIT_FILES = {"xs": SPLIT_FILE, "full": "sharable_users_seed42_2026.json"}


def write_openmhc_root(
    path: Path,
    days: Sequence[Day],
    splits: Mapping[str, Sequence[str]],
    demographics: Mapping[str, Mapping] | None = None,
    *,
    rows_per_shard: int = 4,
    values_type: str = "nested",
    version: str = "xs",
) -> Path:
    """Writes the root and returns its path.

    Args:
        splits: user ids of `train`, `validation` and `test`.
        demographics: `{user: {"birth_year", "sex"}}` as `wearjax.days.labels` returns them.
        rows_per_shard: few, so that several shards arise.
        values_type: `nested`, `fixed` (fixed-size lists) or `flat` (one list a row).
        version: `xs` or `full`, as the marker says it.
    """
    path = Path(path)
    n_users = sum(len(users) for users in splits.values())
    _json(path / "dataset_version.json", {"version": version, "n_users": n_users, "daily_hf_rows": len(days)})
    _json(
        path / "splits" / SPLIT_FILES[version],
        {name: list(splits[name]) for name in ("train", "validation", "test")},
    )
    demographics = demographics or {}
    years = {user: {"birth_year": known["birth_year"]} for user, known in demographics.items()}
    sexes = {
        user: {"timestamps": ["2020-01-01T00:00:00"], "values": [known["sex"] == "male"]}
        for user, known in demographics.items()
        if known.get("sex")
    }
    _json(path / "labels" / "enrollment_info.json", years)
    _json(path / "labels" / "last_labels.json", {"BiologicalSex": sexes})
    folder = path / "processed" / "daily_hf"
    folder.mkdir(parents=True)
    parts = [days[i : i + rows_per_shard] for i in range(0, len(days), rows_per_shard)]
    names = [f"data-{i:05d}-of-{len(parts):05d}.arrow" for i in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        table = day_table(part, values_type=values_type)
        with ipc.new_stream(str(folder / name), table.schema) as stream:
            for batch in table.to_batches(max_chunksize=3):
                stream.write_batch(batch)
    _json(
        folder / "state.json", {"_data_files": [{"filename": name} for name in names], "_format_type": None}
    )
    _json(folder / "dataset_info.json", {"features": {}})
    return path


def day_table(days: Sequence[Day], *, values_type: str = "nested") -> pa.Table:
    """The Arrow rows of some days; a variance that a day does not bring is that of its cleaned values."""
    stored = [np.nan_to_num(day.values, nan=0.0) for day in days]
    variance = [
        clean.channel_variance(clean.zero_to_nan(values)) if day.variance is None else day.variance
        for day, values in zip(days, stored, strict=True)
    ]
    float_list = pa.list_(pa.float32())
    return pa.table(
        {
            "values": _values(stored, values_type),
            "user_id": pa.array([day.participant for day in days]),
            "date": pa.array([day.date.isoformat() for day in days]),
            "has_any_data": pa.array([(values != 0).any(axis=1).tolist() for values in stored]),
            "has_any_data_shape": pa.array([[len(CHANNELS)]] * len(days), pa.list_(pa.int32())),
            "minutes_nonzero_or_nan": pa.array(
                [(values != 0).sum(axis=1).tolist() for values in stored], pa.list_(pa.int32())
            ),
            "minutes_nonzero_or_nan_shape": pa.array([[len(CHANNELS)]] * len(days), pa.list_(pa.int32())),
            "channel_names": pa.array([[c.source_name for c in CHANNELS]] * len(days)),
            "channel_units": pa.array([[c.unit for c in CHANNELS]] * len(days)),
            "total_nonwear_minutes": pa.array([day.nonwear_minutes for day in days], pa.float32()),
            "channel_variance": pa.array([row.tolist() for row in variance], float_list),
        }
    )


def _values(stored: list[np.ndarray], values_type: str) -> pa.Array:
    cells = pa.array(np.concatenate([values.ravel() for values in stored]))
    channels, minutes = stored[0].shape
    if values_type == "flat":
        return _lists(cells, channels * minutes)
    if values_type == "fixed":
        return pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(cells, minutes), channels)
    return _lists(_lists(cells, minutes), channels)


def _lists(cells: pa.Array, length: int) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(cells) + 1, length), pa.int32()), cells)


def _json(file: Path, content) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def write_trajectories(
    root: Path,
    hours: Mapping[str, tuple[dt.date, np.ndarray]],
    retained: Mapping[str, Sequence[str]],
    points: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    *,
    rows_per_shard: int = 2,
) -> Path:
    """Adds `hourly_trajectory/` and `forecasting_sample_index/` to a root.

    Args:
        hours: by user, in the order of the rows: the first day, and (hours, 19) values with NaN.
        retained: ISO dates that pass the day filters, by user.
        points: sample index files by their name, e.g. `sample_index_P_24_M_H_7_3_S_100.json`.
    """
    folder = Path(root) / "hourly_trajectory"
    folder.mkdir(parents=True)
    users = list(hours)
    parts = [users[i : i + rows_per_shard] for i in range(0, len(users), rows_per_shard)]
    names = [f"data-{i:05d}-of-{len(parts):05d}.arrow" for i in range(len(parts))]
    for name, part in zip(names, parts, strict=True):
        table = _trajectory_table({user: hours[user] for user in part})
        with ipc.new_stream(str(folder / name), table.schema) as stream:
            stream.write_table(table)
    _json(folder / "state.json", {"_data_files": [{"filename": name} for name in names]})
    index = Path(root) / "forecasting_sample_index"
    _json(index / "day_remain_mask.json", {user: list(days) for user, days in retained.items()})
    for name, content in (points or {}).items():
        _json(index / name, {user: list(days) for user, days in content.items()})
    return Path(root)


def _trajectory_table(hours: Mapping[str, tuple[dt.date, np.ndarray]]) -> pa.Table:
    stamps = {
        user: [
            (dt.datetime.combine(first, dt.time()) + dt.timedelta(hours=h)).isoformat()
            for h in range(len(values))
        ]
        for user, (first, values) in hours.items()
    }
    return pa.table(
        {
            "user_id": list(hours),
            "values": pa.array(
                [[row.tolist() for row in values] for _, values in hours.values()],
                pa.list_(pa.list_(pa.float32())),
            ),
            "timestamps": list(stamps.values()),
            "channel_names": [[c.source_name for c in CHANNELS]] * len(hours),
            "channel_units": [[c.unit for c in CHANNELS]] * len(hours),
            "start_time": [own[0] for own in stamps.values()],
            "end_time": [own[-1] for own in stamps.values()],
        }
    )
