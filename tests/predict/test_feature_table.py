"""The joined 495 features: their names, and an extraction that is the same however it is run."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from made_feature_days import ListedDays, busy_day

from wearjax.errors import ConfigError, StoreError
from wearjax.predict.features import curves, daily, dynamics, table, timing


def expected_names() -> set[str]:
    """The published names, spelled out from their rules."""
    pi = ("p50", "iqr")
    sums = (
        "iphone_steps",
        "iphone_distance",
        "iphone_flights",
        "watch_steps",
        "watch_distance",
        "watch_energy",
    )
    names = [f"{s}_{q}" for s in sums for q in ("p5", "p50", "p95", "iqr")]
    names += ["watch_hr_p5_p50", "watch_hr_median_p50", "watch_hr_p95_p50", "watch_hr_iqr"]
    names += [
        "hr_daytime_p50",
        "hr_nighttime_p50",
        "hr_p95_p50",
        "hr_daytime_nighttime_ratio",
        "hr_peak_rest_ratio",
    ]
    kinds = ("active", "sedentary", "light", "moderate", "vigorous", "wake_sedentary")
    names += [f"{d}_{kind}_minutes_{q}" for d in ("watch", "iphone") for kind in kinds for q in pi]
    names += ["watch_gait_efficiency_p50", "iphone_gait_efficiency_p50", "step_sync_ratio_p50"]
    names += ["workout_minutes_p50", "workout_minutes_iqr", "workout_density", "workout_specialization_p50"]
    workouts = "walking cycling running other mixed_cardio strength elliptical hiit functional yoga"
    names += ["cardio_strength_ratio", *(f"workout_freq_{kind}" for kind in workouts.split())]
    names += ["hr_max_p50", "hr_max_p95", "pct_days_hr_80pct_achieved"]
    names += [
        "hr_at_workout_end_p50",
        "hr_recovery_1min_p50",
        "hr_recovery_5min_p50",
        "hr_recovery_10min_p50",
    ]
    names += [
        "hr_recovery_ratio_p50",
        "hr_recovery_5min_iqr",
        "hr_at_workout_start_p50",
        "hr_activation_5min_p50",
    ]
    names += ["hr_activation_10min_p50", "hr_activation_ratio_p50", "hros_p50", "hros_iqr"]
    names += ["rhr_p5_rmssd", "rhr_median_rmssd"]
    names += [f"{s}_{q}" for s in ("sleep_minutes", "inbed_minutes", "sleep_efficiency") for q in pi]
    names += [f"{s}_{q}" for s in ("wake", "bedtime", "sleep_midpoint") for q in (*pi, "mad_proxy")]
    names += [f"nighttime_{s}_{q}" for s in ("watch_steps", "iphone_steps", "energy") for q in pi]
    names += [
        f"presleep_{s}_{q}" for s in ("watch_steps", "iphone_steps", "energy") for q in ("p50", "median_p50")
    ]
    names += [f"{s}_{w}_p50" for s in ("sleep_minutes", "bedtime", "wake") for w in ("weekend", "weekday")]
    names += ["sleep_weekend_weekday_ratio", "bedtime_weekend_shift", "wake_weekend_shift", "social_jet_lag"]
    for q in ("watch_steps", "watch_energy", "iphone_steps"):
        names += [f"{q}_{part}_p50" for part in ("morning", "afternoon", "evening", "night")]
        names += [f"chronotype_morning_ratio_{q}", f"activity_day_night_ratio_{q}", f"acrophase_{q}_p50"]
        names += [f"acrophase_{q}_spread", f"social_jetlag_{q}", f"is_{q}", f"iv_{q}_p50"]
        names += [f"l5_{q}", f"l5_onset_{q}", f"m10_{q}", f"m10_onset_{q}", f"ra_{q}"]
    assert len(names) == 177
    series = "watch_steps_sum iphone_steps_sum iphone_flights_sum watch_distance_sum iphone_distance_sum"
    series += " watch_hr_median watch_hr_p5 watch_hr_p95 watch_energy_sum sleep_minutes inbed_minutes"
    series += " watch_active_minutes iphone_active_minutes workout_minutes"
    moments = ["N", "RMS", "VAR", "STD", "POWER", "PEAK", "P2P", "CREST_FACTOR", "SKEW", "KURTOSIS"]
    names += [f"sp_stat_{m}_{s}" for s in series.split() for m in moments]
    names += [f"sp_arima_{p}_{s}" for s in series.split() for p in ("ar.L1", "ar.L2", "sigma2")]
    paired = "inbed_minutes sleep_minutes watch_active_minutes watch_energy_sum watch_hr_median watch_hr_p5"
    paired = sorted(f"{paired} watch_steps_sum workout_minutes".split())
    names += [f"cc_lag{lag}_{a}__{b}" for a, b in itertools.combinations(paired, 2) for lag in range(3)]
    assert len(names) == 177 + 266
    names += [
        f"fpca_{c}_{k}"
        for c in ("watch_hr", "watch_steps", "watch_energy", "iphone_steps")
        for k in range(1, 11)
    ]
    cosinor = "mesor amplitude acrophase r2 p_value amplitude_ratio n_minutes"
    names += [f"hr_cosinor_{name}" for name in cosinor.split()]
    names += [
        f"hros_profile_{name}"
        for name in ["mean", "std", "daytime_mean", "nighttime_mean", "day_night_ratio"]
    ]
    return set(names)


def test_there_are_495_published_names_in_the_order_of_the_join():
    assert len(table.NAMES) == 495
    assert set(table.NAMES) == expected_names()
    assert table.NAMES[:177] == daily.NAMES
    assert table.NAMES[177:229] == curves.NAMES
    assert table.NAMES[229:] == dynamics.NAMES


def cohort(counts: dict[str, int]) -> ListedDays:
    return ListedDays(
        {
            name: np.stack([busy_day(100 * place + d) for d in range(n)])
            for place, (name, n) in enumerate(counts.items())
        }
    )


@pytest.fixture(scope="module")
def days() -> ListedDays:
    return cohort({"b": 17, "a": 3, "c": 1, "-d": 5})


@pytest.fixture(scope="module")
def extracted(days) -> table.FeatureTable:
    return table.extract(days)


def test_rows_are_participants_sorted_by_id(days, extracted):
    assert extracted.participants == ("-d", "a", "b", "c")
    assert extracted.values.shape == (4, 495)
    names = list(table.NAMES)
    assert extracted.values[2, names.index("sp_stat_N_watch_steps_sum")] == 17
    assert np.isfinite(extracted.values[2, names.index("sp_arima_ar.L1_watch_steps_sum")])
    assert np.isnan(extracted.values[1, names.index("sp_arima_ar.L1_watch_steps_sum")])
    assert not np.isinf(extracted.values).any()
    assert extracted.find(["b", "nobody", "-d"]).tolist() == [2, -1, 0]


def test_order_in_the_store_does_not_matter(days, extracted):
    class Shuffled(ListedDays):
        def __init__(self, of):
            order = np.random.default_rng(0).permutation(len(of))
            self.path, self.reads = of.path, 0
            self._values = [of._values[i] for i in order]
            for name in ("participants", "dates", "nonwear_minutes", "variance"):
                setattr(self, name, getattr(of, name)[order])

    found = table.extract(Shuffled(days))
    assert found.participants == extracted.participants
    np.testing.assert_array_equal(found.values, extracted.values)


def test_only_retained_days_count():
    made = cohort({"a": 4, "b": 2, "c": 2})
    made.nonwear_minutes[2] = 1000
    made.nonwear_minutes[4:6] = 1000
    found = table.extract(made)
    assert found.participants == ("a", "c")
    column = table.NAMES.index("sp_stat_N_workout_minutes")
    assert found.values[:, column].tolist() == [3, 2]


def test_a_store_without_a_retained_day_has_no_rows():
    made = cohort({"a": 1})
    made.nonwear_minutes[:] = 1000
    assert table.extract(made).values.shape == (0, 495)


def test_several_processes_give_the_same(days, extracted):
    seen = []
    found = table.extract(days, n_jobs=2, progress=lambda done, total: seen.append((done, total)))
    np.testing.assert_array_equal(found.values, extracted.values)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_cache_answers_without_reading_days(extracted, tmp_path):
    first = cohort({"b": 17, "a": 3, "c": 1, "-d": 5})
    np.testing.assert_array_equal(table.extract(first, cache_dir=tmp_path).values, extracted.values)
    again = cohort({"b": 17, "a": 3, "c": 1, "-d": 5})
    calls = []
    found = table.extract(again, cache_dir=tmp_path, progress=lambda *c: calls.append(c))
    np.testing.assert_array_equal(found.values, extracted.values)
    assert again.reads == 0
    assert calls == []
    other = cohort({"b": 17, "a": 4})
    table.extract(other, cache_dir=tmp_path)
    assert other.reads > 0


def test_an_interrupted_extraction_continues(extracted, tmp_path, monkeypatch):
    class Interrupted(Exception):
        pass

    def stop_after_two(done, total):
        if done == 2:
            raise Interrupted

    made = cohort({"b": 17, "a": 3, "c": 1, "-d": 5})
    monkeypatch.setattr(table, "PARTICIPANTS_A_FILE", 1)
    with pytest.raises(Interrupted):
        table.extract(made, cache_dir=tmp_path, progress=stop_after_two)
    calls = []
    found = table.extract(made, cache_dir=tmp_path, progress=lambda *c: calls.append(c))
    assert calls[-1][1] == len(calls) == 3
    np.testing.assert_array_equal(found.values, extracted.values)


def test_a_damaged_cache_is_named(days, tmp_path):
    table.extract(days, cache_dir=tmp_path)
    file = next(tmp_path.glob("xgboost-*/rows-*.npz"))
    file.write_bytes(b"not an archive")
    with pytest.raises(StoreError, match=file.name):
        table.extract(days, cache_dir=tmp_path)


class Deadly(ListedDays):
    """Days whose reading ends the process."""

    def __init__(self, of: ListedDays):
        self.__dict__.update(of.__dict__)

    def values(self, index):
        os._exit(3)


def test_a_process_that_dies_is_an_error_with_advice(days):
    with pytest.raises(ConfigError, match=r"^jobs=2: a process died"):
        table.extract(Deadly(days), n_jobs=2)


def test_no_process_is_refused(days):
    with pytest.raises(ConfigError, match="jobs: must be at least 1, got 0"):
        table.extract(days, n_jobs=0)


def test_speed_is_measured_on_made_participants():
    found = timing.measure(2, 4)
    assert found["participants"] == 2
    assert 1 <= found["days"] <= 12
    assert found["days_per_second"] > 0
    assert found["seconds"] > found["seconds_assembling"] >= 0
