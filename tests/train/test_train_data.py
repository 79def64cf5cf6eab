from __future__ import annotations

import datetime as dt
import json
import shutil

import numpy as np
import pytest
from made_days import made_cohort
from openmhc_root import write_openmhc_root

from wearjax.day import Day
from wearjax.days import importing, normalization
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import ConfigError
from wearjax.train import data
from wearjax.train.config import DataConfig


def test_train_and_validation_days(store):
    opened = data.open_training_days(store, DataConfig())
    assert (len(opened.train), len(opened.validation)) == (24, 6)
    assert set(opened.days.participants[opened.train]) == {"p0", "p1", "p2", "p3"}
    assert set(opened.days.participants[opened.validation]) == {"p4"}
    stats = data.day_examples(opened, seed=0).fit()
    np.testing.assert_allclose(stats.means[:5], 50, atol=1)


def test_fewer_days_and_their_digest(store):
    opened = data.open_training_days(store, DataConfig())
    fewer = data.open_training_days(store, DataConfig(max_train_days=10))
    np.testing.assert_array_equal(fewer.train, opened.train[:10])
    assert fewer.digest() != opened.digest()
    assert data.open_training_days(store, DataConfig(batch_size=2)).digest() == opened.digest()


def test_no_day_to_train_on(store, tmp_path):
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    (copy / "splits.json").write_text(json.dumps({"train": [], "validation": ["p0"], "test": ["p1"]}))
    with pytest.raises(
        ConfigError, match="no day in the train split that passes the wear-time and variance filters"
    ):
        data.open_training_days(copy, DataConfig())
    with pytest.raises(ConfigError, match=r"no day in the train split$"):
        data.open_training_days(copy, DataConfig(retained_only=False))


def test_windows_and_weeks(tmp_path):
    """Nine days with a gap: two windows of seven, the second padded; one week of hours."""
    store = tmp_path / "store"
    with DayStoreWriter(store, provenance={}) as writer:
        for p in ("a", "b", "c"):
            for d in (0, 1, 2, 3, 4, 6, 7, 9, 10):
                values = np.full((19, 1440), d, np.float32)
                values[7:] = d % 2
                values[5] += np.arange(1440) % 2  # a heart rate that varies passes the filter
                writer.add(Day(values, p, dt.date(2024, 1, 1 + d), 0.0, "made"))
    (store / "splits.json").write_text(json.dumps({"train": ["a"], "validation": ["b"], "test": ["c"]}))
    found = data.open_training_days(store, DataConfig(retained_only=False))
    windows = data.window_examples(found, seed=0)
    assert (len(windows.train), len(windows.validation)) == (2, 2)
    batch = windows.train.read(np.array([0, 1]), np.array([0, 1]))
    assert batch["values"].shape == (2, 19, 7 * 1440)
    assert batch["day_offsets"].tolist() == [[0, 1, 2, 3, 4, 6, 7], [-1] * 5 + [0, 1]]
    assert np.isnan(batch["values"][1, :, : 5 * 1440]).all()
    np.testing.assert_array_equal(batch["values"][0, 1, 1440::1440], [1, 2, 3, 4, 6, 7])
    found_weeks = data.week_examples(found, seed=0)
    assert (len(found_weeks.train), len(found_weeks.validation)) == (1, 1)
    week = found_weeks.train.read(np.array([0]), np.array([5]))
    assert week["values"].shape == (1, 168, 19)
    assert np.isnan(week["values"][0, 5 * 24 : 6 * 24]).all()  # the day that is not there


@pytest.mark.parametrize("folder", ["processed", "."])
def test_statistics_that_came_with_a_root_are_used(tmp_path, folder):
    days = made_cohort(3, 7)
    ids = sorted({day.participant for day in days})
    parts = {name: [user] for name, user in zip(("train", "validation", "test"), ids, strict=True)}
    root = write_openmhc_root(tmp_path / "root", days, parts)
    found = data.open_training_days(root, DataConfig(retained_only=False))
    told: list[str] = []
    cuts = (data.day_examples, data.window_examples, data.week_examples)
    for cut in cuts:
        cut(found, seed=0).fit_and_say(told.append, train_days=7)
    assert told == ["fitting normalization on 7 days"] * 3
    told.clear()
    for name, mean in (("normalization_stats.json", 3.0), ("normalization_stats_hourly.json", 5.0)):
        stats = {"means": [mean] * 19, "stds": [2.0] * 19, "channels": list(range(7)), "epsilon": 1e-8}
        (root / folder / name).write_text(json.dumps(stats))
    for cut, mean, epsilon in zip(cuts, (3, 3, 5), (1e-8, 1e-8, 0), strict=True):
        got = cut(found, seed=0).fit_and_say(told.append, train_days=7)
        assert got.means.tolist() == [mean] * 7 + [0] * 12
        assert got.stds.tolist() == [2] * 7 + [1] * 12
        assert got.epsilon == epsilon
    assert told == [
        f"normalization as it came with the data: {root / folder / name}"
        for name in ["normalization_stats.json"] * 2 + ["normalization_stats_hourly.json"]
    ]
    importing.import_days("openmhc", root, tmp_path / "store")
    assert normalization.shipped(DayStore(tmp_path / "store"), "minute") is None
