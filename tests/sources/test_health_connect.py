"""Health Connect databases: offsets, overlapping apps, devices, sleep, exercise codes, and damaged files."""

from __future__ import annotations

import datetime as dt
import sqlite3
import zipfile

import numpy as np
import pytest

from wearjax.channels import ENERGY, HEART_RATE, INDEX
from wearjax.days import importing
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import health_connect, health_connect_exercise
from wearjax.sources.tally import Tally

PHONE_STEPS, STEPS = INDEX["iphone_steps"], INDEX["watch_steps"]
ASLEEP, INBED = INDEX["sleep_asleep"], INDEX["sleep_inbed"]
COMMON = (
    "row_id INTEGER PRIMARY KEY, uuid BLOB, last_modified_time INTEGER, recording_method INTEGER, app_info_id INTEGER,"
    " device_info_id INTEGER, start_time INTEGER, start_zone_offset INTEGER, end_time INTEGER,"
    " end_zone_offset INTEGER, local_date INTEGER"
)
FITBIT, GOOGLE = 1, 2
WATCH, PHONE, UNKNOWN = 1, 2, 3
BERLIN = 7200


def utc_ms(text):
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp() * 1000)


class Made:
    """A small export under construction; times are wall-clock texts, offsets seconds east."""

    def __init__(self, path, *, case=str):
        self.path, self.case = path, case
        self.db = sqlite3.connect(path)
        tables = {
            "steps_record_table": f"{COMMON}, count INTEGER",
            "distance_record_table": f"{COMMON}, distance REAL",
            "floors_climbed_record_table": f"{COMMON}, floors REAL",
            "active_calories_burned_record_table": f"{COMMON}, energy REAL",
            "total_calories_burned_record_table": f"{COMMON}, energy REAL",
            "heart_rate_record_table": COMMON,
            "heart_rate_record_series_table": "parent_key INTEGER, beats_per_minute INTEGER, epoch_millis INTEGER",
            "sleep_session_record_table": f"{COMMON}, title TEXT, notes TEXT",
            "sleep_stages_table": "parent_key INTEGER, stage_start_time INTEGER, stage_end_time INTEGER,"
            " stage_type INTEGER",
            "exercise_session_record_table": f"{COMMON}, exercise_type INTEGER, title TEXT, notes TEXT",
            "application_info_table": "row_id INTEGER PRIMARY KEY, package_name TEXT, app_name TEXT",
            "device_info_table": "row_id INTEGER PRIMARY KEY, manufacturer TEXT, model TEXT, device_type INTEGER",
            "health_data_category_priority_table": "row_id INTEGER PRIMARY KEY, health_data_category INTEGER,"
            " app_id_priority_order TEXT",
        }
        for name, columns in tables.items():
            self.db.execute(f"CREATE TABLE {case(name)} ({columns})")
        self.db.executemany(
            f"INSERT INTO {case('application_info_table')} VALUES (?, ?, ?)",
            [(1, "com.fitbit.FitbitMobile", "Fitbit"), (2, "com.google.android.apps.fitness", "Fit")],
        )
        self.db.executemany(
            f"INSERT INTO {case('device_info_table')} VALUES (?, ?, ?, ?)",
            [(1, "Maker", "Secret Watch", 1), (2, "Maker", "Secret Phone", 2), (3, None, None, 0)],
        )

    def record(
        self, table, start, end, *, app=FITBIT, device=WATCH, offset=BERLIN, end_offset=None, method=2, **more
    ):
        ends = offset if end_offset is None else end_offset
        columns = {
            "last_modified_time": utc_ms(end) - 1000 * (ends or 0) + 1000, "recording_method": method,
            "app_info_id": app, "device_info_id": device, "start_time": utc_ms(start) - 1000 * (offset or 0),
            "start_zone_offset": offset, "end_time": utc_ms(end) - 1000 * (ends or 0), "end_zone_offset": ends, **more,
        }  # fmt: skip
        made = self.db.execute(
            f"INSERT INTO {self.case(table)} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
            list(columns.values()),
        )
        return made.lastrowid

    def steps(self, start, end, count, **more):
        return self.record("steps_record_table", start, end, count=count, **more)

    def hearts(self, start, end, readings, *, offset=BERLIN, **more):
        key = self.record("heart_rate_record_table", start, end, offset=offset, **more)
        for when, bpm in readings:
            at = utc_ms(when) - 1000 * (offset or 0)
            self.db.execute(
                f"INSERT INTO {self.case('heart_rate_record_series_table')} VALUES (?, ?, ?)", (key, bpm, at)
            )

    def sleep(self, start, end, stages=(), *, offset=BERLIN, **more):
        key = self.record("sleep_session_record_table", start, end, offset=offset, **more)
        for a, b, stage in stages:
            times = [utc_ms(t) - 1000 * offset for t in (a, b)]
            self.db.execute(
                f"INSERT INTO {self.case('sleep_stages_table')} VALUES (?, ?, ?, ?)", (key, *times, stage)
            )

    def workout(self, start, end, code, title=None, **more):
        self.record("exercise_session_record_table", start, end, exercise_type=code, title=title, **more)

    def done(self):
        self.db.commit()
        self.db.close()
        return self.path


