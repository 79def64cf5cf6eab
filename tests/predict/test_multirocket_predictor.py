"""MultiRocket as a predictor: scaled hours, means over all days, a cache, and the probe on top."""

from __future__ import annotations

import numpy as np
import pytest
from labelled_store import ACTIVE, SPLITS, WITHOUT_DAYS, write_store

from wearjax.days import hourly
from wearjax.errors import ConfigError, StoreError
from wearjax.models.multirocket import MultiRocketConfig
from wearjax.predict.predictors.multirocket import MultiRocket
from wearjax.predict.protocols import EvalContext

TINY = MultiRocketConfig(n_kernels=84)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("rocket") / "store")


def context(users, split="test"):
    return EvalContext("active", split, tuple(users), ((),) * len(users))


@pytest.fixture(scope="module")
def method(store):
    return MultiRocket(store, config=TINY, batch_size=4)


def test_vectors_are_means_over_all_retained_days(store, method):
    users = SPLITS.test + SPLITS.train[:2]
    found = method.participant_vectors(context(users))
    hours = hourly.aggregate(store.batch(range(len(store)))).astype(np.float64)
    training = np.isin(store.participants.astype(str), SPLITS.train) & store.retained
    scaled = np.zeros(hours.shape, np.float32)
    for channel in range(19):
        measured = hours[training][:, channel]
        measured = measured[np.isfinite(measured)]
        if measured.size:
            spread = measured.std() if measured.std() > 1e-6 else 1.0
            scaled[:, channel] = np.nan_to_num((hours[:, channel] - measured.mean()) / spread)
    np.testing.assert_allclose(method._scaled(np.flatnonzero(training)), scaled[training], atol=1e-5)
    for user, vector in zip(users, found, strict=True):
        own = (store.participants == user) & store.retained
        if user == WITHOUT_DAYS:
            assert not own.any()
            assert np.isnan(vector).all()
            continue
        padded = np.zeros((4, 19, 24), np.float32)
        padded[: own.sum()] = method._scaled(np.flatnonzero(own))
        sums = np.asarray(method._transform.sums(padded, np.where(np.arange(4) < own.sum(), 0, -1), 16))[0]
        np.testing.assert_allclose(vector, (sums / own.sum()).astype(np.float16), rtol=2e-3, atol=1e-6)
        np.testing.assert_array_equal(vector, vector.astype(np.float16))


def test_is_computed_once_and_kept(store, method, tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    seen = []
    kept = MultiRocket(
        store, config=TINY, batch_size=4, cache_dir=tmp_path, progress=lambda *x: seen.append(x)
    )
    labels = np.array([ACTIVE[user] for user in SPLITS.train], float)
    for each in (method, kept):
        each.set_context(context(SPLITS.train, "train"))
        each.fit(None, labels, "binary")
        each.set_context(context(SPLITS.test))
    first, second = method.predict(None), kept.predict(None)
    np.testing.assert_array_equal(first, second)
    assert np.isnan(first).tolist() == [user == WITHOUT_DAYS for user in SPLITS.test]
    assert ((first > 0.5) == [ACTIVE[user] for user in SPLITS.test])[:-1].all()
    assert method.left_out["active", "test"] == 1
    assert seen[-1] == (3, 3)
    again = MultiRocket(store, config=TINY, cache_dir=tmp_path)
    monkeypatch.setattr(MultiRocket, "_means", None)
    np.testing.assert_array_equal(
        again.participant_vectors(context(SPLITS.test)), kept.participant_vectors(context(SPLITS.test))
    )


def test_half_precision_has_an_end(store, method, monkeypatch):
    monkeypatch.setattr(
        type(method._transform), "sums", lambda self, x, owners, n: np.full((n, self.kernels.n_features), 1e9)
    )
    assert (method._means(np.array([0])) == 0).all()


def test_what_it_needs(store, tmp_path):
    with pytest.raises(ConfigError, match="batch_size"):
        MultiRocket(store, batch_size=0)
    with pytest.raises(StoreError, match="no splits"):
        MultiRocket(store, tmp_path)
