from __future__ import annotations

import datetime as dt
import gzip

import numpy as np
import pytest

from wearjax.channels import ENERGY, INDEX
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import actigraphy
from wearjax.sources.tally import Tally

STEPS = INDEX["watch_steps"]
START = dt.datetime(2003, 3, 18, 15, 0)


def counts(n, seed=0):
    return np.random.default_rng(seed).poisson(120, n) + 1


def table(folder, name, values, *, start=START, step=60):
    rows = [
        f"{start + dt.timedelta(seconds=step * i)},{(start + dt.timedelta(seconds=step * i)).date()},{v}"
        for i, v in enumerate(values)
    ]
    return save(folder / name, ["timestamp,date,activity", *rows])


def save(file, lines):
    text = "".join(line + "\n" for line in lines).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text) if file.name.endswith(".gz") else text)
    return file


def awd(file, values, *, date="18-Mar-2003", time="15:00", code=" 4 "):
    return save(file, [file.name.split(".")[0], date, time, code, "35", "V000000", "X", *map(str, values)])


def nhanes(file, seqn, weekdays, values):
    rows = [
        f"{seqn},{weekday},{values[i * 1440 + m]},{m}"
        for i, weekday in enumerate(weekdays)
        for m in range(1440)
    ]
    return save(file, ["seqn,paxday,paxinten,minute", *rows])


def read(path, **options):
    tally = Tally()
    return list(actigraphy.read_days(path, tally=tally, **options)), tally


def whole(days, channel=STEPS):
    return np.concatenate([d.values[channel] for d in days])


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".AWD", ".AWD.gz"])
def test_counts_start_at_their_minute_and_are_scaled(tmp_path, suffix):
    values = counts(1500)
    file = tmp_path / f"person_01{suffix}"
    table(tmp_path, file.name, values) if ".csv" in suffix else awd(file, values)
    days, tally = read(file)
    assert [(d.participant, d.date.isoformat()) for d in days] == [
        ("person_01", "2003-03-18"), ("person_01", "2003-03-19"),
    ]  # fmt: skip
    line = whole(days)
    np.testing.assert_array_equal(line[900:2400], (values / 20).astype(np.float32))
    assert (line[:900] == 0).all()
    assert (line[2400:] == 0).all()
    assert [d.nonwear_minutes for d in days] == [900, 480]
    assert tally.used == {"watch_steps": 1500}
    (row,) = tally.channel_rows()
    assert (row["first day"], row["last day"], row["days"]) == ("2003-03-18", "2003-03-19", "2")
    assert np.isnan(np.delete(days[0].values, STEPS, axis=0)).all()


def test_the_note_says_that_counts_are_a_proxy(tmp_path):
    table(tmp_path, "a.csv", counts(10))
    assert any("proxy" in note and "20 counts a unit" in note for note in read(tmp_path)[1].notes)


def test_channel_and_scale_options(tmp_path):
    values = counts(100)
    table(tmp_path, "a.csv", values)
    (day,), _ = read(tmp_path, channel="watch_energy")
    np.testing.assert_array_equal(day.values[ENERGY, 900:1000], values.astype(np.float32))
    (day,), _ = read(tmp_path, counts_per_unit=8.0)
    np.testing.assert_array_equal(day.values[STEPS, 900:1000], values.astype(np.float32) / 8)
    with pytest.raises(ConfigError, match="'watch_hr' cannot carry"):
        read(tmp_path, channel="watch_hr")
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="positive"):
            read(tmp_path, counts_per_unit=wrong)


def test_absent_missing_keeps_unrecorded_minutes(tmp_path):
    table(tmp_path, "a.csv", counts(100))
    (day,), _ = read(tmp_path, absent="missing")
    assert np.isnan(day.values[STEPS, :900]).all()
    assert np.sum(~np.isnan(day.values)) == 100
    with pytest.raises(ConfigError, match="absent"):
        read(tmp_path, absent="perhaps")


def test_long_zero_runs_are_not_worn(tmp_path):
    values = counts(1440)
    values[100:189] = 0
    values[300:390] = 0
    values[1000:1001] = 0
    table(tmp_path, "a.csv", values, start=dt.datetime(2003, 3, 18))
    assert read(tmp_path)[0][0].nonwear_minutes == 90


def test_unrecorded_time_is_not_worn_and_joins_zero_runs(tmp_path):
    values = counts(600)
    values[:50] = 0  # 50 zeros after 900 unrecorded minutes: one run
    table(tmp_path, "a.csv", values)
    days, _ = read(tmp_path)
    assert [d.nonwear_minutes for d in days] == [950, 1380]


def test_participants_of_a_folder_come_in_order(tmp_path):
    table(tmp_path, "b.csv", counts(50))
    awd(tmp_path / "c.AWD", counts(50))
    table(tmp_path, "a.csv.gz", counts(50))
    (tmp_path / "README.md").write_text("# notes")
    save(tmp_path / "scores.csv", ["number,age", "1,35"])
    steps = []
    days, tally = read(tmp_path, progress=lambda done, total: steps.append(done / total))
    assert [d.participant for d in days] == ["a", "b", "c"]
    assert any("scores.csv" in note for note in tally.notes)
    assert steps[-1] == 1
    assert len(steps) == 3


