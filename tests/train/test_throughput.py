"""Counted work, and that the measurement runs and adds up; never how fast a machine is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from wearjax.models.lsm2 import LSM2Config
from wearjax.train import throughput

TINY = LSM2Config(
    minutes=48, patch=24, encoder_dim=8, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2,
)  # fmt: skip


def products_of_a_block(tokens: int, dim: int) -> int:
    """Two FLOP for each multiplication of the seven products, one by one."""
    shapes = [(tokens, dim, dim)] * 4 + [(tokens, dim, 4 * dim), (tokens, 4 * dim, dim)]
    shapes += [(tokens, dim, tokens), (tokens, tokens, dim)]  # scores and values, over all heads
    return sum(2 * m * k * n for m, k, n in shapes)


@pytest.mark.parametrize(("tokens", "dim"), [(1368, 384), (2736, 256), (7, 3)])
def test_flops_of_a_block(tokens, dim):
    assert throughput.block_flops(tokens, dim) == products_of_a_block(tokens, dim)


def test_flops_of_the_published_model():
    config = LSM2Config()
    flops = throughput.training_flops(config)
    blocks = 12 * products_of_a_block(1368, 384) + 4 * products_of_a_block(2736, 256)
    assert 0 < flops - 3 * blocks < 0.01 * flops  # embedding and heads are small
    assert abs(flops / 1e9 - 421) < 3  # three times 140 forward
    assert throughput.training_flops(dataclasses.replace(config, removal_ratio=0.8)) < 0.6 * flops


def test_made_days_have_gaps():
    values = throughput.made_days(2)
    assert values.shape == (2, 19, 1440)
    assert 0 < np.isnan(values).mean() < 0.2


def test_measurement_runs():
    steps, parts = throughput.measure_lsm2(repeats=1, batch_sizes=(1, 2), config=TINY)
    assert [row["batch"] for row in steps[1]] == [1, 2]
    assert all(str(cell) for row in steps[1] for cell in row.values())
    assert {row["part"] for row in parts[1]} >= {"attention", "linear maps", "optimizer"}


def test_shares_are_of_the_matrix_rate():
    rate = throughput.StepRate(1, 2.0, 4.0, 100.0, 80.0, 50.0, 1.0, 1)
    assert rate.share == pytest.approx(100 / 2 / 80)
    assert rate.processor_share == pytest.approx(100 / 4 / 50)
