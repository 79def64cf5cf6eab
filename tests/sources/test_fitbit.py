"""Small exports are made here in the published column layout; values are drawn, not recorded."""

from __future__ import annotations

import datetime as dt
import gzip
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.channels import ENERGY, HEART_RATE, INDEX
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import fitbit
from wearjax.sources.tally import Tally

STEPS, ASLEEP, INBED = INDEX["watch_steps"], INDEX["sleep_asleep"], INDEX["sleep_inbed"]
ANNA, BEN = "8877689391", "1503960366"  # beyond 32 bits, as the study's ids are
START = dt.datetime(2016, 4, 13)


def clock(minute, *, seconds=0, style="export"):
    time = START + dt.timedelta(minutes=int(minute), seconds=seconds)
    date = f"{time.month}/{time.day}/{time.year}"
    if style == "spreadsheet":
        return f"{date} {time.hour}:{time.minute:02d}"
    half = "AM" if time.hour < 12 else "PM"
    return f"{date} {time.hour % 12 or 12}:{time.minute:02d}:{time.second:02d} {half}"


def save(folder, name, header, rows):
    text = header + "\n" + "".join(",".join(str(cell) for cell in row) + "\n" for row in rows)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


def wide(folder, steps, *, name="minuteStepsWide_merged.csv.gz", column="Steps", style="export"):
    """`steps` {id: minute values from START}."""
    header = "Id,ActivityHour," + ",".join(f"{column}{i:02d}" for i in range(60))
    rows = [
        [who, clock(hour * 60, style=style), *values[hour * 60 : hour * 60 + 60]]
        for who, values in steps.items()
        for hour in range(len(values) // 60)
    ]
    return save(folder, name, header, rows)


def narrow(folder, steps, *, name="minuteStepsNarrow_merged.csv", style="export"):
    rows = [[who, clock(m, style=style), v] for who, values in steps.items() for m, v in enumerate(values)]
    return save(folder, name, "Id,ActivityMinute,Steps", rows)


def heart(folder, rows, *, style="export", name="heartrate_seconds_merged.csv"):
    """Rows of (id, second since START, bpm)."""
    return save(
        folder,
        name,
        "Id,Time,Value",
        [[w, clock(s // 60, seconds=s % 60, style=style), v] for w, s, v in rows],
    )


def sleep(folder, rows):
    """Rows of (id, minute, value); the log stands at half minutes, as real ones do."""
    rows = [[who, clock(m, seconds=30), value, 11380564589] for who, m, value in rows]
    return save(folder, "minuteSleep_merged.csv", "Id,date,value,logId", rows)


def daily(folder, rows):
    return save(folder, "dailyActivity_merged.csv", "Id,ActivityDate,TotalSteps,TotalDistance", rows)


def walk(days=1, seed=0):
    """Minute steps with a still night."""
    steps = np.random.default_rng(seed).poisson(6, days * 1440)
    steps.reshape(days, 1440)[:, :420] = 0
    return steps


def read(path, **options):
    tally = Tally()
    return list(fitbit.read_days(path, tally=tally, **options)), tally


@pytest.mark.parametrize("writer", [wide, narrow])
@pytest.mark.parametrize("style", ["export", "spreadsheet"])
def test_steps_of_both_forms_and_date_styles(tmp_path, writer, style):
    anna, ben = walk(2), walk(1, seed=1)
    writer(tmp_path, {ANNA: anna, BEN: ben}, style=style)
    days, tally = read(tmp_path)
    assert [(d.participant, d.date.isoformat()) for d in days] == [
        (BEN, "2016-04-13"), (ANNA, "2016-04-13"), (ANNA, "2016-04-14"),
    ]  # fmt: skip
    np.testing.assert_array_equal(days[0].values[STEPS], ben)
    np.testing.assert_array_equal(np.concatenate([d.values[STEPS] for d in days[1:]]), anna)
    assert tally.used == {"watch_steps": 3 * 1440}
    others = np.delete(days[0].values, STEPS, axis=0)
    assert np.isnan(others).all()
    assert days[0].source == "fitbit"


def test_two_date_styles_in_one_file(tmp_path):
    steps = walk()
    rows = [[BEN, clock(m, style="export" if m % 7 else "spreadsheet"), v] for m, v in enumerate(steps)]
    save(tmp_path, "minuteStepsNarrow_merged.csv", "Id,ActivityMinute,Steps", rows)
    np.testing.assert_array_equal(read(tmp_path)[0][0].values[STEPS], steps)


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_daily_totals_are_kept(tmp_path_factory, seed, days):
    folder = tmp_path_factory.mktemp("export")
    steps = {BEN: walk(days, seed)[: days * 1440 - 60 * (seed % 5)]}
    wide(folder, steps)
    totals = [int(steps[BEN][i * 1440 : (i + 1) * 1440].sum()) for i in range(days)]
    daily(folder, [[BEN, f"4/{13 + i}/2016", total, 1.5] for i, total in enumerate(totals)])
    read_days, _ = read(folder)
    assert [d.values[STEPS].sum(dtype=np.float64) for d in read_days] == totals


def store_of(days):
    """The three members of a day store that the comparison needs."""
    return SimpleNamespace(
        participants=[d.participant for d in days],
        dates=[d.date.isoformat() for d in days],
        values=lambda i: days[i].values,
    )


def test_check_daily_totals_counts_each_kind_of_day(tmp_path):
    steps = walk(5)[: 4 * 1440 + 600]
    wide(tmp_path, {BEN: steps})
    totals = steps[: 4 * 1440].reshape(4, 1440).sum(axis=1)
    rows = [
        [BEN, "4/13/2016", totals[0], 0],
        [BEN, "4/14/2016", totals[1] + 9, 0],
        [BEN, "4/15/2016", totals[2], 0],
    ]
    daily(tmp_path, [*rows, [BEN, "4/17/2016", 4000, 0], [ANNA, "4/13/2016", 10, 0]])
    days, _ = read(tmp_path)
    days[2].values[STEPS, 700] += 1  # an importer's fault
    assert fitbit.check_daily_totals(tmp_path, store_of(days)) == {
        "equal": 1,
        "export disagrees with itself": 1,
        "different": 1,
        "incomplete": 1,
        "not imported": 1,
        "not in the daily file": 1,
    }


def test_check_daily_totals_says_what_is_lacking(tmp_path):
    wide(tmp_path, {BEN: walk()})
    with pytest.raises(SourceError, match="no dailyActivity file"):
        fitbit.check_daily_totals(tmp_path, store_of([]))
    heart(tmp_path / "b", [(BEN, 5, 60)])
    daily(tmp_path / "b", [])
    with pytest.raises(SourceError, match="no minuteSteps file"):
        fitbit.check_daily_totals(tmp_path / "b", store_of([]))


def test_heart_rate_is_the_mean_of_the_minute_in_beats_per_second(tmp_path):
    wide(tmp_path, {BEN: walk()})
    heart(tmp_path, [(BEN, 600 * 60 + 5, 60), (BEN, 600 * 60 + 20, 90), (BEN, 601 * 60, 120)])
    (day,), tally = read(tmp_path)
    expected = np.full(1440, np.nan, np.float32)
    expected[[600, 601]] = 75 / 60, 2
    np.testing.assert_array_equal(day.values[HEART_RATE], expected)
    assert tally.used["watch_hr"] == 2


def test_exact_duplicates_are_counted_and_do_not_weigh(tmp_path):
    steps = walk()
    file = wide(tmp_path, {BEN: steps})
    text = gzip.decompress(file.read_bytes()).decode()
    lines = text.splitlines(keepends=True)
    file.write_bytes(gzip.compress((text + lines[9] + lines[12]).encode()))
    rows = [(BEN, 60, 60), (BEN, 70, 90)]
    heart(tmp_path, [*rows, rows[0], rows[0]])
    (day,), tally = read(tmp_path)
    np.testing.assert_array_equal(day.values[STEPS], steps)
    assert day.values[HEART_RATE, 1] == np.float32(75 / 60)
    assert tally.skipped["minuteStepsWide", "exact duplicate row"] == 2
    assert tally.skipped["heartrate_seconds", "exact duplicate row"] == 2


def test_equal_heart_rates_of_a_file_without_seconds_are_samples(tmp_path):
    heart(tmp_path, [(BEN, 60, 60), (BEN, 70, 60), (BEN, 80, 90)], style="spreadsheet")
    (day,), tally = read(tmp_path)
    assert day.values[HEART_RATE, 1] == np.float32(70 / 60)
    assert not tally.skipped


def test_overlapping_exports_keep_the_larger_minute(tmp_path):
    whole = walk()
    partial = whole.copy()
    partial[900:] = 0
    wide(tmp_path / "first", {BEN: partial})
    wide(tmp_path / "second", {BEN: whole})
    (day,), tally = read(tmp_path)
    np.testing.assert_array_equal(day.values[STEPS], whole)
    repeats = tally.skipped["minuteStepsWide", "exact duplicate row"] * 60
    repeats += tally.skipped["steps", "minute recorded twice (the larger value is kept)"]
    assert repeats == 1440


def test_folders_of_different_forms_are_joined(tmp_path):
    steps = walk(2)
    wide(tmp_path / "first", {BEN: steps[:1440]})
    rows = [[BEN, clock(m), steps[m]] for m in range(1380, 2880)]  # an hour in both
    save(tmp_path / "second", "minuteStepsNarrow_merged.csv", "Id,ActivityMinute,Steps", rows)
    days, tally = read(tmp_path)
    np.testing.assert_array_equal(np.concatenate([d.values[STEPS] for d in days]), steps)
    assert tally.skipped == {("steps", "minute recorded twice (the larger value is kept)"): 60}


def test_wide_and_narrow_of_one_measure_are_not_added(tmp_path):
    steps = walk(2)
    wide(tmp_path, {BEN: steps[1440:]})
    narrow(tmp_path, {BEN: steps})
    days, tally = read(tmp_path)
    np.testing.assert_array_equal(np.concatenate([d.values[STEPS] for d in days]), steps)
    assert tally.skipped["minuteStepsWide", "same measure as minuteStepsNarrow"] == 24


@pytest.mark.parametrize(("option", "asleep"), [({}, [1, 0, 0]), ({"restless_is_sleep": True}, [1, 1, 0])])
def test_sleep_log(tmp_path, option, asleep):
    wide(tmp_path, {BEN: walk()})
    sleep(tmp_path, [(BEN, 100, 1), (BEN, 101, 2), (BEN, 102, 3), (BEN, 102, 3), (BEN, 103, 9)])
    (day,), tally = read(tmp_path, **option)
    inbed = np.zeros(1440)
    inbed[100:103] = 1
    np.testing.assert_array_equal(day.values[INBED], inbed)
    np.testing.assert_array_equal(day.values[ASLEEP, 100:103], asleep)
    assert day.values[ASLEEP].sum() == sum(asleep)
    assert tally.skipped["minuteSleep", "unknown sleep value"] == 1


def test_a_night_over_midnight_falls_on_both_days(tmp_path):
    wide(tmp_path, {BEN: walk(2)})
    sleep(tmp_path, [(BEN, m, 1) for m in range(1400, 1500)])
    days, _ = read(tmp_path)
    assert [d.values[ASLEEP].sum() for d in days] == [40, 60]


def test_the_report_counts_days_with_recordings(tmp_path):
    wide(tmp_path, {ANNA: walk(2), BEN: walk(1)})
    heart(tmp_path, [(ANNA, 86_400 + 600, 70)])
    _, tally = read(tmp_path)
    rows = {row["channel"]: (row["first day"], row["last day"], row["days"]) for row in tally.channel_rows()}
    assert rows == {
        "watch_steps": ("2016-04-13", "2016-04-14", "3"), "watch_hr": ("2016-04-14", "2016-04-14", "1"),
    }  # fmt: skip


def test_absent_records(tmp_path):
    steps = walk(3)[: 2 * 1440 + 600]
    narrow(tmp_path, {BEN: steps})
    sleep(tmp_path, [(BEN, m, 1) for m in range(30, 60)])
    filled, _ = read(tmp_path)
    bare, _ = read(tmp_path, absent="missing")
    assert (filled[2].values[STEPS, 600:] == 0).all()
    assert np.isnan(bare[2].values[STEPS, 600:]).all()
    assert (filled[0].values[INBED, 60:] == 0).all()
    assert np.isnan(bare[0].values[INBED, 60:]).all()
    assert np.isnan(filled[1].values[INBED]).all()  # no log touches the second day
    assert filled[2].nonwear_minutes == bare[2].nonwear_minutes
    with pytest.raises(ConfigError, match="absent='never'"):
        read(tmp_path, absent="never")


def test_wear_is_told_from_movement_heart_rate_and_sleep(tmp_path):
    steps = np.ones(1440, int)
    steps[100:189] = 0  # 89 still minutes: worn
    steps[300:390] = 0  # 90: not worn
    steps[500:700] = 0  # split by a heart rate
    steps[800:1000] = 0  # covered by a sleep log
    steps[1100:1300] = 0  # an activity without steps
    wide(tmp_path, {BEN: steps})
    assert read(tmp_path)[0][0].nonwear_minutes == 90 + 600
    heart(tmp_path, [(BEN, 585 * 60, 60)])
    assert read(tmp_path)[0][0].nonwear_minutes == 90 + 400 + 114
    sleep(tmp_path, [(BEN, m, 2) for m in range(800, 1000)])
    assert read(tmp_path)[0][0].nonwear_minutes == 90 + 200 + 114
    intensity = np.zeros(1440, int)
    intensity[1101:1300:80] = 1
    wide(tmp_path, {BEN: intensity}, name="minuteIntensitiesWide_merged.csv", column="Intensity")
    (day,), tally = read(tmp_path)
    assert day.nonwear_minutes == 90 + 114
    assert tally.skipped["minuteIntensities", "no channel (used to tell wear)"] == 1440


def test_a_still_run_goes_on_over_midnight_and_unrecorded_minutes_are_not_worn(tmp_path):
    steps = np.ones(3 * 1440, int)[: 2 * 1440 + 60]
    steps[1400:1500] = 0
    narrow(tmp_path, {BEN: steps})
    days, _ = read(tmp_path)
    assert [d.nonwear_minutes for d in days] == [40, 60, 1380]


def test_calories_are_left_out_unless_asked(tmp_path):
    wide(tmp_path, {BEN: walk()})
    kcal = np.full(1440, 0.75)
    kcal[600:660] = 4.25
    wide(tmp_path, {BEN: kcal}, name="minuteCaloriesWide_merged.csv", column="Calories")
    (day,), tally = read(tmp_path)
    assert np.isnan(day.values[ENERGY]).all()
    assert sum(n for (measure, _), n in tally.skipped.items() if measure == "minuteCalories") == 1440
    (day,), tally = read(tmp_path, active_energy=True)
    np.testing.assert_array_equal(np.unique(day.values[ENERGY]), [0, 3500])
    assert tally.used["watch_energy"] == 1440
    assert any("estimate" in note for note in tally.notes)


def test_bad_values_are_counted(tmp_path):
    file = save(
        tmp_path, "minuteStepsNarrow_merged.csv", "Id,ActivityMinute,Steps",
        [[BEN, clock(0), 5], [BEN, clock(1), -3], [BEN, clock(2), ""]],
    )  # fmt: skip
    heart(tmp_path, [(BEN, 5, 0), (BEN, 10, 400), (BEN, 15, 66)])
    (day,), tally = read(tmp_path, absent="missing")
    assert np.sum(~np.isnan(day.values)) == 2
    assert tally.skipped == {
        ("minuteStepsNarrow", "blank cell"): 1,
        ("minuteStepsNarrow", "negative value"): 1,
        ("heartrate_seconds", "outside 0..300 bpm"): 2,
    }
    file.write_text("Id,ActivityMinute,Steps\n")
    assert len(read(tmp_path)[0]) == 1


@pytest.mark.parametrize("damaged", ["1.50E+09", "8.88e9", "2E+10"])
def test_ids_damaged_by_a_spreadsheet_are_refused(tmp_path, damaged):
    narrow(tmp_path, {damaged: walk()[:5]})
    with pytest.raises(SourceError, match=r"minuteStepsNarrow.*was rounded by a spreadsheet"):
        read(tmp_path)


def test_hourly_and_daily_files_alone_are_refused(tmp_path):
    save(tmp_path, "hourlySteps_merged.csv", "Id,ActivityHour,StepTotal", [[BEN, clock(0), 5]])
    daily(tmp_path, [[BEN, "4/13/2016", 5, 0]])
    with pytest.raises(SourceError, match=r"minute files are needed .* it holds dailyActivity"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no CSV file"):
        read(tmp_path / "empty")


def test_hourly_files_beside_minute_files_are_noted(tmp_path):
    wide(tmp_path, {BEN: walk()})
    save(tmp_path, "hourlySteps_merged.csv", "Id,ActivityHour,StepTotal", [[BEN, clock(0), 5]])
    assert any("hourlySteps_merged.csv" in note for note in read(tmp_path)[1].notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Id,ActivityMinute,Steps\n1,13/4/2016 0:00,5\n", "time '13/4/2016 0:00' is not month/day/year"),
        ("Id,ActivityMinute,Steps\n1,,5\n", "time '' is not"),
        ("Id,ActivityMinute,Steps\n1,4/13/2016 0:00,five\n", "invalid value 'five'"),
        ("Id,ActivityMinute,Steps\n1,4/13/2016 0:00\n", "Expected 3 columns"),
        ("Id,ActivityMinute,Steps\n,4/13/2016 0:00,5\n", "a row has no Id"),
        ("Id,Time,Steps\n1,4/13/2016 0:00,5\n", "no column 'activityminute'; found id, time, steps"),
        ("", "no column"),
    ],
)
def test_unusable_files_are_named_in_one_line(tmp_path, text, message):
    (tmp_path / "minuteStepsNarrow_merged.csv").write_text(text)
    with pytest.raises(SourceError, match=message) as caught:
        read(tmp_path)
    assert "minuteStepsNarrow_merged.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truncated_gzip_is_named(tmp_path):
    file = wide(tmp_path, {BEN: walk(4)})
    file.write_bytes(file.read_bytes()[:800])
    with pytest.raises(SourceError, match=r"minuteStepsWide_merged\.csv\.gz"):
        read(tmp_path)


def test_spreadsheet_byte_order_mark_and_line_ends(tmp_path):
    file = narrow(tmp_path, {BEN: walk()})
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    np.testing.assert_array_equal(read(tmp_path)[0][0].values[STEPS], walk())


def test_progress_reaches_the_total(tmp_path):
    wide(tmp_path, {BEN: walk()})
    narrow(tmp_path / "other", {ANNA: walk()})
    steps = []
    read(tmp_path, progress=lambda done, total: steps.append((done, total)))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1][0] == steps[-1][1]
