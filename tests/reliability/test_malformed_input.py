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
