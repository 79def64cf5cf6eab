"""How the devices share a step: one program over a mesh (`jit`), or one program a device (`pmap`).

Both take the same pure step and give the same losses. Between steps a state may have a form of its own; `whole` is
the form that checkpoints hold, so that a run may resume under the other strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from wearjax.batches import placement
from wearjax.train import host
from wearjax.train.state import TrainState
from wearjax.train.step import Batch, Metrics

AXIS = "data"  # of the mesh, and of the mapped step

Step = Callable[[TrainState, Batch], tuple[TrainState, Metrics]]


class Strategy(Protocol):
    """What the loop asks for."""

    def begin(self, state: TrainState) -> TrainState:
        """The state in the form that `step` takes; the one given is used up."""
        ...

    def place(self, batch: Mapping[str, np.ndarray]) -> Batch:
        """This process's rows of a batch on its devices."""
        ...

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        """One step; the state given is used up."""
        ...

    def whole(self, state: TrainState) -> TrainState:
        """The state in the form that checkpoints hold."""
        ...


class Jit:
    """The step compiled once over the mesh; the compiler moves data as the shardings of state and batch ask.

    Args:
        step: made for the global batch.
        layout: sharding of every array of the state.
    """

    def __init__(self, step: Step, *, mesh: Mesh, layout: TrainState):
        self._batch = placement.batch_sharded(mesh)
        self.compiled = jax.jit(
            step,
            in_shardings=(layout, self._batch),
            out_shardings=(layout, placement.replicated(mesh)),
            donate_argnums=0,
            compiler_options=host.compiler_options(mesh.devices.flat[0].platform),
        )

    def begin(self, state: TrainState) -> TrainState:
        return state

    def place(self, batch: Mapping[str, np.ndarray]) -> Batch:
        return placement.place(batch, self._batch)

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        return self.compiled(state, batch)

    def whole(self, state: TrainState) -> TrainState:
        return state


class Pmap:
    """The step mapped over the devices: each holds the whole state and a part of the batch.

    Args:
        step: made with `axis_name=AXIS`, as its objective.
    """

    def __init__(self, step: Step, *, mesh: Mesh):
        self._devices = list(mesh.devices.flat)
        self._here = [d for d in self._devices if d.process_index == jax.process_index()]
        self._stacked = NamedSharding(
            Mesh(np.asarray(self._devices), (AXIS,)), jax.sharding.PartitionSpec(AXIS)
        )
        self.compiled = jax.pmap(step, axis_name=AXIS, devices=self._devices, donate_argnums=0)

    def begin(self, state: TrainState) -> TrainState:
        return jax.tree.map(self._copies, state)

    def _copies(self, leaf: jax.Array) -> jax.Array:
        # Each device's copy lies there already under a replicated sharding; only its shape changes.
        held = {shard.device: shard.data[None] for shard in leaf.addressable_shards}
        shape = (len(self._devices), *leaf.shape)
        return jax.make_array_from_single_device_arrays(
            shape, self._stacked, [held[device] for device in self._here]
        )

    def place(self, batch: Mapping[str, np.ndarray]) -> Batch:
        apart = {name: rows.reshape(len(self._here), -1, *rows.shape[1:]) for name, rows in batch.items()}
        return placement.place(apart, self._stacked)

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        state, metrics = self.compiled(state, batch)
        return state, jax.tree.map(_first, metrics)

    def whole(self, state: TrainState) -> TrainState:
        return jax.tree.map(self._joined, state)

    def _joined(self, leaf: jax.Array) -> jax.Array:
        mesh = self._stacked.mesh
        shards = [shard.data[0] for shard in leaf.addressable_shards]
        everywhere = NamedSharding(mesh, jax.sharding.PartitionSpec())
        return jax.make_array_from_single_device_arrays(leaf.shape[1:], everywhere, shards)


def _first(leaf: jax.Array) -> Any:
    """This process's first copy; indexing the mapped array would gather all of them."""
    return leaf.addressable_shards[0].data[0]


def compile_validation_step(step: Callable, *, mesh: Mesh, layout: TrainState) -> Any:
    """The evaluation compiled over the mesh."""
    everywhere = placement.replicated(mesh)
    return jax.jit(
        step,
        in_shardings=(layout.params, layout.buffers, placement.batch_sharded(mesh), everywhere),
        out_shardings=everywhere,
    )
