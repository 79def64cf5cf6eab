"""Personalised baselines: a participant's other days, never the day being filled."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict.imputers import personalized, statistical
from wearjax.predict.imputers.personalized import EvaluatedDays

MINUTES, CHANNELS = 8, 2
USERS = ["b", "a", "b", "b", "c", "b"]
DATES = ["2020-01-04", "2020-01-01", "2020-01-02", "2020-01-03", "2020-01-01", "2020-01-09"]


def made(seed: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 5, (n, CHANNELS, MINUTES)).astype(np.float32)
    days[rng.random(days.shape) < 0.3] = np.nan
    return days


DAYS = made(1, len(USERS))
DAYS[2, 1] = np.nan
DAYS[:, 0, 5] = np.nan
TRAIN = statistical.fit(lambda: [made(0, 5)], minutes_per_day=MINUTES)
EVALUATED = EvaluatedDays(DAYS.__getitem__, USERS, DATES)


def fill(name, rows, *, user_ids=None, sample_indices=None, day_offsets=None, n_days=1):
    """What a method writes when everything is a target."""
    method = personalized.imputer(name, TRAIN, EVALUATED)
    data = np.full((len(rows), CHANNELS, n_days * MINUTES), np.nan, np.float32)
    everything = np.ones(data.shape, bool)
    return method.impute(
        data, everything, everything,
        user_ids=user_ids, sample_indices=sample_indices, day_offsets=day_offsets,
    )  # fmt: skip


def expected(name: str, others: list[int]) -> np.ndarray:
    """The statistic of days `others`, with the fallbacks, by plain means and counters."""
    out = np.empty((CHANNELS, MINUTES), np.float32)
    for c in range(CHANNELS):
        own = [v for d in others for v in DAYS[d, c] if np.isfinite(v)]
        votes = [
            min(v for v, n in Counter(day).items() if n == max(Counter(day).values()))
            for day in ([v for v in DAYS[d, c].tolist() if np.isfinite(v)] for d in others)
            if day
        ]
        for m in range(MINUTES):
            at = [DAYS[d, c, m] for d in others if np.isfinite(DAYS[d, c, m])]
            if name == "personalized_mean":
                out[c, m] = np.mean(own) if own else TRAIN.channel_means[c]
            elif name == "personalized_mode":
                most = Counter(votes)
                best = [v for v, n in most.items() if n == max(most.values())]
                out[c, m] = min(best) if best else TRAIN.channel_modes[c]
            elif own:
                out[c, m] = np.mean(at) if at else np.mean(own)
            else:
                out[c, m] = TRAIN.temporal_means[c, m]
    return out


@pytest.mark.parametrize("name", personalized.NAMES)
def test_leaves_the_day_itself_out(name):
    rows = list(range(len(USERS)))
    out = fill(name, rows, user_ids=USERS, sample_indices=np.array(rows))
    for row in rows:
        others = [d for d in rows if USERS[d] == USERS[row] and d != row]
        np.testing.assert_allclose(out[row], expected(name, others), rtol=1e-6)


@pytest.mark.parametrize("name", personalized.NAMES)
def test_the_days_own_values_do_not_matter(name):
    rows = np.array([0])
    before = fill(name, rows, user_ids=["b"], sample_indices=rows)
    kept = DAYS[0].copy()
    try:
        DAYS[0] = 99
        np.testing.assert_array_equal(fill(name, rows, user_ids=["b"], sample_indices=rows), before)
    finally:
        DAYS[0] = kept


@pytest.mark.parametrize("name", personalized.NAMES)
@pytest.mark.parametrize("sample", [None, 77, 1])
def test_unknown_day_of_a_known_participant_uses_all_days(name, sample):
    samples = None if sample is None else np.array([sample])  # 1 is a day of another participant
    out = fill(name, [0], user_ids=["b"], sample_indices=samples)
    np.testing.assert_allclose(out[0], expected(name, [0, 2, 3, 5]), rtol=1e-6)


@pytest.mark.parametrize("name", personalized.NAMES)
@pytest.mark.parametrize("users", [None, ["stranger"]])
def test_unknown_participant_gets_training_values(name, users):
    out = fill(name, [0], user_ids=users, sample_indices=np.array([0]))
    np.testing.assert_allclose(out[0], expected(name, []), rtol=1e-6)


@pytest.mark.parametrize("name", personalized.NAMES)
def test_each_day_of_a_window_is_filled_as_if_alone(name):
    # The days of b by date are 2, 3, 0, 5; a window of three slots starts at day 3 after one padded slot.
    out = fill(
        name, [3], user_ids=["b"], sample_indices=np.array([3]), day_offsets=np.array([[-1, 0, 1]]), n_days=3
    )
    slots = [expected(name, others) for others in ([2, 3, 0, 5], [2, 0, 5], [2, 3, 5])]
    np.testing.assert_allclose(out[0], np.concatenate(slots, axis=1), rtol=1e-6)
    single = fill(name, [3, 0], user_ids=["b", "b"], sample_indices=np.array([3, 0]))
    np.testing.assert_array_equal(out[0, :, MINUTES:], np.concatenate([*single], axis=1))


@pytest.mark.parametrize("name", personalized.NAMES)
def test_only_target_cells_change(name):
    method = personalized.imputer(name, TRAIN, EVALUATED)
    target = np.random.default_rng(0).random(DAYS.shape) < 0.4
    out = method.impute(DAYS, np.isfinite(DAYS), target, user_ids=USERS, sample_indices=np.arange(len(DAYS)))
    np.testing.assert_array_equal(out[~target], DAYS[~target])
    assert np.isfinite(out[target]).all()
    assert out.dtype == np.float32


def test_build_counts_positions_along_the_evaluated_days():
    class FourDays(Days):
        participants = np.array(["t", *["e"] * 3], object)
        dates = np.array(["2020-01-01", "2020-01-01", "2020-01-02", "2020-01-03"], object)

        def values(self, index):
            return np.full((19, 1440), index, np.float32)

        def source(self, index):
            return "made"

    method = personalized.build("personalized_mean", FourDays(), [0], [1, 2, 3])
    data = np.full((1, 19, 1440), np.nan, np.float32)
    everything = np.ones(data.shape, bool)
    out = method.impute(data, everything, everything, user_ids=["e"], sample_indices=[0])
    assert np.all(out == 2.5)


def test_says_what_is_wrong():
    with pytest.raises(ConfigError, match="'mean' is unknown"):
        personalized.imputer("mean", TRAIN, EVALUATED)
    without = statistical.fit(lambda: [made(0, 5)], minutes_per_day=MINUTES, with_modes=False)
    with pytest.raises(ConfigError, match="fitted without modes"):
        personalized.imputer("personalized_mode", without, EVALUATED)