@pytest.fixture
def made(tmp_path):
    return Made(tmp_path / "health_connect_export.db")


def read(path, **options):
    tally = Tally()
    return {str(day.date): day for day in health_connect.read_days(path, tally=tally, **options)}, tally


def total(days, channel):
    return sum(float(np.nansum(day.values[channel])) for day in days.values())


def skipped(tally, reason):
    return sum(n for (_, r), n in tally.skipped.items() if reason in r)


def test_units_devices_and_minutes(made):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:02:00", 50)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 30, device=PHONE)
    made.record("distance_record_table", "2024-05-01T10:00:00", "2024-05-01T10:01:00", distance=40.5)
    made.record(
        "active_calories_burned_record_table", "2024-05-01T10:00:00", "2024-05-01T10:01:00", energy=5200.0
    )
    made.record(
        "total_calories_burned_record_table", "2024-05-01T10:00:00", "2024-05-01T10:01:00", energy=9e3
    )
    made.record(
        "floors_climbed_record_table", "2024-05-01T10:00:00", "2024-05-01T10:01:00", floors=3, device=PHONE
    )
    made.hearts(
        "2024-05-01T10:00:00",
        "2024-05-01T10:05:00",
        [("2024-05-01T10:00:10", 60), ("2024-05-01T10:00:40", 80)],
    )
    days, tally = read(made.done())
    day = days["2024-05-01"]
    assert day.values[STEPS, 600:602].tolist() == [25, 25]
    assert day.values[PHONE_STEPS, 600] == 30
    assert day.values[INDEX["watch_distance"], 600] == pytest.approx(40.5)
    assert day.values[ENERGY, 600] == pytest.approx(5200)
    assert day.values[INDEX["iphone_flights"], 600] == 3
    assert day.values[HEART_RATE, 600] == pytest.approx(70 / 60)
    assert tally.skipped["total_calories_burned", "resting energy included"] == 1
    assert day.nonwear_minutes == 23 * 60
    assert any("what the phone recorded, of whatever make" in note for note in tally.notes)


def test_a_zip_a_folder_and_other_cases_of_names_are_the_same(tmp_path):
    def filled(made):
        made.steps("2024-05-01T10:00:00", "2024-05-01T10:02:00", 50)
        made.hearts("2024-05-01T10:00:00", "2024-05-01T10:05:00", [("2024-05-01T10:00:10", 60)])
        return made.done()

    (tmp_path / "folder").mkdir()
    plain = filled(Made(tmp_path / "folder" / "health_connect_export.db"))
    camel = filled(Made(tmp_path / "b.db", case=lambda name: name.title().replace("_", "")))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.write(plain, "some folder/health_connect_export.db")
    expected = read(plain)[0]["2024-05-01"].values
    for path in (camel, tmp_path / "a.zip", tmp_path / "folder"):
        assert np.array_equal(read(path)[0]["2024-05-01"].values, expected, equal_nan=True), path
    assert read(plain)[1].used == {"watch_steps": 1, "watch_hr": 1}


def test_days_follow_each_records_own_offset(made):
    """A night in Tokyo is filed under its own date wherever it is imported; a journey changes the offset."""
    made.sleep("2024-05-01T23:00:00", "2024-05-02T06:00:00", offset=9 * 3600)
    made.steps("2024-05-02T12:00:00", "2024-05-02T12:01:00", 10, offset=9 * 3600)
    made.steps("2024-05-02T12:00:00", "2024-05-02T12:01:00", 20, offset=2 * 3600)
    path = made.done()
    days, tally = read(path)
    assert np.nansum(days["2024-05-01"].values[INBED]) == 60
    rows = {row["channel"]: (row["first day"], row["days"]) for row in tally.channel_rows()}
    assert rows["sleep_inbed"] == ("2024-05-01", "2")
    assert rows["watch_steps"] == ("2024-05-02", "1")
    assert any("the wall clock that each record names" in note for note in tally.notes)
    assert np.nansum(days["2024-05-02"].values[INBED]) == 360
    assert days["2024-05-02"].values[STEPS, 720] == 30
    one_zone, tally = read(path, zone="Europe/Berlin")
    assert any("the wall clock of Europe/Berlin" in note for note in tally.notes)
    assert one_zone["2024-05-02"].values[STEPS, 300] == 10
    assert total(one_zone, STEPS) == 30


