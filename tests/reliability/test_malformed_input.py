"""Damaged inputs end in a clear line or in counts: a seeded part of `fuzz.py` for every reader, and attacks by name."""

from __future__ import annotations

import contextlib
import gzip
import json
import zipfile

import fuzz
import pytest
import readers
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax import errors, json_text, npz
from wearjax.days import importing
from wearjax.errors import SourceError, WearjaxError
from wearjax.language import parsing
from wearjax.sources import vital_file
from wearjax.sources.tally import Tally
from wearjax.vitals import CENTRES

COUNT, SEED = 3, 11
SLOW = {"torch ckpt", "safetensors", "bundle", "run folder", "questions", "openmhc import"}  # fewer of these


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return fuzz.Inputs(tmp_path_factory.mktemp("inputs"))


@pytest.mark.parametrize("reader", readers.READERS, ids=lambda reader: reader.name)
def test_damage_is_refused_or_counted(reader, inputs, tmp_path):
    for module in reader.extras:
        pytest.importorskip(module)
    for number in range(1 if reader.name in SLOW else COUNT):
        outcome = fuzz.attack(reader, number, SEED, inputs, tmp_path / str(number))
        assert outcome.kind != "bug", f"{outcome.damage}: {outcome.told}"


@pytest.mark.parametrize("reader", [r for r in readers.READERS if not r.jax], ids=lambda reader: reader.name)
def test_what_is_not_damaged_is_read(reader, inputs, tmp_path):
    for module in reader.extras:
        pytest.importorskip(module)
    path = inputs.copy(reader, tmp_path / "in")
    outcome = fuzz.judge(reader, path, tmp_path, "nothing")
    assert outcome.kind == "read", outcome.told


@given(st.binary(max_size=300))
def test_any_bytes_as_json(data):
    with contextlib.suppress(ValueError):
        json_text.loads(data)


@given(st.text(max_size=200))
def test_any_text_as_an_answer(text):
    assert parsing.letter(text) in (None, *"ABCDEFGHIJ")
    found = parsing.probability(text)
    assert found is None or 0 <= found <= 1
    parsing.label(text, ["no", "yes"])


