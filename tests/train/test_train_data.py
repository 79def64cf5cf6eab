from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.train import data
from wearjax.train.config import DataConfig


def test_train_and_validation_days(store):
    opened = data.open_training_days(store, DataConfig())
    assert (len(opened.train), len(opened.validation)) == (24, 6)
    assert set(opened.days.participants[opened.train]) == {"p0", "p1", "p2", "p3"}
    assert set(opened.days.participants[opened.validation]) == {"p4"}
    stats = opened.fit_normalization()
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
