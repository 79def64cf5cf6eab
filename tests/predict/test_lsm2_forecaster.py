"""The days to come as the hidden last days of a window of an LSM-2."""

from __future__ import annotations

import datetime as dt

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from made_days import FIRST_DATE, made_day

from wearjax.channels import BINARY, HEART_RATE
from wearjax.convert import bundle as bundles
from wearjax.days import hourly
from wearjax.days.normalization import NormalizationStats
from wearjax.days.store import Days, DayStore, DayStoreWriter
from wearjax.errors import MethodError
from wearjax.models import lsm2, lsm2_sparse
from wearjax.predict.forecasters.lsm2_sparse import LSM2Forecaster

SIZES = dict(
    patch=240, encoder_dim=8, encoder_depth=1, encoder_heads=2, decoder_dim=8, decoder_heads=2, mlp_ratio=2,
    dropout=0.0,
)  # fmt: skip
N_DAYS = 3
NEGATIVE = 2  # a channel whose minutes the model takes to be below zero
MEANS = np.where(np.arange(19) < 7, 3.0, 0.0)
MEANS[NEGATIVE] = -20.0
STATS = NormalizationStats(MEANS, np.where(np.arange(19) < 7, np.linspace(1, 4, 19), 1.0))
# Days 0 to 9 of one participant: day 3 is not retained, days 6 and 7 are absent.
RECORDED, DROPPED = (0, 1, 2, 3, 4, 5, 8, 9), 3


def made_bundle(kind, build):
    rng = np.random.default_rng(0)

    def draw(path, p):
        spread = 2.0 if "qkv" in jax.tree_util.keystr(path) else 0.4
        return jnp.asarray(rng.normal(0.1, spread, p.shape), jnp.float32)

    graph, shapes = nnx.split(nnx.eval_shape(build))
    model = nnx.merge(graph, jax.tree_util.tree_map_with_path(draw, shapes))
    return bundles.Bundle(kind, model.config, model, STATS)


@pytest.fixture(scope="module")
def sparse():
    config = lsm2_sparse.LSM2SparseConfig(n_days=N_DAYS, window_minutes=480, decoder_depth=2, **SIZES)
    return made_bundle("lsm2_sparse", lambda: lsm2_sparse.LSM2Sparse(config, rngs=nnx.Rngs(0)))


@pytest.fixture(scope="module")
def weekly():
    config = lsm2.LSM2Config(minutes=N_DAYS * 1440, decoder_depth=1, **SIZES)
    return made_bundle("lsm2", lambda: lsm2.LSM2(config, rngs=nnx.Rngs(0)))


class Watched(Days):
    """The days of a store, which can be told to change from a date on; keeps the dates that are read."""

    def __init__(self, store: DayStore):
        self.path, self.participants, self.dates = store.path, store.participants, store.dates
        self.nonwear_minutes, self.variance = store.nonwear_minutes, store.variance
        self._store, self.changed_from = store, "9999"
        self.read: set[str] = set()

    def values(self, index):
        self.read.add(self.dates[index])
        values = self._store.values(index)
        return values if self.dates[index] < self.changed_from else values[:, ::-1] * 10

    def source(self, index):
        return "made"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("forecast") / "store"
    with DayStoreWriter(path, provenance={}) as writer:
        writer.add_all(made_day("p", n, nonwear=1000.0 if n == DROPPED else 60.0) for n in RECORDED)
        writer.add(made_day("another", 4))
    return Watched(DayStore(path))


@pytest.fixture(scope="module")
def forecaster(sparse, store):
    return LSM2Forecaster(sparse, store, batch_size=2)


def date(number: int) -> dt.date:
    return FIRST_DATE + dt.timedelta(days=number)


def history(origin: int) -> np.ndarray:
    return np.zeros((19, 24 * origin), np.float32)


def ask(forecaster, *origins, horizon=24):
    return forecaster.predict_batch(
        [history(o) for o in origins], horizon, participant="p", origin_date=[date(o) for o in origins]
    )


def by_hand(forecaster, store, numbers, offsets, n_ahead=1):
    """Hours of the last days of a window of these recorded days; None is a padded slot."""
    empty = np.full((19, 1440), np.nan, np.float32)
    place = {d: i for i, d in enumerate(store.dates) if store.participants[i] == "p"}
    days = [empty if n is None else store.values(place[date(n).isoformat()]) for n in numbers]
    window = np.concatenate([*days, *[empty] * n_ahead], axis=1)[None]
    target = np.zeros(window.shape, bool)
    target[..., -n_ahead * 1440 :] = True
    known = {} if offsets is None else {"day_offsets": np.asarray([offsets])}
    filled = forecaster._imputer.impute(window, np.isfinite(window), target, **known)
    return hourly.aggregate(filled[0, :, -n_ahead * 1440 :])


