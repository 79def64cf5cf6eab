from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from made_days import made_cohort, made_day
from openmhc_root import SPLIT_FILE, day_table, write_openmhc_root

from wearjax.errors import ConfigError, SourceError
from wearjax.sources import openmhc
from wearjax.sources.tally import Tally


@pytest.fixture
def days():
    return made_cohort(4, 3)


@pytest.fixture
def root(tmp_path, days):
    users = sorted({d.participant for d in days})
    parts = {"train": users[:2], "validation": users[2:3], "test": users[3:]}
    return write_openmhc_root(tmp_path / "root", days[::-1], parts)


def test_read_days_gives_stored_values_by_user_and_date(root, days):
    tally, steps = Tally(), []
    read = list(
        openmhc.read_days(root, tally=tally, progress=lambda done, total: steps.append((done, total)))
    )
    assert [(d.participant, d.date) for d in read] == [(d.participant, d.date) for d in days]
    for got, day in zip(read, days, strict=True):
        np.testing.assert_array_equal(got.values, day.values)
        assert got.nonwear_minutes == day.nonwear_minutes
        assert got.source == "openmhc"
    assert tally.read == {"user-days": 12}
    assert tally.used == {"days": 12}
    assert steps[-1] == (12, 12)


def test_a_repeated_user_day_is_counted_once(tmp_path):
    days = [made_day("a"), made_day("b"), made_day("a", seed=1)]
    root = write_openmhc_root(tmp_path / "root", days, {"train": ["a"], "validation": ["b"], "test": ["c"]})
    tally = Tally()
    read = list(openmhc.read_days(root, tally=tally))
    assert [d.participant for d in read] == ["a", "b"]
    np.testing.assert_array_equal(read[0].values, days[0].values)
    assert tally.skipped == {("user-days", "second row of the same user and date"): 1}


def test_missing_cannot_be_restored(root):
    with pytest.raises(ConfigError, match="zero-filled"):
        next(openmhc.read_days(root, tally=Tally(), absent="missing"))
    with pytest.raises(ConfigError, match="absent='nothing'"):
        next(openmhc.read_days(root, tally=Tally(), absent="nothing"))


def write_shard(folder, name, table, *, stream=True):
    folder.mkdir(exist_ok=True)
    with (ipc.new_stream if stream else ipc.new_file)(str(folder / name), table.schema) as sink:
        sink.write_table(table)


@pytest.mark.parametrize("stream", [True, False])
def test_streams_and_files_without_a_state_open(tmp_path, days, stream):
    for i in range(2):
        table = day_table(days[6 * i : 6 * i + 6])
        write_shard(tmp_path / "set", f"data-{i:05d}-of-00002.arrow", table, stream=stream)
    rows = openmhc.Rows(openmhc.open_table(tmp_path / "set"))
    assert len(rows) == 12
    for i in (11, 0, 5, 6):
        np.testing.assert_array_equal(rows[i], days[i].values)


def test_opening_reads_no_values(tmp_path, days):
    table = day_table(days)
    write_shard(tmp_path / "set", "data-00000-of-00001.arrow", table)
    before = pa.total_allocated_bytes()
    opened = openmhc.open_table(tmp_path / "set")
    assert opened.num_rows == len(days)
    assert pa.total_allocated_bytes() - before < table.nbytes / 10


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.list_(pa.float32())), pa.large_list(pa.list_(pa.float64())),
        pa.list_(pa.list_(pa.float16())), pa.list_(pa.list_(pa.float32(), 3), 2),
        pa.list_(pa.float32()), pa.list_(pa.float32(), 6),
    ],
    ids=str,
)  # fmt: skip
def test_every_list_layout_decodes(kind):
    flat = pa.types.is_float32(kind.value_type)
    grid = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, None, 12]], [[0, 0, 0], [1, 1, 1]]]
    column = pa.array([[*row[0], *row[1]] if flat else row for row in grid], kind)
    table = pa.table({"values": pa.chunked_array([column[:1], column[1:1], column[1:]])})
    rows = openmhc.Rows(table, shape=(2, 3))
    expected = np.array(
        [[[np.nan if v is None else v for v in line] for line in row] for row in grid], np.float32
    )
    for i in range(3):
        np.testing.assert_array_equal(rows[i], expected[i])
        assert rows[i].dtype == np.float32


def test_the_extension_type_of_the_datasets_library_reads_as_its_storage(tmp_path, days):
    table = day_table(days[:2])
    field = table.schema.field("values").with_metadata(
        {
            b"ARROW:extension:name": b"datasets.features.features.Array2DExtensionType",
            b"ARROW:extension:metadata": b'[[19, 1440], "float32"]',
        }
    )
    table = table.cast(table.schema.set(0, field))
    write_shard(tmp_path / "set", "data-00000-of-00001.arrow", table)
    np.testing.assert_array_equal(openmhc.Rows(openmhc.open_table(tmp_path / "set"))[1], days[1].values)


