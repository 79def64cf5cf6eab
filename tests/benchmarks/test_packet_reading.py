"""Packets of others: read back, and refused with what is wrong in them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks.openmhc import bootstrap_timing, packet, packet_schema
from wearjax.errors import ConfigError

SIDECARS = {
    track: {"display_name": "A method", "type": "Neural", "submitter": "us", "subtrack": names[0]}
    for track, names in packet_schema.SUBTRACKS.items()
}


def imputation_table() -> pa.Table:
    errors = bootstrap_timing.random_table(n_participants=3, n_methods=2)
    return packet.imputation_rows(errors, split="test", rename={"method_1": "mine"})


def forecasting_table() -> pa.Table:
    rows = [
        ("mine", "continuous", "mae", 5, "watch_hr", "u1", 0.2, 24),
        ("mine", "binary", "auroc", 7, "sleep_asleep", "u1", 0.9, 1),
    ]
    return from_rows("forecasting", rows)


def prediction_table() -> pa.Table:
    groups = [("all", "all"), ("age_group", "30-39"), ("sex", "unknown")]
    rows = [
        ("mine", "Diabetes", "binary", *g, u, y, y, 0.4)
        for u, y in (("u1", 1.0), ("u2", 0.0))
        for g in groups
    ]
    return from_rows("prediction", rows)


def from_rows(track: str, rows: list[tuple]) -> pa.Table:
    schema = packet_schema.SCHEMAS[track].columns
    columns = zip(schema.items(), zip(*rows, strict=True), strict=True)
    return pa.table({name: pa.array(list(cells), kind) for (name, kind), cells in columns})


TABLES = {"imputation": imputation_table, "forecasting": forecasting_table, "prediction": prediction_table}


def write(folder, table: pa.Table, sidecar: dict, stem: str = "mine"):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{stem}.parquet")
    (folder / f"{stem}.meta.json").write_text(json.dumps(sidecar))
    return folder / f"{stem}.parquet"


@pytest.mark.parametrize("track", TABLES)
def test_a_valid_packet_is_read_back(tmp_path, track):
    table = TABLES[track]()
    file = write(tmp_path, table, {**SIDECARS[track], "fallback_rate": 0.25})
    assert packet.validate(file) == []
    found = packet.read_packet(file)
    assert (found.track, found.method, found.display_name, found.type) == (
        track,
        "mine",
        "A method",
        "Neural",
    )
    assert (found.submitter, found.subtrack, found.fallback_rate) == ("us", SIDECARS[track]["subtrack"], 0.25)
    assert found.table.num_rows == table.num_rows
    assert packet.arrow_schema(track).names == list(packet_schema.SCHEMAS[track].columns)


def test_what_we_write_can_be_read_by_us(tmp_path):
    about = packet.Submission(name="Mine", submitter="us", code_url="")
    packet.write_submission(
        tmp_path, imputation_table(), about, track="imputation", subtrack="long-context", fallback_rate=0.0
    )
    (file,) = packet.files(tmp_path)
    assert file == tmp_path / "imputation" / "mine.parquet"
    assert packet.files(file) == [file]
    assert packet.read_packet(file).subtrack == "long-context"


def test_tables_without_a_sidecar_are_no_packets_of_a_folder(tmp_path):
    pq.write_table(imputation_table(), tmp_path / "per_user_errors.parquet")
    assert packet.files(tmp_path) == []
    assert packet.files(tmp_path / "nowhere.csv") == []


def changed(table: pa.Table, column: str, value) -> pa.Table:
    """The first cell of a column replaced."""
    cells = table[column].to_pylist()
    cells[0] = value
    kind = table.schema.field(column).type
    kind = pa.string() if pa.types.is_dictionary(kind) else kind
    return table.set_column(table.column_names.index(column), column, pa.array(cells, kind))


@pytest.mark.parametrize(
    ("track", "column", "value", "message"),
    [
        ("imputation", "method", "other", "column method must hold 'mine'.*other, mine"),
        ("imputation", "scenario", "nap", "scenario 'nap' scores no channel"),
        ("imputation", "channel", "ch_19", "scores no channel 'ch_19'"),
        ("imputation", "channel_type", "binary_collapsed", "must be of type continuous, found 'binary_collapsed'"),
        ("imputation", "split", "train", "unknown split: train"),
        ("imputation", "subgroup_value", "61+", "unknown subgroup: all=61\\+"),
        ("imputation", "user_id", None, "column user_id has 1 empty cells"),
        ("imputation", "E_per_user", np.inf, "column E_per_user has 1 values that are not finite"),
        ("imputation", "E_per_user", -0.5, "1 errors below 0"),
        ("forecasting", "metric", "mse", "scored by mae, found continuous and mse"),
        ("forecasting", "channel_idx", 19, "unknown channel_idx: 19"),
        ("forecasting", "metric_value", np.nan, "metric_value has 1 values that are not finite"),
        ("forecasting", "n_values", 0, "1 numbers below 1"),
        ("prediction", "task", "Height", "unknown task: Height"),
        ("prediction", "task_type", "ordinal", "must be of type binary, found 'ordinal'"),
        ("prediction", "y_proba", np.nan, "y_proba has 1 values that are not finite"),
        ("prediction", "subgroup_attr", "country", "unknown subgroup: country=all"),
    ],
)  # fmt: skip
def test_wrong_cells_are_named(tmp_path, track, column, value, message):
    file = write(tmp_path, changed(TABLES[track](), column, value), SIDECARS[track])
    with pytest.raises(ConfigError, match=f"mine.parquet: not a valid packet: .*{message}"):
        packet.read_packet(file)


def test_the_first_of_several_problems_is_shown_with_their_number(tmp_path):
    table = changed(changed(imputation_table(), "split", "train"), "scenario", "nap")
    file = write(tmp_path, table, SIDECARS["imputation"])
    assert len(packet.validate(file)) == 2
    with pytest.raises(ConfigError, match=r"\(and 1 more\)"):
        packet.read_packet(file)


@pytest.mark.parametrize("track", TABLES)
def test_columns_must_be_those_of_the_format(tmp_path, track):
    table = TABLES[track]()
    last = table.column_names[-1]
    assert packet.validate(write(tmp_path, table.drop_columns(["user_id"]), SIDECARS[track])) == [
        "column user_id is missing"
    ]
    extra = table.append_column("note", pa.array(["x"] * len(table)))
    assert packet.validate(write(tmp_path, extra, SIDECARS[track])) == [
        "column note is not part of the format"
    ]
    whole = table.set_column(
        len(table.column_names) - 1, last, table[last].cast(pa.float64()).cast(pa.float16())
    )
    assert "must be" in packet.validate(write(tmp_path, whole, SIDECARS[track]))[0]
    assert packet.validate(write(tmp_path, table.slice(0, 0), SIDECARS[track])) == ["no row"]


def test_repeated_rows_are_counted(tmp_path):
    table = imputation_table()
    twice = pa.concat_tables([table, table.slice(0, 2)])
    assert "2 rows repeat another's" in packet.validate(write(tmp_path, twice, SIDECARS["imputation"]))[0]


def test_predictions_must_come_once_in_each_attribute(tmp_path):
    table = prediction_table()
    fewer = table.slice(0, 5)  # the sex of the second participant is missing
    (problem,) = packet.validate(write(tmp_path, fewer, SIDECARS["prediction"]))
    assert "1 rows of sex, 2 of all" in problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"submitter": None}, "submitter must be a text"),
        ({"display_name": "  "}, "display_name is empty"),
        ({"subtrack": "static"}, "unknown subtrack: static"),
        ({"fallback_rate": 1.5}, "fallback_rate must lie between 0 and 1"),
        ({"fallback_rate": True}, "fallback_rate must lie between 0 and 1"),
    ],
)
def test_sidecars_are_checked(tmp_path, change, message):
    file = write(tmp_path, imputation_table(), {**SIDECARS["imputation"], **change})
    (problem,) = packet.validate(file)
    assert message in problem


def test_a_packet_needs_its_sidecar_and_a_slug_for_a_name(tmp_path):
    file = write(tmp_path, imputation_table(), SIDECARS["imputation"])
    sidecar = tmp_path / "mine.meta.json"
    sidecar.write_text("[1]")
    assert packet.validate(file) == ["mine.meta.json: not a JSON object"]
    sidecar.write_text("{")
    assert "not readable as JSON" in packet.validate(file)[0]
    sidecar.unlink()
    assert packet.validate(file) == ["its display sidecar mine.meta.json is missing"]
    row = {**imputation_table().slice(0, 1).to_pylist()[0], "method": "My-Method"}
    upper = write(
        tmp_path, from_rows("imputation", [tuple(row.values())]), SIDECARS["imputation"], "My-Method"
    )
    assert packet.validate(upper) == ["the file must be named by a slug like 'my_method'"]


def test_foreign_files_are_refused_in_one_line(tmp_path):
    (tmp_path / "text.parquet").write_text("no table")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    for name, message in (
        ("text", "not readable as Parquet"),
        ("other", "of no track"),
        ("absent", "not readable"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            packet.read_packet(tmp_path / f"{name}.parquet")
        assert "\n" not in str(caught.value)
