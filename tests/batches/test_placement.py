from __future__ import annotations

import jax
import numpy as np
import pytest

from wearjax.batches import placement
from wearjax.errors import ConfigError


@pytest.fixture(scope="module")
def mesh():
    return placement.make_mesh(jax.devices())


def test_rows_are_spread_over_the_data_axis(mesh):
    batch = {"values": np.arange(48, dtype=np.float32).reshape(16, 3), "index": np.arange(16)}
    placed = placement.place(batch, placement.batch_sharded(mesh))
    np.testing.assert_array_equal(placed["values"], batch["values"])
    shards = placed["values"].addressable_shards
    assert [s.data.shape for s in shards] == [(2, 3)] * 8
    assert placed["index"].dtype == np.int32


def test_replicated_means_a_copy_each(mesh):
    array = jax.device_put(np.arange(3), placement.replicated(mesh))
    assert [s.data.shape for s in array.addressable_shards] == [(3,)] * 8


def test_mesh_axes(mesh):
    assert mesh.shape == {"data": 8, "model": 1}


def test_batch_size_must_divide():
    placement.check_divisible(16, 8)
    with pytest.raises(
        ConfigError, match=r"data\.batch_size: 20 does not divide by the 8 devices; use e.g. 16"
    ):
        placement.check_divisible(20, 8)


def test_choosing_devices():
    assert placement.choose_devices(None) == jax.devices()
    assert placement.choose_devices(3) == jax.devices()[:3]
    with pytest.raises(
        ConfigError, match=r"loop.devices: 9 are asked for, this machine has 8 cpu device\(s\)"
    ):
        placement.choose_devices(9)
