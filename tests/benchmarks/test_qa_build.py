"""Whole builds of small cohorts: the same bytes however they were interrupted, and what they say of themselves."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from made_items import amount_type, level_type, origin

from wearjax.benchmarks.wearableqa import build, judging, reads, solver
from wearjax.benchmarks.wearableqa import origin as origins
from wearjax.errors import ConfigError, StoreError, WearjaxError

PEOPLE = 8
TYPES = (level_type(), amount_type())


def built(folder, *, people: int = PEOPLE, **options):
    return build.build(origin(people), folder, types=TYPES, jobs=1, **options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return built(tmp_path_factory.mktemp("whole") / "q")


def content(folder) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_a_build_has_questions_records_yields_and_counts(whole):
    meta = whole.meta
    assert len(whole.items) == meta["items"] > PEOPLE
    assert meta["people"] == meta["asked"] == PEOPLE == len(whole.store)
    assert meta["store_digest"] == whole.store.digest
    assert meta["absent"] == {}
    rows = build.yields_of(whole).rows
    for name, row in rows.items():
        assert row["proposed"] == row["admitted"] + sum(row[gate] for gate in build.GATES)
        assert meta["assembly"][name]["admitted"] == row["admitted"] >= meta["assembly"][name]["items"] > 0
    assert "level_band" in build.yields_of(whole).to_text()
    assert len(meta["unreviewed"]["markers"]) == 17
    assert set(content(whole.path)) == {
        "items.jsonl", "build.json", "cohort.json", "store/records.parquet", "store/people.json", "store/records.json",
    }  # fmt: skip


def test_every_answer_can_be_made_again_from_the_stored_records(whole):
    for item in whole.items:
        person = whole.person(item.user_id)
        assert reads.verify(item.graph, item.keys[item.gold], person, item.end)
        assert solver.answer(item, person) == item.answer


def test_an_interrupted_build_goes_on_to_the_same_bytes(whole, tmp_path):
    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(tmp_path / "q", progress=stop)
    assert len(list((tmp_path / "q" / "parts").glob("*.json.gz"))) == 3
    (tmp_path / "q" / ".items.jsonl.123").write_text("half")  # as a killed process leaves it
    steps = []
    again = built(tmp_path / "q", progress=lambda done, total: steps.append((done, total)))
    assert steps == [(n, PEOPLE) for n in range(3, PEOPLE + 1)]
    assert content(again.path) == content(whole.path)
    assert again.digest == whole.digest


def test_an_interruption_while_reading_leaves_nothing_half(whole, tmp_path):
    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(tmp_path / "q", reading=stop)
    assert content(built(tmp_path / "q").path) == content(whole.path)


def test_another_request_or_other_files_are_not_overwritten(whole, tmp_path):
    before = content(whole.path)
    (whole.path / "parts").mkdir()  # killed when all was done but to remove it
    with pytest.raises(ConfigError, match="already holds questions; pass --force"):
        built(whole.path)
    assert content(whole.path) == before

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built(tmp_path / "q", progress=stop)
    with pytest.raises(ConfigError, match="unfinished build of another request"):
        built(tmp_path / "q", people=PEOPLE + 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(StoreError, match=r"not empty|other files"):
            built(tmp_path / "other", force=force)
    assert (tmp_path / "other" / "thesis.txt").exists()
    assert built(tmp_path / "q", people=3, force=True).meta["people"] == 3


def test_a_source_that_cannot_be_read_leaves_no_folder(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("user,date,mood\nu,2024-01-01,3\n")
    with pytest.raises(WearjaxError, match=r"table\.csv"):
        build.build(origins.at(table), tmp_path / "q", jobs=1)
    assert not (tmp_path / "q").exists()


def test_types_without_questions_say_why(tmp_path):
    silent = level_type("silent", propose=lambda person, end: iter(()))
    meta = build.build(origin(3), tmp_path / "q", types=(TYPES[0], silent), jobs=1).meta
    assert meta["absent"]["silent"].startswith("nothing to ask: it needs")
    assert {"heart rate variability", "blood panel"} <= set(meta["lacking"])
    assert not {"resting heart rate", "age or sex"} & set(meta["lacking"])
    with pytest.raises(StoreError, match="no question is left"):
        build.build(origin(3), tmp_path / "none", types=(silent,), jobs=1)


def test_impossible_requests_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="items must be at least 1"):
        build.Options(items=0)
    with pytest.raises(ConfigError, match="jobs: must be at least 1"):
        build.build(origin(2), tmp_path / "q", types=TYPES, jobs=0)
    with pytest.raises(ConfigError, match="not the library's own"):
        build.build(origin(2), tmp_path / "p", types=TYPES, jobs=2)


SCRIPT = """
import os, signal, sys
from wearjax.benchmarks.wearableqa import build, origin

def killed(done, total):
    if done == 1 and sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    build.build(
        origin.synthetic(3, days=150, seed=5), sys.argv[1], build.Options(types=("excursion_count",)),
        jobs=int(sys.argv[2]), progress=killed,
    )
"""


def test_a_killed_build_goes_on_in_other_processes_to_the_bytes_of_this_one(tmp_path):
    script = tmp_path / "made.py"
    script.write_text(SCRIPT)

    def run(*args: str) -> int:
        return subprocess.run(
            [sys.executable, str(script), str(tmp_path / "a"), *args], check=False
        ).returncode

    assert run("1", "kill") == -signal.SIGKILL
    assert len(list((tmp_path / "a" / "parts").glob("*.json.gz"))) == 1
    assert run("2", "") == 0
    options = build.Options(types=("excursion_count",))
    whole = build.build(origins.synthetic(3, days=150, seed=5), tmp_path / "b", options, jobs=1)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert whole.meta["items"] > 0


def test_compared_people_do_not_depend_on_the_order_of_the_store():
    users = [f"u{i}" for i in range(1000)]
    assert judging._compared(users) == judging._compared(users[::-1])
    assert len(judging._compared(users)) == 400
