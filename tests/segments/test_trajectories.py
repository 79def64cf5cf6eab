"""A participant's whole record in hours, from a store of days and from an OpenMHC data root."""

from __future__ import annotations

import datetime as dt
import pickle

import numpy as np
import pyarrow as pa
import pytest
from made_days import FIRST_DATE, made_cohort, made_day
from openmhc_root import write_openmhc_root, write_trajectories

from wearjax.day import Day
from wearjax.days import clean, hourly, importing
from wearjax.days.open import open_days
from wearjax.days.store import DayStoreWriter
from wearjax.errors import ConfigError, SourceError
from wearjax.segments import trajectories
from wearjax.sources import openmhc, openmhc_trajectories


def write_store(path, days):
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(days)
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """`gaps` lacks three weeks, `one` has one day, `b` a day that fails the wear filter."""
    days = [made_day("gaps", d) for d in (0, 1, 23, 24)]
    days += [made_day("one", 5), made_day("b", 0), made_day("b", 1, nonwear=900.0)]
    return write_store(tmp_path_factory.mktemp("data") / "days", days)


def test_hours_of_all_days_lie_on_the_calendar(store):
    records = trajectories.open_trajectories(store)
    assert records.participants == ("b", "gaps", "one")
    found = records.get("gaps")
    assert found.first_day == FIRST_DATE
    assert found.values.shape == (19, 25 * 24)
    assert found.values.dtype == np.float32
    assert np.isnan(found.values[:, 48 : 23 * 24]).all()
    assert found.retained.tolist() == [True, True, *[False] * 21, True, True]
    wanted = hourly.aggregate(clean.zero_to_nan(made_day("gaps", 23).values))
    flags = [9, 10]  # never emptied by the rule of the whole record
    np.testing.assert_array_equal(found.values[flags, 23 * 24 : 24 * 24], wanted[flags])


def test_a_day_below_the_filters_is_there_and_not_retained(store):
    found = trajectories.open_trajectories(store).get("b")
    assert np.isfinite(found.values[5, 24:]).any()
    assert found.retained.tolist() == [True, False]


def test_one_day_is_a_record(store):
    records = trajectories.open_trajectories(store)
    assert records.n_days("one") == 1
    assert records.get("one").values.shape == (19, 24)
    assert records.first_day("one") == FIRST_DATE + dt.timedelta(days=5)
    assert [r.participant for r in records] == list(records.participants)
    assert records[2].participant == "one"


def test_only_some_participants(store):
    records = trajectories.open_trajectories(open_days(store), participants=["one", "nobody"])
    assert records.participants == ("one",)
    assert "gaps" not in records
    with pytest.raises(ConfigError, match=r"'gaps': has no trajectory"):
        records.get("gaps")


def test_the_digest_follows_the_data(store, tmp_path):
    same = trajectories.open_trajectories(store)
    other = trajectories.open_trajectories(write_store(tmp_path / "other", [made_day("one", 5, seed=1)]))
    assert same.digest(("one",)) == trajectories.open_trajectories(store).digest(("one",))
    assert len({same.digest(("one",)), same.digest(("b",)), other.digest(("one",))}) == 3


