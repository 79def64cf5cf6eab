"""Skill, rank and fair skill against the rules carried out draw by draw, copy by copy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wearjax.benchmarks.openmhc import forecasting_draws, forecasting_scores
from wearjax.benchmarks.openmhc.forecasting_scores import CATEGORIES, ScoredMetrics
from wearjax.channels import BINARY, N_CHANNELS
from wearjax.errors import ConfigError
from wearjax.scores import bootstrap, intervals

METHODS = ("seasonal_naive", "a", "b")


def random_metrics(n: int, seed: int, *, missing: float = 0.15, ties: bool = False) -> ScoredMetrics:
    rng = np.random.default_rng(seed)
    values = rng.gamma(2.0, 1.0, (len(METHODS), N_CHANNELS, n))
    flags = list(BINARY)
    values[:, flags] = np.clip(rng.normal(0.8, 0.2, values[:, flags].shape), 0, 1)
    if ties:
        values = np.round(values, 1)
    values[rng.random(values.shape) < missing] = np.nan
    values[:, 12] = np.nan
    groups = {
        "age_group": tuple(rng.choice(["18-29", "30-39", "unknown"], n)),
        "sex": tuple(rng.choice(["female", "male"], n)),
    }
    return ScoredMetrics(METHODS, tuple(f"p{i:02d}" for i in range(n)), values, groups)


def mean(values) -> float:
    finite = [v for v in values if not math.isnan(v)]
    return float(np.mean(finite)) if finite else math.nan


def nested(by_channel: dict[int, float]) -> dict[str, float]:
    found = {f"channel_{c}": v for c, v in by_channel.items()}
    found |= {name: mean([by_channel[c] for c in members]) for name, members in CATEGORIES.items()}
    return found | {"overall": mean([found[name] for name in CATEGORIES])}


def error(value: float, c: int) -> float:
    return max(1 - value, 0.005) if c in BINARY else value


def direct(metrics: ScoredMetrics, people: list[int]) -> dict[tuple, float]:
    """Every score of a sample whose participants stand in a list as often as they were drawn."""
    v = metrics.values
    found = {}
    ratios_of = {
        m: {c: mean(pair_logs(v[m, c, people], v[0, c, people], c)) for c in range(N_CHANNELS)}
        for m in range(3)
    }
    for m, method in enumerate(METHODS):
        found |= {(method, "skill", s): 1 - math.exp(x) for s, x in nested(ratios_of[m]).items()}
        ranks = {c: mean([rank_of(m, v[:, c, p], c) for p in people]) for c in range(N_CHANNELS)}
        found |= {(method, "rank", s): x for s, x in nested(ranks).items()}
    found |= fair(metrics, people)
    return {key: value for key, value in found.items() if not math.isnan(value)}


def pair_logs(own, base, c):
    for e, b in zip(own, base, strict=True):
        e, b = error(e, c), error(b, c)
        if math.isfinite(e) and math.isfinite(b) and b > 0:
            yield math.log(min(max(e / b, 0.01), 100))


def rank_of(m, values, c):
    if math.isnan(values[m]):
        return math.nan
    keyed = [(-x if c in BINARY else x) for x in values if not math.isnan(x)]
    own = -values[m] if c in BINARY else values[m]
    return sum(x < own for x in keyed) + (sum(x == own for x in keyed) + 1) / 2


def fair(metrics: ScoredMetrics, people: list[int]) -> dict[tuple, float]:
    by_attribute = {}
    for attribute, labels in metrics.subgroups.items():
        of_method = {}
        for m, method in enumerate(METHODS):
            logs = {c: disparity_log(metrics, people, labels, m, c) for c in range(N_CHANNELS)}
            if not all(math.isnan(x) for x in logs.values()):
                of_method[method] = {s: 1 - math.exp(x) for s, x in nested(logs).items()}
        if of_method:
            by_attribute[attribute] = of_method
    found = {}
    for method, scope in itertools.product(METHODS, forecasting_scores.SCOPES):
        own = [of_method.get(method, {}).get(scope, math.nan) for of_method in by_attribute.values()]
        found[method, "fair_skill", scope] = (
            float(np.mean(own)) if own else math.nan
        )  # NaN where one lacks it
    for attribute, of_method in by_attribute.items():
        found |= {(m, "fair_skill", attribute): of["overall"] for m, of in of_method.items()}
    return found


def disparity_log(metrics, people, labels, m, c) -> float:
    groups = {}
    for label in set(labels):
        members = [p for p in people if labels[p] == label]
        pair = [mean([error(metrics.values[k, c, p], c) for p in members]) for k in (m, 0)]
        if not any(math.isnan(x) for x in pair):
            groups[label] = pair
    pairs = list(itertools.combinations(groups.values(), 2))
    if not pairs:
        return math.nan
    own, base = (float(np.mean([abs(a[k] - b[k]) for a, b in pairs])) for k in (0, 1))
    return math.log(min(max(own / base, 0.01), 100)) if base > 1e-12 else math.nan


def assert_points(metrics: ScoredMetrics) -> None:
    wanted = direct(metrics, list(range(len(metrics.participants))))
    found = {(s.method, s.metric, s.scope): s.point for s in forecasting_scores.score(metrics, n_boot=0)}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=1e-9, abs=1e-12), key


@settings(max_examples=10, deadline=None)
@example(3, 10_000, True)  # group means that are equal but for rounding
@given(st.integers(2, 12), st.integers(0, 10_000), st.booleans())
def test_points_follow_the_rules(n, seed, ties):
    assert_points(random_metrics(n, seed, ties=ties))


@pytest.mark.parametrize("n", [5, 9], ids=["a handful", "by products"])
def test_draws_replicate_whoever_was_drawn(n):
    metrics = random_metrics(n, seed=n)
    matrix = bootstrap.resample_matrix(bootstrap.derived_seed(7, "forecasting"), n, 10)
    everybody = direct(metrics, list(range(n)))
    drawn = [direct(metrics, row.tolist()) for row in matrix]
    left_out = [direct(metrics, [p for p in range(n) if p != i]) for i in range(n)]
    scores = forecasting_scores.score(metrics, n_boot=10, seed=7)
    assert {(s.method, s.metric, s.scope) for s in scores} == set(everybody)
    for s in scores:
        key = (s.method, s.metric, s.scope)
        draws = np.array([d.get(key, np.nan) for d in drawn])
        finite = draws[np.isfinite(draws)]
        assert s.n_boot == len(finite), key
        if not len(finite):
            assert math.isnan(s.mean)
            continue
        low, high = np.percentile(finite, [2.5, 97.5])
        actual = (s.point, s.mean, s.se, s.percentile_lo, s.percentile_hi)
        wanted = (everybody[key], finite.mean(), finite.std(ddof=1), low, high)
        np.testing.assert_allclose(actual, wanted, rtol=1e-7, atol=1e-9, err_msg=str(key))
        if np.isclose(finite, everybody[key], rtol=1e-9).any():
            continue  # whether a draw lies below the point is decided by the last bit
        jackknife = np.array([d.get(key, np.nan) for d in left_out])
        bca = intervals.bca(draws, everybody[key], jackknife)
        np.testing.assert_allclose((s.bca_lo, s.bca_hi), bca, rtol=1e-6, atol=1e-9, err_msg=str(key))
        shown = (s.bca_lo, s.bca_hi) if s.metric == "fair_skill" else (low, high)
        np.testing.assert_allclose((s.ci_lo, s.ci_hi), shown, rtol=1e-7, atol=1e-9)


def one_channel(baseline, method, c=0) -> ScoredMetrics:
    values = np.full((2, N_CHANNELS, len(baseline)), np.nan)
    values[0, c], values[1, c] = baseline, method
    people = tuple(f"p{i}" for i in range(len(baseline)))
    return ScoredMetrics(("seasonal_naive", "m"), people, values)


def at(metrics: ScoredMetrics, **options) -> dict:
    scores = forecasting_scores.score(metrics, **{"n_boot": 0, **options})
    return {(s.method, s.metric, s.scope): s for s in scores}


def test_worked_example_and_a_baseline_without_error():
    found = at(one_channel([8, 4, 10, 0], [4, 2, 1, 1]))
    score = found["m", "skill", "channel_0"]
    assert score.point == pytest.approx(0.7076, abs=5e-5)
    assert score.n_participants == 3  # without the one whose baseline error is zero
    assert found["seasonal_naive", "skill", "overall"].point == 0.0
    assert found["m", "rank", "channel_0"].point == pytest.approx((1 + 1 + 1 + 2) / 4)
    assert "physiology" not in {scope for _, _, scope in found}


def test_flags_are_floored_in_ratios_and_not_in_ranks():
    found = at(one_channel([0.9, 1.0], [1.0, 0.9], c=9))
    assert found["m", "skill", "workout"].point == pytest.approx(0.0)
    assert found["m", "rank", "workout"].point == 1.5
    beyond = at(one_channel([0.998, 0.998], [1.0, 0.997], c=9))
    assert beyond["m", "skill", "workout"].point == 0.0  # all errors are below the floor
    assert beyond["m", "rank", "workout"].point == 1.5


def test_ratios_are_clipped_participant_by_participant():
    found = at(one_channel([1.0, 1.0], [1e-9, 1e9]))
    assert found["m", "skill", "overall"].point == pytest.approx(0.0)


def test_an_attribute_with_one_subgroup_is_skipped_and_none_gives_no_fair_skill():
    metrics = random_metrics(9, seed=1)
    one = {**metrics.subgroups, "sex": ("male",) * 9}
    found = at(ScoredMetrics(METHODS, metrics.participants, metrics.values, one))
    scopes = {scope for _, metric, scope in found if metric == "fair_skill"}
    assert "age_group" in scopes
    assert "sex" not in scopes
    assert found["a", "fair_skill", "overall"].point == found["a", "fair_skill", "age_group"].point
    none = at(ScoredMetrics(METHODS, metrics.participants, metrics.values))
    assert "fair_skill" not in {metric for _, metric, _ in none}


def test_a_method_without_an_attribute_that_others_have_has_no_overall_fair_skill():
    metrics = random_metrics(9, seed=2, missing=0.0)
    values = metrics.values.copy()
    women = np.array(metrics.subgroups["sex"]) == "female"
    values[1][:, women] = np.nan
    found = at(ScoredMetrics(METHODS, metrics.participants, values, metrics.subgroups))
    assert ("a", "fair_skill", "sex") not in found
    assert ("a", "fair_skill", "age_group") in found
    assert ("a", "fair_skill", "overall") not in found
    assert ("b", "fair_skill", "overall") in found


def test_subgroups_without_a_difference_have_none_whatever_their_size():
    # Three copies of a tenth have a mean beside a tenth in plain sums.
    n = 30
    values = np.full((2, N_CHANNELS, n), 0.1)
    values[1, :, 0] = 0.7
    sexes = ("female",) * 7 + ("male",) * 23
    metrics = ScoredMetrics(
        ("seasonal_naive", "m"), tuple(f"p{i:02d}" for i in range(n)), values, {"sex": sexes}
    )
    assert not [s for s in at(metrics, n_boot=50).values() if s.metric == "fair_skill"]


def test_equal_samples_have_equal_means_in_any_order():
    rng = np.random.default_rng(0)
    values = rng.gamma(2.0, 1.0, (3, 5, 40))
    values[rng.random(values.shape) < 0.2] = np.nan
    order = np.stack([rng.permutation(40) for _ in range(20)])
    means = forecasting_draws.means(values)
    found = means(forecasting_draws.Sample(order, 40))
    point = means(forecasting_draws.everybody(40))
    assert (found == point).all()
    np.testing.assert_allclose(point[0], np.nanmean(values, axis=-1), rtol=1e-14)


@pytest.mark.parametrize("n", [5, 600])
def test_samples_are_everybody_then_draws_then_all_but_one(n):
    draws = bootstrap.resample_matrix(0, n, 7)
    blocks = [make() for make in forecasting_draws.samples(n, draws)]
    assert blocks[0].positions.tolist() == [list(range(n))]
    np.testing.assert_array_equal(blocks[1].weights, bootstrap.multiplicities(draws))
    left_out = np.concatenate([block.weights for block in blocks[2:]])
    np.testing.assert_array_equal(left_out, 1.0 - np.eye(n))


def test_age_is_that_of_2020_and_unknown_stays_a_group():
    people = {"a": {"birth_year": 1990, "sex": "male"}, "b": {"birth_year": 2003, "sex": None}}
    found = forecasting_scores.subgroups(people, ["a", "b", "c"])
    assert found == {
        "age_group": ("30-39", "unknown", "unknown"),
        "sex": ("male", "unknown", "unknown"),
    }
    assert forecasting_scores.subgroups(people, ["c"]) == {}


def test_same_seed_same_scores_and_progress_is_told():
    metrics = random_metrics(6, seed=5)
    told = []
    first = forecasting_scores.score(metrics, n_boot=20, progress=lambda *at: told.append(at))
    assert repr(first) == repr(forecasting_scores.score(metrics, n_boot=20))
    assert repr(first) != repr(forecasting_scores.score(metrics, n_boot=20, seed=43))
    assert told == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(ConfigError, match="'seasonal_naive' is not in the table"):
        forecasting_scores.score(ScoredMetrics(("m",), ("p",), metrics.values[:1, :, :1]))
