"""VitalDB's open tables: clinical facts, tracks by id, resampling to five seconds, what is left out."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from wearjax.errors import SourceError
from wearjax.sources import vital_clinical, vitaldb_tables
from wearjax.sources.tally import Tally
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import CENTRES

CENTRE = CENTRES["vitaldb"]
CASES = """\
caseid,casestart,caseend,anestart,aneend,opstart,opend,age,sex,height,weight,asa,ane_type,opdur
1,0,9000,-10,60,20,8000,61,F,163,60.8,2,General,133
2,0,9000,5,,20,8000,45,M,170,70,,Spinal,133
3,0,9000,5,90,20,3000,45,M,170,70,1,General,50
10,0,40,,,20,8000,0.5,M,60,7,1,General,133
"""
TRACKS = """\
caseid,tname,tid
1,Solar8000/HR,t-hr
1,BIS/BIS,t-bis
1,SNUADC/ART,t-art
1,Solar8000/ETCO2,t-gone
3,Solar8000/HR,t-hr
10,Solar8000/HR,t-hr
11,Solar8000/HR,t-hr
"""
HR = "Time,Solar8000/HR\n0.5,60\n4.9,61\n5,62\n12,\n13,900\n22,64\n21,63\n59.9,65\n75,99\n"
BIS = "Time,BIS/BIS\n-5,40\n-11,41\n30,45\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "cases.csv").write_text(CASES, encoding="utf-8-sig")
    (tmp_path / "trks.csv").write_text(TRACKS)
    (tmp_path / "tracks").mkdir()
    (tmp_path / "tracks" / "t-hr.csv").write_text(HR)
    (tmp_path / "tracks" / "t-bis.csv.gz").write_bytes(gzip.compress(BIS.encode()))
    return tmp_path


def read(folder, **options):
    tally = Tally()
    return {c.id: c for c in vitaldb_tables.read_cases(folder, CENTRE, tally=tally, **options)}, tally


def test_the_last_sample_of_each_step_counts(folder):
    cases, tally = read(folder)
    values = cases["1"].values
    assert values.shape == (14, 17)  # the anaesthesia, from -10 s to 60 s
    heart = values[:, CENTRE.index("Solar8000/HR")]
    np.testing.assert_array_equal(heart, [0, 0, 61, 62, 0, 0, 64, 0, 0, 0, 0, 0, 0, 65])
    depth = values[:, CENTRE.index("BIS/BIS")]
    np.testing.assert_array_equal(np.flatnonzero(depth), [1, 8])
    np.testing.assert_allclose(values[:, :5], np.tile([61, 0, 60.8, 163, 2], (14, 1)), rtol=1e-6)
    assert tally.skipped["Solar8000/HR", "outside 10 to 300"] == 3  # once in each of three cases
    assert tally.skipped["track", "listed, but its file is not there"] == 1
    assert tally.skipped["track", "not a variable of VitalBench"] == 1
    assert tally.skipped["case", "tracks without a row in the clinical table"] == 1
    assert tally.skipped["case", "no track of a VitalBench variable"] == 1


def test_cases_come_by_number_and_know_what_was_done(folder):
    cases, tally = read(folder)
    assert list(cases) == ["1", "3", "10"]
    assert (cases["1"].general_anaesthesia, cases["1"].start) == (True, None)
    assert cases["1"].surgery_hours == pytest.approx(7980 / 3600)
    assert len(cases["10"].values) == 8  # no anaesthesia times: the recording
    assert tally.skipped["span", "no time of the anaesthesia: whole recording instead (case kept)"] == 1
    recording, _ = read(folder, span="recording")
    assert len(recording["1"].values) == 1800


def test_the_criteria_apply_before_tracks_are_read(folder):
    (folder / "tracks" / "t-hr.csv").write_text("not,a\ntrack,1\n")
    cases, tally = read(folder, criteria=Criteria())
    assert list(cases) == ["1"]
    assert cases["1"].values[:, CENTRE.index("Solar8000/HR")].max() == 0
    assert tally.skipped["case", "not general anaesthesia"] == 1
    assert tally.skipped["case", "surgery shorter than 2 h"] == 1
    assert tally.skipped["case", "younger than 18 y"] == 1
    assert tally.skipped["track", "file not readable"] == 1


def test_missing_tables_are_named(folder):
    (folder / "trks.csv").unlink()
    with pytest.raises(SourceError, match="no list of tracks"):
        read(folder)
    (folder / "cases.csv").unlink()
    with pytest.raises(SourceError, match="no clinical table"):
        read(folder)


def test_a_clinical_table_may_lack_facts(tmp_path):
    file = tmp_path / "clinical_data.csv"
    file.write_text("caseid,opdur,age\n0007,150,30\n,1,1\n")
    tally = Tally()
    patients = vital_clinical.read(file, tally=tally)
    assert list(patients) == ["7"]
    assert patients["7"].facts == vital_clinical.Facts(2.5, 30.0, None, None)
    assert any("lacks sex, ane_type, weight" in note for note in tally.notes)
    assert tally.skipped["case", "no caseid in the clinical table"] == 1
    file.write_text("case,age\n1,2\n")
    with pytest.raises(SourceError, match="no column caseid"):
        vital_clinical.read(file, tally=tally)
