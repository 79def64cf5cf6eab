"""The LifeSnaps table: what is taken, what is converted, and that nothing is left out unsaid."""

import numpy as np
import pytest

from wearjax.daily_metrics import INDEX
from wearjax.errors import SourceError
from wearjax.sources import lifesnaps
from wearjax.sources.tally import Tally

HEADER = (
    "id,date,rmssd,stress_score,calories,filteredDemographicVO2Max,activityType,sedentary_minutes,resting_hr,"
    "sleep_duration,sleep_efficiency,sleep_deep_ratio,steps,age,gender,bmi"
)
ROWS = (
    "7,2021-05-25,33.5,80,2000,41.2,\"['Walk', 'Run']\",700,61.5,27000000,94,1.02,8000,,,",
    "7,2021-05-24,,,1500,,,1440,,,,,12,<30,MALE,22.0",  # not worn
    "12,2021-05-24,,,1500,,,600,,,,,3000,>=30,FEMALE,>=25",
    "12,2021-05-25,,,1500,,\"['Bike']\",600,,,,,,<30,,",  # no steps; another age
)


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "daily.csv"
    file.write_text("\n".join((HEADER, *ROWS)) + "\n")
    return file


def test_values_are_those_of_the_table_in_our_units(table):
    tally = Tally()
    twelve, seven = lifesnaps.read_records(table.parent, tally=tally)
    assert (twelve.user, seven.user) == ("12", "7")
    last = dict(zip(INDEX, seven.values[1], strict=True))
    measured = {key: value for key, value in last.items() if np.isfinite(value)}
    assert measured == {
        "steps": 8000, "rhr": 61.5, "hrv": 33.5, "vo2_max": 41.2, "sleep_duration": 7.5, "sleep_efficiency": 94,
        "exercise_count": 2,
    }  # fmt: skip
    assert np.isnan(seven.values[0]).all()  # the device was not worn
    assert twelve.values[0, INDEX["exercise_count"]] == 0
    assert np.isnan(twelve.values[1, INDEX["exercise_count"]])
    assert tally.skipped["steps", "device not worn (sedentary all day)"] == 1
    assert tally.skipped["exercise_count", "device not worn or without steps"] == 1
    assert tally.read["days"] == 4
    assert tally.used["steps"] == 2


def test_profiles_are_bands_where_the_table_has_bands(table):
    tally = Tally()
    twelve, seven = lifesnaps.read_records(table, tally=tally)
    assert (seven.demographics.age_band, seven.demographics.sex, seven.demographics.bmi) == (
        "<30",
        "male",
        22.0,
    )
    assert (twelve.demographics.age_band, twelve.demographics.bmi_band) == (">=30", ">=25")
    assert twelve.demographics.age is None
    assert twelve.demographics.bmi is None
    assert seven.demographics.bmi_band is None
    assert tally.skipped["age", "differs from the person's first one"] == 1


def test_every_column_that_is_not_used_is_named_with_its_reason(table):
    tally = Tally()
    list(lifesnaps.read_records(table, tally=tally))
    said = "\n".join(tally.notes)
    for column in ("stress_score", "calories", "sleep_deep_ratio"):
        assert f"column {column!r} is not used: " in said
    assert "unknown" not in said


def test_what_is_wrong_is_said(table, tmp_path):
    table.write_text("\n".join((HEADER, ROWS[0].replace("['Walk', 'Run']", "Walk"))) + "\n")
    with pytest.raises(SourceError, match="'Walk' is not a list"):
        list(lifesnaps.read_records(table, tally=Tally()))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"no daily\.csv"):
        list(lifesnaps.read_records(tmp_path / "empty", tally=Tally()))
