"""Where the parameters of a new run come from: the seed, or a trained bundle."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Protocol

import jax
from flax import nnx

from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError
from wearjax.train import state as states
from wearjax.train.state import TrainState
from wearjax.train.tasks import Task


class BundleFormat(Protocol):
    """Writes and reads trained models; `wearjax.convert.bundle` is one. Given by the caller, since converting
    is a later station than training."""

    def save_bundle(
        self,
        path: Path,
        *,
        kind: str,
        config: Any,
        model: nnx.Module,
        stats: NormalizationStats,
        origin: dict[str, Any],
    ) -> Any: ...

    def load_bundle(self, path: str | os.PathLike) -> Any: ...


def read_start(init_from: str | None, task: Task, bundles: BundleFormat | None) -> Any:
    """The bundle that a run starts from; None starts from the seed.

    Raises:
        ConfigError: the task cannot start from that kind of model, or not without one.
    """
    if init_from is None:
        if task.needs_start:
            kinds = " or ".join(sorted(task.starts_from))
            raise ConfigError(
                f"loop.init_from: a model of kind {task.kind} starts from a trained {kinds}; give its bundle"
            )
        return None
    if bundles is None:
        raise ConfigError("loop.init_from: pretrain() was given no bundle format to read it with")
    found = bundles.load_bundle(init_from)
    if found.kind != task.kind and found.kind not in task.starts_from:
        raise ConfigError(
            f"loop.init_from: {init_from} holds a {found.kind}, from which a {task.kind} cannot start"
        )
    return found


def keeps_statistics(start: Any, task: Task) -> bool:
    """Whether a run goes on with the normalization of its start: frozen layers know no other."""
    return start is not None and start.kind != task.kind


def check(start: Any, state: TrainState, task: Task, *, where: str) -> None:
    """Raises CheckpointError when a parameter is missing, left over or of another shape; shapes suffice."""
    given, own = _given(start, task), _own(state)
    if start.kind != task.kind:
        asked = {n: leaf for n, leaf in own.items() if n.split(".")[0] in task.starts_from[start.kind]}
    else:
        trained = set(states.named_leaves(state.params))
        asked = {n: leaf for n, leaf in own.items() if n in trained or n in given}
    states.check_same_shapes(given, asked, where=where)


def _given(start: Any, task: Task) -> dict[str, Any]:
    """Parameters taken from a bundle, by name."""
    found = states.named_leaves(states.split(start.model)[1])
    if start.kind == task.kind:
        return found
    return {n: leaf for n, leaf in found.items() if n.split(".")[0] in task.starts_from[start.kind]}


def _own(state: TrainState) -> dict[str, Any]:
    return states.named_leaves(state.params) | states.named_leaves(state.buffers)


def put_in(start: Any, state: TrainState, task: Task) -> TrainState:
    """The state with parameters taken from a bundle that was checked."""
    given = _given(start, task)
    # A copy: the first step donates its state, and the bundle's model belongs to the caller.
    filled = {
        name: jax.device_put(given[name], leaf.sharding, may_alias=False) if name in given else leaf
        for name, leaf in _own(state).items()
    }
    params, buffers = (states.unflatten(filled, part) for part in (state.params, state.buffers))
    return dataclasses.replace(state, params=params, buffers=buffers)
