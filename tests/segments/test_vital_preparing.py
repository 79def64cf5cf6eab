"""From a source to a store: published layout, criteria, invented cohorts, refusals before any work."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.errors import ConfigError, SourceError
from wearjax.segments import vital_preparing
from wearjax.sources import synthetic_surgery, vital_cases
from wearjax.sources.synthetic_surgery import Cohort
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import CENTRES


@pytest.fixture(scope="module")
def cohort():
    return Cohort(CENTRES["mover"], 6, seed=1, hours=2.2)


@pytest.fixture(scope="module")
def median_age(cohort):
    return float(
        np.median([synthetic_surgery.static_values(cohort, i)["Age"] for i in range(cohort.n_cases)])
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory, cohort):
    path = tmp_path_factory.mktemp("published")
    for index in range(cohort.n_cases):
        vital_cases.write_csv(synthetic_surgery.simulate(cohort, index).case, path, cohort.centre)
    return path


def test_the_published_layout_gives_the_store_of_the_same_cases(cohort, folder, tmp_path):
    direct = vital_preparing.prepare_synthetic(cohort, tmp_path / "a", criteria=Criteria()).store
    read = vital_preparing.prepare("csv", folder, tmp_path / "b", centre="mover", criteria=Criteria()).store
    assert read.ids == direct.ids
    assert read.splits == direct.splits
    np.testing.assert_array_equal(read.values, direct.values)
    np.testing.assert_array_equal(read.starts, direct.starts)
    assert read.meta["provenance"]["criteria"]["min_hours"] == 2.0
    assert any("does not name the kind of anaesthesia" in note for note in read.meta["import"]["notes"])


def test_criteria_leave_cases_out(folder, tmp_path, median_age):
    criteria = Criteria(min_age=median_age)
    made = vital_preparing.prepare("csv", folder, tmp_path / "s", centre="mover", criteria=criteria)
    ages = [made.store.case(i)[0, 0] for i in range(len(made.store))]
    assert min(ages) >= median_age
    assert made.tally.skipped["case", f"younger than {median_age:g} y"] == 6 - len(made.store) > 0


def test_what_cannot_be_done_is_refused_before_reading(folder, tmp_path):
    out = tmp_path / "s"
    with pytest.raises(ConfigError, match="unknown source"):
        vital_preparing.prepare("xml", folder, out, centre="mover")
    with pytest.raises(ConfigError, match="mover-tables makes cases of mover, not of 'vitaldb'"):
        vital_preparing.prepare("mover-tables", folder, out, centre="vitaldb")
    with pytest.raises(ConfigError, match="no option 'span'"):
        vital_preparing.prepare("csv", folder, out, centre="mover", span="room")
    with pytest.raises(SourceError, match="no such file or folder"):
        vital_preparing.prepare("csv", folder / "x", out, centre="mover")
    assert not out.exists()


def test_the_tables_for_people_name_splits_variables_and_what_was_left_out(cohort, tmp_path, median_age):
    made = vital_preparing.prepare_synthetic(cohort, tmp_path / "s", criteria=Criteria(min_age=median_age))
    tables = dict(vital_preparing.describe(made))
    assert list(tables) == ["MOVER-SIS, one row every 60 s", "Recorded", "Left out"]
    assert [row["variable"] for row in tables["Recorded"]] == list(CENTRES["mover"].names)
    assert tables["Left out"][0]["why"] == f"younger than {median_age:g} y"
    sizes = tables["MOVER-SIS, one row every 60 s"]
    assert sum(row["cases"] for row in sizes[1:]) == sizes[0]["cases"] == len(made.store)
