"""One CSV per surgery: any order of columns, aliases, missing values, refusals that name what is wrong."""

from __future__ import annotations

import datetime as dt
import gzip

import numpy as np
import pytest

from wearjax.errors import SourceError
from wearjax.sources import vital_cases
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case
from wearjax.vitals import CENTRES

CENTRE = CENTRES["mover"]


def random_case(n: int = 5, name: str = "a", seed: int = 0) -> Case:
    values = np.random.default_rng(seed).uniform(1, 90, (n, CENTRE.n_variables)).round(2).astype(np.float32)
    values[1, 5:] = 0
    return Case(name, dt.datetime(2016, 5, 4, 8, 30), values)


def edit(file, change):
    """Rewrites a CSV as a list of rows of cells."""
    rows = [[cell.strip('"') for cell in line.split(",")] for line in file.read_text().splitlines()]
    file.write_text("\n".join(",".join(row) for row in change(rows)) + "\n")


@pytest.mark.parametrize("name", CENTRES)
def test_what_is_written_is_read_back(tmp_path, name):
    centre = CENTRES[name]
    values = np.random.default_rng(1).uniform(1, 90, (4, centre.n_variables)).astype(np.float32)
    values[2, ::3] = 0
    case = Case("x-1", dt.datetime(2017, 1, 2, 3, 4, 5), values)
    tally = Tally()
    found = vital_cases.read_csv(vital_cases.write_csv(case, tmp_path, centre), centre, tally=tally)
    assert (found.id, found.start) == ("x-1", case.start)
    np.testing.assert_array_equal(found.values, values)
    assert not tally.skipped
    assert tally.used[centre.target] == np.count_nonzero(values[:, -1])


def test_columns_may_stand_in_any_order_and_under_other_names(tmp_path):
    case = random_case()
    file = vital_cases.write_csv(case, tmp_path, CENTRE)
    names = {"SpO2": "SP02", "Gender": "SEX", "Fentanyl": "Fentanyl mcg", "date": "Time"}
    edit(file, lambda rows: [[names.get(c, c) for c in rows[0]][::-1]] + [row[::-1] for row in rows[1:]])
    np.testing.assert_array_equal(vital_cases.read_csv(file, CENTRE).values, case.values)


def test_empty_null_and_text_cells_are_missing(tmp_path):
    case = random_case()
    file = vital_cases.write_csv(case, tmp_path, CENTRE)

    def spoil(rows):
        for row, cell in ((1, ""), (2, "NaN"), (3, "\\N"), (4, "---")):
            rows[row][-1] = cell
        for row, cell in ((1, "M"), (2, "female"), (3, "1"), (4, "?")):
            rows[row][2] = cell
        return rows

    edit(file, spoil)
    tally = Tally()
    values = vital_cases.read_csv(file, CENTRE, tally=tally).values
    np.testing.assert_array_equal(values[:, -1], [0, 0, 0, 0, case.values[4, -1]])
    np.testing.assert_array_equal(values[:4, 1], [1, 0, 1, 0])
    np.testing.assert_array_equal(values[:, 2:-1], case.values[:, 2:-1])
    assert tally.skipped["MAP_ART", "not a number"] == 1


def test_other_columns_are_counted_by_name(tmp_path):
    file = vital_cases.write_csv(random_case(), tmp_path, CENTRE)
    edit(file, lambda rows: [["HRe", *rows[0]], *(["7", *row] for row in rows[1:])])
    tally = Tally()
    vital_cases.read_csv(file, CENTRE, tally=tally)
    assert tally.skipped == {("column hre", "not a variable of VitalBench"): 1}


def test_missing_columns_are_named(tmp_path):
    file = vital_cases.write_csv(random_case(), tmp_path, CENTRE)
    edit(file, lambda rows: [row[1:-1] for row in rows])
    with pytest.raises(SourceError, match=r"a.csv: lacks column date, MAP_ART"):
        vital_cases.read_csv(file, CENTRE)
    with pytest.raises(SourceError, match="lacks column date, MAP_ART"):
        list(vital_cases.read_folder(tmp_path, CENTRE, tally=Tally()))


def test_two_columns_for_one_variable_are_refused(tmp_path):
    file = vital_cases.write_csv(random_case(), tmp_path, CENTRE)
    edit(file, lambda rows: [["sex", *rows[0]], *(["1", *row] for row in rows[1:])])
    with pytest.raises(SourceError, match="'sex' and 'gender' are both Gender"):
        vital_cases.read_csv(file, CENTRE)


def test_a_step_that_is_not_the_centres_is_said(tmp_path):
    file = vital_cases.write_csv(random_case(), tmp_path, CENTRE)
    edit(
        file,
        lambda rows: [rows[0], *([f"2020-01-01 00:00:{5 * i:02d}", *r[1:]] for i, r in enumerate(rows[1:]))],
    )
    tally = Tally()
    assert vital_cases.read_csv(file, CENTRE, tally=tally).start == dt.datetime(2020, 1, 1)
    assert any("5 s apart, 60 expected" in reason for _, reason in tally.skipped)
    edit(file, lambda rows: [rows[0], *(["soon", *row[1:]] for row in rows[1:])])
    assert vital_cases.read_csv(file, CENTRE, tally=tally).start is None
    assert tally.skipped["date", "not a time"] == 1


def test_a_folder_is_read_by_name_and_skips_what_it_cannot_read(tmp_path):
    for name in ("b", "a"):
        vital_cases.write_csv(random_case(name=name), tmp_path, CENTRE)
    packed = vital_cases.write_csv(random_case(name="c"), tmp_path, CENTRE)
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.write_text(packed.read_text().splitlines()[0] + "\n")
    (tmp_path / "notes.txt").write_text("x")
    tally, seen = Tally(), []
    cases = list(vital_cases.read_folder(tmp_path, CENTRE, tally=tally, progress=lambda *p: seen.append(p)))
    assert [case.id for case in cases] == ["a", "b", "c"]
    assert tally.skipped == {("case", "file not readable"): 1, ("file", "not CSV"): 1}
    assert any("c.csv: a header and no row" in note for note in tally.notes)
    assert seen[-1] == (4, 4)
    listed = {case.id for case in vital_cases.read_folder(tmp_path, CENTRE, tally=Tally(), order="directory")}
    assert listed == {"a", "b", "c"}


def test_a_folder_without_csv_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no CSV file"):
        list(vital_cases.read_folder(tmp_path, CENTRE, tally=Tally()))
    with pytest.raises(SourceError, match="no such folder"):
        list(vital_cases.read_folder(tmp_path / "x", CENTRE, tally=Tally()))
