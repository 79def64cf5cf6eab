"""Account archives of Fitbit: clocks, doubled forms, sleep, exercise, and what is left out."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from wearjax.channels import ENERGY, HEART_RATE, INDEX
from wearjax.days import importing
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import fitbit_takeout
from wearjax.sources.tally import Tally

STEPS, DISTANCE = INDEX["watch_steps"], INDEX["watch_distance"]
ASLEEP, INBED = INDEX["sleep_asleep"], INDEX["sleep_inbed"]
ROOT = "Takeout/Fitbit/Global Export Data/"
CSV = "Takeout/Fitbit/Physical Activity_GoogleData/"


def minute_json(*rows):
    return json.dumps([{"dateTime": at, "value": value} for at, value in rows]).encode()


def heart_json(*rows):
    return json.dumps([{"dateTime": t, "value": {"bpm": b, "confidence": c}} for t, b, c in rows]).encode()


def sleep_log(start, end, levels, *, short=(), number=1, kind="stages", **more):
    def rows(items):
        return [{"dateTime": t, "level": level, "seconds": s} for t, level, s in items]

    return {
        "logId": number, "dateOfSleep": end[:10], "startTime": start, "endTime": end, "type": kind,
        "levels": {"data": rows(levels), "shortData": rows(short)}, **more,
    }  # fmt: skip


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name, data if isinstance(data, bytes) else json.dumps(data))
    return path


def read(path, *, zone="Europe/Berlin", intraday="utc", **options):
    tally = Tally()
    found = fitbit_takeout.read_days(path, tally=tally, zone=zone, intraday=intraday, **options)
    return {str(day.date): day for day in found}, tally


def at(day, channel, clock):
    hour, minute = map(int, clock.split(":"))
    return float(day.values[channel, 60 * hour + minute])


def skipped(tally, reason):
    return sum(n for (_, r), n in tally.skipped.items() if reason in r)


@pytest.mark.parametrize(
    ("intraday", "date", "clock"), [("utc", "2024-05-02", "01:30"), ("local", "2024-05-01", "23:30")]
)
def test_minutes_stand_by_the_chosen_clock(tmp_path, intraday, date, clock):
    path = archive(
        tmp_path / "a.zip", {ROOT + "steps-2024-05-01.json": minute_json(("05/01/24 23:30:00", "42"))}
    )
    days, tally = read(path, intraday=intraday)
    assert list(days) == [date]
    assert at(days[date], STEPS, clock) == 42
    assert tally.used["watch_steps"] == 1
    (row,) = tally.channel_rows()
    assert (row["first day"], row["last day"], row["days"]) == (date, date, "1")
    assert any("the wall clock of Europe/Berlin" in note for note in tally.notes)
    assert any("too few steps and nights" in note for note in tally.notes)


def test_the_zone_is_asked_for_and_the_clock_too(tmp_path):
    path = archive(
        tmp_path / "a.zip", {ROOT + "steps-2024-05-01.json": minute_json(("05/01/24 23:30:00", "42"))}
    )
    with pytest.raises(ConfigError, match="zone is needed"):
        read(path, zone=None)
    with pytest.raises(ConfigError, match="known time zone, did you mean 'Europe/Berlin'"):
        read(path, zone="Berlin")
    with pytest.raises(ConfigError, match="utc, local"):
        read(path, intraday="both")
    with pytest.raises(ConfigError, match="intraday is needed"):
        read(path, intraday=None)


def nights(shift_hours, n=6, zone_hours=2):
    """Steps from 08:00 to 22:00 and sleep from 23:00 to 07:00 by local time; steps written `shift_hours` away."""
    steps, logs = [], []
    for d in range(1, n + 1):
        for hour in range(8, 22):
            written = hour + shift_hours
            steps.append((f"05/{d + written // 24:02d}/24 {written % 24:02d}:15:00", "60"))
        night = f"2024-05-{d:02d}T23:00:00.000", f"2024-05-{d + 1:02d}T07:00:00.000"
        logs.append(sleep_log(*night, [(night[0], "light", 8 * 3600)], number=d))
    return {ROOT + "steps-2024-05-01.json": minute_json(*steps), ROOT + "sleep-2024-05-01.json": logs}


def test_steps_in_sleep_tell_a_wrong_clock(tmp_path):
    path = archive(tmp_path / "a.zip", nights(-8) | {})  # 8 hours behind local time, as UTC is in Shanghai
    _, right = read(path, zone="Asia/Shanghai", intraday="utc")
    assert not any("WARNING" in note for note in right.notes)
    assert any("0.0% of the steps fall into sleep" in note for note in right.notes)
    _, wrong = read(path, zone="Asia/Shanghai", intraday="local")
    assert any("WARNING" in note and "fit utc much better than local" in note for note in wrong.notes)
    _, elsewhere = read(path, zone="America/New_York", intraday="utc")
    assert any("WARNING" in note and "+8 h" in note for note in elsewhere.notes)
    with pytest.raises(
        ConfigError,
        match=r"intraday=utc fits the sleep that was recorded: taken as utc, 0\.0% of the steps fall into sleep; "
        r"taken as local, \d",
    ):
        read(path, zone="Asia/Shanghai", intraday=None)
    with pytest.raises(
        ConfigError, match=r"neither fits the sleep that was recorded \(is the zone right\?\)"
    ):
        read(path, zone="America/New_York", intraday=None)
    with pytest.raises(ConfigError, match="both fit the sleep that was recorded"):
        read(archive(tmp_path / "b.zip", nights(0)), zone="UTC", intraday=None)
    with pytest.raises(ConfigError, match="intraday=local fits"):
        read(archive(tmp_path / "c.zip", nights(0)), zone="Asia/Shanghai", intraday=None)


def test_json_and_csv_of_one_day_count_once(tmp_path):
    minutes = [f"{h:02d}:{m:02d}" for h in range(6, 9) for m in range(60)]
    members = {
        ROOT + "steps-2024-05-01.json": minute_json(*((f"05/01/24 {t}:00", "10") for t in minutes)),
        CSV + "steps_2024-05-01.csv": b"timestamp,steps\n"
        + b"".join(f"2024-05-01T{t}:00Z,10\n".encode() for t in minutes[:-1]),
    }
    days, tally = read(archive(tmp_path / "a.zip", members))
    assert np.nansum(days["2024-05-01"].values[STEPS]) == 10 * len(minutes)
    assert tally.skipped["steps (CSV)", "minute: the day was taken from the other form"] == len(minutes) - 1
    only_csv, _ = read(archive(tmp_path / "b.zip", dict(list(members.items())[1:])), intraday=None)
    assert np.nansum(only_csv["2024-05-01"].values[STEPS]) == 10 * (len(minutes) - 1)


def test_overlapping_files_and_a_second_import_give_the_same(tmp_path):
    rows = [("05/01/24 10:00:00", "30"), ("05/01/24 10:01:00", "20")]
    members = {
        ROOT + "steps-2024-05-01.json": minute_json(*rows),
        ROOT + "steps-2024-04-30.json": minute_json(rows[1]),  # a period file that holds a minute of the next
        ROOT + "heart_rate-2024-05-01.json": heart_json(
            ("05/01/24 10:00:05", 60, 2), ("05/01/24 10:00:25", 80, 2)
        ),
        ROOT + "heart_rate-2024-04-30.json": heart_json(("05/01/24 10:00:25", 80, 2)),
    }
    path = archive(tmp_path / "a.zip", members)
    (first, tally), (again, _) = read(path, intraday="local"), read(path, intraday="local")
    day = first["2024-05-01"]
    assert np.nansum(day.values[STEPS]) == 50
    assert at(day, HEART_RATE, "10:00") == pytest.approx(70 / 60)
    assert skipped(tally, "same instant again") == 2
    assert np.array_equal(day.values, again["2024-05-01"].values, equal_nan=True)


def test_units_placeholders_and_bad_values(tmp_path):
    members = {
        ROOT + "distance-2024-05-01.json": minute_json(("05/01/24 10:00:00", "7540")),
        CSV + "distance_2024-05-02.csv": b"timestamp,distance\n2024-05-02T08:00:00Z,12.5\n",
        ROOT + "heart_rate-2024-05-01.json": heart_json(
            ("05/01/24 10:00:05", 70, 0), ("05/01/24 10:01:05", 70, 1), ("05/01/24 10:02:00", 0, 1)
        ),
        ROOT + "steps-2024-05-01.json": minute_json(
            ("05/01/24 10:00:00", ""), ("05/01/24 10:01:00", "NaN"), ("05/01/24 10:02:00", "-4"),
            ("13/01/24 10:03:00", "5"), ("05/01/03 10:03:00", "5"), ("05/01/24 10:04:00", "6"),
        ),
        ROOT + "altitude-2024-05-01.json": minute_json(("05/01/24 10:00:00", "3")),
    }  # fmt: skip
    days, tally = read(archive(tmp_path / "a.zip", members), intraday="local")
    assert at(days["2024-05-01"], DISTANCE, "10:00") == pytest.approx(75.4)
    assert at(days["2024-05-02"], DISTANCE, "10:00") == pytest.approx(12.5)
    heart = days["2024-05-01"].values[HEART_RATE]
    assert np.flatnonzero(~np.isnan(heart)).tolist() == [601]
    assert np.nansum(days["2024-05-01"].values[STEPS]) == 6
    reasons = ("placeholder", "not a heart rate", "not a number", "negative", "no time of day", "before 2007")
    assert [skipped(tally, r) for r in reasons] == [1, 1, 2, 1, 1, 1]
    assert tally.skipped["altitude", "file: no such channel"] == 1


def test_calories_are_active_energy_only_when_asked(tmp_path):
    members = {
        ROOT + "calories-2024-05-01.json": minute_json(
            *((f"05/01/24 10:{m:02d}:00", "1.2") for m in range(30))
        ),
        ROOT + "calories-2024-05-02.json": minute_json(("05/02/24 10:00:00", "5.2")),
        ROOT + "steps-2024-05-01.json": minute_json(("05/01/24 10:00:00", "6")),
    }
    path = archive(tmp_path / "a.zip", members)
    days, tally = read(path, intraday="local")
    assert np.isnan(days["2024-05-01"].values[ENERGY]).all()
    assert skipped(tally, "resting energy included") == 2
    days, tally = read(path, intraday="local", active_energy=True)
    assert at(days["2024-05-02"], ENERGY, "10:00") == pytest.approx(4000)
    assert at(days["2024-05-01"], ENERGY, "10:05") == 0
    assert any("estimate" in note for note in tally.notes)


def test_stages_and_short_wakes(tmp_path):
    start, end = "2024-05-01T23:00:00.000", "2024-05-02T01:00:00.000"
    levels = [
        (start, "light", 1800), ("2024-05-01T23:30:00.000", "wake", 600), ("2024-05-01T23:40:00.000", "deep", 1200),
        ("2024-05-02T00:00:00.000", "rem", 3600), ("2024-05-02T00:10:00.000", "trance", 60),
    ]  # fmt: skip
    logs = [sleep_log(start, end, levels, short=[("2024-05-02T00:30:00.000", "wake", 120)])]
    days, tally = read(archive(tmp_path / "a.zip", {ROOT + "sleep-2024-04-20.json": logs * 2}), intraday=None)
    asleep = np.concatenate([days[d].values[ASLEEP] for d in ("2024-05-01", "2024-05-02")])
    inbed = np.concatenate([days[d].values[INBED] for d in ("2024-05-01", "2024-05-02")])
    assert np.nansum(inbed) == 120
    assert np.nansum(asleep) == 108  # 120 minutes less ten awake and two of a short wake
    assert asleep[23 * 60 + 35] == 0
    assert asleep[1440 + 30] == 0
    assert asleep[1440 + 32] == 1
    assert tally.skipped["sleep", "exact repeat"] == 1
    assert tally.skipped["sleep level", "unknown level or no readable time"] == 1


def test_classic_naps_hand_made_logs_and_logs_without_levels(tmp_path):
    nap = sleep_log(
        "2024-05-01T14:00:00.000", "2024-05-01T15:00:00.000",
        [("2024-05-01T14:00:00.000", "asleep", 1800), ("2024-05-01T14:30:00.000", "restless", 600),
         ("2024-05-01T14:40:00.000", "awake", 1200)], kind="classic",
    )  # fmt: skip
    typed = sleep_log("2024-05-03T14:00:00.000", "2024-05-03T15:00:00.000", [], number=2, logType="manual")
    bare = {"logId": 3, "startTime": "2024-05-02T14:00:00.000", "endTime": "2024-05-02T14:30:00.000"}
    reversed_ = {"logId": 4, "startTime": "2024-05-02T14:00:00.000", "endTime": "2024-05-02T13:30:00.000"}
    path = archive(tmp_path / "a.zip", {ROOT + "sleep-2024-04-20.json": [nap, typed, bare, reversed_]})
    days, tally = read(path, intraday=None)
    assert list(days) == ["2024-05-01", "2024-05-02"]
    assert np.nansum(days["2024-05-01"].values[ASLEEP]) == 30
    assert np.nansum(days["2024-05-02"].values[INBED]) == 30
    assert np.nansum(days["2024-05-02"].values[ASLEEP]) == 0
    for reason in ("entered by hand", "no levels", "ends before it starts"):
        assert skipped(tally, reason) == 1, reason
    days, _ = read(path, intraday=None, restless_is_sleep=True, include_manual=True)
    assert np.nansum(days["2024-05-01"].values[ASLEEP]) == 40
    assert "2024-05-03" in days


@pytest.mark.parametrize(
    ("start", "end", "in_bed"),
    [  # spring: seven hours in bed between 23:00 and 07:00 on the wall; autumn: nine, two of them on the same rows
        ("2024-03-30T23:00:00.000", "2024-03-31T07:00:00.000", 7 * 60),
        ("2024-10-26T23:00:00.000", "2024-10-27T07:00:00.000", 8 * 60),
    ],
)
def test_nights_over_clock_changes(tmp_path, start, end, in_bed):
    path = archive(tmp_path / "a.zip", {ROOT + "sleep-2024-01-01.json": [sleep_log(start, end, [])]})
    days, _ = read(path, intraday=None)
    assert sum(np.nansum(day.values[INBED]) for day in days.values()) == in_bed
    if start.startswith("2024-03"):
        assert np.isnan(days["2024-03-31"].values[INBED, 120:180]).all()


def test_daily_sums_are_kept_over_a_clock_change(tmp_path):
    rows = [(f"10/{26 + h // 24}/24 {h % 24:02d}:{m:02d}:00", "1") for h in range(22, 48) for m in range(60)]
    path = archive(tmp_path / "a.zip", {ROOT + "steps-2024-10-20.json": minute_json(*rows)})
    days, _ = read(path, intraday="utc")
    total = {date: float(np.nansum(day.values[STEPS])) for date, day in days.items()}
    assert total == {"2024-10-27": 1500.0, "2024-10-28": 60.0}
    assert at(days["2024-10-27"], STEPS, "02:10") == 2  # both passages of the repeated hour


def test_exercise(tmp_path):
    logs = [
        {"logId": 1, "activityName": "Run", "startTime": "05/01/24 18:00:00", "duration": 1_800_000},
        {"logId": 1, "activityName": "Run", "startTime": "05/01/24 18:00:00", "duration": 1_800_000},
        {"logId": 2, "activityName": "Swim", "startTime": "05/01/24 20:00:00", "duration": 1_800_000},
        {"logId": 3, "activityName": "With my secret friend", "startTime": "05/01/24 20:00:00", "duration": 60_000},
        {"logId": 4, "activityName": "Yoga", "startTime": "05/01/24 20:00:00", "duration": 60_000, "logType": "manual"},
        {"logId": 5, "activityName": "Yoga", "startTime": "05/01/24 21:00:00", "duration": None},
    ]  # fmt: skip
    members = {
        ROOT + "exercise-0.json": logs,
        ROOT + "steps-2024-05-01.json": minute_json(("05/01/24 10:00:00", "6")),
    }
    days, tally = read(archive(tmp_path / "a.zip", members), intraday="local")
    day = days["2024-05-01"]
    assert np.flatnonzero(day.values[INDEX["workout_running"]] == 1).tolist() == list(range(1080, 1110))
    assert np.nansum(day.values[INDEX["workout_yoga"]]) == 0
    for reason in ("exact repeat", "swim: no such channel", "entered by hand", "no readable time"):
        assert skipped(tally, reason) == 1, reason
    assert "secret" not in str(tally.as_dict())


def test_the_newer_csv_and_its_three_forms_of_time(tmp_path):
    members = {
        CSV + "heart_rate_2024-10-27.csv": b"timestamp,beats per minute,data source\n"
        b"2024-10-27T08:00:04Z,60.0,Fitbit\n2024-10-27T08:00:34Z,70.0,Fitbit\n"
        b"2024-10-27T10:00:04+01:00,80.0,Fitbit\n2024-10-27T11:00:00,90.0,Fitbit\n2024-10-27,99.0,Fitbit\n"
        b"2024-10-27T12:00:00Z,150.0,Phone Health Connect\n",
        CSV + "steps_2024-10-27.csv": b"no data\n",
        CSV + "distance_2024-10-27.csv": b"timestamp,distance\n",
    }
    days, tally = read(archive(tmp_path / "a.zip", members), intraday=None)
    day = days["2024-10-27"]
    assert at(day, HEART_RATE, "09:00") == pytest.approx(65 / 60)
    assert at(day, HEART_RATE, "10:00") == pytest.approx(80 / 60)
    assert at(day, HEART_RATE, "11:00") == pytest.approx(90 / 60)
    assert np.isnan(day.values[STEPS]).all()
    assert skipped(tally, "no time of day") == 1
    assert skipped(tally, "from another app") == 1
    days, _ = read(tmp_path / "a.zip", intraday=None, include_third_party=True)
    assert at(days["2024-10-27"], HEART_RATE, "13:00") == pytest.approx(150 / 60)


def test_silence_and_wear(tmp_path):
    members = {ROOT + "steps-2024-05-01.json": minute_json(
        *((f"05/01/24 {h:02d}:{m:02d}:00", "5" if 9 <= h < 12 else "0") for h in range(24) for m in range(60))
    )}  # fmt: skip
    path = archive(tmp_path / "a.zip", members)
    days, _ = read(path, intraday="local")
    day = days["2024-05-01"]
    assert day.nonwear_minutes == 21 * 60
    for channel in (
        "iphone_steps",
        "watch_hr",
        "watch_distance",
        "watch_energy",
        "sleep_inbed",
        "workout_yoga",
    ):
        assert np.isnan(day.values[INDEX[channel]]).all(), channel
    one = {ROOT + "steps-2024-05-01.json": minute_json(("05/01/24 10:00:00", "6"))}
    path = archive(tmp_path / "b.zip", one)
    assert np.isnan(read(path, absent="missing")[0]["2024-05-01"].values[STEPS]).sum() == 1439
    assert np.isnan(read(path)[0]["2024-05-01"].values[STEPS]).sum() == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'[{"dateTime": "05/01/24', "not whole JSON"),
        (b"{}", "not a list"),
        (b"[" * 100_000, "not whole JSON"),
    ],
)
def test_a_damaged_file(tmp_path, data, said):
    members = {
        ROOT + "steps-2024-05-01.json": data,
        ROOT + "steps-2024-05-02.json": minute_json(("05/02/24 10:00:00", "6")),
    }
    path = archive(tmp_path / "a.zip", members)
    with pytest.raises(SourceError, match=f"{said}.*; keep_partial=True leaves such files out"):
        read(path)
    days, tally = read(path, keep_partial=True)
    assert list(days) == ["2024-05-02"]
    assert said in tally.partial
    assert tally.partial.startswith("steps-2024-05-01.json: ")  # neither the archive nor its folders
    with pytest.raises(SourceError):
        importing.import_days("fitbit-takeout", path, tmp_path / "out", zone="UTC", intraday="utc")
    assert not list(tmp_path.glob("*out*"))


def test_an_archive_without_a_known_file(tmp_path):
    with pytest.raises(SourceError, match="no Fitbit file among 1 file "):
        read(archive(tmp_path / "a.zip", {"Takeout/Fitbit/readme.txt": b"hello"}))


def test_the_import_verb_keeps_no_names(tmp_path):
    members = {
        ROOT + "steps-2024-05-01.json": minute_json(("05/01/24 10:00:00", "6")),
        "Takeout/Fitbit/Your Profile/Profile.csv": b"full_name\nJane Secret\n",
    }
    path = archive(tmp_path / "Secret takeout.zip", members)
    made = importing.import_days("fitbit-takeout", path, tmp_path / "out", zone="UTC", intraday="utc")
    assert len(made.store) == 1
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or b"Secret" not in file.read_bytes()
    assert "1 files of other measures were not read" in made.tally.notes


def test_changed_letters_end_in_a_result_or_one_line(tmp_path):
    members = nights(-2, n=3) | {
        ROOT + "heart_rate-2024-05-01.json": heart_json(
            *((f"05/01/24 10:00:{i:02d}", 60, 2) for i in range(20))
        ),
        CSV + "steps_2024-05-01.csv": b"timestamp,steps,data source\n2024-05-01T11:00:00Z,5,Fitbit\n" * 5,
    }
    members = {
        name: data if isinstance(data, bytes) else json.dumps(data).encode() for name, data in members.items()
    }
    refused = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        changed = {}
        for name, data in members.items():
            letters = bytearray(data)
            for place in rng.integers(0, len(data), 2):
                letters[place] = rng.integers(32, 127)
            changed[name] = bytes(letters)
        try:
            read(archive(tmp_path / "a.zip", changed))
        except SourceError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 25
    assert not any("\n" in line for line in refused)
