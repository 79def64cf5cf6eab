"""Golden small cases: gap lengths, and what a person reads of each day."""

from __future__ import annotations

import numpy as np
import pytest
from made_days import made_cohort

from wearjax.channels import HEART_RATE, INDEX
from wearjax.day import SHAPE, Day
from wearjax.days import importing
from wearjax.errors import StoreError
from wearjax.segments import gaps, person_days
from wearjax.sources.tally import Tally


def test_every_missing_cell_knows_the_length_of_its_gap():
    missing = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool)
    assert gaps.run_lengths(missing).tolist() == [[2, 2, 0, 1, 0], [0] * 5, [5] * 5]
    assert gaps.run_lengths(missing[None]).shape == (1, 3, 5)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    days = made_cohort(2, 3)
    quiet = np.full(SHAPE, np.nan, np.float32)
    quiet[INDEX["iphone_steps"]] = 0
    quiet[INDEX["iphone_steps"], [600, 601, 900]] = 20
    quiet[HEART_RATE, [30, 95]] = 1.0
    days.append(Day(quiet, "quiet", days[0].date, 600.0, "made"))
    out = tmp_path_factory.mktemp("person") / "days"
    return importing.write_days(iter(days), out, provenance={}, tally=Tally())


def test_hours_are_counted_where_a_device_left_a_sign(store):
    found = person_days.of_days(store)
    quiet = found.of("quiet")
    assert len(found.date) == 7
    assert (quiet.worn_hours[0], quiet.watch_hours[0], quiet.phone_hours[0]) == (14, 2, 2)
    assert quiet.steps[0] == 60
    assert np.isnan(quiet.resting_heart_rate[0])  # two readings are too few
    other = found.of(str(found.participant[0]))
    assert other.worn_hours.tolist() == [23.0, 24 - 800 / 60, 23.0]
    assert other.watch_hours.tolist() == [24, 24, 24]
    assert np.all(np.diff(other.date) == 1)
    assert np.isnan(other.sleep_hours[0])  # the evening before is not in the store
    assert other.sleep_hours[1] == pytest.approx(380 / 60)
    assert np.all((other.resting_heart_rate > 40) & (other.resting_heart_rate < 90))


def test_the_table_survives_its_file_and_refuses_others(store, tmp_path):
    found = person_days.of_days(store)
    person_days.save(found, tmp_path / "days.npz")
    again = person_days.load(tmp_path / "days.npz")
    assert np.array_equal(again.steps, found.steps, equal_nan=True)
    assert again.participant.tolist() == found.participant.tolist()
    for content in (b"", b"PK\x03\x04 no zip", (tmp_path / "days.npz").read_bytes()[:200]):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(StoreError):
            person_days.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", **{name: np.zeros(2) for name in vars(found)})
    with pytest.raises(StoreError, match="fit together"):
        person_days.load(tmp_path / "bad.npz")
