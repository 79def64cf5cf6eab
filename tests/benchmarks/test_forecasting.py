"""The forecasting evaluation as a person calls it: in Python and on the command line."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from made_days import made_day
from made_records import Level, write_root

import wearjax
from wearjax import cli
from wearjax.benchmarks.openmhc import forecasting
from wearjax.days.open import open_days
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import from_file
from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive
from wearjax.segments import forecast_points, trajectories

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "openmhc_forecaster.py"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_root(tmp_path_factory.mktemp("data") / "root")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Days of eight persons; `p6` has one day, `p7` lacks three weeks."""
    path = tmp_path_factory.mktemp("data") / "days"
    days = [made_day(f"p{i}", d) for i in range(6) for d in range(8)]
    days += [made_day("p6", 0), *(made_day("p7", d) for d in (0, 1, 2, 3, 25))]
    with DayStoreWriter(path, provenance={"source": "made"}) as writer:
        writer.add_all(days)
        content = {"train": ["p0", "p1"], "validation": ["p2"], "test": ["p3", "p4", "p5", "p6", "p7"]}
        writer.attach("splits.json", json.dumps(content))
        people = {f"p{i}": {"birth_year": 1950 + 9 * i, "sex": ("male", "female")[i % 2]} for i in range(8)}
        writer.attach("participants.json", json.dumps(people))
    return path


def evaluate(method, data_dir, **options):
    return forecasting.evaluate_forecasting(method, data_dir=data_dir, **{"bootstrap": 5} | options)


