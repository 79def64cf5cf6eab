"""Percentiles of the cohort: every person counts alike, and comparison stays among peers where there are enough."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.benchmarks.wearableqa import cohort
from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.errors import ConfigError
from wearjax.segments.daily_records import HeldRecords
from wearjax.sources.daily_record import DailyRecord, Demographics


def record(user, rhr, *, days=28, age=None, sex=None):
    """One metric that never changes."""
    values = np.full((days, N_METRICS), np.nan)
    values[:, INDEX["rhr"]] = rhr
    return DailyRecord(user, np.arange(days), values, Demographics(age, sex))


def test_percentiles_are_those_of_window_means():
    reference = cohort.of_records(record(f"u{i}", 50.0 + i) for i in range(41))
    found = reference.percentiles["rhr"]
    assert found["min"] == 50
    assert found["p50"] == 70
    assert found["max"] == 90
    assert found["p25"] == pytest.approx(50 + 0.25 * 41 - 0.5)
    assert set(reference.percentiles) == {"rhr"}
    assert reference.statistic("rhr", "p50") == 70
    assert np.isnan(reference.statistic("hrv", "p50"))


def test_a_long_record_counts_no_more_than_a_short_one():
    reference = cohort.of_records([record("long", 80.0, days=28 * 9), record("a", 60.0), record("b", 50.0)])
    assert len(reference.values["rhr"]) == 11
    # Shares below: 1/6 at 50, 1/2 at 60, and from 2/3 + 1/54 on at 80, where the long record begins.
    begins = 2 / 3 + 1 / 54
    assert reference.statistic("rhr", "p50") == pytest.approx(60)
    assert reference.statistic("rhr", "p25") == pytest.approx(np.interp(0.25, [1 / 6, 1 / 2], [50, 60]))
    assert reference.statistic("rhr", "p75") == pytest.approx(np.interp(0.75, [1 / 2, begins], [60, 80]))


def test_a_window_needs_its_days():
    def there(gone: slice) -> bool:
        made = record("gappy", 60.0)
        values = made.values.copy()
        values[gone] = np.nan
        return "rhr" in cohort.of_records([dataclasses.replace(made, values=values)]).percentiles

    assert not there(slice(0, 9))  # 19 days of a dense metric
    assert not there(slice(0, 8))  # 20 days, but 6 in the first half
    assert not there(slice(6, 14))
    assert there(slice(8, 14))


def test_peers_are_of_the_same_sex_and_age_band_where_200_are():
    people = [record(f"w{i}", 60.0 + i / 100, age=35, sex="Female") for i in range(200)]
    people += [record(f"m{i}", 80.0 + i / 100, age=65, sex="male") for i in range(199)]
    reference = cohort.of_records(people)
    alone = cohort.of_records(people[:200]).percentiles["rhr"]
    every = reference.percentiles["rhr"]
    assert reference.of_peers("rhr", age=33, sex="female") == alone
    for name in cohort.STATISTICS:
        assert reference.statistic("rhr", name, age=39, sex="FEMALE") == alone[name]
        for age, sex in (
            (65, "male"),
            (65, "female"),
            (33, "male"),
            (None, "female"),
            (33, None),
            (29, "female"),
        ):
            assert reference.statistic("rhr", name, age=age, sex=sex) == every[name]  # 199 at most: all
    assert reference.of_peers("steps", age=33, sex="female") == {}
    assert np.isnan(reference.statistic("steps", "p50", age=33, sex="female"))


def test_200_peers_are_people_and_not_windows():
    few = [record(f"w{i}", 60.0 + i, days=28 * 12, age=35, sex="female") for i in range(20)]
    reference = cohort.of_records([*few, record("m", 90.0, age=35, sex="male")])
    assert len(reference.values["rhr"]) == 241
    assert reference.of_peers("rhr", age=35, sex="female") == {}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(40, 100), min_size=1, max_size=12))
def test_percentiles_rise_within_the_values(levels):
    reference = cohort.of_records(record(f"u{i}", level) for i, level in enumerate(levels))
    found = [reference.statistic("rhr", name) for name in ("min", "p10", "p25", "p50", "p75", "p90", "max")]
    assert found == sorted(found)
    assert found[0] == pytest.approx(min(levels))
    assert found[-1] == pytest.approx(max(levels))


def test_json_gives_the_same_cohort():
    reference = cohort.of_records([record("a", 61.25, age=40, sex="male"), record("b", 70.0)])
    again = cohort.CohortReference.from_json(reference.to_json())
    assert again.percentiles == reference.percentiles
    assert again.users == reference.users
    assert again.age[0] == 40
    assert again.sex == reference.sex
    with pytest.raises(ConfigError, match="cohort"):
        cohort.CohortReference.from_json({"users": []})


def test_unknown_names_are_refused():
    reference = cohort.of_records([record("a", 60.0)])
    with pytest.raises(ConfigError, match="p33"):
        reference.statistic("rhr", "p33")
    assert np.isnan(reference.statistic("pulse", "p50"))


def test_of_a_store_the_cohort_is_taken():
    held = HeldRecords(record(f"u{i:04d}", 50.0 + i % 40) for i in range(1000))
    assert len(held.asked()) == 200
    assert len(held.cohort()) == 800
    assert not set(held.asked()) & set(held.cohort())
    assert cohort.of_store(held).users == held.cohort()
    few = HeldRecords(record(f"u{i}", 60.0) for i in range(5))
    assert few.asked() == few.cohort() == few.users()
    assert cohort.of_store(few, users=["u3"]).users == ("u3",)
