from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax import channels
from wearjax.channels import CHANNELS, ENERGY, HEART_RATE, INDEX, SLEEP, WORKOUTS
from wearjax.days import clean
from wearjax.errors import ConfigError
from wearjax.segments import masks
from wearjax.sources import synthetic
from wearjax.sources.tally import Tally

COHORT = synthetic.Cohort(40, 12)
WATCH_COUNTS = [3, 4, 6]
PUBLISHED = Path(__file__).parents[1] / "golden" / "openmhc" / "published_leaderboard.json"


@pytest.fixture(scope="module")
def records():
    return [synthetic.simulate_participant(COHORT, i) for i in range(COHORT.n_participants)]


@pytest.fixture(scope="module")
def days(records):
    return [day for record in records for day in record.days]


@pytest.fixture(scope="module")
def cleaned(days):
    return np.stack([clean.zero_to_nan(day.values) for day in days])


def same(a, b):
    assert [day.date for day in a.days] == [day.date for day in b.days]
    assert [day.values.tobytes() for day in a.days] == [day.values.tobytes() for day in b.days]
    assert [day.nonwear_minutes for day in a.days] == [day.nonwear_minutes for day in b.days]
    assert a.truth.tobytes() == b.truth.tobytes()
    assert (a.traits, a.habits) == (b.traits, b.habits)
    return True


@settings(max_examples=4)
@given(st.integers(0, 2**40), st.integers(0, 6))
def test_a_participant_follows_from_seed_and_index_whatever_the_cohort(seed, index):
    in_small = synthetic.simulate_participant(synthetic.Cohort(index + 1, 2, seed=seed), index)
    in_large = synthetic.simulate_participant(synthetic.Cohort(9000, 2, seed=seed), index)
    assert same(in_small, in_large)


def test_other_seeds_and_other_indices_are_other_people():
    made = [
        synthetic.simulate_participant(synthetic.Cohort(2, 2, seed=seed), index).truth.tobytes()
        for seed in (0, 1)
        for index in (0, 1)
    ]
    assert len(set(made)) == 4


def test_read_days_yields_what_single_participants_have_and_counts_it():
    cohort = synthetic.Cohort(4, 3, seed=5)
    tally, done = Tally(), []
    read = list(synthetic.read_days(cohort, tally=tally, progress=lambda *at: done.append(at)))
    alone = [d for i in (3, 1, 0, 2) for d in synthetic.simulate_participant(cohort, i).days]
    alone.sort(key=lambda day: (day.participant, day.date))
    assert [d.values.tobytes() for d in read] == [d.values.tobytes() for d in alone]
    assert sum(synthetic.n_days(cohort, i) for i in range(4)) == len(read)
    assert done[-1] == (len(read), len(read))
    assert tally.used["watch_hr"] == sum(int(np.isfinite(d.values[HEART_RATE]).sum()) for d in read)


