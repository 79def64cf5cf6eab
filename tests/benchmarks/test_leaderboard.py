"""Many packets in one table: aligned, told apart, scored together."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import (
    bootstrap_timing,
    imputation_scores,
    leaderboard,
    leaderboard_tables,
    packet,
    packet_schema,
    run_packets,
    scored_on,
)
from wearjax.errors import ConfigError
from wearjax.scores.errors import ErrorTable, SubgroupErrors

N_BOOT = 20


@pytest.fixture(scope="module")
def table():
    found = bootstrap_timing.random_table(n_participants=9, n_methods=4, seed=5)
    as_stored = lambda errors: errors.astype(np.float32).astype(float)  # noqa: E731
    groups = {n: SubgroupErrors(g.values, as_stored(g.errors)) for n, g in found.subgroups.items()}
    return dataclasses.replace(found, errors=as_stored(found.errors), subgroups=groups)


def some(table: ErrorTable, methods: list[str], people=slice(None)) -> ErrorTable:
    rows = [table.methods.index(m) for m in methods]
    groups = {n: SubgroupErrors(g.values, g.errors[:, rows][..., people]) for n, g in table.subgroups.items()}
    kept = tuple(np.array(table.participants, object)[people])
    return ErrorTable(tuple(methods), table.tasks, kept, table.errors[rows][..., people], groups)


SCORED = scored_on.facts(
    {"split": "test", "max_samples": None, "mask_seed": 42}, {"random_noise": "a", "sleep_gap": "b"}
)


def write_packet(
    folder,
    table: ErrorTable,
    method: str,
    *,
    subtrack: str = "single-day",
    name: str | None = None,
    scored=SCORED,
):
    about = packet.Submission(
        name=name or method, submitter=f"lab of {method}", code_url="", category="Neural"
    )
    rows = packet.imputation_rows(table, split="test", rename={method: packet.slug(about.name)})
    packet.write_submission(
        folder, rows, about, track="imputation", subtrack=subtrack, fallback_rate=0.5, scored_on=scored
    )
    return folder


def write_run(folder, table: ErrorTable, *, n_days: int = 1, scored=SCORED):
    folder.mkdir(parents=True, exist_ok=True)
    result_files.write_table(folder / run_packets.TABLE, packet.imputation_rows(table, split="test"))
    results = {"n_days": n_days, "fallback": dict.fromkeys(table.methods, 0.0), "scored_on": scored}
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def board(*paths, n_boot=0):
    return leaderboard.score([p for path in paths for p in leaderboard.read(path)], n_boot=n_boot)


def numbers(scores):
    return {(s.method, s.metric, s.scope): dataclasses.astuple(s)[3:] for s in scores}


def assert_close(a: dict, b: dict):
    assert a.keys() == b.keys()
    for key, values in b.items():
        np.testing.assert_allclose(a[key], values, rtol=1e-9, atol=1e-12, err_msg=str(key))


def test_packets_and_runs_give_what_one_evaluation_gives(table, tmp_path):
    run = write_run(tmp_path / "run", some(table, ["locf", "method_1"]))
    packets = [write_packet(tmp_path / m, table, m) for m in ("method_2", "method_3")]
    found = board(run, *packets, n_boot=N_BOOT)
    assert [p.method for p in found.packets] == ["locf", "method_1", "method_2", "method_3"]
    assert [p.submitter for p in found.packets] == ["", "", "lab of method_2", "lab of method_3"]
    assert [p.type for p in found.packets] == ["Statistical", "", "Neural", "Neural"]
    assert (found.n_participants, found.notes) == (9, ())
    assert_close(numbers(found.scores), numbers(imputation_scores.score(table, n_boot=N_BOOT)))


def as_packet(rows: pa.Table, method: str) -> packet.Packet:
    return packet.Packet("imputation", method, rows, method, "", "", "", None, None)


def test_the_rows_keep_participants_and_subgroups(table):
    rows = packet.imputation_rows(table, split="test")
    packets = [
        as_packet(rows.filter(pc.equal(rows["method"].cast(pa.string()), m)), m) for m in table.methods
    ]
    again = leaderboard_tables.error_table(packets)
    assert (again.methods, again.tasks, again.participants) == (
        table.methods,
        table.tasks,
        table.participants,
    )
    np.testing.assert_array_equal(again.errors, table.errors)
    for name, group in table.subgroups.items():
        assert again.subgroups[name].values == group.values
        np.testing.assert_array_equal(again.subgroups[name].errors, group.errors)


def test_equal_copies_count_once_and_different_ones_are_told_apart(table, tmp_path):
    better = dataclasses.replace(table, errors=table.errors * np.array([1, 0.5, 1, 1])[:, None, None])
    first = write_run(tmp_path / "first", some(table, ["locf", "method_1"]))
    second = write_run(tmp_path / "second", some(better, ["locf", "method_1"]))
    found = board(first, second, first)
    assert [p.method for p in found.packets] == ["locf", "method_1 · first", "method_1 · second"]
    assert any("2 different methods called method_1" in note for note in found.notes)
    skill = {s.method: s.point for s in found.scores if (s.metric, s.scope) == ("skill", "overall")}
    assert skill["method_1 · first"] < skill["method_1 · second"]


def test_the_single_day_baseline_is_the_reference_of_long_context_methods(table, tmp_path):
    weekly = dataclasses.replace(table, errors=table.errors * 0.5)
    week = write_run(tmp_path / "week", some(weekly, ["locf", "method_3"]), n_days=7)
    day = write_run(tmp_path / "day", some(table, ["locf", "method_1"]))
    found = board(week, day)
    assert [(p.method, p.subtrack) for p in found.packets] == [
        ("locf", "single-day"), ("locf · week", "long-context"), ("method_3", "long-context"),
        ("method_1", "single-day"),
    ]  # fmt: skip
    assert found.packets[0].source == day
    (skill,) = [
        s for s in found.scores if (s.method, s.metric, s.scope) == ("locf · week", "skill", "cat:activity")
    ]
    assert skill.point == pytest.approx(0.5)


def test_participants_are_aligned_and_missing_ones_reported(table, tmp_path):
    run = write_run(tmp_path / "run", some(table, ["locf", "method_1"], slice(0, 6)))
    other = write_packet(tmp_path / "other", some(table, ["method_2"], slice(8, 1, -1)), "method_2")
    found = board(run, other)
    assert found.n_participants == 9
    assert found.participants == {"locf": 6, "method_1": 6, "method_2": 7}
    assert {note.split(":")[0] for note in found.notes} == {"locf", "method_1", "method_2"}
    assert any("method_2: 2 of 9 participants have no value" in note for note in found.notes)
    assert any("no error of the baseline beside them" in note for note in found.notes)
    both = imputation_scores.score(some(table, ["locf", "method_2"], slice(2, 6)), n_boot=0)
    assert skills(found.scores, "method_2") == pytest.approx(skills(both, "method_2"))


def skills(scores, method: str) -> dict[str, float]:
    return {s.scope: s.point for s in scores if (s.method, s.metric) == (method, "skill")}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t, p: [write_packet(p, t, "method_1")], "no packet or run of the baseline 'locf'"),
        (
            lambda t, p: [write_run(p / "a", some(t, ["locf"])),
                          write_run(p / "b", some(dataclasses.replace(t, errors=t.errors / 2), ["locf", "method_1"]))],
            "not evaluated on the same days",
        ),
        (
            lambda t, p: [write_run(p / "a", some(t, ["locf"], slice(0, 3))),
                          write_packet(p / "b", some(t, ["method_1"], slice(3, 9)), "method_1")],
            "shares no task and participant with the baseline",
        ),
        (lambda t, p: [p], "holds no packet"),
    ],
)  # fmt: skip
def test_what_cannot_stand_in_one_table_says_why(table, tmp_path, make, message):
    with pytest.raises(ConfigError, match=message):
        board(*make(table, tmp_path))


def test_a_broken_run_table_is_named(table, tmp_path):
    run = write_run(tmp_path, some(table, ["locf"]))
    bad = pq.read_table(run / run_packets.TABLE).drop_columns(["user_id"])
    pq.write_table(bad, run / run_packets.TABLE)
    with pytest.raises(
        ConfigError, match=r"per_user_errors.parquet: not a valid table: column user_id is missing"
    ):
        leaderboard.read(run)
    (run / "results.json").write_text("{")
    with pytest.raises(ConfigError, match="not a readable run folder"):
        leaderboard.read(run)


def prediction_packet(folder, name: str, *, users, noise: float, seed: int = 0):
    rng, rows = np.random.default_rng(seed), []
    for task, kind in (("Diabetes", "binary"), ("age", "regression")):
        for i, user in enumerate(users):
            truth = float(i % 2) if kind == "binary" else 30.0 + i
            answer = truth + noise * rng.normal()
            pair = (float(answer > 0.5), answer) if kind == "binary" else (answer, answer)
            groups = [
                ("all", "all"),
                ("age_group", "30-39" if i % 3 else "60+"),
                ("sex", "male" if i % 4 < 2 else "female"),
            ]
            rows += [(name, task, kind, *group, user, truth, *pair) for group in groups]
    schema = packet_schema.SCHEMAS["prediction"].columns
    columns = {
        c: pa.array(list(v), t) for (c, t), v in zip(schema.items(), zip(*rows, strict=True), strict=True)
    }
    about = packet.Submission(name=name, submitter="us", code_url="")
    packet.write_submission(folder, pa.table(columns), about, track="prediction", subtrack="static")
    return folder


def test_predictions_are_scored_for_the_participants_that_all_methods_have(tmp_path):
    users = [f"u{i:02d}" for i in range(24)]
    linear = prediction_packet(tmp_path / "a", "linear", users=users, noise=4.0, seed=1)
    good = prediction_packet(tmp_path / "b", "good", users=users[:20], noise=0.7)
    found = board(linear, good, n_boot=N_BOOT)
    assert found.track == "prediction"
    assert found.participants == {"linear": 24, "good": 20}
    skill = {s.method: s for s in found.scores if (s.metric, s.scope) == ("skill", "overall")}
    assert skill["linear"].point == 0
    assert skill["good"].point > 0.5
    assert skill["good"].n_participants == 20
    assert skill["good"].ci_lo <= skill["good"].mean <= skill["good"].ci_hi
    assert any("task age: participants whom some method does not predict: 4" in note for note in found.notes)


def test_predictions_of_other_labels_are_refused(tmp_path):
    users = [f"u{i}" for i in range(6)]
    linear = prediction_packet(tmp_path / "a", "linear", users=users, noise=1.0)
    other = prediction_packet(tmp_path / "b", "other", users=users[::-1], noise=1.0)
    with pytest.raises(ConfigError, match=r"another packet says .* not made from the same labels"):
        board(linear, other)


def test_no_packets_give_no_table():
    with pytest.raises(ConfigError, match="one track"):
        leaderboard.score([])


def test_methods_scored_on_other_cells_are_refused_with_what_differs(table, tmp_path):
    run = write_run(tmp_path / "run", some(table, ["locf", "method_1"]))
    cells = {"random_noise": "other", "sleep_gap": "b"}
    fewer = {**SCORED, "max_samples": 40, "mask_seed": 7, "cells": cells}
    other = write_packet(tmp_path / "p", table, "method_2", scored=fewer)
    with pytest.raises(
        ConfigError, match="cells of random_noise: max_samples none and 40, mask_seed 42 and 7"
    ):
        board(run, other)
    moved = write_packet(tmp_path / "q", table, "method_2", scored={**SCORED, "cells": cells})
    with pytest.raises(ConfigError, match="the same settings, but other recordings"):
        board(run, moved)


def test_other_settings_with_the_same_cells_and_other_scenarios_compare(table, tmp_path):
    run = write_run(tmp_path / "run", some(table, ["locf", "method_1"]))
    same = {**SCORED, "mask_seed": 7, "wearjax": "9.9", "cells": {"sleep_gap": "b", "workout_gap": "c"}}
    found = board(run, write_packet(tmp_path / "p", table, "method_2", scored=same))
    assert found.notes == (f"scored by several versions of wearjax: {SCORED['wearjax']}, 9.9",)


def test_packets_that_do_not_say_what_they_were_scored_on_are_noted(table, tmp_path):
    run = write_run(tmp_path / "run", some(table, ["locf", "method_1"]))
    (note,) = board(run, write_packet(tmp_path / "p", table, "method_2", scored=None)).notes
    assert note.startswith("method_2: scored on unknown days, windows and masks")
    old = write_run(tmp_path / "old", some(table, ["locf", "method_1"]), scored={})
    assert board(old).notes == ()  # one evaluation: there is nothing that it could differ from
