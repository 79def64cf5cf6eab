"""The imputation benchmark end to end on made days: a few participants, random values."""

from __future__ import annotations

import datetime as dt
import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks.openmhc import imputation, packet, run_packets
from wearjax.channels import BINARY, CONTINUOUS, HEART_RATE, N_CHANNELS
from wearjax.day import Day
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, MethodError
from wearjax.predict.imputers import statistical

PEOPLE = {name: 3 + i for i, name in enumerate(("p1", "p2", "p3", "p4", "p5"))}
TEST = ("p3", "p4", "p5")


def made_day(rng) -> np.ndarray:
    values = np.zeros((N_CHANNELS, 1440), np.float32)
    wave = 1 + np.sin(np.linspace(0, 2 * np.pi, 1440))
    values[list(CONTINUOUS)] = rng.gamma(2.0, 5.0, (len(CONTINUOUS), 1440)) * wave
    values[HEART_RATE] = 1.2 + 0.3 * wave + rng.normal(0, 0.05, 1440)
    values[HEART_RATE, 600:630] = 2.9
    for c in BINARY:
        values[c, :400] = 1.0 if c < 9 else 0.0
        values[c, 600:700] = rng.random() < 0.8
    values[:, rng.random(1440) < 0.1] = np.nan
    return values


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "days"
    rng = np.random.default_rng(0)
    with DayStoreWriter(path, provenance={"source": "made"}) as writer:
        for name, n_days in PEOPLE.items():
            for d in range(n_days):
                date = dt.date(2024, 12, 29) + dt.timedelta(days=d)  # runs into the next year
                writer.add(Day(made_day(rng), name, date, 60.0 if d else 1000.0, "made"))
        writer.attach(
            "splits.json", json.dumps({"train": ["p1"], "validation": ["p2"], "test": [*TEST, "nobody"]})
        )
        people = {"p3": {"birth_year": 1995, "sex": "female"}, "p4": {"birth_year": 1960, "sex": "male"}}
        writer.attach("participants.json", json.dumps(people))
    return path


class Noisy:
    """Truth is unknown to it; adds a little noise to a constant, so flags get distinct scores."""

    def __init__(self, value=1.0, *, holes=False):
        self.value, self.holes, self.seen = value, holes, []

    def impute(self, data, observed_mask, target_mask, *, sample_indices, user_ids, dates):
        assert np.isnan(data[target_mask]).all()
        assert not np.any(target_mask & ~observed_mask)
        self.seen.append((sample_indices.copy(), list(user_ids), list(dates)))
        rng = np.random.default_rng(int(sample_indices.sum()))
        out = np.where(target_mask, self.value + 0.1 * rng.random(data.shape), data).astype(np.float32)
        if self.holes:
            out[:, 0, 100:200] = np.nan
        data[:] = 0  # what a careless method does to its arguments must not matter
        return out


