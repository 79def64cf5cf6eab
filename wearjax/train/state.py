"""The state of training: everything that a step changes, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Sharding

from wearjax.errors import CheckpointError

Frozen = Callable[[tuple], bool] | None  # path of a parameter -> whether training leaves it as it is


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Changed by every step.

    Attributes:
        step: completed steps, int32 scalar.
        params: trained variables of the model.
        buffers: its other variables, e.g. frozen parameters and running statistics; random streams are not
            among them.
        opt_state: moments and counters of the optimizer.
    """

    step: jax.Array
    params: nnx.State
    buffers: nnx.State
    opt_state: optax.OptState


@dataclasses.dataclass(frozen=True)
class Blueprint:
    """The static side of a model: with a state it becomes the model again.

    Random streams that the model holds (e.g. of `nnx.Dropout`) are not stored anywhere: each step derives
    them from its own key.
    """

    graphdef: nnx.GraphDef
    streams: nnx.State
    frozen: Frozen = None

    def model(self, params: nnx.State, buffers: nnx.State, *, key: jax.Array) -> nnx.Module:
        """The module, with its random streams started from `key`."""
        leaves, tree = jax.tree.flatten(self.streams)
        fresh = [_fresh_stream(leaf, jax.random.fold_in(key, i)) for i, leaf in enumerate(leaves)]
        state = (params, jax.tree.unflatten(tree, fresh), buffers)
        return nnx.merge(self.graphdef, *state, copy=True)  # variables of this trace, which may be written to


def _fresh_stream(leaf: Any, key: jax.Array) -> jax.Array:
    if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.zeros(leaf.shape, leaf.dtype)  # how often the stream was used
    return jax.random.split(key, leaf.shape) if leaf.shape else key


def split(model: nnx.Module, frozen: Frozen = None) -> tuple[nnx.GraphDef, nnx.State, nnx.State, nnx.State]:
    """Graph definition, trained parameters, random streams, everything else (frozen parameters included)."""
    trained = nnx.Param if frozen is None else nnx.All(nnx.Param, lambda path, value: not frozen(path))
    graphdef, params, *others = nnx.split(model, trained, nnx.RngState, ...)
    return graphdef, params, others[0], others[1]


def blueprint(
    build: Callable[[nnx.Rngs], nnx.Module], *, frozen: Frozen = None
) -> tuple[Blueprint, nnx.State, nnx.State]:
    """Static side of a model, and the shapes of its trained and of its other variables; computes nothing."""
    graphdef, params, streams, buffers = split(nnx.eval_shape(lambda: build(nnx.Rngs(0))), frozen)
    return Blueprint(graphdef, streams, frozen), params, buffers


def initialiser(
    build: Callable[[nnx.Rngs], nnx.Module],
    optimizer: optax.GradientTransformation,
    *,
    seed: int,
    frozen: Frozen = None,
) -> Callable[[], TrainState]:
    """A function that makes the state before the first step; parameters depend on the seed only."""

    def make() -> TrainState:
        _, params, _, buffers = split(build(nnx.Rngs(seed)), frozen)
        return TrainState(jnp.zeros((), jnp.int32), params, buffers, optimizer.init(params))

    return make


def layout(
    make: Callable[[], TrainState], sharding: Callable[[str, tuple[int, ...]], Sharding]
) -> TrainState:
    """The sharding of every array of the state that `make` would make, chosen by name and shape."""
    shapes = jax.eval_shape(make)
    chosen = {name: sharding(name, leaf.shape) for name, leaf in named_leaves(shapes).items()}
    return unflatten(chosen, shapes)


def abstract(make: Callable[[], TrainState], shardings: TrainState) -> TrainState:
    """Shapes, types and shardings of the state that `make` would make; nothing is computed."""
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        jax.eval_shape(make),
        shardings,
    )


def place(make: Callable[[], TrainState], shardings: TrainState) -> TrainState:
    """Makes the state where it will live."""
    return jax.jit(make, out_shardings=shardings)()


def count(params: nnx.State) -> int:
    """Number of parameters."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params))


def named_leaves(tree: Any) -> dict[str, Any]:
    """Leaves by dotted name, e.g. `params.encoder.norm.scale`, in tree order."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): leaf for path, leaf in flat}


def _name(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")


def unflatten(leaves: dict[str, Any], like: Any) -> Any:
    """The tree `like` with its leaves taken by name."""
    flat, tree = jax.tree_util.tree_flatten_with_path(like)
    return jax.tree.unflatten(tree, [leaves[_name(path)] for path, _ in flat])


def check_same_shapes(found: dict[str, Any], wanted: dict[str, Any], *, where: str) -> None:
    """Raises CheckpointError naming the first parameter that is missing, left over or of another shape."""
    for name, leaf in wanted.items():
        if name not in found:
            raise CheckpointError(
                f"{where}: no parameter {name}, which the model has with shape {tuple(leaf.shape)}"
            )
        if tuple(found[name].shape) != tuple(leaf.shape):
            raise CheckpointError(
                f"{where}: {name} has shape {tuple(found[name].shape)}, the model needs {tuple(leaf.shape)}"
            )
    for name in found:
        if name not in wanted:
            raise CheckpointError(f"{where}: parameter {name} does not exist in the model")
