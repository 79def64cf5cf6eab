"""One optimizer step and one evaluation, as pure functions over arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import jax
import jax.numpy as jnp
import optax
from flax import nnx

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
    accumulate: int = 1,
    axis_name: str | None = None,
) -> Callable[[TrainState, Batch], tuple[TrainState, Metrics]]:
    """The step `(state, batch) -> (state, metrics)`; its randomness is a function of the seed and
    `state.step`.

    Under `jit` the loss is taken over the global batch, and the compiler puts the sums over devices where they
    belong.

    Args:
        accumulate: take the gradient as the mean over so many equal parts of the batch, one after another. A
            loss that relates examples (contrastive) or that divides by a count then sees a part at a time.
        axis_name: mapped axis of a per-device strategy (pmap): gradients are averaged over it. The objective
            must know the axis too, since its loss is still that of the global batch.
    """
    base = jax.random.key(seed)

    def gradients(params: nnx.State, buffers: nnx.State, batch: Batch, key: jax.Array):
        def loss_of(params: nnx.State) -> tuple[jax.Array, tuple[nnx.State, Metrics]]:
            model = blueprint.model(params, buffers, key=key)
            loss, metrics = objective(model, batch, key=key, train=True)
            return loss, (split(model, blueprint.frozen)[3], {"loss": loss, **metrics})

        (_, (buffers, metrics)), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        return grads, buffers, metrics

    def in_parts(state: TrainState, batch: Batch, key: jax.Array):
        # Rows i, i + k, … make part i, so that each device keeps the rows it has.
        parts = jax.tree.map(lambda x: x.reshape(-1, accumulate, *x.shape[1:]).swapaxes(0, 1), batch)

        def add(carry, part):
            grads, buffers = carry
            number, rows = part
            more, buffers, metrics = gradients(state.params, buffers, rows, jax.random.fold_in(key, number))
            return (jax.tree.map(jnp.add, grads, more), buffers), metrics

        zeros = jax.tree.map(jnp.zeros_like, state.params)
        (grads, buffers), metrics = jax.lax.scan(add, (zeros, state.buffers), (jnp.arange(accumulate), parts))
        grads = jax.tree.map(lambda g: g / accumulate, grads)
        return grads, buffers, jax.tree.map(lambda m: m.mean(axis=0), metrics)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(base, state.step)
        if accumulate == 1:
            grads, buffers, metrics = gradients(state.params, state.buffers, batch, key)
        else:
            grads, buffers, metrics = in_parts(state, batch, key)
        if axis_name is not None:
            grads = jax.lax.pmean(grads, axis_name)
        measured = {"grad_norm": optax.tree.norm(grads), "learning_rate": schedule(state.step)}
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return TrainState(state.step + 1, params, buffers, opt_state), _as_float32(metrics | measured)

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


def _as_float32(metrics: Metrics) -> Metrics:
    return {name: jnp.asarray(value, jnp.float32) for name, value in metrics.items()}
