"""One optimizer step and one evaluation, as pure functions over arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import NamedSharding

from wearjax.train.state import Blueprint, TrainState, split

Metrics = dict[str, jax.Array]
Batch = Mapping[str, jax.Array]


class Objective(Protocol):
    """What is minimised: the loss of a model on a batch, and scalars worth logging."""

    def __call__(
        self, model: nnx.Module, batch: Batch, *, key: jax.Array, train: bool
    ) -> tuple[jax.Array, Metrics]: ...


def train_step(
    blueprint: Blueprint,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    *,
    seed: int,
) -> Callable[[TrainState, Batch], tuple[TrainState, Metrics]]:
    """The step `(state, batch) -> (state, metrics)`; its randomness is a function of the seed and
    `state.step`.

    The loss is taken over the whole (global) batch, so that the compiler puts the sum over devices where it
    belongs. A per-device strategy (pmap, shard_map) has to reduce `gradients` over its axis before `update`.
    """
    base = jax.random.key(seed)

    def gradients(state: TrainState, batch: Batch) -> tuple[nnx.State, nnx.State, Metrics]:
        key = jax.random.fold_in(base, state.step)

        def loss_of(params: nnx.State) -> tuple[jax.Array, tuple[nnx.State, Metrics]]:
            model = blueprint.model(params, state.buffers, key=key)
            loss, metrics = objective(model, batch, key=key, train=True)
            return loss, (split(model)[3], {"loss": loss, **metrics})

        (_, (buffers, metrics)), grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        return grads, buffers, metrics

    def update(state: TrainState, grads: nnx.State, buffers: nnx.State) -> TrainState:
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        return TrainState(state.step + 1, optax.apply_updates(state.params, updates), buffers, opt_state)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        grads, buffers, metrics = gradients(state, batch)
        measured = {"grad_norm": optax.tree.norm(grads), "learning_rate": schedule(state.step)}
        return update(state, grads, buffers), _as_float32(metrics | measured)

    return step


def validation_step(
    blueprint: Blueprint, objective: Objective, *, seed: int
) -> Callable[[nnx.State, nnx.State, Batch, jax.Array], Metrics]:
    """Metrics of a batch without training; batch number n always gets the same key."""
    # A stream of its own: step n of training must not share its key with batch n of validation.
    base = jax.random.fold_in(jax.random.key(seed), 0x76616C)

    def evaluate(params: nnx.State, buffers: nnx.State, batch: Batch, number: jax.Array) -> Metrics:
        key = jax.random.fold_in(base, number)
        loss, metrics = objective(blueprint.model(params, buffers, key=key), batch, key=key, train=False)
        return _as_float32({"loss": loss, **metrics})

    return evaluate


def compile_train_step(
    step: Callable, *, state_sharding: NamedSharding, batch_sharding: NamedSharding
) -> Any:
    """The step compiled over the mesh of its shardings; the state passed in is used up (donated)."""
    return jax.jit(
        step,
        in_shardings=(state_sharding, batch_sharding),
        out_shardings=(state_sharding, state_sharding),
        donate_argnums=0,
    )


def compile_validation_step(
    step: Callable, *, state_sharding: NamedSharding, batch_sharding: NamedSharding
) -> Any:
    """The evaluation compiled over the mesh of its shardings."""
    return jax.jit(
        step,
        in_shardings=(state_sharding, state_sharding, batch_sharding, state_sharding),
        out_shardings=state_sharding,
    )


def _as_float32(metrics: Metrics) -> Metrics:
    return {name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()}
