"""Apple Health exports as days: every way in which importers are known to go wrong."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import tracemalloc
import zoneinfo

import made_apple_health as made
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_apple_health import by_hand, element, heart, moment, read, record, sleep, steps, workout

from wearjax import cli
from wearjax.channels import BINARY, DEVICE_GROUPS, INDEX, NAMES
from wearjax.days import clean, importing
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import apple_health, apple_health_records, local_clock
from wearjax.sources.tally import Tally

DAY = "2024-05-01"
CLOCK = local_clock.RecordClock.said


def total(day, channel: str) -> float:
    return float(np.nansum(day.values[INDEX[channel]], dtype=np.float64))


def measured(day) -> set[str]:
    return {NAMES[c] for c in range(19) if not np.isnan(day.values[c]).all()}


def balance(tally: Tally) -> None:
    """Every record read is either used or skipped."""
    assert sum(tally.read.values()) == sum(tally.used.values()) + sum(tally.skipped.values())


# -- devices and overlap


def test_a_device_text_with_another_address_each_time_is_one_device(tmp_path):
    tally = Tally()
    days = read(
        tmp_path, *[steps(f"{DAY} 10:{m:02}", f"{DAY} 10:{m + 1:02}", 10) for m in range(30)], tally=tally
    )
    assert total(days[DAY], "watch_steps") == 300
    assert tally.notes == [CLOCK]


def test_phone_and_watch_have_channels_of_their_own(tmp_path):
    days = read(
        tmp_path,
        steps(f"{DAY} 10:00", f"{DAY} 10:10", 900),
        steps(f"{DAY} 10:00", f"{DAY} 10:05", 480, device=made.PHONE),
        record(made.FLIGHTS, f"{DAY} 10:00", f"{DAY} 10:01", 2, unit="count", device=made.PHONE),
        record(made.DISTANCE, f"{DAY} 10:00", f"{DAY} 10:05", 0.3, unit="km", device=made.PHONE),
    )
    assert total(days[DAY], "watch_steps") == pytest.approx(900, rel=1e-6)
    assert total(days[DAY], "iphone_steps") == pytest.approx(480, rel=1e-6)
    assert total(days[DAY], "iphone_distance") == pytest.approx(300, rel=1e-6)
    assert total(days[DAY], "iphone_flights") == 2


def test_two_watches_at_once_are_not_doubled(tmp_path):
    tally = Tally()
    new = made.WATCH.replace("Watch6,2", "Watch7,1")
    days = read(
        tmp_path,
        steps(f"{DAY} 10:00", f"{DAY} 10:10", 900),
        steps(f"{DAY} 10:00", f"{DAY} 10:10", 1000, device=new),
        steps(f"{DAY} 11:00", f"{DAY} 11:01", 50, device=new),
        tally=tally,
    )
    assert total(days[DAY], "watch_steps") == pytest.approx(1050, rel=1e-6)
    assert any("2 watches" in note for note in tally.notes)


def test_records_of_a_watch_that_name_no_device_are_no_second_watch(tmp_path):
    tally = Tally()
    one, other = f"{made.OWNER}’s Apple\u00a0Watch", "Apple Watch of another"
    days = read(
        tmp_path,
        steps(f"{DAY} 10:00", f"{DAY} 10:10", 900, source=one),
        steps(f"{DAY} 11:00", f"{DAY} 11:10", 100, source=one, device=None),
        tally=tally,
    )
    assert total(days[DAY], "watch_steps") == pytest.approx(1000, rel=1e-6)
    assert tally.notes == [CLOCK]
    read(
        tmp_path,
        *(steps(f"{DAY} 10:00", f"{DAY} 10:10", 9, source=s, device=None) for s in (one, other)),
        tally=tally,
    )
    assert any("2 watches" in note for note in tally.notes)


def test_watch_flights_and_phone_heart_rate_are_no_channels(tmp_path):
    tally = Tally()
    read(
        tmp_path,
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 1),
        record(made.FLIGHTS, f"{DAY} 10:00", f"{DAY} 10:01", 2, unit="count"),
        heart(f"{DAY} 10:00", 70, device=made.PHONE),
        tally=tally,
    )
    assert tally.skipped == {
        ("FlightsClimbed", "watch: no such channel"): 1,
        ("HeartRate", "iphone: no such channel"): 1,
    }
    balance(tally)


def third_party():
    ring = "name:Ring, manufacturer:Oura, model:Ring 3"
    return [
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 100, device=ring, source="Oura"),
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 80, device=None, source="Bridge"),
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 60),
    ]


def test_other_makers_are_left_out_and_counted(tmp_path):
    tally = Tally()
    days = read(tmp_path, *third_party(), tally=tally)
    assert total(days[DAY], "watch_steps") == 60
    assert tally.skipped == {("StepCount", "third-party device"): 1, ("StepCount", "app without a device"): 1}
    balance(tally)


def test_other_makers_fill_the_hours_without_a_watch_if_asked(tmp_path):
    """An hour belongs to the Watch, else to another maker's device, else to an app, and to one of them alone."""
    ring, tally = "name:Ring, manufacturer:Oura, model:Ring 3", Tally()
    elements = [
        *third_party(),
        steps(f"{DAY} 10:30", f"{DAY} 10:31", 40, device=ring, source="Oura"),
        steps(f"{DAY} 11:00", f"{DAY} 11:01", 100, device=ring, source="Oura"),
        steps(f"{DAY} 11:30", f"{DAY} 11:31", 80, device=None, source="Bridge"),
        steps(f"{DAY} 12:00", f"{DAY} 12:01", 7, device=None, source="Bridge"),
        steps(f"{DAY} 13:00", f"{DAY} 13:01", 9, device=None, source="Bridge"),
        heart(f"{DAY} 13:20", 60),
    ]
    for order in (elements, elements[::-1]):
        day = read(tmp_path, *order, include_third_party=True, tally=tally)[DAY]
        hours = np.nansum(day.values[INDEX["watch_steps"]].reshape(24, 60), axis=1)
        assert hours[10:14].tolist() == [60, 100, 7, 0]
    assert "2 hours without a Watch were filled from other makers' records" in tally.notes
    balance(tally)


