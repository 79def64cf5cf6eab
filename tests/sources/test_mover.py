"""MOVER's SIS tables, made by hand: odd names, mixed times, boluses and infusions, artefacts, exclusions."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from wearjax.errors import SourceError
from wearjax.sources import mover
from wearjax.sources.tally import Tally
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import CENTRES

CENTRE = CENTRES["mover"]
TABLES = {
    "information": """\
PID,Age,Ht,Wt,Gender,OR_start,OR_end,Surgery_start,Surgery_end,Procedure
b1,60,183,113,M,2/15/18 12:13,2/15/18 12:20,2/15/18 10:00,2/15/18 12:18,x
a2,40,160,\\N,F,2018-02-15 12:13:00,2018-02-15 12:16:30,2/15/18 12:14,2/15/18 12:16,x
c3,5,100,20,F,2/14/18 9:00,2/14/18 8:00,\\N,\\N,x
b1,60,183,113,M,2/15/18 12:13,2/15/18 12:20,2/15/18 10:00,2/15/18 12:18,x
d4,50,170,70,M,1/1/18 8:00,1/1/18 8:03,\\N,\\N,x
""",
    "vitals": """\
PID,Obs_time,HRe,HRp,nSBP,nMAP,nDBP,SP02
b1,2018-02-15 12:13:40,1,71,\\N,\\N,\\N,99
b1,2018-02-15 12:13:20,1,70,\\N,\\N,\\N,98
b1,2018-02-15 12:15:00,1,\\N,,,,97
b1,2018-02-15 12:20:00,1,75,,,,97
b1,2018-02-15 12:12:59,1,75,,,,97
z9,2018-02-15 12:13:00,1,75,,,,97
a2,2/15/18 12:14,1,66,,,,
""",
    "observations": """\
PID,Obs_time,SVV,Temp,SBP_ART,MAP_ART,DBP_ART,CVPm
b1,2018-02-15 12:14:00,3,36.5,120,-319,60,5
b1,2018-02-15 12:16:00,3,bad,121,80,349,5
""",
    "ventilator": """\
PID,Obs_time,Agent,Agent_Fi,Agent_Et,ETC02,TV,RR,PEEP,PIP,FI02,ET02
b1,2018-02-15 12:14:00,S,2.1,1.9,35,480,12,5,20,50,45
b1,2018-02-15 12:15:00,\\N,,,36,,,,,,
a2,2018-02-15 12:14:00,D,6,5,35,,,,,,
""",
    "medication": """\