@settings(max_examples=30)
@given(data=st.data())
def test_any_flipped_bytes_in_an_archive_of_arrays(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("npz")
    readers.BY_NAME["mask file"].make(folder)
    file = folder / "test" / "temporal_slice.npz"
    content = bytearray(file.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[place] ^= data.draw(st.integers(1, 255))
    file.write_bytes(content)
    with contextlib.suppress(ValueError):  # any other error is a defect
        npz.load(file)


@pytest.mark.parametrize("source", ["fitbit", "actigraphy"])
def test_a_link_to_itself(source, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    readers.BY_NAME[{"fitbit": "fitbit fitabase", "actigraphy": "actigraphy awd"}[source]].make(folder)
    for name in ("minuteSteps.csv", "carl.AWD", "heartrate_seconds_merged.csv"):
        if (folder / name).exists():
            (folder / name).unlink()
            (folder / name).symlink_to(name)
    with pytest.raises(SourceError, match="symbolic links"):
        importing.import_days(source, folder, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_counts_centuries_apart_do_not_fill_the_memory(tmp_path):
    file = tmp_path / "a.csv"
    rows = [
        f"{time},1,5"
        for time in (
            "1950-01-01 00:00:00",
            "1950-01-01 00:01:00",
            "1950-01-01 00:02:00",
            "2250-01-01 00:00:00",
        )
    ]
    file.write_text("\n".join(["timestamp,date,activity", *rows]) + "\n")
    with pytest.raises(SourceError, match=r"participant a: minutes 300 years apart"):
        importing.import_days("actigraphy", file, tmp_path / "out")


def test_a_recording_cut_short_is_not_taken_for_a_shorter_one(tmp_path):
    pytest.importorskip("vitaldb")
    readers.BY_NAME["vital files"].make(tmp_path)
    file = tmp_path / "12.vital"
    whole = file.read_bytes()
    assert len(vital_file.read_vital(file, CENTRES["vitaldb"], tally=Tally()).values) == 12
    file.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(SourceError, match=r"12\.vital: cut short or corrupt"):
        vital_file.read_vital(file, CENTRES["vitaldb"], tally=Tally())
    file.write_bytes(gzip.compress(b"VITA" + bytes(100 << 20)))
    with pytest.raises(SourceError, match="unpacks to"):
        vital_file.read_vital(file, CENTRES["vitaldb"], tally=Tally())


def test_a_message_steers_no_terminal():
    shown = errors.shown(WearjaxError("a\x1b[31m\u202eb\udcff" + "x" * 5000))
    assert shown.isprintable()
    assert len(shown) <= errors.SHOWN_MAX + 3
    assert shown.startswith("a\\x1b[31m\\u202eb\\udcff")


def test_numbers_and_brackets_beyond_reason():
    for text in ("[" * 100_000, '{"a":' * 100_000, "1" * 30, "-" + "9" * 25, b"\xff\xfe"):
        with pytest.raises(ValueError, match=r"."):
            json_text.loads(text)
    assert json_text.loads(json.dumps({"a": [1, 2.5, None, 2**60]}).encode("utf-16")) == {
        "a": [1, 2.5, None, 2**60]
    }


def test_a_zip_that_leads_outside_writes_nothing_there(tmp_path):
    file = tmp_path / "in" / "export.zip"
    file.parent.mkdir()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("../../evil.txt", "x")
        made.writestr("apple_health_export/export.xml", readers._apple_elements())
    with pytest.raises(SourceError, match="unsafe member name"):
        importing.import_days("apple-health", file, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


STEPS = "Takeout/Fitbit/Physical Activity_GoogleData/steps_2024-05-02.csv"
WIDTH = CENTRES["vitaldb"].n_variables
# What was not refused or counted once: numbers that nothing measures, facts of another kind, names in no encoding.
DAMAGE = (
    ("fitbit fitabase", "minuteStepsNarrow_merged.csv", b",9\n", b",1e308\n", "read"),
    ("fitbit takeout folder", STEPS, b"Z,9\n", b"Z,1e40\n", "read"),
    ("fitbit takeout folder", STEPS, b"timestamp", b"\x8estamp", "refused"),
    ("actigraphy nhanes", "paxraw.csv", b"\n", b"\n" + b"1,3,5,0\n1,2,5,0\n" * 99, "refused"),
    ("actigraphy nhanes", "paxraw.csv", b"21005,", b"1e300,", "refused"),
    ("vital csv", "c0.csv", b"\n", b"\n2017-01-01T00:00:00" + b",-1e308" * WIDTH + b"\n", "read"),
    ("daily csv", "people.csv", b"a,34,", b"a,inf,", "refused"),
    ("daily csv", "blood.csv", b"ldl,120", b"ldl,-inf", "refused"),
    ("questions", "store/people.json", b'"days": ', b'"days": 9223372036854775808', "refused"),
    ("questions", "store/records.json", b'"digest": "', b'"digest": 7, "more": "', "refused"),
    ("questions", "items.jsonl", b'"user_id":"u', b'"user_id":["u"],"more":"', "refused"),
    ("questions", "items.jsonl", b'"hidden":{', b'"hidden":[],"more":{', "refused"),
    ("case store", "splits.json", b'"c1"', b'"c2"', "refused"),
    ("case store", "vital.json", b'"centre": "mover"', b'"centre": ["mover"]', "refused"),
    ("openmhc import", "labels/last_labels.json", b'"BiologicalSex": {', b'"BiologicalSex": "", "more": {', "refused"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "file", "old", "new", "end"), DAMAGE)
def test_damage_that_was_taken_badly(name, file, old, new, end, inputs, tmp_path):
    path = inputs.copy(readers.BY_NAME[name], tmp_path / "in")
    content = (path / file).read_bytes()
    assert old in content
    (path / file).write_bytes(content.replace(old, new, 1))
    outcome = fuzz.judge(readers.BY_NAME[name], path, tmp_path, f"{old!r} became {new!r}")
    assert outcome.kind == end, outcome.told


@pytest.mark.parametrize("name", ["apple-health zip", "fitbit takeout zip", "health connect zip"])
def test_names_within_a_zip_that_cannot_be_read(name, inputs, tmp_path):
    path = inputs.copy(readers.BY_NAME[name], tmp_path / "in")
    whole = path.read_bytes()
    entry = whole.index(b"PK\x01\x02")  # of the first member in the directory
    nameless, not_text = bytearray(whole), bytearray(whole)
    nameless[entry + 46] = 0
    not_text[entry + 9] |= 8  # says UTF-8, which the name beside the data then is not
    not_text[30] = 0xFF
    for i, content in enumerate((nameless, not_text)):
        path.write_bytes(content)
        (tmp_path / str(i)).mkdir()
        outcome = fuzz.judge(readers.BY_NAME[name], path, tmp_path / str(i), "a name")
        assert outcome.kind in (("refused",), ("read", "refused"))[i], outcome.told
