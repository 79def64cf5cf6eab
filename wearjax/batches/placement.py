"""Where arrays lie: the device mesh, the shardings of state and batch, and the transfer of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from wearjax.errors import ConfigError


def make_mesh(devices: Sequence[jax.Device]) -> Mesh:
    """Mesh ("data", "model") with all devices on the data axis and shardings left to the compiler."""
    grid = np.asarray(devices).reshape(-1, 1)
    return Mesh(grid, ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


def choose_devices(count: int | None) -> list[jax.Device]:
    """The first `count` devices, or all. Raises ConfigError when there are not so many."""
    found = jax.devices()
    if count is None:
        return found
    if not 1 <= count <= len(found):
        raise ConfigError(
            f"loop.devices is {count}, this machine has {len(found)} {found[0].platform} device(s)"
        )
    return found[:count]


def replicated(mesh: Mesh) -> NamedSharding:
    """One whole copy a device."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharded(mesh: Mesh) -> NamedSharding:
    """The leading axis split over the data axis of the mesh."""
    return NamedSharding(mesh, PartitionSpec("data"))


def check_divisible(batch_size: int, devices: int) -> None:
    """Raises ConfigError unless every device gets the same number of days."""
    if batch_size % devices:
        near = max(devices, batch_size // devices * devices)
        raise ConfigError(
            f"data.batch_size {batch_size} does not divide by the {devices} devices; use e.g. {near}, "
            "or set loop.devices"
        )


def place(batch: Mapping[str, np.ndarray], sharding: NamedSharding) -> dict[str, jax.Array]:
    """Sends this process's rows to its devices; with several processes the result is the global batch.

    64-bit integers become 32-bit unless 64-bit types are enabled, as everywhere in JAX.
    """
    return {
        name: jax.make_array_from_process_local_data(
            sharding, rows.astype(jax.dtypes.canonicalize_dtype(rows.dtype), copy=False)
        )
        for name, rows in batch.items()
    }
