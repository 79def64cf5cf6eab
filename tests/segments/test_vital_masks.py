"""Draws of kept channels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import ConfigError
from wearjax.segments import vital_masks


@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_a_draw_is_ascending_and_never_all_of_either(covariates, targets, seed):
    draws = vital_masks.ChannelDraws(covariates, targets, seed=seed)
    for _ in range(5):
        kept = draws.draw()
        assert (np.diff(kept) > 0).all()
        assert kept.max() < covariates + targets
        assert (kept < covariates).sum() < covariates
        assert 1 <= (kept >= covariates).sum() < targets


def test_batches_go_on_where_the_last_epoch_ended():
    whole = vital_masks.of_batches(9, 8, 0, 10)
    parts = vital_masks.of_batches(9, 8, 0, 4) + vital_masks.of_batches(9, 8, 4, 6)
    assert [kept.tolist() for kept in whole] == [kept.tolist() for kept in parts]
    cases = vital_masks.of_cases(9, 8, 5)
    assert cases[1].tolist() == whole[0].tolist(), "the first draw is spent before the first batch"


def test_the_global_generator_is_not_touched():
    np.random.seed(1)  # noqa: NPY002
    vital_masks.of_cases(9, 8, 5)
    after = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert after == np.random.random()  # noqa: NPY002


def test_all_channels_and_last_targets():
    assert [kept.tolist() for kept in vital_masks.complete(3, 2)] == [[0, 1, 2]] * 2
    assert vital_masks.scored(4, 1).tolist() == [False, False, False, True]
    with pytest.raises(ConfigError, match="two targets"):
        vital_masks.ChannelDraws(3, 1)