def test_two_bands_of_other_makers_do_not_add_up(tmp_path):
    bands = [f"name:Band, manufacturer:Oura, model:Band {i}" for i in range(2)]
    elements = [
        steps(f"{DAY} 10:00", f"{DAY} 10:10", 100 + i, device=b, source="B") for i, b in enumerate(bands)
    ]
    day = read(tmp_path, *elements, include_third_party=True)[DAY]
    assert total(day, "watch_steps") == pytest.approx(101, rel=1e-6)
    assert np.isnan(day.values[INDEX["iphone_steps"]]).all()


def test_entries_made_by_hand(tmp_path):
    elements = [
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 60, inside=by_hand("0")),
        steps(f"{DAY} 11:00", f"{DAY} 11:01", 900, inside=by_hand()),
        sleep(f"{DAY} 01:00", f"{DAY} 05:00", "InBed", inside=by_hand()),
        workout(f"{DAY} 17:00", f"{DAY} 17:30", "Yoga", inside=by_hand()),
        steps(f"{DAY} 12:00", f"{DAY} 12:01", 5),
    ]
    tally = Tally()
    day = read(tmp_path, *elements, tally=tally)[DAY]
    assert (total(day, "watch_steps"), total(day, "workout_yoga")) == (65, 0)
    assert {m: n for (m, r), n in tally.skipped.items() if r == "entered by hand"} == {
        "StepCount": 1, "SleepAnalysis": 1, "Workout": 1,
    }  # fmt: skip
    balance(tally)
    day = read(tmp_path, *elements, include_manual=True)[DAY]
    assert (total(day, "watch_steps"), total(day, "workout_yoga"), total(day, "sleep_inbed")) == (
        965,
        30,
        240,
    )


# -- repeats


def test_exact_repeats_count_once(tmp_path):
    tally = Tally()
    once = [
        steps(f"{DAY} 10:00", f"{DAY} 10:02", 40),
        heart(f"{DAY} 10:00", 80),
        workout(f"{DAY} 17:00", f"{DAY} 17:30", "Yoga"),
    ]
    again = [steps(f"{DAY} 10:00", f"{DAY} 10:02", 40), *once[1:]]  # another address
    days = read(tmp_path, *once, *again, steps(f"{DAY} 10:00", f"{DAY} 10:02", 41), tally=tally)
    assert total(days[DAY], "watch_steps") == pytest.approx(81)
    assert {m for (m, r) in tally.skipped if r == "exact repeat"} == {
        "watch_steps",
        "watch_hr",
        "workout_yoga",
    }
    balance(tally)


def test_reading_twice_gives_the_same_days(tmp_path):
    elements = [steps(f"{DAY} {h:02}:10", f"{DAY} {h:02}:17", 13 * h + 1) for h in range(24)]
    first, second = read(tmp_path, *elements), read(tmp_path, *elements)
    np.testing.assert_array_equal(first[DAY].values, second[DAY].values)


def test_what_a_correlation_holds_is_not_counted_twice(tmp_path):
    tally = Tally()
    inner = steps(f"{DAY} 10:00", f"{DAY} 10:01", 70)
    correlation = element(
        "Correlation", {"type": "HKCorrelationTypeIdentifierFood"}, inner + element("X", {}, inner)
    )
    days = read(tmp_path, correlation, inner.replace("70", "71"), correlation, tally=tally)
    assert total(days[DAY], "watch_steps") == 71
    assert tally.read == {"Correlation": 2, "StepCount": 1}
    balance(tally)


# -- values and units


