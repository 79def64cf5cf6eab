"""Dates by position, against the standard library."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.sources import apple_health_time as times

moments = st.datetimes(
    min_value=dt.datetime(1, 1, 3),
    max_value=dt.datetime(9999, 12, 28),
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda m: dt.timezone(dt.timedelta(minutes=m))),
).map(lambda at: at.replace(microsecond=0))


def written(at: dt.datetime) -> bytes:
    return (at.isoformat(" ")[:19] + " " + at.strftime("%z")).encode()


@given(st.lists(moments, min_size=1, max_size=20))
def test_reads_what_is_written(moments):
    seconds, offsets = times.read([written(at) for at in moments])
    assert seconds.tolist() == [int(at.timestamp()) for at in moments]
    assert offsets.tolist() == [int(at.utcoffset().total_seconds()) for at in moments]


@pytest.mark.parametrize(
    "text", ["20140923120000+0200", "20140923120000 +0200", "2014-09-23 12:00:00 +02:00"]
)
def test_other_forms(text):
    seconds, offsets = times.read([text.encode(), b"2014-09-23 12:00:00 +0200"])
    assert seconds[0] == seconds[1]
    assert offsets.tolist() == [7200, 7200]


@pytest.mark.parametrize(
    "text",
    [
        "", "2024-02-30 10:00:00 +0000", "2023-02-29 10:00:00 +0000", "2024-13-01 10:00:00 +0000",
        "2024-00-10 10:00:00 +0000", "2024-01-00 10:00:00 +0000", "2024-04-31 10:00:00 +0000",
        "2024-01-01 24:00:00 +0000", "2024-01-01 10:60:00 +0000", "2024-01-01 10:00:60 +0000",
        "2024-01-01 10:00:00 +1900", "2024-01-01 10:00:00  0000", "2024-01-01T10:00:00 +0000",
        "2024-01-01 10:00:00", "01/02/2024 10:00 AM", "2024-01-01 1٠:00:00 +0000",
        "x024-01-01 10:00:00 +0000",
    ],
)  # fmt: skip
def test_unreadable_dates_are_told(text):
    good = b"2024-02-29 10:00:00 +0000"
    seconds, _ = times.read([good, text.encode(), good])
    assert seconds[1] == times.UNREADABLE
    assert seconds[0] == seconds[2] == int(dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC).timestamp())


def test_wrong_lengths_that_add_up_do_not_mix():
    seconds, _ = times.read([b"2024-01-01 10:00:00 +00000", b"2024-01-01 10:00:00 +000"])
    assert (seconds == times.UNREADABLE).all()


@given(st.lists(moments, min_size=1, max_size=20))
def test_letters_read_as_texts_do(moments):
    texts = [written(at) for at in moments] + [b"2024-13-01 10:00:00 +0000"]
    letters = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, 25)
    for of_letters, of_texts in zip(times.read(letters), times.read(texts), strict=True):
        np.testing.assert_array_equal(of_letters, of_texts)


def test_no_date_at_all():
    assert [len(column) for column in times.read([])] == [0, 0]