def test_records_without_an_offset_need_a_zone(made):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 10)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 20, offset=None)
    path = made.done()
    days, tally = read(path)
    assert total(days, STEPS) == 10
    assert skipped(tally, "no offset from UTC") == 1
    days, _ = read(path, zone="Europe/Berlin")
    assert days["2024-05-01"].values[STEPS, 600] == 10
    assert days["2024-05-01"].values[STEPS, 720] == 20


@pytest.mark.parametrize("change", ["2024-03-31", "2024-10-27"])
def test_totals_are_kept_over_clock_changes(made, change):
    before, after = (3600, 7200) if change.startswith("2024-03") else (7200, 3600)
    made.steps(f"{change}T00:30:00", f"{change}T04:30:00", 300, offset=before, end_offset=after)
    days, _ = read(made.done())
    assert total(days, STEPS) == pytest.approx(300)
    if before < after:
        assert np.isnan(days[change].values[STEPS, 120:180]).all()


def test_two_apps_never_count_a_step_twice(made):
    for minute in (0, 3, 9):  # one app writes single minutes, the other a quarter of an hour
        made.steps(f"2024-05-01T10:{minute:02d}:00", f"2024-05-01T10:{minute + 1:02d}:00", 40)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:15:00", 120, app=GOOGLE)
    made.steps("2024-05-01T15:00:00", "2024-05-01T15:10:00", 80, app=GOOGLE)
    path = made.done()
    days, tally = read(path)
    assert total(days, STEPS) == 200  # 120 of the preferred app, and the hour it did not record
    assert tally.skipped["watch_steps", "minute: a preferred app recorded in this hour"] == 15
    assert any("com.fitbit.FitbitMobile, com.google.android.apps.fitness" in note for note in tally.notes)
    days, tally = read(path, apps=("com.google.android.apps.fitness",))
    assert total(days, STEPS) == 200
    assert skipped(tally, "not chosen") == 3
    with pytest.raises(ConfigError, match="FitbitMobile"):
        read(path, apps=("com.nobody",))


def test_the_persons_own_order_of_apps_comes_first(made):
    for minute in range(5):
        made.steps(f"2024-05-01T10:{minute:02d}:00", f"2024-05-01T10:{minute + 1:02d}:00", 10)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:05:00", 70, app=GOOGLE)
    made.db.execute("INSERT INTO health_data_category_priority_table VALUES (1, 1, '2,1')")
    days, tally = read(made.done())
    assert total(days, STEPS) == 70
    assert any("as set in the app" in note for note in tally.notes)


def test_two_watches_and_a_phone_of_one_app(made):
    made.db.execute("INSERT INTO device_info_table VALUES (4, 'Maker', 'Old Watch', 1)")
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 50)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 60, device=4)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 55, device=PHONE)
    days, _ = read(made.done())
    assert (total(days, STEPS), total(days, PHONE_STEPS)) == (60, 55)


def test_devices_without_a_type_are_told_by_the_apps_heart_rates(made):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 50, device=UNKNOWN)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 55, device=None, app=GOOGLE)
    made.hearts("2024-05-01T10:00:00", "2024-05-01T10:01:00", [("2024-05-01T10:00:10", 60)], device=UNKNOWN)
    days, tally = read(made.done())
    assert (total(days, STEPS), total(days, PHONE_STEPS)) == (50, 55)
    assert any("1 taken as phone, 2 taken as worn" in note for note in tally.notes)