def test_units_are_those_of_each_record(tmp_path):
    days = read(
        tmp_path,
        record(made.DISTANCE, f"{DAY} 10:00", f"{DAY} 10:01", 1, unit="mi"),
        record(made.DISTANCE, f"{DAY} 11:00", f"{DAY} 11:01", "1.5e-1", unit="km"),
        record(made.DISTANCE, f"{DAY} 12:00", f"{DAY} 12:01", 42, unit="m"),
        *[record(made.ENERGY, f"{DAY} {13 + i}:00", f"{DAY} {13 + i}:01", v, unit=u)
          for i, (v, u) in enumerate([(2, "Cal"), (3, "kcal"), (4.184, "kJ"), (5, "cal")])],
        heart(f"{DAY} 10:00", 90), heart(f"{DAY} 11:00", 1.25, unit="count/s"),
    )  # fmt: skip
    values = days[DAY].values
    distance, energy, rate = (values[INDEX[f"watch_{name}"]] for name in ("distance", "energy", "hr"))
    np.testing.assert_allclose(distance[[600, 660, 720]], [1609.344, 150, 42], rtol=1e-6)
    np.testing.assert_allclose(energy[[780, 840, 900, 960]], [2000, 3000, 1000, 5], rtol=1e-6)
    np.testing.assert_allclose(rate[[600, 660]], [1.5, 1.25])


@pytest.mark.parametrize(
    ("kind", "unit"),
    [(made.DISTANCE, "furlong"), (made.ENERGY, "Wh"), (made.HEART, "Hz"), (made.ENERGY, None)],
)
def test_an_unknown_unit_is_named(tmp_path, kind, unit):
    with pytest.raises(SourceError, match=rf"export\.xml: .*{unit or 'without a unit'}.*known: ") as caught:
        read(tmp_path, record(kind, f"{DAY} 10:00", f"{DAY} 10:01", 1, unit=unit))
    assert "\n" not in str(caught.value)


def test_the_unit_of_a_record_that_is_left_out_does_not_matter(tmp_path):
    foreign = record(
        made.DISTANCE, f"{DAY} 10:00", f"{DAY} 10:01", 1, unit="furlong", device=None, source="App"
    )
    assert total(read(tmp_path, foreign, steps(f"{DAY} 10:00", f"{DAY} 10:01", 3))[DAY], "watch_steps") == 3


def test_values_that_cannot_be_are_counted(tmp_path):
    tally = Tally()
    bad = ["-3", "", "many", "nan", "inf", None, "1,5", "1_000", "4"]
    at = [f"{DAY} {h:02}:00" for h in range(9)]
    days = read(tmp_path, *[steps(a, a, v) for a, v in zip(at, bad, strict=True)], tally=tally)
    assert total(days[DAY], "watch_steps") == 4
    assert tally.skipped == {
        ("watch_steps", "negative value"): 1,
        ("watch_steps", "value is not a number"): 7,
    }
    balance(tally)


def test_heart_rate_is_the_mean_of_the_minute_and_never_filled(tmp_path):
    day = read(
        tmp_path,
        *[heart(f"{DAY} 10:00:{s:02}", v) for s, v in ((0, 60), (20, 90), (59, 120))],
        heart(f"{DAY} 10:05", 60),
    )[DAY]
    row = day.values[INDEX["watch_hr"]]
    np.testing.assert_allclose(row[[600, 605]], [1.5, 1.0])
    assert np.isnan(row).sum() == 1438
    assert np.nanmax(row) < 5  # beats per second, not per minute


# -- samples in odd places


def test_zero_length_reversed_long_early_and_future_samples(tmp_path):
    tally = Tally()
    days = read(
        tmp_path,
        steps(f"{DAY} 10:00:30", f"{DAY} 10:00:30", 9),
        steps(f"{DAY} 11:00", f"{DAY} 10:59", 1),
        steps(f"{DAY} 00:00", "2024-05-02 06:00", 3000),
        steps("1999-01-01 10:00", "1999-01-01 10:01", 5),
        steps("2031-01-01 10:00", "2031-01-01 10:01", 6),
        steps("2024-05-33 10:00", "2024-05-33 10:01", 7),
        sleep(f"{DAY} 10:00", f"{DAY} 10:00", "InBed"),
        steps("2024-05-02 00:00", "2024-05-03 00:00", 1440),
        tally=tally,
    )
    assert days[DAY].values[INDEX["watch_steps"], 600] == 9
    assert {r: n for (_, r), n in tally.skipped.items()} == {
        "ends before it starts": 1, "longer than 24 hours": 1, "before 2007": 1, "after the export": 1,
        "no readable date": 1, "no length": 1,
    }  # fmt: skip
    assert set(days) == {DAY, "2024-05-02"}
    np.testing.assert_allclose(days["2024-05-02"].values[INDEX["watch_steps"]], 1)
    balance(tally)


