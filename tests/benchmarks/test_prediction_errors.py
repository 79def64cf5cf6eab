import dataclasses

import numpy as np
import pytest

from wearjax.benchmarks.openmhc import prediction_errors, prediction_metrics, prediction_timing
from wearjax.errors import ConfigError

CODES = ("age", "Diabetes", "BMI_categories")
N_BOOT = 10


@pytest.fixture(scope="module")
def predictions():
    made = prediction_timing.random_predictions(n_participants=60, n_methods=3, tasks=CODES, seed=1)
    return prediction_errors.common(made)[0]


@pytest.fixture(scope="module")
def errors(predictions):
    return prediction_errors.compute(predictions, n_boot=N_BOOT, seed=42)


def plain(found, method, rows, cell) -> float:
    """The error of some rows of a task inside a cell."""
    attribute, value = cell
    if cell != prediction_errors.EVERYBODY:
        rows = np.array([r for r in rows if found.subgroups[attribute][r] == value], int)
        if len(rows) < 2:
            return np.nan
    return 1 - prediction_metrics.metric(found.task.kind, found.y_true[rows], found.scored(method)[rows])


def test_points_and_draws_equal_the_metric_of_their_rows(predictions, errors):
    assert [t.code for t in errors.tasks] == sorted(CODES)
    generator = np.random.default_rng(42)
    for t, found in enumerate(predictions):
        n = len(found.users)
        draws = generator.integers(0, n, size=(N_BOOT, n))
        for m, method in enumerate(errors.methods):
            for c, cell in enumerate(errors.cells):
                np.testing.assert_equal(errors.point[m, t, c], plain(found, method, range(n), cell))
                expected = np.array([plain(found, method, rows, cell) for rows in draws], np.float32)
                np.testing.assert_allclose(errors.drawn[:, m, t, c], expected, rtol=1e-6, equal_nan=True)


def test_leaving_a_participant_out_changes_their_cells(predictions, errors):
    for found, left_out in zip(predictions, errors.left_out, strict=True):
        assert [errors.users[i] for i in left_out.users] == list(found.users)
        for i in range(0, len(found.users), 7):
            rows = [r for r in range(len(found.users)) if r != i]
            for a, attribute in enumerate(("age_group", "sex")):
                cell = errors.cells[left_out.cell[a, i]]
                assert cell == (attribute, found.subgroups[attribute][i])
                expected = [plain(found, m, rows, cell) for m in errors.methods]
                np.testing.assert_allclose(left_out.errors[a, :, i], expected, rtol=1e-9, equal_nan=True)


def test_without_a_bootstrap_there_are_only_points(predictions, errors):
    points = prediction_errors.compute(predictions, n_boot=0, seed=42)
    np.testing.assert_array_equal(points.point, errors.point)
    assert points.drawn is None
    assert points.left_out == ()


def test_draws_are_the_same_whatever_methods_take_part(predictions, errors):
    fewer = [
        dataclasses.replace(p, y_pred={"linear": p.y_pred["linear"]}, y_proba={"linear": p.y_proba["linear"]})
        for p in predictions
    ]
    alone = prediction_errors.compute(fewer, n_boot=N_BOOT, seed=42)
    np.testing.assert_allclose(alone.drawn[:, 0], errors.drawn[:, 0], rtol=1e-6, equal_nan=True)


def with_gaps(found, method, rows):
    values = found.y_pred[method].copy()
    values[rows] = np.nan
    return dataclasses.replace(found, y_pred={**found.y_pred, method: values})


def test_participants_whom_a_method_does_not_predict_leave_the_task(predictions):
    ordinal = next(p for p in predictions if p.task.kind == "ordinal")
    [kept], left_out = prediction_errors.common([with_gaps(ordinal, "method_1", [0, 4])])
    assert kept.users == tuple(u for i, u in enumerate(ordinal.users) if i not in (0, 4))
    assert kept.subgroups["sex"] == tuple(
        s for i, s in enumerate(ordinal.subgroups["sex"]) if i not in (0, 4)
    )
    assert left_out == {"task BMI_categories: participants whom some method does not predict": 2}


def test_tasks_that_are_not_shared_are_counted(predictions):
    first, second, third = predictions
    fewer = dataclasses.replace(
        first,
        y_pred={m: first.y_pred[m] for m in ("linear", "method_1")},
        y_proba={m: first.y_proba[m] for m in ("linear", "method_1")},
    )
    empty = with_gaps(third, "linear", slice(None))
    kept, left_out = prediction_errors.common([empty, second, fewer])
    assert [p.task.code for p in kept] == ["Diabetes"]
    assert left_out["tasks that some method does not have"] == 1
    assert left_out["tasks without a participant whom all methods predict"] == 1


def test_bad_predictions_are_refused(predictions):
    found = predictions[0]
    with pytest.raises(ValueError, match="users must be sorted"):
        dataclasses.replace(found, users=found.users[::-1])
    with pytest.raises(ValueError, match=r"y_true has \d+ rows"):
        dataclasses.replace(found, y_true=found.y_true[1:])
    with pytest.raises(ValueError, match="different methods"):
        dataclasses.replace(found, y_proba={})
    with pytest.raises(ConfigError, match="comes twice"):
        prediction_errors.common([found, found])
    with pytest.raises(ConfigError, match="no task"):
        prediction_errors.compute([], n_boot=0, seed=42)
