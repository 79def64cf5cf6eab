"""Planted shapes, shifts and events, and the ones that lie too near a boundary."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.benchmarks.wearableqa import graph  # noqa: F401  (registers all primitives)
from wearjax.benchmarks.wearableqa import primitives_shapes as shapes
from wearjax.benchmarks.wearableqa.primitives import OPS

DAYS = np.arange(28.0)
PLANTED = {
    "flat": 0 * DAYS,
    "steady_rise": DAYS / 9,
    "steady_fall": -DAYS / 9,
    "peak": -np.abs(DAYS - 13) / 6,
    "trough": np.abs(DAYS - 13) / 6,
    "step_up": 2.0 * (DAYS >= 13),
    "step_down": -2.0 * (DAYS >= 13),
    "rise_then_plateau": np.minimum(DAYS, 12) / 3,
    "fall_then_plateau": -np.minimum(DAYS, 12) / 3,
    "weekly": 1.2 * np.cos(2 * np.pi * DAYS / 7),
}


def z(*days: float) -> np.ndarray:
    return np.array([days], np.float64)


@pytest.mark.parametrize("shape", PLANTED)
def test_planted_shapes_are_found_in_noise_with_days_missing(shape):
    rng = np.random.default_rng(1)
    rows = PLANTED[shape] + 0.1 * rng.standard_normal((60, 28))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    winner, lead, _ = shapes.shape_class(shapes.rolling_median(rows)).T
    hit = winner == shapes.SHAPES.index(shape)
    assert hit.mean() >= 0.85
    assert np.mean(~hit & (lead >= 6)) <= 0.05


def test_fits_are_least_squares_on_the_measured_days():
    rng = np.random.default_rng(2)
    y = np.sin(DAYS / 5) + 0.2 * rng.standard_normal(28)
    y[[3, 4, 17]] = np.nan
    there = np.isfinite(y)
    error, _ = shapes._fits(np.where(there, y, 0)[None], there[None] * 1.0, np.array([there.sum() * 1.0]))
    found = []
    for turn in shapes.TURNS:
        design = np.stack([np.ones(28), np.minimum(DAYS - turn, 0), np.maximum(DAYS - turn, 0)], axis=1)[
            there
        ]
        slopes, (rss,), *_ = np.linalg.lstsq(design, y[there], rcond=None)
        if slopes[1] > 0 > slopes[2]:
            found.append(rss)
    assert error[0, shapes.SHAPES.index("peak")] == pytest.approx(min(found))


@pytest.mark.parametrize(("range_", "answer"), [(0.35, "flat"), (0.7, None), (1.05, "steady_rise")])
def test_small_movements_are_flat_and_middling_ones_undefined(range_, answer):
    (found,) = shapes.shape_class(range_ * DAYS[None] / 27)
    assert np.isnan(found).all() if answer is None else found[0] == shapes.SHAPES.index(answer)


def test_too_few_days_have_no_shape():
    y = PLANTED["peak"].copy()
    y[:13] = np.nan
    assert np.isnan(shapes.shape_class(y[None])).all()
    y[12] = 0
    assert not np.isnan(shapes.shape_class(y[None])).any()


def test_rolling_median_needs_two_of_three_days():
    found = OPS["rolling_median"](z(1, 5, np.nan, np.nan, 2, 9, 4))
    np.testing.assert_array_equal(found, z(3, 3, np.nan, np.nan, 5.5, 4, 6.5))


def plain_changepoint(row: np.ndarray) -> tuple[float, float, float]:
    """Break by break."""
    shift = {}
    for day in range(6, 23):
        before, after = (part[~np.isnan(part)] for part in (row[: day - 1], row[day - 1 :]))
        if min(len(before), len(after)) >= 4:
            shift[day] = np.median(after) - np.median(before)
    best = max(shift, key=lambda day: abs(shift[day]))
    return (
        best,
        shift[best],
        abs(shift[best]) - max(abs(v) for day, v in shift.items() if abs(day - best) >= 4),
    )


def test_changepoint_is_the_first_day_of_the_new_level():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((40, 28))
    rows[20:] -= 3.0 * (DAYS >= 7)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    found = OPS["changepoint"](rows)
    np.testing.assert_allclose(found, [plain_changepoint(row) for row in rows])
    led = found[20:][found[20:, 2] >= 0.4]
    assert len(led) >= 3
    assert (np.abs(led[:, 0] - 8) <= 3).all()
    assert (led[:, 1] < -1.2).all()


def test_two_equal_shifts_have_no_lead():
    y = 2.0 * (DAYS >= 8) + 2.0 * (DAYS >= 19)
    assert OPS["changepoint"](y[None])[0, 2] < 0.4
    assert np.isnan(OPS["changepoint"](np.full((1, 28), np.nan))).all()


def test_excursions_of_each_half_and_direction():
    days = np.zeros((1, 28))
    days[0, [0, 13, 14, 20, 27]] = [1.6, 1.5, 1.51, -3, np.nan]
    np.testing.assert_array_equal(OPS["excursion_count"](days, threshold=1.5, direction="up"), [[1, 1]])
    np.testing.assert_array_equal(OPS["excursion_count"](days, threshold=1.5, direction="down"), [[0, 1]])
    flags = OPS["beyond"](days, threshold=1.5, direction="up")
    assert np.isnan(flags[0, 27])
    assert flags[0, :21].sum() == 2


def test_event_spans_one_day_but_not_two():
    gapped = z(0, 2, 0, 2, 2, 0, 0, 3, 3, 0, 0)
    first, last, weight, lead = OPS["event_largest"](gapped, direction="up")[0]
    assert (first, last, weight) == (1, 4, 6)
    assert lead == 0  # 2+2+2 against 3+3
    unmeasured = z(0, 2, np.nan, 2, 0, 0, 0, 2, 0, 0)
    np.testing.assert_array_equal(OPS["event_largest"](unmeasured, direction="up"), z(1, 3, 4, np.inf))


def test_event_at_the_end_and_none_at_all():
    rows = np.concatenate([z(0, 0, 0, -2, -2), z(0, -2, 0, 0, 0), z(0, 2, 2, 2, 0)])
    found = OPS["event_largest"](rows, direction="down")
    np.testing.assert_array_equal(found[0], [3, 4, 4, np.inf])
    assert np.isnan(found[1:]).all()


def test_runs_are_counted_alone_and_together():
    flags = np.array([[1, 1, 0, 1, 1, 1, 0, 0, 1], [0] * 9], np.float64)
    np.testing.assert_array_equal(OPS["runs"](flags, min_len=2), [[2, 3], [0, 0]])
    np.testing.assert_array_equal(OPS["runs"](flags, min_len=2, gap=1), [[1, 5], [0, 0]])
    np.testing.assert_array_equal(OPS["runs"](flags, min_len=1), [[3, 3], [0, 0]])


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ((2, 2, 0.4, 0.5, 0, 0), (1, 0)),
        ((2, 2, 0.4, 0.6, 0.5, -0.5), (3, 0)),  # two in a row
        ((2, 2, 1, 1, 1, 0), (-1, 0)),
        ((2, 2, 1, np.nan, 0, 0), (3, 1)),
        ((2, 2, 0, np.nan, 0, 1), (1, 1)),  # two measured days in a row
        ((2, 2, 0, np.nan, 1, 0), (-1, 1)),
        ((0, 0, 0, 0, 2, 2), (-1, 0)),
    ],
)
def test_days_to_return(days, expected):
    event = OPS["event_largest"](z(*days), direction="up")
    assert tuple(OPS["days_to_return"](z(*days), event)[0]) == expected


def test_no_event_no_recovery():
    event = OPS["event_largest"](z(0, 0, 0), direction="up")
    assert np.isnan(OPS["days_to_return"](z(0, 0, 0), event)).all()