def test_dates_of_old_exports(tmp_path):
    old = steps(f"{DAY} 10:00", f"{DAY} 10:02", 8)
    for text in (f"{DAY} 10:00:00 +0200", f"{DAY} 10:02:00 +0200"):
        old = old.replace(text, text.replace("-", "").replace(" ", "").replace(":", ""))
    assert read(tmp_path, old)[DAY].values[INDEX["watch_steps"], 600:602].tolist() == [4, 4]


@pytest.mark.parametrize(
    "text", [f"{DAY} 10:00:00\u202fAM +0200", "5/1/2024, 10:00 AM", f"{DAY}T10:00:00+02:00", ""]
)
def test_dates_of_other_writers_are_counted_not_guessed(tmp_path, text):
    tally = Tally()
    odd = steps(f"{DAY} 10:00", f"{DAY} 10:02", 8).replace(
        f'startDate="{DAY} 10:00:00 +0200"', f'startDate="{text}"'
    )
    day = read(tmp_path, odd, steps(f"{DAY} 12:00", f"{DAY} 12:01", 5), tally=tally)[DAY]
    assert total(day, "watch_steps") == 5
    assert tally.skipped == {("watch_steps", "no readable date"): 1}


def test_a_date_of_export_behind_records_is_ignored(tmp_path):
    tally = Tally()
    late = element("ExportDate", {"value": "2020-01-01 00:00:00 +0000"})
    walks = [steps(f"{DAY} {hour}:00", f"{DAY} {hour}:01", 5) for hour in (10, 11)]
    day = read(tmp_path, walks[0], late, walks[1], tally=tally)
    assert total(day[DAY], "watch_steps") == 10
    assert tally.notes == ["a date of export behind records was ignored", CLOCK]


def test_control_characters_in_source_names_hide_no_record(tmp_path):
    tally = Tally()
    walks = [steps(f"{DAY} 1{i}:00", f"{DAY} 1{i}:01", 5, source="Q\x0bs Watch") for i in range(3)]
    assert total(read(tmp_path, *walks, tally=tally)[DAY], "watch_steps") == 15
    assert tally.notes == ["3 bytes that XML forbids were dropped", CLOCK]


def test_an_export_without_a_readable_date_says_so(tmp_path):
    tally = Tally()
    file = tmp_path / "export.xml"
    file.write_bytes(made.document(steps("2031-05-01 10:00", "2031-05-01 10:01", 5), exported="yesterday"))
    assert list(made.days_of(file, tally=tally)) == ["2031-05-01"]
    assert any("no readable date" in note for note in tally.notes)


# -- sleep and workouts


def test_sleep_of_several_sources_is_a_union(tmp_path):
    night = [
        sleep("2024-05-01 23:10", "2024-05-02 00:40", "AsleepCore"),
        sleep("2024-05-02 00:40", "2024-05-02 01:30:30", "AsleepDeep"),
        sleep("2024-05-02 01:30:30", "2024-05-02 02:00", "AsleepREM"),
        sleep("2024-05-02 02:00", "2024-05-02 02:10", "Awake"),
        sleep("2024-05-02 02:10", "2024-05-02 06:00", "AsleepUnspecified"),
        sleep("2024-05-01 23:20", "2024-05-02 05:50", "Asleep", source="Other App", device=None),
        sleep("2024-05-01 22:50", "2024-05-02 06:15", "InBed", device=made.PHONE),
        sleep("2024-05-01 22:55", "2024-05-02 06:10", "InBed"),
    ]
    tally = Tally()
    days = read(tmp_path, *night, tally=tally).values()
    assert sum(total(day, "sleep_asleep") for day in days) == 6 * 60 + 50
    assert sum(total(day, "sleep_inbed") for day in days) == 7 * 60 + 25
    balance(tally)


def test_awake_ends_no_other_sleep_but_marks_the_day(tmp_path):
    day = read(tmp_path, sleep(f"{DAY} 02:00", f"{DAY} 02:10", "Awake"), absent="missing")[DAY]
    row = day.values[INDEX["sleep_asleep"]]
    assert row[120:130].tolist() == [0] * 10
    assert np.isnan(row).sum() == 1430
    assert np.isnan(day.values[INDEX["sleep_inbed"]]).all()


def test_a_nap_belongs_to_its_day(tmp_path):
    day = read(tmp_path, sleep(f"{DAY} 14:00", f"{DAY} 14:45", "AsleepCore"))[DAY]
    assert day.values[INDEX["sleep_asleep"], 840:885].all()
    assert total(day, "sleep_asleep") == 45


