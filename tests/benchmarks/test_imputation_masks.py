"""Masks of a root of the full version: shipped ones are taken, their lack is said; and the skills of a run as CSV."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from made_days import made_day
from openmhc_root import write_openmhc_root

from wearjax import cli
from wearjax.benchmarks.openmhc import imputation, imputation_masks
from wearjax.days.open import open_days
from wearjax.days.splits import read_splits
from wearjax.errors import ConfigError, StoreError
from wearjax.report import page
from wearjax.segments import mask_cache

PEOPLE = ("c", "a", "b", "d")
SPLIT = {"train": PEOPLE[:1], "validation": PEOPLE[1:2], "test": PEOPLE[2:]}
SCENARIO = "random_noise"


class Constant:
    def impute(self, data, observed_mask, target_mask):
        return np.where(target_mask, 1.0, data).astype(np.float32)


def made_root(path, version="full"):
    days = [made_day(person, offset) for offset in range(2) for person in PEOPLE]
    return write_openmhc_root(path, days, SPLIT, version=version)


@pytest.fixture
def root(tmp_path):
    return made_root(tmp_path / "root")


def ship(root, folder, *, seed):
    """Masks of the test split, as a root ships them."""
    days = open_days(root)
    indices = read_splits(root).indices(days, "test")
    made = mask_cache.MaskSet.generate(
        lambda i: days.values(int(indices[i])), len(indices), SCENARIO, "test", seed
    )
    made.save(mask_cache.cache_path(root / folder, "test", SCENARIO))
    return root / folder


def evaluate(root, **options):
    return imputation.evaluate_imputation(
        {"constant": Constant()}, data_dir=root, scenarios=SCENARIO, bootstrap=0, **options
    )


@pytest.mark.parametrize("folder", ["masks_max91d", "processed/masks_max91d"])
def test_shipped_masks_are_taken_whatever_the_seed(root, folder):
    ship(root, folder, seed=7)
    shipped, drawn = evaluate(root), evaluate(root, mask_dir=ship(root, "other", seed=42))
    assert shipped.config["shipped_masks"] == folder
    assert shipped.notes == drawn.notes == ()
    assert not np.array_equal(shipped.errors.errors, drawn.errors.errors)
    again = evaluate(root, mask_seed=3)
    np.testing.assert_array_equal(again.errors.errors, shipped.errors.errors)
    assert again.notes == ("masks are the published ones of the data root: mask seed 3 has no effect",)


def test_their_lack_is_said_in_the_summary_the_results_and_the_page(root, tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["--methods", "mean", "--scenarios", SCENARIO, "--bootstrap", "0", "--mask-seed", "7"]
    cli.main(["evaluate", "imputation", str(root), "--out", str(out), *arguments])
    note = "masks drawn with seed 7, not the published ones: numbers are not comparable with published tables"
    assert capsys.readouterr().out.count(note) == 1
    (stored,) = json.loads((out / "results.json").read_text())["notes"]
    assert stored.startswith(note)
    text = (out / "report.html").read_text()
    assert text.count(f"<li>{note}") == 1
    assert page.write_report([out]).read_text() == text


def test_the_verb_reads_a_folder_of_masks(root, tmp_path, capsys):
    folder = ship(root, "other", seed=7)
    seen = []
    for out, options in (("a", ["--mask-dir", str(folder)]), ("b", ["--mask-seed", "7"]), ("c", [])):
        command = ["evaluate", "imputation", str(root), "--out", str(tmp_path / out), "--bootstrap", "0"]
        cli.main([*command, "--methods", "mean", "--scenarios", SCENARIO, *options])
        seen.append((tmp_path / out / "per_user_errors.parquet").read_bytes())
    assert seen[0] == seen[1] != seen[2]


def test_only_a_root_of_the_full_version_has_something_to_say(tmp_path):
    small = made_root(tmp_path / "xs", version="xs")
    assert evaluate(small).notes == ()
    ship(small, "masks_max91d", seed=7)
    assert imputation_masks.origin(small) == imputation_masks.Origin()


def test_shipped_masks_that_cannot_be_read_as_such(root):
    folder = ship(root, "a_max91d", seed=42)
    with pytest.raises(StoreError, match=r"sleep_gap\.npz: mask file is missing"):
        imputation.evaluate_imputation(Constant(), data_dir=root, scenarios=(SCENARIO, "sleep_gap"))
    of_test = mask_cache.MaskSet.load(mask_cache.cache_path(folder, "test", SCENARIO))
    of_test.save(mask_cache.cache_path(folder, "val", SCENARIO))
    with pytest.raises(StoreError, match="has 2 days: masks of other data"):
        evaluate(root, split="validation")
    ship(root, "b_max91d", seed=42)
    with pytest.raises(ConfigError, match=r"a_max91d, b_max91d.*--mask-dir"):
        evaluate(root)


def test_skills_are_written_to_six_decimals(root, tmp_path):
    found = evaluate(root, output_dir=tmp_path)
    with open(tmp_path / "skill_scores.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {**row, "skill_score": f"{row['skill_score']:.6f}", "n_tasks": str(row["n_tasks"])}
        for row in found.skill_scores
    ]
    assert {"overall", SCENARIO, f"task:{SCENARIO}:ch_0"} <= {row["scope"] for row in rows}
    assert list(rows[0]) == ["method", "scope", "skill_score", "n_tasks"]
