"""Where arrays lie: the device mesh, the shardings of state and batch, and the transfer of a batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from wearjax.errors import ConfigError

# How the trailing axes of an array are split over the mesh, by the end of its name; the first match holds. Stacked
# layers have one more axis in front, which stays whole. An axis that does not divide stays whole too.
RULES: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    (r"\.(qkv|fc1|in_proj)\.kernel$", ("data", "model")),  # split by output feature: heads, hidden units
    (r"\.(qkv|fc1)\.bias$", ("model",)),
    (r"\.(proj|fc2|out_proj)\.kernel$", ("model", "data")),  # takes what the former split, sums over devices
    (r"\.kernel$", (None, "data")),
    (r"", ()),
)


def make_mesh(devices: Sequence[jax.Device], *, model: int = 1) -> Mesh:
    """Mesh ("data", "model") with `model` devices on the model axis and shardings left to the compiler.

    Raises ConfigError unless `model` divides the number of devices.
    """
    if model < 1 or len(devices) % model:
        raise ConfigError(f"loop.model_devices: {model} does not divide the {len(devices)} devices")
    grid = np.asarray(devices).reshape(-1, model)
    return Mesh(grid, ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))


def choose_devices(count: int | None) -> list[jax.Device]:
    """The first `count` devices, or all. Raises ConfigError when there are not so many."""
    found = jax.devices()
    if count is None:
        return found
    if not 1 <= count <= len(found):
        raise ConfigError(
            f"loop.devices: {count} are asked for, this machine has {len(found)} {found[0].platform} device(s)"
        )
    return found[:count]


def replicated(mesh: Mesh) -> NamedSharding:
    """One whole copy a device."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharded(mesh: Mesh) -> NamedSharding:
    """The leading axis split over the data axis of the mesh."""
    return NamedSharding(mesh, PartitionSpec("data"))


def parameter_sharding(mesh: Mesh, name: str, shape: tuple[int, ...], *, sharded: bool) -> NamedSharding:
    """Where an array of the training state lies, by its dotted name.

    The moments of the optimizer carry the names of their parameters, so they lie beside them.

    Args:
        sharded: split arrays over the data axis too (fully sharded data parallelism); else only the model axis,
            when it has more than one device, splits anything.
    """
    wanted = next(axes for pattern, axes in RULES if re.search(pattern, name))
    wanted = wanted[-len(shape) :] if shape else ()
    spec: list[str | None] = [None] * (len(shape) - len(wanted))
    for axis, size in zip(wanted, shape[len(spec) :], strict=True):
        usable = axis is not None and (sharded or axis != "data") and mesh.shape[axis] > 1
        spec.append(axis if usable and size % mesh.shape[axis] == 0 else None)
    return NamedSharding(mesh, PartitionSpec(*spec))


def check_divisible(batch_size: int, devices: int, *, parts: int = 1) -> None:
    """Raises ConfigError unless every device gets the same number of examples in each of `parts` parts."""
    if batch_size % (devices * parts):
        near = max(devices * parts, batch_size // (devices * parts) * devices * parts)
        raise ConfigError(
            f"data.batch_size: {batch_size} does not divide by the {devices} devices"
            + (f" x {parts} accumulated parts" if parts > 1 else "")
            + f"; use e.g. {near}, or set loop.devices"
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
