import numpy as np
import pytest

from wearjax.benchmarks.openmhc import prediction_metrics
from wearjax.scores import bootstrap, classification, correlation

RNG = np.random.default_rng(2)
TRUTH = {
    "binary": RNG.integers(0, 2, 40).astype(float),
    "ordinal": RNG.integers(0, 4, 40).astype(float),
    "regression": RNG.normal(size=40),
    "multiclass": RNG.integers(0, 3, 40).astype(float),
}
NOISY = {kind: truth + RNG.normal(size=40) for kind, truth in TRUTH.items()}
KINDS = list(TRUTH)


def test_output_columns():
    raw = np.array([0.49, 0.5, 1.5, 2.5, np.nan])
    for kind, expected in {"binary": [0, 1, 1, 1, np.nan], "ordinal": [0, 0, 2, 2, np.nan]}.items():
        y_pred, y_proba = prediction_metrics.output_columns(raw, kind)
        np.testing.assert_array_equal(y_pred, expected)
        np.testing.assert_array_equal(y_proba, raw)
    for kind, options in {"regression": {}, "ordinal": {"rounded": False}}.items():
        np.testing.assert_array_equal(prediction_metrics.output_columns(raw, kind, **options)[0], raw)


def test_the_metric_reads_scores_of_binary_tasks_and_answers_of_others():
    assert prediction_metrics.scored_column("binary", np.zeros(2), np.ones(2)).tolist() == [1, 1]
    assert prediction_metrics.scored_column("ordinal", np.zeros(2), np.ones(2)).tolist() == [0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_metric_of_each_kind(kind):
    plain = {
        "binary": lambda t, s: classification.average_precision(t > 0.5, s),
        "ordinal": correlation.spearman,
        "regression": correlation.pearson,
        "multiclass": lambda t, s: np.mean(t == s),
    }[kind]
    scores = np.round(NOISY[kind]) if kind == "multiclass" else NOISY[kind]
    assert prediction_metrics.metric(kind, TRUTH[kind], scores) == plain(TRUTH[kind], scores)


@pytest.mark.parametrize(
    ("kind", "truth", "scores"),
    [
        ("binary", [1, 1, 1], [0.1, 0.2, 0.3]),
        ("binary", [0, 0, 0], [0.1, 0.2, 0.3]),
        ("ordinal", [1, 1, 1], [0, 1, 2]),
        ("ordinal", [0, 1, 2], [1, 1, 1]),
        ("regression", [2, 2, 2], [0, 1, 2]),
        ("regression", [0, 1, 2], [2, 2, 2]),
    ],
)
def test_undefined_metrics(kind, truth, scores):
    assert np.isnan(prediction_metrics.metric(kind, np.array(truth, float), np.array(scores, float)))


def test_one_distinct_score_of_a_binary_task_is_defined():
    assert prediction_metrics.metric("binary", np.array([0.0, 1.0]), np.zeros(2)) == 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("perfect", [False, True])
def test_resampled_metrics_equal_the_metric_of_each_draw(kind, perfect):
    truth = TRUTH[kind]
    scores = np.stack([3 * truth + 0.1 if perfect else NOISY[kind], np.ones(40)])  # and a constant method
    draws = bootstrap.resample_matrix(4, 40, 15)
    draws[0] = 7  # a draw of one row
    counts = bootstrap.multiplicities(draws).T
    found = prediction_metrics.resampled_metrics(kind, truth, scores, counts, lambda b: draws[b])
    expected = [[prediction_metrics.metric(kind, truth[rows], s[rows]) for rows in draws] for s in scores]
    if perfect:  # then an error is the last bit
        np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found, expected, rtol=1e-12, equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
def test_standard_error_is_the_spread_of_resampled_metrics(kind):
    scores = np.round(NOISY[kind]) if kind == "multiclass" else NOISY[kind]
    [found] = prediction_metrics.primary_metrics(kind, TRUTH[kind], scores[None], n_boot=30, seed=9)
    generator = np.random.RandomState(9)
    if kind == "binary":
        scores = np.clip(scores, 1e-10, 1 - 1e-10)
    drawn = []
    for _ in range(30):
        rows = generator.choice(40, 40)
        drawn.append(prediction_metrics.metric(kind, TRUTH[kind][rows], scores[rows]))
    assert found.se == pytest.approx(np.nanstd(drawn, ddof=1), rel=1e-9)
    assert found.value == prediction_metrics.metric(kind, TRUTH[kind], scores)
    assert found.name == prediction_metrics.METRIC_OF[kind]


def test_the_table_of_a_run_clips_binary_scores():
    truth, scores = np.array([1.0, 0.0, 1.0]), np.array([3.0, 2.0, 0.5])
    assert prediction_metrics.metric("binary", truth, scores) == pytest.approx(1 / 2 + 1 / 3)
    [found] = prediction_metrics.primary_metrics("binary", truth, scores[None], n_boot=0)
    assert found.value == pytest.approx(1 / 4 + 1 / 3)  # now the first two tie
    assert np.isnan(found.se)


def test_the_table_of_a_run_gives_no_value_to_unusable_scores():
    truth = TRUTH["regression"]
    scores = np.stack([truth, truth])
    scores[0, 3] = np.nan
    first, second = prediction_metrics.primary_metrics("regression", truth, scores, n_boot=5)
    assert np.isnan(first.value)
    assert np.isnan(first.se)
    assert second.value == 1.0
    [flat] = prediction_metrics.primary_metrics("regression", truth, 1e-7 * truth[None], n_boot=5)
    assert np.isnan(flat.value)
    assert np.isnan(flat.se)
