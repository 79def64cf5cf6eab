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
    assert reference.percentile_of("rhr", 70) == pytest.approx(50)
    assert reference.percentile_of("rhr", 49) == 0
    assert reference.percentile_of("rhr", 91) == 100
    assert np.isnan(reference.percentile_of("steps", 1))
    assert np.isnan(reference.percentile_of("rhr", np.nan))
    assert reference.statistic("rhr", "p50") == 70
    assert np.isnan(reference.statistic("hrv", "p50"))


def test_a_long_record_counts_no_more_than_a_short_one():
    reference = cohort.of_records([record("long", 80.0, days=28 * 9), record("a", 60.0), record("b", 50.0)])
    assert len(reference.values["rhr"]) == 11
    assert reference.percentile_of("rhr", 70) == pytest.approx(
        100 * np.interp(70, [60, 80], [1 / 2, 2 / 3 + 1 / 54])
    )


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
    assert reference.percentile_of("rhr", 62.5, age=33, sex="female") == 100
    assert reference.percentile_of("rhr", 62.5, age=65, sex="female") == 100  # of the sex only
    assert reference.percentile_of("rhr", 62.5, age=39) == 100  # of the age band only
    assert 50 < reference.percentile_of("rhr", 62.5, age=65, sex="male") < 51  # 199: all
    assert len(reference.peers("rhr", age=33, sex="female")) == 200
    assert len(reference.peers("rhr", age=65, sex="male")) == 399


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(40, 100), min_size=1, max_size=12), st.floats(30, 110), st.floats(30, 110))
def test_a_larger_value_never_stands_lower(levels, a, b):
    reference = cohort.of_records(record(f"u{i}", level) for i, level in enumerate(levels))
    low, high = sorted((a, b))
    assert 0 <= reference.percentile_of("rhr", low) <= reference.percentile_of("rhr", high) <= 100


def test_json_gives_the_same_cohort():
    reference = cohort.of_records([record("a", 61.25, age=40, sex="male"), record("b", 70.0)])
    again = cohort.CohortReference.from_json(reference.to_json())
    assert again.percentiles == reference.percentiles
    assert again.users == reference.users
    assert again.percentile_of("rhr", 64) == reference.percentile_of("rhr", 64)
    with pytest.raises(ConfigError, match="cohort"):
        cohort.CohortReference.from_json({"users": []})


def test_unknown_names_are_refused():
    reference = cohort.of_records([record("a", 60.0)])
    with pytest.raises(ConfigError, match="p33"):
        reference.statistic("rhr", "p33")
    with pytest.raises(ConfigError, match="pulse"):
        reference.percentile_of("pulse", 60)


def test_of_a_store_the_cohort_is_taken():
    held = HeldRecords(record(f"u{i:04d}", 50.0 + i % 40) for i in range(1000))
    assert len(held.asked()) == 200
    assert len(held.cohort()) == 800
    assert not set(held.asked()) & set(held.cohort())
    assert cohort.of_store(held).users == held.cohort()
    few = HeldRecords(record(f"u{i}", 60.0) for i in range(5))
    assert few.asked() == few.cohort() == few.users()
    assert cohort.of_store(few, users=["u3"]).users == ("u3",)
