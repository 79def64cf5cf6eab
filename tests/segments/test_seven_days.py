"""Windows of several days hold every day once, in order, with the padding at the left."""

from __future__ import annotations

import datetime as dt

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.segments import seven_days

DAYS = st.lists(
    st.tuples(st.sampled_from(["b", "a", "-z"]), st.dates(dt.date(2019, 12, 1), dt.date(2020, 3, 31))),
    unique=True,
    max_size=40,
)


@hypothesis.given(days=DAYS, n_days=st.integers(1, 7))
def test_every_day_is_in_one_window(days, n_days):
    users, dates = [user for user, _ in days], [date.isoformat() for _, date in days]
    windows, offsets = seven_days.windows(users, dates, n_days=n_days)
    assert windows.shape == offsets.shape == (len(windows), n_days)
    assert sorted(windows[windows >= 0].tolist()) == list(range(len(days)))
    for window, offset in zip(windows.tolist(), offsets.tolist(), strict=True):
        real = [position for position in window if position != seven_days.PADDING]
        assert window == [seven_days.PADDING] * (n_days - len(real)) + real
        assert len({users[position] for position in real}) == 1
        first = days[real[0]][1]
        expected = [(days[position][1] - first).days for position in real]
        assert offset == [-1] * (n_days - len(real)) + expected
        assert expected == sorted(expected)


@hypothesis.given(days=DAYS, n_days=st.integers(1, 7))
def test_participants_and_windows_are_in_order(days, n_days):
    users, dates = [user for user, _ in days], [date.isoformat() for _, date in days]
    windows, _ = seven_days.windows(users, dates, n_days=n_days)
    names = [(users[first], dates[first]) for first in seven_days.first_positions(windows)]
    assert names == sorted(names)
    for user in set(users):
        padded = [int((w == -1).sum()) for w in windows if users[w[-1]] == user]
        assert padded[:-1] == [0] * (len(padded) - 1)
        assert padded[-1] < n_days


def test_days_come_back_from_windows():
    days = np.random.default_rng(0).random((2, 3, 19, 10)).astype(np.float32)
    joined = np.concatenate([days[:, i] for i in range(3)], axis=-1)
    np.testing.assert_array_equal(seven_days.split_days(joined, 3), days)
    np.testing.assert_array_equal(seven_days.split_days(joined[0], 3), days[0])


def test_says_what_is_wrong():
    with pytest.raises(ConfigError, match="2 participants but 1 dates"):
        seven_days.windows(["a", "b"], ["2020-01-01"])
    with pytest.raises(ConfigError, match="ISO dates"):
        seven_days.windows(["a"], ["yesterday"])
    with pytest.raises(ConfigError, match="at least 1"):
        seven_days.windows(["a"], ["2020-01-01"], n_days=0)
    with pytest.raises(ConfigError, match="not 7 days"):
        seven_days.split_days(np.zeros((19, 15)), 7)
