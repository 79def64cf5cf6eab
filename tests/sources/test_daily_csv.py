"""Generic daily tables: names, units, companions, and lines that say what is wrong."""

import datetime as dt
import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.daily_metrics import INDEX
from wearjax.errors import ConfigError, SourceError
from wearjax.sources import daily_csv
from wearjax.sources.tally import Tally


def read(path, tally=None, **options):
    return list(daily_csv.read_records(path, tally=tally or Tally(), **options))


def test_columns_are_known_by_key_alias_and_case(tmp_path):
    file = tmp_path / "table.csv.gz"
    rows = "b,2024-01-02,60,,5\na,2024-01-03T00:00,61,300,\nb,2024-01-01,59,1,\n"
    file.write_bytes(gzip.compress(f"User_ID,Date,Resting_HR,active_kcal,Mood\n{rows}".encode()))
    tally = Tally()
    a, b = read(file, tally)
    assert (a.user, b.user) == ("a", "b")
    assert b.dates.tolist() == [19_723, 19_724]
    assert b.values[:, INDEX["rhr"]].tolist() == [59, 60]
    assert np.isnan(b.values[1, INDEX["active_burn"]])
    assert np.isnan(a.values[0, INDEX["steps"]])
    assert tally.read["days"] == 3
    assert tally.used == {"rhr": 3, "active_burn": 2}
    assert tally.notes == ["column 'mood' is no known metric and was left out"]


def test_units_are_converted(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("user,date,sleep_duration,deep_percentage,active_burn\na,2024-01-01,450,0.2,418.4\n")
    (record,) = read(
        file, units={"sleep_duration": "min", "deep_percentage": "fraction", "active_kcal": "kJ"}
    )
    found = [record.values[0, INDEX[key]] for key in ("sleep_duration", "deep_percentage", "active_burn")]
    assert found == pytest.approx([7.5, 20, 100])
    for units in ({"sleep_duration": "fortnight"}, {"mood": "h"}, {"steps": "km"}):
        with pytest.raises(ConfigError, match="unit"):
            read(file, units=units)


def test_companions_give_profile_and_blood(tmp_path):
    (tmp_path / "daily.csv").write_text("user,date,steps\n1,2024-01-01,10\n2,2024-01-01,20\n")
    (tmp_path / "people.csv").write_text("user,age,sex,bmi,ethnicity\n1,50,F,,White\n9,20,m,22,\n")
    (tmp_path / "blood.csv").write_text(
        "user,marker,value,unit,date\n1,hdl,50,mg/dL,2024-01-05\n1,hdl,60,mg/dL,2023-01-05\n1,tsh,,mIU/L,\n"
    )
    tally = Tally()
    one, two = read(tmp_path, tally)
    assert (one.demographics.age, one.demographics.sex, one.demographics.bmi) == (50, "female", None)
    assert two.demographics.age is None
    assert not two.blood
    assert set(one.blood) == {"hdl"}
    assert one.blood["hdl"].value == 50
    assert one.blood["hdl"].date == dt.date(2024, 1, 5)
    assert tally.skipped["people", "user without daily rows"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user,date\na,2024-01-01\n", "no column of a daily metric"),
        ("who,date,steps\na,2024-01-01,1\n", "no column of users"),
        ("user,steps\na,1\n", "no column 'date'"),
        ("user,date,steps\na,01/02/2024,1\n", "'01/02/2024' is not year-month-day"),
        ("user,date,steps\na,2024-01-01,many\n", "many"),
        ("user,date,rhr,resting_hr\na,2024-01-01,1,1\n", "a second one of rhr"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, text, said):
    file = tmp_path / "t.csv"
    file.write_text(text)
    with pytest.raises(SourceError, match=said):
        read(file)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(SourceError, match="no such file"):
        read(tmp_path / "none")
    with pytest.raises(SourceError, match=r"no daily\.csv"):
        read(tmp_path)
    (tmp_path / "daily.csv").write_text("user,date,steps\n")
    assert read(tmp_path) == []


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 99)), min_size=1, max_size=12)
)
def test_the_last_row_of_a_day_stays_whatever_the_order(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("t") / "t.csv"
    file.write_text("user,date,steps\n" + "".join(f"{u},2024-01-0{d + 1},{v}\n" for u, d, v in rows))
    wanted = {(u, d): v for u, d, v in rows}
    tally = Tally()
    found = {
        (r.user, int(date) - 19_723): value
        for r in read(file, tally)
        for date, value in zip(r.dates, r.values[:, INDEX["steps"]], strict=True)
    }
    assert found == wanted
    assert tally.skipped.total() == len(rows) - len(wanted)
