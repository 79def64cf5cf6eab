import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.report import import_table, tables
from wearjax.report.run_folder import RunFolder, Score


def score(method, scope, point, *, metric="skill", mean=math.nan, low=math.nan, high=math.nan):
    return Score(method, metric, scope, 3, point, mean, low, high, 100)


def run(scores, *, name="run", results=None):
    return RunFolder(name, {}, results or {}, [], 0, scores, None, None, frozenset())


SCORES = [
    score("lsm2", "overall", 0.5, mean=0.49, low=0.4, high=0.6),
    score("mean", "overall", -2.0, mean=-2.1, low=-3.0, high=-1.5),
    score("lsm2", "random_noise", 0.1),
    score("mean", "random_noise", 0.2),
    score("lsm2", "overall", 1.5, metric="rank", low=1.2, high=1.8),
    score("locf", "overall", 2.0, metric="rank"),
]


def test_rows_come_best_first_and_the_best_is_marked():
    rows = tables.entries([run(SCORES)])
    assert [r.label for r in rows] == ["lsm2", "locf", "mean"]
    table = tables.skill_table(rows, ["overall", "random_noise"])
    cells = {entry.label: row for entry, row in table.rows}
    assert [c.best for c in cells["lsm2"]] == [True, False]
    assert [c.best for c in cells["mean"]] == [False, True]
    assert cells["lsm2"][0].value == "49.0"  # as the terminal and the benchmark report it
    assert cells["lsm2"][0].interval == "[40.0, 60.0] point 50.0"
    assert cells["lsm2"][0].rank == "1.50"
    assert cells["lsm2"][0].best_rank
    assert cells["mean"][0].value == "−210"


def test_baseline_without_skill_rows_is_the_reference():
    rows = tables.entries([run(SCORES)])
    ((_, row),) = [r for r in tables.skill_table(rows, ["overall"]).rows if r[0].label == "locf"]
    assert (row[0].value, row[0].interval, row[0].rank, row[0].sort) == ("0.0", "reference", "2.00", "0")


def test_mean_stands_in_for_an_absent_point():
    assert tables.value_of(score("a", "overall", math.nan, mean=0.3)) == 0.3


def test_no_best_mark_below_the_baseline_or_for_equal_but_larger_errors():
    lines = [score("a", "overall", -0.2), score("b", "overall", -0.1), score("locf", "overall", 0.0)]
    fair = [score(m, "overall", v, metric="fair_skill") for m, v in (("a", 0.4), ("b", -0.3), ("locf", 0.0))]
    rows = tables.entries([run([*lines, *fair])])
    for metric in ("skill", "fair_skill"):
        table = tables.skill_table(rows, ["overall"], metric=metric)
        assert [e.label for e, cells in table.rows if cells[0].best] == ["locf"]
    rows = tables.entries([run([*lines[:2], *fair[:2]])])
    for metric in ("skill", "fair_skill"):
        assert not any(
            cells[0].best for _, cells in tables.skill_table(rows, ["overall"], metric=metric).rows
        )


def test_a_method_that_lacks_a_task_is_not_ranked_with_the_others():
    leaf = "task:random_noise:ch_5"
    lines = [score("a", s, 0.1) for s in ("overall", "random_noise", "cat:physiology", "sleep_gap", leaf)]
    lines += [score("b", s, 0.9) for s in ("overall", "random_noise", "cat:physiology", "sleep_gap")]
    lines += [score(m, "overall", 1.5, metric="rank") for m in "ab"]
    rows = tables.entries([run(lines)])
    assert [r.label for r in rows] == ["a", "b"]
    table = tables.skill_table(rows, ["overall", "random_noise", "cat:physiology", "sleep_gap"])
    cells = {entry.label: row for entry, row in table.rows}
    assert [c.value for c in cells["b"]] == ["–", "–", "–", "90.0"]
    assert [c.best for c in cells["b"]] == [False, False, False, True]
    assert (cells["b"][0].rank, cells["a"][0].rank) == ("", "1.50")


def test_one_participant_has_no_interval():
    alone = replace(score("a", "overall", 0.5, mean=0.5, low=0.5, high=0.5), n_participants=1)
    table = tables.skill_table(tables.entries([run([alone])]), ["overall"])
    assert table.rows[0][1][0].interval == "[not available] point 50.0"


def test_a_method_of_ones_own_is_told_from_those_of_the_library():
    lines = [score(m, "overall", 0.1) for m in ("lsm2", "mine", "mean")]
    rows = tables.entries([run(lines, results={"config": {"own_methods": ["mine"]}})])
    assert {r.label: (r.is_learned, r.is_own) for r in rows} == {
        "lsm2": (True, False), "mine": (False, True), "mean": (False, False),
    }  # fmt: skip


