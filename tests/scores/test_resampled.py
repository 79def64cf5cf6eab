import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from wearjax.scores import bootstrap, classification, correlation, resampled

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3)), min_size=1, max_size=25)


def draws_of(n: int, n_draws: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draws, and how often each row is in each of them."""
    draws = bootstrap.resample_matrix(seed, n, n_draws)
    return draws, bootstrap.multiplicities(draws).T


def assert_each_draw(found, plain, draws, truth, scores):
    expected = [plain(truth[rows], scores[rows]) for rows in draws]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def average_precision(labels, scores) -> float:
    return np.nan if labels.all() else classification.average_precision(labels, scores)


@given(ROWS)
@settings(max_examples=40)
def test_average_precision_of_draws(rows):
    level, score = np.array(rows, np.float64).T
    labels = level > 1
    draws, counts = draws_of(len(rows))
    found = resampled.average_precision(labels, score, counts)
    assert_each_draw(found, average_precision, draws, labels, score)


@given(ROWS)
@settings(max_examples=40)
def test_spearman_of_draws(rows):
    level, score = np.array(rows, np.float64).T
    draws, counts = draws_of(len(rows))
    found = resampled.spearman(level, score, counts)
    assert_each_draw(found, correlation.spearman, draws, level, score)


@given(ROWS)
@settings(max_examples=40)
def test_accuracy_of_draws(rows):
    level, score = np.array(rows, np.float64).T
    draws, counts = draws_of(len(rows))
    found = resampled.accuracy(level, score, counts)
    assert_each_draw(found, lambda x, y: np.mean(x == y), draws, level, score)


def test_many_distinct_values():
    rng = np.random.default_rng(5)
    latent = rng.normal(size=300)
    score = latent + rng.normal(size=300)
    draws, counts = draws_of(300)
    labels = latent > 0.3
    found = resampled.average_precision(labels, score, counts)
    assert_each_draw(found, average_precision, draws, labels, score)
    found = resampled.spearman(latent, score, counts)
    assert_each_draw(found, correlation.spearman, draws, latent, score)
    scores = np.stack([score, 1e6 - 3 * score**2, latent])
    found = resampled.pearson(latent, scores.T, counts)
    for of_method, column in zip(found, scores, strict=True):
        assert_each_draw(of_method, correlation.pearson, draws, latent, column)


def test_pearson_leaves_degenerate_draws_open():
    counts = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 1.0], [0.0, 0.0, 1.0]])  # two draws of one row
    found = resampled.pearson(np.array([1.0, 2.0, 4.0]), np.array([[1.0], [3.0], [2.0]]), counts)
    assert np.isnan(found[0, :2]).all()
    assert found[0, 2] == pytest.approx(correlation.pearson(np.array([1.0, 2, 4]), np.array([1.0, 3, 2])))


@given(st.lists(st.tuples(st.booleans(), st.integers(-9, 9)), min_size=2, max_size=60))
@settings(max_examples=60)
def test_plain_average_precision_equals_sklearn_to_the_last_bit(pairs):
    labels = np.array([label for label, _ in pairs])
    scores = np.array([score for _, score in pairs]) / 7
    if labels.any():
        expected = metrics.average_precision_score(labels, scores)
        assert classification.average_precision(labels, scores) == expected