def test_raw_numbers_and_unknown_sleep_values(tmp_path):
    tally = Tally()
    values = ["0", "1", "2", "3", "4", "5", "6", "HKCategoryValueSleepAnalysisDozing", "", None]
    elements = [record(made.SLEEP, f"{DAY} {h:02}:00", f"{DAY} {h:02}:30", v) for h, v in enumerate(values)]
    day = read(tmp_path, *elements, tally=tally)[DAY]
    assert (total(day, "sleep_inbed"), total(day, "sleep_asleep")) == (30, 120)
    assert tally.skipped["SleepAnalysis", "unknown sleep value"] == 4
    balance(tally)


def test_workouts_of_the_ten_types_and_others(tmp_path):
    tally = Tally()
    statistics = element("WorkoutStatistics", {"type": made.DISTANCE, "sum": "5.1", "unit": "km"})
    pause = element(
        "WorkoutEvent", {"type": "HKWorkoutEventTypePause", "date": moment(f"{DAY} 17:10"), "duration": "5"}
    )
    parts = element(
        "WorkoutActivity",
        {"uuid": "1", "startDate": moment(f"{DAY} 17:00"), "endDate": moment(f"{DAY} 17:30")},
        statistics,
    )
    days = read(
        tmp_path,
        workout(f"{DAY} 17:00", f"{DAY} 17:30", "Running", inside=statistics + pause + parts),
        workout(
            f"{DAY} 17:05", f"{DAY} 17:40", "Running", source="Strava", inside=element("X", {}, by_hand())
        ),
        workout(f"{DAY} 18:00", f"{DAY} 18:10", "MixedMetabolicCardioTraining"),
        workout(f"{DAY} 19:00", f"{DAY} 19:10", "Other"),
        workout(f"{DAY} 20:00", f"{DAY} 20:10", "Swimming"),
        workout(f"{DAY} 21:00", f"{DAY} 21:10", "MixedCardio"),
        tally=tally,
    )
    assert {NAMES[c]: total(days[DAY], NAMES[c]) for c in BINARY if total(days[DAY], NAMES[c])} == {
        "workout_running": 40, "workout_mixed_cardio": 10, "workout_other": 10,
    }  # fmt: skip
    assert tally.skipped == {("Workout", "Swimming"): 1, ("Workout", "MixedCardio"): 1}
    balance(tally)


def test_workouts_in_the_form_before_ios_16(tmp_path):
    """Totals as attributes, no child; and today's, with totals in statistics alone: the same minutes."""
    times = {"startDate": moment(f"{DAY} 17:00"), "endDate": moment(f"{DAY} 17:41:20")}
    old = element(
        "Workout",
        {"workoutActivityType": "HKWorkoutActivityTypeCycling", "duration": "38.5", "durationUnit": "min",
         "totalDistance": "12.25", "totalDistanceUnit": "km",
         "totalEnergyBurned": "310", "totalEnergyBurnedUnit": "Cal", "sourceName": "w", **times},
    )  # fmt: skip
    totals = element("WorkoutStatistics", {"type": made.ENERGY, "sum": "310", "unit": "Cal", **times})
    new = workout(f"{DAY} 17:00", f"{DAY} 17:41:20", "Cycling", inside=totals, source="w")
    days = [read(tmp_path, one)[DAY].values for one in (old, new)]
    np.testing.assert_array_equal(*days)
    assert np.nansum(days[0][INDEX["workout_cycling"]]) == 41


def test_a_multisport_session_gives_its_known_parts(tmp_path):
    def part(kind, start, end):
        times = {"startDate": moment(f"{DAY} {start}"), "endDate": moment(f"{DAY} {end}")}
        return element("WorkoutActivity", {"workoutActivityType": f"HKWorkoutActivityType{kind}", **times})

    tally = Tally()
    parts = (
        part("Swimming", "08:00", "08:30")
        + part("Cycling", "08:35", "09:35")
        + part("Running", "09:40", "10:10")
    )
    triathlon = workout(f"{DAY} 08:00", f"{DAY} 10:10", "SwimBikeRun", inside=parts)
    day = read(tmp_path, triathlon, tally=tally)[DAY]
    minutes = [total(day, f"workout_{name}") for name in ("cycling", "running", "other")]
    assert minutes == [60, 30, 0]
    balance(tally)


# -- days and clocks


def test_a_night_across_midnight_keeps_its_total(tmp_path):
    days = read(tmp_path, sleep("2024-05-01 23:00", "2024-05-02 06:30", "AsleepCore"))
    assert [total(day, "sleep_asleep") for day in days.values()] == [60, 390]


def spring_night(offset_before="+0100", offset_after="+0200"):
    return [
        steps(f"2024-03-30 22:00 {offset_before}", f"2024-03-30 22:01 {offset_before}", 7),
        sleep(f"2024-03-30 23:00 {offset_before}", f"2024-03-31 07:00 {offset_after}", "AsleepCore"),
        steps(f"2024-03-31 01:50 {offset_before}", f"2024-03-31 03:10 {offset_after}", 60),
    ]


