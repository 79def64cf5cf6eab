"""Non-missing rates (Fig. 2) and demographics (Figs. 6 and 7) of a store of surgeries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from wearjax.benchmarks.vitalbench import availability, demographics
from wearjax.segments import vital_cases
from wearjax.sources.vital_cases import Case
from wearjax.vitals import CENTRES

CENTRE = CENTRES["vitaldb"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    cases = []
    for i in range(40):
        values = rng.uniform(1, 9, (5 + i, CENTRE.n_variables)).astype(np.float32)
        values[rng.random(values.shape) < rng.uniform(0.1, 0.9, CENTRE.n_variables)] = 0
        values[:, :5] = [40 + i, i % 2, 60 + i, 160, 1 + i % 3]
        if i == 3:
            values[:, :5] = 0
        cases.append(Case(f"c{i:02d}", None, values))
    return vital_cases.write_cases(tmp_path_factory.mktemp("v") / "s", cases, CENTRE)


def test_rates_are_shares_of_entries_that_are_not_zero(store):
    found = availability.availability(store)
    np.testing.assert_allclose(found.overall, np.mean(np.asarray(store.values) != 0, axis=0))
    np.testing.assert_allclose(found.per_case[7], np.mean(store.case(7) != 0, axis=0))
    assert (found.n_cases, found.n_rows) == (40, len(store.values))
    test = availability.availability(store, "test")
    rows = np.concatenate([store.case(i) for i in store.indices("test")])
    np.testing.assert_allclose(test.overall, np.mean(rows != 0, axis=0))
    table = found.to_dataframe()
    assert list(table["variable"]) == list(CENTRE.names)
    np.testing.assert_allclose(table["case_median"], np.median(found.per_case, axis=0))


def test_an_empty_split_has_no_rates(tmp_path):
    store = vital_cases.write_cases(
        tmp_path / "s", [Case("a", None, np.ones((2, CENTRE.n_variables), np.float32))], CENTRE
    )
    with pytest.raises(ValueError, match="the split train has no case"):
        availability.availability(store, "train")


def test_facts_of_the_patients_and_of_the_recordings(store):
    found = demographics.demographics(store)
    assert np.isnan([found.facts[name][3] for name in ("age", "sex", "weight", "asa")]).all()
    np.testing.assert_array_equal(found.facts["age"][4:6], [44, 45])
    np.testing.assert_array_equal(found.facts["sex"][4:6], [0, 1])
    np.testing.assert_allclose(found.facts["hours"][0], 25 / 3600)
    assert [int(np.sum(found.split == name)) for name in demographics.SPLITS] == [28, 4, 8]


def test_groups_are_compared_by_the_published_tests(store):
    found = demographics.demographics(store)
    groups = [found.split == name for name in demographics.SPLITS]
    ages = [found.facts["age"][g] for g in groups]
    expected = stats.kruskal(*[a[np.isfinite(a)] for a in ages]).pvalue
    assert found.p_value("age") == pytest.approx(expected)
    assert found.p_value("age") < 0.001  # ids, and so splits, go by age here
    counts = [[np.sum(found.facts["sex"][g] == code) for code in (0, 1)] for g in groups]
    assert found.p_value("sex") == pytest.approx(stats.chi2_contingency(counts, correction=False).pvalue)
    assert np.isnan(found.p_value("height"))  # everybody is 160 cm tall
    table = found.to_dataframe().set_index(["fact", "level"])
    assert table.loc[("sex", "female"), "all"] == "20 (51.3)"
    assert table.loc[("asa", "II"), "all"] == "13 (33.3)"
    assert table.loc[("height", ""), "train"] == "160.0 [160.0, 160.0]"
    assert ("asa", "V") not in table.index
