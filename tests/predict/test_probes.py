"""Heads and the linear probe: what each kind answers, and what cannot be learned."""

from __future__ import annotations

import numpy as np
import pytest

from wearjax.errors import ConfigError, MethodError
from wearjax.predict import probes
from wearjax.predict.probes import Head, LinearProbe


@pytest.fixture(scope="module")
def features():
    return np.random.default_rng(0).normal(size=(60, 4))


def test_regression_recovers_a_linear_label(features):
    labels = 3 + features @ [1.0, -2.0, 0.5, 0.0]
    probe = LinearProbe("regression").fit(features, labels)
    np.testing.assert_allclose(probe.predict(features), labels, atol=1e-4)


def test_binary_answers_with_the_probability_of_the_larger_label(features):
    labels = (features[:, 0] > 0).astype(float)
    chance = LinearProbe("binary").fit(features, labels).predict(features)
    assert ((chance > 0) & (chance < 1)).all()
    assert chance[labels == 1].min() > chance[labels == 0].max() - 0.2
    assert np.mean((chance >= 0.5) == labels) > 0.9


def test_multiclass_answers_with_a_label(features):
    labels = np.digitize(features[:, 0], [-0.5, 0.5]) * 2.0
    found = Head("multiclass").fit(features, labels).predict(features)
    assert set(found) <= {0.0, 2.0, 4.0}
    assert np.mean(found == labels) > 0.8


def test_ordinal_counts_the_levels_seen_in_training(features):
    places = np.digitize(features[:, 0], [-0.5, 0.5])
    labels = np.array([1.0, 2.0, 4.0])[places]  # level 0 and 3 never occur
    found = Head("ordinal").fit(features * 10, labels).predict(features * 10)
    assert set(found) <= {0.0, 1.0, 2.0}
    assert np.mean(found == places) > 0.8


def test_ordinal_level_is_the_first_of_the_most_probable():
    exceeds = np.array([[0.9, 0.8, 0.1], [0.2, 0.1, 0.0], [0.5, 0.0, 0.0], [0.3, 0.9, 0.1]])
    assert probes.ordinal_levels(exceeds).tolist() == [2, 0, 0, 2]


def test_components_are_bounded_by_rows_and_columns():
    rng = np.random.default_rng(1)
    for shape in ((5, 80), (80, 5), (80, 60)):
        x = rng.normal(size=shape)
        probe = LinearProbe("regression", n_components=50).fit(x, x[:, 0])
        assert probe._pca.n_components_ == min(50, *shape)
        assert probe.predict(x).shape == (shape[0],)


def test_features_that_are_not_finite_count_as_zero(features):
    labels = features[:, 0]
    holed, zeroed = features.copy(), features.copy()
    holed[0, 1], holed[1, 2], holed[2, 0], zeroed[0, 1], zeroed[1, 2], zeroed[2, 0] = (
        np.nan,
        np.inf,
        1e300,
        0,
        0,
        0,
    )
    expected = LinearProbe("regression").fit(zeroed, labels).predict(zeroed)
    np.testing.assert_array_equal(LinearProbe("regression").fit(holed, labels).predict(holed), expected)


def test_same_seed_same_answers():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(20, 510)), np.arange(20.0) % 2  # wide: the randomized solver
    a, b = (LinearProbe("binary", n_components=5).fit(x, y).predict(x) for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_what_cannot_be_learned(features):
    with pytest.raises(ConfigError, match="kind 'count'"):
        LinearProbe("count")
    with pytest.raises(ConfigError, match="n_components"):
        LinearProbe("binary", n_components=0)
    with pytest.raises(MethodError, match="all 60 labels are equal"):
        LinearProbe("binary").fit(features, np.ones(60))
    with pytest.raises(MethodError, match="3 different labels"):
        Head("binary").fit(features, np.arange(60) % 3)
    with pytest.raises(MethodError, match="59 labels for 60 rows"):
        LinearProbe("binary").fit(features, np.ones(59))
    with pytest.raises(MethodError, match="predict before fit"):
        LinearProbe("binary").predict(features)
    with pytest.raises(MethodError, match=r"expected \(n, d\) features"):
        LinearProbe("binary").fit(np.zeros(3), np.zeros(3))
    with pytest.raises(MethodError, match="nothing to fit"):
        LinearProbe("regression").fit(np.zeros((3, 0)), np.zeros(3))


def test_no_rows_no_answers(features):
    assert LinearProbe("regression").fit(features, features[:, 0]).predict(features[:0]).shape == (0,)


def test_missing_scikit_learn_names_the_extra(monkeypatch, features):
    monkeypatch.setitem(__import__("sys").modules, "sklearn.decomposition", None)
    with pytest.raises(ConfigError, match=r"pip install 'wearjax\[probes\]'"):
        LinearProbe("regression").fit(features, features[:, 0])