@pytest.mark.parametrize("zone", ["record", "Europe/Berlin"])
def test_the_hour_a_spring_day_lacks_is_missing(tmp_path, zone):
    days = read(tmp_path, *spring_night(), zone=zone)
    day = days["2024-03-31"]
    assert np.isnan(day.values[:, 120:180]).all()
    assert not np.isnan(day.values[INDEX["watch_steps"], 180:]).any()
    assert sum(total(d, "sleep_asleep") for d in days.values()) == 7 * 60
    assert total(day, "watch_steps") == pytest.approx(60, rel=1e-6)  # twenty true minutes: ten on either side
    assert day.values[INDEX["watch_steps"], [115, 185]].tolist() == [3, 3]


@pytest.mark.parametrize("zone", ["record", "Europe/Berlin"])
def test_the_hour_an_autumn_day_has_twice_loses_nothing(tmp_path, zone):
    days = read(
        tmp_path,
        sleep("2024-10-26 23:00 +0200", "2024-10-27 07:00 +0100", "AsleepCore"),
        steps("2024-10-27 02:30 +0200", "2024-10-27 02:31 +0200", 10),
        steps("2024-10-27 02:30 +0100", "2024-10-27 02:31 +0100", 20),
        heart("2024-10-27 02:30 +0200", 60),
        heart("2024-10-27 02:30 +0100", 120),
        steps("2024-10-27 01:00 +0200", "2024-10-27 05:00 +0100", 300),
        zone=zone,
    )
    day = days["2024-10-27"]
    assert total(day, "watch_steps") == pytest.approx(330, rel=1e-6)
    assert day.values[INDEX["watch_steps"], 150] == pytest.approx(30 + 2)  # the long sample passes twice
    assert day.values[INDEX["watch_hr"], 150] == 1.5
    assert sum(total(d, "sleep_asleep") for d in days.values()) == 8 * 60  # the wall clock's eight hours


def test_travel_follows_the_offset_of_each_record(tmp_path):
    elements = [
        steps(f"{DAY} 09:00 +0200", f"{DAY} 09:10 +0200", 100),
        steps(f"{DAY} 12:00 -0400", f"{DAY} 12:10 -0400", 50),
        sleep(f"{DAY} 11:00 +0200", f"{DAY} 08:00 -0400", "Asleep"),
    ]
    day = read(tmp_path, *elements)[DAY]
    assert day.values[INDEX["watch_steps"], [540, 720]].tolist() == [10, 5]
    assert total(day, "sleep_asleep") == 3 * 60  # true hours, from where they began
    assert not np.isnan(day.values[INDEX["watch_steps"]]).any()
    day = read(tmp_path, *elements, zone="Europe/Berlin")[DAY]
    assert day.values[INDEX["watch_steps"], [540, 1080]].tolist() == [10, 5]


# -- what silence means


def test_a_person_with_a_phone_only_has_no_watch(tmp_path):
    day = read(tmp_path, steps(f"{DAY} 10:00", f"{DAY} 10:01", 50, device=made.PHONE))[DAY]
    wanted = {"iphone_steps", "iphone_distance", "iphone_flights"} | {
        n for n in NAMES if n.startswith("workout")
    }
    assert measured(day) == wanted
    assert np.isnan(day.values[list(DEVICE_GROUPS["watch"])]).all()


def test_absent_missing_keeps_every_unrecorded_minute_missing(tmp_path):
    day = read(tmp_path, steps(f"{DAY} 10:00", f"{DAY} 10:02", 50), absent="missing")[DAY]
    assert np.flatnonzero(~np.isnan(day.values).all(axis=0)).tolist() == [600, 601]


def test_a_day_worn_with_heart_rate_every_few_minutes_is_retained(tmp_path):
    at = [f"{DAY} {m // 60:02}:{m % 60:02}" for m in range(60, 22 * 60, 9)]
    days = read(
        tmp_path,
        *[heart(a, 55 + i % 50) for i, a in enumerate(at)],
        *[steps(a, a, 30) for a in at[40::3]],
        heart("2024-05-02 09:00", 70),
    )
    nonwear = np.array([day.nonwear_minutes for day in days.values()])
    assert nonwear.tolist() == [180, 1380]
    assert clean.enough_wear(nonwear).tolist() == [True, False]


def test_beats_inside_a_record_are_no_records(tmp_path):
    tally = Tally()
    beats = element("InstantaneousBeatsPerMinute", {"bpm": "60", "time": "10:00:00.12"})
    inside = element("HeartRateVariabilityMetadataList", {}, beats * 3)
    kind = "HKQuantityTypeIdentifierHeartRateVariabilitySDNN"
    variability = record(kind, f"{DAY} 10:00", f"{DAY} 10:01", 40, unit="ms", inside=inside)
    days = read(tmp_path, variability, steps(f"{DAY} 10:00", f"{DAY} 10:01", 7), tally=tally)
    assert tally.read == {"HeartRateVariabilitySDNN": 1, "StepCount": 1}
    assert total(days[DAY], "watch_steps") == 7
    balance(tally)


