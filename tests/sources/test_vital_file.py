"""`.vital` recordings written by the format's own package: tracks of several monitors, gaps, refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from wearjax.errors import ConfigError, SourceError
from wearjax.sources import vital_file
from wearjax.sources.tally import Tally
from wearjax.sources.vital_inclusion import Criteria
from wearjax.vitals import CENTRES

START = 1_500_000_000.0  # 2017-07-14 02:40:00 UTC


def record(path, tracks, *, wave=True):
    """Writes a recording of numeric tracks `{name: [(second, value)]}` and one wave."""
    vitaldb = pytest.importorskip("vitaldb")
    recording = vitaldb.VitalFile()
    for name, samples in tracks.items():
        recording.add_track(name, [{"dt": START + t, "val": float(v)} for t, v in samples])
    if wave:
        recording.add_track("Intellivue/ABP", [{"dt": START, "val": np.full(50, 80, np.float32)}], srate=10)
    times = [START + t for samples in tracks.values() for t, _ in samples]
    recording.dtstart, recording.dtend = min([START, *times]), max(times)
    recording.to_vital(str(path))
    return path


def test_tracks_of_another_monitor_become_variables(tmp_path):
    file = record(
        tmp_path / "12.vital",
        {
            "Intellivue/ECG_HR": [(0, 71), (4, 72), (11, 73)],
            "Intellivue/ABP_MEAN": [(0, -40), (6, 88)],
            "Intellivue/NIBP_MEAN": [(0, 90)],
            "Intellivue/AWAY_CO2_ET": [(2, 35)],
            "BIS/BIS": [(3, 40)],
        },
    )
    centre, tally = CENTRES["vitaldb"], Tally()
    case = vital_file.read_vital(file, centre, tally=tally)
    assert (case.id, str(case.start)) == ("12", "2017-07-14 02:40:00")
    column = {name: case.values[:, i] for i, name in enumerate(centre.names)}
    np.testing.assert_array_equal(column["Solar8000/HR"], [72, 0, 73])
    np.testing.assert_array_equal(column["Solar8000/ART_MBP"], [0, 88, 0])
    np.testing.assert_array_equal(column["Solar8000/ETCO2"], [35, 0, 0])
    np.testing.assert_array_equal(column["BIS/BIS"], [40, 0, 0])
    assert not column["Solar8000/ART_SBP"].any()
    assert tally.skipped["Solar8000/ART_MBP", "outside 10 to 300"] == 1
    assert tally.skipped["Solar8000/ART_SBP", "no value in a recording (0 there)"] == 1
    notes = " ".join(tally.notes)
    assert "Solar8000/HR = Intellivue/ECG_HR" in notes
    assert "tracks not used: Intellivue/NIBP_MEAN" in notes


def test_the_best_track_with_a_value_counts(tmp_path):
    tracks = {
        "Solar8000/HR": [(0, 0)],
        "Intellivue/HR": [(0, 80)],
        "Intellivue/PLETH_HR": [(0, 82), (61, 81)],
    }
    case = vital_file.read_vital(record(tmp_path / "a.vital", tracks), CENTRES["mover"], tally=Tally())
    np.testing.assert_array_equal(case.values[:, CENTRES["mover"].index("HRp")], [80, 0])


def test_a_clinical_table_gives_the_patient(tmp_path):
    for name in ("0001", "0002"):
        record(tmp_path / f"{name}.vital", {"Intellivue/HR": [(0, 80), (6, 81)]}, wave=False)
    (tmp_path / "clinical_data.csv").write_text(
        "caseid,age,sex,weight,height,asa,opdur,ane_type\n2,50,M,70,170,2,150,General\n"
    )
    tally = Tally()
    cases = list(vital_file.read_cases(tmp_path, CENTRES["vitaldb"], tally=tally, criteria=Criteria()))
    assert [case.id for case in cases] == ["0002"]
    np.testing.assert_array_equal(cases[0].values[:, :5], [[50, 1, 70, 170, 2]] * 2)
    assert tally.skipped["case", "length of surgery unknown"] == 1
    assert len(list(vital_file.read_cases(tmp_path, CENTRES["vitaldb"], tally=Tally()))) == 2


def test_files_without_a_known_track_are_refused(tmp_path):
    file = record(tmp_path / "a.vital", {"Solar8000/CVP": [(0, 8), (3, 8)]})
    with pytest.raises(
        SourceError, match=r"a.vital: none of its tracks is a VitalBench variable \(Solar8000/CVP\)"
    ):
        vital_file.read_vital(file, CENTRES["vitaldb"], tally=Tally())
    file.write_bytes(b"not a recording")
    tally = Tally()
    assert list(vital_file.read_cases(file, CENTRES["vitaldb"], tally=tally)) == []
    assert tally.skipped["case", "file not readable"] == 1
    with pytest.raises(SourceError, match=r"no \.vital file"):
        list(vital_file.read_cases(tmp_path / "nothing", CENTRES["vitaldb"], tally=Tally()))


def test_without_the_package_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vitaldb", None)
    (tmp_path / "a.vital").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"wearjax\[vital\]"):
        list(vital_file.read_cases(tmp_path, CENTRES["vitaldb"], tally=Tally()))
