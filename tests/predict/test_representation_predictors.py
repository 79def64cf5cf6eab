"""Frozen vectors under a probe: which days and weeks are pooled, who has no vector, what is cached."""

from __future__ import annotations

import datetime as dt

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flax import nnx
from made_days import FIRST_DATE, made_day

from wearjax.batches import weeks
from wearjax.convert.bundle import Bundle
from wearjax.day import SHAPE, Day
from wearjax.days import task_labels
from wearjax.days.normalization import NormalizationStats
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError, MethodError
from wearjax.models import lsm2, wbm
from wearjax.predict.predictors import representation
from wearjax.predict.predictors import wbm as wbm_predictor
from wearjax.predict.predictors.lsm2 import LSM2
from wearjax.predict.predictors.representation import DatedRows, RepresentationProbe
from wearjax.predict.predictors.wbm import WBM
from wearjax.predict.pretrained import Pretrained
from wearjax.predict.protocols import EvalContext
from wearjax.predict.representations import WeekEncoder

STATS = NormalizationStats(np.zeros(19), np.where(np.arange(19) < 7, 30.0, 1.0), 0.0)
LSM2_SIZES = lsm2.LSM2Config(
    patch=240, encoder_dim=16, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2, mlp_ratio=2,
)  # fmt: skip
WBM_SIZES = wbm.WBMConfig(dim=8, tokenizer_hidden=4, depth=1, d_state=4, headdim=4, ffn_ratio=1)
USERS = ("p0", "p1", "p2")
N_DAYS = 17


def made_bundle(kind, model, config):
    graph, state = nnx.split(nnx.eval_shape(lambda: model(config, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.3, p.shape), p.dtype), state)
    return Bundle(kind, config, nnx.merge(graph, state), STATS)


@pytest.fixture(scope="module")
def lsm2_bundle():
    return made_bundle("lsm2", lsm2.LSM2, LSM2_SIZES)


@pytest.fixture(scope="module")
def wbm_bundle():
    return made_bundle("wbm", wbm.WBM, WBM_SIZES)


def empty_day(participant, offset):
    """Nothing was measured; yet it passes the filters, since unknown variance never drops a day."""
    values = np.full(SHAPE, np.nan, np.float32)
    return Day(values, participant, FIRST_DATE + dt.timedelta(days=offset), 10.0, "made")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> DayStore:
    """p0 and p1 have 17 days, of which day 3 is not worn; p2 has four; p1's day 5 is empty."""
    path = tmp_path_factory.mktemp("representation") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        for participant in USERS:
            for offset in range(N_DAYS if participant != "p2" else 4):
                if (participant, offset) == ("p1", 5):
                    writer.add(empty_day(participant, offset))
                else:
                    writer.add(made_day(participant, offset, nonwear=900.0 if offset == 3 else 30.0))
    return DayStore(path)


def dates(*offsets):
    return tuple((FIRST_DATE + dt.timedelta(days=o)).isoformat() for o in offsets)


def context(*eligible, users=USERS, task="Hdl", split="train"):
    return EvalContext(task, split, users, tuple(dates(*own) for own in eligible))


def index(store, participant, offset):
    return int(np.flatnonzero((store.participants == participant) & (store.dates == dates(offset)[0]))[0])


def test_rows_by_participant_and_date():
    rows = DatedRows(
        np.array(["b", "a", "b", "a"], object),
        np.array(["2020-01-03", "2020-01-02", "2020-01-01", "2020-01-01"], object),
        np.array([10, 11, 12, 13]),
    )
    own, days = rows.of("b")
    assert own.tolist() == [12, 10]
    assert np.diff(days).tolist() == [2]
    assert rows.at("a", ("2020-01-02", "2020-01-05")).tolist() == [11]
    assert rows.at("b", ("2020-01-03", "2020-01-01")).tolist() == [12, 10]
    for nobody in ("", "aa", "c"):
        assert not len(rows.of(nobody)[0])
        assert not len(rows.at(nobody, ("2020-01-02",)))
    assert not len(rows.at("a", ()))
    with pytest.raises(ConfigError, match="ISO dates"):
        rows.at("a", ("yesterday",))


class Fixed(RepresentationProbe):
    """Participants named after their only feature; `none` has no vector."""

    name = "fixed"

    def participant_vectors(self, context):
        return np.array([[np.nan if u == "none" else float(u)] for u in context.user_ids], np.float32)