def test_the_last_retained_days_at_their_true_distance(store, forecaster):
    cases = {
        6: ((4, 5), (0, 1, 2)),
        5: ((2, 4), (0, 2, 3)),  # day 3 is stepped over, as in training
        9: ((5, 8), (0, 3, 4)),
        10: ((8, 9), (0, 1, 2)),  # after the last recorded day
        1: ((None, 0), (-1, 0, 1)),
    }
    found = ask(forecaster, *cases)
    assert found.shape == (len(cases), 19, 24)
    for own, (numbers, offsets) in zip(found, cases.values(), strict=True):
        np.testing.assert_allclose(own, by_hand(forecaster, store, numbers, offsets), rtol=1e-4, atol=1e-4)
    one = forecaster.predict(history(9), 24, participant="p", origin_date=date(9))
    np.testing.assert_allclose(one, found[2], rtol=1e-5, atol=1e-5)


def test_two_days_ahead_leave_one_day_less_of_history(store, forecaster):
    (found,) = ask(forecaster, 9, horizon=48)
    wanted = by_hand(forecaster, store, (8,), (0, 1, 2), n_ahead=2)
    assert found.shape == (19, 48)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("origin", [5, 8, 9])
def test_nothing_from_the_origin_on_can_matter(store, forecaster, monkeypatch, origin):
    store.read.clear()
    (found,) = ask(forecaster, origin)
    assert max(store.read) < date(origin).isoformat()
    monkeypatch.setattr(store, "changed_from", date(origin).isoformat())
    np.testing.assert_array_equal(ask(forecaster, origin)[0], found)
    monkeypatch.setattr(store, "changed_from", max(store.read))
    assert (ask(forecaster, origin)[0] != found).any()  # the last day before it does


def test_hours_are_made_as_everywhere(forecaster):
    (found,) = ask(forecaster, 9)
    flags = found[list(BINARY)]
    assert flags.min() >= 0
    assert flags.max() <= 1
    assert found.min() >= 0  # no negative steps
    assert found[HEART_RATE].max() <= 5  # a mean, not a sum


def test_negative_minutes_stay_if_asked_for(sparse, store, forecaster):
    loose = LSM2Forecaster(sparse, store, batch_size=2, clip=False)
    assert loose.settings != forecaster.settings
    assert ask(loose, 9)[0, NEGATIVE].max() < 0
    assert (ask(forecaster, 9)[0, NEGATIVE] == 0).all()


def test_without_a_day_before_there_is_no_forecast(forecaster):
    before = dict(forecaster.counts)
    found = ask(forecaster, 0, 1)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()
    unknown = forecaster.predict(history(3), 24, participant="nobody", origin_date=date(3))
    assert np.isnan(unknown).all()
    grown = {name: n - before[name] for name, n in forecaster.counts.items()}
    assert grown == {"windows": 3, "without_days": 2}
    assert ask(forecaster).shape == (0, 19, 24)


def test_a_weekly_model_forecasts_too(weekly, store):
    forecaster = LSM2Forecaster(weekly, store, batch_size=2)
    assert forecaster.name == "lsm2"
    found = ask(forecaster, 9, 1)
    for own, numbers in zip(found, ((5, 8), (None, 0)), strict=True):
        np.testing.assert_allclose(own, by_hand(forecaster, store, numbers, None), rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_is_refused(weekly, store, forecaster):
    known = {"participant": "p", "origin_date": date(5)}
    for horizon in (0, 12, 72):
        with pytest.raises(MethodError, match=f"horizon of {horizon} hours; expected 1 to 2 whole days"):
            forecaster.predict(history(5), horizon, **known)
    for shape in ((19, 25), (7, 24)):
        with pytest.raises(MethodError, match=r"expected a history \(19, hours\) that ends with a day"):
            forecaster.predict(np.zeros(shape, np.float32), 24, **known)
    with pytest.raises(MethodError, match="it needs participant and origin_date"):
        forecaster.predict(history(5), 24)
    with pytest.raises(MethodError, match="one date a history"):
        forecaster.predict_batch([history(5)] * 2, 24, participant="p", origin_date=[date(5)])
    for kind, config in (("lsm2", lsm2.LSM2Config()), ("wbm", weekly.config)):
        with pytest.raises(MethodError, match=f"got '{kind}' for {config.minutes} minutes"):
            LSM2Forecaster(bundles.Bundle(kind, config, weekly.model, STATS), store)
