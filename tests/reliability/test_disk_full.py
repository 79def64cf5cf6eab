"""A disk that is full: one line that names the file, nothing half, and the same command later succeeds.

A limit on the size of files stands for the full disk: the system refuses a write in the middle of a file alike.
"""

from __future__ import annotations

import contextlib
import json
import resource

import kills
import pytest
import readers

from wearjax import cli, writing
from wearjax.benchmarks.wearableqa import parts
from wearjax.errors import CheckpointError, StoreError
from wearjax.segments import daily_records

BYTES = 30_000


@contextlib.contextmanager
def full_disk(limit: int = BYTES):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return kills.make_inputs(tmp_path_factory.mktemp("full") / "inputs")


def refused(capsys, arguments, *, limit=BYTES) -> str:
    with full_disk(limit), pytest.raises(SystemExit) as end:
        cli.main([str(each) for each in arguments])
    assert end.value.code == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    return said


@pytest.mark.parametrize("name", ["import root", "import fitbit", "synth"])
def test_an_import_names_the_shard(capsys, tmp_path, inputs, name):
    arguments = kills.BY_NAME[name].arguments(inputs, tmp_path / "out")
    assert ".npy: cannot be written" in refused(capsys, arguments)
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".parts")] == []
    cli.main([str(each) for each in arguments])
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("name", "limit"), [("imputation", 6000), ("forecasting", 6000), ("prediction", 3000)]
)
def test_an_evaluation_names_the_table_and_goes_on(capsys, tmp_path, inputs, name, limit):
    out = tmp_path / "out"
    arguments = kills.BY_NAME[name].arguments(inputs, out)
    said = refused(capsys, arguments, limit=limit)
    assert "cannot be written" in said
    assert str(out) in said
    assert not (out / "report.html").exists()
    cli.main([str(each) for each in arguments])
    assert json.loads((out / "results.json").read_text())
    assert (out / "report.html").exists()
    assert not [p for p in out.rglob("*") if "partial" in p.name]


def test_questions_name_the_file(capsys, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    readers.BY_NAME["questions"].make(folder)
    arguments = ["qa", "render", folder / "qa", "--out", tmp_path / "out"]
    assert "prompts.jsonl: cannot be written" in refused(capsys, arguments, limit=5000)
    assert not (tmp_path / "out").exists()
    cli.main([str(each) for each in arguments])


def test_a_build_of_questions_names_the_file_and_goes_on(capsys, tmp_path, monkeypatch):
    """The disk fills up once in each step of a build; each time the same command goes on from there."""
    out = tmp_path / "questions"
    arguments = kills.BY_NAME["qa build"].arguments(tmp_path, out)
    assert "store/records.parquet: cannot be written" in refused(capsys, arguments, limit=20_000)
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as steps:
        steps.setattr(daily_records, "write_records", _with_room(daily_records.write_records))
        assert "cohort.json: cannot be written" in refused(capsys, arguments, limit=2000)
        assert sorted(p.name for p in out.iterdir()) == ["parts", "store"]
        assert "000000.json.gz: cannot be written" in refused(capsys, arguments, limit=3500)
        assert sorted(p.name for p in (out / "parts").iterdir()) == ["request.json"]
        steps.setattr(parts, "write", _with_room(parts.write))
        assert "items.jsonl: cannot be written" in refused(capsys, arguments, limit=3500)
        assert sorted(p.name for p in out.iterdir()) == ["cohort.json", "parts", "store"]
    cli.main([str(each) for each in arguments])
    assert {p.name for p in out.iterdir()} >= {
        "store",
        "cohort.json",
        "items.jsonl",
        "build.json",
        "audit.json",
    }
    assert not [p for p in out.rglob("*") if p.name.startswith(".") or p.name == "parts"]


def test_a_build_that_was_stopped_before_its_audit_is_audited(capsys, tmp_path):
    out = tmp_path / "questions"
    arguments = [str(each) for each in kills.BY_NAME["qa build"].arguments(tmp_path, out)]
    cli.main(arguments)
    whole = kills.contents(out)
    (out / "audit.json").unlink()
    (out / "parts").mkdir()
    cli.main(arguments)
    assert kills.contents(out) == whole
    assert not (out / "parts").exists()
    assert "already holds questions" in refused(capsys, arguments)
    (out / "audit.json").unlink()
    assert "already holds questions" in refused(capsys, [*arguments, "--items", 3])


def _with_room(write):
    def written(*args, **options):
        with full_disk(resource.getrlimit(resource.RLIMIT_FSIZE)[1]):
            return write(*args, **options)

    return written


def test_a_bundle_is_whole_or_absent(tmp_path):
    place = tmp_path / "made"
    place.mkdir()
    with full_disk(2000), pytest.raises(CheckpointError, match=r"bundle: cannot be written"):
        readers.BY_NAME["bundle"].make(place)
    assert list(place.iterdir()) == []
    readers.BY_NAME["bundle"].make(place)


def test_a_file_stays_as_it_was(tmp_path):
    file = tmp_path / "a" / "file.txt"
    with writing.file(file) as partial:
        partial.write_text("old")
    with (
        full_disk(100),
        pytest.raises(StoreError, match=r"file\.txt: cannot be written: File too large"),
        writing.file(file) as partial,
    ):
        partial.write_text("new" * 100)
    assert file.read_text() == "old"
    assert [p.name for p in file.parent.iterdir()] == ["file.txt"]


def test_folders_made_for_a_file_that_did_not_come_go_again(tmp_path):
    with pytest.raises(ValueError, match="no"), writing.file(tmp_path / "a" / "b" / "file.txt"):
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_taken_away(tmp_path):
    dead = writing._beside(tmp_path / "out").with_name(f".out.partial-{writing._HOST}-999999999")
    dead.mkdir()
    (dead / "half").write_text("x")
    foreign = tmp_path / ".out.partial-elsewhere-999999999"
    foreign.mkdir()
    with writing.folder(tmp_path / "out") as partial:
        (partial / "whole").write_text("y")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".out.partial-elsewhere-999999999", "out"]