def told(probe, *users, split="train"):
    probe.set_context(EvalContext("t", split, users, ((),) * len(users)))
    return probe


def test_participants_without_a_vector_neither_teach_nor_get_an_answer():
    probe = Fixed()
    told(probe, "0", "none", "1", "2", "3").fit(None, np.array([0.0, 1000.0, 10.0, 20.0, 30.0]), "regression")
    predicted = told(probe, "5", "none", split="test").predict(None)
    np.testing.assert_allclose(predicted, [50.0, np.nan], rtol=1e-4)
    assert probe.left_out == {("t", "train"): 1, ("t", "test"): 1}


def test_with_too_few_to_learn_from_everything_is_open():
    probe = Fixed()
    told(probe, "none", "none").fit(None, np.array([0.0, 1.0]), "binary")
    assert np.isnan(told(probe, "5").predict(None)).all()
    told(probe, "1", "2", "none").fit(None, np.array([1.0, 1.0, 0.0]), "binary")  # one class has vectors
    assert np.isnan(told(probe, "5").predict(None)).all()
    told(probe, "1", "2").fit(None, np.array([1.0, 0.0]), "binary")
    assert np.isfinite(told(probe, "5").predict(None)).all()


def test_context_and_labels_must_fit():
    with pytest.raises(MethodError, match="set_context"):
        Fixed().predict(None)
    with pytest.raises(MethodError, match=r"\(2,\) labels for 1 participants"):
        told(Fixed(), "1").fit(None, np.zeros(2), "binary")
    with pytest.raises(MethodError, match="2 users but 1 lists"):
        Fixed().set_context(EvalContext("t", "train", ("1", "2"), ((),)))


def test_lsm2_pools_eligible_days_that_have_a_token(store, lsm2_bundle):
    found = LSM2(store, lsm2_bundle, batch_size=4).participant_vectors(context((0, 2, 3), (5, 6), (3,)))
    embed = Pretrained(lsm2_bundle, batch_size=4).embed
    wanted = embed(store.batch([index(store, "p0", 0), index(store, "p0", 2)])).mean(
        axis=0
    )  # day 3 is not retained
    np.testing.assert_allclose(found[0], wanted, rtol=1e-5, atol=1e-6)
    alone = embed(store.batch([index(store, "p1", 6)]))[0]  # day 5 has no token
    np.testing.assert_allclose(found[1], alone, rtol=1e-5, atol=1e-6)
    assert (found[2] == 0).all()
    assert np.abs(found[0] - found[1]).max() > 1e-2


def test_lsm2_predictions_are_those_of_the_probe_on_its_vectors(store, lsm2_bundle):
    probe = LSM2(store, lsm2_bundle, batch_size=4, n_components=1)
    eligible = context((0,), (1,), (2,))
    labels = np.array([1.0, 2.0, 4.0])
    probe.set_context(eligible)
    probe.fit(None, labels, "regression")
    predicted = probe.predict(None)
    vectors = probe.participant_vectors(eligible).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    score = centred @ np.linalg.svd(centred, full_matrices=False)[2][0]
    np.testing.assert_allclose(predicted, np.polyval(np.polyfit(score, labels, 1), score), rtol=1e-3)
    assert probe.settings["n_components"] == 1


