import numpy as np
import pytest

from wearjax.cli import evaluate
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict import protocols
from wearjax.predict.imputers import baselines, personalized, statistical


class FewDays(Days):
    """Two participants, each day one number in all cells, ascending."""

    participants = np.array(["t", "t", "e", "e", "e"], object)
    dates = np.array([f"2020-01-0{d}" for d in (1, 2, 1, 2, 4)], object)

    def __init__(self):
        self.reads = 0

    def values(self, index):
        self.reads += 1
        return np.full((19, 1440), index, np.float32)

    def source(self, index):
        return "made"


def test_all_names_fill_single_days_and_windows():
    for n_days in (1, 3):
        built = baselines.build_all(baselines.NAMES, FewDays(), [0, 1], [2, 3, 4])
        assert tuple(built) == baselines.NAMES == statistical.NAMES + personalized.NAMES
        data = np.full((1, 19, n_days * 1440), np.nan, np.float32)
        target = np.ones(data.shape, bool)
        for name, method in built.items():
            offsets = {"day_offsets": np.arange(n_days)[None]} if n_days > 1 else {}
            out = protocols.call_impute(
                method, data, target, target, sample_indices=np.array([0]), user_ids=["e"], **offsets
            )
            # Days of 2, 3 and 4: each is filled from the two others, in a window as alone.
            others = (3.0, 2.0, 2.0) if "mode" in name else (3.5, 3.0, 2.5)
            train = 0.0 if "mode" in name else 0.5
            wanted = others[:n_days] if name.startswith("personalized") else (train,) * n_days
            assert np.all(out == np.repeat(wanted, 1440)), name


def test_the_training_days_are_read_once_for_all_means():
    days = FewDays()
    baselines.build_all(("mean", "linear", "locf", "temporal_mean"), days, [0, 1], [2, 3, 4])
    assert days.reads == 2


def test_unknown_names_suggest_the_near_one():
    with pytest.raises(ConfigError, match="'personalised_mean' is unknown; did you mean 'personalized_mean'"):
        baselines.build_all(("mean", "personalised_mean"), FewDays(), [0], [2])


def test_the_command_line_offers_all_of_them():
    assert evaluate.BASELINES == baselines.NAMES
