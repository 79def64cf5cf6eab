"""Results of the forecasting track: what they say, the files they write, packets and leaderboards from these."""

from __future__ import annotations

import csv
import dataclasses
import json

import made_forecasts
import numpy as np
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks.openmhc import forecasting_results, leaderboard, packet, run_packets, scored_on
from wearjax.errors import ConfigError

N_BOOT = 20
SCORED = scored_on.facts({"split": "test", "horizon": 24}, {"windows": "a"})


def scored(metrics, **changes):
    options = {
        "method_names": ("good", "poor"), "config": {"seed": 42}, "versions": {"wearjax": "x"}, "horizon": 24,
        "n_boot": N_BOOT, "demographics": made_forecasts.DEMOGRAPHICS, "skipped": {"late": 2},
        "seconds": {"good": 1.5}, "counts": {"poor": {"failed": 3}},
    }  # fmt: skip
    return forecasting_results.score_forecasts(metrics, **{**options, **changes})


@pytest.fixture(scope="module")
def results():
    return scored(made_forecasts.user_metrics(5), scored_on=SCORED)


def test_it_says_what_it_found(results):
    assert results.n_samples == 15
    assert results.participants == ("p0", "p1", "p2", "p3", "p4")
    assert repr(results).startswith("ForecastingResults(test, 5 participants, 15 windows of 24 hours: good ")
    text = results.summary()
    assert "skill, rank: bootstrap mean" in text
    lines = [line.split()[0] for line in text.splitlines()[2:5]]
    assert lines == ["good", "seasonal_naive", "poor"]
    shown = f"{100 * results.score('good').mean:.1f} [{100 * results.score('good').ci_lo:.1f}, "
    assert shown in text
    table = {line.split()[0] for line in text.splitlines() if line}
    assert "workout_yoga" in table and "workout_functional" not in table  # noqa: PT018
    assert "no skill in workout_functional: nobody's scored hours have the flag both on and off" in text
    assert "point estimates, no draws" in scored(made_forecasts.user_metrics(2), n_boot=0).summary()


def test_short_properties_speak_of_the_first_method(results):
    assert results.per_channel == results.metrics.by_window["good"]
    assert results.overall_fallback_rate == results.fallback_rates["good"] > 0
    assert set(results.fallback_rate) == {f"ch_{c}" for c in range(19) if c % 3}
    row = {r["model"]: r for r in results.skill_scores}["good"]
    assert row["overall_score"] == results.score("good").point
    assert row["workout_score"] == results.score("good", "workout").point
    assert "channel_17_score" not in row
    with pytest.raises(ConfigError, match="no skill of 'good' for scope 'sex'"):
        results.score("good", "sex")
    with pytest.raises(ConfigError, match="'other' is not in the table"):
        scored(results.metrics, method_names=("other",))


