"""The table of VitalBench variables: sizes and order of the paper, spellings, steps."""

from __future__ import annotations

import pytest

from wearjax import vitals
from wearjax.vitals import CENTRES


@pytest.mark.parametrize(
    ("name", "k", "targets", "context", "horizons", "last"),
    [
        ("vitaldb", 17, 8, 360, {1: 12, 3: 36, 10: 120, 30: 360}, "BIS/BIS"),
        ("mover", 33, 13, 30, {1: 1, 3: 3, 10: 10, 30: 30}, "MAP_ART"),
    ],
)
def test_the_published_settings(name, k, targets, context, horizons, last):
    centre = CENTRES[name]
    assert (centre.n_variables, centre.n_targets, centre.n_covariates) == (k, targets, k - targets)
    assert (centre.context_steps, centre.horizons, centre.target) == (context, horizons, last)
    roles = [variable.role for variable in centre.variables]
    assert roles == ["covariate"] * (k - targets) + ["target"] * targets
    assert all(variable.low < variable.high for variable in centre.variables)


def test_a_centre_at_one_minute_keeps_its_variables():
    centre = vitals.one_minute(CENTRES["vitaldb"])
    assert (centre.context_steps, centre.horizons) == (30, {1: 1, 3: 3, 10: 10, 30: 30})
    assert centre.names == CENTRES["vitaldb"].names
    assert centre.digest() == CENTRES["vitaldb"].digest() != CENTRES["mover"].digest()


@pytest.mark.parametrize(
    ("name", "column", "variable"),
    [
        ("vitaldb", "solar8000/hr", "Solar8000/HR"),
        ("vitaldb", "SEX", "Gender"),
        ("vitaldb", "BIS", "BIS/BIS"),
        ("mover", "SP02", "SpO2"),
        ("mover", "FiO2", "FI02"),
        ("mover", "etc02", "ETCO2"),
        ("mover", "Fentanyl mcg", "Fentanyl"),
        ("mover", "Fentanyl_µg", "Fentanyl"),
        ("mover", "Fentanyl μg", "Fentanyl"),
        ("mover", "map_art", "MAP_ART"),
        ("mover", "weight", "Wt"),
    ],
)
def test_columns_are_found_by_their_other_spellings(name, column, variable):
    assert CENTRES[name].names[CENTRES[name].find(column)] == variable


def test_another_column_is_no_variable():
    assert CENTRES["mover"].find("HRe") is None
    assert CENTRES["vitaldb"].find("Solar8000/NIBP_SBP") is None
    with pytest.raises(KeyError, match="no variable"):
        CENTRES["vitaldb"].index("HR")


def test_missing_variables_are_named_in_the_order_of_the_table():
    centre = CENTRES["vitaldb"]
    assert vitals.missing([n for n in centre.names if n not in ("BIS/BIS", "Age")], centre) == [
        "Age",
        "BIS/BIS",
    ]
