"""Heart rate from beat times: the mean over the beats that end in a step, bad intervals left out."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import SourceError
from wearjax.sources import vital_beats
from wearjax.sources.tally import Tally
from wearjax.vitals import CENTRES

CENTRE = CENTRES["vitaldb"]


def test_a_step_has_the_mean_rate_of_the_beats_that_end_in_it(tmp_path):
    file = tmp_path / "case_0042.csv.gz"
    beats = ["103,N,N,False,", "104,N,N,False,", "104.5,N,N,False,", "106.5,N,N,False,", "107,N,N,True,noise",
             "108,N,N,False,", "109,N,N,,", "119,N,N,False,"]  # fmt: skip
    text = "time_second,beat_type,rhythm_label,bad_signal_quality,bad_signal_quality_label\n"
    file.write_bytes(gzip.compress((text + "\n".join(beats) + "\n").encode()))
    tally = Tally()
    (case,) = vital_beats.read_cases(tmp_path, CENTRE, tally=tally)
    heart = case.values[:, CENTRE.index("Solar8000/HR")]
    # 100..105: 60 and 120; 105..110: 30 and 60, with the bad beat's two intervals left out; then a pause.
    np.testing.assert_allclose(heart, [90, 45, 0, 0])
    assert case.id == "42"
    assert not np.delete(case.values, CENTRE.index("Solar8000/HR"), axis=1).any()
    assert tally.skipped["beat", "bad signal"] == 1
    assert any("Solar8000/HR only" in note for note in tally.notes)


@given(
    st.lists(st.floats(0.1, 4.0), min_size=1, max_size=40),
    st.integers(0, 2**31),
)
def test_steps_agree_with_the_plain_loop(intervals, seed):
    seconds = 7.0 + np.cumsum([0.0, *intervals])
    bad = np.random.default_rng(seed).random(len(seconds)) < 0.2
    found = vital_beats.heart_rate(seconds, bad, step_seconds=5, first=5.0, n_rows=30)
    rates: dict[int, list[float]] = {}
    for i in range(1, len(seconds)):
        rr = seconds[i] - seconds[i - 1]
        if 0.25 <= rr <= 3 and not bad[i] and not bad[i - 1]:
            rates.setdefault(int((seconds[i] - 5.0) // 5), []).append(60 / rr)
    expected = [np.mean(rates[i]) if i in rates else 0 for i in range(30)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_files_that_give_no_rate_are_skipped_and_named(tmp_path):
    (tmp_path / "case_1.csv").write_text("time_second\n1\n")
    (tmp_path / "case_2.csv").write_text("beat\n1\n2\n")
    (tmp_path / "hr_2s.csv").write_text("case\n1\n")
    tally = Tally()
    assert list(vital_beats.read_cases(tmp_path, CENTRE, tally=tally)) == []
    assert tally.skipped["case", "file not readable"] == 2
    assert any("a rate needs two" in note for note in tally.notes)
    assert any("no column time_second" in note for note in tally.notes)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no beat file"):
        list(vital_beats.read_cases(tmp_path / "empty", CENTRE, tally=tally))