def test_an_export_without_records_has_no_days(tmp_path):
    tally = Tally()
    assert (
        read(
            tmp_path,
            record("HKQuantityTypeIdentifierBodyMass", f"{DAY} 10:00", f"{DAY} 10:00", 70, unit="kg"),
            tally=tally,
        )
        == {}
    )
    assert tally.skipped == {("BodyMass", "not one of the channels"): 1}


# -- options, breaks, privacy, size


@pytest.mark.parametrize("option", [{"absent": "zeros"}, {"zone": "Mars/Olympus"}])
def test_unknown_options_fail_at_the_call(tmp_path, option):
    with pytest.raises(ConfigError):
        apple_health.read_days(tmp_path / "never-opened.zip", tally=Tally(), **option)


def test_participant_and_source(tmp_path):
    day = read(tmp_path, steps(f"{DAY} 10:00", f"{DAY} 10:01", 5), participant="p-17")[DAY]
    assert (day.participant, day.source) == ("p-17", "apple_health")


def test_a_truncated_document_raises_or_keeps_what_it_has(tmp_path):
    full = made.document(*[steps(f"{DAY} 10:{m:02}", f"{DAY} 10:{m:02}", 10) for m in range(60)])
    with pytest.raises(
        SourceError,
        match=r"export\.xml: .*breaks off at byte .*; 5\d records came before, none was kept; keep_partial",
    ):
        read(tmp_path, full[: len(full) - 1000])
    tally = Tally()
    day = read(tmp_path, full[: len(full) - 1000], tally=tally, keep_partial=True)[DAY]
    assert 500 <= total(day, "watch_steps") < 600
    assert (tally.partial or "").startswith("the XML breaks off")  # without the name of the file
    assert "were kept" in (tally.partial or "")
    balance(tally)


@pytest.mark.parametrize("depth", [20, 10_000])
def test_deep_nesting(tmp_path, depth):
    elements = ["<Correlation>" * depth + "</Correlation>" * depth, steps(f"{DAY} 10:00", f"{DAY} 10:01", 5)]
    if depth > 64:
        with pytest.raises(SourceError, match="nested"):
            read(tmp_path, *elements)
    else:
        assert total(read(tmp_path, *elements)[DAY], "watch_steps") == 5


def test_nothing_personal_leaves_the_reader(tmp_path, caplog):
    words = [made.OWNER, "Quist", made.BORN, "Strava of Rosalind", "Rosalind"]
    elements = [
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 5),
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 5, device=None, source="Strava of Rosalind"),
        record("Rosalind's own type", f"{DAY} 10:00", f"{DAY} 10:01", 5, source=made.OWNER),
        workout(f"{DAY} 10:00", f"{DAY} 10:01", "Rosalind's sport"),
        record(made.SLEEP, f"{DAY} 10:00", f"{DAY} 10:01", "Rosalind’s nap"),
        element("ClinicalRecord", {"identifier": made.OWNER}),
    ]
    tally = Tally()
    days = read(tmp_path, *elements, tally=tally)
    shown = json.dumps(tally.as_dict(), ensure_ascii=False) + repr(days) + caplog.text
    broken = [made.document(*elements)[:-60], made.document(*elements).replace(b"Quist", b"&quist;")]
    broken.append(made.document(*elements, record(made.ENERGY, f"{DAY} 10:00", f"{DAY} 10:01", 1, unit="x")))
    for data in broken:
        with pytest.raises(SourceError) as caught:
            read(tmp_path, data)
        shown += str(caught.value)
    assert not [word for word in words if word in shown]


def test_a_store_and_what_the_command_prints_hold_nothing_personal(tmp_path, capfd):
    elements = [
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 5),
        steps(f"{DAY} 10:00", f"{DAY} 10:01", 5, device=None, source="Strava of Rosalind"),
        sleep(f"{DAY} 01:00", f"{DAY} 05:00", "AsleepCore", source=f"{made.OWNER}’s Bed", device=None),
        record("Rosalind", f"{DAY} 10:00", f"{DAY} 10:01", 5),
        element("Rosalind", {"name": made.OWNER}),
        workout(f"{DAY} 10:00", f"{DAY} 10:01", "Quist’s sport", source=made.OWNER),
    ]
    route = f"<gpx><name>{made.OWNER}</name><trkpt lat='52.5163'/></gpx>".encode()
    file = made.zipped(
        tmp_path / "export.zip",
        {"a/export.xml": made.document(*elements), "a/workout-routes/r.gpx": route,
         "a/electrocardiograms/e.csv": f"Name,{made.OWNER}\nDate of Birth,{made.BORN}".encode()},
    )  # fmt: skip
    cli.main(
        [
            "data",
            "import",
            "apple-health",
            str(file),
            "--out",
            str(tmp_path / "days"),
            "--include-third-party",
        ]
    )
    shown = "".join(capfd.readouterr()).encode()
    stored = b"".join(f.read_bytes() for f in sorted((tmp_path / "days").rglob("*")) if f.is_file())
    assert b"watch_steps" in shown
    for text in (shown, stored):
        for word in ("Rosalind", "Quist", made.BORN, "Strava", "52.5163", "HKDevice"):
            assert word.encode() not in text
            assert word.encode("utf-16-le") not in text


