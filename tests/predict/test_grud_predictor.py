"""GRU-D as a predictor: trained once on every task, stopped early, kept on disk, asked task by task."""

from __future__ import annotations

import numpy as np
import pytest
from labelled_store import SPLITS, WITHOUT_DAYS, write_store

from wearjax.errors import ConfigError, MethodError, StoreError
from wearjax.objectives.multi_task import Target
from wearjax.predict.predictors.grud import GRUD
from wearjax.predict.protocols import EvalContext
from wearjax.train import grud
from wearjax.train.grud import GRUDTraining

TASKS = {"active": "binary", "age": "regression", "level": "ordinal", "unknown": "binary", "absent": "binary"}
TINY = GRUDTraining(hidden=4, batch_size=4, epochs=6, learning_rate=0.05, days_a_chunk=16)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_store(tmp_path_factory.mktemp("grud") / "store")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="module")
def method(store, folder):
    seen = []
    method = GRUD(store, tasks=TASKS, training=TINY, cache_dir=folder, progress=lambda *x: seen.append(x))
    assert asked(method, "active") is not None
    assert seen[-1] == (len(method.history), 6)
    return method


def asked(method, task, users=SPLITS.test, split="test"):
    method.set_context(EvalContext(task, split, tuple(users), ((),) * len(users)))
    return method.predict(None)


def test_learns_and_answers_for_every_task(method):
    losses = [epoch["train"] for epoch in method.history]
    assert losses[-1] < losses[0]
    for task, lowest, highest in (("active", 0, 1), ("age", 0, 80), ("level", 0, 2)):
        found = asked(method, task)
        assert np.isnan(found).tolist() == [user == WITHOUT_DAYS for user in SPLITS.test]
        assert ((found[:-1] > lowest) & (found[:-1] < highest)).all()
        np.testing.assert_array_equal(found[::-1], asked(method, task, SPLITS.test[::-1]))
    assert np.isnan(asked(method, "unknown")).all()
    assert np.isnan(asked(method, "never heard of")).all()
    assert list(method.unlearnt) == ["unknown"]
    assert method.settings["tasks"].keys() == TASKS.keys() - {"absent"}
    with pytest.raises(MethodError, match="1 users are not in test, first p00"):
        asked(method, "active", ("p00",))


def test_channel_means_are_those_of_the_participants_asked(method, monkeypatch):
    seen, answers = [], grud.Network.answers
    monkeypatch.setattr(
        grud.Network, "answers", lambda self, cohort: seen.append(cohort) or answers(self, cohort)
    )
    few = SPLITS.test[1:3]
    asked(method, "age", few)
    asked(method, "level", few)
    asked(method, "age")
    cohort, everybody = seen  # the second task asked the same people
    assert cohort.users == tuple(sorted(few))
    measured = np.isfinite(cohort.hours)
    wanted = np.where(measured, cohort.hours.astype(np.float64), 0).sum((0, 1)) / measured.sum((0, 1)).clip(1)
    np.testing.assert_allclose(cohort.means, wanted, rtol=1e-6)
    assert (cohort.means != everybody.means).any()
    own = [method._rows.of(user)[0] for user in cohort.users]
    np.testing.assert_array_equal(cohort.hours, method._source.hours(np.concatenate(own)).swapaxes(1, 2))
    assert cohort.starts.tolist() == np.cumsum([0, *map(len, own)]).tolist()


def test_weights_are_kept(store, folder, method, monkeypatch):
    monkeypatch.setattr(grud.Network, "train", None)
    again = GRUD(store, tasks=TASKS, training=TINY, cache_dir=folder)
    np.testing.assert_array_equal(asked(again, "age"), asked(method, "age"))
    assert again.history == method.history
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    try:
        file.write_bytes(whole[:100])
        broken = GRUD(store, tasks=TASKS, training=TINY, cache_dir=folder)
        with pytest.raises(StoreError, match="not readable as weights"):
            asked(broken, "age")
    finally:
        file.write_bytes(whole)


def made_cohort(users="abcdef", days=(1, 3, 2, 1, 4, 2), seed=0):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *days])
    hours = rng.normal(size=(starts[-1], 24, 19)).astype(np.float32)
    hours[rng.random(hours.shape) < 0.3] = np.nan
    labels = np.stack([rng.normal(size=len(users)), np.arange(len(users)) % 2.0], axis=1)
    labels[0, 1] = np.nan
    return grud.Cohort(tuple(users), labels, hours, starts, grud.channel_means(hours))


TARGETS = {
    "value": Target("regression"), "flag": Target("binary", 2, (1.0, 1.0)),
}  # fmt: skip


def test_answers_do_not_depend_on_how_days_are_packed():
    cohort = made_cohort()
    found = [
        grud.Network(TARGETS, GRUDTraining(hidden=4, batch_size=size, days_a_chunk=chunk)).answers(cohort)
        for size, chunk in ((6, 16), (4, 3))
    ]
    for user in cohort.users:
        for one, other in zip(found[0][user], found[1][user], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_best_epoch_is_kept(monkeypatch):
    settings = GRUDTraining(hidden=4, batch_size=6, days_a_chunk=16, epochs=9, patience=2)
    losses = iter([5.0, 3.0, 4.0, 3.0, 2.9])
    network, cohort = grud.Network(TARGETS, settings), made_cohort()
    after = []
    monkeypatch.setattr(
        grud.Network,
        "_evaluate",
        lambda self, params, c: after.append(np.asarray(leaf(params))) or next(losses),
    )
    history = network.train(cohort, cohort, lambda done, total: None)
    assert [epoch["validation"] for epoch in history] == [5.0, 3.0, 4.0, 3.0]
    np.testing.assert_array_equal(leaf(network.params), after[1])
    assert (after[3] != after[1]).any()


def leaf(params):
    return params["head_kernel"][...]


def test_packing():
    assert [grud.padded_chunks(n) for n in range(1, 10)] == [1, 2, 3, 4, 6, 6, 8, 8, 12]
    assert [grud.padded_chunks(n) for n in (17, 33, 100, 4097)] == [24, 48, 128, 6144]
    cohort = made_cohort()
    batch = cohort.batch(np.array([4, 0]), 3, 2)
    assert batch["values"].shape == (3, 2, 24, 19)
    assert batch["owners"].ravel().tolist() == [0, 0, 0, 0, 1, 3]
    np.testing.assert_array_equal(batch["values"].reshape(6, 24, 19)[:4], cohort.hours[7:11])
    np.testing.assert_array_equal(batch["values"][2, 0], cohort.hours[0])
    assert np.isnan(batch["values"][2, 1]).all()
    assert np.isnan(batch["labels"][2]).all()
    measured = np.nanmean(cohort.hours.astype(np.float64), axis=(0, 1))
    np.testing.assert_allclose(cohort.means, measured, rtol=1e-5)


def test_what_it_needs(store, tmp_path):
    with pytest.raises(ConfigError, match="none of 1 tasks has labels"):
        GRUD(store, tasks={"absent": "binary"})
    with pytest.raises(ConfigError, match="epochs: must be at least 1"):
        GRUDTraining(epochs=0)
    method = GRUD(store, tasks={"unknown": "binary"}, training=TINY)
    with pytest.raises(MethodError, match="set_context"):
        method.predict(None)
    with pytest.raises(MethodError, match="no task can be learnt"):
        asked(method, "unknown")
