"""What is said of a CSV file that cannot be read."""

import pytest

from wearjax.errors import SourceError
from wearjax.sources import csv_table, vital_csv


def test_a_cell_that_is_no_number_is_named_with_its_column(tmp_path):
    file = tmp_path / "steps.csv"
    file.write_text("Id,Time,Steps\n1,x,3\n2,y,four\n")
    with pytest.raises(SourceError, match=r"steps\.csv: column 'steps': .*'four'") as caught:
        list(csv_table.batches(file, text=("id",), numbers=("steps",)))
    assert "#" not in str(caught.value)
    file.write_text("Id,Time,Steps\n1,x,3\n2,y\n")
    with pytest.raises(SourceError, match="Expected 3 columns, got 2"):
        list(csv_table.batches(file, text=("id",), numbers=("steps",)))


def test_a_column_of_a_hospital_table_that_is_no_text_is_named(tmp_path):
    file = tmp_path / "cases.csv"
    file.write_bytes(b"caseid,opname\n" + b"1,Gastrectomy\n" * 6000 + b"2,\xff\xfe\n")
    with pytest.raises(SourceError, match=r"cases\.csv: column 'opname': "):
        vital_csv.read(file, text=("opname",))


def test_a_number_without_a_column_stays():
    assert csv_table.said(ValueError("In CSV column #4: odd\nmore"), ["a"]) == "In CSV column #4: odd"
