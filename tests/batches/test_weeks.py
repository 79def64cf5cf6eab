"""Weeks as examples, hours of days, and the statistics of hours."""

from __future__ import annotations

import pickle
import types

import numpy as np
import pytest

from wearjax.batches import source, weeks
from wearjax.days import hourly
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError


def made_weeks():
    """Week w of participant p has 100 p + w everywhere; participants out of order, with 1, 2, 3, 4 weeks."""
    owner = np.array(["d", "b", "c", "d", "c", "d", "b", "c", "d", "a"])
    hours = np.empty((len(owner), 168, 19), np.float32)
    for w, p in enumerate(owner):
        hours[w] = 100 * "abcd".index(p) + w
    return hours, owner


def test_a_week_of_the_right_participant():
    hours, owner = made_weeks()
    examples = weeks.ParticipantWeeks(hours, owner, seed=3)
    assert len(examples) == 4
    items = np.tile(np.arange(4), 50)
    batch = examples.read(items, np.arange(200))
    assert batch["values"].shape == (200, 168, 19)
    assert (batch["values"].dtype, batch["participant"].dtype, batch["index"].dtype) == ("f4", "i4", "i8")
    assert batch["participant"].tolist() == items.tolist()
    assert [str(p) for p in owner[batch["index"]]] == [("a", "b", "c", "d")[i] for i in items]
    np.testing.assert_array_equal(batch["values"], hours[batch["index"]])
    for item in range(4):  # every week of a participant comes up
        assert set(batch["index"][items == item]) == set(np.flatnonzero(owner == "abcd"[item]))


def test_the_draw_depends_on_seed_and_position_only():
    examples = weeks.ParticipantWeeks(*made_weeks(), seed=3)
    items, positions = np.full(20, 3), np.arange(20)
    index = examples.read(items, positions)["index"]
    back = pickle.loads(pickle.dumps(examples)).read(items[::-1], positions[::-1])["index"]
    np.testing.assert_array_equal(index, back[::-1])
    assert (weeks.ParticipantWeeks(*made_weeks(), seed=4).read(items, positions)["index"] != index).any()


def test_batches_of_weeks_do_not_depend_on_processes():
    examples = weeks.ParticipantWeeks(*made_weeks(), seed=3)
    make = lambda i, n: source.ShuffledBatches(  # noqa: E731
        examples, batch_size=4, n_batches=3, seed=1, process_index=i, process_count=n
    )
    whole = make(0, 1)[2]
    parts = [make(i, 2)[2] for i in (0, 1)]
    for name, value in whole.items():
        np.testing.assert_array_equal(value, np.concatenate([part[name] for part in parts]))
    assert sorted(whole["participant"]) == [0, 1, 2, 3]  # one epoch: each participant once


def test_impossible_input():
    hours, owner = made_weeks()
    assert len(weeks.ParticipantWeeks(hours[:0], owner[:0], seed=0)) == 0
    with pytest.raises(ConfigError, match="a participant a week"):
        weeks.ParticipantWeeks(hours, owner[:-1], seed=0)


def test_hours_of_days_in_parts(monkeypatch):
    rng = np.random.default_rng(0)
    minutes = rng.random((7, 19, 1440)).astype(np.float32)
    minutes[rng.random(minutes.shape) < 0.5] = np.nan
    minutes[2, 5] = np.nan
    monkeypatch.setattr(weeks, "_DAYS_AT_ONCE", 2)
    indices, calls = np.array([6, 2, 0, 3, 1]), []
    days = types.SimpleNamespace(batch=lambda wanted: minutes[wanted])
    found = weeks.hours_of(days, indices, progress=lambda *call: calls.append(call))
    np.testing.assert_array_equal(found, hourly.aggregate(minutes[indices]))
    assert found.dtype == np.float32
    assert calls == [(2, 5), (4, 5), (5, 5)]
    assert weeks.hours_of(days, indices[:0]).shape == (0, 19, 24)


def test_statistics_of_hours():
    rng = np.random.default_rng(1)
    hours = (rng.normal(5, 3, (30, 19, 24)) * np.arange(1, 20)[:, None]).astype(np.float32)
    hours[rng.random(hours.shape) < 0.4] = np.nan
    hours[:, 2] = 7.0  # does not vary
    hours[:, 4] = np.nan  # never measured
    stats = weeks.fit_hourly(hours)
    for channel in (0, 1, 3, 5, 6):
        measured = hours[:, channel][~np.isnan(hours[:, channel])].astype(np.float64)
        assert stats.means[channel] == pytest.approx(measured.mean())
        assert stats.stds[channel] == pytest.approx(measured.std(ddof=0))
    assert (stats.means[2], stats.stds[2], stats.means[4], stats.stds[4]) == (7, 1, 0, 1)
    assert (stats.means[7:] == 0).all()
    assert (stats.stds[7:] == 1).all()
    assert stats.epsilon == 0
    back = NormalizationStats.from_json(stats.to_json())
    assert back.epsilon == 0
    np.testing.assert_array_equal(back.stds, stats.stds)
