"""Daily metrics of minute days: each rule on days whose answer is known."""

import datetime as dt

import numpy as np
import pytest
from made_days import FIRST_DATE, made_day

from wearjax import channels
from wearjax.daily_metrics import INDEX
from wearjax.day import SHAPE, Day
from wearjax.days.store import DayStoreWriter
from wearjax.segments import daily_records


def store_of(path, days):
    with DayStoreWriter(path, provenance={}, days_per_shard=4) as writer:
        writer.add_all(days)
    from wearjax.days.store import DayStore

    return DayStore(path)


def day(offset, **minutes):
    """A day whose channels hold a value over a range of minutes: `name=(first, stop, value)`, or a list of them."""
    values = np.full(SHAPE, np.nan, np.float32)
    for name, spans in minutes.items():
        values[channels.INDEX[name]] = 0
        for first, stop, value in [spans] if isinstance(spans, tuple) else spans:
            values[channels.INDEX[name], first:stop] = value
    return Day(values, "p", FIRST_DATE + dt.timedelta(days=offset), 0.0, "made")


def metrics(tmp_path, *days, **options):
    (record,) = daily_records.of_days(store_of(tmp_path / "s", days), **options)
    return record, lambda key: record.values[:, INDEX[key]].tolist()


def test_activity(tmp_path):
    first = day(
        0,
        watch_steps=(600, 700, 50),
        iphone_steps=(600, 700, 99),
        watch_energy=(600, 700, 4000),
        watch_hr=[(0, 600, 1.0), (600, 700, 2.0), (700, 800, 1.5)],
        workout_running=(600, 640, 1),
        workout_yoga=[(645, 650, 1), (1000, 1020, 1)],
    )
    second = day(1, iphone_steps=(600, 610, 10), watch_hr=(0, 30, 1.0))
    record, column = metrics(tmp_path, first, second)
    assert column("steps") == [5000, 100]
    assert column("active_burn") == pytest.approx([400, np.nan], nan_ok=True)
    assert column("exercise_count") == [2, 0]  # a pause of five minutes does not end a workout
    assert column("exercise_hours") == pytest.approx([65 / 60, np.nan], nan_ok=True)
    assert column("exercise_avg_hr") == pytest.approx([120, np.nan], nan_ok=True)
    assert column("rhr") == pytest.approx([60, np.nan], nan_ok=True)  # half an hour is too little
    for key in (
        "hrv",
        "vo2_max",
        "deep_percentage",
        "rem_percentage",
        "calories_bmr",
        "avg_stress_level",
        "exercise_mets",
    ):
        assert np.isnan(record.values[:, INDEX[key]]).all()


def test_nights_belong_to_the_day_on_which_they_end(tmp_path):
    nights = [
        day(
            i,
            sleep_asleep=[(0, 420, 1), (1440 - 30 - i, 1440, 1)],
            sleep_inbed=[(0, 430, 1), (1380, 1440, 1)],
        )
        for i in range(6)
    ]
    _record, column = metrics(tmp_path, *nights[:3], *nights[4:])
    duration = column("sleep_duration")
    assert np.isnan(duration[0])
    assert np.isnan(duration[3])
    assert duration[1:3] == pytest.approx([450 / 60, 451 / 60])
    assert column("sleep_efficiency")[1] == pytest.approx(100 * 450 / 490)
    assert np.isnan(column("bed_time_std")).all()  # three nights are known
    _again, column = metrics(tmp_path / "all", *nights)
    assert column("bed_time_std")[4] == pytest.approx(np.std([0, 1, 2, 3], ddof=1))
    assert np.isnan(column("bed_time_std")[:4]).all()


def test_who_never_trains_has_no_count_of_zero(tmp_path):
    _, column = metrics(tmp_path, day(0, watch_steps=(0, 10, 5)), day(1, watch_steps=(0, 10, 5)))
    assert np.isnan(column("exercise_count")).all()


def test_people_come_with_their_profile(tmp_path):
    days = [made_day(p, d) for p in ("b", "a") for d in range(2)]
    seen = []
    records = list(
        daily_records.of_days(
            store_of(tmp_path / "s", days),
            demographics={"a": {"birth_year": 1980, "sex": "female"}, "b": {"birth_year": None, "sex": None}},
            progress=lambda done, total: seen.append((done, total)),
        )
    )
    assert [record.user for record in records] == ["a", "b"]
    assert (records[0].demographics.age, records[0].demographics.sex) == (41.0, "female")
    assert records[1].demographics.age is None
    assert seen[-1] == (4, 4)
    assert records[0].dates.tolist() == [(FIRST_DATE - dt.date(1970, 1, 1)).days + i for i in range(2)]