def test_two_files_of_one_participant_are_refused(tmp_path):
    table(tmp_path, "a.csv", counts(50))
    table(tmp_path, "a.csv.gz", counts(50))
    with pytest.raises(SourceError, match="participant a was already read from"):
        read(tmp_path)


def test_gaps_duplicates_and_blanks_are_counted(tmp_path):
    file = table(tmp_path, "a.csv", [40, 60, 80, 100])
    lines = file.read_text().splitlines()
    lines[2] = lines[2].replace(",60", ",")
    lines[3] = lines[3].replace(",80", ",-1")
    save(file, [*lines, lines[4], lines[4].replace(",100", ",20"), "2003-03-18 18:00:00,2003-03-18,160"])
    (day,), tally = read(tmp_path, absent="missing")
    recorded = np.flatnonzero(~np.isnan(day.values[STEPS]))
    assert recorded.tolist() == [900, 903, 1080]
    assert day.values[STEPS, recorded].tolist() == [2, 5, 8]
    assert tally.skipped == {
        ("activity counts", "blank or negative"): 2,
        ("activity counts", "minute recorded twice (the larger count is kept)"): 2,
    }


def test_a_day_without_any_record_is_not_made(tmp_path):
    file = table(tmp_path, "a.csv", counts(5))
    save(file, [*file.read_text().splitlines(), "2003-03-25 10:00:00,2003-03-25,9"])
    assert [d.date.day for d in read(tmp_path)[0]] == [18, 25]


def test_awd_markers_are_counted_and_the_count_is_kept(tmp_path):
    awd(tmp_path / "a.AWD", ["100", "71 M", "144M", " 20 "])
    (day,), tally = read(tmp_path)
    np.testing.assert_allclose(day.values[STEPS, 900:904] * 20, [100, 71, 144, 20])
    assert tally.skipped == {("AWD marker", "event mark beside a count (the count is kept)"): 2}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": "2"}, "epoch code '2'; only 4"),
        ({"date": "18-03-2003"}, "dd-Mon-yyyy and hh:mm, found '18-03-2003'"),
        ({"date": "18-Mrz-2003"}, "dd-Mon-yyyy"),
        ({"date": "31-Feb-2003"}, "dd-Mon-yyyy"),
        ({"time": "3 pm"}, "hh:mm"),
        ({"time": "25:00"}, "hh:mm"),
    ],
)
def test_awd_headers_that_cannot_be_read_are_named(tmp_path, change, message):
    file = awd(tmp_path / "a.AWD", [1, 2, 3], **change)
    with pytest.raises(SourceError, match=message) as caught:
        read(file)
    assert "a.AWD" in str(caught.value)


def test_awd_damage_is_named(tmp_path):
    with pytest.raises(SourceError, match="line 9 is 'x'"):
        read(awd(tmp_path / "a.AWD", [1, "x", 3]))
    with pytest.raises(SourceError, match="7 lines; an AWD file"):
        read(awd(tmp_path / "b.AWD", []))
    file = awd(tmp_path / "c.AWD.gz", counts(500))
    file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(SourceError, match=r"c\.AWD\.gz: not readable"):
        read(file)


def test_nhanes_days_follow_the_weekday(tmp_path):
    values = counts(3 * 1440)
    nhanes(tmp_path / "x.csv.gz", 21005, [7, 1, 3], values)  # Saturday, Sunday, Tuesday
    days, tally = read(tmp_path)
    assert {d.participant for d in days} == {"21005"}
    assert [d.date.strftime("%a") for d in days] == ["Sat", "Sun", "Tue"]
    assert [(d.date - days[0].date).days for d in days] == [0, 1, 3]
    np.testing.assert_array_equal(whole(days), (values / 20).astype(np.float32))
    assert any("no dates" in note for note in tally.notes)


@pytest.mark.parametrize(
    ("row", "message"), [("1,8,5,0", "paxday"), ("1,,5,0", "paxday"), ("1,2,5,1440", "minute outside")]
)
def test_nhanes_damage_is_named(tmp_path, row, message):
    save(tmp_path / "x.csv", ["seqn,paxday,paxinten,minute", row])
    with pytest.raises(SourceError, match=message):
        read(tmp_path)


def test_other_epochs_and_other_tables_are_refused(tmp_path):
    with pytest.raises(SourceError, match="rows are 30 s apart, expected one a minute"):
        read(table(tmp_path, "a.csv", counts(100), step=30))
    file = save(tmp_path / "b" / "scores.csv", ["number,age", "1,35"])
    with pytest.raises(SourceError, match=r"expected columns timestamp and activity .* found number, age"):
        read(file)
    with pytest.raises(SourceError, match=r"no actigraphy file .* it holds scores\.csv"):
        read(tmp_path / "b")
    with pytest.raises(SourceError, match="not month/day/year"):
        read(save(tmp_path / "c.csv", ["timestamp,activity", "18.03.2003 15:00,3"]))
