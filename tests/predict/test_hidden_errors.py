"""Errors on hidden minutes: what is hidden, how gaps are classed, and intervals of known errors."""

from __future__ import annotations

import numpy as np
import pytest
from made_days import made_day

from wearjax.channels import HEART_RATE, INDEX, MINUTES_PER_DAY
from wearjax.days import importing
from wearjax.errors import MethodError, StoreError
from wearjax.predict import hidden_errors
from wearjax.sources.tally import Tally

ASLEEP = INDEX["sleep_asleep"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    out = tmp_path_factory.mktemp("hidden") / "days"
    days = (made_day("me", d) for d in range(6))
    return importing.write_days(days, out, provenance={}, tally=Tally())


class Constant:
    """Says the same of every minute, and remembers what it was shown."""

    def __init__(self, heart):
        self.heart, self.seen = heart, []

    def impute(self, data, observed_mask, target_mask):
        self.seen.append((data.copy(), target_mask.copy()))
        out = np.where(target_mask, 0, data).astype(np.float32)
        out[:, HEART_RATE] = np.where(target_mask[:, HEART_RATE], self.heart, data[:, HEART_RATE])
        return out


def test_classes_of_gaps():
    lengths = np.array([1, 15, 16, 60, 61, 240, 241, 1439, 1440])
    assert hidden_errors.gap_class(lengths).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4]


def test_errors_are_those_of_hidden_measured_minutes(store):
    imputer = Constant(1.5)
    found = hidden_errors.measure(imputer, store, batch_size=4)
    whole = store.batch(range(len(store)))
    heart = whole[:, HEART_RATE]
    expected = 1.5 - heart[np.isfinite(heart)]
    all_day = (
        found.low[HEART_RATE, 4],
        found.high[HEART_RATE, 4],
    )  # the whole day hidden: every measured minute
    assert all_day == pytest.approx(np.quantile(expected.astype(np.float64), [0.05, 0.95]), abs=1e-6)
    assert found.minutes[HEART_RATE, 4] == len(expected)
    assert found.days[HEART_RATE, 4] == 6
    assert 0.85 < found.inside[HEART_RATE, 4] < 0.95
    assert found.agreement[ASLEEP, 4] == pytest.approx(np.mean(whole[:, ASLEEP] == 0))
    assert np.isnan(found.low[ASLEEP]).all()
    assert found.minutes[INDEX["workout_yoga"]].sum() == 0  # workouts are no device's: never hidden
    for data, target in imputer.seen:
        assert np.isnan(data[target]).all()  # nothing hidden reaches the method


def test_the_same_seed_hides_the_same(store):
    first, again = (hidden_errors.measure(Constant(1.2), store, batch_size=b) for b in (3, 7))
    assert np.array_equal(first.low, again.low, equal_nan=True)
    assert np.array_equal(first.minutes, again.minutes)
    other = hidden_errors.measure(Constant(1.2), store, seed=1)
    assert not np.array_equal(other.minutes[:, :4], first.minutes[:, :4])


def test_intervals_of_known_errors():
    error = np.tile(np.arange(-10.0, 11.0), 30)
    n = len(error)
    day = np.repeat([0, 1, 2, 3, 4], n // 5)
    channel, gap = np.full(n, HEART_RATE), np.full(n, 2)
    found = hidden_errors.summarize(channel, gap, day, error)
    assert (found.low[HEART_RATE, 2], found.high[HEART_RATE, 2]) == (-9, 9)
    assert found.median_absolute[HEART_RATE, 2] == 5
    assert found.inside[HEART_RATE, 2] == pytest.approx(19 / 21, abs=0.01)
    assert np.isnan(found.low[HEART_RATE, [0, 1, 3, 4]]).all()


@pytest.mark.parametrize(("n", "days"), [(199, 5), (1000, 2)])
def test_too_little_gives_no_interval(n, days):
    found = hidden_errors.summarize(
        np.full(n, HEART_RATE), np.zeros(n, int), np.arange(n) % days, np.linspace(-1, 1, n)
    )
    assert np.isnan(found.low).all()
    assert found.minutes[HEART_RATE, 0] == n


def test_a_method_that_answers_nothing(store):
    with pytest.raises(MethodError, match="not finite"):
        hidden_errors.measure(Constant(np.nan), store)


def test_the_file(store, tmp_path):
    found = hidden_errors.measure(Constant(1.2), store, n_days=3)
    hidden_errors.save(found, tmp_path / "errors.npz")
    again = hidden_errors.load(tmp_path / "errors.npz")
    assert np.array_equal(again.low, found.low, equal_nan=True)
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(StoreError):
        hidden_errors.load(tmp_path / "bad.npz")
    np.savez(tmp_path / "bad.npz", **{name: np.zeros(3) for name in vars(found)})
    with pytest.raises(StoreError, match="shape"):
        hidden_errors.load(tmp_path / "bad.npz")


def test_short_gaps_do_not_touch(store):
    hidden = hidden_errors._HiddenDays(store, np.arange(2), seed=0)
    for index, (length, count) in enumerate(hidden_errors.HIDDEN):
        mask = hidden.hidden(index)
        assert mask[HEART_RATE].sum() == length * count <= MINUTES_PER_DAY
        assert not mask[INDEX["workout_walking"]].any()
