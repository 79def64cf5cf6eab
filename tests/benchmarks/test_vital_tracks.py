"""Tracks of VitalBench end to end on invented surgeries and tiny models."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from wearjax import vitals
from wearjax.benchmarks.vitalbench import ablations, jobs, plans, results, tracks
from wearjax.errors import ConfigError, StoreError, WearjaxError
from wearjax.report import page, vital_page
from wearjax.segments import vital_cases, vital_preparing
from wearjax.segments.vital_cases import open_cases
from wearjax.segments.vital_settings import VitalSettings
from wearjax.sources.synthetic_surgery import Cohort
from wearjax.sources.vital_cases import Case

TINY = {"size": "small", "models": ("dlinear",), "horizons": (3,), "bootstrap": 20}
BUDGET = tracks.Budget(epochs=1, batch_size=64)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Ten surgeries of about an hour from each centre."""
    folder = tmp_path_factory.mktemp("surgeries")
    for name in ("mover", "vitaldb"):
        cohort = Cohort(vitals.CENTRES[name], 10, seed=1, hours=1.0)
        vital_preparing.prepare_synthetic(cohort, folder / name)
    return folder


@pytest.fixture(scope="module")
def run(stores, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    return out, tracks.evaluate(stores / "mover", output_dir=out, budget=BUDGET, **TINY)


def test_every_test_surgery_is_scored(stores, run):
    _, found = run
    listed = open_cases(stores / "mover").splits["test"]
    assert list(found.outcomes[0].cases) == listed
    average = found.table("MAE")["dlinear"]
    assert average[3].n == len(listed)
    assert average[results.AVERAGE].mean == average[3].mean
    mean = np.mean([case["MAE"] for case in found.outcomes[0].cases.values()])
    assert average[3].mean == pytest.approx(mean)
    assert average[3].ci_lo <= average[3].mean <= average[3].ci_hi


def test_undefined_values_are_said_and_one_surgery_has_no_interval(run):
    _, found = run
    outcome = found.outcomes[0]
    first, *others = outcome.cases
    cases = {first: outcome.cases[first]} | {
        name: outcome.cases[name] | {"R2": float("nan")} for name in others
    }
    again = results.of_outcomes(
        [dataclasses.replace(outcome, cases=cases)], track=1, config=found.config, counts=found.counts, bootstrap=20,
        seed=0,
    )  # fmt: skip
    score = again.table("R2")["dlinear"][3]
    assert score.n == 1
    assert np.isnan(score.ci_lo)
    assert np.isnan(again.table("R2")["dlinear"][results.AVERAGE].ci_hi)
    assert f"R2 is over 1 of {len(cases)} surgeries" in again.summary()
    assert "R2 is over" not in found.summary()


def test_an_empty_list_is_named(tmp_path):
    vital_preparing.prepare_synthetic(Cohort(vitals.CENTRES["mover"], 2, hours=1.0), tmp_path / "two")
    with pytest.raises(ConfigError, match=r"two: its validation list is empty \(2 surgeries in all\)"):
        tracks.evaluate(tmp_path / "two", output_dir=tmp_path / "run", budget=BUDGET, **TINY)


def test_errors_in_original_units_are_scaled_ones_times_the_span(run):
    _, found = run
    by_variable = {error.variable: error for error in found.variables}
    assert 1 < by_variable["MAP_ART"].mae < 100  # mmHg, not a share of the range
    assert set(by_variable) <= {v.name for v in vitals.CENTRES["mover"].targets}


def test_a_finished_job_is_read_not_trained_again(stores, run, monkeypatch):
    out, found = run
    monkeypatch.setattr(jobs, "score", lambda *_: pytest.fail("scored again"))
    again = tracks.evaluate(stores / "mover", output_dir=out, budget=BUDGET, **TINY)
    assert again.scores == found.scores
    assert again.variables == found.variables
    cases = found.counts["test_cases"]
    assert repr(again) == f"VitalResults(track 1, {cases} surgeries: dlinear, persistence)"


def test_other_settings_in_the_same_folder_are_refused(stores, run):
    out, _ = run
    other = tracks.Budget(epochs=2, batch_size=64)
    with pytest.raises(ConfigError, match=r"a run with another budget.epochs \(1, now 2\).*--force"):
        tracks.evaluate(stores / "mover", output_dir=out, budget=other, **TINY)
    before = json.loads((out / "config.json").read_text())
    (out / "config.json").unlink()  # jobs know themselves, too
    try:
        with pytest.raises(StoreError, match="other settings or data"):
            tracks.evaluate(stores / "mover", output_dir=out, budget=other, **TINY)
    finally:
        (out / "config.json").write_text(json.dumps(before, indent=1) + "\n")


def test_force_starts_over_and_spares_what_is_not_a_run(stores, run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    tracks.clear(tmp_path)
    assert (tmp_path / "notes.txt").exists()
    (tmp_path / "results.json").write_text('{"track": "imputation"}')
    with pytest.raises(ConfigError, match=r"results of another kind \(imputation, now vitalbench\).*--force"):
        tracks.evaluate(stores / "mover", output_dir=tmp_path, budget=BUDGET, **TINY)
    with pytest.raises(ConfigError, match="is the run itself"):
        tracks.score_run(run[0], stores / "mover", output_dir=run[0], force=True)
    assert (run[0] / "results.json").exists()


def test_the_run_states_switches_and_counts(run):
    out, _ = run
    content = json.loads((out / "results.json").read_text())
    assert content["config"]["switches"]["scaling"] == "per_case"
    assert content["config"]["switches"]["split"] == "time"
    assert content["counts"]["jobs"]["dlinear-3min"]["test_cases_without_windows"] == 0
    assert content["counts"]["jobs"]["dlinear-3min"]["test_windows"] > 0


def test_the_page_holds_tables_units_and_a_forecast(run):
    out, _ = run
    text = vital_page.write(out).read_text()
    assert "<svg" in text
    assert "3 minutes ahead from its middle" in text
    assert "MAP_ART (mmHg)" in text
    assert "3 min" in text
    assert "The surgeries of MOVER-SIS are invented" in text
    assert "dlinear-3min" in text
    assert "training.settings" not in text, "no dump of the configuration among the counts"
    assert vital_page.is_run(out)


def test_weights_scored_again_give_the_same_errors(stores, run, tmp_path, monkeypatch):
    out, found = run
    again = tracks.score_run(out, stores / "mover", output_dir=tmp_path)
    assert [o.plan for o in again.outcomes] == [o.plan for o in found.outcomes]
    assert [o.cases for o in again.outcomes] == [o.cases for o in found.outcomes]
    assert again.config["plans"] == found.config["plans"]
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "score", lambda *_: pytest.fail("scored again"))
        read = tracks.score_run(out, stores / "mover", output_dir=tmp_path)
    assert (read.scores, read.variables) == (again.scores, again.variables)
    with pytest.raises(ConfigError, match=r"a run with another split \(test, now all\).*--force"):
        tracks.score_run(out, stores / "mover", output_dir=tmp_path, split="all")
    everything = tracks.score_run(out, stores / "mover", output_dir=tmp_path / "all", split="all")
    assert len(everything.outcomes[0].cases) == len(open_cases(stores / "mover"))


def test_incomplete_track_scores_the_kept_variables_only(stores, tmp_path):
    found = tracks.evaluate(stores / "mover", track=2, output_dir=tmp_path, budget=BUDGET, **TINY)
    n_targets = vitals.CENTRES["mover"].n_targets
    model, baseline = ([(of, name) for of, name, _, _ in o.variables] for o in found.outcomes)
    assert baseline == model, "the same variables of the same surgeries"
    for case in found.outcomes[0].cases:
        scored = {name for of, name in model if of == case}
        assert 1 <= len(scored) < n_targets


def test_persistence_is_scored_beside_the_models_and_in_no_ranking(stores, run, tmp_path):
    out, found = run
    content = json.loads((out / "results.json").read_text())
    assert [(p["kind"], p["role"]) for p in content["config"]["plans"]] == [
        ("dlinear", "model"), ("persistence", "baseline"),
    ]  # fmt: skip
    assert "persistence" not in plans.MODELS
    assert content["counts"]["jobs"]["persistence-3min"]["trained"] is False
    assert {s["minutes"] for s in content["scores"] if s["model"] == "persistence"} == {3, 0}
    test = tracks._home(open_cases(stores / "mover"), VitalSettings(), minute=False).splits().test
    future, observed = test.future(0, 3)
    guess = np.zeros_like(future)
    for row, variable in np.ndindex(len(future), test.n_targets):
        seen = [i for i in range(max(0, row - 29), row + 1) if test.observed[i, variable]]
        guess[row, :, variable] = test.targets[seen[-1], variable] if seen else 0
    assert found.outcomes[-1].cases[test.ids[0]]["MAE"] == pytest.approx(
        np.abs(future - guess)[observed].mean(), rel=1e-5
    )
    better = {s.metric: s for s in found.scores if s.model == "persistence" and not s.minutes}
    best = [
        dataclasses.replace(s, mean=better[s.metric].mean + (1 if s.metric in ("MAE", "RMSE") else -1))
        if s.model == "dlinear" else s
        for s in found.scores
    ]  # fmt: skip
    shown = dataclasses.replace(found, scores=best)
    starts = ("dlinear", "persistence (")
    rows = [line.split("  ")[0] for line in shown.summary().splitlines() if line.startswith(starts)]
    assert rows == ["dlinear", "persistence (not trained)"] * 4, "last, although it is better"
    assert "persistence is not trained" in shown.summary()
    shown.save(tmp_path)
    page_text = vital_page.write(tmp_path).read_text()
    assert "Of 1 model, dlinear has the lowest error" in page_text
    table = page_text.split("<h2>Scores</h2>")[1].split("</table>")[0]
    assert table.count('class="best"') == 2, "the model, at its horizon and on average"
    assert table.index("★") < table.index("persistence (not trained)")
    assert '<th scope="col" class="n">persistence (not trained)</th>' in page_text


def test_across_centres_with_the_upper_bound(stores, tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "UPPER_BOUND", "dlinear")  # MambaTS compiles once a number of channels
    found = tracks.evaluate(
        stores / "vitaldb", track=3, target=stores / "mover", output_dir=tmp_path, budget=BUDGET, **TINY
    )
    assert set(found.table("MAE")) == {"dlinear", "dlinear_upper_bound", "persistence"}
    assert list(found.outcomes[-1].cases) == open_cases(stores / "mover").splits["test"]
    assert "An upper bound is a MambaTS trained on the centre" in found.summary()
    said = "identity across centres, solved for the upper bound; solved where the best epoch is chosen"
    assert said in vital_page.write(tmp_path).read_text()
    config = json.loads((tmp_path / "results.json").read_text())["config"]
    assert config["switches"]["channel_order"] == "identity"
    assert config["channel_orders"] == {"scores": "identity", "best_epoch": "solved", "upper_bound": "solved"}
    assert list(found.outcomes[0].cases) == open_cases(stores / "mover").splits["test"]
    assert found.config["data"]["step_seconds"] == 60
    assert {error.variable for error in found.variables} <= {v.name for v in vitals.CENTRES["mover"].targets}


def test_across_centres_the_order_of_the_table_is_for_scores_only(stores, tmp_path, monkeypatch):
    """The best epoch is chosen in the order of the settings, the upper bound scored in it, too."""
    asked: list[tuple[str, str | None]] = []

    class Spy:
        history, record = (), {}

        def __init__(self, plan, settings, training):
            self.plan, self.settings = plan, settings

        def fit(self, train, validation, **_):
            asked.append((self.plan.name, self.settings.channel_order))

        def views(self, cases, *, channel_order=None):
            asked.append((self.plan.name, channel_order))
            raise InterruptedError

    monkeypatch.setattr(jobs, "_untrained", Spy)
    store = tracks._home(open_cases(stores / "mover"), VitalSettings(), minute=True)
    splits = store.splits()
    for role, order in (("model", "identity"), ("upper_bound", "solved")):
        plan = plans.plan("mambats", 3, store.centre, track=3, size="small", role=role)
        with pytest.raises(InterruptedError):
            jobs.carry_out(plan, splits, store.settings, tmp_path / role, training={})
        assert asked == [(plan.name, "solved"), (plan.name, order)]
        asked.clear()
    plan = plans.plan("mambats", 3, store.centre, track=2, size="small")
    assert plan.test_order(VitalSettings()) == "solved"
    assert plan.test_order(VitalSettings(channel_order="identity")) == "identity"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            (
                "A missing value is a 0, which models see and errors leave out",
                "zeros included",
                "shares of that",
            ),
        ),
        ({"scaling": "train_global"}, ("highest observed training value",)),
        ({"imputation": "knn"}, ("filled in (knn); filled targets count as observed",)),
        ({"imputation": "mean", "impute_targets": False}, ("filled targets are left out of the errors",)),
        ({"report_units": "original"}, ("errors are in the units of the variables (mmHg",)),
    ],
)
def test_missing_values_and_units_are_one_sentence(run, tmp_path, changes, said):
    _, found = run
    switches = {**found.config["switches"], **changes}
    shown = dataclasses.replace(found, config={**found.config, "switches": switches})
    lines = [line for line in shown.summary().splitlines() if "each variable runs from 0 to 1" in line]
    assert len(lines) == 1
    assert all(text in lines[0] for text in said)
    shown.save(tmp_path)
    assert lines[0].split("; ")[1].split(" (")[0] in vital_page.write(tmp_path).read_text()