def test_null_nonwear_and_variance_are_nan(days):
    table = day_table(days[:3])
    column = table.column_names.index("total_nonwear_minutes")
    table = table.set_column(column, "total_nonwear_minutes", pa.array([None, 3.0, None], pa.float32()))
    np.testing.assert_array_equal(openmhc.nonwear_minutes(table, where="x"), [np.nan, 3, np.nan])
    variance = [[None, *range(18)], [1.0] * 19, [2.0] * 19]
    table = table.set_column(
        table.column_names.index("channel_variance"),
        "channel_variance",
        pa.array(variance, pa.list_(pa.float32())),
    )
    read = openmhc.channel_variance(table, where="x")
    np.testing.assert_array_equal(read, np.array([[np.nan, *range(18)], [1] * 19, [2] * 19], np.float32))


def set_json(file, **changes):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def shard(root, number=1):
    return root / "processed" / "daily_hf" / f"data-{number:05d}-of-00003.arrow"


def cut(file, size):
    file.write_bytes(file.read_bytes()[:size])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: (r / "dataset_version.json").unlink(), r"dataset_version\.json: not found"),
        (lambda r: (r / "dataset_version.json").write_text("{"), "not readable as JSON"),
        (
            lambda r: (r / "dataset_version.json").write_text('{"version": "xs"}'),
            "expected {'version', 'n_users'",
        ),
        (lambda r: set_json(r / "dataset_version.json", version="xl"), "version 'xl'; known: xs, full"),
        (lambda r: set_json(r / "dataset_version.json", daily_hf_rows=99), "12 rows, .* says 99"),
        (lambda r: shard(r).unlink(), "shard data-00001-of-00003.arrow is missing"),
        (lambda r: [f.unlink() for f in (r / "processed" / "daily_hf").glob("*.arrow")], "no data-.*shard"),
        (lambda r: cut(shard(r), 20_000), "not a whole Arrow shard"),
        (lambda r: cut(shard(r), 0), "not a whole Arrow shard"),
        (lambda r: shard(r).write_bytes(b"values\n1\n"), "not a whole Arrow shard"),
        (lambda r: write_shard(shard(r).parent, shard(r).name, pa.table({"x": [1]})), "do not fit together"),
        (lambda r: (r / "processed").rename(r / "moved"), "no such folder"),
    ],
)
def test_a_damaged_root_is_named_in_one_line(root, damage, message):
    damage(root)
    with pytest.raises(SourceError, match=message) as caught:
        list(openmhc.read_days(root, tally=Tally()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("user_id", None, "no column 'user_id'"),
        ("values", None, "no column 'values'"),
        ("total_nonwear_minutes", None, "no column 'total_nonwear_minutes'"),
        ("values", pa.array([[1.0, 2.0]]), r"'values' of row 0 has 2 numbers, not \(19, 1440\)"),
        ("date", pa.array(["01.03.2021"]), "date '01.03.2021', expected YYYY-MM-DD"),
        ("user_id", pa.array([None], pa.string()), "'user_id' has 1 empty cells"),
        ("channel_names", pa.array([["steps"] * 19]), "channel 'steps' stands where 'hk_iphone:HK"),
    ],
)
def test_a_damaged_row_is_named(tmp_path, column, value, message):
    root = write_openmhc_root(
        tmp_path / "root", [made_day("a")], {"train": ["a"], "validation": [], "test": []}
    )
    table = day_table([made_day("a")])
    place = table.column_names.index(column)
    table = table.drop_columns([column]) if value is None else table.set_column(place, column, value)
    write_shard(root / "processed" / "daily_hf", "data-00000-of-00001.arrow", table)
    with pytest.raises(SourceError, match=message):
        list(openmhc.read_days(root, tally=Tally()))


@pytest.mark.parametrize(("column", "step"), [("values", 1440), ("values", 19), ("user_id", 7)])
def test_offsets_that_point_outside_the_data_are_refused(tmp_path, column, step):
    people = ["person1", "person2", "person3"]
    root = write_openmhc_root(
        tmp_path / "root", [made_day(p) for p in people], {"train": people, "validation": [], "test": []}
    )
    file = root / "processed" / "daily_hf" / "data-00000-of-00001.arrow"
    write_shard(file.parent, file.name, day_table([made_day(p) for p in people]))
    good, bad = (np.array([step, end], "<i4").tobytes() for end in (2 * step, 1 << 30))
    content = file.read_bytes()
    assert good in content
    file.write_bytes(content.replace(good, bad))
    with pytest.raises(SourceError, match=f"{column!r}: damaged"):
        list(openmhc.read_days(root, tally=Tally()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"test": ["a", "b", "c", "d", "e"]}, "8 users, dataset_version.json says 4"),
        ({"test": "everyone"}, "expected the lists train, validation, test"),
        ({"validation": None}, "expected the lists"),
    ],
)
def test_splits_are_checked_against_the_marker(root, changes, message):
    set_json(root / "splits" / SPLIT_FILE, **changes)
    with pytest.raises(SourceError, match=message):
        openmhc.read_splits(root)


def test_a_user_in_two_splits_is_refused(root):
    found = openmhc.read_splits(root)
    set_json(root / "splits" / SPLIT_FILE, test=found["train"][:1])
    with pytest.raises(SourceError, match=f"user {found['train'][0]} stands twice"):
        openmhc.read_splits(root)