def test_faults_repeats_and_records_made_by_hand(made):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 7)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 7)  # exact repeat
    made.steps("2024-05-01T11:00:00", "2024-05-01T10:59:00", 1)
    made.steps("2024-05-01T11:00:00", "2024-05-03T11:00:00", 1)
    made.steps("2024-05-01T11:00:00", "2024-05-01T11:01:00", -1)
    made.steps("2004-05-01T11:00:00", "2004-05-01T11:01:00", 1)
    made.steps("2024-05-01T11:00:00", "2024-05-01T11:01:00", 1, method=3)
    made.steps("2024-05-01T11:00:00", "2024-05-01T11:01:00", "many")
    made.steps(
        "2034-05-01T11:00:00", "2034-05-01T11:01:00", 1, last_modified_time=utc_ms("2024-05-01T11:01:00")
    )
    made.record("distance_record_table", "2024-05-01T10:00:00", "2024-05-01T10:01:00", distance=5e-324)
    made.steps("2024-05-01T12:00:00", "2024-05-01T12:00:00", 3)  # without length: its minute
    made.hearts("2024-05-01T10:00:00", "2024-05-01T10:01:00", [("2024-05-01T10:00:10", 0)])
    days, tally = read(made.done())
    assert total(days, STEPS) == 10
    assert days["2024-05-01"].values[STEPS, 720] == 3
    for reason, count in (
        ("exact repeat", 1), ("ends before", 1), ("longer than 24", 1), ("negative", 1), ("before 2007", 1),
        ("entered by hand", 1), ("not a number", 2), ("ends after it was written", 1), ("not a heart rate", 1),
    ):  # fmt: skip
        assert skipped(tally, reason) == count, reason
    assert total(read(made.path, include_manual=True)[0], STEPS) == 11


def test_sleep_stages_sessions_and_their_union(made):
    made.sleep(
        "2024-05-01T23:00:00", "2024-05-02T01:00:00",
        [("2024-05-01T23:00:00", "2024-05-01T23:30:00", 4), ("2024-05-01T23:30:00", "2024-05-01T23:40:00", 1),
         ("2024-05-01T23:40:00", "2024-05-02T00:40:00", 5), ("2024-05-02T00:40:00", "2024-05-02T00:50:00", 9)],
    )  # fmt: skip
    made.sleep("2024-05-01T23:10:00", "2024-05-02T01:10:00", app=GOOGLE)  # the same night, without stages
    made.sleep("2024-05-02T14:00:00", "2024-05-02T14:30:00")  # a nap
    path = made.done()
    days, tally = read(path)
    assert total(days, INBED) == 130 + 30
    assert total(days, ASLEEP) == 130 + 30
    assert skipped(tally, "unknown stage") == 1
    assert any("2 sleep sessions have no stages" in note for note in tally.notes)
    days, _ = read(path, apps=("com.fitbit.FitbitMobile",))
    assert total(days, ASLEEP) == 90 + 30
    assert days["2024-05-01"].values[ASLEEP, 23 * 60 + 35] == 0


def test_sessions_of_a_minute_are_one_night(made):
    for i in range(60):
        start = dt.datetime(2024, 5, 1, 23, 0, 31) + dt.timedelta(seconds=90 * i)
        made.sleep(start.isoformat(), (start + dt.timedelta(seconds=50)).isoformat())
    days, tally = read(made.done())
    assert total(days, INBED) == 89  # one span of 89 minutes and 20 seconds
    assert total(days, ASLEEP) == 89
    assert any("60 sleep sessions of a minute or less were joined to 1 spans" in note for note in tally.notes)


def test_exercise_codes_are_believed_only_with_titles(made):
    made.workout("2024-05-01T10:00:00", "2024-05-01T10:30:00", 33, "Morning run with a secret friend")
    made.workout("2024-05-01T12:00:00", "2024-05-01T12:10:00", 33)
    made.workout(
        "2024-05-01T13:00:00", "2024-05-01T13:10:00", 53
    )  # walking, in the numbering that 33 confirms
    made.workout("2024-05-01T14:00:00", "2024-05-01T14:10:00", 48)  # swimming: outside the ten
    path = made.done()
    days, tally = read(path)
    assert total(days, INDEX["workout_running"]) == 40
    assert total(days, INDEX["workout_walking"]) == 10
    assert tally.skipped["exercise", "code 48: no such channel"] == 1
    assert any("platform numbering" in note for note in tally.notes)
    assert "secret" not in str(tally.as_dict()).lower()


def test_codes_without_titles_are_counted_not_guessed(made):
    made.workout("2024-05-01T10:00:00", "2024-05-01T10:30:00", 39)
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 7)
    days, tally = read(made.done())
    assert tally.skipped["exercise", "code 39: no title says what it is"] == 1
    assert np.isnan(days["2024-05-01"].values[INDEX["workout_running"]]).all()