def hours_of(n_days: int, seed: int) -> np.ndarray:
    """Stored hours: time-major; zeros where devices wrote them, NaN where a day is absent."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 50, (n_days * 24, 19)).astype(np.float32)
    values[:, 7:] = rng.random((n_days * 24, 12)) < 0.3
    values[::5, 5] = 0
    return values


@pytest.fixture
def root(tmp_path):
    days = made_cohort(3, 1)
    ids = [day.participant for day in days]
    path = write_openmhc_root(
        tmp_path / "root", days, {"train": ids[:1], "validation": ids[1:2], "test": ids[2:]}
    )
    long, short = hours_of(30, 1), hours_of(2, 2)
    long[:, 0] = 0  # not carried at all
    long[48:72] = np.nan
    short[:24, 0] = 0  # on the first day only
    hours = {
        "z": (dt.date(2020, 1, 1), long),
        "a": (dt.date(2021, 5, 5), short),
        "m": (dt.date(2020, 2, 2), short),
    }
    retained = {"z": ["2020-01-01", "2020-01-05", "2019-12-31", "2020-03-01"], "a": ["2021-05-06"]}
    return write_trajectories(path, hours, retained)


def test_rows_of_a_root_are_trajectories(root):
    records = trajectories.open_trajectories(root)
    assert records.participants == ("a", "m", "z")
    assert records.stored_order == ("z", "a", "m")
    found = records.get("z")
    assert (found.first_day, found.values.shape) == (dt.date(2020, 1, 1), (19, 720))
    assert np.flatnonzero(found.retained).tolist() == [0, 4]
    assert np.isnan(found.values[:, 48:72]).all()
    present = np.r_[:48, 72:720]
    np.testing.assert_array_equal(found.values[1, present], hours_of(30, 1)[present, 1])
    assert records.get("m").retained.tolist() == [False, False]


def test_zeros_mean_missing_by_the_whole_record(root):
    records = trajectories.open_trajectories(root)
    long, short = records.get("z").values, records.get("a").values
    assert np.isnan(long[0]).all()
    assert np.isnan(long[5, ::5]).all()
    assert (short[0, :24] == 0).all()  # carried on the second day, so a zero is a zero
    stored = hours_of(30, 1)
    assert np.nansum(stored[:, 7]) > 180
    assert (long[7, :48] == stored[:48, 7]).all()  # more than 180 hours of sleep: zeros count
    assert not (short[7] == 0).any()  # fewer: they are missing
    assert set(np.unique(short[9])) == {0, 1}


def test_opened_days_of_a_root_lead_to_its_trajectories(root):
    records = trajectories.open_trajectories(open_days(root), participants=["a", "z"])
    assert records.participants == ("a", "z")
    again = pickle.loads(pickle.dumps(records))
    np.testing.assert_array_equal(again.get("z").values, records.get("z").values)
    assert again.participants == records.participants
    assert again.digest(("a",)) == records.digest(("a",)) != records.digest(("z",))


def test_a_root_without_trajectories_says_so(tmp_path):
    days = made_cohort(3, 1)
    ids = [day.participant for day in days]
    root = write_openmhc_root(
        tmp_path / "root", days, {"train": ids[:1], "validation": ids[1:2], "test": ids[2:]}
    )
    with pytest.raises(SourceError, match=r"hourly_trajectory: no such folder"):
        trajectories.open_trajectories(root)
    write_trajectories(root, {"a": (dt.date(2020, 1, 1), hours_of(1, 0)[:-1])}, {})
    with pytest.raises(SourceError, match=r"user a has 437 numbers; expected whole days"):
        trajectories.open_trajectories(root).get("a")
    (root / "forecasting_sample_index" / "day_remain_mask.json").unlink()
    with pytest.raises(SourceError, match=r"day_remain_mask.json: not found"):
        trajectories.open_trajectories(root)._retained_dates  # noqa: B018


def test_channels_in_another_order_are_refused_as_among_the_minute_rows(root):
    (file, *_) = sorted((root / "hourly_trajectory").glob("*.arrow"))
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    column = table.schema.get_field_index("channel_names")
    table = table.set_column(column, "channel_names", pa.array([["steps"] * 19] * len(table)))
    with pa.ipc.new_stream(str(file), table.schema) as stream:
        stream.write_table(table)
    with pytest.raises(SourceError, match="hourly_trajectory: channel 'steps' stands where 'hk_iphone:HK"):
        trajectories.open_trajectories(root)


def short_nights(day: int) -> Day:
    """Fourteen minutes of sleep in each of twelve hours (168, so below the threshold of a day); no phone on day 3."""
    made = made_day("a", day, nonwear=900.0 if day == 5 else 60.0)
    made.values[7] = np.tile(np.arange(60) < 14, 24) & (np.arange(1440) < 720)
    made.values[0] *= day != 3
    return made


def test_a_store_has_the_trajectories_of_the_root_it_came_from(tmp_path):
    days = [short_nights(day) for day in range(18) if day not in (7, 8)]
    days += [made_day(user, day) for user in ("b", "c") for day in range(2)]
    root = write_openmhc_root(tmp_path / "root", days, {"train": ["a"], "validation": ["b"], "test": ["c"]})
    hours, retained = {}, {}
    for user in "abc":
        own = [day for day in days if day.participant == user]
        first = own[0].date
        record = np.full(((own[-1].date - first).days + 1, 24, 19), np.nan, np.float32)
        for day in own:
            minutes = day.values.copy()
            minutes[5, minutes[5] == 0] = np.nan  # an hour is the mean of its readings
            record[(day.date - first).days] = hourly.aggregate(minutes).T
        hours[user] = first, record.reshape(-1, 19)
        retained[user] = [day.date.isoformat() for day in own if day.nonwear_minutes < 720]
    write_trajectories(root, hours, retained)
    importing.import_days("openmhc", root, tmp_path / "store")
    theirs, ours = trajectories.open_trajectories(root), trajectories.open_trajectories(tmp_path / "store")
    assert ours.participants == theirs.participants
    for wanted, found in zip(theirs, ours, strict=True):
        assert found.first_day == wanted.first_day
        np.testing.assert_array_equal(found.values, wanted.values)
        np.testing.assert_array_equal(found.retained, wanted.retained)
    recorded = np.repeat([day not in (7, 8) for day in range(18)], 24)
    values = ours.get("a").values
    assert np.isfinite(values[:, recorded][[0, 7]]).all()  # 192 hours of sleep, and a phone on other days
    assert np.isnan(values[:, ~recorded]).all()
    assert not (ours.get("b").values[7] == 0).any()


class Array2D(pa.ExtensionType):
    """What `datasets` makes of a column of arrays."""

    def __init__(self):
        super().__init__(pa.list_(pa.list_(pa.float32())), "test.array2d")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


def test_arrays_of_an_extension_type_are_read(tmp_path, monkeypatch):
    stored = hours_of(1, 3)
    values = pa.ExtensionArray.from_storage(
        Array2D(), pa.array([[row.tolist() for row in stored]], pa.list_(pa.list_(pa.float32())))
    )
    table = pa.table({"user_id": ["u"], "values": values, "timestamps": [["2020-01-01T00:00:00"]]})
    monkeypatch.setattr(openmhc, "open_table", lambda folder: table)
    rows = openmhc_trajectories.TrajectoryRows(tmp_path)
    np.testing.assert_array_equal(rows.values(0), stored)
    assert rows.first_day(0) == dt.date(2020, 1, 1)