PID,Start_time,End_time,Dose,Drug_name,Drug_units
b1,2/15/18 12:14,\\N,150,Fentanyl,mcg
b1,2/15/18 12:14,,50,Fentanyl,mcg
b1,2/15/18 12:12,2/15/18 12:16,8000,Propofol  drip,mcg
b1,2/15/18 12:15,,0.1,Fentanyl,mg
b1,2/15/18 12:15,,3,Phenylephrine,units
b1,2/15/18 12:15,,20,Rocuronium,mg
b1,2/15/18 11:00,,4,Ondansetron,mg
b1,2/15/18 12:15,,\\N,Midazolam,mg
""",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in TABLES.items():
        (tmp_path / f"patient_{name}.csv").write_text(text)
    return tmp_path


def read(folder, **options):
    tally = Tally()
    return {case.id: case for case in mover.read_cases(folder, CENTRE, tally=tally, **options)}, tally


def column(case, name):
    return case.values[:, CENTRE.index(name)]


def test_minutes_of_the_stay_in_the_room(folder):
    cases, tally = read(folder)
    assert list(cases) == ["a2", "b1"]  # by start, then id
    case = cases["b1"]
    assert (len(case.values), case.start) == (7, dt.datetime(2018, 2, 15, 12, 13))
    assert case.surgery_hours == pytest.approx(2.3)
    assert case.general_anaesthesia
    assert len(cases["a2"].values) == 4
    np.testing.assert_array_equal(column(case, "HRp"), [71, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(column(case, "SpO2"), [99, 0, 97, 0, 0, 0, 0])
    np.testing.assert_array_equal(column(cases["a2"], "HRp"), [0, 66, 0, 0])
    np.testing.assert_array_equal(case.values[:, :4], [[60, 1, 113, 183]] * 7)
    np.testing.assert_array_equal(cases["a2"].values[0, :4], [40, 0, 0, 160])
    assert tally.skipped["patient_vitals row", "of a surgery that is not read"] == 1
    assert tally.skipped["patient_vitals row", "before or after the surgery"] == 2
    assert tally.skipped["case", "PID given twice (first row kept)"] == 1
    assert tally.skipped["case", "no usable start and end"] == 1
    assert tally.skipped["case", "no value of a VitalBench variable"] == 1


def test_artefacts_are_left_out_and_counted(folder):
    cases, tally = read(folder)
    case = cases["b1"]
    np.testing.assert_array_equal(column(case, "MAP_ART")[:5], [0, 0, 0, 80, 0])
    np.testing.assert_array_equal(column(case, "DBP_ART")[:5], [0, 60, 0, 0, 0])
    np.testing.assert_allclose(column(case, "Temp")[:3], [0, 36.5, 0])
    assert tally.skipped["MAP_ART", "outside 10 to 300"] == 1
    assert tally.skipped["DBP_ART", "outside 5 to 250"] == 1
    assert tally.skipped["Temp", "not a number"] == 1


def test_the_agent_becomes_indicators(folder):
    case = read(folder)[0]["b1"]
    np.testing.assert_array_equal(column(case, "Agent_S"), [0, 1, 0, 0, 0, 0, 0])
    assert not column(case, "Agent_D").any()
    np.testing.assert_allclose(column(case, "Agent_Fi")[1], 2.1)
    np.testing.assert_array_equal(column(case, "ETCO2")[:4], [0, 35, 36, 0])


def test_boluses_and_infusions_are_amounts_of_each_minute(folder):
    cases, tally = read(folder)
    case = cases["b1"]
    np.testing.assert_allclose(column(case, "Fentanyl")[:4], [0, 200, 100, 0])
    np.testing.assert_allclose(column(case, "Propofol")[:5], [2, 2, 2, 0, 0])  # 8 mg over 4 min, 3 within
    assert not column(case, "Phenylephrine").any()
    assert tally.skipped["dose", "unit does not fit the drug"] == 1
    assert tally.skipped["dose", "drug not a variable of VitalBench"] == 1
    assert tally.skipped["dose", "before or after the surgery"] == 1
    assert tally.skipped["dose", "no amount"] == 1


def test_doses_since_the_start(folder):
    case = read(folder, doses="cumulative")[0]["b1"]
    np.testing.assert_allclose(column(case, "Fentanyl"), [0, 200, 300, 300, 300, 300, 300])
    np.testing.assert_allclose(column(case, "Propofol"), [2, 4, 6, 6, 6, 6, 6])


def test_the_criteria_apply_before_anything_is_placed(folder):
    cases, tally = read(folder, criteria=Criteria())
    assert list(cases) == ["b1"]
    assert tally.skipped["case", "surgery shorter than 2 h"] == 1
    assert tally.skipped["case", "length of surgery unknown"] == 2
    nobody, _ = read(folder, criteria=Criteria(min_age=90))
    assert nobody == {}


def test_the_span_of_the_surgery(folder):
    case = read(folder, span="surgery")[0]["b1"]
    assert (len(case.values), case.start) == (138, dt.datetime(2018, 2, 15, 10, 0))


def test_the_folder_of_the_archive_is_found_and_missing_tables_are_named(folder):
    inner = folder / "EMR"
    inner.mkdir()
    for name in TABLES:
        (folder / f"patient_{name}.csv").rename(inner / f"patient_{name}.csv")
    (inner / "patient_labs.csv").write_text("PID\n")
    cases, tally = read(folder)
    assert list(cases) == ["a2", "b1"]
    assert any("patient_labs" in note for note in tally.notes)
    (inner / "patient_vitals.csv").unlink()
    with pytest.raises(SourceError, match=r"lacks patient_vitals.csv"):
        read(folder)
