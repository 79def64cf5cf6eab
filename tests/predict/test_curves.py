"""Curve features: splines and components against their definitions, cosinor on known rhythms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_feature_days import varied_days

from wearjax.channels import INDEX
from wearjax.predict.features import curves, day_block, fpca, splines

MINUTES = np.arange(1440)


def test_there_are_52_names_by_kind():
    assert len(curves.NAMES) == len(set(curves.NAMES)) == 52
    starts = [
        sum(name.startswith(kind) for name in curves.NAMES)
        for kind in ("fpca_", "hr_cosinor_", "hros_profile_")
    ]
    assert starts == [40, 7, 5]
    assert curves.NAMES[0] == "fpca_watch_hr_1"
    assert curves.NAMES[39] == "fpca_iphone_steps_10"


def test_splines_agree_with_scipy():
    interpolate = pytest.importorskip("scipy.interpolate")
    basis = splines.cubic(9, 90.0)
    points = np.linspace(0, 90, 181)
    expected = np.stack([interpolate.BSpline(basis.knots, unit, 3)(points) for unit in np.eye(9)], axis=1)
    np.testing.assert_allclose(basis.at(points), expected, atol=1e-12)
    fine = np.linspace(0, 90, 90 * 64 + 1)
    second = np.stack(
        [interpolate.BSpline(basis.knots, unit, 3).derivative(2)(fine) for unit in np.eye(9)], axis=1
    )
    value = basis.at(fine)
    integral = lambda products: np.trapezoid(products, fine, axis=0)  # noqa: E731
    np.testing.assert_allclose(basis.products, integral(value[:, :, None] * value[:, None]), atol=1e-3)
    curvature = integral(second[:, :, None] * second[:, None])
    np.testing.assert_allclose(basis.curvature, curvature, atol=2e-3 * curvature.max())


def test_a_straight_line_has_no_curvature_to_penalize():
    basis = splines.cubic(24, 1440.0)
    line = 60 + 0.01 * MINUTES
    known = MINUTES % 7 == 0
    fit = splines.penalized_fit(basis, basis.at(MINUTES), line, known, 1e9)
    np.testing.assert_allclose(basis.at(MINUTES) @ fit, line, rtol=1e-6)


def test_the_fit_minimizes_the_penalized_error():
    rng = np.random.default_rng(0)
    basis = splines.cubic(24, 1440.0)
    design, values = basis.at(MINUTES), 70 + 5 * rng.standard_normal(1440)
    known = rng.random(1440) < 0.3
    fit = splines.penalized_fit(basis, design, values, known, curves.PENALTY)

    def cost(c):
        return np.sum((values - design @ c)[known] ** 2) + curves.PENALTY * c @ basis.curvature @ c

    assert all(cost(fit) < cost(fit + 0.01 * rng.standard_normal(24)) for _ in range(20))


@pytest.mark.parametrize("n", [5, 8, 1440])
def test_simpson_integrates_parabolas_exactly(n):
    points = np.arange(n)
    weights = fpca.simpson_weights(n)
    for power in (0, 1, 2):
        assert weights @ points**power == pytest.approx((n - 1) ** (power + 1) / (power + 1))


def test_grid_scores_are_projections_on_orthonormal_functions():
    rng = np.random.default_rng(1)
    curves_made = rng.standard_normal((30, 4)) * [9, 5, 2, 1] @ rng.standard_normal((4, 60))
    scores = fpca.grid_scores(curves_made, 4)
    centred = curves_made - curves_made.mean(axis=0)
    weights = fpca.simpson_weights(60)
    # Four components hold everything, so that inner products of curves are those of scores.
    np.testing.assert_allclose(scores @ scores.T, (centred * weights) @ centred.T, atol=1e-8)
    covariance = scores.T @ scores
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-7)
    assert (np.diff(np.diag(covariance)) < 0).all()


@pytest.mark.parametrize("shape", [(12, 60), (60, 12)])
def test_the_largest_loading_is_positive(shape):
    curves_made = np.random.default_rng(2).standard_normal(shape)
    scores = fpca.grid_scores(curves_made, 3)
    centred = curves_made - curves_made.mean(axis=0)
    loadings = (np.linalg.pinv(scores) @ centred).T  # proportional to the component functions
    assert (loadings[np.argmax(np.abs(loadings), axis=0), np.arange(3)] > 0).all()
    # Turning every curve around turns the scores around, not the components.
    np.testing.assert_allclose(fpca.grid_scores(-curves_made, 3), -scores, atol=1e-8)


def test_components_beyond_the_rank_are_missing():
    scores = fpca.grid_scores(np.random.default_rng(3).standard_normal((4, 50)), 10)
    assert np.isfinite(scores[:, :3]).all()
    assert np.isnan(scores[:, 3:]).all()
    assert np.isnan(fpca.grid_scores(np.ones((5, 50)), 2)).all()
    assert np.isnan(fpca.grid_scores(np.ones((1, 50)), 2)).all()


def test_a_missing_point_takes_the_mean_of_the_others():
    curves_made = np.random.default_rng(4).standard_normal((20, 30))
    curves_made[3, 5] = np.nan
    filled = curves_made.copy()
    filled[3, 5] = np.nanmean(curves_made[:, 5])
    np.testing.assert_allclose(fpca.grid_scores(curves_made, 4), fpca.grid_scores(filled, 4))


def test_basis_and_grid_agree_on_the_same_curves():
    basis = splines.cubic(24, 1440.0)
    coefficients = np.random.default_rng(5).standard_normal((40, 24)) * np.linspace(5, 1, 24)
    by_basis = fpca.basis_scores(coefficients, basis.products, 3)
    by_grid = fpca.grid_scores(coefficients @ basis.at(np.arange(1441.0)).T, 3)
    np.testing.assert_allclose(np.abs(by_basis), np.abs(by_grid), rtol=1e-2, atol=0.2)


def rhythm(level=70.0, amplitude=8.0, peak=15.0, noise=0.0, seed=0):
    wave = level + amplitude * np.cos(2 * np.pi * (MINUTES / 60 - peak) / 24)
    return wave + noise * np.random.default_rng(seed).standard_normal(1440)


@settings(max_examples=20)
@given(st.floats(50, 120), st.floats(1, 20), st.floats(0, 23.9))
def test_cosinor_finds_a_known_rhythm(level, amplitude, peak):
    found = dict(zip(curves.COSINOR, curves.cosinor(rhythm(level, amplitude, peak)), strict=True))
    assert found["mesor"] == pytest.approx(level)
    assert found["amplitude"] == pytest.approx(amplitude)
    assert (found["acrophase"] - peak + 12) % 24 - 12 == pytest.approx(0, abs=1e-6)
    assert found["r2"] == pytest.approx(1)
    assert found["p_value"] == pytest.approx(0, abs=1e-12)
    assert found["amplitude_ratio"] == pytest.approx(amplitude / level)
    assert found["n_minutes"] == 1440


def test_cosinor_p_value_is_that_of_the_f_test():
    stats = pytest.importorskip("scipy.stats")
    values = rhythm(amplitude=0.4, noise=6.0)
    values[300:1000] = np.nan
    found = dict(zip(curves.COSINOR, curves.cosinor(values), strict=True))
    n = 740
    statistic = found["r2"] / 2 / ((1 - found["r2"]) / (n - 3))
    assert found["n_minutes"] == n
    assert found["p_value"] == pytest.approx(stats.f.sf(statistic, 2, n - 3), rel=1e-9)
    assert 0.001 < found["p_value"] < 1


def test_cosinor_needs_two_hundred_minutes_and_a_flat_day_has_no_share():
    values = rhythm()
    values[199:] = np.nan
    assert np.isnan(curves.cosinor(values)[:-1]).all()
    assert curves.cosinor(values)[-1] == 199
    flat = dict(zip(curves.COSINOR, curves.cosinor(np.full(1440, 64.0)), strict=True))
    assert flat["mesor"] == pytest.approx(64)
    assert np.isnan([flat["r2"], flat["p_value"]]).all()
    assert curves.cosinor(np.full(1440, np.nan))[-1] == 0


def test_mean_day_counts_unworn_minutes_as_no_steps_and_skips_missing_heart_rate():
    values, nonwear, weekend = varied_days()
    sums = curves.DaySums()
    for part in (slice(0, 5), slice(5, 12)):
        sums.add(day_block.of_values(values[part], nonwear[part], weekend[part]))
    mean = sums.mean_day()
    np.testing.assert_allclose(mean.counted[0], values[:, INDEX["watch_steps"]].mean(axis=0), rtol=1e-6)
    minute = 500
    beats = [60 * v for v in values[:, INDEX["watch_hr"], minute] if v > 0]
    assert mean.heart_rate[minute] == pytest.approx(np.mean(beats), rel=1e-5)


def test_step_cost_divides_heart_rate_by_steps():
    heart_rate, steps = np.full(1440, 80.0), np.zeros(1440)
    steps[360:1320] = 3
    heart_rate[0:60] = np.nan
    found = dict(zip(curves.PROFILE, curves.step_cost(heart_rate, steps), strict=True))
    assert (found["daytime_mean"], found["nighttime_mean"], found["day_night_ratio"]) == (20, 80, 0.25)
    known = np.r_[np.full(960, 20.0), np.full(420, 80.0)]
    assert found["mean"] == pytest.approx(known.mean())
    assert found["std"] == pytest.approx(known.std())
    assert np.isnan(curves.step_cost(np.full(1440, np.nan), steps)).all()


def part(heart_rate, seed=0):
    counted = np.random.default_rng(seed).gamma(1, 5, (3, 1440))
    return curves.MeanDay(heart_rate, counted).part().astype(np.float32)


def test_who_has_no_heart_rate_sits_at_the_mean_curve():
    parts = np.stack([part(rhythm(60 + 3 * i, 2 + i, noise=1, seed=i), i) for i in range(12)])
    lacking = np.full(1440, np.nan)
    lacking[:9] = 70
    with_one = curves.features(np.concatenate([parts, part(lacking, 99)[None]]))
    assert with_one.shape == (13, 52)
    heart = with_one[:, :10]
    np.testing.assert_allclose(heart[-1], 0, atol=1e-3)
    np.testing.assert_allclose(np.abs(heart[:-1]), np.abs(curves.features(parts)[:, :10]), atol=2e-2)


def test_components_see_the_whole_cohort():
    parts = np.stack([part(rhythm(60 + 3 * i, 2 + i, noise=1, seed=i), i) for i in range(12)])
    alone = curves.features(parts[:8])
    assert not np.allclose(alone[:, 0], curves.features(parts)[:8, 0])
    np.testing.assert_array_equal(alone[:, 40:], curves.features(parts)[:8, 40:])


def test_nobody_with_heart_rate_leaves_its_components_missing():
    parts = np.stack([part(np.full(1440, np.nan), i) for i in range(3)])
    found = curves.features(parts)
    assert np.isnan(found[:, :10]).all()
    assert np.isfinite(found[:, 10:12]).all()