@pytest.fixture(scope="module")
def results(data_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    methods = {"noisy": Noisy(), "holes": Noisy(holes=True)}
    found = imputation.evaluate_imputation(
        methods, data_dir=data_dir, output_dir=out, bootstrap=50, batch_days=3
    )
    return found, out, methods


def test_baseline_is_included_and_scores_nothing_against_itself(results):
    found, _, _ = results
    assert found.errors.methods == ("locf", "noisy", "holes")
    assert found.method_names == ("noisy", "holes")
    assert found.score("locf").point == 0.0
    assert found.score("locf").mean == 0.0
    assert all(row["method"] != "locf" for row in found.skill_scores)


def test_every_retained_day_is_seen_once_a_scenario_with_its_metadata(results):
    found, _, methods = results
    assert found.n_samples == 4 + 5 + 6
    assert found.skipped["days below the wear or variance filter"] == 3
    assert found.skipped["participants of the split without a day"] == 1
    seen = [item for call in methods["noisy"].seen for item in zip(*call, strict=True)]
    for scenario, splits in found.scenarios.items():
        cell = splits["test"]
        assert cell["n_total"] == 15
        assert cell["n_applicable"] + found.skipped.get(f"{scenario}: days without a mask", 0) == 15
    assert len(seen) == sum(splits["test"]["n_applicable"] for splits in found.scenarios.values())
    assert {user for _, user, _ in seen} == set(TEST)
    assert {position for position, _, _ in seen} == set(range(15))
    assert all(len(date) == 10 for _, _, date in seen)


def test_holes_are_substituted_and_counted(results):
    found, _, _ = results
    assert found.substituted["noisy"] == 0
    assert found.substituted["holes"] > 0
    cell = found.by_method["holes"]["random_noise"]["test"]
    assert set(cell["fallback_rate"]) == {f"ch_{c}" for c in range(N_CHANNELS)}
    assert cell["fallback_rate"]["ch_0"] > 0
    assert cell["fallback_rate"]["ch_1"] == 0
    assert found.fallback_rates["holes"] == max(
        splits["test"]["overall_fallback_rate"] for splits in found.by_method["holes"].values()
    )


def test_a_value_beyond_float16_gains_nothing(data_dir):
    """Such an answer has no error: it is replaced and counted, and all tasks and participants stay."""

    class Mad(Noisy):
        def __init__(self, value):
            super().__init__()
            self.mad = value

        def impute(self, data, observed_mask, target_mask, *, sample_indices, user_ids, dates):
            given = {"sample_indices": sample_indices, "user_ids": user_ids, "dates": dates}
            out = super().impute(data, observed_mask, target_mask, **given)
            out[:, 3, ::50] = self.mad
            return out

    methods = {"mad": Mad(1e6), "open": Mad(np.nan), "far": Mad(-np.inf), "fine": Noisy()}
    found = imputation.evaluate_imputation(methods, data_dir=data_dir, bootstrap=0)
    errors = dict(zip(found.errors.methods, found.errors.errors, strict=True))
    for name in ("mad", "far"):
        np.testing.assert_array_equal(errors[name], errors["open"])
        assert found.substituted[name] == found.substituted["open"] > 0
    np.testing.assert_array_equal(np.isfinite(errors["mad"]), np.isfinite(errors["fine"]))
    assert "cells beyond float16" not in found.skipped
    told = rf"mad: {found.substituted['mad']:,} answers were not finite, or beyond float16: .*random_noise \d"
    assert re.search(told, found.summary())


def test_rows_come_best_first_with_the_baseline_marked(results):
    found, out, _ = results
    names = [line.split("  ")[0].strip() for line in found.summary().splitlines()[2:5]]
    assert names == sorted(names, key=lambda m: -found.score(m.removesuffix(" (baseline)")).mean)
    assert "locf (baseline)" in names
    assert "only 3 participants were scored" in found.summary()
    assert "fair: how much smaller" in found.summary()
    assert found.summary().endswith(f"\nrun folder: {out}")


def test_no_other_method_goes_by_the_name_of_the_baseline(data_dir):
    with pytest.raises(ConfigError, match="method name 'locf': taken by the baseline"):
        imputation.evaluate_imputation({"locf": Noisy()}, data_dir=data_dir)


def test_errors_equal_a_direct_computation(results, data_dir):
    from wearjax.days.open import open_days
    from wearjax.days.splits import read_splits
    from wearjax.segments import mask_cache, masks

    found, _, _ = results
    days = open_days(data_dir)
    indices = read_splits(data_dir).indices(days, "test")
    seed = mask_cache.scenario_seed("temporal_slice", "test")
    per_person: dict[str, list] = {}
    for position, index in enumerate(indices):
        values = days.values(int(index))
        mask, _ = masks.make_mask(
            "temporal_slice", values, ~np.isnan(values), np.random.default_rng(seed + position)
        )
        locf = statistical.build("locf", days, read_splits(data_dir).indices(days, "train"))
        filled = locf.impute(np.where(mask, np.nan, values)[None], ~np.isnan(values)[None], mask[None])[0]
        cell = mask[3]
        half = [part[3][cell].astype(np.float16).astype(float) for part in (filled, values)]
        per_person.setdefault(days.participants[index], []).append(np.abs(half[0] - half[1]))
    task = found.errors.tasks.index(("temporal_slice", "ch_3", "continuous"))
    for p, name in enumerate(found.errors.participants):
        assert found.errors.errors[0, task, p] == pytest.approx(np.concatenate(per_person[name]).mean())


def test_subgroups_follow_the_day_and_unknown_is_one(results):
    groups = results[0].errors.subgroups
    age = groups["age_group"]
    born_1995 = np.isfinite(age.errors[:, 0, :, 0]).any(axis=1)
    born_1960 = np.isfinite(age.errors[:, 0, :, 1]).any(axis=1)
    # One turns 30, by calendar year, in the middle of the record; the other is past 60 on all days.
    assert [v for v, there in zip(age.values, born_1995, strict=True) if there] == ["18-29", "30-39"]
    assert [v for v, there in zip(age.values, born_1960, strict=True) if there] == ["60+"]
    unknown = groups["sex"].errors[groups["sex"].values.index("unknown"), 0]
    np.testing.assert_array_equal(unknown[:, 2], results[0].errors.errors[0, :, 2])
    assert {s.scope for s in results[0].scores if s.metric == "fair_skill"} == {"age_group", "sex", "overall"}


def test_the_run_folder_holds_the_contract_files(results):
    found, out, _ = results
    scores = pq.read_table(out / "scores.parquet").to_pylist()
    assert {"method", "metric", "scope", "n_tasks", "point", "mean", "se", "ci_lo", "ci_hi", "n_boot"} <= set(
        scores[0]
    )
    assert {s["metric"] for s in scores} == {"skill", "rank", "fair_skill"}
    summary = json.loads((out / "results.json").read_text())
    assert summary["n_participants"] == 3
    assert summary["fallback"].keys() == summary["seconds"].keys() == {"locf", "noisy", "holes"}
    assert summary["import"] == {"source": "made"}
    errors = pq.read_table(out / "per_user_errors.parquet")
    assert errors.column_names == packet.IMPUTATION_COLUMNS.names
    whole = errors.filter(np.array(errors["subgroup_attr"].to_pylist()) == "all")
    assert len(whole) == np.isfinite(found.errors.errors).sum()
    assert json.loads((out / "config.json").read_text())["evaluation"]["seed"] == 42


def test_the_gallery_shows_truth_outside_the_target(results):
    with np.load(results[1] / "predictions" / "gallery.npz", allow_pickle=False) as gallery:
        arrays = dict(gallery)
    n = len(arrays["scenario"])
    assert {"imputed/locf", "imputed/noisy", "imputed/holes"} < set(arrays)
    assert set(arrays["scenario"]) == set(imputation.ALL)
    assert arrays["values"].shape == arrays["target"].shape == (n, N_CHANNELS, 1440)
    for name in ("locf", "noisy", "holes"):
        filled = arrays[f"imputed/{name}"]
        np.testing.assert_array_equal(filled[~arrays["target"]], arrays["values"][~arrays["target"]])
        assert np.isfinite(filled[arrays["target"]]).all()


def test_batching_changes_nothing(results, data_dir):
    class Grouped(Noisy):
        requires_user_grouped_batches = True

        def impute(self, data, observed_mask, target_mask):
            return np.where(target_mask, 1.0, data).astype(np.float32)

    for batch_days in (1, 7):
        again = imputation.evaluate_imputation(
            {"grouped": Grouped()}, data_dir=data_dir, bootstrap=0, batch_days=batch_days
        )
        np.testing.assert_array_equal(again.errors.errors[0], results[0].errors.errors[0])
        for name, array in results[0].gallery.items():
            if name in again.gallery:
                np.testing.assert_array_equal(again.gallery[name], array)


def test_windows_of_days_are_scored_by_day(results, data_dir):
    calls = []

    class Reader:
        def impute(self, data, observed_mask, target_mask, *, day_offsets, user_ids):
            calls.append((data.shape, day_offsets.copy(), user_ids))
            return np.where(target_mask, 1.0, data).astype(np.float32)

    found = imputation.evaluate_imputation(
        Reader(),
        data_dir=data_dir,
        n_days=3,
        scenarios=("random_noise", "sleep_gap"),
        bootstrap=0,
        method_name="reader",
    )
    shapes, offsets, _ = calls[0]
    assert shapes[1:] == (N_CHANNELS, 3 * 1440)
    assert set(offsets[:, -1]) >= {2, 0}
    assert found.n_samples == 15
    assert found.scenarios["random_noise"]["test"]["n_applicable"] == 15
    # A constant fill does not care for context: its errors are those of single days.
    single = imputation.evaluate_imputation(
        {"constant": Constant()}, data_dir=data_dir, scenarios=("random_noise", "sleep_gap"), bootstrap=0
    )
    np.testing.assert_allclose(found.errors.errors[1], single.errors.errors[1], rtol=1e-12)


class Constant:
    def impute(self, data, observed_mask, target_mask):
        return np.where(target_mask, 1.0, data).astype(np.float32)


def test_fewer_samples_keep_their_masks(data_dir):
    found = imputation.evaluate_imputation(
        Constant(), data_dir=data_dir, max_samples=4, scenarios="random_noise", bootstrap=0
    )
    assert found.n_samples == 4
    assert found.skipped["days beyond max_samples"] == 11
    again = imputation.evaluate_imputation(
        Constant(), data_dir=data_dir, max_samples=4, scenarios="random_noise", bootstrap=0
    )
    np.testing.assert_array_equal(found.errors.errors, again.errors.errors)


def test_published_masks_give_the_same_errors(data_dir, tmp_path):
    from wearjax.days.open import open_days
    from wearjax.days.splits import read_splits
    from wearjax.segments import mask_cache

    days = open_days(data_dir)
    indices = read_splits(data_dir).indices(days, "test")
    made = mask_cache.MaskSet.generate(
        lambda i: days.values(int(indices[i])), len(indices), "signal_slice", "test"
    )
    made.save(mask_cache.cache_path(tmp_path, "test", "signal_slice"))
    options = {"data_dir": data_dir, "scenarios": ("signal_slice",), "bootstrap": 0}
    drawn = imputation.evaluate_imputation(Constant(), **options)
    loaded = imputation.evaluate_imputation(Constant(), mask_dir=tmp_path, **options)
    np.testing.assert_array_equal(drawn.errors.errors, loaded.errors.errors)


def test_exports(results, tmp_path):
    found, _, _ = results
    frame = found.to_dataframe()
    published = ["method", "scenario", "split", "channel_group", "metric", "value"]
    assert list(frame.columns) == [*published, "channel_name"]
    names = dict(zip(frame["channel_group"], frame["channel_name"], strict=True))
    assert (names["ch_5"], names["ch_18"], names["_meta"]) == ("watch_hr", "workout_yoga", "_meta")
    assert {"_meta", "continuous", "binary", "ch_0", "fallback_rate"} <= set(frame["channel_group"])
    found.to_csv(tmp_path / "metrics.csv")
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert len(lines) == len(frame) + 1
    assert lines[0] == ",".join(published)
    found.to_json(tmp_path / "metrics.json")
    assert set(json.loads((tmp_path / "metrics.json").read_text())) == {"locf", "noisy", "holes"}
    text = found.summary()
    assert all(name in text for name in ("locf", "noisy", "holes", "3 participants"))


def test_submission_packet(results, tmp_path):
    found, _, _ = results
    with pytest.raises(ConfigError, match="several methods"):
        found.to_submission(tmp_path)
    about = packet.Submission(name="Noisy (v2)", submitter="us", code_url="https://example.org")
    description = found.to_submission(tmp_path, method="noisy", submission=about)
    table = pq.read_table(tmp_path / "imputation" / "noisy_v2.parquet")
    assert table["method"].unique().to_pylist() == ["noisy_v2"]
    assert set(table["subgroup_attr"].unique().to_pylist()) == {"all", "age_group", "sex"}
    sidecar = json.loads((tmp_path / "imputation" / "noisy_v2.meta.json").read_text())
    assert sidecar["subtrack"] == "single-day"
    assert sidecar["scored_on"]["days"] == 15
    assert "imputation/noisy_v2.parquet" in description.read_text()


def test_a_finished_run_gives_the_packet_that_its_results_give(results, tmp_path):
    found, run, _ = results
    for method in ("noisy", "locf"):
        found.to_submission(tmp_path / "a", method=method)
        run_packets.write(run, tmp_path / "b", method=method)
    written = sorted(f.relative_to(tmp_path / "a") for f in (tmp_path / "a").rglob("*.*"))
    assert len(written) == 6
    for file in written:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    with pytest.raises(ConfigError, match=r"choose one with method=NAME \(noisy, holes\)"):
        run_packets.write(run, tmp_path / "c")
    with pytest.raises(ConfigError, match="no finished evaluation"):
        run_packets.write(tmp_path, tmp_path / "c")


def test_a_packet_tells_the_cells_that_it_was_scored_on(results, data_dir):
    found, _, _ = results
    options = {"data_dir": data_dir, "bootstrap": 0}
    again = imputation.evaluate_imputation(Noisy(2.0), **options, batch_days=64).scored_on
    assert again == found.scored_on
    some = {"scenarios": ("random_noise", "sleep_gap"), **options}
    seed = imputation.evaluate_imputation(Noisy(), mask_seed=7, **some).scored_on
    assert seed["cells"]["random_noise"] != again["cells"]["random_noise"]
    assert seed["cells"]["sleep_gap"] == again["cells"]["sleep_gap"]  # nothing of it is drawn
    windows = imputation.evaluate_imputation(Noisy(), n_days=3, **some).scored_on
    assert windows["cells"].items() <= again["cells"].items()  # the same days, seen three at once
    fewer = imputation.evaluate_imputation(Noisy(), max_samples=5, **some).scored_on
    assert fewer["cells"].keys() == seed["cells"].keys()
    assert not set(fewer["cells"].values()) & set(again["cells"].values())
    assert (fewer["max_samples"], fewer["sample_seed"], fewer["days"]) == (5, 42, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenarios": ("sleep",)}, "'sleep'"),
        ({"scenarios": ()}, "scenarios"),
        ({"split": "train"}, "split 'train'"),
        ({"n_days": 8}, "n_days"),
        ({"max_samples": 0}, "max_samples"),
        ({"seed": -1}, r"^seed: must be in \[0, 2\^32\), got -1$"),
        ({"mask_seed": -1}, r"^mask_seed: must be in \[0, 2\^32\), got -1$"),
        ({"bootstrap": -1}, "bootstrap"),
        ({"method": {}}, "empty"),
        ({"method": {"a": Constant()}, "method_name": "b"}, "method_name"),
    ],
)
def test_impossible_arguments_are_named(data_dir, options, message):
    with pytest.raises(ConfigError, match=message):
        imputation.evaluate_imputation(options.pop("method", Constant()), data_dir=data_dir, **options)


def test_methods_that_break_the_contract_are_named(data_dir):
    class Short:
        name = "short"

        def impute(self, data, observed_mask, target_mask):
            return data[:, :, :10]

    with pytest.raises(MethodError, match="shape"):
        imputation.evaluate_imputation(Short(), data_dir=data_dir, scenarios="sleep_gap")
    with pytest.raises(MethodError, match="impute"):
        imputation.evaluate_imputation({"x": object()}, data_dir=data_dir)