@pytest.mark.parametrize(
    ("sessions", "meaning", "numbering"),
    [
        ([(33, "running")], {33: "running", 53: "walking"}, "platform"),
        ([(56, "running")], {56: "running", 79: "walking"}, "client"),
        (
            [(39, "running")],
            {39: "running", 53: None},
            None,
        ),  # a third numbering: its own title, nothing else
        ([(33, "running"), (53, "yoga")], {33: "running", 53: "yoga", 57: None}, None),  # contradicted
        ([(57, "yoga"), (57, "yoga"), (57, "running")], {57: "yoga"}, "platform"),
    ],
)
def test_what_titles_teach(sessions, meaning, numbering):
    learned, which = health_connect_exercise.learn(sessions)
    assert which == numbering
    assert {code: learned.get(code) for code in meaning} == meaning


@pytest.mark.parametrize(
    ("title", "workout"),
    [("Running", "running"), ("morning JOG", "running"), ("Run and walk", None), ("Brunch", None), (None, None),
     ("Strength training", "strength"), ("Bike ride", "cycling")],
)  # fmt: skip
def test_titles(title, workout):
    assert health_connect_exercise.of_title(title) == workout


def test_what_an_export_never_holds_stays_missing(made):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 7, device=PHONE)
    days, _ = read(made.done())
    values = days["2024-05-01"].values
    assert (~np.isnan(values[PHONE_STEPS])).all()
    for channel in (
        "watch_steps",
        "watch_hr",
        "iphone_flights",
        "watch_energy",
        "sleep_inbed",
        "workout_yoga",
    ):
        assert np.isnan(values[INDEX[channel]]).all(), channel


def test_damaged_and_foreign_files(tmp_path, made):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 7)
    for i in range(300):
        made.steps(f"2024-05-01T10:{i % 60:02d}:00", f"2024-05-01T11:{i % 60:02d}:00", i)
    data = made.done().read_bytes()
    cases = {
        "cut.db": data[: len(data) // 2], "magic.db": data[:16], "text.db": b"hello", "none.db": b"",
        "noise.db": data[:100] + bytes(len(data) - 100),
    }  # fmt: skip
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value), name
    for name, members, said in (
        ("a.zip", {"readme.txt": b"hello"}, "no database"), ("b.zip", {"x.db": b"hello"}, "not a SQLite"),
        ("c.zip", {"../x.db": data}, "unsafe"), ("d.zip", {"inner.zip": b"PK"}, "another archive"),
    ):  # fmt: skip
        with zipfile.ZipFile(tmp_path / name, "w") as zipped:
            for member, content in members.items():
                zipped.writestr(member, content)
        with pytest.raises(SourceError, match=said):
            read(tmp_path / name)
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)")
    with pytest.raises(SourceError, match="no application_info_table"):
        read(tmp_path / "other.db")


def test_views_and_column_names_run_nothing(tmp_path):
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute("CREATE TABLE application_info_table (row_id INTEGER PRIMARY KEY, package_name TEXT)")
    db.execute("INSERT INTO application_info_table VALUES (1, 'x; DROP TABLE')")
    db.execute("CREATE VIEW steps_record_table AS SELECT 1 AS start_time, 2 AS end_time, 3 AS count")
    db.commit()
    db.close()
    days, tally = read(tmp_path / "a.db")
    assert not days
    assert not tally.read
    with pytest.raises(ConfigError, match="app 1"):
        read(tmp_path / "a.db", apps=("nobody",))


def test_the_import_verb_keeps_no_names(made, tmp_path):
    made.steps("2024-05-01T10:00:00", "2024-05-01T10:01:00", 7)
    path = made.done()
    imported = importing.import_days("health-connect", path, tmp_path / "out")
    assert len(imported.store) == 1
    for file in (tmp_path / "out").rglob("*"):
        assert not file.is_file() or b"Secret" not in file.read_bytes()


def test_changed_bytes_end_in_a_result_or_one_line(made):
    for i in range(30):
        made.steps(
            f"2024-05-01T10:{i:02d}:00", f"2024-05-01T10:{i:02d}:30", i, app=1 + i % 2, device=1 + i % 3
        )
    made.sleep(
        "2024-05-01T23:00:00", "2024-05-02T06:00:00", [("2024-05-01T23:00:00", "2024-05-02T01:00:00", 4)]
    )
    made.workout("2024-05-01T10:00:00", "2024-05-01T10:30:00", 33, "Run")
    path = made.done()
    data = path.read_bytes()
    refused = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        changed = bytearray(data)
        for place in rng.integers(0, len(data), int(rng.integers(1, 20))):
            changed[place] = rng.integers(0, 256)
        path.write_bytes(changed)
        try:
            read(path)
        except SourceError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 30
    assert not any("\n" in line for line in refused)
