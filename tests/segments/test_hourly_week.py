"""Calendar weeks of hours: where windows start, which are kept, and what stands on absent days."""

from __future__ import annotations

import datetime as dt

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.segments import hourly_week, seven_days

FIRST = dt.date(2020, 2, 25)  # a leap day lies in the first week


def iso(offset: int) -> str:
    return (FIRST + dt.timedelta(days=int(offset))).isoformat()


def restated(offsets, stride, min_days):
    """Windows of one participant by walking a pointer along the calendar; lists of offsets or None."""
    found, pointer = [], min(offsets)
    while pointer + 6 <= max(offsets):
        window = [o if o in offsets else None for o in range(pointer, pointer + 7)]
        if sum(o is not None for o in window) >= min_days:
            found.append((pointer, window))
        pointer += stride
    return found


@hypothesis.given(
    people=st.dictionaries(
        st.text("ab-", min_size=1, max_size=3), st.sets(st.integers(0, 40), min_size=1), max_size=4
    ),
    stride=st.integers(1, 9),
    min_days=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_windows_follow_the_pointer(people, stride, min_days, seed):
    days = [(person, offset) for person, offsets in people.items() for offset in offsets]
    order = np.random.default_rng(seed).permutation(len(days))
    days = [days[i] for i in order]
    window, start = hourly_week.weeks(
        [p for p, _ in days], [iso(o) for _, o in days], stride=stride, min_days=min_days
    )
    wanted = [
        ([-1 if o is None else days.index((person, o)) for o in week], iso(first))
        for person in sorted(people)
        for first, week in restated(people[person], stride, min_days)
    ]
    assert window.shape == (len(wanted), 7)
    assert window.dtype == np.int64
    assert window.tolist() == [week for week, _ in wanted]
    assert [str(day) for day in start] == [first for _, first in wanted]


def test_published_rule():
    offsets = [*range(7), 7, 8, 9, 10, 12, 14, 15, 16, 20, *range(21, 27)]
    window, start = hourly_week.weeks(["p"] * len(offsets), [iso(o) for o in offsets])
    # the third week has four days only, the fourth ends a day before it is whole
    assert [str(day) for day in start] == [iso(0), iso(7)]
    assert window[1].tolist() == [7, 8, 9, 10, -1, 11, -1]
    assert seven_days.first_positions(window).tolist() == [0, 7]
    assert len(hourly_week.weeks(["p"] * 14, [iso(o) for o in range(14)], stride=1)[0]) == 8


def test_gather_and_valid_days():
    rng = np.random.default_rng(0)
    hours = rng.random((3, 19, 24)).astype(np.float32)
    hours[1, :, :13] = np.nan  # 11 hours left
    hours[2, 1:] = np.nan
    hours[2, 0, :12] = np.nan  # 12 hours of one channel left
    week = np.array([[0, -1, 1, 2, -1, 0, -1], [-1] * 4 + [1, 1, -1]])
    found = hourly_week.gather(hours, week)
    assert found.shape == (2, 168, 19)
    assert found.dtype == np.float32
    for w, d in np.ndindex(2, 7):
        block = found[w, 24 * d : 24 * d + 24]
        expected = np.full((24, 19), np.nan) if week[w, d] < 0 else hours[week[w, d]].T
        np.testing.assert_array_equal(block, expected)
    assert hourly_week.n_valid_days(hours, week).tolist() == [3, 0]
    with pytest.raises(ConfigError, match=r"expected \(day, 19, 24\)"):
        hourly_week.gather(hours.swapaxes(1, 2), week)


def test_empty_and_impossible_input():
    window, start = hourly_week.weeks([], [])
    assert window.shape == (0, 7)
    assert start.shape == (0,)
    assert hourly_week.gather(np.empty((0, 19, 24), np.float32), window).shape == (0, 168, 19)
    for arguments, message in [
        ((["p"], []), "1 participants but 0 dates"),
        ((["p"], ["yesterday"]), "ISO dates"),
        ((["p"], [None]), "ISO dates"),
        ((["p", "q", "p"], [iso(0)] * 3), f"participant p has two days at {iso(0)}"),
    ]:
        with pytest.raises(ConfigError, match=message):
            hourly_week.weeks(*arguments)
    with pytest.raises(ConfigError, match="stride"):
        hourly_week.weeks([], [], stride=0)
    with pytest.raises(ConfigError, match="min_days"):
        hourly_week.weeks([], [], min_days=8)