def test_traits_and_demographics_need_no_simulation_and_agree_with_it(records):
    table = synthetic.demographics(COHORT)
    assert list(table) == [record.participant for record in records]
    for index, record in enumerate(records):
        assert table[record.participant] == record.demographics
        assert synthetic.participant_traits(COHORT, index) == record.traits
    assert {row["sex"] for row in table.values()} == {"male", "female"}
    assert len({row["birth_year"] // 10 for row in table.values()}) >= 4


def test_values_equal_the_truth_where_recorded_and_are_zero_or_missing_elsewhere(records):
    for record in records:
        values = np.stack([day.values for day in record.days])
        assert np.isfinite(record.truth).all()
        np.testing.assert_array_equal(values[record.recorded], record.truth[record.recorded])
        elsewhere = values[~record.recorded]
        assert np.all(np.isnan(elsewhere) | (elsewhere == 0))
        hidden = ~record.recorded[:, HEART_RATE]
        assert np.isnan(values[:, HEART_RATE][hidden]).all()  # a missing pulse is never a zero


def test_truth_of_a_date_is_that_of_its_record(records):
    record, date = records[4], records[4].days[1].date
    np.testing.assert_array_equal(synthetic.truth(COHORT, 4, date), record.truth[1])
    with pytest.raises(KeyError, match="has no day 1999-01-01"):
        record.true_day(dt.date(1999, 1, 1))


def test_stays_in_the_units_and_ranges_of_the_channel_table(records):
    truth = np.concatenate([record.truth for record in records])
    for c, channel in enumerate(CHANNELS):
        low, high = channel.plausible
        assert truth[:, c].min() >= low, channel.name
        assert truth[:, c].max() <= high, channel.name
        if not channel.is_continuous:
            assert set(np.unique(truth[:, c])) == {0, 1}, channel.name
    assert 0.9 < truth[:, HEART_RATE].mean() < 1.6  # beats a second, 54..96 bpm
    assert 250 < truth[:, ENERGY].sum(axis=1).mean() / 1000 < 900  # kcal a day
    assert 4000 < truth[:, 3].sum(axis=1).mean() < 11000  # steps a day
    assert 0.6 < truth[:, 4].sum() / truth[:, 3].sum() < 0.9  # metres a step


def test_every_channel_is_recorded_somewhere(cleaned):
    for c, name in enumerate(channels.NAMES):
        assert np.nansum(cleaned[:, c]) > 0, name


def test_devices_differ_between_participants(records):
    phone_only = [r for r in records if not r.habits.has_watch]
    assert len(phone_only) == 6
    for record in phone_only:
        assert np.isnan(np.stack([day.values[3:7] for day in record.days])).all()
    both = [r for r in records if r.habits.has_watch and r.habits.has_phone]
    phone = np.concatenate([[d.values[0] for d in r.days] for r in both]).ravel()
    watch = np.concatenate([[d.values[3] for d in r.days] for r in both]).ravel()
    known = np.isfinite(phone) & np.isfinite(watch)
    assert 0.4 < np.corrcoef(phone[known], watch[known])[0, 1] < 0.95
    assert 0.6 < phone[known].mean() / watch[known].mean() < 1.3


def test_watch_off_the_wrist_writes_zeros_and_counts_as_nonwear(records):
    for record in records:
        for position, day in enumerate(record.days):
            if np.isfinite(day.values[3]).any():
                off = ~record.recorded[position, 3]
                assert day.nonwear_minutes == off.sum()
                assert not day.values[np.ix_(WATCH_COUNTS, off)].any()


def test_heart_rate_is_sparse_at_rest_and_dense_in_logged_workouts(records):
    rest, workout = [], []
    for record in records:
        for position, day in enumerate(record.days):
            worn = record.recorded[position, 3]
            logged = day.values[list(WORKOUTS)].any(axis=0)
            present = np.isfinite(day.values[HEART_RATE])
            assert not present[~worn].any()
            rest.append(present[worn & ~logged])
            workout.append(present[worn & logged])
    assert 0.1 < np.concatenate(rest).mean() < 0.3
    assert np.concatenate(workout).mean() > 0.6


def test_days_have_a_rhythm_and_weekends_differ(records):
    truth = np.concatenate([record.truth for record in records])
    hourly = truth.reshape(len(truth), 19, 24, 60).mean(axis=(0, 3))
    assert hourly[3, 3] < 0.25 * hourly[3, 9:20].mean()
    assert hourly[HEART_RATE, 3] < hourly[HEART_RATE, 14] - 0.1
    assert hourly[SLEEP[0], 3] > 0.8
    assert hourly[SLEEP[0], 15] < 0.1
    morning = {False: [], True: []}
    for record in records:
        if record.traits.employed:
            for position, day in enumerate(record.days):
                morning[day.date.weekday() >= 5].append(record.truth[position, 8, 7 * 60 : 9 * 60].mean())
    assert np.mean(morning[True]) > np.mean(morning[False]) + 0.1


def test_sleep_is_broken_and_lies_within_the_time_in_bed(records):
    wakes = 0
    for record in records:
        asleep, inbed = record.truth[:, SLEEP[0]] > 0, record.truth[:, SLEEP[1]] > 0
        assert not (asleep & ~inbed).any()
        wakes += np.sum(np.diff(asleep.astype(int), axis=1) == -1) / len(asleep)
    assert 2 < wakes / len(records) < 25


def test_heart_rate_follows_effort(records):
    for record in records:
        awake = record.truth[:, SLEEP[1]] == 0
        pulse, energy = record.truth[:, HEART_RATE][awake], record.truth[:, ENERGY][awake]
        assert np.corrcoef(pulse, np.sqrt(energy))[0, 1] > 0.3
        assert pulse[energy > 3000].mean() > pulse[energy < 300].mean() + 0.2


def test_semantic_scenarios_have_cases(cleaned):
    applicable = {name: 0 for name in masks.SEMANTIC}
    for values in cleaned:
        for name in applicable:
            applicable[name] += masks.make_mask(name, values, ~np.isnan(values))[1]
    share = {name: count / len(cleaned) for name, count in applicable.items()}
    assert 0.2 < share["sleep_gap"] < 0.6
    assert 0.05 < share["workout_gap"] < 0.3
    assert 0 < share["intensity_failure"] < 0.1


def test_filters_drop_some_days_for_either_reason(days, cleaned):
    nonwear = np.array([day.nonwear_minutes for day in days])
    variance = np.stack([clean.channel_variance(values) for values in cleaned])
    assert 0.01 < np.mean(~clean.enough_wear(nonwear)) < 0.15
    assert 0.005 < np.mean(~clean.enough_variance(variance)) < 0.15
    assert nonwear.min() >= 0
    assert nonwear.max() <= 1440


def test_calendar_is_increasing_with_gaps_and_varied_lengths(records):
    steps = [np.diff([day.date.toordinal() for day in record.days]) for record in records]
    flat = np.concatenate(steps)
    assert flat.min() >= 1
    assert 0 < np.mean(flat > 1) < 0.2
    assert len({len(record.days) for record in records}) > 4
    assert min(record.days[0].date for record in records) >= COHORT.start_date


def carried_forward(values, known):
    """Last known value, before the first known one that; minutes x channels stay as they are."""
    at = np.where(known, np.arange(known.shape[1]), -1)
    at = np.maximum.accumulate(at, axis=1)
    first = np.argmax(known, axis=1)[:, None]
    return np.take_along_axis(values, np.where(at < 0, first, at), axis=1)


def test_is_as_hard_for_the_baseline_as_the_published_cohort(records):
    """Mean error of carrying the last value across time gaps, within a factor two of the published."""
    table = json.loads(PUBLISHED.read_text())["baseline_cohort_statistics"]["imputation_locf"]["rows"]
    published = {row[2]: row[3] for row in table if row[0] == "temporal_slice"}
    errors = {c: [] for c in (0, 1, 3, 4, HEART_RATE, ENERGY)}
    for index, record in enumerate(records):
        total, count = np.zeros(19), np.zeros(19)
        for position, day in enumerate(record.days):
            values = clean.zero_to_nan(day.values)
            observed = ~np.isnan(values)
            rng = np.random.default_rng([index, position])
            hidden, _ = masks.make_mask("temporal_slice", values, observed, rng)
            error = np.abs(carried_forward(values, observed & ~hidden) - values)
            hidden &= np.isfinite(error)
            total += np.where(hidden, error, 0).sum(axis=1)
            count += hidden.sum(axis=1)
        for c, found in errors.items():
            if count[c]:
                found.append(total[c] / count[c])
    for c, found in errors.items():
        assert 0.5 < np.mean(found) / published[f"ch_{c}"] < 2, channels.NAMES[c]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_participants": 0}, "n_participants must be at least 1, got 0"),
        ({"days_per_participant": 0.5}, "days_per_participant must be at least 1, got 0.5"),
        ({"seed": -1}, "seed must not be negative, got -1"),
        ({"enrolment_days": -1}, "enrolment_days must not be negative, got -1"),
    ],
)
def test_refuses_impossible_cohorts(options, message):
    with pytest.raises(ConfigError, match=message):
        synthetic.Cohort(**{"n_participants": 3, **options})


def test_refuses_an_index_outside_the_cohort():
    with pytest.raises(ConfigError, match=r"participant index 3: the cohort has 0\.\.2"):
        synthetic.simulate_participant(synthetic.Cohort(3), 3)


def test_channel_indices_used_here_are_those_of_the_table():
    assert [INDEX[n] for n in ("iphone_steps", "watch_steps", "watch_distance", "watch_energy")] == [
        0,
        3,
        4,
        6,
    ]
