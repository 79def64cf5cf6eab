import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import (
    packet,
    packet_schema,
    prediction_metrics,
    prediction_packet,
    prediction_results,
    prediction_scores,
    prediction_timing,
    run_packets,
    scored_on,
)
from wearjax.errors import ConfigError
from wearjax.report import run_folder, tables

CODES = ("age", "Heart Failure or CHF", "BMI_categories")
N_BOOT = 20


@pytest.fixture(scope="module")
def made():
    return prediction_timing.random_predictions(n_participants=50, n_methods=3, tasks=CODES, seed=6)


def results_of(made, **changes):
    options = {
        "method_names": ("method_1", "method_2"),
        "config": {"data_dir": "somewhere"},
        "versions": {"wearjax": "1"},
        "n_boot": N_BOOT,
        "substituted": {"method_1": {"age": 4, "BMI_categories": 0}},
        "skipped": {"task PH: no labels": 1},
        "seconds": {"method_1": 1.23456},
    }
    return prediction_results.score_predictions(made, **{**options, **changes})


@pytest.fixture(scope="module")
def results(made):
    return results_of(made)


def test_records_are_metric_and_standard_error_of_each_method(made, results):
    assert len(results.records) == len(CODES) * 3 * 2
    at = {(r["task"], r["classifier"], r["metric"]): r for r in results.records}
    for found in made:
        name = prediction_metrics.METRIC_OF[found.task.kind]
        for method in found.methods:
            value = prediction_metrics.metric(found.task.kind, found.y_true, found.scored(method))
            record = at[found.task.code, method, name]
            assert record["value"] == value
            assert (record["task_type"], record["n_test"]) == (found.task.kind, len(found.users))
            assert 0 < at[found.task.code, method, f"{name}_se"]["value"] < 1


def test_records_speak_of_all_a_method_predicted_and_scores_of_what_is_shared(made):
    age = next(p for p in made if p.task.code == "age")
    lacking = age.y_pred["method_2"].copy()
    lacking[:5] = np.nan
    gappy = dataclasses.replace(age, y_pred={**age.y_pred, "method_2": lacking})
    found = results_of([gappy, *(p for p in made if p is not age)])
    assert {r["n_test"] for r in found.records if r["task"] == "age"} == {len(age.users)}
    [task] = [
        s for s in found.scores if (s.method, s.metric) == ("method_1", "skill") and s.scope.endswith(":age")
    ]
    assert task.n_participants == len(age.users) - 5
    assert found.skipped["task age: participants whom some method does not predict"] == 5
    assert found.skipped["task PH: no labels"] == 1


def test_an_undefined_metric_is_counted(made):
    age = next(p for p in made if p.task.code == "age")
    flat = dataclasses.replace(age, y_pred={**age.y_pred, "method_2": np.full(len(age.users), 40.0)})
    found = results_of([flat, *(p for p in made if p is not age)])
    assert found.undefined == {"method_2": ["age"]}
    assert found.skipped["method_2: tasks without a metric"] == 1
    assert found.score("method_2").n_tasks == 2
    record = next(r for r in found.records if (r["task"], r["classifier"]) == ("age", "method_2"))
    assert np.isnan(record["value"])


def test_fallback_rates_are_pooled_over_tasks(made, results):
    total = sum(len(p.users) for p in made)
    assert results.overall_fallback_rate == 4 / total
    assert results.fallback_rate == {"age": 4 / results.n_test["age"]}
    assert results.fallback_rates == {"linear": 0.0, "method_1": 4 / total, "method_2": 0.0}


def test_summary_shows_every_method_domain_and_interval(results):
    text = results.summary()
    for name in ("linear", "method_1", "method_2", "Demographics", "Medical conditions", "bootstrap mean"):
        assert name in text
    found = results.score("method_1")
    assert f"{100 * found.mean:.1f} [{100 * found.ci_lo:.1f}, {100 * found.ci_hi:.1f}]" in text
    ranked = results.score("method_1", "Demographics", metric="rank")
    assert f"{ranked.mean:.2f} [{ranked.ci_lo:.2f}, {ranked.ci_hi:.2f}]" in text
    assert f"{found.mean * 100:.1f} %" in repr(results)


