"""Counted work, and that the measurement runs and adds up; never how fast a machine is."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest

from wearjax.layers import blocks
from wearjax.models import lsm2, lsm2_sparse
from wearjax.models.lsm2 import LSM2Config
from wearjax.models.lsm2_sparse import LSM2SparseConfig
from wearjax.models.mixlinear import MixLinearConfig
from wearjax.models.wbm import WBMConfig
from wearjax.train import lsm2_breakdown, throughput

TINY = LSM2Config(
    patch=360, encoder_dim=8, encoder_depth=1, encoder_heads=2,
    decoder_dim=8, decoder_depth=1, decoder_heads=2,
)  # fmt: skip


def products_of_a_block(tokens: int, dim: int) -> int:
    """Two FLOP for each multiplication of the seven products, one by one."""
    shapes = [(tokens, dim, dim)] * 4 + [(tokens, dim, 4 * dim), (tokens, 4 * dim, dim)]
    shapes += [(tokens, dim, tokens), (tokens, tokens, dim)]  # scores and values, over all heads
    return sum(2 * m * k * n for m, k, n in shapes)


@pytest.mark.parametrize(("tokens", "dim"), [(1368, 384), (2736, 256), (7, 3)])
def test_flops_of_a_block(tokens, dim):
    assert blocks.flops(tokens, dim) == products_of_a_block(tokens, dim)


def test_flops_of_the_published_model():
    config = LSM2Config()
    flops = lsm2.training_flops(config)
    stacks = 12 * products_of_a_block(1368, 384) + 4 * products_of_a_block(2736, 256)
    assert 0 < flops - 3 * stacks < 0.01 * flops  # embedding and heads are small
    assert abs(flops / 1e9 - 421) < 3  # three times 140 forward
    assert lsm2.training_flops(dataclasses.replace(config, removal_ratio=0.8)) < 0.6 * flops


def test_flops_of_the_sparse_model():
    """Seven frozen encoders forward; two layers within days and two across, forward and backward."""
    flops = lsm2_sparse.training_flops(LSM2SparseConfig())
    encoder = 7 * 12 * products_of_a_block(1368, 384)
    decoder = 7 * 2 * products_of_a_block(2736, 256) + 12 * 2 * products_of_a_block(1596, 256)
    assert 0 < flops - encoder - 3 * decoder < 0.02 * flops


SPARSE = LSM2SparseConfig(**dataclasses.asdict(TINY) | {"patch": 120, "decoder_depth": 2})
HOURS = MixLinearConfig(steps=48)
WEEKS = WBMConfig(dim=8, tokenizer_hidden=4, depth=1, d_state=4, headdim=4, projection_dim=4)


@pytest.mark.parametrize("config", [TINY, SPARSE, WEEKS, HOURS], ids=lambda c: type(c).__name__)
def test_made_batches_have_gaps(config):
    values = throughput.made_batch(config, 2)["values"]
    assert len(values) == 2
    assert 0 < np.isnan(values).mean() < 0.2


@pytest.mark.parametrize("config", [TINY, SPARSE, WEEKS], ids=lambda c: type(c).__name__)
def test_every_model_is_measured(config):
    calls = []

    @contextlib.contextmanager
    def make_rival(size):
        yield lambda: calls.append(size)

    (_, rows), steps = throughput.measure(
        config,
        batch_sizes=(1, 2),
        repeats=1,
        make_rival=make_rival,
        loader_rate=1e3,
    )
    assert [row["batch"] for row in rows] == [1, 2]
    assert all(str(cell) for row in rows for cell in row.values())
    each = throughput.WARM_UPS + 1
    assert calls == [1] * each + [2] * each
    assert [s.batch_size for s in steps] == [1, 2]


def test_parts_of_a_step():
    step = throughput.compile_step(TINY, batch_size=1)
    rows = lsm2_breakdown.breakdown(step, repeats=1)
    assert {row["part"] for row in rows} >= {"attention", "linear maps", "optimizer"}


def test_shares_are_of_the_matrix_rate():
    rate = throughput.StepRate(1, 2.0, 4.0, 100.0, 80.0, 50.0, 1.0, 1)
    assert rate.share == pytest.approx(100 / 2 / 80)
    assert rate.processor_share == pytest.approx(100 / 4 / 50)