def files(folder: Path) -> dict[str, bytes]:
    """All files of a run folder but the parts, which tell seconds; of results.json all but the seconds."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    found = {name: content for name, content in found.items() if not name.startswith("parts")}
    results = json.loads(found["results.json"])
    del results["seconds"]
    return {**found, "results.json": json.dumps(results).encode()}


def test_the_public_name():
    assert wearjax.evaluate_forecasting is forecasting.evaluate_forecasting


class Trained:
    """As a loaded model offers itself: what forecasts is made for the store under evaluation."""

    name = "trained"

    def as_forecaster(self, days):
        assert len(days) == len(open_days(self.store))
        return SeasonalNaive()


def test_a_trained_model_is_a_method(store):
    model = Trained()
    model.store = store
    found = evaluate(model, store)
    assert found.method_names == ("trained",)
    assert found.score("trained").point == 0.0
    assert evaluate({"mine": model}, store).method_names == ("mine",)
    with pytest.raises(MethodError, match=r"nothing: has no predict\(history, horizon\) method"):
        evaluate({"nothing": object()}, store)
    with pytest.raises(MethodError, match=r"runs/a/bundle: is a path, .*load_pretrained\(path\)"):
        evaluate("runs/a/bundle", store)


def test_the_baseline_is_always_run_and_scores_zero(root):
    found = evaluate({}, root)
    assert found.methods == found.method_names == ("seasonal_naive",)
    assert found.score("seasonal_naive").point == 0.0
    assert (found.n_samples, found.participants) == (9, ("plain", "weeks", "zeros"))
    assert found.skipped["participants without a time point"] == 2
    again = evaluate(SeasonalNaive(), root)
    assert json.dumps(again.per_channel) == json.dumps(found.per_channel)


def test_a_method_is_compared_with_it(root):
    class Knows(Level):
        """Continues the rhythm without its noise."""

        name = "knows"

        def predict(self, history, horizon, **_):
            known = np.isfinite(history).reshape(19, -1, 24)
            total = np.where(known, history.reshape(19, -1, 24), 0).sum(axis=1)
            count = known.sum(axis=1)
            return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)

    found = evaluate(Knows(), root)
    assert found.methods == ("seasonal_naive", "knows")
    assert found.method_names == ("knows",)
    assert found.score("knows", "physiology").point > 0.1
    assert found.overall_fallback_rate > 0  # channels without any value
    assert evaluate(Knows(), root, method_name="mine").method_names == ("mine",)


def test_the_summary_marks_the_baseline_and_says_what_little_it_rests_on(root):
    found = evaluate({"a": Level(), "hollow": Level(np.nan)}, root)
    text = found.summary()
    assert "seasonal_naive (baseline)" in text
    assert f"only {len(found.participants)} participants were scored" in text
    cells = found.metrics.substituted[found.methods.index("hollow")].sum()
    assert (
        f"hollow: {cells:,} forecast hours were not finite: seasonal_naive stands in (of all 100.00%)" in text
    )
    assert found.config["own_methods"] == ["a", "hollow"]


def test_the_name_of_the_baseline_is_taken(root):
    with pytest.raises(ConfigError, match=r"'seasonal_naive': taken by the baseline"):
        evaluate({"seasonal_naive": Level()}, root)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"horizon": 12}, "horizon: expected 24 or 48"),
        ({"split": "train"}, "split 'train': expected test or validation"),
        ({"max_samples": 0}, "max_samples: expected at least 1"),
        ({"bootstrap": -1}, "bootstrap: expected at least 0"),
        ({"seed": -1}, r"seed: must be in \[0, 2\^32\), got -1"),
        ({"start_hour": 24}, "start_hour: expected -23 to 23"),
    ],
)
def test_impossible_arguments(root, options, told):
    with pytest.raises(ConfigError, match=told):
        evaluate(Level(), root, **options)


def test_methods_that_are_none(root):
    with pytest.raises(MethodError, match=r"a: has no predict\(history, horizon\)"):
        evaluate({"a": object()}, root)
    with pytest.raises(ConfigError, match="method_name: only for a single method"):
        evaluate({"a": Level()}, root, method_name="b")


def test_a_split_without_windows_says_why(tmp_path):
    root = write_root(tmp_path / "root", points={"one": [0], "plain": []})
    with pytest.raises(ConfigError, match=r"'test' has no window to forecast \(.*without a history: 1.*\)"):
        evaluate(Level(), root)


def test_points_of_a_file_replace_the_shipped_ones(root, tmp_path):
    file = forecast_points.write(tmp_path / "mine.json", {"plain": (7,), "weeks": (26,), "v1": (5,)})
    found = evaluate(Level(), root, sample_index=file)
    assert found.n_samples == 2
    assert found.config["sample_index"] == str(file)
    assert evaluate(Level(), root, split="val").participants == ("v1",)


def test_it_tells_the_windows_that_were_scored(root, tmp_path):
    whole = evaluate(Level(), root, seed=1).scored_on
    assert evaluate({}, root, seed=2).scored_on == whole  # the shipped points, whatever the seed
    file = forecast_points.write(tmp_path / "mine.json", {"plain": (7,), "weeks": (26,)})
    others = [
        evaluate({}, root, **options).scored_on
        for options in ({"max_samples": 2}, {"start_hour": 1}, {"sample_index": file}, {"split": "val"})
    ]
    assert len({found["cells"]["windows"] for found in (whole, *others)}) == 5
    assert str(tmp_path) not in json.dumps(others)  # paths are nobody else's business


def test_points_are_drawn_where_none_are_shipped(root):
    found = evaluate({}, root, horizon=48)
    wanted = forecast_points.sample(trajectories.open_trajectories(root), 48, seed=42)
    assert found.config["sample_index"] == "drawn with seed 42"
    assert found.n_samples == sum(len(wanted.get(p, ())) for p in ("plain", "weeks", "zeros", "lost", "one"))
    assert "one" not in found.participants


def test_a_store_of_days(store):
    method = Level()
    found = evaluate({"level": method}, store)
    assert found.participants == ("p3", "p4", "p5", "p7")
    assert found.skipped == {"participants without a time point": 1}
    assert method.asked == [3, 4, 5, 6, 7] * 3 + [3]
    assert found.provenance == {"source": "made"}
    assert found.subgroups["sex"][:2] == ("female", "male")


def test_the_offset_of_training_is_noted(root):
    method = Level()
    method.training_daily_start_hour_offset = 6
    found = evaluate({"a": method}, root, start_hour=6)
    assert found.config["training_start_hours"] == {"a": 6}
    assert found.config["start_hour"] == 6


def test_an_interrupted_run_gives_the_same_bytes(root, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    evaluate({"a": Level(holes=(0, 3))}, root, output_dir=whole)
    with pytest.raises(KeyboardInterrupt):
        evaluate({"a": Level(holes=(0, 3), stops_at=(25, 6))}, root, output_dir=parts)
    assert not (parts / "results.json").exists()
    method = Level(holes=(0, 3))
    evaluate({"a": method}, root, output_dir=parts)
    assert method.asked == [10, 3, 25, 5, 6]
    assert files(parts) == files(whole)


def test_finished_results_are_read_again(root, tmp_path):
    wanted = evaluate({"a": Level()}, root, output_dir=tmp_path)
    before = files(tmp_path)
    method = Level()
    found = evaluate({"a": method}, root, output_dir=tmp_path)
    assert method.asked == [10], "one window, to see whether this is the same method"
    assert files(tmp_path) == before
    assert found.summary() == wanted.summary()
    assert evaluate({"a": Level()}, root, output_dir=tmp_path, bootstrap=0).n_boot == 0
    joined = evaluate({"a": Level(), "b": Level(1.0)}, root, output_dir=tmp_path)
    anew = evaluate({"a": Level(), "b": Level(1.0)}, root)
    assert joined.summary() == f"{anew.summary()}\nrun folder: {tmp_path}"


def test_results_are_never_replaced_silently(root, tmp_path):
    evaluate({"a": Level()}, root, output_dir=tmp_path)
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ConfigError, match=r"'a' now forecasts other values.*force"):
        evaluate({"a": Level(1.0)}, root, output_dir=tmp_path)
    with pytest.raises(
        ConfigError, match=r"a finished evaluation with another max_samples \(None, now 8\).*force"
    ):
        evaluate({"a": Level()}, root, output_dir=tmp_path, max_samples=8)
    assert (tmp_path / "results.json").read_bytes() == before
    evaluate({"a": Level(1.0)}, root, output_dir=tmp_path, force=True)
    assert (tmp_path / "results.json").read_bytes() != before
    (tmp_path / "parts" / "key.json").unlink()
    with pytest.raises(ConfigError, match=r"already holds results.*force"):
        evaluate({"a": Level(1.0)}, root, output_dir=tmp_path)


def test_other_settings_or_data_do_not_go_on(root, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        evaluate({"a": Level(stops_at=(25, 6))}, root, output_dir=out)
    for changed, told in ({"max_samples": 8}, "max_samples"), ({"start_hour": 1}, "start_hour"):
        with pytest.raises(ConfigError, match=rf"unfinished evaluation with another {told}.*force"):
            evaluate({"a": Level()}, root, output_dir=out, **changed)
    points = forecast_points.read(forecast_points.shipped(root, 24))
    other = forecast_points.write(tmp_path / "other.json", {**points, "plain": (10, 3)})
    with pytest.raises(ConfigError, match="unfinished evaluation with another data"):
        evaluate({"a": Level()}, root, output_dir=out, sample_index=other)
    evaluate({"a": Level()}, root, output_dir=out, force=True, max_samples=8)


def test_the_example_knows_nothing_of_wearjax():
    nodes = list(ast.walk(ast.parse(EXAMPLE.read_text())))
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert imported == ["numpy"]
    assert not [node for node in nodes if isinstance(node, ast.ImportFrom)]


def test_the_example_forecasts_what_an_hour_usually_was():
    method = from_file.load(f"{EXAMPLE}:FadingMean")
    history = np.full((19, 49), np.nan, np.float32)
    history[0, 1:25], history[0, 25:] = 3, np.float32(9)  # two days end the record
    history[1, 40] = 4
    point, quantiles = method.predict(history, 48)
    older = 0.5 ** (1 / 7)
    np.testing.assert_allclose(point[0], (3 * older + 9) / (1 + older), rtol=1e-6)
    assert point[1, 15] == point[1, 39] == 4
    assert np.isnan(point[2]).all()
    assert quantiles.shape == (19, 48, 3)
    assert (quantiles[0, :, 0] < point[0]).all()
    assert method.predict(history[:, :5], 24) is None


def test_the_command_line_takes_it_from_its_file(root, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["evaluate", "forecasting", str(root), "--out", str(out), "--method", f"{EXAMPLE}:FadingMean",
                 "--bootstrap", "5", "--max-samples", "7"]  # fmt: skip
    cli.main(arguments)
    told = capsys.readouterr().out
    for text in ("fading_mean", "seasonal_naive", "7 windows", "report.html"):
        assert text in told
    results = json.loads((out / "results.json").read_text())
    assert results["methods"] == ["seasonal_naive", "fading_mean"]
    assert (out / "report.html").stat().st_size > 10_000
    before = (out / "results.json").read_bytes()
    (out / "report.html").unlink()
    cli.main(arguments)
    assert capsys.readouterr().out == told, "the same command shows the scores again"
    assert (out / "results.json").read_bytes() == before
    assert (out / "report.html").exists()
    for again, line in (
        ([*arguments, "--horizon", "48"], "a finished evaluation with another horizon (24, now 48)"),
        ([*arguments, "--force", "--split=test", "--split=test"], "--split is given twice"),
        ([*arguments[:5], "--force", *arguments[5:7], arguments[6]], "two methods are called 'fading_mean'"),
        ([*arguments[:3], "--out", str(tmp_path / "b"), "--methods", "prophet"], "forecaster 'prophet'; known:"),
        ([*arguments[:3], "--out", str(tmp_path / "b"), "--methods", "toto"], "--toto-checkpoint"),
        ([*arguments[:3], "--out", str(tmp_path / "b"), "--jobs", "2"], "only with --methods autoarima"),
        ([*arguments[:3], "--out", str(tmp_path / "b"), "--toto-lora-alpha", "2"], "only with --toto-checkpoint"),
    ):  # fmt: skip
        with pytest.raises(SystemExit):
            cli.main(again)
        assert line in capsys.readouterr().err
