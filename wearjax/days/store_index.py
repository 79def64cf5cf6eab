"""What a day store says of itself: `store.json` and the Parquet index, written by the store and checked on opening."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wearjax import channels, errors, json_text
from wearjax.days import clean
from wearjax.errors import StoreError

FORMAT = 1


def table_of(rows: list[tuple]) -> pa.Table:
    """The index of days, given as (participant, date, non-wear, variance, source, shard, row)."""
    participant, date, nonwear, variance, source, shard, row = zip(*rows, strict=True)
    flat = pa.array(np.concatenate(variance))
    return pa.table(
        {
            "participant": pa.array(participant, pa.string()),
            "date": pa.array(date, pa.date32()),
            "nonwear_minutes": pa.array(nonwear, pa.float32()),
            "variance": pa.FixedSizeListArray.from_arrays(flat, channels.N_CHANNELS),
            "retained": pa.array(clean.retained(np.asarray(nonwear), np.stack(variance))),
            "source": pa.array(source, pa.string()),
            "shard": pa.array(shard, pa.int32()),
            "row": pa.array(row, pa.int32()),
        }
    )


def texts(column: pa.ChunkedArray) -> np.ndarray:
    """Words, and dates in ISO form, as an object array; equal ones are one object."""
    coded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(coded.dictionary.to_pylist(), dtype=object)[coded.indices.to_numpy()]


def refuse_twice(table: pa.Table, path: Path) -> None:
    """Raises StoreError where a sorted index holds a date of a participant twice."""
    people, dates = table["participant"], table["date"]
    if table.num_rows < 2:
        return
    twice = pc.and_(pc.equal(people[1:], people[:-1]), pc.equal(dates[1:], dates[:-1]))
    if (row := pc.index(twice, True).as_py()) >= 0:
        raise StoreError(f"{path}: participant {people[row].as_py()} has two days dated {dates[row].as_py()}")


def read_meta(path: Path) -> dict[str, Any]:
    """`store.json`. Raises StoreError where it is missing, damaged, or of another format or channel table."""
    file = path / "store.json"
    try:
        meta = json_text.loads(file.read_text())
        version, digest = meta["format"], meta["channels"]
        facts = meta.get("provenance", {})
        if not isinstance(facts, dict) or not isinstance(facts.get("import", {}), dict):
            raise TypeError("provenance")
        if any(type(meta[name]) is not int or meta[name] < 0 for name in ("days", "shards")):
            raise TypeError("days and shards must be counts")
        if not isinstance(meta.get("sha256", []), list) or len(meta.get("sha256", [])) not in (
            0,
            meta["shards"],
        ):
            raise TypeError("sha256 must have a digest a shard")
    except FileNotFoundError:
        raise StoreError(f"{path}: not a day store (no store.json)") from None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StoreError(f"{file}: not readable as a store description ({error})") from None
    if version != FORMAT:
        raise StoreError(f"{file}: store format {version}, this version reads {FORMAT}")
    if digest != channels.digest():
        raise StoreError(f"{file}: written with another channel table; import the recordings again")
    return meta


def read(path: Path, meta: dict[str, Any]) -> pa.Table:
    """The index of a store. Raises StoreError where it is missing, damaged, or does not fit `store.json`."""
    file = path / "index.parquet"
    table = read_table(file)
    _check(file, table, meta)
    if table.num_rows != meta["days"]:
        raise StoreError(f"{file}: {table.num_rows} rows, store.json says {meta['days']} days")
    return table


def read_table(file: Path) -> pa.Table:
    """An index of any store, unchecked. Raises StoreError where it is missing or damaged."""
    try:
        return pq.read_table(file)
    except FileNotFoundError:
        raise StoreError(f"{file}: index is missing") from None
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{file}: not a readable index ({errors.one_line(error)})") from None


def _check(file: Path, table: pa.Table, meta: dict[str, Any]) -> None:
    """Raises StoreError where the columns are not those of an index, or point outside the shards."""
    wanted = table_of(
        [("", dt.date(2000, 1, 1), np.float32(0), np.zeros(channels.N_CHANNELS, np.float32), "", 0, 0)]
    ).schema
    for field in wanted:
        place = table.schema.get_field_index(field.name)
        if place < 0 or table.schema.field(place).type != field.type or table.column(place).null_count:
            raise StoreError(f"{file}: expected a column {field.name} of {field.type}, filled in every row")
    shard, row = table["shard"].to_numpy(), table["row"].to_numpy()
    if table.num_rows and (shard.min() < 0 or row.min() < 0 or shard.max() >= meta["shards"]):
        raise StoreError(f"{file}: days in shards that are not among the {meta['shards']} of the store")
    rows = np.bincount(shard, minlength=meta["shards"])
    if table.num_rows and np.any(row >= rows[shard]):
        raise StoreError(f"{file}: days in rows that their shard does not have")
