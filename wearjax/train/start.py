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
        self, path: Path, *, kind: str, config: Any, model: nnx.Module, stats: NormalizationStats
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


def put_in(start: Any, state: TrainState, task: Task, *, where: str) -> TrainState:
    """The state with parameters taken from a bundle.

    Raises:
        CheckpointError: a parameter is missing, left over or of another shape.
    """
    given = states.named_leaves(states.split(start.model)[1])
    own = states.named_leaves((state.params, state.buffers))
    wanted = {_plain(name): leaf for name, leaf in own.items()}
    if start.kind != task.kind:
        prefixes = task.starts_from[start.kind]
        given = {n: leaf for n, leaf in given.items() if n.split(".")[0] in prefixes}
        asked = {n: leaf for n, leaf in wanted.items() if n.split(".")[0] in prefixes}
    else:
        trained = set(states.named_leaves(state.params))
        asked = {n: leaf for n, leaf in wanted.items() if n in trained or n in given}
    states.check_same_shapes(given, asked, where=where)
    # A copy: the first step donates its state, and the bundle's model belongs to the caller.
    filled = {
        name: jax.device_put(given[_plain(name)], leaf.sharding, may_alias=False)
        if _plain(name) in given
        else leaf
        for name, leaf in own.items()
    }
    params, buffers = states.unflatten(filled, (state.params, state.buffers))
    return dataclasses.replace(state, params=params, buffers=buffers)


def _plain(name: str) -> str:
    """Without the number of its part in (params, buffers)."""
    return name.split(".", 1)[1]
