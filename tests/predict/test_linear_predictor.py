"""The Linear baseline: features by hand, covariates a task may use, days read once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_days import made_cohort

from wearjax.days import hourly, task_labels
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import MethodError
from wearjax.predict import inputs
from wearjax.predict.predictors import linear
from wearjax.predict.predictors.linear import Linear
from wearjax.predict.protocols import EvalContext

N = 8
DATES = ("2021-03-01", "2021-03-03")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> DayStore:
    path = tmp_path_factory.mktemp("linear") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made_cohort(participants=N, days=3))
    return DayStore(path)


@pytest.fixture(scope="module")
def users(store):
    return tuple(sorted(set(store.participants)))


@pytest.fixture(scope="module")
def labels(store, users, tmp_path_factory):
    file = tmp_path_factory.mktemp("labels") / "task_labels.parquet"
    table = {
        "user_id": list(users),
        "date": [DATES[0]] * N,
        "age": pa.array([-1, *range(30, 30 + N - 1)]),
        "BiologicalSex": pa.array([i % 2 for i in range(N)]),
    }
    pq.write_table(pa.table(table), file)
    return task_labels.read_lookup(file.parent)


def context(users, task="Hdl", dates=DATES):
    return EvalContext(task, "train", users, (dates,) * len(users))


def features(method, asked):
    method.set_context(asked)
    return method._features()


def test_features_are_means_over_days_then_covariates(store, users, labels):
    found = features(Linear(store, labels=labels), context(users))
    assert found.shape == (N, 38 + 2)  # the lookup has no BMI
    for place, user in enumerate(users):
        rows = [i for i, (p, d) in enumerate(zip(store.participants, store.dates, strict=True))
                if p == user and d in DATES]  # fmt: skip
        hours = hourly.aggregate(store.batch(rows)).astype(np.float64)
        measured = ~np.isnan(hours).all(axis=2).any(axis=0)
        with np.errstate(invalid="ignore"):
            mean = np.array(
                [[np.nanmean(c) if np.isfinite(c).any() else np.nan for c in day] for day in hours]
            )
            std = np.array([[np.nanstd(c) if np.isfinite(c).any() else np.nan for c in day] for day in hours])
        expected = np.nan_to_num(np.concatenate([mean.mean(axis=0), std.mean(axis=0)]))
        np.testing.assert_allclose(found[place, :38], expected, rtol=1e-6)
        assert measured.any()
    assert found[:, 38].tolist() == [0, *range(30, 30 + N - 1)]  # an unknown age is 0
    assert found[:, 39].tolist() == [i % 2 for i in range(N)]


def test_covariates_that_a_task_may_use(store, users, labels):
    assert features(Linear(store, labels=labels), context(users, "age")).shape == (N, 39)
    nothing = Linear(store, labels=labels, kept_covariates=lambda task: ())
    assert features(nothing, context(users)).shape == (N, 38)
    assert features(Linear(store), context(users)).shape == (N, 38)


def test_a_participant_without_days_has_features_of_zero(store, users):
    found = features(Linear(store), context((*users, "nobody")))
    assert (found[-1] == 0).all()
    assert (found[:-1] != 0).any(axis=1).all()


def test_a_channel_that_one_day_lacks_is_missing():
    hours = np.ones((2, 24, 19), np.float32)
    hours[1, :, 4] = np.nan
    pooled = linear.pool_mean_std(hours)
    assert np.flatnonzero(np.isnan(pooled)).tolist() == [4, 4 + 19]
    assert np.isnan(linear.pool_mean_std(hours[:0])).all()


@pytest.mark.parametrize("kind", ["binary", "ordinal", "regression"])
def test_learns_from_covariates(store, users, labels, kind):
    truth = np.arange(N) % 2.0 if kind != "regression" else np.arange(N) % 2 * 7.0
    method = Linear(store, labels=labels)
    method.set_context(context(users))
    method.fit(None, truth, kind)
    found = method.predict(None)
    assert np.corrcoef(found, truth)[0, 1] > 0.9
    assert np.isfinite(found).all()


def test_standardized_features_are_clipped(store, users):
    method = Linear(store)
    method.set_context(context(users))
    method.fit(None, np.arange(N) % 2.0, "binary")
    assert np.abs(method._scaled(np.full((1, 38), 1e9, np.float32))).max() == 10


def test_days_are_read_once_for_all_tasks(store, users):
    class Counting(DayStore):
        reads = 0

        def values(self, index):
            self.reads += 1
            return super().values(index)

    days = Counting(store.path)
    method = Linear(inputs.ParticipantDays(days, cache_bytes=0))
    for task in ("Hdl", "Ldl"):
        method.set_context(context(users, task))
        method.fit(None, np.arange(N) % 2.0, "binary")
        method.predict(None)
    assert days.reads == 2 * N


def test_order_of_calls(store):
    with pytest.raises(MethodError, match="set_context must come before"):
        Linear(store).fit(None, np.zeros(2), "binary")
    with pytest.raises(MethodError, match="predict before fit"):
        Linear(store).predict(None)