def test_summary_says_what_its_tables_leave_out(made, results, tmp_path):
    text = results.summary()
    assert "fallback: the share of predictions that linear gave" in text
    assert "not evaluated: PH (no labels)" in text
    counted = {"task PH: no labels": 1, "task age: eligible days that the data do not have": 3}
    assert "not evaluated: PH (no labels)\n" in results_of(made, skipped=counted).summary()
    assert "run folder" not in text
    assert dataclasses.replace(results, run_dir=tmp_path).summary() == f"{text}\nrun folder: {tmp_path}"


def test_tasks_in_which_the_baseline_is_perfect_have_no_skill_and_are_named(made):
    perfect = [_perfect(p) if p.task.code == "age" else p for p in made]
    text = results_of(perfect).summary()
    assert "no skill in age: linear makes no error there" in text
    assert "no skill in" not in results_of(made).summary()


def _perfect(found):
    """The same task with the labels as the baseline's predictions."""
    return dataclasses.replace(found, y_pred={**found.y_pred, "linear": found.y_true})


def test_summary_without_draws_says_so(made):
    text = results_of(made, n_boot=0).summary()
    assert "point estimates, no draws" in text
    assert "[" not in text


def test_tables_of_the_records(results, tmp_path):
    frame = results.to_dataframe()
    assert list(frame.columns) == ["task", "task_type", "classifier", "metric", "value", "n_test"]
    assert len(frame) == len(results.records)
    results.to_csv(tmp_path / "eval.csv")
    lines = (tmp_path / "eval.csv").read_text().splitlines()
    assert len(lines) == len(frame) + 1
    assert float(lines[1].split(",")[-2]) == frame["value"][0]
    results.to_json(tmp_path / "records.json")
    assert json.loads((tmp_path / "records.json").read_text()) == results.records


def test_the_run_folder_is_what_report_and_leaderboard_read(results, tmp_path):
    results.save(tmp_path)
    run = run_folder.read(tmp_path)
    entries = {entry.method: entry for entry in tables.entries([run])}
    assert set(entries) == {"linear", "method_1", "method_2"}
    assert entries["method_1"].overall() == results.score("method_1").reported
    assert tables.headline_scopes(entries.values()) == [
        "overall", "Demographics", "Medical conditions", "Body metrics and biomarkers",
    ]  # fmt: skip
    displays = [row[0] for row in tables.task_table(list(entries.values()))]
    assert displays == ["Age", "Heart Failure / CHF", "BMI Categories"]
    found = json.loads((tmp_path / "results.json").read_text())
    assert (found["track"], found["baseline"], found["seed"], found["versions"]) == (
        "prediction", "linear", 42, {"wearjax": "1"},
    )  # fmt: skip
    assert found["substituted"] == {"linear": 0, "method_1": 4, "method_2": 0}
    assert [f.stem for f in packet.files(tmp_path)] == ["linear", "method_1", "method_2"]
    assert not packet.validate(tmp_path / "method_1.parquet")
    about = json.loads((tmp_path / "method_1.parquet.meta.json").read_text())
    assert about["overall_fallback_rate"] == results.overall_fallback_rate
    groups = json.loads((tmp_path / "_subgroups.json").read_text())
    first = results.predictions[0]
    assert groups[first.users[0]]["sex"] == first.subgroups["sex"][0]


def test_scores_survive_the_file(results, tmp_path):
    results.save(tmp_path)
    rows = pq.read_table(tmp_path / "scores.parquet").to_pylist()
    assert len(rows) == len(results.scores)
    assert rows[5] == pytest.approx(dataclasses.asdict(results.scores[5]), nan_ok=True)


