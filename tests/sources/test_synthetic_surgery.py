"""Invented surgeries: deterministic, plausible, gappy, and coupled as much as was asked."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax import vitals
from wearjax.errors import ConfigError
from wearjax.sources import synthetic_surgery
from wearjax.sources.synthetic_surgery import Cohort
from wearjax.sources.tally import Tally
from wearjax.vitals import CENTRES


@pytest.mark.parametrize("name", CENTRES)
def test_the_same_seed_makes_the_same_case_alone_or_among_others(name):
    cohort = Cohort(CENTRES[name], 3, seed=5, hours=0.5)
    tally = Tally()
    cases = list(synthetic_surgery.read_cases(cohort, tally=tally))
    again = synthetic_surgery.simulate(cohort, 2).case
    assert (again.id, again.start) == (cases[2].id, cases[2].start)
    np.testing.assert_array_equal(again.values, cases[2].values)
    other = synthetic_surgery.simulate(Cohort(CENTRES[name], 3, seed=6, hours=0.5), 2).case
    assert other.values.shape != again.values.shape or not np.array_equal(other.values, again.values)
    assert tally.read["cases"] == 3
    assert any("no recording of a person" in note for note in tally.notes)


@pytest.mark.parametrize("name", CENTRES)
def test_values_are_plausible_and_shown_where_they_were_recorded(name):
    centre = CENTRES[name]
    cohort = Cohort(centre, 6, seed=1, hours=2.5)
    shares = []
    for index in range(6):
        made = synthetic_surgery.simulate(cohort, index)
        low, high = (np.array([getattr(v, side) for v in centre.variables]) for side in ("low", "high"))
        assert np.all((made.truth >= np.minimum(low, 0)) & (made.truth <= high))
        targets = made.truth[:, centre.n_covariates :]
        assert np.all((targets > 0) & (targets >= low[centre.n_covariates :]))
        assert not made.case.values[~made.recorded].any()
        shown = made.case.values[made.recorded] == made.truth[made.recorded]
        assert 0.98 < shown.mean() <= 1  # the rest are artefacts
        static = [i for i, v in enumerate(centre.variables) if v.static]
        assert np.all(made.case.values[:, static] == made.case.values[0, static])
        shares.append(1 - made.recorded[:, centre.n_covariates :].mean(axis=0))
    assert np.all((np.mean(shares, axis=0) > 0.1) & (np.mean(shares, axis=0) < 0.85))
    assert 0.2 < np.mean(shares) < 0.6


def test_gaps_come_in_blocks():
    centre = CENTRES["vitaldb"]
    recorded = synthetic_surgery.simulate(Cohort(centre, 1, hours=3), 0).recorded[
        :, centre.index("Solar8000/HR")
    ]
    changes = np.count_nonzero(np.diff(recorded.astype(int)))
    assert 2 < changes < len(recorded) / 20
    whole = synthetic_surgery.simulate(Cohort(centre, 1, hours=3, gaps=False), 0)
    assert whole.recorded.all()


def test_the_cohort_has_the_published_facts():
    cohort = Cohort(CENTRES["vitaldb"], 1000, seed=3)
    people = [synthetic_surgery.static_values(cohort, i) for i in range(1000)]
    age, male, weight, height, asa = np.array([list(person.values()) for person in people]).T
    assert abs(np.median(age) - 61) < 2
    assert abs(1 - male.mean() - 0.439) < 0.05
    assert abs(np.median(weight) - 60.8) < 2
    assert abs(np.median(height) - 163.0) < 1.5
    assert abs(np.mean(asa == 3) - 0.648) < 0.05
    assert age.min() >= 18
    assert weight.min() > 35
    shown = synthetic_surgery.simulate(cohort, 7).case.values[0, :5]
    np.testing.assert_allclose(shown, list(people[7].values()), rtol=1e-6)


def test_surgeries_are_as_long_as_the_published_ones():
    cohort = Cohort(CENTRES["mover"], 60)
    hours = np.array([synthetic_surgery.simulate(cohort, i).case.surgery_hours for i in range(60)])
    assert hours.min() >= 2
    assert abs(hours.mean() - 4.2) < 0.6


def gain(name: str, coupling: float, horizon: int) -> np.ndarray:
    """Share of the squared error that a linear forecast of each target loses when it sees all columns."""
    centre = vitals.one_minute(CENTRES[name])
    lags, n_targets, train = (0, 3, 6, 9, 12, 15), centre.n_targets, 24
    cohort = Cohort(centre, 36, seed=2, coupling=coupling, gaps=False)
    windows, ahead = [], []
    for index in range(cohort.n_cases):
        values = synthetic_surgery.simulate(cohort, index).case.values[:, 4:].astype(np.float64)
        span = np.ptp(values, axis=0)
        scaled = (values - values.min(axis=0)) / np.where(span > 0, span, 1)
        at = np.arange(max(lags), len(scaled) - horizon)
        windows.append(np.stack([scaled[at - lag] for lag in lags], axis=1))
        ahead.append(scaled[at + horizon, -n_targets:])
    x, y = ([np.concatenate(part) for part in (a[:train], a[train:])] for a in (windows, ahead))

    def errors(columns: list[int], targets: list[int]) -> np.ndarray:
        design, probe = (
            np.pad(part[:, :, columns].reshape(len(part), -1), ((0, 0), (0, 1)), constant_values=1)
            for part in x
        )
        normal = design.T @ design + 3 * np.eye(design.shape[1])
        weights = np.linalg.solve(normal, design.T @ y[0][:, targets])
        return np.mean((probe @ weights - y[1][:, targets]) ** 2, axis=0)

    width = x[0].shape[2]
    own = np.concatenate([errors([width - n_targets + j], [j]) for j in range(n_targets)])
    return 1 - errors(list(range(width)), list(range(n_targets))) / own


@pytest.mark.parametrize("name", CENTRES)
def test_mixing_channels_pays_when_they_are_coupled_and_only_then(name):
    coupled, independent = gain(name, 1.0, 5), gain(name, 0.0, 5)
    assert np.median(coupled) > 0.25
    assert np.mean(coupled > 0.1) >= 0.6
    assert np.max(independent) < 0.05


@pytest.mark.parametrize(
    "wrong", [{"n_cases": 0}, {"seed": -1}, {"coupling": 1.5}, {"hours": 0}], ids=lambda d: next(iter(d))
)
def test_impossible_cohorts_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Cohort(CENTRES["mover"], **({"n_cases": 1} | wrong))
    with pytest.raises(ConfigError, match=r"has 0\.\.0"):
        synthetic_surgery.simulate(Cohort(CENTRES["mover"], 1), 1)
