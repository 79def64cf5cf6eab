import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import bootstrap_timing, packet, scored_on
from wearjax.errors import ConfigError

ABOUT = packet.Submission(
    name="My Method", submitter="us", code_url="https://example.org", notes='says "hi": yes'
)


@pytest.fixture(scope="module")
def table():
    return bootstrap_timing.random_table(n_participants=4, n_methods=2)


def test_rows_are_the_finite_errors(table, tmp_path):
    rows = packet.imputation_rows(table, split="test")
    written = pq.read_table(result_files.write_table(tmp_path / "rows.parquet", rows))
    assert written.schema.equals(packet.IMPUTATION_COLUMNS)
    finite = sum(np.isfinite(e).sum() for e in (table.errors, *(g.errors for g in table.subgroups.values())))
    assert len(written) == finite
    row = written.slice(len(written) - 1, 1).to_pylist()[0]
    group = table.subgroups[row["subgroup_attr"]]
    task = [t.scenario == row["scenario"] and t.channel == row["channel"] for t in table.tasks].index(True)
    value = group.errors[
        group.values.index(row["subgroup_value"]), table.methods.index(row["method"]), task,
        table.participants.index(row["user_id"]),
    ]  # fmt: skip
    assert row["E_per_user"] == np.float32(value)
    assert row["channel_type"] == table.tasks[task].channel_type
    assert row["split"] == "test"


def test_the_description_names_files_and_keeps_every_text(table, tmp_path):
    rows = packet.imputation_rows(table, split="test", rename={"method_1": "my_method"})
    path = packet.write_submission(
        tmp_path, rows, ABOUT, track="imputation", subtrack="single-day", fallback_rate=0.25
    )
    text = path.read_text()
    notes = next(line for line in text.splitlines() if line.startswith("  notes: "))
    assert json.loads(notes.removeprefix("  notes: ")) == ABOUT.notes
    for name in ("imputation/my_method.parquet", "imputation/my_method.meta.json"):
        assert (tmp_path / name).exists()
        assert name in text
    assert json.loads((tmp_path / "imputation" / "my_method.meta.json").read_text()) == {
        "display_name": "My Method",
        "type": "Other",
        "submitter": "us",
        "subtrack": "single-day",
        "fallback_rate": 0.25,
    }


def test_what_was_scored_is_told_beside_the_published_fields(table, tmp_path):
    rows = packet.imputation_rows(table, split="test", rename={"method_1": "my_method"})
    facts = scored_on.facts({"split": "test", "max_samples": 3}, {"random_noise": "0af1"})
    where = {"track": "imputation", "subtrack": "single-day"}
    description = packet.write_submission(tmp_path, rows, ABOUT, **where, scored_on=facts)
    file = tmp_path / "imputation" / "my_method.parquet"
    assert packet.read_packet(file).scored_on == facts
    assert "scored_on" not in description.read_text()
    sidecar = file.with_name("my_method.meta.json")
    published = {k: v for k, v in json.loads(sidecar.read_text()).items() if k != "scored_on"}
    sidecar.write_text(json.dumps(published))
    assert packet.validate(file) == []
    assert packet.read_packet(file).scored_on == {}
    sidecar.write_text(json.dumps({**published, "scored_on": {"cells": 3}}))
    assert "scored_on must be" in packet.validate(file)[0]


def test_only_an_earlier_packet_of_the_method_is_replaced(table, tmp_path):
    rows = packet.imputation_rows(table, split="test", rename={"method_1": "my_method"})
    other = packet.imputation_rows(table, split="test", rename={"locf": "locf"})
    where = {"track": "imputation", "subtrack": "single-day"}
    packet.write_submission(tmp_path / "p", rows, ABOUT, **where)
    packet.write_submission(tmp_path / "p", rows, ABOUT, **where, fallback_rate=0.5)
    assert packet.read_packet(tmp_path / "p" / "imputation" / "my_method.parquet").fallback_rate == 0.5
    beside = dataclasses.replace(ABOUT, name="locf")
    packet.write_submission(tmp_path / "p", other, beside, **where)
    same_slug = dataclasses.replace(ABOUT, name="my-method")
    with pytest.raises(ConfigError, match="packet of another method, 'My Method'; pass force=True"):
        packet.write_submission(tmp_path / "p", rows, same_slug, **where)
    packet.write_submission(tmp_path / "p", rows, same_slug, **where, force=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(ConfigError, match="exists and holds no packet"):
        packet.write_submission(tmp_path / "mine", rows, ABOUT, **where)
    assert [f.name for f in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(ConfigError, match="is a file"):
        packet.write_submission(tmp_path / "mine" / "thesis.txt", rows, ABOUT, **where)


def test_the_only_learned_method_needs_no_choice():
    given = ("mean", "locf", "lsm2")
    assert packet.one_of(given, given, None) == "lsm2"
    assert packet.one_of(given, ("mean",), None) == "mean"
    for several in (("mean", "locf"), (*given, "brits")):
        with pytest.raises(ConfigError, match=f"choose one with method=NAME .*{several[-1]}"):
            packet.one_of(several, several, None)
    with pytest.raises(ConfigError, match="did you mean 'lsm2'"):
        packet.one_of(given, given, "lsm")


def test_a_table_of_another_method_is_refused(table, tmp_path):
    rows = packet.imputation_rows(table, split="test", rename={"method_1": "other"})
    with pytest.raises(ConfigError, match="my_method"):
        packet.write_submission(tmp_path, rows, ABOUT, track="imputation", subtrack="single-day")
    assert not list(tmp_path.iterdir())


def test_tracks_and_subtracks_are_checked():
    with pytest.raises(ConfigError, match="track 'x'"):
        packet.display_sidecar(ABOUT, track="x", subtrack="static")
    with pytest.raises(ConfigError, match="expected one of static"):
        packet.display_sidecar(ABOUT, track="prediction", subtrack="single-day")