def test_lsm2_day_vectors_are_kept_for_the_next_run(store, lsm2_bundle, tmp_path, monkeypatch):
    eligible = context((0, 1), (6,), (0,))
    first = LSM2(store, lsm2_bundle, cache_dir=tmp_path, batch_size=4).participant_vectors(eligible)
    again = LSM2(store, lsm2_bundle, cache_dir=tmp_path, batch_size=4)
    monkeypatch.setattr(Pretrained, "embed", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(again.participant_vectors(eligible), first)
    assert len(list(tmp_path.iterdir())) == 1
    other = Bundle("lsm2", LSM2_SIZES, lsm2_bundle.model, NormalizationStats(np.ones(19), np.ones(19)))
    assert LSM2(store, other).settings != again.settings


def test_models_of_another_kind_are_refused(store, lsm2_bundle, wbm_bundle):
    with pytest.raises(MethodError, match="kind 'lsm2' with 1440 minutes, got 'wbm'"):
        LSM2(store, wbm_bundle)
    with pytest.raises(MethodError, match="kind 'wbm'"):
        WBM(store, lsm2_bundle)


@pytest.fixture(scope="module")
def week_vectors(store, wbm_bundle):
    """The vectors of p0's and p1's two weeks, cut without the predictor."""
    retained = np.flatnonzero(store.retained)
    values, owners = weeks.weeks_of(store, retained, weeks.hours_of(store, retained))
    assert owners.tolist() == ["p0", "p0", "p1", "p1"]  # four days of p2 are no week
    return WeekEncoder(wbm_bundle)(values)


def test_wbm_pools_weeks_that_hold_an_eligible_day(store, wbm_bundle, week_vectors):
    probe = WBM(store, wbm_bundle, batch_size=2)
    found = probe.participant_vectors(context((6,), (0, 8, 9), (0, 1)))
    np.testing.assert_allclose(found[0], week_vectors[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], week_vectors[2:].mean(axis=0), rtol=1e-5, atol=1e-6)
    assert np.isnan(found[2]).all()
    last = probe.participant_vectors(context((7, 15), (16,), ()))  # days 14 to 16 lie in no whole week
    np.testing.assert_allclose(last[0], week_vectors[1], rtol=1e-5, atol=1e-6)
    assert np.isnan(last[1:]).all()


def test_wbm_follows_a_weekly_lookup(store, wbm_bundle, week_vectors, tmp_path):
    file = tmp_path / "weeks.parquet"
    table = {
        "user_id": ["p0", "p0", "p1"],
        "week_start": [dates(0)[0], dates(7)[0], dates(3)[0]],
        "Hdl": [-1.0, 2.5, 7.0],
        "PH": pa.array([1, -1, -1]),
    }
    pq.write_table(pa.table(table), file)
    lookup = task_labels.TaskLabels(file, unit="week")
    probe = WBM(store, wbm_bundle, lookup=lookup, batch_size=2)
    eligible = context((0,), (0,), (0,))
    found = probe.participant_vectors(eligible)
    np.testing.assert_allclose(found[0], week_vectors[1], rtol=1e-5, atol=1e-6)
    assert np.isnan(found[1:]).all()  # p1's week begins on a day on which none is cut
    assert probe.unmatched_weeks == {("Hdl", "train"): 1}
    np.testing.assert_array_equal(probe.training_labels(eligible, np.array([1.0, 2.0, 3.0])), [2.5, 7.0, 3.0])
    elsewhere = context((0,), (0,), (0,), task="age")  # not in the lookup: eligible days decide
    np.testing.assert_array_equal(probe.training_labels(elsewhere, np.arange(3.0)), np.arange(3.0))
    np.testing.assert_allclose(probe.participant_vectors(elsewhere)[0], week_vectors[0], rtol=1e-5, atol=1e-6)


def test_the_weekly_lookup_of_a_root_is_found(store, wbm_bundle, tmp_path):
    assert wbm_predictor.stored_lookup(store) is None
    (tmp_path / "processed").mkdir()
    (tmp_path / "dataset_version.json").write_text("{}")
    table = {"user_id": ["p0"], "week_start": ["2021-03-01"], "Hdl": [1.0]}
    name = "weekly_labels_lookup_stride7_windowed.parquet"
    pq.write_table(pa.table(table), tmp_path / "processed" / name)

    class Root:
        path = tmp_path

    found = wbm_predictor.stored_lookup(Root())
    assert (found.unit, found.tasks) == ("week", ("Hdl",))


def test_wbm_reports_progress_and_keeps_week_vectors(store, wbm_bundle, tmp_path):
    eligible = context((0,), (7,), ())
    seen = []
    probe = WBM(store, wbm_bundle, cache_dir=tmp_path, progress=lambda *at: seen.append(at))
    first = probe.participant_vectors(eligible)
    assert seen[-1] == (2, 2)
    seen.clear()
    again = WBM(store, wbm_bundle, cache_dir=tmp_path, progress=lambda *at: seen.append(at))
    np.testing.assert_array_equal(again.participant_vectors(eligible), first)
    assert not seen


def test_a_participants_retained_days_are_found(store):
    rows, _ = representation.retained_rows(store).of("p2")
    assert [store.dates[row] for row in rows] == list(dates(0, 1, 2))