def test_ablations_vary_one_thing(stores, tmp_path):
    found = ablations.data_scale(
        stores / "mover",
        fractions=(0.5, 1.0),
        output_dir=tmp_path,
        budget=BUDGET,
        settings=VitalSettings(),
        **TINY,
    )
    assert found.runs["0.5"].counts["train_cases"] < found.runs["1"].counts["train_cases"]
    assert found.runs["0.5"].counts["test_cases"] == found.runs["1"].counts["test_cases"]
    assert "0.5" in found.summary()


def test_the_shift_between_equal_windows_is_none():
    windows = np.random.default_rng(0).normal(size=(50, 30))
    assert ablations._energy(windows, windows) == pytest.approx(0, abs=1e-12)
    assert ablations._energy(windows, windows + 3) > 1


def test_the_shift_names_the_wrong_centre(stores):
    store = open_cases(stores / "mover")
    with pytest.raises(ConfigError, match="expected a store of vitaldb"):
        ablations.centre_shift(store, store)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"track": 2, "models": ("micn",)}, "fixed number of channels"),
        ({"models": ("transformer",)}, "no model"),
        ({"horizons": (5,)}, "horizons"),
        ({"track": 3}, "target"),
        ({"track": 4}, "track"),
    ],
)
def test_impossible_runs_are_named(stores, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        tracks.evaluate(stores / "mover", output_dir=tmp_path, **{**TINY, **options})


def test_published_plans_have_the_published_sizes():
    centre = vitals.CENTRES["vitaldb"]
    plan = plans.plan("itransformer", 10, centre, track=1)
    assert (plan.config.horizon, plan.config.context, plan.config.n_channels) == (120, 360, 17)
    assert (plan.config.d_model, plan.config.depth, plan.learning_rate) == (512, 2, 5e-4)
    assert plans.of_facts(json.loads(json.dumps(plan.facts())), centre) == plan


def test_a_model_of_fixed_channels_takes_no_other_centre():
    facts = plans.plan("lightts", 3, vitals.CENTRES["mover"], track=1).facts()
    narrow = dataclasses.replace(vitals.CENTRES["mover"], variables=vitals.CENTRES["mover"].variables[1:])
    with pytest.raises(ConfigError, match="takes no other number"):
        plans.of_facts(facts, narrow)


def test_the_report_verb_knows_a_vitalbench_run(run, tmp_path):
    out, _ = run
    assert "VitalBench" in page.write_report(out, tmp_path / "one.html").read_text()
    with pytest.raises(WearjaxError, match="give it alone"):
        page.write_report([out, out])


def test_a_recording_too_short_to_score_is_forecast_from_its_end(run, tmp_path):
    out, _ = run
    centre = vitals.CENTRES["mover"]
    values = np.tile(np.linspace(10, 90, centre.n_variables, dtype=np.float32), (2, 1))
    made = [Case(name, None, values * (1 + 0.01 * i)) for i, name in enumerate("abc")]
    vital_cases.write_cases(tmp_path / "short", made, centre)
    found = tracks.score_run(out, tmp_path / "short", output_dir=tmp_path / "scored", split="all")
    assert found.scores == []
    assert "nothing is scored" in found.summary()
    example = found.outcomes[0].examples[0]
    assert example.forecast.shape == (3, centre.n_targets)
    assert np.isfinite(example.forecast).all()
    assert np.isnan(example.future).all()
    assert "<svg" in vital_page.write(tmp_path / "scored").read_text()


def test_a_horizon_of_one_minute_is_singular(stores, tmp_path):
    options = TINY | {"horizons": (1,)}
    found = tracks.evaluate(stores / "mover", output_dir=tmp_path, budget=BUDGET, **options)
    assert "1 minute ahead from its middle" in vital_page.write(tmp_path).read_text()
    head = dataclasses.replace(found, counts=found.counts | {"test_cases": 1}).summary().splitlines()[0]
    assert "1 test surgery." in head