def test_the_report_of_a_channel(tmp_path):
    """Read, used, left out, first and last day, days with data; why is told by channel too."""
    tally = Tally()
    walk = steps("2024-05-03 10:00", "2024-05-03 10:01", 7)
    read(
        tmp_path, walk, walk, steps("2024-05-03 11:00", "2024-05-03 11:01", -1),
        steps("2024-05-05 23:59", "2024-05-06 00:01", 8), steps(f"{DAY} 10:00", f"{DAY} 10:01", 5, device=made.PHONE),
        sleep("2024-05-05 10:00", "2024-05-05 10:00", "InBed"), tally=tally,
    )  # fmt: skip
    rows = {row.pop("channel"): tuple(row.values()) for row in tally.channel_rows()}
    assert rows == {
        "watch_steps": ("4", "2", "2", "2024-05-03", "2024-05-06", "3"),
        "iphone_steps": ("1", "1", "0", DAY, DAY, "1"),
        "sleep_inbed": ("1", "0", "1", "", "", "0"),
    }
    assert tally.skipped == {
        ("watch_steps", "exact repeat"): 1, ("watch_steps", "negative value"): 1, ("sleep_inbed", "no length"): 1,
    }  # fmt: skip
    assert tally.as_dict()["spans"]["watch_steps"] == {"first": "2024-05-03", "last": "2024-05-06", "days": 3}


def test_importing_again_gives_the_same_store(tmp_path):
    file = tmp_path / "export.xml"
    file.write_bytes(
        made.document(*[steps(f"{DAY} {h:02}:10", f"{DAY} {h:02}:17", 13 * h + 1) for h in range(24)])
    )
    stores = [
        importing.import_days("apple-health", file, tmp_path / "days", overwrite=True).store for _ in range(2)
    ]
    assert len(stores[0]) == len(stores[1]) == 1
    np.testing.assert_array_equal(stores[0].values(0), stores[1].values(0))
    assert stores[0].meta["provenance"] == stores[1].meta["provenance"]


def test_memory_does_not_grow_with_the_file(tmp_path):
    def peak(n: int) -> int:
        file = tmp_path / f"{n}.xml"
        second = [f"{DAY} {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}" for i in range(n)]
        file.write_bytes(made.document(*[heart(at, 60 + i % 90) for i, at in enumerate(second)]))
        tracemalloc.start()
        made.days_of(file)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)  # what is imported once
    few, many = peak(4_500), peak(15_000)
    # The file grows by 4.5 MB; what may grow is 8 bytes a record, for repeats.
    assert many - few < 1_000_000


bouts = st.lists(
    st.tuples(st.integers(0, 2 * 86_400), st.integers(0, 3600), st.integers(0, 5000)),
    min_size=1,
    max_size=12,
    unique_by=lambda bout: bout[:2],
)


@given(bouts, st.sampled_from(["record", "Europe/Berlin", "America/New_York"]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_totals_are_kept_over_clock_changes(tmp_path, bouts, zone):
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    first = dt.datetime(2024, 10, 26, 12, tzinfo=dt.UTC)

    def at(second):
        return (first + dt.timedelta(seconds=second)).astimezone(berlin).strftime("%Y-%m-%d %H:%M:%S %z")

    days = read(tmp_path, *[steps(at(s), at(s + length), v) for s, length, v in bouts], zone=zone)
    wanted = sum(v for *_, v in bouts)
    assert sum(total(day, "watch_steps") for day in days.values()) == pytest.approx(wanted, rel=1e-5)


def test_batches_do_not_change_the_result(tmp_path, monkeypatch):
    elements = [
        *spring_night(),
        *third_party(),
        *(sleep(f"{DAY} 0{h}:00", f"{DAY} 0{h}:40", "InBed") for h in range(9)),
    ]
    elements += [steps(f"{DAY} 1{h}:00", f"{DAY} 1{h}:30", 7, inside=by_hand()) for h in range(9)] * 2
    tallies, results = (Tally(), Tally()), []
    for batch, tally in zip((4096, 2), tallies, strict=True):
        monkeypatch.setattr(apple_health_records, "BATCH", batch)
        results.append(read(tmp_path, *elements, tally=tally))
    assert tallies[0] == tallies[1]
    for one, other in itertools.zip_longest(*(result.values() for result in results)):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-6)
