"""An imputation evaluation that is interrupted, refused or started over."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from made_days import made_day

from wearjax.benchmarks.openmhc import imputation, imputation_parts, parts
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, MethodError

SCENARIOS = ("temporal_slice", "sleep_gap")
OPTIONS = {"scenarios": SCENARIOS, "bootstrap": 5, "batch_days": 2, "gallery_days": 1}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "days"
    with DayStoreWriter(path, provenance={"source": "made"}) as writer:
        for person in ("p1", "p2", "p3", "p4", "p5", "p6"):
            for day in range(2):
                writer.add(made_day(person, day))
        content = {"train": ["p1"], "validation": ["p2"], "test": ["p3", "p4", "p5", "p6"]}
        writer.attach("splits.json", json.dumps(content))
        writer.attach("participants.json", json.dumps({"p3": {"birth_year": 1990, "sex": "male"}}))
    return path


class Level:
    """Fills with a number; stops with an error when it meets a participant."""

    def __init__(self, value: float = 1.0, *, stops_at: str | None = None, error: type = KeyboardInterrupt):
        self.value, self.stops_at, self.error, self.seen = value, stops_at, error, []

    def impute(self, data, observed_mask, target_mask, *, user_ids):
        self.seen += user_ids
        if self.stops_at in user_ids:
            raise self.error("stopped")
        wave = np.sin(np.arange(data.shape[2])) * 0.1
        return np.where(target_mask, self.value + wave, data).astype(np.float32)


def evaluate(method, data_dir, out=None, **options):
    return imputation.evaluate_imputation(method, data_dir=data_dir, output_dir=out, **OPTIONS | options)


def interrupted(data_dir, out, **options):
    stopping = Level(stops_at="p5", **options)
    with pytest.raises(stopping.error):
        evaluate({"a": stopping}, data_dir, out)
    return stopping


def assert_equal(found, wanted):
    np.testing.assert_array_equal(found.errors.errors, wanted.errors.errors)
    for name, group in wanted.errors.subgroups.items():
        np.testing.assert_array_equal(found.errors.subgroups[name].errors, group.errors)
    assert [repr(s) for s in found.scores] == [repr(s) for s in wanted.scores]
    assert json.dumps(found.by_method) == json.dumps(wanted.by_method)
    assert (found.skipped, found.substituted) == (wanted.skipped, wanted.substituted)
    assert found.gallery.keys() == wanted.gallery.keys()
    for name, array in wanted.gallery.items():
        np.testing.assert_array_equal(found.gallery[name], array)


def files(folder):
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_finished_results_are_read_again(data_dir, tmp_path):
    wanted = evaluate({"a": Level()}, data_dir, tmp_path)
    before = files(tmp_path)
    again = Level()
    assert_equal(evaluate({"a": again}, data_dir, tmp_path), wanted)
    assert again.seen == ["p3", "p3"], "the first batch alone, to see whether this is the same method"
    assert files(tmp_path) == before
    assert evaluate({"a": Level()}, data_dir, tmp_path, bootstrap=0).n_boot == 0
    joined = evaluate({"a": Level(), "b": Level(3.0)}, data_dir, tmp_path)
    assert_equal(joined, evaluate({"a": Level(), "b": Level(3.0)}, data_dir))


def test_results_are_never_replaced_silently(data_dir, tmp_path):
    evaluate({"a": Level()}, data_dir, tmp_path)
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ConfigError, match=r"'a' now fills in other values.*force"):
        evaluate({"a": Level(2.0)}, data_dir, tmp_path)
    with pytest.raises(
        ConfigError, match=r"a finished evaluation with another max_samples \(None, now 3\).*force"
    ):
        evaluate({"a": Level()}, data_dir, tmp_path, max_samples=3)
    assert (tmp_path / "results.json").read_bytes() == before
    evaluate({"a": Level(2.0)}, data_dir, tmp_path, force=True)
    assert (tmp_path / "results.json").read_bytes() != before
    (tmp_path / "parts" / "key.json").unlink()
    with pytest.raises(ConfigError, match=r"already holds results.*force"):
        evaluate({"a": Level(2.0)}, data_dir, tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MethodError])
def test_the_same_call_goes_on_where_it_was_stopped(data_dir, tmp_path, error):
    wanted = evaluate({"a": Level()}, data_dir)
    out = tmp_path / "run"
    assert set(interrupted(data_dir, out, error=error).seen) == {"p3", "p4", "p5"}
    assert not (out / "results.json").exists()
    again = Level()
    assert_equal(evaluate({"a": again}, data_dir, out), wanted)
    # p3 is asked once more, to see whether this is the method that began.
    assert [p for p in again.seen if p == "p4"] == []
    assert again.seen.count("p3") == 2
    assert sorted(p.name for p in out.iterdir()) == [
        "config.json", "parts", "per_user_errors.parquet", "predictions", "results.json", "scores.parquet",
        "skill_scores.csv",
    ]  # fmt: skip


def test_a_method_may_join_after_an_interruption(data_dir, tmp_path):
    wanted = evaluate({"a": Level(), "b": Level(3.0)}, data_dir)
    interrupted(data_dir, tmp_path)
    first, second = Level(), Level(3.0)
    assert_equal(evaluate({"a": first, "b": second}, data_dir, tmp_path), wanted)
    assert "p4" not in first.seen
    assert set(second.seen) == {"p3", "p4", "p5", "p6"}


def test_another_method_of_the_same_name_does_not_go_on(data_dir, tmp_path):
    interrupted(data_dir, tmp_path)
    with pytest.raises(ConfigError, match=r"'a' now fills in other values.*force"):
        evaluate({"a": Level(1.01)}, data_dir, tmp_path)
    evaluate({"a": Level(1.01)}, data_dir, tmp_path, force=True)


@pytest.mark.parametrize("changed", [{"scenarios": ("sleep_gap",)}, {"mask_seed": 7}, {"max_samples": 3}])
def test_other_settings_do_not_go_on(data_dir, tmp_path, changed):
    interrupted(data_dir, tmp_path)
    with pytest.raises(
        ConfigError, match=rf"unfinished evaluation with another {next(iter(changed))}.*force"
    ):
        evaluate({"a": Level()}, data_dir, tmp_path, **changed)
    assert_equal(
        evaluate({"a": Level()}, data_dir, tmp_path, force=True, **changed),
        evaluate({"a": Level()}, data_dir, **changed),
    )


def test_what_is_complete_is_written_along_the_way(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SECONDS", 0.0)
    monkeypatch.setattr(parts, "_SHARE", np.inf)
    saved = []

    class Watching(Level):
        def impute(self, data, observed_mask, target_mask, *, user_ids):
            saved.append(len(list(tmp_path.glob("parts/*.npz"))))
            return super().impute(data, observed_mask, target_mask, user_ids=user_ids)

    evaluate({"a": Watching()}, data_dir, tmp_path)
    assert saved == [
        1,
        1,
        *[3] * 6,
    ]  # training statistics; the baseline and the method, after each participant


def test_a_broken_record_is_named(data_dir, tmp_path):
    interrupted(data_dir, tmp_path)
    for file in (tmp_path / "parts").glob("*.npz"):
        file.write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(ConfigError, match=r"npz: not readable"):
        evaluate({"a": Level()}, data_dir, tmp_path)


def test_the_key_depends_on_days_and_people(data_dir):
    from wearjax.days.open import open_days

    days = open_days(data_dir)
    keys = {imputation_parts.digest_of(days, np.array(rows)) for rows in ([0, 1], [0, 2], [1, 0])}
    days.variance = days.variance + np.float32(1)
    keys.add(imputation_parts.digest_of(days, np.array([0, 1])))
    keys |= {imputation_parts.digest_of_people({"p1": {"sex": sex}}) for sex in ("male", "female")}
    assert len(keys) == 6


def test_results_name_themselves_in_one_short_line(data_dir):
    found = evaluate({c: Level() for c in "abcd"}, data_dir)
    text = repr(found)
    assert text.startswith("ImputationResults(test, 4 participants, 8 days: a ")
    assert "\n" not in text
    assert len(text) < 120
    assert text.endswith(", …)")
    bare = dataclasses.replace(found, scores=())
    assert "a - %" in repr(bare)


def test_the_summary_shows_every_scenario_and_category(data_dir):
    text = evaluate({"a": Level()}, data_dir).summary()
    lines = text.splitlines()
    assert "skill, rank: bootstrap mean; fair: point" in lines[0]
    assert lines[1].split() == [
        "method", "rank", "overall", "semantic", "activity", "physiology", "sleep", "workouts", "fair", "fallback",
    ]  # fmt: skip
    assert lines[5].split() == ["skill", "(rank)", *SCENARIOS]
    assert len([line for line in lines if line.startswith("a ")]) == 2
    assert "point estimates" in evaluate({"a": Level()}, data_dir, bootstrap=0).summary()
