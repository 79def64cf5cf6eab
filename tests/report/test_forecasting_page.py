"""The page of a forecasting run: tables, figure, example windows; runs and packets side by side."""

import html
import json
import re

import numpy as np
import pytest

from wearjax.benchmarks.openmhc import forecasting_results
from wearjax.benchmarks.openmhc.forecasting_metrics import UserMetrics
from wearjax.channels import BINARY, CONTINUOUS, INDEX
from wearjax.errors import WearjaxError
from wearjax.report import forecasts, page, run_folder

METHODS = {"seasonal_naive": 1.0, "autoets": 0.8, "toto": 0.6}


def metrics(methods) -> UserMetrics:
    rng = np.random.default_rng(0)
    people = tuple(f"p{i}" for i in range(6))
    found = UserMetrics(tuple(methods), people, np.full(6, 3))
    base = rng.gamma(4.0, 25.0, (19, 6))
    for m, (method, factor) in enumerate(methods.items()):
        found.values["mae"][m, list(CONTINUOUS)] = factor * base[list(CONTINUOUS)]
        found.values["auroc"][m, list(BINARY[:4])] = 1 - 0.3 * factor * base[list(BINARY[:4])] / 200
        found.by_window[method] = {
            **{f"ch_{c}": {"mae": float(found.values["mae"][m, c].mean())} for c in CONTINUOUS},
            **{f"ch_{c}": {"auroc": float(found.values["auroc"][m, c].mean())} for c in BINARY[:4]},
        }
    for name in ("mae", "auroc"):
        found.n_values[name][:] = np.isfinite(found.values[name])
    found.asked[:] = 100
    found.substituted[-1, 3] = 7
    return found


def windows(methods, n=2):
    rng = np.random.default_rng(1)
    arrays = {"history": rng.gamma(2, 40, (n, 19, 72)), "target": rng.gamma(2, 40, (n, 19, 24))}
    arrays["target"][:, 4:9] = np.nan
    for i, method in enumerate(methods):
        point = rng.gamma(2, 40, (n, 19, 24))
        arrays[f"forecast/{method}"] = point
        arrays[f"low/{method}"] = point - 5 if i else np.full_like(point, np.nan)
        arrays[f"high/{method}"] = point + 5 if i else np.full_like(point, np.nan)
    found = {name: array.astype(np.float32) for name, array in arrays.items()}
    start = [f"2020-03-0{i + 1} 00:00" for i in range(n)]
    return found | {"participant": np.array([f"p{i}" for i in range(n)]), "start": np.array(start)}


def write_run(folder, methods=METHODS, *, gallery=True):
    results = forecasting_results.score_forecasts(
        metrics(methods),
        method_names=list(methods)[1:] or list(methods),
        config={},
        versions={"wearjax": "0"},
        horizon=24,
        n_boot=10,
        demographics={f"p{i}": {"birth_year": 1960 + 10 * (i % 3), "sex": "male"} for i in range(6)},
        counts={"autoets": {"series": 12, "timed_out": 2}},
        gallery=windows(methods) if gallery else {},
    )
    results.save(folder)
    return results


def words_of(text):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("r") / "run"
    return folder, write_run(folder)


@pytest.fixture(scope="module")
def text(run):
    return page.write_report(run[0]).read_text()


def test_the_page_says_who_forecasts_best(run, text):
    _, results = run
    shown = words_of(text)
    assert "Forecast of wearable hours: run" in shown
    best = results.score("toto")
    assert (
        f"On 18 windows of 6 participants (test split), toto makes {100 * best.point:.1f} % less error"
        in shown
    )
    assert "the best of 3 methods" in shown
    assert "hours ahead 24" in shown
    for absent in ("Example days", "Coverage", "Training", "scenario"):
        assert absent not in shown, absent


def test_tables_show_categories_channels_and_counts(run, text):
    _, results = run
    shown = words_of(text)
    assert "Skill overall and by channel category" in shown
    assert re.search(r"Overall ?4 categories ?Activity ?5 channels", shown)
    hr = results.metrics.by_window["toto"]["ch_5"]["mae"] * 60
    assert f"Watch heart rate error, bpm {hr:,.0f}" in shown
    assert "Phone steps error, steps/h" in shown
    assert "Asleep AUROC" in shown
    assert "autoets: timed out" in shown.replace("_", " ")
    assert "Forecast hours that a method left open and seasonal naive filled in" in shown
    assert 'aria-label="Skill by category"' in text


def test_example_windows_are_drawn(run, text):
    shown = words_of(text)
    assert text.count('class="day"') == 2
    assert "2020-03-02 00:00 · participant p1" in shown
    assert "toto, with its outer quantiles" in shown
    assert "2 of the 2 saved windows" in shown
    assert "http" not in re.sub(r'http-equiv="[^"]*"', "", text)


def test_the_same_run_gives_the_same_bytes(run, text, tmp_path):
    assert page.write_report(run[0], tmp_path / "again.html").read_text() == text


def test_a_run_without_windows_or_attributes_says_so(tmp_path):
    write_run(tmp_path / "bare", {"seasonal_naive": 1.0}, gallery=False)
    shown = words_of(page.write_report(tmp_path / "bare").read_text())
    assert "no example windows ( predictions/forecasts.npz is absent)" in shown


def test_runs_and_packets_stand_in_one_leaderboard(run, tmp_path):
    folder, results = run
    other = {"seasonal_naive": 1.0, "chronos2": 0.5}
    write_run(tmp_path / "other", other, gallery=False)
    write_run(tmp_path / "third", {"seasonal_naive": 1.0, "mine": 0.9}).to_submission(
        tmp_path / "p", method="mine"
    )
    page.write_report([folder, tmp_path / "other", tmp_path / "p"], tmp_path / "all.html")
    shown = words_of((tmp_path / "all.html").read_text())
    assert "All 5 methods of the forecasting track, aligned by participant (6 in all)" in shown
    board = shown[shown.index("All 5 methods") : shown.index("error a method saves against the baseline (")]
    order = [board.index(name) for name in ("chronos2", "toto", "autoets", "mine")]
    assert order == sorted(order)
    assert f"{100 * results.score('toto').point:.1f}" in board


def test_windows_of_another_shape_are_refused(run, tmp_path):
    file = tmp_path / "forecasts.npz"
    good = windows(("m",))
    for name, change in {
        "target": lambda a: a[:, :4],
        "low/m": lambda a: a[..., :3],
        "history": lambda a: a.astype(int),
        "start": lambda a: a[:1],
    }.items():
        np.savez(file, **{**good, name: change(good[name])})
        with pytest.raises(WearjaxError, match="must be"):
            forecasts.read(file)
    np.savez(file, **{k: v for k, v in good.items() if k != "participant"})
    with pytest.raises(WearjaxError, match="without participant"):
        forecasts.read(file)
    file.write_bytes(b"no archive")
    with pytest.raises(WearjaxError, match="not readable as example windows"):
        forecasts.read(file)


def test_channels_of_one_kind_share_a_panel(run):
    found = run_folder.read(run[0]).forecasts
    assert found is not None
    chosen = forecasts.choose_channels(found, 0)
    assert 1 <= len(chosen) <= forecasts.CHANNELS_MAX
    assert not set(chosen) >= {INDEX["iphone_steps"], INDEX["iphone_distance"]}
    assert not set(chosen) & {4, 5, 6, 7, 8}  # nothing was recorded
    assert forecasts.choose_windows(found, 2) == sorted(forecasts.choose_windows(found, 2))
    assert json.loads((run[0] / "results.json").read_text())["track"] == "forecasting"