def test_tables_and_json_hold_the_window_means(results, tmp_path):
    frame = results.to_dataframe()
    results.to_csv(tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert len(rows) == len(frame)
    one = frame[(frame.method == "poor") & (frame.channel == "ch_5") & (frame.metric == "mse")].value.item()
    assert one == results.metrics.by_window["poor"]["ch_5"]["mse"]
    results.to_json(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["poor"]["per_channel"]["ch_5"]["mse"] == one
    single = scored(results.metrics, method_names=("good",))
    single.to_json(tmp_path / "b.json")
    content = json.loads((tmp_path / "b.json").read_text())
    assert content["n_samples"] == 15
    assert content["skill_scores"]["overall_score"] == results.score("good").point


def test_the_run_folder_holds_everything(results, tmp_path):
    saved = dataclasses.replace(results, gallery={"participant": np.array(["p0"])})
    saved.save(tmp_path)
    assert saved.run_dir == tmp_path
    errors = pq.read_table(tmp_path / "per_user_errors.parquet")
    assert set(errors["metric"].to_pylist()) == {"mae", "auroc"}
    everything = pq.read_table(tmp_path / "per_user_metrics.parquet").to_pandas()
    row = everything.query("model == 'good' and metric == 'ql' and channel_idx == 0 and user_id == 'p2'")
    assert row.metric_value.item() == results.metrics.values["ql"][1, 0, 2]
    assert row.n_values.item() == results.metrics.n_values["ql"][1, 0, 2]
    note = json.loads((tmp_path / "per_user_errors.parquet.meta.json").read_text())
    assert note["baseline"] == "seasonal_naive"
    assert note["overall_fallback_rate"]["good"] == results.fallback_rates["good"]
    content = json.loads((tmp_path / "results.json").read_text())
    assert (content["track"], content["horizon"], content["n_samples"]) == ("forecasting", 24, 15)
    assert content["counts"] == {"poor": {"failed": 3}}
    skills = list(csv.DictReader((tmp_path / "skill_scores.csv").open()))
    assert skills[1]["overall_score"] == f"{results.score('good').point:.6f}"
    assert pq.read_table(tmp_path / "scores.parquet").num_rows == len(results.scores)
    assert (tmp_path / "predictions" / "forecasts.npz").exists()
    groups = json.loads((tmp_path / "_subgroups.json").read_text())
    assert groups["p1"] == {"age_group": "50-59", "sex": "female"}


def test_a_packet_is_valid_and_names_its_file(results, tmp_path):
    about = packet.Submission(name="Good One", submitter="us", code_url="", category="Neural")
    with pytest.raises(ConfigError, match="choose one with method="):
        results.to_submission(tmp_path, submission=about)
    with pytest.raises(ConfigError, match="'other' was not evaluated"):
        results.to_submission(tmp_path, method="other")
    description = results.to_submission(tmp_path, submission=about, method="good")
    assert description.name == "good_one.submission.yaml"
    file = tmp_path / "forecasting" / "good_one.parquet"
    assert packet.validate(file) == []
    found = packet.read_packet(file)
    assert (found.track, found.method, found.subtrack) == ("forecasting", "good_one", "other")
    assert found.fallback_rate == pytest.approx(results.fallback_rates["good"], abs=1e-6)


def test_participants_without_a_value_take_no_part():
    metrics = made_forecasts.user_metrics(5)
    fewer = made_forecasts.user_metrics(4)
    for values in metrics.values.values():
        values[..., 4] = np.nan
    found, wanted = scored(metrics), scored(fewer)
    assert found.skipped == {"late": 2, "participants without a scored value": 1}
    assert repr(found.scores) == repr(wanted.scores)
    for values in metrics.values.values():
        values[:] = np.nan
    with pytest.raises(ConfigError, match="no window has a value"):
        scored(metrics)


def numbers(scores, names):
    return {(names[s.method], s.metric, s.scope): dataclasses.astuple(s)[3:] for s in scores}


def test_packets_and_runs_are_scored_as_one_evaluation(results, tmp_path):
    baseline = scored(
        made_forecasts.user_metrics(5, ("seasonal_naive",)),
        method_names=("seasonal_naive",),
        scored_on=SCORED,
    )
    baseline.save(tmp_path / "run")
    for method in ("good", "poor"):
        results.to_submission(tmp_path / method, method=method)
    paths = [tmp_path / "run", tmp_path / "good", tmp_path / "poor"]
    found = leaderboard.score([p for path in paths for p in leaderboard.read(path)], n_boot=N_BOOT)
    assert [p.method for p in found.packets] == ["seasonal_naive", "good", "poor"]
    assert (found.track, found.baseline, found.notes) == ("forecasting", "seasonal_naive", ())
    names = {m: m for m in results.methods}
    assert numbers(found.scores, names) == numbers(results.scores, names)


def test_packets_alone_have_no_fair_skill_and_say_so(results, tmp_path):
    for method in ("seasonal_naive", "good"):
        results.to_submission(tmp_path, method=method)
    found = leaderboard.score(leaderboard.read(tmp_path), n_boot=0)
    assert {s.metric for s in found.scores} == {"skill", "rank"}
    assert any("no fair skill" in note for note in found.notes)


def test_missing_participants_are_noted_and_others_windows_refused(results, tmp_path):
    fewer = scored(made_forecasts.user_metrics(3), method_names=("good",))
    results.to_submission(tmp_path / "a", method="seasonal_naive")
    fewer.to_submission(tmp_path / "b", method="good")
    found = leaderboard.score([p for d in ("a", "b") for p in leaderboard.read(tmp_path / d)], n_boot=0)
    assert found.participants == {"seasonal_naive": 5, "good": 3}
    assert "good: 2 of 5 participants have no value" in found.notes
    fewer.to_submission(tmp_path / "c", method="seasonal_naive")
    with pytest.raises(ConfigError, match="not evaluated on the same days or windows"):
        leaderboard.score([p for d in ("a", "c") for p in leaderboard.read(tmp_path / d)], n_boot=0)
    with pytest.raises(ConfigError, match="no packet or run of the baseline 'seasonal_naive'"):
        leaderboard.score(leaderboard.read(tmp_path / "b"), n_boot=0)


def test_a_finished_run_gives_the_packet_that_its_results_give(results, tmp_path):
    results.save(tmp_path / "run")
    about = packet.Submission(name="Good One", submitter="us", code_url="")
    results.to_submission(tmp_path / "a", submission=about, method="good")
    run_packets.write(tmp_path / "run", tmp_path / "b", submission=about, method="good")
    for file in (
        "forecasting/good_one.parquet",
        "forecasting/good_one.meta.json",
        "good_one.submission.yaml",
    ):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_packets_of_other_windows_are_refused(results, tmp_path):
    results.to_submission(tmp_path / "a", method="seasonal_naive")
    longer = scored_on.facts({"split": "test", "horizon": 48}, {"windows": "b"})
    scored(results.metrics, scored_on=longer).to_submission(tmp_path / "b", method="good")
    with pytest.raises(ConfigError, match="same cells of windows: horizon 24 and 48"):
        leaderboard.score([p for d in ("a", "b") for p in leaderboard.read(tmp_path / d)], n_boot=0)


def test_a_table_in_memory_names_the_channels(results, tmp_path):
    frame = results.to_dataframe()
    names = dict(zip(frame["channel"], frame["channel_name"], strict=True))
    assert names["ch_5"] == "watch_hr"
    results.to_csv(tmp_path / "metrics.csv")
    assert (tmp_path / "metrics.csv").read_text().splitlines()[0] == "method,channel,metric,value"
