"""`wearjax vitalbench prepare` as a person meets it."""

from __future__ import annotations

import pytest
import tyro

from wearjax.cli import vitalbench
from wearjax.errors import ConfigError
from wearjax.segments import vital_cases as store
from wearjax.sources import synthetic_surgery, vital_cases
from wearjax.sources.synthetic_surgery import Cohort
from wearjax.vitals import CENTRES


def prepare(*args: object) -> None:
    tyro.cli(vitalbench.prepare, args=[str(a) for a in args])


def test_invented_surgeries_are_prepared(tmp_path, capsys):
    out = tmp_path / "s"
    prepare(
        "--synthetic", 4, "--centre", "vitaldb", "--hours", 0.1, "--seed", 2, "--coupling", 0.5, "--out", out
    )
    made = store.open_cases(out)
    assert (len(made), made.meta["provenance"]["coupling"]) == (4, 0.5)
    shown = capsys.readouterr().out
    assert "VitalDB, one row every 5 s" in shown
    assert "BIS/BIS" in shown
    assert "note: synthetic surgeries, seed 2" in shown


def test_files_in_the_published_layout_are_prepared_with_the_split_that_was_asked(tmp_path):
    folder = tmp_path / "csv"
    folder.mkdir()
    cohort = Cohort(CENTRES["mover"], 4, hours=0.3)
    for index in range(4):
        vital_cases.write_csv(synthetic_surgery.simulate(cohort, index).case, folder, cohort.centre)
    prepare("csv", folder, "--centre", "mover", "--split", "random42", "--out", tmp_path / "s")
    assert store.open_cases(tmp_path / "s").splits["train"] == ["synthetic-000000", "synthetic-000002"]
    prepare("csv", folder, "--centre", "mover", "--out", tmp_path / "s", "--force", "--order", "directory")
    assert len(store.open_cases(tmp_path / "s")) == 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give a source and its path"),
        (("csv",), "give a source and its path"),
        (("csv", ".", "--synthetic", 3), "--synthetic invents"),
        (("csv", ".", "--all-targets"), "goes with --inclusion published"),
        (("beats", ".", "--doses", "minute"), "no option 'doses'"),
    ],
)
def test_impossible_commands_are_refused(tmp_path, args, message):
    with pytest.raises(ConfigError, match=message):
        prepare(*args, "--centre", "mover", "--out", tmp_path / "s")
    assert not (tmp_path / "s").exists()
