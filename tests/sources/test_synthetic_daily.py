"""The invented cohort: the same bytes again, plausible values, and the planted relations are really there."""

import numpy as np
import pytest

from wearjax import daily_metrics
from wearjax.daily_metrics import INDEX, METRICS
from wearjax.errors import ConfigError
from wearjax.sources import synthetic_daily, synthetic_daily_plans
from wearjax.sources.synthetic_daily_plans import FORTNIGHT

DAYS = 196


@pytest.fixture(scope="module")
def cohort():
    return [synthetic_daily.simulate(i, DAYS, 5) for i in range(48)]


def rank_correlation(a, b):
    both = np.isfinite(a) & np.isfinite(b)
    return np.corrcoef(a[both].argsort().argsort(), b[both].argsort().argsort())[0, 1]


def test_a_person_follows_from_seed_and_index(cohort):
    first, second = synthetic_daily.people(2, DAYS, 5)
    assert np.array_equal(second.values, cohort[1].record.values, equal_nan=True)
    assert second.blood == cohort[1].record.blood
    assert second.demographics == cohort[1].record.demographics
    (other,) = synthetic_daily.people(1, DAYS, 6)
    assert not np.array_equal(other.values, first.values, equal_nan=True)


def test_values_are_plausible_and_gaps_moderate(cohort):
    values = np.concatenate([person.record.values for person in cohort])
    for metric in METRICS:
        column = values[:, INDEX[metric.key]]
        known = column[np.isfinite(column)]
        assert len(known) > 0.4 * len(column), metric.key
        assert metric.plausible[0] <= known.min(), metric.key
        assert known.max() <= metric.plausible[1], metric.key
    assert np.isfinite(values[:, INDEX["steps"]]).mean() > 0.85
    assert all(len(p.record.dates) > 0.6 * DAYS for p in cohort)


def test_records_end_within_a_week_and_on_the_clock_of_the_regimes(cohort):
    last = {int(person.record.dates[-1]) for person in cohort}
    assert len(last) > 1
    assert max(last) <= synthetic_daily.LAST_DAY
    assert min(last) > synthetic_daily.LAST_DAY - 7


def test_what_was_recorded_is_the_truth(cohort):
    person = cohort[3]
    rows = person.record.dates - (person.record.dates[-1] - DAYS + 1)
    there = np.isfinite(person.record.values)
    assert np.array_equal(person.record.values[there], person.complete[rows][there])


def test_planted_couplings_are_in_the_days(cohort):
    """Strong lasting ones, at their lag and with their sign, outside of spells."""
    found, lags, signs = [], set(), set()
    for person in cohort:
        days = person.complete.copy()
        for spell in person.plan.spells:
            days[spell.first : spell.first + spell.days + spell.back] = np.nan
        for coupling in person.plan.couplings:
            if person.plan.style in ("driver", "hub"):
                source = days[: DAYS - coupling.lag, INDEX[coupling.source]]
                target = days[coupling.lag :, INDEX[coupling.target]]
                rho = rank_correlation(source, target)
                assert np.sign(rho) == np.sign(coupling.strength[0])
                found.append(abs(rho))
                lags.add(coupling.lag)
                signs.add(np.sign(rho))
    assert len(found) > 60
    assert np.median(found) > 0.75
    assert lags == {0, 1, 2, 3}
    assert signs == {-1, 1}


def test_turning_couplings_turn_with_the_fortnights(cohort):
    turned = 0
    for person in cohort:
        for coupling in person.plan.couplings if person.plan.style == "turning" else ():
            for back in range(4):
                span = slice(DAYS - (back + 1) * FORTNIGHT, DAYS - back * FORTNIGHT)
                pair = (person.complete[span, INDEX[key]] for key in (coupling.source, coupling.target))
                if any(
                    s.first < span.stop and s.first + s.days + s.back > span.start for s in person.plan.spells
                ):
                    continue
                strength = coupling.strength[back]
                if abs(strength) > 0.9:
                    assert rank_correlation(*pair) * np.sign(strength) > 0.5
                    turned += strength != coupling.strength[back + 1]
    assert turned >= 5


def test_without_couplings_metrics_have_nothing_to_do_with_each_other():
    free = [INDEX[key] for key in synthetic_daily_plans.FREE]
    strong = []
    for index in range(6):
        person = synthetic_daily.simulate(index, DAYS, 5, coupled=False)
        rho = np.corrcoef(person.complete[:, free].argsort(axis=0).argsort(axis=0).T)
        strong += (abs(rho[np.triu_indices(len(free), 1)]) > 0.4).tolist()
        assert not person.plan.couplings
        assert not person.plan.spells
    assert np.mean(strong) < 0.05


def test_every_kind_of_plan_occurs(cohort):
    plans = [person.plan for person in cohort]
    assert {plan.style for plan in plans} == {"driver", "hub", "turning", "predictable"}
    assert {habit for plan in plans for habit in plan.habits.values()} == set(synthetic_daily_plans.HABITS)
    assert {spell.kind for plan in plans for spell in plan.spells} == set(synthetic_daily_plans.SPELLS)
    assert sum(plan.cycle is not None for plan in plans) >= 4
    assert sum(np.any(plan.offsets != 0) for plan in plans) >= 12
    for plan in plans:
        sources, targets = ({getattr(c, side) for c in plan.couplings} for side in ("source", "target"))
        assert not sources & targets
        assert not any(daily_metrics.is_definitional(c.source, c.target) for c in plan.couplings)


def test_an_illness_shows_its_signature(cohort):
    shown = 0
    for person in cohort:
        for spell in person.plan.spells:
            if spell.kind == "illness":
                span = slice(spell.first, spell.first + spell.days)
                for key, direction in (("rhr", 1), ("hrv", -1), ("steps", -1)):
                    if person.plan.habits[key] != "quiet":  # moves as much by itself
                        continue
                    column = person.complete[:, INDEX[key]]
                    around = column[max(0, spell.first - 21) : span.stop + 21]
                    assert direction * (np.median(column[span]) - np.median(around)) > 0.7 * np.std(around)
                    shown += 1
    assert shown >= 10


def test_levels_profile_and_blood_hang_together(cohort):
    fitness = np.array([person.traits.fitness for person in cohort])
    for key, sign in (("rhr", -1), ("steps", 1), ("vo2_max", 1)):
        usual = np.array([np.nanmedian(person.complete[:, INDEX[key]]) for person in cohort])
        assert sign * np.corrcoef(fitness, usual)[0, 1] > 0.5
    panels = [person.record.blood for person in cohort if person.record.blood]
    assert 30 <= len(panels) < 48
    assert len(set().union(*panels)) == 17
    risk = np.array([person.traits.metabolic for person in cohort if "triglycerides" in person.record.blood])
    fat = [p["triglycerides"].value for p in panels if "triglycerides" in p]
    assert np.corrcoef(risk, np.log(fat))[0, 1] > 0.3


@pytest.mark.parametrize("wrong", [{"n": 0}, {"days": 27}, {"seed": -1}])
def test_an_impossible_cohort_is_refused_at_once(wrong):
    with pytest.raises(ConfigError):
        synthetic_daily.people(**({"n": 1} | wrong))
    with pytest.raises(ConfigError):
        synthetic_daily.simulate(-1)
