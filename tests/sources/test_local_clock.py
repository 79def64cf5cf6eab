"""Wall clocks over clock changes, by zone and by the offsets of records."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.sources import local_clock
from wearjax.sources.local_clock import RecordClock, ZoneClock

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SPRING, AUTUMN = dt.date(2024, 3, 31), dt.date(2024, 10, 27)


def utc(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp())


def wall(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp())


def pieces(clock, start: str, end: str):
    """Pieces as (wall start, wall end, fraction)."""
    ends = [dt.datetime.fromisoformat(text) for text in (start, end)]
    s, e = (np.array([int(at.timestamp())]) for at in ends)
    s_offset, e_offset = (np.array([int(at.utcoffset().total_seconds())]) for at in ends)
    made = clock.pieces(s, e, s_offset, e_offset)
    return list(zip(made.start.tolist(), made.end.tolist(), made.fraction.tolist(), strict=True))


@pytest.mark.parametrize("clock", [RecordClock(), ZoneClock(BERLIN)])
def test_a_spring_night_leaves_out_the_hour(clock):
    found = pieces(clock, "2024-03-30T23:00+01:00", "2024-03-31T07:00+02:00")
    assert [(s, e) for s, e, _ in found] == [
        (wall("2024-03-30T23:00"), wall("2024-03-31T02:00")),
        (wall("2024-03-31T03:00"), wall("2024-03-31T07:00")),
    ]
    assert [f for *_, f in found] == pytest.approx([3 / 7, 4 / 7])
    assert clock.skipped(SPRING) == range(120, 180)
    assert len(clock.skipped(SPRING + dt.timedelta(days=1))) == 0


@pytest.mark.parametrize("clock", [RecordClock(), ZoneClock(NEW_YORK)])
def test_an_autumn_night_has_the_hour_twice(clock):
    found = pieces(clock, "2024-11-02T23:00-04:00", "2024-11-03T07:00-05:00")
    assert [(s, e) for s, e, _ in found] == [
        (wall("2024-11-02T23:00"), wall("2024-11-03T02:00")),
        (wall("2024-11-03T01:00"), wall("2024-11-03T07:00")),
    ]
    assert sum(f for *_, f in found) == pytest.approx(1)
    assert len(clock.skipped(dt.date(2024, 11, 3))) == 0


def test_the_record_clock_sees_the_jump_between_records():
    clock = RecordClock()
    pieces(clock, "2024-03-30T20:00+01:00", "2024-03-30T20:10+01:00")
    pieces(clock, "2024-03-31T09:00+02:00", "2024-03-31T09:10+02:00")
    assert clock.skipped(SPRING) == range(120, 180)


def test_a_journey_is_no_clock_change():
    clock = RecordClock()
    found = pieces(clock, "2024-05-01T10:00+02:00", "2024-05-01T12:00+03:00")
    assert [(s, e) for s, e, _ in found] == [(wall("2024-05-01T10:00"), wall("2024-05-01T11:00"))]
    assert len(clock.skipped(dt.date(2024, 5, 1))) == 0


def test_a_zone_overrules_the_written_offset():
    found = pieces(ZoneClock("Asia/Tokyo"), "2024-05-01T20:00+02:00", "2024-05-01T21:00+02:00")
    assert [(s, e) for s, e, _ in found] == [(wall("2024-05-02T03:00"), wall("2024-05-02T04:00"))]


@pytest.mark.parametrize(
    "zone", [BERLIN, NEW_YORK, "Australia/Lord_Howe", "Asia/Kolkata", "America/Sao_Paulo"]
)
@given(
    start=st.integers(utc("2007-01-01T00:00+00:00"), utc("2030-01-01T00:00+00:00")),
    length=st.integers(0, 86_400),
)
@settings(max_examples=40, deadline=None)
def test_zone_pieces_agree_with_the_zone_database(zone, start, length):
    clock, info = ZoneClock(zone), zoneinfo.ZoneInfo(zone)
    made = clock.pieces(np.array([start]), np.array([start + length]))
    offset = int(dt.datetime.fromtimestamp(start, info).utcoffset().total_seconds())
    assert made.start[0] == start + offset
    assert made.fraction.sum() == pytest.approx(1)
    assert (made.end - made.start).sum() == length


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "records"])
def test_unknown_zone(zone):
    with pytest.raises(ConfigError, match="time zone"):
        local_clock.choose(zone)