def test_every_pair_comes_three_times(results):
    rows = results.per_user_pairs
    assert rows.schema.equals(prediction_packet.PREDICTION_COLUMNS)
    assert len(rows) == 3 * 3 * sum(len(p.users) for p in results.predictions)
    assert not packet_schema.table_problems(rows, "prediction", method=None)
    row = rows.slice(len(rows) - 1, 1).to_pylist()[0]
    found = next(p for p in results.predictions if p.task.code == row["task"])
    i = found.users.index(row["user_id"])
    assert row["subgroup_value"] == found.subgroups[row["subgroup_attr"]][i]
    assert row["y_pred"] == np.float32(found.y_pred[row["method"]][i])
    assert row["y_true"] == np.float32(found.y_true[i])


def test_missing_demographics_are_unknown(made):
    bare = [dataclasses.replace(p, subgroups={}) for p in made]
    rows = prediction_packet.prediction_rows(bare)
    assert set(rows["subgroup_value"].to_pylist()) == {"all", "unknown"}
    assert not [s for s in results_of(bare).scores if s.metric == prediction_scores.FAIR_SKILL]


def test_a_submission_is_a_valid_packet(results, tmp_path):
    about = packet.Submission(name="My Probe", submitter="us", code_url="https://example.org")
    results.to_submission(tmp_path, submission=about, method="method_1", subtrack="longitudinal")
    file = tmp_path / "downstream" / "my_probe.parquet"
    assert not packet.validate(file)
    found = packet.read_packet(file)
    assert (found.track, found.method, found.subtrack) == ("prediction", "my_probe", "longitudinal")
    assert found.fallback_rate == pytest.approx(results.overall_fallback_rate, abs=1e-6)
    with pytest.raises(ConfigError, match="choose one with method="):
        results.to_submission(tmp_path)
    with pytest.raises(ConfigError, match="was not evaluated"):
        results.to_submission(tmp_path, method="nobody")


def test_a_finished_run_gives_the_packet_that_its_results_give(made, tmp_path):
    told = scored_on.facts({"split": "test"}, {"age": "a"})
    results = results_of(made, scored_on=told)
    results.save(tmp_path / "run")
    about = packet.Submission(name="My Probe", submitter="us", code_url="")
    results.to_submission(tmp_path / "a", submission=about, method="method_1", subtrack="longitudinal")
    run_packets.write(
        tmp_path / "run", tmp_path / "b", submission=about, method="method_1", subtrack="longitudinal"
    )
    for file in ("downstream/my_probe.meta.json", "my_probe.submission.yaml"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    tables = [pq.read_table(tmp_path / d / "downstream" / "my_probe.parquet") for d in "ab"]
    assert tables[0].to_pylist() == tables[1].to_pylist()
    assert packet.read_packet(tmp_path / "b" / "downstream" / "my_probe.parquet").scored_on == told


def test_methods_of_one_slug_get_files_of_their_own():
    assert prediction_packet.stems(["a b", "A-B", "c"]) == {"a b": "a_b", "A-B": "a_b_2", "c": "c"}


def test_asking_for_a_score_that_is_not_there(results):
    with pytest.raises(ConfigError, match="no rank of 'method_1' for scope 'nowhere'"):
        results.score("method_1", "nowhere", metric="rank")


def test_given_methods_and_the_baseline_must_be_among_the_predictions(made):
    with pytest.raises(ConfigError, match="'nobody'"):
        results_of(made, method_names=("nobody",))
    alone = [dataclasses.replace(p, y_pred={"x": p.y_pred["linear"]}, y_proba={"x": p.y_proba["linear"]})
             for p in made]  # fmt: skip
    with pytest.raises(ConfigError, match="'linear' is not among"):
        results_of(alone, method_names=("x",))


def test_json_has_no_nan(tmp_path):
    content = {"a": np.float32(0.5), 3: [float("nan"), (np.int64(2), tmp_path)]}
    result_files.write_json(tmp_path / "x.json", content)
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 0.5, "3": [None, [2, str(tmp_path)]]}


def test_cohorts_of_a_few_participants_do_not_warn_and_can_be_timed():
    assert prediction_timing.bootstrap_seconds(n_participants=4, n_methods=2, n_boot=5) > 0