def test_the_share_of_replaced_answers_is_told_by_scenario():
    metrics = {
        "a": {
            s: {"test": {"overall_fallback_rate": v}} for s, v in (("sleep_gap", 0.5), ("signal_slice", 0.0))
        }
    }
    results = {"fallback": {"a": 0.5}, "substituted": {"a": 7}, "split": "test", "metrics": metrics}
    assert tables.methods_table([run([], results=results)]) == [("run", "a", "Sleep gap 50.00%", "7", "–")]


def test_runs_that_agree_share_a_row_and_others_carry_their_run():
    second = [score("lsm2", "overall", 0.7), *SCORES[1:4]]
    rows = tables.entries([run(SCORES), run(second, name="other")])
    assert [r.label for r in rows] == ["lsm2 · other", "lsm2 · run", "locf", "mean"]
    table = tables.skill_table(rows, ["overall"])
    assert not any(cell.best_rank for _, cells in table.rows for cell in cells)  # ranks of two pools


def test_scenarios_keep_their_order_and_leaves_stay_out():
    scopes = ("task:random_noise:ch_5", "signal_slice", "random_noise", "overall", "cat:sleep", "new_one")
    rows = tables.entries([run([score("a", s, 0.1) for s in scopes])])
    assert tables.scenario_scopes(rows) == ["random_noise", "signal_slice", "new_one"]
    assert tables.headline_scopes(rows) == ["overall", "cat:sleep"]
    assert tables.channel_table(rows[0], ["random_noise"]) == [("Watch heart rate", ["10.0"])]


def test_methods_and_skips_are_listed_with_their_counts():
    results = {
        "fallback": {"a": 0.25}, "substituted": {"a": 1234}, "seconds": {"a": 2.5, "b": 1},
        "skipped": {"no_mask": 3, "nested": {"why": 4}},
        "scenarios": {"sleep_gap": {"n_applicable": 5, "n_total": 9}},
    }  # fmt: skip
    one = run([], results=results)
    assert tables.methods_table([one]) == [
        ("run", "a", "25.00%", "1,234", "2.5"),
        ("run", "b", "–", "–", "1"),
    ]
    assert tables.skipped(one) == [("no mask", "3"), ("nested.why", "4")]
    assert tables.scenario_counts(one)[0][2:] == ("5", "9")


@pytest.mark.parametrize(
    "nest", [lambda tally: tally, lambda tally: {"tally": tally}, lambda tally: {"import": tally}]
)
def test_import_counts_are_found_at_each_depth(nest):
    tally = {"read": {"HR": 10}, "used": {"watch_hr": 9}, "notes": ["n"]}
    tally["skipped"] = [{"measure": "HR", "reason": "zero", "count": 1}]
    found = import_table.import_counts(run([], results={"import": {"source": "fitbit", **nest(tally)}}))
    assert found.facts == [("source", "fitbit")]
    assert found.used == [("Watch heart rate", "9")]
    assert found.skipped == [("HR", "zero", "1")]
    assert found.notes == ["n"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["fallback", "skipped", "seconds", "scenarios", "import", "x"]), json_values
    )
)
def test_any_results_file_gives_tables_of_plain_lines(results):
    one = run([], results=results)
    record = import_table.import_counts(one)
    listed = [*tables.methods_table([one]), *tables.scenario_counts(one), *tables.skipped(one)]
    listed += tables.settings(results) + (
        [] if record is None else [*record.facts, *record.used, *record.skipped]
    )
    assert all(isinstance(cell, str) and "\n" not in cell for row in listed for cell in row)


@given(st.floats(-5, 5))
def test_percent_rounds_and_never_says_minus_zero(value):
    text = tables.percent(value)
    assert abs(float(text.replace("−", "-")) - 100 * value) <= (0.5001 if abs(value) >= 0.999 else 0.0501)
    assert text not in ("−0.0", "−0", "-0.0")


def test_fair_skill_has_its_own_table():
    fair = [score("lsm2", s, 0.2, metric="fair_skill", low=0.1, high=0.3) for s in ("sex", "overall")]
    rows = tables.entries([run([*SCORES, *fair])])
    assert tables.fair_scopes(rows) == ["overall", "sex"]
    table = tables.skill_table(rows, ["overall"], metric=tables.FAIR_SKILL)
    assert [(entry.label, cells[0].value, cells[0].rank) for entry, cells in table.rows] == [
        ("lsm2", "20.0", ""),
        ("locf", "0.0", ""),
        ("mean", "–", ""),
    ]
    assert "sex" not in tables.headline_scopes(rows) + tables.scenario_scopes(rows)
